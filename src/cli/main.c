/* main.c - the command: which sub-command, its help, and how it ends. Every failure is one line on
 * standard error and the status as exit code. */
#include "cli/command.h"

#include "base/host.h"
#include "base/nearest.h"
#include "device/device.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* A command as it is typed: `train lm`, `decode`. */
typedef struct main_command {
    const char *name, *model; /* "train", "lm"; model NULL: the command takes none */
    const model_kind *kind;   /* NULL: of no kind */
    option_command id;
    int n_words; /* arguments that are no options, all required; below 0: so many, or more */
    ebb_status (*run)(cli_call *call);
    const char *usage, *summary, *details;
} main_command;

/* What every kind of model takes part in, if it says so. */
static const struct {
    const char *name;
    option_command id;
    ebb_status (*run)(cli_call *call);
} of_kinds[] = {{"train", FOR_TRAIN, ebb__cli_train},
                {"plan", FOR_PLAN, ebb__cli_plan},
                {"bench", FOR_BENCH, ebb__cli_bench},
                {"tune", FOR_TUNE, ebb__cli_tune},
                {"eval", FOR_EVAL, ebb__cli_eval}};

static const main_command others[] = {
    {"eval", "bleu", NULL, FOR_SCORE, -2, ebb__cli_bleu, "eval bleu HYP REF... [options]",
     "BLEU of translations",
     "Compares the translations in the file HYP with the references in REF, line by\n"
     "line; of several REF files each has a reference of every line. The number is\n"
     "that of sacreBLEU. Text that is tokenised already needs --tok none.\n"},
    {"eval", "chrf", NULL, FOR_CHRF, -2, ebb__cli_chrf, "eval chrf HYP REF... [options]",
     "the same by characters: chrF",
     "Compares the translations in the file HYP with the references in REF, line by\n"
     "line, by their characters; of several REF files the best reference of a line\n"
     "counts. The number is that of sacreBLEU.\n"},
    {"decode", NULL, NULL, FOR_DECODE, 1, ebb__cli_decode, "decode DIR [options] <SRC >HYP",
     "translate with a trained model",
     "Translates standard input to standard output, line by line, with the best\n"
     "weights of the run in the folder DIR. Lines are answered as they come.\n"},
    {"generate", NULL, NULL, FOR_GENERATE, 1, ebb__cli_generate, "generate DIR [options]",
     "let a trained model write text",
     "Writes text with the best weights of the run in the folder DIR.\n"},
    {"predict", NULL, NULL, FOR_PREDICT, -2, ebb__cli_predict, "predict DIR IMAGE... [options]",
     "what images show, by a trained net",
     "Says what PNG and JPEG files show, by the best weights of the run in the folder\n"
     "DIR: a line an image, the likeliest classes with their probabilities.\n"},
    {"average", NULL, NULL, FOR_AVERAGE, -2, ebb__cli_average, "average WEIGHTS... OUT [options]",
     "the mean of weights of one model",
     "Writes the mean of several safetensors files of one model to the file OUT, to be\n"
     "used with --weights OUT. Of the folder of a run its best weights are meant;\n"
     "train with --keep N leaves the last N to average: ebb average run/step-* mean.\n"},
    {"report", NULL, NULL, FOR_REPORT, 2, ebb__cli_report, "report DIR FILE.html [options]",
     "a page about a run",
     "Writes a page about the run in the folder DIR that needs nothing else: the bytes\n"
     "of a step, time against memory, how training went, translations or what is taken\n"
     "for what, all settings.\n"},
    {"devices", NULL, NULL, FOR_DEVICES, 0, ebb__cli_devices, "devices [options]",
     "what can compute here",
     "Lists what --device can name: each device with its memory, the most of it that can\n"
     "be had in one piece, and why it cannot be used, if so.\n"},
    {"inspect", NULL, NULL, FOR_INSPECT, 1, ebb__cli_inspect, "inspect FILE|NET [options]",
     "what a safetensors file holds; a net as text",
     "Checks a safetensors file whole and lists what it holds. Of a net, by its name\n"
     "or in a file (.txt, darknet's .cfg), prints the layers as text (docs/nets.md).\n"},
    {"data", "grammar", NULL, FOR_DATA, 1, ebb__cli_data_grammar, "data grammar FILE [options]",
     "write a text to try things on",
     "Writes sentences of a toy English grammar to FILE, one a line.\n"},
    {"data", "dates", NULL, FOR_DATA, 2, ebb__cli_data_dates, "data dates SRC TGT [options]",
     "write a translation task to try things on",
     "Writes dates in English to SRC and, line by line, the same dates as ISO 8601 has\n"
     "them to TGT.\n"},
    {"data", "codes", NULL, FOR_CODES, -3, ebb__cli_data_codes,
     "data codes learn FILE... OUT --codes N", "byte-pair codes, as subword-nmt has them",
     "Learns N pairs of pieces from texts and writes them to OUT, or cuts the words of\n"
     "a text into pieces with codes that are given:\n\n"
     "  ebb data codes learn FILE... OUT --codes N\n"
     "  ebb data codes apply CODES FILE OUT\n\n"
     "A piece that is not the last of its word ends in @@. - is standard input or\n"
     "output. Files and pieces are those of subword-nmt. train --tokens bpe does both\n"
     "by itself.\n"},
    {"data", "plan", NULL, FOR_DATA_PLAN, 0, ebb__cli_data_plan,
     "data plan --lm FILE | --nmt SRC TGT", "which shapes batches are best padded to",
     "Counts how long the sentences of a text are, or of two texts line by line, and\n"
     "compares ways to group them: what share of a batch is padding, and how long an\n"
     "epoch of the model would take. Takes the model options of train lm or, with\n"
     "--nmt, of train nmt; ebb data plan --nmt --help lists those.\n"},
    {"data", "build", NULL, FOR_DATA_BUILD, 0, ebb__cli_data_build,
     "data build --lm FILE | --nmt SRC TGT | --cnn PATH",
     "make the files that training reads, ahead",
     "Makes what training would make first, in the folder --out: vocabularies, and\n"
     "texts as token files; with --cnn, images decoded once and brought to one size.\n"
     "ebb train with the same data and the same of these options finds them there.\n"
     "What is whole stays; files that are stale or damaged are made again. A folder\n"
     "with a run of other data or another vocabulary is refused. With --nmt or --cnn\n"
     "the options are those of translation or of nets; ebb data build --nmt --help\n"
     "lists them.\n"},
};

