/* lrn_body.h - local response normalisation over the vectors of vec.h. The includer defines
 * CPU_FN(name).
 *
 * All channels of one pixel of one image are gathered into a row of the workspace, with zeros
 * before and behind them for windows that reach beyond: a sum that starts from 0 and is never -0
 * does not notice added zeros. Members share pixels. */
#include "base/team.h"
#include "device/cpu/cpu.h"
#include "device/cpu/vec.h"
#include "op/lrn.h"

#include <string.h>

/* One call's numbers and the member's rows: x and t have size - 1 zeros around their channels. */
typedef struct lrn_work {
    op_map m;
    int64_t channels, size, behind, ahead;
    vf scale, k;
    float *x, *t, *r, *dy;
} lrn_work;

static lrn_work lrn_start(const op_call *call) {
    op_map m = op_map_of(&call->out[0].type);
    lrn_work w = {.m = m, .channels = op_map_channels(&m), .size = call->attr->i[LRN_SIZE]};
    int64_t padded = w.channels + w.size - 1, floats = call->n_in * (padded + w.channels);
    w.behind = op_lrn_behind(call->attr);
    w.ahead = op_lrn_ahead(call->attr);
    w.scale = v_all(call->attr->f[LRN_ALPHA] / (float)w.size);
    w.k = v_all(call->attr->f[LRN_K]);
    w.x = (float *)call->workspace + call->member * floats;
    memset(w.x, 0, (size_t)floats * sizeof(float));
    w.r = w.x + padded;
    if (call->n_in > 1) {
        w.t = w.r + w.channels;
        w.dy = w.t + padded;
    }
    return w;
}

/* The channels of image i of a pixel, block after block, from or to a row. */
static INLINE void move_channels(const lrn_work *w, float *blocks, float *row, bool back) {
    int64_t n = w->m.channels, apart = op_map_block(&w->m);
    for (int64_t b = 0; b < w->m.blocks; b++, row += n, blocks += apart) {
        memcpy(back ? blocks : row, back ? row : blocks, (size_t)n * sizeof(float));
    }
}

/* s of channels c, c + 1, ...; m lanes. */
static INLINE vf lrn_s(const lrn_work *w, int64_t c, int64_t m) {
    vf sum = v_all(0.0f);
    for (int64_t i = 0; i < w->size; i++) {
        vf x = v_load(w->x + c + i, m);
        sum = v_fma(x, x, sum);
    }
    return v_fma(w->scale, sum, w->k);
}

static INLINE vf lrn_root(vf s) {
    vf root = v_sqrt(s);
    return 1.0f / (root * v_sqrt(root));
}

static void lrn_row(const lrn_work *w) {
#define LRN_STEP(c, m)                                                                             \
    v_store(w->r + (c), v_load(w->x + w->behind + (c), m) * lrn_root(lrn_s(w, c, m)), m)
    EACH_VECTOR(w->channels, LRN_STEP);
}

/* r becomes dx. */
static void lrn_grad_row(const lrn_work *w) {
    const float *x = w->x + w->behind;
    vf factor = (float)LRN_GRADIENT * w->scale;
#define LRN_TERM_STEP(c, m)                                                                        \
    do {                                                                                           \
        vf s = lrn_s(w, c, m), root = lrn_root(s);                                                 \
        vf dyx = v_load(w->dy + (c), m) * v_load(x + (c), m);                                      \
        v_store(w->t + w->ahead + (c), dyx * (root / s), m);                                       \
        v_store(w->r + (c), root, m);                                                              \
    } while (0)
    EACH_VECTOR(w->channels, LRN_TERM_STEP);
#define LRN_GRAD_STEP(c, m)                                                                        \
    do {                                                                                           \
        vf sum = v_all(0.0f), own = v_load(w->dy + (c), m) * v_load(w->r + (c), m);                \
        for (int64_t i = 0; i < w->size; i++) {                                                    \
            sum += v_load(w->t + (c) + i, m);                                                      \
        }                                                                                          \
        v_store(w->r + (c), v_fma(factor * v_load(x + (c), m), sum, own), m);                      \
    } while (0)
    EACH_VECTOR(w->channels, LRN_GRAD_STEP);
}

/* Where pixel i of all groups begins in a view, in its first block. */
static float *pixel_at(const lrn_work *w, const op_view *view, int64_t i) {
    int64_t pixels = (int64_t)w->m.high * w->m.wide;
    return (float *)view->data + i / pixels * op_map_pitch(view) + i % pixels * op_map_pixel(&w->m);
}

static void lrn_pixels(const op_call *call) {
    lrn_work w = lrn_start(call);
    bool grad = w.dy != NULL;
    int64_t begin, end;
    ebb__team_share((int64_t)w.m.groups * w.m.high * w.m.wide, 1, call->member, call->members,
                    &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        float *x = pixel_at(&w, &call->in[grad ? 1 : 0], i), *out = pixel_at(&w, &call->out[0], i);
        float *dy = grad ? pixel_at(&w, &call->in[0], i) : NULL;
        for (int64_t lane = 0; lane < op_map_pixel(&w.m); lane += w.m.channels) {
            move_channels(&w, x + lane, w.x + w.behind, false);
            if (grad) {
                move_channels(&w, dy + lane, w.dy, false);
                lrn_grad_row(&w);
            } else {
                lrn_row(&w);
            }
            move_channels(&w, out + lane, w.r, true);
        }
    }
}

void CPU_FN(lrn)(const op_call *call) {
    lrn_pixels(call);
}

/* dy, x. */
void CPU_FN(lrn_grad)(const op_call *call) {
    lrn_pixels(call);
}
