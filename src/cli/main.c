/* main.c - the command: which sub-command, its help, and how it ends. Every failure is one line on
 * standard error and the status as exit code. */
#include "cli/command.h"

#include "base/host.h"
#include "device/device.h"

#include <malloc.h>
#include <signal.h>
#include <string.h>

typedef struct main_command {
    const char *name, *model; /* "train", "lm"; model NULL: the command takes none */
    cli_command id;
    int n_words; /* arguments that are no options, all required */
    ebb_status (*run)(cli_call *call);
    const char *usage, *summary, *details;
} main_command;

static const main_command commands[] = {
    {"train", "lm", CLI_TRAIN, 0, ebb__cli_train, "train lm --train FILE [options]",
     "train a language model, or go on",
     "Trains a recurrent language model on a text, in no more memory than --memory\n"
     "says. Prints the plan first, then progress. The folder --out holds the weights\n"
     "(best.safetensors, last.safetensors), metrics.jsonl, vocab.txt and config. Run\n"
     "again after any interruption, the same command goes on where it stopped and\n"
     "ends with the same bits.\n"},
    {"train", "nmt", CLI_TRAIN, 0, ebb__cli_train, "train nmt --train SRC TGT [options]",
     "train a translation model, or go on",
     "Trains a recurrent translation model with attention on two texts, line by line,\n"
     "in no more memory than --memory says. Otherwise like train lm; vocabularies are\n"
     "vocab.src.txt and vocab.tgt.txt, with --tie-src vocab.txt.\n"},
    {"plan", "lm", CLI_PLAN, 0, ebb__cli_plan, "plan lm [options of train lm]",
     "what that would take: bytes and seconds",
     "Plans the run that the same options of train lm would make, without training.\n"
     "Without --train the vocabulary has --vocab tokens.\n"},
    {"plan", "nmt", CLI_PLAN, 0, ebb__cli_plan, "plan nmt [options of train nmt]",
     "the same of a translation model",
     "Plans the run that the same options of train nmt would make, without training.\n"
     "Without --train the vocabularies have --vocab tokens, and all sentences the\n"
     "lengths --src-len and --tgt-len.\n"},
    {"bench", "lm", CLI_BENCH, 0, ebb__cli_bench, "bench lm [options]",
     "time training steps on random tokens",
     "Runs 2 steps to warm up and --steps timed ones on random tokens.\n"},
    {"bench", "nmt", CLI_BENCH, 0, ebb__cli_bench, "bench nmt [options]",
     "the same of a translation model",
     "Runs 2 steps to warm up and --steps timed ones on random tokens, all sentences\n"
     "of full length. Words are those of targets.\n"},
    {"tune", "lm", CLI_TUNE, 0, ebb__cli_tune, "tune lm [options of bench lm]",
     "measure this machine ahead of time",
     "Times every way to carry out the products of a model, and stores what it finds\n"
     "for runs to come. train and bench do the same by themselves, for 5 seconds, the\n"
     "first time. Without a size the models of docs/results.md are tuned.\n"},
    {"tune", "nmt", CLI_TUNE, 0, ebb__cli_tune, "tune nmt [options of bench nmt]",
     "the same of a translation model",
     "Times every way to carry out the products of a model, and stores what it finds\n"
     "for runs to come.\n"},
    {"eval", "lm", CLI_EVAL, 2, ebb__cli_eval, "eval lm DIR FILE [options]",
     "perplexity of a trained model on a text",
     "Measures the best weights of the run in the folder DIR on the text FILE.\n"},
    {"eval", "nmt", CLI_EVAL, 3, ebb__cli_eval_nmt, "eval nmt DIR SRC TGT [options]",
     "the same of a translation model",
     "Measures how well the best weights of the run in the folder DIR predict the\n"
     "lines of TGT, the translations of those of SRC.\n"},
    {"eval", "bleu", CLI_SCORE, 2, ebb__cli_bleu, "eval bleu HYP REF [options]",
     "BLEU of translations",
     "Compares the translations in the file HYP with the references in REF, line by\n"
     "line. The number is that of sacreBLEU. Text that is tokenised already needs\n"
     "--tok none.\n"},
    {"eval", "chrf", CLI_CHRF, 2, ebb__cli_chrf, "eval chrf HYP REF [options]",
     "the same by characters: chrF",
     "Compares the translations in the file HYP with the references in REF, line by\n"
     "line, by their characters. The number is that of sacreBLEU.\n"},
    {"decode", NULL, CLI_DECODE, 1, ebb__cli_decode, "decode DIR [options] <SRC >HYP",
     "translate with a trained model",
     "Translates standard input to standard output, line by line, with the best\n"
     "weights of the run in the folder DIR. Lines are answered as they come.\n"},
    {"generate", NULL, CLI_GENERATE, 1, ebb__cli_generate, "generate DIR [options]",
     "let a trained model write text",
     "Writes text with the best weights of the run in the folder DIR.\n"},
    {"report", NULL, CLI_REPORT, 2, ebb__cli_report, "report DIR FILE.html [options]",
     "a page about a run",
     "Writes a page about the run in the folder DIR that needs nothing else: the bytes\n"
     "of a step, time against memory, how training went, translations, all settings.\n"},
    {"inspect", NULL, CLI_INSPECT, 1, ebb__cli_inspect, "inspect FILE [options]",
     "what a safetensors file holds", "Checks a safetensors file whole and lists what it holds.\n"},
    {"data", "grammar", CLI_DATA, 1, ebb__cli_data_grammar, "data grammar FILE [options]",
     "write a text to try things on",
     "Writes sentences of a toy English grammar to FILE, one a line.\n"},
    {"data", "dates", CLI_DATA, 2, ebb__cli_data_dates, "data dates SRC TGT [options]",
     "write a translation task to try things on",
     "Writes dates in English to SRC and, line by line, the same dates as ISO 8601 has\n"
     "them to TGT.\n"},
    {"data", "plan", CLI_DATA_PLAN, 0, ebb__cli_data_plan, "data plan --lm FILE | --nmt SRC TGT",
     "which shapes batches are best padded to",
     "Counts how long the sentences of a text are, or of two texts line by line, and\n"
     "compares ways to group them: what share of a batch is padding, and how long an\n"
     "epoch of the model would take. Takes the model options of train lm or, with\n"
     "--nmt, of train nmt; ebb data plan --nmt --help lists those.\n"},
    {"data", "build", CLI_DATA_BUILD, 0, ebb__cli_data_build,
     "data build --lm FILE | --nmt SRC TGT", "make the files that training reads, ahead",
     "Makes what training would make first, in the folder --out: vocabularies, and\n"
     "texts as token files. ebb train with the same texts and the same of these\n"
     "options finds them there. What is whole stays; token files that are stale or\n"
     "damaged are made again. A folder with a run of other texts or another\n"
     "vocabulary is refused. With --nmt the options are those of translation;\n"
     "ebb data build --nmt --help lists them.\n"},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static const char *command_at(const void *user, size_t index) {
    (void)user;
    return commands[index].name;
}

/* The first of that name; with a model, the one of that kind. */
static const main_command *find_command(const char *name, const char *model) {
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0 &&
            (model == NULL ||
             (commands[i].model != NULL && strcmp(commands[i].model, model) == 0))) {
            return &commands[i];
        }
    }
    return NULL;
}