enum { N_OTHERS = sizeof others / sizeof *others, MOST_COMMANDS = 64 };

/* All commands, those with one name side by side. */
typedef struct main_list {
    main_command at[MOST_COMMANDS];
    size_t n;
} main_list;

static void add_kinds(main_list *list, size_t verb) {
    for (size_t k = 0; k < ebb__kind_count(); k++) {
        const model_kind *kind = ebb__kind_at(k);
        for (size_t i = 0; i < kind->n_commands; i++) {
            const kind_command *c = &kind->commands[i];
            if (c->command == of_kinds[verb].id && list->n < MOST_COMMANDS - N_OTHERS) {
                list->at[list->n++] = (main_command){
                    of_kinds[verb].name, kind->name, kind,       c->command, c->n_words,
                    of_kinds[verb].run,  c->usage,   c->summary, c->details};
            }
        }
    }
}

static main_list list_commands(void) {
    main_list list = {.n = 0};
    for (size_t verb = 0; verb < sizeof of_kinds / sizeof *of_kinds; verb++) {
        add_kinds(&list, verb);
    }
    for (size_t i = 0; i < N_OTHERS; i++) {
        list.at[list.n++] = others[i];
    }
    return list;
}

static const char *command_at(const void *user, size_t index) {
    return ((const main_list *)user)->at[index].name;
}

/* The first of that name; with a model, the one of that kind. */
static const main_command *find_command(const main_list *list, const char *name,
                                        const char *model) {
    for (size_t i = 0; i < list->n; i++) {
        const main_command *c = &list->at[i];
        if (strcmp(c->name, name) == 0 &&
            (model == NULL || (c->model != NULL && strcmp(c->model, model) == 0))) {
            return c;
        }
    }
    return NULL;
}

