/* narrow.c - values rounded to a format of fewer bits, and kept in it (narrow.h).
 *
 * Rounding is what changes a result, and stands in the graph for itself; codes of what is rounded
 * lose nothing. round_to has no gradient: it stands between a value and what reads it for others'
 * gradients only. */
#include "op/narrow.h"

#include "op/define.h"

#include <endian.h>
#include <math.h>
#include <string.h>

/* ---- one number: the specification ---- */

/* The value of a code. */
static double format_value(const op_format *f, uint32_t code) {
    uint32_t magnitude = code & ((1u << (f->bits - 1)) - 1), one = 1u << f->mantissa;
    int field = (int)(magnitude >> f->mantissa);
    double size = field == 0 ? ldexp(magnitude, 1 - f->bias - f->mantissa)
                             : ldexp(one + magnitude % one, field - f->bias - f->mantissa);
    size = magnitude > f->largest ? (double)NAN : size;
    return code >> (f->bits - 1) != 0 ? -size : size;
}

/* The nearest number of the format, of two the one with an even code; the largest for all above. */
static double format_round(const op_format *f, double x) {
    double size = fabs(x), most = format_value(f, f->largest);
    if (isnan(x)) {
        return x;
    }
    if (size > most) {
        return copysign(most, x);
    }
    int exponent; /* size is in [0.5, 1) 2^exponent */
    (void)frexp(size, &exponent);
    int step = (exponent - 1 > 1 - f->bias ? exponent - 1 : 1 - f->bias) - f->mantissa;
    size = ldexp(rint(ldexp(size, -step)), step);
    return copysign(size, x);
}

/* The code of what x is rounded to. */
static uint32_t format_code(const op_format *f, double x) {
    double size = fabs(format_round(f, x)), least = ldexp(1, 1 - f->bias);
    uint32_t sign = signbit(x) ? 1u << (f->bits - 1) : 0, code = (1u << (f->bits - 1)) - 1;
    if (size < least) {
        code = (uint32_t)ldexp(size, f->bias + f->mantissa - 1);
    } else if (!isnan(size)) {
        int exponent;
        double half = frexp(size, &exponent);
        code = (uint32_t)(exponent - 2 + f->bias) << f->mantissa; /* the leading 1 adds one more */
        code += (uint32_t)ldexp(half, f->mantissa + 1);
    }
    return sign | code;
}

/* ---- where codes lie ---- */

/* Element e of a row of n: the word of 4 bytes that has its fp10 code, and the first of its bits.
 */
typedef struct code_place {
    int64_t word;
    int shift;
} code_place;
static code_place place_of(int64_t e, int64_t n) {
    int64_t block = e / NARROW_BLOCK, left = n - block * NARROW_BLOCK;
    int64_t words = op_format_words(left < NARROW_BLOCK ? left : NARROW_BLOCK);
    int64_t at = e % NARROW_BLOCK;
    return (code_place){block * NARROW_WORDS + at % words, (int)(at / words) * 10};
}

static uint32_t get_code(const op_format *f, const void *row, int64_t e, int64_t n) {
    if (f->bits != 10) {
        return f->bits == 16 ? ((const uint16_t *)row)[e] : ((const uint8_t *)row)[e];
    }
    uint32_t word;
    code_place p = place_of(e, n);
    memcpy(&word, (const uint8_t *)row + 4 * p.word, sizeof word);
    return le32toh(word) >> p.shift & 0x3ff;
}

/* Into a row that was zeros. */
static void put_code(const op_format *f, void *row, int64_t e, int64_t n, uint32_t code) {
    if (f->bits == 16) {
        ((uint16_t *)row)[e] = (uint16_t)code;
    } else if (f->bits == 8) {
        ((uint8_t *)row)[e] = (uint8_t)code;
    } else {
        uint32_t word;
        code_place p = place_of(e, n);
        uint8_t *at = (uint8_t *)row + 4 * p.word;
        memcpy(&word, at, sizeof word);
        word |= htole32(code << p.shift);
        memcpy(at, &word, sizeof word);
    }
}

double ebb__op_code_value(const op_format *f, const void *row, int64_t e, int64_t n) {
    return format_value(f, get_code(f, row, e, n));
}

void ebb__op_code_put(const op_format *f, void *row, int64_t e, int64_t n, double x) {
    put_code(f, row, e, n, format_code(f, x));
}

#define REF_FAMILY "op/ref/narrow.inc"
#include "op/ref/twice.h"

/* ---- types ---- */

static ebb_status format_of(const ir_graph *graph, const ir_node_rec *node, op_format *out) {
    *out = op_format_of(node->attr.i[NARROW_FORMAT]);
    return out->bits != 0 ? EBB_OK
                          : ebb__op_bad(graph, node, "format must be 16, 10 or 8, not %d",
                                        node->attr.i[NARROW_FORMAT]);
}

static ebb_status infer_round_to(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    op_format f;
    TRY(format_of(graph, node, &f));
    return ebb__op_infer_same(graph, node, out);
}

static ebb_status infer_narrow(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    op_format f;
    const ir_type *x = op_in_type(graph, node, 0);
    TRY(format_of(graph, node, &f));
    TRY(ebb__op_need(graph, node, 0, IR_F32));
    int64_t wide = op_format_wide(&f, op_step_elements(x));
    return ebb__op_code_type(graph, node, x, op_format_dtype(&f), wide, &out[0]);
}

