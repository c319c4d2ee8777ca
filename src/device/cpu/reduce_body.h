/* reduce_body.h - sums, softmax and cross-entropy over the vectors of vec.h. The includer defines
 * CPU_FN(name).
 *
 * Reductions along a row have the 16 lanes of vlanes.h. Members share rows, columns or blocks,
 * never the terms of one sum. */
#include "device/cpu/cpu.h"
#include "device/cpu/span.h"
#include "device/cpu/vexp.h"
#include "device/cpu/vsquares.h"
#include "op/loss_part.h"
#include "op/map.h"
#include "op/math.h"

#include <string.h>

/* Which of equal numbers wins does not matter (zeros of either sign are the same shift), so rows
 * are taken by several chains of lanes. */
static float row_top(const float *x, int64_t n) {
    enum { CHAINS = 4 };
    lanes top[CHAINS];
    int64_t j = 0;
    for (int i = 0; i < CHAINS; i++) {
        top[i] = lanes_all(-__builtin_inff());
    }
    for (; j + CHAINS * LANES <= n; j += CHAINS * LANES) {
        for (int i = 0; i < CHAINS; i++) {
            for (int q = 0; q < LANE_VECTORS; q++) {
                vf part = v_load(x + j + i * LANES + q * VLEN, VLEN);
                top[i].v[q] = v_larger(part, top[i].v[q]);
            }
        }
    }
    for (; j < n; j += LANES) {
        lanes part = lanes_load(x + j, n - j, -__builtin_inff());
        for (int q = 0; q < LANE_VECTORS; q++) {
            top[0].v[q] = v_larger(part.v[q], top[0].v[q]);
        }
    }
    float s[CHAINS * LANES];
    __builtin_memcpy(s, top, sizeof s);
    for (int half = CHAINS * LANES / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; l++) {
            s[l] = s[l + half] > s[l] ? s[l + half] : s[l];
        }
    }
    return s[0];
}

static void share_rows(const op_call *call, const op_view *view, int64_t *begin, int64_t *end) {
    ebb__team_share(ebb__ir_rows(&view->type), 1, call->member, call->members, begin, end);
}

void CPU_FN(softmax)(const op_call *call) {
    int64_t n = ir_cols(&call->in[0].type), begin, end;
    share_rows(call, &call->in[0], &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        const float *x = cpu_at(&call->in[0], r, 0);
        float *y = cpu_at(&call->out[0], r, 0);
        vf inverse = v_all(1.0f / row_sum_exp(x, n, row_top(x, n), y, NULL));
#define SOFTMAX_STEP(j, m) v_store(y + (j), v_load(y + (j), m) * inverse, m)
        EACH_VECTOR(n, SOFTMAX_STEP);
    }
}

void CPU_FN(softmax_grad)(const op_call *call) {
    int64_t n = ir_cols(&call->in[0].type), begin, end;
    share_rows(call, &call->in[0], &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        const float *dy = cpu_at(&call->in[0], r, 0), *y = cpu_at(&call->in[1], r, 0);
        float *dx = cpu_at(&call->out[0], r, 0);
        lanes sum = lanes_all(0.0f);
        for (int64_t j = 0; j < n; j += LANES) {
            lanes a = lanes_load(dy + j, n - j, 0.0f), b = lanes_load(y + j, n - j, 0.0f);
            for (int q = 0; q < LANE_VECTORS; q++) {
                sum.v[q] = v_fma(a.v[q], b.v[q], sum.v[q]);
            }
        }
        vf d = v_all(lanes_sum(sum));
#define SOFTMAX_GRAD_STEP(j, m) v_store(dx + (j), v_load(y + (j), m) * (v_load(dy + (j), m) - d), m)
        EACH_VECTOR(n, SOFTMAX_GRAD_STEP);
    }
}

void CPU_FN(xent)(const op_call *call) {
    int64_t n = ir_cols(&call->in[0].type), begin, end;
    const int32_t *labels = call->in[1].data;
    float *loss = call->out[0].data, *lse = call->out[1].data, smooth = call->attr->f[0];
    share_rows(call, &call->in[0], &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        const float *x = cpu_at(&call->in[0], r, 0);
        float top = row_top(x, n);
        lanes plain = lanes_all(0.0f);
        float sum = smooth > 0.0f ? row_sum_exp(x, n, top, NULL, &plain)
                                  : row_sum_exp(x, n, top, NULL, NULL);
        float total = top + ebb__math_log(sum);
        lse[r] = total;
        loss[r] = labels[r] < 0 ? 0.0f : total - x[labels[r]];
        if (labels[r] >= 0 && smooth > 0.0f) {
            float mean = lanes_sum(plain) / (float)n;
            loss[r] = __builtin_fmaf(smooth, total - mean, (1.0f - smooth) * loss[r]);
        }
    }
}