/* Of `data plan` and `data build` the kind of model is an option. */
static bool has_option(int argc, char **argv, const char *name) {
    size_t n = strlen(name);
    bool found = false;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        found = found || (strncmp(argv[i], "--", 2) == 0 && strncmp(argv[i] + 2, name, n) == 0 &&
                          (argv[i][2 + n] == '\0' || argv[i][2 + n] == '='));
    }
    return found;
}

/* The kind whose options the command has: its own, the one that is asked for, or that can do it. */
static const model_kind *kind_of(const main_command *command, int argc, char **argv) {
    bool data = command->id == FOR_DATA_PLAN || command->id == FOR_DATA_BUILD;
    for (size_t i = 0; command->kind == NULL && i < ebb__kind_count(); i++) {
        const model_kind *kind = ebb__kind_at(i);
        if ((data && has_option(argc, argv, kind->name)) ||
            (command->id == FOR_DECODE && kind->decode != NULL) ||
            (command->id == FOR_GENERATE && kind->generate != NULL) ||
            (command->id == FOR_PREDICT && kind->predict != NULL)) {
            return kind;
        }
    }
    return command->kind != NULL ? command->kind : ebb__kind_at(0);
}

static void print_overview(const main_list *list, FILE *file) {
    (void)fprintf(file,
                  "ebb trains recurrent language and translation models, and convolutional nets,\n"
                  "in the memory you have.\n\nusage:\n");
    for (size_t i = 0; i < list->n; i++) {
        (void)fprintf(file, "  ebb %-36s %s\n", list->at[i].usage, list->at[i].summary);
    }
    (void)fprintf(file, "  ebb %-36s %s\n  ebb %-36s %s\n", "help COMMAND",
                  "what a command does, all its options", "--version",
                  "version, processor, libraries");
    (void)fprintf(file, "\nexample:\n"
                        "  ebb train lm --train text.txt --valid more.txt --memory 512M --out run\n"
                        "  ebb generate run\n");
}

static void print_help(const main_command *command, const model_kind *kind) {
    printf("usage: ebb %s\n\n%s", command->usage, command->details);
    ebb__cli_help_options(command->id, kind);
    printf("\nA switch is turned off again by --no-NAME. Exit codes: 0 done, 1 internal error,\n"
           "2 wrong usage, 3 bad data, 4 does not fit the budget, 5 bad model or checkpoint,\n"
           "6 diverged, 7 input or output failed, 8 the system gave no memory, 9 a process\n"
           "was lost, 75 stopped by a signal with state saved.\n");
}

/* Whether the command after this one in the list has the same name. */
static bool has_kinds(const main_list *list, const main_command *command) {
    return command + 1 < list->at + list->n && strcmp(command[1].name, command->name) == 0;
}

static void print_kinds(const main_list *list, const main_command *command) {
    const char *name = command->name;
    printf("usage:\n");
    for (; command < list->at + list->n && strcmp(command->name, name) == 0; command++) {
        printf("  ebb %-36s %s\n", command->usage, command->summary);
    }
    printf("\nebb help %s KIND lists the options of one.\n", name);
}

/* "lm or nmt" */
typedef struct kind_names {
    char text[96];
} kind_names;

static kind_names names_of_kinds(const main_list *list, const main_command *command) {
    kind_names names = {""};
    size_t used = 0;
    const char *name = command->name;
    for (const main_command *c = command; c < list->at + list->n && strcmp(c->name, name) == 0;
         c++) {
        bool last = !has_kinds(list, c);
        int n = snprintf(names.text + used, sizeof names.text - used, "%s%s",
                         c == command ? ""
                         : last       ? " or "
                                      : ", ",
                         c->model);
        used += n > 0 && (size_t)n < sizeof names.text - used ? (size_t)n : 0;
    }
    return names;
}

