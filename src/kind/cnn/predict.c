/* predict.c - what images show, by a trained net: PNG and JPEG files, or pixels. They are brought
 * to the net's size straight into the batch that is shown to it; how many at once changes no
 * answer.
 */
#include "kind/cnn/cnn.h"

#include "data/batcher.h"
#include "data/image_decode.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct predictor {
    kind_open base;
    cnn_use u;
    image_decoder decoder;
    /* of the call: */
    const predict_options *o;
    predict_fn emit;
    void *user;
    predict_summary *sum;
    size_t next;    /* image to decode */
    int64_t n;      /* of the batch */
    ebb_status bad; /* of an image that ends it, once those before it were answered */
    char why[512];
    /* of all calls: */
    size_t *shown;       /* [batch]: images of the batch */
    const char **names;  /* [classes]; NULL: it has none */
    predict_guess *best; /* [classes] */
    uint8_t *row;        /* [width, 3]: of a grey image; room for row_pixels of them */
    uint32_t row_pixels;
} predictor;

/* ---- reading ---- */

/* Pixels of an array, as a file of them would be. */
static void resize(const predictor *p, size_t image, uint8_t *pixels) {
    const predict_options *o = p->o;
    image_resizer *resizer = (image_resizer *)&p->decoder.resizer;
    size_t each = (size_t)o->width * o->channels;
    ebb__image_resize_begin(resizer, o->height, o->width);
    for (uint32_t y = 0; y < o->height; y++) {
        const uint8_t *row = o->pixels + (image * o->height + y) * each;
        for (uint32_t x = 0; o->channels == 1 && x < o->width; x++) {
            memset(p->row + (size_t)x * IMAGE_RGB, row[x], IMAGE_RGB);
        }
        ebb__image_resize_row(resizer, y, o->channels == 1 ? p->row : row);
    }
    ebb__image_resize_end(resizer, pixels);
}

