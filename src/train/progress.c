/* progress.c - the state of a run as JSON and back, and what a validation changes in it. */
#include "train/progress.h"

#include "data/buckets.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

progress_state ebb__progress_start(const train_settings *s) {
    return (progress_state){.validated = -1,
                            .lr = s->lr,
                            .best = {{-1, -1, -1, -1}},
                            .last = {{-1, -1, -1, -1}},
                            .gradient_norm = -1,
                            .loss = -1};
}

/* ---- validation ---- */

bool ebb__progress_validated(progress_state *at, const train_settings *s, kind_scores scores) {
    bool better = false;
    for (int32_t i = 0; i < s->kind->n_metrics; i++) {
        double now = scores.at[i], *best = &at->best.at[i];
        bool improved =
            now >= 0 && (*best < 0 || (s->kind->metrics[i].higher ? now > *best : now < *best));
        *best = improved ? now : *best;
        better = (uint32_t)i == s->valid_metric ? improved : better;
    }
    at->validated = at->step;
    at->last = scores;
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

json_t *ebb__buckets_pack(const job_buckets *buckets) {
    json_t *shapes = json_array();
    bool whole = shapes != NULL;
    for (int32_t i = 0; whole && i < buckets->shapes.n; i++) {
        const data_shape *shape = &buckets->shapes.at[i];
        json_t *one = json_pack("[I,I,I]", (json_int_t)shape->source, (json_int_t)shape->target,
                                (json_int_t)shape->rows);
        whole = json_array_append_new(shapes, one) == 0;
    }
    if (!whole) {
        json_decref(shapes);
        return NULL;
    }
    return json_pack("{s:s, s:f, s:o}", "strategy", ebb__bucket_name(buckets->strategy),
                     "padded_share", buckets->padded_share, "shapes", shapes);
}

static bool unpack_shape(const json_t *from, data_shape *out) {
    json_int_t read[3] = {0};
    bool good = json_array_size(from) == 3;
    for (size_t i = 0; good && i < 3; i++) {
        const json_t *number = json_array_get(from, i);
        read[i] = json_integer_value(number);
        good = json_is_integer(number) && read[i] >= 0 && read[i] <= INT32_MAX;
    }
    *out = (data_shape){.source = (uint32_t)read[0], .target = (uint32_t)read[1], .rows = read[2]};
    return good;
}

/* What numbers there can be at all; whether the settings and the text can have given them is seen
 * later. */
static bool unpack_buckets(const json_t *from, job_buckets *out) {
    const char *name = json_string_value(json_object_get(from, "strategy"));
    const json_t *shapes = json_object_get(from, "shapes");
    const json_t *padded = json_object_get(from, "padded_share");
    double share = json_is_number(padded) ? json_number_value(padded) : -1;
    size_t n = json_array_size(shapes);
    int strategy = 0;
    while (name != NULL && strategy < BUCKET_STRATEGIES &&
           strcmp(name, ebb__bucket_name((bucket_strategy)strategy)) != 0) {
        strategy++;
    }
    if (name == NULL || strategy == BUCKET_STRATEGIES || !(share >= 0 && share < 1) || n < 1 ||
        n > DATA_MOST_SHAPES) {
        return false;
    }
    *out = (job_buckets){(bucket_strategy)strategy, share, {.n = (int32_t)n}};
    bool good = true;
    for (size_t i = 0; good && i < n; i++) {
        good = unpack_shape(json_array_get(shapes, i), &out->shapes.at[i]);
    }
    return good;
}

/* "best" and "last" are the first metric's, "best_bleu" and "last_bleu" those of one named bleu. */
typedef struct score_key {
    char text[64];
} score_key;
static score_key key_of(const char *which, const kind_metric *metric) {
    score_key key;
    (void)snprintf(key.text, sizeof key.text, "%s_%s", which, metric->name);
    return key;
}

static bool pack_scores(const progress_state *at, const model_kind *kind, json_t *to) {
    bool whole = to != NULL;
    for (int32_t i = 1; whole && i < kind->n_metrics; i++) {
        const kind_metric *metric = &kind->metrics[i];
        whole =
            json_object_set_new(to, key_of("best", metric).text, json_real(at->best.at[i])) == 0 &&
            json_object_set_new(to, key_of("last", metric).text, json_real(at->last.at[i])) == 0;
    }
    return whole;
}

/* Those that a checkpoint has: not all did from the start. */
static bool unpack_scores(json_t *from, const model_kind *kind, progress_state *at,
                          json_error_t *error) {
    bool good = true;
    for (int32_t i = 1; good && i < kind->n_metrics; i++) {
        const kind_metric *metric = &kind->metrics[i];
        good = json_unpack_ex(from, error, 0, "{s?F,s?F}", key_of("best", metric).text,
                              &at->best.at[i], key_of("last", metric).text, &at->last.at[i]) == 0;
    }
    return good;
}

json_t *ebb__progress_pack(const progress_state *at, const corpus *text, const char *math_text) {
    json_t *train = json_pack(
        "{s:I,s:I,s:f,s:f,s:f,s:I,s:f,s:f,s:I,s:I,s:s,s:I,s:I,s:I,s:I,s:I}", "step",
        (json_int_t)at->step, "validated", (json_int_t)at->validated, "lr", at->lr, "best",
        at->best.at[0], "last", at->last.at[0], "since_best", (json_int_t)at->since_best, "loss",
        at->loss, "loss_sum", at->loss_sum, "loss_count", (json_int_t)at->loss_count,
        "metrics_bytes", (json_int_t)at->metrics_bytes, "settings", math_text, "vocab_hash",
        (json_int_t)text->vocab_hash, "train_tokens", (json_int_t)text->train_count, "train_hash",
        (json_int_t)text->train_hash, "valid_hash", (json_int_t)text->valid_hash, "windows",
        (json_int_t)at->windows);
    json_t *later =
        json_pack("{s:I,s:f,s:s,s:I,s:I,s:I}", "stale", (json_int_t)at->stale, "gradient_norm",
                  at->gradient_norm, "events", at->events.name, "events_bytes",
                  (json_int_t)at->events.bytes, "measured_bytes", (json_int_t)at->measured_bytes,
                  "planned_bytes", (json_int_t)at->planned_bytes);
    bool whole = later != NULL && pack_scores(at, text->s->kind, train) &&
                 json_object_update(train, later) == 0;
    if (whole && text->buckets.shapes.n > 0) {
        whole = json_object_set_new(train, "buckets", ebb__buckets_pack(&text->buckets)) == 0;
    }
    if (whole && at->overrides != NULL) {
        whole = json_object_set(train, "overrides", at->overrides) == 0;
    }
    json_decref(later);
    if (!whole) {
        json_decref(train);
    }
    return whole ? train : NULL;
}

/* ---- settings ---- */

static bool has_key(const char *list, const char *key, size_t n) {
    while (list != NULL && *list != '\0') {
        if (strncmp(list, key, n) == 0 && list[n] == '=') {
            return true;
        }
        list += strcspn(list, ",");
        list += *list == ',';
    }
    return false;
}

/* Whether the line "key = value" is of a key that the list "key=value,..." has; what a schedule
 * brings with it comes with it. */
static bool is_overridden(const char *list, const char *line) {
    return has_key(list, line, strcspn(line, " =\n")) ||
           (strncmp(line, "warmup ", 7) == 0 && has_key(list, "schedule", 8));
}

/* Notes that a setting changes here. */
static ebb_status override(ebb_ctx *ctx, const train_settings *s, const char *was, const char *is,
                           progress_state *at) {
    if (at->overrides == NULL) {
        at->overrides = json_array();
    }
    json_t *one = json_pack("[I,s%,s%]", (json_int_t)at->step, was, strcspn(was, "\n"), is,
                            strcspn(is, "\n"));
    if (json_array_append_new(at->overrides, one) != 0) {
        return ebb__fail(ctx, EBB_NOMEM, "no memory to note what is overridden");
    }
    if (strncmp(is, "lr = ", 5) == 0) {
        at->lr = s->lr; /* whatever a plateau had made of the old one */
        at->since_best = 0;
    }
    return EBB_OK;
}

/* Settings that change the mathematics are compared line by line; both values are shown. */
static ebb_status compare_settings(ebb_ctx *ctx, const char *dir, const train_settings *s,
                                   const char *stored, const char *now, progress_state *at) {
    while (*stored != '\0' || *now != '\0') {
        size_t a = strcspn(stored, "\n"), b = strcspn(now, "\n");
        size_t key = strcspn(now, " \n");
        bool same = a == b && memcmp(stored, now, a) == 0;
        if (!same && strncmp(stored, now, key + 1) == 0 && is_overridden(s->override, now)) {
            TRY(override(ctx, s, stored, now, at));
        } else if (!same) {
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
    json_int_t stale = 0, bytes = 0, measured = 0, planned = 0;
    const char *name = "";
    if (json_unpack_ex(train, error, 0, "{s?I,s?F,s?s,s?I,s?I,s?I}", "stale", &stale,
                       "gradient_norm", &at->gradient_norm, "events", &name, "events_bytes", &bytes,
                       "measured_bytes", &measured, "planned_bytes", &planned) != 0) {
        return false;
    }
    at->stale = stale;
    at->events.bytes = bytes > 0 ? (uint64_t)bytes : 0;
    at->measured_bytes = measured > 0 ? (uint64_t)measured : 0;
    at->planned_bytes = planned > 0 ? (uint64_t)planned : 0;
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
                       &step, "validated", &validated, "lr", &at->lr, "best", &at->best.at[0],
                       "last", &at->last.at[0], "since_best", &since, "loss", &at->loss, "loss_sum",
                       &at->loss_sum, "loss_count", &count, "metrics_bytes", &bytes, "settings",
                       &stored, "vocab_hash", &vocab_hash, "train_tokens", &tokens, "train_hash",
                       &hash, "valid_hash", &valid, "windows", &windows) != 0 ||
        !unpack_scores(found->train, text->s->kind, at, &error) ||
        !unpack_later(found->train, at, &error)) {
        return ebb__fail(ctx, EBB_MODEL, "%s: checkpoint of step %" PRIu64 ": %s", dir, found->step,
                         error.text);
    }
    const json_t *buckets = json_object_get(found->train, "buckets");
    json_t *overrides = json_object_get(found->train, "overrides");
    at->overrides = json_is_array(overrides) ? json_incref(overrides) : NULL;
    if (step < 0 || (uint64_t)step != found->step || bytes < 0 || count < 0 || tokens < 1 ||
        windows < 0 || (buckets != NULL && !unpack_buckets(buckets, &text->buckets))) {
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
    return compare_settings(ctx, dir, text->s, stored, math_text, at);
}