/* Of `data plan` and `data build` the kind of model is an option. */
static bool has_nmt(int argc, char **argv) {
    bool found = false;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        found = found || strcmp(argv[i], "--nmt") == 0 || strncmp(argv[i], "--nmt=", 6) == 0;
    }
    return found;
}

static train_model model_of(const main_command *command, int argc, char **argv) {
    bool nmt =
        command->id == CLI_DECODE ||
        (command->model != NULL && strcmp(command->model, "nmt") == 0) ||
        ((command->id == CLI_DATA_PLAN || command->id == CLI_DATA_BUILD) && has_nmt(argc, argv));
    return nmt ? MODEL_NMT : MODEL_LM;
}

static void print_overview(FILE *file) {
    (void)fprintf(
        file,
        "ebb trains recurrent language and translation models in the memory you have.\n\nusage:\n");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        (void)fprintf(file, "  ebb %-36s %s\n", commands[i].usage, commands[i].summary);
    }
    (void)fprintf(file, "  ebb %-36s %s\n  ebb %-36s %s\n", "help COMMAND",
                  "what a command does, all its options", "--version",
                  "version, processor, libraries");
    (void)fprintf(file, "\nexample:\n"
                        "  ebb train lm --train text.txt --valid more.txt --memory 512M --out run\n"
                        "  ebb generate run\n");
}

static void print_help(const main_command *command, train_model model) {
    printf("usage: ebb %s\n\n%s", command->usage, command->details);
    ebb__cli_help_options(command->id, model);
    printf("\nA switch is turned off again by --no-NAME. Exit codes: 0 done, 1 internal error,\n"
           "2 wrong usage, 3 bad data, 4 does not fit the budget, 5 bad model or checkpoint,\n"
           "6 diverged, 7 input or output failed, 8 the system gave no memory, 75 stopped by\n"
           "a signal with state saved.\n");
}

/* A command of several kinds, none of them named yet. */
static bool has_kinds(const main_command *command) {
    return command + 1 < commands + N_COMMANDS && strcmp(command[1].name, command->name) == 0;
}

static void print_kinds(const main_command *command) {
    const char *name = command->name;
    printf("usage:\n");
    for (; command < commands + N_COMMANDS && strcmp(command->name, name) == 0; command++) {
        printf("  ebb %-36s %s\n", command->usage, command->summary);
    }
    printf("\nebb help %s KIND lists the options of one.\n", name);
}

/* "lm or nmt" */
typedef struct kind_names {
    char text[96];
} kind_names;