/* One image into a row of the batch. One that cannot be decoded is left out, or the last. */
static ebb_status decode_next(predictor *p, uint8_t *pixels) {
    ebb_ctx *ctx = p->u.ctx;
    size_t image = p->next++;
    if (p->o->paths == NULL) {
        resize(p, image, pixels);
        p->shown[p->n++] = image;
        return EBB_OK;
    }
    ebb_status status = ebb__image_decode(&p->decoder, p->o->paths[image], pixels);
    if (status == EBB_OK) {
        p->shown[p->n++] = image;
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

static ebb_status answer(predictor *p, const float *logits, int64_t top, size_t image) {
    double total = 0;
    for (uint32_t k = 0; k < p->u.card.classes; k++) {
        if (!isfinite(logits[k])) {
            return ebb__fail(p->u.ctx, EBB_MODEL, "image %zu%s%s: what the net says is not finite",
                             image, p->o->paths != NULL ? ", " : "",
                             p->o->paths != NULL ? p->o->paths[image] : "");
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
    const char *path = p->o->paths != NULL ? p->o->paths[image] : NULL;
    return p->emit(p->user, &(predict_answer){image, path, p->best, top});
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
        if (p->o->stop != NULL && p->o->stop(p->o->stop_user)) {
            return ebb__fail(p->u.ctx, EBB_STOPPED, "stopped before all images were seen");
        }
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

/* Pointers to the names in the card, of which there may be fewer than classes. */
static void name_classes(const image_card *card, const char **names) {
    for (size_t at = 0, k = 0; at < card->names_bytes; at += strlen(card->names + at) + 1) {
        names[k++] = card->names + at;
    }
}

ebb_status ebb__cnn_classes(ebb_ctx *ctx, const train_settings *s, const char *dir,
                            alloc_region *region, const char ***names, int64_t *n) {
    cnn_use u = {.ctx = ctx, .s = *s, .set = {.ctx = ctx, .fd = -1}};
    ebb_status status;
    TRY_OUT(ebb__cnn_use_card(&u, dir));
    TRY_OUT(ebb__region_alloc(region, u.card.classes, sizeof **names, names));
    name_classes(&u.card, *names);
    for (uint32_t k = 0; k < u.card.classes; k++) {
        char *copy = NULL;
        if ((*names)[k] != NULL) {
            TRY_OUT(ebb__region_strdup(region, (*names)[k], &copy));
        }
        (*names)[k] = copy;
    }
    *n = u.card.classes;
out:
    ebb__cnn_use_close(&u);
    return status;
}

static void close_predictor(kind_open *open) {
    predictor *p = (predictor *)open;
    ebb_ctx *ctx = p->u.ctx;
    ebb__image_decoder_free(&p->decoder);
    ebb__free(ctx, p->shown);
    ebb__free(ctx, p->best);
    ebb__free(ctx, p->names);
    ebb__free(ctx, p->row);
    ebb__cnn_use_close(&p->u);
    ebb__free(ctx, p);
}

ebb_status ebb__cnn_predict_open(ebb_ctx *ctx, const train_settings *s, const char *dir,
                                 kind_open **out) {
    predictor *p = NULL;
    ebb_status status;
    TRY(ebb__alloc(ctx, 1, sizeof *p, &p));
    *p = (predictor){.base = {.close = close_predictor},
                     .u = {.ctx = ctx, .s = *s, .set = {.ctx = ctx, .fd = -1}},
                     .decoder = {.ctx = ctx, .resizer = {.ctx = ctx}}};
    TRY_OUT(open_fitting(p, dir));
    TRY_OUT(ebb__image_decoder_init(ctx, &p->u.card.size, &p->decoder));
    TRY_OUT(ebb__alloc(ctx, (size_t)p->u.s.batch, sizeof *p->shown, &p->shown));
    TRY_OUT(ebb__alloc(ctx, p->u.card.classes, sizeof *p->best, &p->best));
    TRY_OUT(ebb__alloc(ctx, p->u.card.classes, sizeof *p->names, &p->names));
    name_classes(&p->u.card, p->names);
    p->base.session = p->u.session;
    *out = &p->base;
    return EBB_OK;
out:
    close_predictor(&p->base);
    return status;
}

/* Whether pixels can be an image; grey ones need a row of colours. */
static ebb_status check_pixels(predictor *p, const predict_options *o) {
    if (o->paths != NULL) {
        return EBB_OK;
    }
    if (o->height < 1 || o->height > IMAGE_MOST_SIDE || o->width < 1 ||
        o->width > IMAGE_MOST_SIDE || (o->channels != 1 && o->channels != IMAGE_RGB)) {
        return ebb__fail(p->u.ctx, EBB_DATA,
                         "images of %u x %u pixels and %u channels: sides of 1 to %d pixels and 1 "
                         "or 3 channels are allowed",
                         o->height, o->width, o->channels, IMAGE_MOST_SIDE);
    }
    if (o->channels == 1 && p->row_pixels < o->width) {
        TRY(ebb__realloc(p->u.ctx, p->row, o->width, IMAGE_RGB, &p->row));
        p->row_pixels = o->width;
    }
    return EBB_OK;
}

ebb_status ebb__cnn_predict(kind_open *open, const predict_options *options, predict_fn emit,
                            void *user, predict_summary *out) {
    predictor *p = (predictor *)open;
    int64_t classes = p->u.card.classes;
    *out = (predict_summary){0};
    TRY(check_pixels(p, options));
    p->o = options;
    p->emit = emit;
    p->user = user;
    p->sum = out;
    p->next = 0;
    p->bad = EBB_OK;
    TRY(answer_all(p, options->top < classes ? options->top : classes));
    out->planned_peak_bytes = p->u.session->plan->peak_bytes;
    out->measured_peak_bytes = p->u.session->measured_bytes;
    return EBB_OK;
}