static void print_version(void) {
    char line[512] = "";
    ebb__device_default()->describe(ebb__device_default(), line, sizeof line);
    printf("ebb %s\n%s\n", ebb_version(), line);
}

static ebb_status need_command(ebb_ctx *ctx, const main_list *list, const char *name,
                               const main_command **out) {
    *out = find_command(list, name, NULL);
    if (*out == NULL) {
        return ebb__fail(ctx, EBB_USAGE, "unknown command '%.60s'; did you mean %s? (ebb --help)",
                         name, ebb__nearest(name, command_at, list, list->n));
    }
    return EBB_OK;
}

/* `user`: the first command of the name. */
static const char *model_at(const void *user, size_t index) {
    const main_command *command = user;
    return command[index].model;
}

/* The word after the command: which model (for data: which text). */
static ebb_status check_model(ebb_ctx *ctx, const main_list *list, const main_command **out,
                              int argc, char **argv) {
    const main_command *command = *out;
    if (command->model == NULL) {
        return EBB_OK;
    }
    if (argc == 0 || argv[0][0] == '-') {
        return ebb__fail(ctx, EBB_USAGE, "ebb %s: say which: %s (ebb help %s)", command->name,
                         names_of_kinds(list, command).text, command->name);
    }
    *out = find_command(list, command->name, argv[0]);
    if (*out == NULL) {
        size_t n = 1;
        while (has_kinds(list, command + n - 1)) {
            n++;
        }
        return ebb__fail(ctx, EBB_USAGE,
                         "ebb %s: unknown kind '%.60s'; did you mean %s? There are %s",
                         command->name, argv[0], ebb__nearest(argv[0], model_at, command, n),
                         names_of_kinds(list, command).text);
    }
    return EBB_OK;
}

/* All that can be done with a kind of model. */
static void print_commands(const main_list *list, const model_kind *kind) {
    const char *const uses[] = {kind->decode != NULL ? "decode" : "",
                                kind->generate != NULL ? "generate" : "",
                                kind->predict != NULL ? "predict" : "", "report"};
    printf("usage:\n");
    for (size_t i = 0; i < list->n; i++) {
        const main_command *c = &list->at[i];
        bool of_kind = c->kind == kind;
        for (size_t u = 0; u < sizeof uses / sizeof *uses; u++) {
            of_kind = of_kind || strcmp(uses[u], c->name) == 0;
        }
        if (of_kind) {
            printf("  ebb %-36s %s\n", c->usage, c->summary);
        }
    }
    printf("\nebb help train %s lists the options of training.\n", kind->name);
}

static ebb_status help_for(ebb_ctx *ctx, const main_list *list, int argc, char **argv) {
    const main_command *command = NULL;
    if (argc == 0) {
        print_overview(list, stdout);
        return EBB_OK;
    }
    if (argc == 1 && ebb__kind_find(argv[0]) != NULL) {
        print_commands(list, ebb__kind_find(argv[0]));
        return EBB_OK;
    }
    TRY(need_command(ctx, list, argv[0], &command));
    if (argc == 1 && has_kinds(list, command)) {
        print_kinds(list, command);
        return EBB_OK;
    }
    if (argc > 1) {
        TRY(check_model(ctx, list, &command, argc - 1, argv + 1));
    }
    print_help(command, kind_of(command, argc - 1, argv + 1));
    return EBB_OK;
}