static ebb_status infer_widen(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    op_format f;
    const int32_t *a = node->attr.i;
    TRY(format_of(graph, node, &f));
    if (a[WIDEN_RANK] < 1 || a[WIDEN_RANK] > IR_MAX_RANK) {
        return ebb__op_bad(graph, node, "rank must be 1 to %d", IR_MAX_RANK);
    }
    out[0] = (ir_type){.dtype = IR_F32, .rank = (int16_t)a[WIDEN_RANK]};
    out[0].dim[0] = op_in_type(graph, node, 0)->dim[0];
    for (int32_t d = 1; d < out[0].rank; d++) {
        out[0].dim[d] = a[WIDEN_DIM + d - 1];
    }
    TRY(ebb__ir_type_check(graph->ctx, &out[0], "widen"));
    int64_t wide = op_format_wide(&f, op_step_elements(&out[0]));
    return ebb__op_need_code(graph, node, 0, &out[0], op_format_dtype(&f), wide);
}

/* dy, codes. */
static ebb_status infer_relu_grad_codes(const ir_graph *graph, const ir_node_rec *node,
                                        ir_type *out) {
    op_format f;
    TRY(format_of(graph, node, &f));
    TRY(ebb__op_need(graph, node, 0, IR_F32));
    out[0] = *op_in_type(graph, node, 0);
    int64_t wide = op_format_wide(&f, op_step_elements(&out[0]));
    return ebb__op_need_code(graph, node, 1, &out[0], op_format_dtype(&f), wide);
}

/* ---- samples ---- */

/* clang-format off */
/* X(tensor, its rank, steps of its first axis, elements of one, the other axes) */
#define SIZES(X, f)                                         \
    X(f, F2(1, 1), 2, 1, 1, 1)                              \
    X(f, F1(7), 1, 7, 1, 0)                                 \
    X(f, F2(3, 17), 2, 3, 17, 17)                           \
    X(f, F3(2, 5, 33), 3, 2, 165, 5, 33)                    \
    X(f, F2(9, 76), 2, 9, 76, 76)                           \
    X(f, F2(2, 3119), 2, 2, 3119, 3119)                     \
    X(f, MAP(2, 1, 3, 5, 8, 32), 6, 2, 3840, 1, 3, 5, 8, 32) \
    X(f, MAP(3, 2, 3, 2, 5, 3), 6, 3, 180, 2, 3, 2, 5, 3)
#define CODES(f, d, n) \
    {(f) == 16 ? IR_U16 : IR_U8, 2, {d, (f) == 10 ? ((n) + 2) / 3 * 4 : (n)}}
#define NARROW(f, x, rank, d, n, ...) {IN(x), .attr = {.i = {f}}},
#define WIDEN(f, x, rank, d, n, ...) \
    {IN(CODES(f, d, n)), .fill = {FILL_BYTE}, .attr = {.i = {f, rank, __VA_ARGS__}}},
#define MARKED(f, x, rank, d, n, ...) {IN(x), .attr = {.i = {f, 1}}},
#define GRAD(f, x, rank, d, n, ...) \
    {IN(x, CODES(f, d, n)), .fill = {FILL_NORMAL, FILL_BYTE}, .attr = {.i = {f}}},
/* clang-format on */
static const op_sample samples_round[] = {SIZES(NARROW, 16) SIZES(NARROW, 10) SIZES(NARROW, 8)};
static const op_sample samples_narrow[] = {SIZES(NARROW, 16) SIZES(NARROW, 10) SIZES(
    NARROW, 8) SIZES(MARKED, 16) SIZES(MARKED, 10) SIZES(MARKED, 8)};
static const op_sample samples_grad[] = {SIZES(GRAD, 16) SIZES(GRAD, 10) SIZES(GRAD, 8)};
static const op_sample samples_widen[] = {SIZES(WIDEN, 16) SIZES(WIDEN, 10) SIZES(WIDEN, 8)};

/* ---- definitions ---- */

OP_DEFINE(round_to, .schema.ints = {"format"}, .n_in = 1, .n_out = 1,
          .flags = OPF_ELEMENTWISE | OPF_NOGRAD, .layout = LAYOUT_FOLDED, .zeros = ZEROS_KEPT,
          .infer = infer_round_to, INPLACE({0, 0}), .work.flops = 10, .rows = ebb__op_rows_split,
          .units = ebb__op_units_columns, SAMPLES(samples_round));

OP_DEFINE(narrow, .schema.ints = {"format", "mark"}, .n_in = 1, .n_out = 1, .flags = OPF_NOGRAD,
          .form = "rounded", .layout = LAYOUT_STEPS, .infer = infer_narrow,
          .work = {10, OPERAND(0)}, .rows = ebb__op_rows_split, SAMPLES(samples_narrow));

OP_DEFINE(relu_grad_codes, .schema.ints = {"format"}, .n_in = 2, .n_out = 1, .flags = OPF_NOGRAD,
          .layout = LAYOUT_STEPS, .infer = infer_relu_grad_codes, INPLACE({0, 0}), .work.flops = 1,
          .rows = ebb__op_rows_split, SAMPLES(samples_grad));

OP_DEFINE(widen, .schema.ints = {"format", "rank", "d1", "d2", "d3", "d4", "d5"}, .n_in = 1,
          .n_out = 1, .flags = OPF_NOGRAD, .layout = LAYOUT_STEPS, .infer = infer_widen,
          .work.flops = 10, .rows = ebb__op_rows_split, SAMPLES(samples_widen));
