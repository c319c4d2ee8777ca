/* run.c - the settings of a trained run, for a command that uses it: those stored with it; only
 * what the machine gives can be asked for anew. */
#include "cli/command.h"

#include "base/file.h"
#include "kind/stored.h"

#include <string.h>

static ebb_status check_kind(ebb_ctx *ctx, const char *dir, const model_kind *wanted) {
    const model_kind *found = wanted;
    TRY(ebb__stored_kind(ctx, dir, &found));
    return found == wanted ? EBB_OK
                           : ebb__fail(ctx, EBB_MODEL, "%s: is %s, not %s; ebb %s can use it", dir,
                                       found->what, wanted->what, found->used_by);
}

static void copy_option(const train_option *option, const cli_settings *from, cli_settings *to) {
    memcpy((char *)to + option->offset, (const char *)from + option->offset,
           ebb__option_bytes(option));
}

/* Options of the kind's own that were given for this command. */
static void take_own(const cli_settings *asked, cli_settings *run) {
    size_t begin = offsetof(train_settings, own), end = begin + SETTINGS_OWN_BYTES;
    for (size_t i = 0; i < ebb__cli_option_count(run->run.kind); i++) {
        const train_option *option = ebb__cli_option(run->run.kind, i);
        if (asked->given[i] && option->offset >= begin && option->offset < end) {
            copy_option(option, asked, run);
        }
    }
}

ebb_status ebb__cli_load_run(const cli_settings *asked, const char *dir, cli_settings *run) {
    option_set set = ebb__cli_set(run);
    TRY(check_kind(asked->ctx, dir, run->run.kind));
    TRY(ebb__stored_load(&set, dir));
    if (ebb__cli_given(asked, "batch")) {
        TRY(ebb__cli_refuse_auto(asked->ctx, &asked->run));
        run->run.batch = asked->run.batch;
        run->run.batch_tokens = 0;
    }
    if (ebb__cli_given(asked, "shards")) {
        run->run.shards = asked->run.shards;
    } else if (run->run.shards > 0 && run->run.batch % run->run.shards != 0) {
        run->run.shards = 1; /* those of training, and another batch */
    }
    if (asked->run.kind == run->run.kind) {
        take_own(asked, run);
    }
    if (ebb__cli_given(asked, "memory")) {
        run->run.memory = asked->run.memory;
    }
    if (ebb__cli_given(asked, "threads")) {
        run->run.threads = asked->run.threads;
    }
    run->run.dev = asked->run.dev;
    run->run.host_memory = asked->run.host_memory;
    run->run.weights = asked->run.weights;
    run->run.tune_folder = asked->run.tune_folder;
    run->run.tune_seconds = asked->run.tune_seconds;
    return ebb__options_resolve(&set);
}

/* What of a run's settings its weights cannot do without. */
static bool is_of_model(const train_option *option) {
    return (option->flags & OPTION_MATH) != 0 && option->kind != OPTION_TEXT &&
           (strcmp(option->group, "Model") == 0 || strcmp(option->name, "tokens") == 0 ||
            strcmp(option->name, "codes-apart") == 0);
}

ebb_status ebb__cli_take_model(cli_settings *settings) {
    const model_kind *kind = settings->run.kind;
    const char *dir = settings->run.init_path;
    page_text path = {.ctx = settings->ctx};
    cli_settings run = {.ctx = settings->ctx};
    option_set set;
    ebb_status status = EBB_OK;
    if (dir == NULL || kind->word_rows == NULL) {
        return EBB_OK;
    }
    ebb__region_init(&run.region, settings->ctx);
    TRY_OUT(ebb__page_put(&path, "%s/config", dir));
    if (!ebb__file_exists(path.bytes)) {
        goto out; /* a file of weights */
    }
    TRY_OUT(check_kind(settings->ctx, dir, kind));
    TRY_OUT(ebb__cli_settings_init(settings->ctx, kind, &run));
    set = ebb__cli_set(&run);
    TRY_OUT(ebb__config_load(&set, path.bytes, EBB_MODEL));
    for (size_t i = 0; i < ebb__cli_option_count(kind); i++) {
        const train_option *option = ebb__cli_option(kind, i);
        if (!settings->given[i] && is_of_model(option)) {
            copy_option(option, &run, settings);
        }
    }
    if (settings->run.tokens != run.run.tokens) {
        status = ebb__fail(settings->ctx, EBB_USAGE,
                           "--init %s: its tokens are other ones: give no --tokens, or start "
                           "without --init",
                           dir);
    }
out:
    ebb__cli_settings_fini(&run);
    ebb__page_text_fini(&path);
    return status;
}