void CPU_FN(xent_grad)(const op_call *call) {
    int64_t n = ir_cols(&call->in[0].type), begin, end;
    const int32_t *labels = call->in[1].data;
    const float *lse = call->in[2].data, *d = call->in[3].data;
    int64_t first = call->attr->i[0], classes = call->attr->i[1] > 0 ? call->attr->i[1] : n;
    float smooth = call->attr->f[0], share = smooth / (float)classes;
    float target = share + (1.0f - smooth);
    share_rows(call, &call->in[0], &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        const float *x = cpu_at(&call->in[0], r, 0);
        float *dx = cpu_at(&call->out[0], r, 0);
        if (labels[r] < 0) {
            memset(dx, 0, (size_t)n * sizeof *dx);
            continue;
        }
        float shift = lse[r], factor = d[r], at_label = 0.0f;
        int64_t label = labels[r] - first;
        bool here = label >= 0 && label < n; /* else in another part of the classes */
        if (here) {
            at_label = (ebb__math_exp(x[label] - shift) - target) * factor;
        }
#define XENT_GRAD_STEP(j, m) v_store(dx + (j), v_exp(v_load(x + (j), m) - shift) * factor, m)
#define XENT_SMOOTH_GRAD_STEP(j, m)                                                                \
    v_store(dx + (j), (v_exp(v_load(x + (j), m) - shift) - share) * factor, m)
        if (smooth > 0.0f) {
            EACH_VECTOR(n, XENT_SMOOTH_GRAD_STEP);
        } else {
            EACH_VECTOR(n, XENT_GRAD_STEP);
        }
        if (here) {
            dx[label] = at_label;
        }
    }
}

/* ---- cross-entropy in parts of the classes ---- */

void CPU_FN(row_max)(const op_call *call) {
    float *out = call->out[0].data;
    int64_t begin, end;
    share_rows(call, &call->in[0], &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        out[r] = row_top(cpu_at(&call->in[0], r, 0), ir_cols(&call->in[0].type));
    }
}

/* The largest of row r in lists of `rows` each. */
static float largest_of(const op_view *lists, int64_t rows, int64_t r) {
    const float *tops = lists->data;
    float top = -__builtin_inff();
    for (int64_t at = r; at < ir_cols(&lists->type); at += rows) {
        top = tops[at] > top ? tops[at] : top;
    }
    return top;
}

void CPU_FN(xent_part)(const op_call *call) {
    const op_view *c = &call->in[0], *logits = &call->in[1], *out = &call->out[0];
    const int32_t *labels = call->in[2].data;
    int64_t n = ir_cols(&logits->type), rows = ebb__ir_rows(&logits->type), begin, end;
    const size_t wide = (size_t)ir_cols(&out->type);
    const bool smooth = wide > LOSS_PART_PLAIN;
    share_rows(call, logits, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        float *sums = cpu_at(out, r, 0);
        const float *x = cpu_at(logits, r, 0);
        int64_t label = labels[r] - (int64_t)call->attr->i[0];
        if (c->data == NULL) {
            memset(sums, 0, wide * sizeof *sums);
        } else if (c->data != out->data) {
            memcpy(sums, cpu_at(c, r, 0), wide * sizeof *sums);
        }
        float shift = largest_of(&call->in[3], rows, r);
        lanes sum = lanes_load(sums, LANES, 0.0f);
        if (smooth) {
            lanes plain = lanes_load(sums + LOSS_PART_PLAIN, LANES, 0.0f);
            row_add_exp(&sum, x, n, shift, NULL, &plain);
            lanes_store(sums + LOSS_PART_PLAIN, plain, LANES);
        } else {
            row_add_exp(&sum, x, n, shift, NULL, NULL);
        }
        lanes_store(sums, sum, LANES);
        if (label >= 0 && label < n) {
            sums[LOSS_PART_LABEL] = x[label];
        }
    }
}

