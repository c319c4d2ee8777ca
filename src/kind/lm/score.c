/* score.c - how likely a language model finds lines, each by itself: from a state of zeros, after
 * <eos>, up to its own <eos>.
 *
 * B slots hold a line each and go on by T tokens a step, the state being carried; a slot whose line
 * is done takes the next one and starts from zeros. So lines of any length are scored by one
 * program, and a line's score depends on nothing but the line. */
#include "kind/lm/lm.h"

#include "kind/text/lines.h"
#include "model/word_lm.h"

enum { SCORE_STEPS = 16 };

typedef struct slot {
    size_t line, at; /* its number, and the next of its ids; line SIZE_MAX: free */
} slot;

typedef struct scorer {
    kind_open base;
    model_use u;
    int64_t rows, steps; /* B, T */
    slot *slots;         /* [B] */
    run_place places[2]; /* inputs, targets */
} scorer;

static void close_scorer(kind_open *open) {
    scorer *r = (scorer *)open;
    ebb_ctx *ctx = r->u.ctx;
    ebb__free(ctx, r->slots);
    ebb__use_close(&r->u);
    ebb__free(ctx, r);
}

ebb_status ebb__lm_score_open(ebb_ctx *ctx, const train_settings *settings, const char *dir,
                              kind_open **out) {
    job_request request = {.score = true};
    scorer *r = NULL;
    ebb_status status;
    TRY(ebb__alloc(ctx, 1, sizeof *r, &r));
    *r = (scorer){.base = {.close = close_scorer}, .u = {.ctx = ctx, .s = *settings}};
    r->u.s.shards = 1;
    r->u.s.batch_tokens = 0;
    r->u.s.bptt = SCORE_STEPS;
    TRY_OUT(ebb__use_open_vocabs(&r->u, dir, &request));
    TRY_OUT(ebb__use_open_fitting(&r->u, dir, &request));
    r->rows = r->u.s.batch;
    r->steps = SCORE_STEPS;
    TRY_OUT(ebb__alloc(ctx, (size_t)r->rows, sizeof *r->slots, &r->slots));
    r->places[0] = ebb__run_find(r->u.session, LM_INPUTS);
    r->places[1] = ebb__run_find(r->u.session, LM_TARGETS);
    r->base.session = r->u.session;
    *out = &r->base;
    return EBB_OK;
out:
    close_scorer(&r->base);
    return status;
}

/* The slot's rows of the state, all f32 [B, H]: zeros. */
static ebb_status clear_state(const scorer *r, int64_t b) {
    const ebb_plan *plan = r->u.session->plan;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        if (plan->variables[i].role == IR_STATE) {
            run_place whole = run_at(&plan->variables[i]);
            uint64_t bytes = whole.bytes / (uint64_t)r->rows;
            TRY(ebb__run_zero(r->u.session, run_part(whole, (uint64_t)b * bytes, bytes)));
        }
    }
    return EBB_OK;
}

/* Gives lines to free slots; *busy: how many slots have one. */
static ebb_status fill_slots(scorer *r, size_t n, size_t *next, int64_t *busy) {
    *busy = 0;
    for (int64_t b = 0; b < r->rows; b++) {
        if (r->slots[b].line == SIZE_MAX && *next < n) {
            r->slots[b] = (slot){.line = (*next)++};
            TRY(clear_state(r, b));
        }
        *busy += r->slots[b].line != SIZE_MAX;
    }
    return EBB_OK;
}

/* The token that stands before the slot's next one, and that one: its label; -1: none is left. */
static void put_token(const scorer *r, const text_lines *lines, int64_t b, int64_t t,
                      int32_t *inputs, int32_t *labels) {
    const slot *s = &r->slots[b];
    int64_t cell = (r->steps - 1 - t) * r->rows + b;
    inputs[cell] = VOCAB_EOS;
    labels[cell] = BATCH_IGNORED;
    if (s->line != SIZE_MAX) {
        size_t at = lines->begin[s->line] + s->at + (size_t)t, end = lines->begin[s->line + 1];
        if (at < end) {
            inputs[cell] = s->at + (size_t)t > 0 ? lines->ids[at - 1] : VOCAB_EOS;
            labels[cell] = lines->ids[at];
        }
    }
}

static ebb_status fill(const scorer *r, const text_lines *lines) {
    void *to[2];
    TRY(ebb__run_map_all(r->u.session, r->places, 2, DEVICE_WRITE, to));
    for (int64_t b = 0; b < r->rows; b++) {
        for (int64_t t = 0; t < r->steps; t++) {
            put_token(r, lines, b, t, to[0], to[1]);
        }
    }
    return ebb__run_unmap_all(r->u.session, r->places, 2, DEVICE_WRITE, to);
}

/* Adds what the step found, and moves the slots on. */
static ebb_status add_losses(const scorer *r, score_found *found) {
    run_place place = ebb__run_find_output(r->u.session, 0, LM_LOSSES);
    const float *losses = NULL;
    TRY(ebb__run_map(r->u.session, place, DEVICE_READ, &losses));
    for (int64_t b = 0; b < r->rows; b++) {
        slot *s = &r->slots[b];
        size_t left = s->line != SIZE_MAX ? found[s->line].tokens - s->at : 0;
        for (int64_t t = 0; t < r->steps && (size_t)t < left; t++) {
            found[s->line].log_prob -= (double)losses[(r->steps - 1 - t) * r->rows + b];
        }
        s->at += (size_t)r->steps;
        if (s->line != SIZE_MAX && (size_t)r->steps >= left) {
            s->line = SIZE_MAX;
        }
    }
    return ebb__run_unmap(r->u.session, place, DEVICE_READ, losses);
}

static ebb_status score(scorer *r, const score_request *request, const text_lines *lines) {
    size_t next = 0;
    int64_t busy = 0;
    for (int64_t b = 0; b < r->rows; b++) {
        r->slots[b] = (slot){.line = SIZE_MAX};
    }
    for (size_t i = 0; i < request->n; i++) {
        request->found[i] = text_lines_start(lines, i);
    }
    for (;;) {
        TRY(fill_slots(r, request->n, &next, &busy));
        if (busy == 0) {
            return EBB_OK;
        }
        if (request->stop != NULL && request->stop(request->user)) {
            return ebb__fail(r->u.ctx, EBB_STOPPED, "stopped before all lines were scored");
        }
        TRY(fill(r, lines));
        TRY(ebb__run_step(r->u.session, 0));
        TRY(add_losses(r, request->found));
    }
}

ebb_status ebb__lm_score(kind_open *open, const score_request *request) {
    scorer *r = (scorer *)open;
    text_lines lines;
    ebb_status status = ebb__lines_encode(&r->u, KIND_TARGET, request->lines, request->n, &lines);
    if (status == EBB_OK) {
        status = score(r, request, &lines);
    }
    ebb__lines_free(&lines);
    return status;
}
