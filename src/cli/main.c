/* main.c - the command: which sub-command, its help, and how it ends. Every failure is one line on
 * standard error and the status as exit code. */
#include "cli/entries.h"

#include "base/host.h"
#include "base/nearest.h"
#include "device/device.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const char *command_at(const void *user, size_t index) {
    return ((const cli_entries *)user)->at[index].name;
}

static void print_overview(const cli_entries *list, FILE *file) {
    (void)fprintf(file,
                  "ebb trains recurrent language and translation models, and convolutional nets,\n"
                  "in the memory you have.\n\nusage:\n");
    for (size_t i = 0; i < list->n; i++) {
        (void)fprintf(file, "  ebb %-36s %s\n", list->at[i].usage, list->at[i].summary);
    }
    (void)fprintf(file, "  ebb %-36s %s\n  ebb %-36s %s\n  ebb %-36s %s\n", "help COMMAND",
                  "what a command does, all its options", "help bash|zsh|fish|man",
                  "completion for a shell, manual pages", "--version",
                  "version, processor, libraries");
    (void)fprintf(file, "\nexample:\n"
                        "  ebb train lm --train text.txt --valid more.txt --memory 512M --out run\n"
                        "  ebb generate run\n");
}

static void print_help(const cli_entry *command, const model_kind *kind) {
    printf("usage: ebb %s\n\n%s", command->usage, command->details);
    ebb__cli_help_options(command->id, kind);
    printf("\nA switch is turned off again by --no-NAME. Exit codes: 0 done, 1 internal error,\n"
           "2 wrong usage, 3 bad data, 4 does not fit the budget, 5 bad model or checkpoint,\n"
           "6 diverged, 7 input or output failed, 8 the system gave no memory, 9 a process\n"
           "was lost, 75 stopped by a signal with state saved.\n");
}

/* Whether the command after this one in the list has the same name. */
static bool has_kinds(const cli_entries *list, const cli_entry *command) {
    return command + 1 < list->at + list->n && strcmp(command[1].name, command->name) == 0;
}

static void print_kinds(const cli_entries *list, const cli_entry *command) {
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

static kind_names names_of_kinds(const cli_entries *list, const cli_entry *command) {
    kind_names names = {""};
    size_t used = 0;
    const char *name = command->name;
    for (const cli_entry *c = command; c < list->at + list->n && strcmp(c->name, name) == 0; c++) {
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

static ebb_status need_command(ebb_ctx *ctx, const cli_entries *list, const char *name,
                               const cli_entry **out) {
    *out = ebb__cli_entry_find(list, name, NULL);
    if (*out == NULL) {
        return ebb__fail(ctx, EBB_USAGE, "unknown command '%.60s'; did you mean %s? (ebb --help)",
                         name, ebb__nearest(name, command_at, list, list->n));
    }
    return EBB_OK;
}

/* `user`: the first command of the name. */
static const char *model_at(const void *user, size_t index) {
    const cli_entry *command = user;
    return command[index].model;
}

/* The word after the command: which model (for data: which text). */
static ebb_status check_model(ebb_ctx *ctx, const cli_entries *list, const cli_entry **out,
                              int argc, char **argv) {
    const cli_entry *command = *out;
    if (command->model == NULL) {
        return EBB_OK;
    }
    if (argc == 0 || argv[0][0] == '-') {
        return ebb__fail(ctx, EBB_USAGE, "ebb %s: say which: %s (ebb help %s)", command->name,
                         names_of_kinds(list, command).text, command->name);
    }
    *out = ebb__cli_entry_find(list, command->name, argv[0]);
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
static void print_commands(const cli_entries *list, const model_kind *kind) {
    const char *const uses[] = {kind->decode != NULL ? "decode" : "",
                                kind->generate != NULL ? "generate" : "",
                                kind->predict != NULL ? "predict" : "", "report"};
    printf("usage:\n");
    for (size_t i = 0; i < list->n; i++) {
        const cli_entry *c = &list->at[i];
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

static ebb_status help_for(ebb_ctx *ctx, const cli_entries *list, int argc, char **argv) {
    const cli_entry *command = NULL;
    if (argc == 0) {
        print_overview(list, stdout);
        return EBB_OK;
    }
    if (argc <= 2 && strcmp(argv[0], "man") == 0) {
        return ebb__cli_manual(list, argc == 2 ? argv[1] : NULL)
                   ? EBB_OK
                   : ebb__fail(ctx, EBB_USAGE,
                               "there is no manual page '%.60s'; ebb help man lists them", argv[1]);
    }
    if (argc == 1 && ebb__cli_complete(list, argv[0])) {
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
    print_help(command, ebb__cli_entry_kind(command, argc - 1, argv + 1));
    return EBB_OK;
}

static ebb_status run_command(cli_call *call, const cli_entries *list, const cli_entry *command,
                              int argc, char **argv) {
    bool help = false;
    char called[32];
    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)) {
        if (has_kinds(list, command)) {
            print_kinds(list, command);
        } else {
            print_help(command, ebb__cli_entry_kind(command, argc, argv));
        }
        return EBB_OK;
    }
    TRY(check_model(call->ctx, list, &command, argc, argv));
    const model_kind *kind = ebb__cli_entry_kind(command, argc, argv);
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
    const cli_entries list = ebb__cli_entries();
    const cli_entry *command = NULL;
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
