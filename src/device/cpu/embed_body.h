/* embed_body.h - what reads the gradient of an embedding by chosen rows, over the vectors of vec.h.
 * The includer defines CPU_FN(name).
 *
 * Row v of the gradient is the sum of the rows r of dx with ids[r] = v, r ascending from 0. Every
 * member sorts the row numbers by id in its own part of the workspace, which costs far less than
 * the rows themselves, and takes a range of the vocabulary that holds its share of the rows: few
 * words make up most of a text, so an even cut of the vocabulary would not do. */
#include "device/cpu/cpu.h"
#include "device/cpu/span.h"
#include "device/cpu/vsquares.h"

/* Rows of dx in the order of their ids, equal ids ascending, and a member's part of them. */
typedef struct chosen {
    const op_view *dx;
    const int32_t *ids, *order; /* ids[order[p]] ascends */
    int64_t rows;
    int64_t from, to; /* the member's range of the vocabulary */
    int64_t p;        /* first place in order of its rows */
} chosen;

/* Stable, a byte of the id at a time; gives one of the two arrays. */
static const int32_t *sort_rows(const int32_t *ids, int64_t rows, int32_t *order, int32_t *other) {
    uint32_t most = 0;
    for (int64_t r = 0; r < rows; r++) {
        order[r] = (int32_t)r;
        most |= (uint32_t)ids[r];
    }
    for (uint32_t shift = 0; shift < 32 && most >> shift != 0; shift += 8) {
        int32_t at[257] = {0};
        for (int64_t r = 0; r < rows; r++) {
            at[((uint32_t)ids[r] >> shift & 255u) + 1]++;
        }
        for (int d = 0; d < 256; d++) {
            at[d + 1] += at[d];
        }
        for (int64_t p = 0; p < rows; p++) {
            other[at[(uint32_t)ids[order[p]] >> shift & 255u]++] = order[p];
        }
        int32_t *sorted = other;
        other = order;
        order = sorted;
    }
    return order;
}

static chosen chosen_rows(const op_call *call, const op_view *ids, const op_view *dx,
                          int64_t vocab) {
    chosen c = {.dx = dx, .ids = ids->data, .rows = ebb__ir_rows(&dx->type), .to = vocab};
    int32_t *space = (int32_t *)call->workspace + call->member * (2 * c.rows);
    c.order = sort_rows(c.ids, c.rows, space, space + c.rows);
    int64_t begin, end;
    ebb__team_share(c.rows, 1, call->member, call->members, &begin, &end);
    /* Cuts are ids, so that all rows of an id have one owner. */
    if (call->member > 0) {
        c.from = begin < c.rows ? c.ids[c.order[begin]] : vocab;
    }
    if (call->member + 1 < call->members) {
        c.to = end < c.rows ? c.ids[c.order[end]] : vocab;
    }
    for (c.p = begin; c.p > 0 && c.ids[c.order[c.p - 1]] >= c.from; c.p--) {
    }
    return c;
}

static INLINE int64_t chosen_id(const chosen *c, int64_t p) {
    return c->ids[c->order[p]];
}

/* Place behind the rows that share the id of place p. */
static INLINE int64_t chosen_end(const chosen *c, int64_t p) {
    int64_t q = p + 1;
    while (q < c->rows && chosen_id(c, q) == chosen_id(c, p)) {
        q++;
    }
    return q;
}

/* m columns from j on of the gradient's row that places [p, q) make. */
static INLINE vf chosen_sum(const chosen *c, int64_t p, int64_t q, int64_t j, int64_t m) {
    vf sum = v_all(0.0f);
    for (; p < q; p++) {
        sum += v_load(cpu_at(c->dx, c->order[p], j), m);
    }
    return sum;
}

/* ---- squares --------------------------------------------------------------------------------- */

/* Adds columns [j, end) of a row, the first of which falls on `lane`. Lanes that get nothing add a
 * zero, which changes no sum of squares. */
