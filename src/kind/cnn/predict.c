/* predict.c - what PNG and JPEG files show, by a trained net. Images are decoded to the net's size
 * straight into the batch that is shown to it; how many at once changes no answer. */
#include "kind/cnn/cnn.h"

#include "data/batcher.h"
#include "data/image_decode.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct predictor {
    cnn_use u;
    image_decoder decoder;
    const predict_options *o;
    predict_fn emit;
    void *user;
    predict_summary *sum;
    size_t next;         /* path to decode */
    size_t *shown;       /* [batch]: paths of the batch */
    int64_t n;           /* of them */
    const char **names;  /* [classes]; NULL: it has none */
    predict_guess *best; /* [top] */
    ebb_status bad;      /* of an image that ends it, once those before it were answered */
    char why[512];
} predictor;

/* ---- reading ---- */

/* One image into a row of the batch. One that cannot be decoded is left out, or the last. */
static ebb_status decode_next(predictor *p, uint8_t *pixels) {
    ebb_ctx *ctx = p->u.ctx;
    const char *path = p->o->paths[p->next++];
    ebb_status status = ebb__image_decode(&p->decoder, path, pixels);
    if (status == EBB_OK) {
        p->shown[p->n++] = p->next - 1;
        return EBB_OK;
    }
    if (status == EBB_NOMEM) {
        return status;
    }
    (void)snprintf(p->why, sizeof p->why, "%s", ebb_last_error(ctx));
    ebb__ctx_clear(ctx);
    if (cnn_own(&p->u.s)->bad == CNN_BAD_SKIP) {
        ebb__log(ctx, EBB_LOG_WARN, "%s; left out", p->why);
        p->sum->left_out++;
    } else {
        p->bad = status;
    }
    return EBB_OK;
}

/* Rows without an image are black, with a label that a loss ignores, as all are. */
static ebb_status fill(predictor *p) {
    run_session *session = p->u.session;
    const run_place places[2] = {ebb__run_find(session, CNN_PIXELS),
                                 ebb__run_find(session, CNN_LABELS)};
    size_t each = image_bytes(&p->u.card.size);
    void *to[2];
    p->n = 0;
    TRY(ebb__run_map_all(session, places, 2, DEVICE_WRITE, to));
    ebb_status status = EBB_OK;
    uint8_t *pixels = to[0];
    int32_t *labels = to[1];
    while (status == EBB_OK && p->bad == EBB_OK && p->n < p->u.s.batch && p->next < p->o->n) {
        status = decode_next(p, pixels + (size_t)p->n * each);
    }
    memset(pixels + (size_t)p->n * each, 0, (size_t)(p->u.s.batch - p->n) * each);
    for (int64_t i = 0; i < p->u.s.batch; i++) {
        labels[i] = BATCH_IGNORED;
    }
    ebb_status unmapped = ebb__run_unmap_all(session, places, 2, DEVICE_WRITE, to);
    return status == EBB_OK ? unmapped : status;
}

/* ---- answering ---- */

/* Whether class a comes before b: higher, or of two equal ones first. */
static bool is_before(const float *logits, int32_t a, int32_t b) {
    return logits[a] > logits[b] || (a < b && logits[a] == logits[b]);
}

/* The likeliest classes, first ones first. */
static void choose(const predictor *p, const float *logits, int64_t top) {
    for (int64_t i = 0; i < top; i++) {
        int32_t found = -1;
        for (int32_t k = 0; k < (int32_t)p->u.card.classes; k++) {
            bool taken = i > 0 && !is_before(logits, p->best[i - 1].label, k);
            if (!taken && (found < 0 || is_before(logits, k, found))) {
                found = k;
            }
        }
        p->best[i] = (predict_guess){.label = found, .name = p->names[found]};
    }
}

static ebb_status answer(predictor *p, const float *logits, int64_t top, size_t path) {
    double total = 0;
    for (uint32_t k = 0; k < p->u.card.classes; k++) {
        if (!isfinite(logits[k])) {
            return ebb__fail(p->u.ctx, EBB_MODEL, "image %s: what the net says is not finite",
                             p->o->paths[path]);
        }
    }
    choose(p, logits, top);
    double most = (double)logits[p->best[0].label];
    for (uint32_t k = 0; k < p->u.card.classes; k++) {
        total += exp((double)logits[k] - most);
    }
    for (int64_t i = 0; i < top; i++) {
        p->best[i].probability = exp((double)logits[p->best[i].label] - most) / total;
    }
    p->sum->images++;
    return p->emit(p->user, &(predict_answer){p->o->paths[path], p->best, top});
}