void CPU_FN(xent_end)(const op_call *call) {
    const int32_t *labels = call->in[1].data;
    float *loss = call->out[0].data, *lse = call->out[1].data, smooth = call->attr->f[0];
    int64_t rows = ir_cols(&call->in[1].type), begin, end;
    ebb__team_share(rows, 1, call->member, call->members, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        const float *sums = cpu_at(&call->in[0], r, 0);
        float sum = lanes_sum(lanes_load(sums, LANES, 0.0f));
        float total = largest_of(&call->in[2], rows, r) + ebb__math_log(sum);
        lse[r] = total;
        loss[r] = labels[r] < 0 ? 0.0f : total - sums[LOSS_PART_LABEL];
        if (labels[r] >= 0 && smooth > 0.0f) {
            float all = lanes_sum(lanes_load(sums + LOSS_PART_PLAIN, LANES, 0.0f));
            float mean = all / (float)call->attr->i[0];
            loss[r] = __builtin_fmaf(smooth, total - mean, (1.0f - smooth) * loss[r]);
        }
    }
}

/* ---- sums over rows, sums of squares --------------------------------------------------------- */

/* Columns are taken in blocks that stay in the first-level cache while rows go by, so that rows are
 * read in long runs, several at a time; each column is still one sum, rows ascending. */
enum { SUM_COLUMNS = 1024, SUM_ROWS = 4 };

static INLINE void add_rows(float *sum, const op_view *x, int64_t row, int64_t rows, int64_t col,
                            int64_t cols) {
    const float *from = cpu_at(x, row, col);
#define ADD_ROWS_STEP(j, m)                                                                        \
    do {                                                                                           \
        vf total = v_load(sum + (j), m);                                                           \
        for (int64_t i = 0; i < rows; i++) {                                                       \
            total += v_load(from + i * x->ld + (j), m);                                            \
        }                                                                                          \
        v_store(sum + (j), total, m);                                                              \
    } while (0)
    EACH_VECTOR(cols, ADD_ROWS_STEP);
}

void CPU_FN(sum_rows)(const op_call *call) {
    const op_view *x = &call->in[1];
    const float *c = call->in[0].data;
    float *out = call->out[0].data;
    int64_t rows = ebb__ir_rows(&x->type), begin, end;
    ebb__team_share(ir_cols(&x->type), LANES, call->member, call->members, &begin, &end);
    for (int64_t j = begin; j < end; j += SUM_COLUMNS) {
        int64_t cols = end - j < SUM_COLUMNS ? end - j : SUM_COLUMNS, r = 0;
        if (c == NULL) {
            memset(out + j, 0, (size_t)cols * sizeof *out);
        } else if (c != out) {
            memcpy(out + j, c + j, (size_t)cols * sizeof *out);
        }
        for (; r + SUM_ROWS <= rows; r += SUM_ROWS) {
            add_rows(out + j, x, r, SUM_ROWS, j, cols);
        }
        for (; r < rows; r++) {
            add_rows(out + j, x, r, 1, j, cols);
        }
    }
}

/* Adds those of elements [begin, end) of a matrix in row-major order, whatever its leading
 * dimension, to the lanes; the first is lane 0's. */
static void add_block(const op_view *view, int64_t begin, int64_t end, vd sum[WIDE_VECTORS]) {
    /* Without gaps it is one long row. */
    int64_t cols = view->ld == ir_cols(&view->type) ? end : ir_cols(&view->type);
    int64_t row = begin / cols, col = begin % cols;
    for (int64_t i = begin; i < end;) {
        if (col == cols) {
            row++;
            col = 0;
        }
        int64_t run = (end - i < cols - col ? end - i : cols - col) / LANES * LANES;
        const float *x = cpu_at(view, row, col);
        for (int64_t j = 0; j < run; j += LANES) {
            add_squares(sum, x + j);
        }
        i += run;
        col += run;
        if (run > 0 && col == cols) {
            continue;
        }
        float part[LANES] = {0}; /* across the end of a row, or the last ones */
        for (int64_t l = 0; l < LANES && i < end; l++, i++, col++) {
            if (col == cols) {
                row++;
                col = 0;
            }
            part[l] = *cpu_at(view, row, col);
        }
        add_squares(sum, part);
    }
}

void CPU_FN(sum_squares)(const op_call *call) {
    const op_view *view = &call->in[0];
    double *out = call->out[0].data;
    int64_t count = ebb__ir_rows(&view->type) * ir_cols(&view->type), begin, end;
    ebb__team_share(count, SQUARES_BLOCK, call->member, call->members, &begin, &end);
    for (int64_t i = begin; i < end; i += SQUARES_BLOCK) {
        int64_t stop = count - i < SQUARES_BLOCK ? count : i + SQUARES_BLOCK;
        vd sum[WIDE_VECTORS] = {{0}};
        add_block(view, i, stop, sum);
        out[i / SQUARES_BLOCK] = fold_squares(sum);
    }
}

