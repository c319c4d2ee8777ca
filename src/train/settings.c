/* settings.c - where settings start, and what of them follows from others: the same for the command
 * and for whoever calls jobs. */
#include "comm/comm.h"
#include "train/kind.h"

#include <inttypes.h>
#include <stdio.h>

enum { DEFAULT_WARMUP = 1000 };

ebb_status ebb__settings_init(ebb_ctx *ctx, const model_kind *kind, train_settings *out) {
    *out = (train_settings){.kind = kind};
    for (size_t i = 0; i < kind->options->n; i++) {
        const train_option *option = &kind->options->at[i];
        if ((option->flags & OPTION_LATER) == 0) {
            TRY(ebb__option_assign(ctx, option, out, option->standard, false, option->name));
        }
    }
    return EBB_OK;
}

const char *const ebb__settings_stashes[] = {[TRAIN_STASH_NONE] = "none",
                                             [TRAIN_STASH_FP16] = "fp16",
                                             [TRAIN_STASH_FP10] = "fp10",
                                             [TRAIN_STASH_FP8] = "fp8"};
const char *const ebb__settings_optimizers[] = {"sgd", "adam", "adamw"};

/* A list of budgets must have one for each process. */
static ebb_status check_memory(ebb_ctx *ctx, const train_settings *s) {
    int ranks = s->link != NULL ? ebb__comm_size(s->link) : 1;
    return s->memory.n_ranks == 0 || s->memory.n_ranks >= ranks
               ? EBB_OK
               : ebb__fail(ctx, EBB_USAGE,
                           "--memory lists %d sizes and there are %d processes: give one for each, "
                           "or one for all",
                           s->memory.n_ranks, ranks);
}

ebb_status ebb__settings_resolve(ebb_ctx *ctx, train_settings *s) {
    TRY(check_memory(ctx, s));
    if (s->lr <= 0) {
        double sgd = s->momentum > 0 ? s->kind->momentum_rate : s->kind->sgd_rate;
        s->lr = s->optimizer != UPDATE_SGD ? 0.001 : sgd > 0 ? sgd : 1;
    }
    if (s->warmup == 0 && (s->schedule == SCHEDULE_WARMUP || s->schedule == SCHEDULE_INVERSE)) {
        s->warmup = DEFAULT_WARMUP;
    }
    if (s->epochs == 0 && s->steps == 0) {
        s->epochs = SETTINGS_EPOCHS;
    }
    if (s->batch_tokens > 0) {
        s->batch = 0; /* as many as that makes, for each shape */
    }
    if (s->shards == 0) {
        int64_t groups = ebb__settings_ranks(s) / (s->stages > 1 ? s->stages : 1);
        s->shards = groups > 1 ? groups : 1;
    }
    if (s->batch % s->shards != 0) {
        int64_t times = (s->batch + s->shards / 2) / s->shards;
        return ebb__fail(ctx, EBB_USAGE,
                         "--shards %" PRId64 " does not divide --batch %" PRId64
                         "; the nearest that it divides is --batch %" PRId64,
                         s->shards, s->batch, (times > 0 ? times : 1) * s->shards);
    }
    return s->kind->resolve != NULL ? s->kind->resolve(ctx, s) : EBB_OK;
}

int64_t ebb__settings_ranks(const train_settings *s) {
    return s->link != NULL ? ebb__comm_size(s->link) : s->ranks > 1 ? s->ranks : 1;
}

settings_batch ebb__settings_batch(const train_settings *s) {
    settings_batch out;
    (void)snprintf(out.text, sizeof out.text,
                   s->batch_tokens > 0 ? "%" PRId64 " tokens" : "%" PRId64,
                   s->batch_tokens > 0 ? s->batch_tokens : s->batch);
    return out;
}