static void add_row_squares(const chosen *c, int64_t p, int64_t q, int64_t j, int64_t end,
                            int64_t lane, vd sum[WIDE_VECTORS]) {
    while (j < end) {
        float x[SQUARES_LANES] = {0};
        int64_t n = end - j < SQUARES_LANES - lane ? end - j : SQUARES_LANES - lane;
        if (n < SQUARES_LANES) {
            for (int64_t a = p; a < q; a++) {
                const float *from = cpu_at(c->dx, c->order[a], j);
                for (int64_t l = 0; l < n; l++) {
                    x[lane + l] += from[l];
                }
            }
            add_squares(sum, x);
        } else if (q - p == 1) { /* -0, which a sum from 0 would make +0, has the same square */
            const float *from = cpu_at(c->dx, c->order[p], 0);
            for (; end - j >= SQUARES_LANES; j += SQUARES_LANES) {
                add_squares(sum, from + j);
            }
            n = 0;
        } else {
            for (int l = 0; l < SQUARES_LANES; l += VLEN) {
                v_store(x + l, chosen_sum(c, p, q, j + l, VLEN), VLEN);
            }
            add_squares(sum, x);
        }
        j += n;
        lane = 0;
    }
}

void CPU_FN(embed_squares)(const op_call *call) {
    int64_t cols = ir_cols(&call->in[1].type), vocab = call->attr->i[0];
    double *out = call->out[0].data;
    chosen c = chosen_rows(call, &call->in[0], &call->in[1], vocab);
    int64_t p = c.p;
    /* A block belongs to the owner of its first row: rows may reach in from the block before. */
    int64_t first = (c.from * cols + SQUARES_BLOCK - 1) / SQUARES_BLOCK;
    int64_t last = (c.to * cols + SQUARES_BLOCK - 1) / SQUARES_BLOCK;
    for (int64_t block = first; block < last; block++) {
        int64_t begin = block * SQUARES_BLOCK, end = begin + SQUARES_BLOCK;
        vd sum[WIDE_VECTORS] = {{0}};
        while (p < c.rows && (chosen_id(&c, p) + 1) * cols <= begin) {
            p++;
        }
        for (int64_t q, a = p; a < c.rows && chosen_id(&c, a) * cols < end; a = q) {
            int64_t row = chosen_id(&c, a) * cols;
            int64_t from = row < begin ? begin - row : 0;
            int64_t to = row + cols > end ? end - row : cols;
            q = chosen_end(&c, a);
            add_row_squares(&c, a, q, from, to, (row + from - begin) % SQUARES_LANES, sum);
        }
        out[block] = fold_squares(sum);
    }
}

/* ---- update ---------------------------------------------------------------------------------- */

/* v_all makes -0 a +0. */
static INLINE vf all_signed(float x) {
    return x - (vf){0};
}

typedef struct sgd_terms {
    const op_view *in, *out;
    vf scale, lr;
    bool scaled;
} sgd_terms;

/* Row v of the table; places [p, q) make its gradient, none a gradient of zero. */
static void sgd_row(const sgd_terms *t, const chosen *c, int64_t v, int64_t p, int64_t q) {
    const float *w = cpu_at(t->in, v, 0);
    float *out = cpu_at(t->out, v, 0);
#define EMBED_SGD_STEP(j, m)                                                                       \
    do {                                                                                           \
        vf g = chosen_sum(c, p, q, j, m);                                                          \
        v_store(out + (j), v_fma(-t->lr, t->scaled ? g * t->scale : g, v_load(w + (j), m)), m);    \
    } while (0)
    EACH_VECTOR(ir_cols(&t->out->type), EMBED_SGD_STEP);
}

void CPU_FN(embed_sgd)(const op_call *call) {
    const float *scale = call->in[3].data;
    float lr = *(const float *)call->in[4].data;
    sgd_terms t = {.in = &call->in[0],
                   .out = &call->out[0],
                   .scale = all_signed(scale != NULL ? *scale : 1.0f),
                   .lr = all_signed(lr),
                   .scaled = scale != NULL};
    chosen c = chosen_rows(call, &call->in[1], &call->in[2], ebb__ir_rows(&t.out->type));
    /* To add -0 changes no number. Any other step (a rate below 0, not finite) can. */
    float step = -lr * (scale != NULL ? 0.0f * *scale : 0.0f);
    bool keeps = t.in->data == t.out->data && step == 0.0f && __builtin_signbit(step) != 0;
    int64_t p = c.p, v = c.from;
    while (v < c.to) {
        int64_t next = p < c.rows && chosen_id(&c, p) < c.to ? chosen_id(&c, p) : c.to;
        for (; v < next && !keeps; v++) {
            sgd_row(&t, &c, v, 0, 0);
        }
        v = next;
        if (v < c.to) {
            int64_t q = chosen_end(&c, p);
            sgd_row(&t, &c, v, p, q);
            p = q;
            v++;
        }
    }
}