static ebb_status answer_batch(predictor *p, int64_t top) {
    run_session *session = p->u.session;
    int32_t program = ebb__plan_program(session->plan, JOB_VALID, 0);
    TRY(ebb__run_step(session, program));
    run_place place = ebb__run_find_output(session, program, CNN_LOGITS);
    const float *logits = NULL;
    TRY(ebb__run_map(session, place, DEVICE_READ, &logits));
    ebb_status status = EBB_OK;
    for (int64_t i = 0; status == EBB_OK && i < p->n; i++) {
        status = answer(p, logits + i * p->u.card.classes, top, p->shown[i]);
    }
    ebb_status unmapped = ebb__run_unmap(session, place, DEVICE_READ, logits);
    return status == EBB_OK ? unmapped : status;
}

static ebb_status answer_all(predictor *p, int64_t top) {
    while (p->next < p->o->n && p->bad == EBB_OK) {
        TRY(fill(p));
        if (p->n > 0) {
            TRY(answer_batch(p, top));
        }
    }
    if (p->bad != EBB_OK) {
        return ebb__fail(p->u.ctx, p->bad, "%s", p->why);
    }
    return p->sum->images > 0 ? EBB_OK : ebb__fail(p->u.ctx, EBB_DATA, "no image could be decoded");
}

/* ---- all of it ---- */

/* Fewer images at once take less memory. */
static ebb_status open_fitting(predictor *p, const char *dir) {
    train_settings *s = &p->u.s;
    s->batch = p->o->n < (size_t)s->batch ? (int64_t)p->o->n : s->batch;
    ((cnn_settings *)(void *)s->own)->lanes = 0;
    TRY(ebb__cnn_use_card(&p->u, dir));
    for (;;) {
        ebb_status status = ebb__cnn_use_open(&p->u, dir, 0);
        if (status != EBB_BUDGET || s->batch == 1) {
            return status;
        }
        ebb__ctx_clear(p->u.ctx);
        s->batch /= 2;
    }
}

static ebb_status name_classes(predictor *p) {
    const image_card *card = &p->u.card;
    TRY(ebb__alloc(p->u.ctx, card->classes, sizeof *p->names, &p->names));
    for (size_t at = 0, k = 0; at < card->names_bytes; at += strlen(card->names + at) + 1) {
        p->names[k++] = card->names + at;
    }
    return EBB_OK;
}

ebb_status ebb__cnn_predict(ebb_ctx *ctx, const train_settings *s, const char *dir,
                            const predict_options *options, predict_fn emit, void *user,
                            predict_summary *out) {
    predictor p = {.u = {.ctx = ctx, .s = *s, .set = {.ctx = ctx, .fd = -1}},
                   .decoder = {.ctx = ctx, .resizer = {.ctx = ctx}},
                   .o = options,
                   .emit = emit,
                   .user = user,
                   .sum = out};
    ebb_status status;
    *out = (predict_summary){0};
    TRY_OUT(open_fitting(&p, dir));
    int64_t top = options->top < p.u.card.classes ? options->top : p.u.card.classes;
    TRY_OUT(ebb__image_decoder_init(ctx, &p.u.card.size, &p.decoder));
    TRY_OUT(ebb__alloc(ctx, (size_t)p.u.s.batch, sizeof *p.shown, &p.shown));
    TRY_OUT(ebb__alloc(ctx, (size_t)top, sizeof *p.best, &p.best));
    TRY_OUT(name_classes(&p));
    TRY_OUT(answer_all(&p, top));
    out->planned_peak_bytes = p.u.session->plan->peak_bytes;
    out->measured_peak_bytes = p.u.session->measured_bytes;
out:
    ebb__image_decoder_free(&p.decoder);
    ebb__free(ctx, p.shown);
    ebb__free(ctx, p.best);
    ebb__free(ctx, p.names);
    ebb__cnn_use_close(&p.u);
    return status;
}