static kind_names names_of_kinds(const main_command *command) {
    kind_names names = {""};
    size_t used = 0;
    const char *name = command->name;
    for (const main_command *c = command; c < commands + N_COMMANDS && strcmp(c->name, name) == 0;
         c++) {
        bool last = !has_kinds(c);
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
    ebb__device_default()->describe(line, sizeof line);
    printf("ebb %s\n%s\n", ebb_version(), line);
}

static ebb_status need_command(ebb_ctx *ctx, const char *name, const main_command **out) {
    *out = find_command(name, NULL);
    if (*out == NULL) {
        return ebb__fail(ctx, EBB_USAGE, "unknown command '%.60s'; did you mean %s? (ebb --help)",
                         name, ebb__cli_nearest(name, command_at, NULL, N_COMMANDS));
    }
    return EBB_OK;
}

static const char *model_at(const void *name, size_t index) {
    return strcmp(commands[index].name, name) == 0 ? commands[index].model : NULL;
}

/* The word after the command: which model (for data: which text). */
static ebb_status check_model(ebb_ctx *ctx, const main_command **out, int argc, char **argv) {
    const main_command *command = *out;
    if (command->model == NULL) {
        return EBB_OK;
    }
    if (argc == 0 || argv[0][0] == '-') {
        return ebb__fail(ctx, EBB_USAGE, "ebb %s: say which: %s (ebb help %s)", command->name,
                         names_of_kinds(command).text, command->name);
    }
    *out = find_command(command->name, argv[0]);
    if (*out == NULL) {
        return ebb__fail(
            ctx, EBB_USAGE, "ebb %s: unknown kind '%.60s'; did you mean %s? There are %s",
            command->name, argv[0], ebb__cli_nearest(argv[0], model_at, command->name, N_COMMANDS),
            names_of_kinds(command).text);
    }
    return EBB_OK;
}

static ebb_status help_for(ebb_ctx *ctx, int argc, char **argv) {
    const main_command *command = NULL;
    if (argc == 0) {
        print_overview(stdout);
        return EBB_OK;
    }
    TRY(need_command(ctx, argv[0], &command));
    if (argc == 1 && has_kinds(command)) {
        print_kinds(command);
        return EBB_OK;
    }
    if (argc > 1) {
        TRY(check_model(ctx, &command, argc - 1, argv + 1));
    }
    print_help(command, model_of(command, argc - 1, argv + 1));
    return EBB_OK;
}

static ebb_status run_command(cli_call *call, const main_command *command, int argc, char **argv) {
    bool help = false;
    char called[32];
    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)) {
        if (has_kinds(command)) {
            print_kinds(command);
        } else {
            print_help(command, model_of(command, argc, argv));
        }
        return EBB_OK;
    }
    TRY(check_model(call->ctx, &command, argc, argv));
    train_model model = model_of(command, argc, argv);
    int skip = command->model != NULL;
    (void)snprintf(called, sizeof called, "%s%s%s", command->name, skip ? " " : "",
                   skip ? command->model : "");
    TRY(ebb__cli_settings_init(call->ctx, model, &call->settings));
    TRY(ebb__cli_parse(&call->settings, command->id, called, argc - skip, argv + skip, call->words,
                       command->n_words, &call->n_words, &help));
    if (help) {
        print_help(command, model);
        return EBB_OK;
    }
    if (call->n_words < command->n_words) {
        return ebb__fail(call->ctx, EBB_USAGE, "an argument is missing: ebb %s", command->usage);
    }
    ebb__cli_progress_init(&call->progress, &call->settings);
    call->settings.run.dump = ebb__cli_print_graph;
    call->settings.run.dump_user =
        command->id == CLI_PLAN && !call->settings.json ? stdout : stderr;
    ebb_ctx_on_log(call->ctx, ebb__cli_log, &call->progress);
    ebb__cli_find_tuning(&call->settings, command->id);
    return command->run(call);
}

static ebb_status dispatch(cli_call *call, int argc, char **argv) {
    const main_command *command = NULL;
    if (argc < 2) {
        print_overview(stderr);
        return EBB_USAGE;
    }
    const char *first = argv[1];
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "help") == 0) {
        return help_for(call->ctx, argc - 2, argv + 2);
    }
    if (strcmp(first, "--version") == 0) {
        print_version();
        return EBB_OK;
    }
    TRY(need_command(call->ctx, first, &command));
    return run_command(call, command, argc - 2, argv + 2);
}

/* One line, whatever a file name or a file put into the message. */
static void print_error(const char *message) {
    (void)fputs("ebb: ", stderr);
    for (; *message != '\0'; message++) {
        (void)fputc((unsigned char)*message < ' ' || *message == 0x7f ? '?' : *message, stderr);
    }
    (void)fputc('\n', stderr);
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
    status = dispatch(&call, argc, argv);
    if (status == EBB_OK || status == EBB_BUDGET) {
        ebb_status flushed = ebb__cli_flush(call.ctx, &quiet);
        status = status == EBB_OK ? flushed : status;
    }
    if (status != EBB_OK && !quiet) {
        const char *message = ebb_last_error(call.ctx);
        print_error(message[0] != '\0' ? message : ebb_status_text(status));
    }
    ebb__cli_settings_fini(&call.settings);
    ebb_ctx_free(call.ctx);
    return (int)status;
}
