/* score.c - how likely a translation model finds given translations, pair by pair.
 *
 * A pair goes to the shortest of a few shapes that holds both sides; a program a shape gives the
 * loss of every position. Which pairs share a batch changes no score. */
#include "kind/nmt/nmt.h"

#include "data/batcher.h"
#include "kind/text/lines.h"
#include "model/nmt.h"

#include <inttypes.h>
#include <math.h>

typedef struct scorer {
    kind_open base;
    model_use u;
    int32_t lengths[TRANSLATE_MOST_LENGTHS], n_lengths; /* longest first: S = T */
    size_t *rows;                                       /* [B]: pairs of the batch */
    run_place places[4];                                /* SRC, SRC_LEN, TGT_IN, TGT_OUT */
} scorer;
enum { SRC, SRC_LEN, TGT_IN, TGT_OUT, PLACES };

static void close_scorer(kind_open *open) {
    scorer *r = (scorer *)open;
    ebb_ctx *ctx = r->u.ctx;
    ebb__free(ctx, r->rows);
    ebb__use_close(&r->u);
    ebb__free(ctx, r);
}

static ebb_status open_fitting(scorer *r, const char *dir) {
    job_request request = {.score = true};
    TRY(ebb__use_open_vocabs(&r->u, dir, &request));
    r->n_lengths = ebb__translate_lengths((int32_t)r->u.s.max_len + 1, r->lengths);
    request.shapes.n = r->n_lengths;
    for (int32_t i = 0; i < r->n_lengths; i++) {
        uint32_t length = (uint32_t)r->lengths[i];
        request.shapes.at[i] = (data_shape){.source = length, .target = length};
    }
    return ebb__use_open_fitting(&r->u, dir, &request);
}

ebb_status ebb__nmt_score_open(ebb_ctx *ctx, const train_settings *settings, const char *dir,
                               kind_open **out) {
    static const char *const names[PLACES] = {NMT_SRC, NMT_SRC_LEN, NMT_TGT_IN, NMT_TGT_OUT};
    scorer *r = NULL;
    ebb_status status;
    TRY(ebb__alloc(ctx, 1, sizeof *r, &r));
    *r = (scorer){.base = {.close = close_scorer}, .u = {.ctx = ctx, .s = *settings}};
    r->u.s.shards = 1;
    r->u.s.batch_tokens = 0;
    TRY_OUT(open_fitting(r, dir));
    TRY_OUT(ebb__alloc(ctx, (size_t)r->u.s.batch, sizeof *r->rows, &r->rows));
    for (int i = 0; i < PLACES; i++) {
        r->places[i] = ebb__run_find(r->u.session, names[i]);
    }
    r->base.session = r->u.session;
    *out = &r->base;
    return EBB_OK;
out:
    close_scorer(&r->base);
    return status;
}

typedef struct pair_lines {
    text_lines side[KIND_SIDES];
} pair_lines;

static size_t length_of(const pair_lines *pairs, kind_side side, size_t i) {
    return pairs->side[side].begin[i + 1] - pairs->side[side].begin[i];
}

/* Index of the shortest length that holds both sides; -1: none does. */
static int32_t shape_of(const scorer *r, const pair_lines *pairs, size_t i) {
    size_t source = length_of(pairs, KIND_SOURCE, i), target = length_of(pairs, KIND_TARGET, i);
    size_t longer = source > target ? source : target;
    int32_t shape = r->n_lengths - 1;
    while (shape >= 0 && (size_t)r->lengths[shape] < longer) {
        shape--;
    }
    return shape;
}

/* Row b of a batch of positions `length`, blocks of B rows, time descending; i SIZE_MAX: padding.
 */
static void put_pair(const scorer *r, const pair_lines *pairs, int32_t length, int64_t b, size_t i,
                     void *const to[PLACES]) {
    const text_lines *source = &pairs->side[KIND_SOURCE], *target = &pairs->side[KIND_TARGET];
    size_t n_source = i != SIZE_MAX ? length_of(pairs, KIND_SOURCE, i) : 0;
    size_t n_target = i != SIZE_MAX ? length_of(pairs, KIND_TARGET, i) : 0;
    ((int32_t *)to[SRC_LEN])[b] = (int32_t)n_source;
    for (int32_t t = 0; t < length; t++) {
        int64_t cell = (int64_t)(length - 1 - t) * r->u.s.batch + b;
        size_t at = (size_t)t;
        ((int32_t *)to[SRC])[cell] = at < n_source ? source->ids[source->begin[i] + at] : VOCAB_EOS;
        ((int32_t *)to[TGT_IN])[cell] =
            at > 0 && at < n_target ? target->ids[target->begin[i] + at - 1] : VOCAB_EOS;
        ((int32_t *)to[TGT_OUT])[cell] =
            at < n_target ? target->ids[target->begin[i] + at] : BATCH_IGNORED;
    }
}