void CPU_FN(sum_squares_part)(const op_call *call) {
    const op_view *c = &call->in[0], *view = &call->in[1];
    double *out = call->out[0].data;
    int64_t count = ebb__ir_rows(&view->type) * ir_cols(&view->type), first = call->attr->i[0];
    int64_t blocks = squares_blocks(first + count), begin, end;
    ebb__team_share(blocks, 1, call->member, call->members, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int64_t from = i * SQUARES_BLOCK - first, to = from + SQUARES_BLOCK;
        vd sum[WIDE_VECTORS] = {{0}};
        if (i == 0 && c->data != NULL) {
            memcpy(sum, c->data, sizeof sum);
        }
        add_block(view, from > 0 ? from : 0, to < count ? to : count, sum);
        out[i] = fold_squares(sum);
        if (i + 1 == blocks && to > count) { /* it goes on in the next part */
            memcpy(call->out[1].data, sum, sizeof sum);
        } else if (i + 1 == blocks) {
            memset(call->out[1].data, 0, sizeof sum);
        }
    }
}

/* ---- sums over the images and pixels of a map ---- */

/* Where the images [first, first + n) of a channel block's pixel lie, n at most OP_MAP_IMAGES. */
static int64_t image_places(const op_map *m, int64_t pitch, int64_t first, int64_t *at) {
    int64_t left = op_map_images(m) - first, n = left < OP_MAP_IMAGES ? left : OP_MAP_IMAGES;
    for (int64_t i = 0; i < n; i++) {
        at[i] = (first + i) / m->images * pitch + (first + i) % m->images * m->channels;
    }
    return n;
}

/* Adds `wide` channels from x on, at most a block of a chain, to sum. */
static void add_channels(const op_map *m, int64_t pitch, const float *x, int64_t wide, float *sum) {
    enum { VECTORS = OP_MAP_CHANNELS / VLEN };
    int64_t at[OP_MAP_IMAGES], pixels = (int64_t)m->high * m->wide;
    vf acc[VECTORS];
    for (int64_t q = 0; q < VECTORS; q++) {
        int64_t left = wide - q * VLEN;
        acc[q] = left > 0 ? v_load(sum + q * VLEN, left < VLEN ? left : VLEN) : v_all(0.0f);
    }
    for (int64_t first = 0; first < op_map_images(m); first += OP_MAP_IMAGES) {
        int64_t n = image_places(m, pitch, first, at);
        for (int64_t p = 0; p < pixels; p++) {
            for (int64_t i = 0; i < n; i++) {
                const float *row = x + p * op_map_pixel(m) + at[i];
                for (int64_t q = 0; q < VECTORS && wide == OP_MAP_CHANNELS; q++) {
                    acc[q] += v_load(row + q * VLEN, VLEN);
                }
                for (int64_t j = 0; j < wide && wide < OP_MAP_CHANNELS; j += VLEN) {
                    acc[j / VLEN] += v_load(row + j, wide - j < VLEN ? wide - j : VLEN);
                }
            }
        }
    }
    for (int64_t j = 0; j < wide; j += VLEN) {
        v_store(sum + j, acc[j / VLEN], wide - j < VLEN ? wide - j : VLEN);
    }
}

void CPU_FN(conv_bias)(const op_call *call) {
    const op_view *dy = &call->in[1];
    op_map m = op_map_of(&dy->type);
    const float *c = call->in[0].data;
    float *out = call->out[0].data;
    int64_t pieces = (m.channels + OP_MAP_CHANNELS - 1) / OP_MAP_CHANNELS, begin, end;
    ebb__team_share(m.blocks * pieces, 1, call->member, call->members, &begin, &end);
    for (int64_t u = begin; u < end; u++) {
        int64_t lane = u % pieces * OP_MAP_CHANNELS, k = u / pieces * m.channels + lane;
        int64_t wide = m.channels - lane < OP_MAP_CHANNELS ? m.channels - lane : OP_MAP_CHANNELS;
        const float *x = (const float *)dy->data + u / pieces * op_map_block(&m) + lane;
        if (c != out) {
            for (int64_t j = 0; j < wide; j++) {
                out[k + j] = c != NULL ? c[k + j] : 0.0f;
            }
        }
        add_channels(&m, op_map_pitch(dy), x, wide, out + k);
    }
}