static ebb_status run_command(cli_call *call, const main_list *list, const main_command *command,
                              int argc, char **argv) {
    bool help = false;
    char called[32];
    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)) {
        if (has_kinds(list, command)) {
            print_kinds(list, command);
        } else {
            print_help(command, kind_of(command, argc, argv));
        }
        return EBB_OK;
    }
    TRY(check_model(call->ctx, list, &command, argc, argv));
    const model_kind *kind = kind_of(command, argc, argv);
    int skip = command->model != NULL;
    (void)snprintf(called, sizeof called, "%s%s%s", command->name, skip ? " " : "",
                   skip ? command->model : "");
    int least = abs(command->n_words), most = command->n_words < 0 ? argc : least;
    TRY(ebb__cli_settings_init(call->ctx, kind, &call->settings));
    TRY(ebb__region_alloc(&call->settings.region, (size_t)argc + 1, sizeof *call->words,
                          &call->words));
    TRY(ebb__cli_parse(&call->settings, command->id, called, argc - skip, argv + skip, call->words,
                       most, &call->n_words, &help));
    if (help) {
        print_help(command, kind);
        return EBB_OK;
    }
    if (call->n_words < least) {
        return ebb__fail(call->ctx, EBB_USAGE, "an argument is missing: ebb %s", command->usage);
    }
    call->settings.run.link = call->link;
    call->settings.quiet = call->settings.quiet || ebb__cli_is_follower(call);
    ebb__cli_progress_init(&call->progress, &call->settings);
    call->settings.run.dump = ebb__cli_print_graph;
    call->settings.run.dump_user =
        command->id == FOR_PLAN && !call->settings.json ? stdout : stderr;
    ebb_ctx_on_log(call->ctx, ebb__cli_log, &call->progress);
    ebb__cli_find_tuning(&call->settings, command->id);
    TRY(ebb__cli_open_device(call));
    return command->run(call);
}

static ebb_status dispatch(cli_call *call, int argc, char **argv) {
    const main_list list = list_commands();
    const main_command *command = NULL;
    if (argc < 2) {
        print_overview(&list, stderr);
        return EBB_USAGE;
    }
    const char *first = argv[1];
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "help") == 0) {
        return help_for(call->ctx, &list, argc - 2, argv + 2);
    }
    if (strcmp(first, "--version") == 0) {
        print_version();
        return EBB_OK;
    }
    TRY(need_command(call->ctx, &list, first, &command));
    TRY(ebb__cli_join_ranks(call, command->id));
    return run_command(call, &list, command, argc - 2, argv + 2);
}

/* One line, whatever a file name or a file put into the message; in one piece, lest what mpirun
 * says comes between. */
static void print_error(const char *message) {
    char line[2048] = "ebb: ";
    size_t n = strlen(line);
    for (; *message != '\0' && n + 2 < sizeof line; message++) {
        line[n++] = (char)((unsigned char)*message < ' ' || *message == 0x7f ? '?' : *message);
    }
    line[n] = '\n';
    (void)fwrite(line, 1, n + 1, stderr);
}

/* Freed memory goes back to the system: what planning took must not stay resident beside the arena.
 * By itself malloc raises these limits with what it sees freed. */
static void give_back_memory(void) {
    (void)mallopt(M_MMAP_THRESHOLD, 64 << 10);
    (void)mallopt(M_TRIM_THRESHOLD, 64 << 10);
}

int main(int argc, char **argv) {
    give_back_memory();
    cli_call call = {0};
    bool quiet = argc < 2;
    ebb__cli_guard_streams();
    (void)signal(SIGPIPE, SIG_IGN); /* a reader that has gone must not end a training run */
    (void)signal(SIGXFSZ, SIG_IGN); /* a file too large for the limits is an error, not the end */
    ebb_status status = ebb_ctx_new(&call.ctx);
    if (status != EBB_OK) {
        print_error(ebb_status_text(status));
        return (int)status;
    }
    call.ctx->command = true;
    status = dispatch(&call, argc, argv);
    if (status == EBB_OK || status == EBB_BUDGET) {
        ebb_status flushed = ebb__cli_flush(call.ctx, &quiet);
        status = status == EBB_OK ? flushed : status;
    }
    bool here = status != EBB_OK && ebb__cli_end_together(&call, status);
    if (here && !quiet && !ebb__cli_is_follower(&call)) {
        const char *message = ebb_last_error(call.ctx);
        print_error(message[0] != '\0' ? message : ebb_status_text(status));
    }
    status = ebb__cli_leave_ranks(&call, status, quiet, print_error);
    ebb__cli_settings_fini(&call.settings);
    ebb__device_close(call.dev);
    ebb_ctx_free(call.ctx);
    return (int)status;
}
