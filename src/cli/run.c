/* run.c - the settings of a trained run, for a command that uses it: those stored with it; only
 * what the machine gives can be asked for anew. */
#include "cli/command.h"

#include "kind/stored.h"

#include <string.h>

static ebb_status check_kind(ebb_ctx *ctx, const char *dir, const model_kind *wanted) {
    const model_kind *found = wanted;
    TRY(ebb__stored_kind(ctx, dir, &found));
    return found == wanted ? EBB_OK
                           : ebb__fail(ctx, EBB_MODEL, "%s: is %s, not %s; ebb %s can use it", dir,
                                       found->what, wanted->what, found->used_by);
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
    run->run.tune_folder = asked->run.tune_folder;
    run->run.tune_seconds = asked->run.tune_seconds;
    return ebb__options_resolve(&set);
}