static ebb_status run_batch(scorer *r, const pair_lines *pairs, int32_t shape, int64_t n,
                            score_found *found) {
    run_session *session = r->u.session;
    int32_t program = ebb__plan_program(session->plan, JOB_SCORE, shape);
    int64_t rows = r->u.s.batch;
    int32_t length = r->lengths[shape];
    const float *losses = NULL;
    void *to[PLACES];
    TRY(ebb__run_map_all(session, r->places, PLACES, DEVICE_WRITE, to));
    for (int64_t b = 0; b < rows; b++) {
        put_pair(r, pairs, length, b, b < n ? r->rows[b] : SIZE_MAX, to);
    }
    TRY(ebb__run_unmap_all(session, r->places, PLACES, DEVICE_WRITE, to));
    TRY(ebb__run_step(session, program));
    run_place place = ebb__run_find_output(session, program, NMT_LOSSES);
    TRY(ebb__run_map(session, place, DEVICE_READ, &losses));
    for (int64_t b = 0; b < n; b++) {
        score_found *one = &found[r->rows[b]];
        for (uint64_t t = 0; t < one->tokens; t++) {
            one->log_prob -= (double)losses[((int64_t)length - 1 - (int64_t)t) * rows + b];
        }
    }
    return ebb__run_unmap(session, place, DEVICE_READ, losses);
}

/* All pairs of one shape. */
static ebb_status score_shape(scorer *r, const score_request *request, const pair_lines *pairs,
                              int32_t shape) {
    int64_t n = 0;
    for (size_t i = 0; i <= request->n; i++) {
        if (i < request->n && shape_of(r, pairs, i) == shape) {
            r->rows[n++] = i;
        }
        if (n == r->u.s.batch || (i == request->n && n > 0)) {
            if (request->stop != NULL && request->stop(request->user)) {
                return ebb__fail(r->u.ctx, EBB_STOPPED, "stopped before all lines were scored");
            }
            TRY(run_batch(r, pairs, shape, n, request->found));
            n = 0;
        }
    }
    return EBB_OK;
}

/* Pairs that no shape holds have no score. */
static void start(const scorer *r, const score_request *request, const pair_lines *pairs) {
    size_t long_ones = 0;
    for (size_t i = 0; i < request->n; i++) {
        request->found[i] = text_lines_start(&pairs->side[KIND_TARGET], i);
        if (shape_of(r, pairs, i) < 0) {
            request->found[i].log_prob = (double)NAN;
            long_ones++;
        }
    }
    if (long_ones > 0) {
        ebb__log(r->u.ctx, EBB_LOG_WARN,
                 "%zu pair%s with more than --max-len %" PRId64 " tokens on a side: no score",
                 long_ones, long_ones == 1 ? "" : "s", r->u.s.max_len);
    }
}

ebb_status ebb__nmt_score(kind_open *open, const score_request *request) {
    scorer *r = (scorer *)open;
    pair_lines pairs = {{{.ctx = r->u.ctx}, {.ctx = r->u.ctx}}};
    ebb_status status;
    TRY_OUT(ebb__lines_encode(&r->u, KIND_SOURCE, request->sources, request->n,
                              &pairs.side[KIND_SOURCE]));
    TRY_OUT(ebb__lines_encode(&r->u, KIND_TARGET, request->lines, request->n,
                              &pairs.side[KIND_TARGET]));
    start(r, request, &pairs);
    for (int32_t shape = 0; status == EBB_OK && shape < r->n_lengths; shape++) {
        status = score_shape(r, request, &pairs, shape);
    }
out:
    ebb__lines_free(&pairs.side[KIND_SOURCE]);
    ebb__lines_free(&pairs.side[KIND_TARGET]);
    return status;
}
