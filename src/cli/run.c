/* run.c - the settings of a trained run: those stored in DIR/config, whose first line names the
 * kind of the model unless it is the first of the list; only what the machine gives can be asked
 * for anew. */
#include "cli/command.h"

#include "base/file.h"

#include <string.h>

enum { CONFIG_MOST_BYTES = 1 << 20 };

static ebb_status config_path(ebb_ctx *ctx, const char *dir, page_text *path) {
    TRY(ebb__page_put(path, "%s/config", dir));
    return ebb__file_exists(path->bytes)
               ? EBB_OK
               : ebb__fail(ctx, EBB_MODEL,
                           "%s: is not the folder of a run: it has no file 'config'", dir);
}

ebb_status ebb__cli_run_kind(ebb_ctx *ctx, const char *dir, const model_kind **out) {
    page_text path = {.ctx = ctx};
    char *text = NULL;
    size_t bytes = 0;
    ebb_status status;
    TRY_OUT(config_path(ctx, dir, &path));
    TRY_OUT(ebb__file_read_all(ctx, path.bytes, CONFIG_MOST_BYTES, &text, &bytes));
    char name[24] = "";
    *out = ebb__kind_at(0);
    if (sscanf(text, " model = %23s", name) == 1 && ebb__kind_find(name) != NULL) {
        *out = ebb__kind_find(name);
    }
out:
    ebb__free(ctx, text);
    ebb__page_text_fini(&path);
    return status;
}

static ebb_status check_kind(ebb_ctx *ctx, const char *dir, const model_kind *wanted) {
    const model_kind *found = wanted;
    TRY(ebb__cli_run_kind(ctx, dir, &found));
    return found == wanted ? EBB_OK
                           : ebb__fail(ctx, EBB_MODEL, "%s: is %s, not %s; ebb %s can use it", dir,
                                       found->what, wanted->what, found->used_by);
}

/* What the stored settings say cannot be: the run is bad, not the usage. */
static ebb_status resolve_stored(cli_settings *run, const char *path) {
    char why[512];
    ebb_status status = ebb__cli_resolve(run);
    if (status != EBB_USAGE) {
        return status;
    }
    (void)snprintf(why, sizeof why, "%s", ebb_last_error(run->ctx));
    ebb__ctx_clear(run->ctx);
    return ebb__fail(run->ctx, EBB_MODEL, "%s: %s", path, why);
}

/* Options of the kind's own that were given for this command. */
static void take_own(const cli_settings *asked, cli_settings *run) {
    static const size_t bytes[] = {
        [OPTION_SWITCH] = sizeof(bool),       [OPTION_INT] = sizeof(int64_t),
        [OPTION_SEED] = sizeof(uint64_t),     [OPTION_REAL] = sizeof(double),
        [OPTION_CHOICE] = sizeof(unsigned),   [OPTION_TEXT] = sizeof(const char *),
        [OPTION_SIZE] = sizeof(train_memory), [OPTION_PASSES] = sizeof(uint32_t)};
    size_t begin = offsetof(train_settings, own), end = begin + SETTINGS_OWN_BYTES;
    for (size_t i = 0; i < ebb__cli_option_count(run->run.kind); i++) {
        const train_option *option = ebb__cli_option(run->run.kind, i);
        if (asked->given[i] && option->offset >= begin && option->offset < end) {
            memcpy((char *)run + option->offset, (const char *)asked + option->offset,
                   bytes[option->kind]);
        }
    }
}

ebb_status ebb__cli_load_run(const cli_settings *asked, const char *dir, cli_settings *run) {
    page_text path = {.ctx = asked->ctx};
    ebb_status status;
    TRY_OUT(check_kind(asked->ctx, dir, run->run.kind));
    TRY_OUT(config_path(asked->ctx, dir, &path));
    TRY_OUT(ebb__cli_load(run, path.bytes, EBB_MODEL));
    TRY_OUT(ebb__cli_paths_of_run(run, path.bytes));
    if (run->run.kind->at_home != NULL) {
        TRY_OUT(run->run.kind->at_home(run->ctx, &run->run, dir, &run->region));
    }
    TRY_OUT(resolve_stored(run, path.bytes));
    if (ebb__cli_given(asked, "batch")) {
        TRY_OUT(ebb__cli_refuse_auto(asked->ctx, &asked->run));
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
    run->run.weights = asked->run.weights;
    run->run.tune_folder = asked->run.tune_folder;
    run->run.tune_seconds = asked->run.tune_seconds;
    TRY_OUT(ebb__cli_resolve(run));
out:
    ebb__page_text_fini(&path);
    return status;
}
