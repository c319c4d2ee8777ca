/* progress.c - the state of a run as JSON and back, and what a validation changes in it. */
#include "train/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

progress_state ebb__progress_start(const train_settings *s) {
    return (progress_state){.validated = -1,
                            .lr = s->lr,
                            .best = {-1, -1},
                            .last = {-1, -1},
                            .gradient_norm = -1,
                            .loss = -1};
}

/* ---- validation ---- */

bool ebb__progress_validated(progress_state *at, const train_settings *s, progress_scores scores) {
    bool better_perplexity = at->best.perplexity < 0 || scores.perplexity < at->best.perplexity;
    bool better_bleu = scores.bleu > at->best.bleu;
    bool better = s->valid_metric == METRIC_BLEU ? better_bleu : better_perplexity;
    at->validated = at->step;
    at->last = scores;
    at->best.perplexity = better_perplexity ? scores.perplexity : at->best.perplexity;
    at->best.bleu = better_bleu ? scores.bleu : at->best.bleu;
    at->stale = better ? 0 : at->stale + 1;
    at->since_best = better ? 0 : at->since_best + 1;
    if (s->schedule == SCHEDULE_PLATEAU && at->since_best > s->lr_patience) {
        at->lr *= s->lr_factor;
        at->since_best = 0;
    }
    return better;
}

bool ebb__progress_exhausted(const progress_state *at, const train_settings *s) {
    return s->patience > 0 && at->validated == at->step && at->stale >= s->patience;
}

double ebb__progress_loss(const progress_state *at) {
    return at->loss_count > 0 ? at->loss_sum / (double)at->loss_count
           : at->loss >= 0    ? at->loss
                              : (double)NAN;
}

/* ---- JSON ---- */

/* Of "best" and "last" the old names are perplexities. */
json_t *ebb__progress_pack(const progress_state *at, const corpus *text, const char *math_text) {
    json_t *train = json_pack(
        "{s:I,s:I,s:f,s:f,s:f,s:I,s:f,s:f,s:I,s:I,s:s,s:I,s:I,s:I,s:I,s:I}", "step",
        (json_int_t)at->step, "validated", (json_int_t)at->validated, "lr", at->lr, "best",
        at->best.perplexity, "last", at->last.perplexity, "since_best", (json_int_t)at->since_best,
        "loss", at->loss, "loss_sum", at->loss_sum, "loss_count", (json_int_t)at->loss_count,
        "metrics_bytes", (json_int_t)at->metrics_bytes, "settings", math_text, "vocab_hash",
        (json_int_t)text->vocab_hash, "train_tokens", (json_int_t)text->train_count, "train_hash",
        (json_int_t)text->train_hash, "valid_hash", (json_int_t)text->valid_hash, "windows",
        (json_int_t)at->windows);
    json_t *later =
        json_pack("{s:f,s:f,s:I,s:f,s:s,s:I}", "best_bleu", at->best.bleu, "last_bleu",
                  at->last.bleu, "stale", (json_int_t)at->stale, "gradient_norm", at->gradient_norm,
                  "events", at->events.name, "events_bytes", (json_int_t)at->events.bytes);
    bool whole = train != NULL && later != NULL && json_object_update(train, later) == 0;
    json_decref(later);
    if (!whole) {
        json_decref(train);
    }
    return whole ? train : NULL;
}

/* Settings that change the mathematics are compared line by line; both values are shown. */
static ebb_status compare_settings(ebb_ctx *ctx, const char *dir, const char *stored,
                                   const char *now) {
    while (*stored != '\0' || *now != '\0') {
        size_t a = strcspn(stored, "\n"), b = strcspn(now, "\n");
        if (a != b || memcmp(stored, now, a) != 0) {
            return ebb__fail(ctx, EBB_USAGE,
                             "%s: the run was started with '%.*s', now it is '%.*s'; use the same "
                             "value, another --out, or --fresh",
                             dir, (int)a, stored, (int)b, now);
        }
        stored += a + (stored[a] == '\n');
        now += b + (now[b] == '\n');
    }
    return EBB_OK;
}

/* What checkpoints did not always have. */
static bool unpack_later(json_t *train, progress_state *at, json_error_t *error) {
    json_int_t stale = 0, bytes = 0;
    const char *name = "";
    if (json_unpack_ex(train, error, 0, "{s?F,s?F,s?I,s?F,s?s,s?I}", "best_bleu", &at->best.bleu,
                       "last_bleu", &at->last.bleu, "stale", &stale, "gradient_norm",
                       &at->gradient_norm, "events", &name, "events_bytes", &bytes) != 0) {
        return false;
    }
    at->stale = stale;
    at->events.bytes = bytes > 0 ? (uint64_t)bytes : 0;
    /* A name that no event file can have is as good as none. */
    if (strlen(name) < sizeof at->events.name) {
        (void)snprintf(at->events.name, sizeof at->events.name, "%s", name);
    }
    return true;
}

ebb_status ebb__progress_unpack(ebb_ctx *ctx, const char *dir, const checkpoint_info *found,
                                const char *math_text, corpus *text, progress_state *at) {
    json_int_t step, validated, since, count, bytes, vocab_hash, tokens, hash, valid, windows = 0;
    const char *stored = NULL;
    json_error_t error;
    if (json_unpack_ex(found->train, &error, 0,
                       "{s:I,s:I,s:F,s:F,s:F,s:I,s:F,s:F,s:I,s:I,s:s,s:I,s:I,s:I,s:I,s?I}", "step",
                       &step, "validated", &validated, "lr", &at->lr, "best", &at->best.perplexity,
                       "last", &at->last.perplexity, "since_best", &since, "loss", &at->loss,
                       "loss_sum", &at->loss_sum, "loss_count", &count, "metrics_bytes", &bytes,
                       "settings", &stored, "vocab_hash", &vocab_hash, "train_tokens", &tokens,
                       "train_hash", &hash, "valid_hash", &valid, "windows", &windows) != 0 ||
        !unpack_later(found->train, at, &error)) {
        return ebb__fail(ctx, EBB_MODEL, "%s: checkpoint of step %" PRIu64 ": %s", dir, found->step,
                         error.text);
    }
    if (step < 0 || (uint64_t)step != found->step || bytes < 0 || count < 0 || tokens < 1 ||
        windows < 0) {
        return ebb__fail(ctx, EBB_MODEL, "%s: checkpoint of step %" PRIu64 " contradicts itself",
                         dir, found->step);
    }
    at->step = step;
    at->windows = windows;
    at->validated = validated;
    at->since_best = since;
    at->loss_count = count;
    at->metrics_bytes = (uint64_t)bytes;
    text->resumed = true;
    text->silent = true; /* what is left out was said when the run was started */
    text->vocab_hash = (uint64_t)vocab_hash;
    text->train_count = (uint64_t)tokens; /* compared with the text's once that is open */
    text->train_hash = (uint64_t)hash;
    text->valid_hash = (uint64_t)valid;
    return compare_settings(ctx, dir, stored, math_text);
}
