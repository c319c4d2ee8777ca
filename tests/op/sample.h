/* sample.h - what the op tests share: a graph of one op made from a sample, tensors between guard
 * bytes filled as the sample says, and bitwise comparison. Everything is drawn from a seed. */
#ifndef TESTS_OP_SAMPLE_H
#define TESTS_OP_SAMPLE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "op/op.h"

enum { GUARD = 64, PATTERN = 0xa5 };

/* ---- numbers ---- */

typedef struct draw {
    uint64_t state;
} draw;

static inline uint64_t draw_bits(draw *d) { /* splitmix64 */
    uint64_t z = d->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* (0, 1), exact in fp32. */
static inline double draw_unit(draw *d) {
    return ((double)(draw_bits(d) >> 41) + 0.5) * 0x1p-23;
}

static inline double draw_normal(draw *d) {
    double u = draw_unit(d);
    return (double)(float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * draw_unit(d)));
}

/* ---- tensors ---- */

typedef struct tensor {
    unsigned char *block; /* guard, (shift), elements, guard */
    size_t bytes;         /* of the block */
    size_t element;
    int64_t rows, cols, pitch; /* as the op's kernels see it; rows lie pitch elements apart */
    op_view view;
} tensor;

static inline size_t element_bytes(const ir_type *type, bool wide) {
    return type->dtype == IR_F32 && wide ? sizeof(double) : ebb__ir_dtype_bytes(type->dtype);
}

/* The first `axes` are rows. wide: f32 is held as double. pad: elements between rows, and a start
 * that is not aligned. */
static inline tensor tensor_rows(const ir_type *type, int32_t axes, bool wide, int32_t pad) {
    tensor t = {.element = element_bytes(type, wide), .cols = ebb__op_fold_cols(type, axes)};
    t.rows = ebb__op_fold_cols(type, 0) / t.cols;
    t.pitch = t.cols + pad;
    t.view.type = *type;
    t.view.ld = (int32_t)(pad > 0 ? t.pitch : ir_cols(type));
    size_t elements = (size_t)((t.rows - 1) * t.pitch + t.cols);
    size_t shift = pad > 0 ? t.element : 0;
    t.bytes = (2 * GUARD + shift + elements * t.element + GUARD - 1) / GUARD * GUARD;
    t.block = aligned_alloc(GUARD, t.bytes);
    assert_non_null(t.block);
    memset(t.block, PATTERN, t.bytes);
    /* The end guard begins right after the last element. */
    t.view.data = t.block + GUARD + shift;
    return t;
}

static inline tensor tensor_make(const ir_type *type, bool wide, int32_t pad) {
    return tensor_rows(type, type->rank - 1, wide, pad);
}

static inline void tensor_free(tensor *t) {
    free(t->block);
    *t = (tensor){0};
}

static inline unsigned char *tensor_at(const tensor *t, int64_t r, int64_t c) {
    return (unsigned char *)t->view.data + (size_t)(r * t->pitch + c) * t->element;
}

static inline double tensor_get(const tensor *t, int64_t i) {
    const void *at = tensor_at(t, i / t->cols, i % t->cols);
    if (t->view.type.dtype == IR_U8) {
        return *(const uint8_t *)at;
    } else if (t->view.type.dtype == IR_U16) {
        return *(const uint16_t *)at;
    }
    return t->element == sizeof(double) ? *(const double *)at : (double)*(const float *)at;
}

static inline void tensor_set(tensor *t, int64_t i, double value) {
    void *at = tensor_at(t, i / t->cols, i % t->cols);
    if (t->view.type.dtype == IR_I32) {
        *(int32_t *)at = (int32_t)value;
    } else if (t->view.type.dtype == IR_U8) {
        *(uint8_t *)at = (uint8_t)value;
    } else if (t->view.type.dtype == IR_U16) {
        *(uint16_t *)at = (uint16_t)value;
    } else if (t->element == sizeof(double)) {
        *(double *)at = value;
    } else {
        *(float *)at = (float)value;
    }
}

static inline int64_t tensor_count(const tensor *t) {
    return t->rows * t->cols;
}

/* Guards and the gaps between rows still hold the pattern. */
static inline bool tensor_guarded(const tensor *t) {
    const unsigned char *p = t->block;
    for (int64_t r = 0; r <= t->rows; r++) {
        const unsigned char *end = r < t->rows ? tensor_at(t, r, 0) : t->block + t->bytes;
        for (; p < end; p++) {
            if (*p != PATTERN) {
                return false;
            }
        }
        p = r < t->rows ? tensor_at(t, r, t->cols) : p;
    }
    return true;
}

/* Same bits in every element; any NaN equals any NaN. */
static inline bool tensor_same(const tensor *a, const tensor *b) {
    int64_t cols = a->cols;
    for (int64_t r = 0; r < a->rows; r++) {
        if (memcmp(tensor_at(a, r, 0), tensor_at(b, r, 0), (size_t)cols * a->element) == 0) {
            continue;
        }
        for (int64_t c = 0; c < cols; c++) {
            bool equal = memcmp(tensor_at(a, r, c), tensor_at(b, r, c), a->element) == 0;
            bool real = a->view.type.dtype != IR_I32;
            int64_t i = r * cols + c;
            if (!equal && !(real && isnan(tensor_get(a, i)) && isnan(tensor_get(b, i)))) {
                return false;
            }
        }
    }
    return true;
}

static inline void tensor_copy(tensor *to, const tensor *from) {
    for (int64_t r = 0; r < from->rows; r++) {
        memcpy(tensor_at(to, r, 0), tensor_at(from, r, 0), (size_t)from->cols * from->element);
    }
}

/* magnitude: of normal numbers; large ones reach saturation and overflow. */
static inline void tensor_fill(tensor *t, op_fill fill, int32_t limit, double magnitude, draw *d) {
    for (int64_t i = 0; i < tensor_count(t); i++) {
        double value = 0;
        switch (fill) {
        case FILL_NORMAL:
            value = magnitude * draw_normal(d);
            break;
        case FILL_UNIT:
            value = draw_unit(d);
            break;
        case FILL_POSITIVE:
            value = (double)(float)(0.1 + 1.9 * draw_unit(d));
            break;
        case FILL_INDEX:
            value = (double)(draw_bits(d) % (uint64_t)limit);
            break;
        case FILL_LABEL:
            value = (double)(draw_bits(d) % (uint64_t)(limit + 1)) - 1;
            break;
        case FILL_SMALL_INT:
            value = (double)(draw_bits(d) % 100);
            break;
        case FILL_BYTE:
            value = (double)(draw_bits(d) % (t->element == 1 ? 256 : 65536));
            break;
        case FILL_ABSENT:
            break;
        }
        tensor_set(t, i, value);
    }
}

/* ---- one op on the operands of a sample ---- */

typedef struct op_case {
    ebb_ctx *ctx;
    ir_graph graph;
    const op_def *op;
    const op_sample *sample;
    ir_val in[OP_MAX_SAMPLE_IN];
    ir_node_rec node;
} op_case;

static inline void case_open(op_case *c, int code, const op_sample *sample) {
    *c = (op_case){.op = ebb__op(code), .sample = sample};
    assert_int_equal(ebb_ctx_new(&c->ctx), EBB_OK);
    ebb__op_graph_init(&c->graph, c->ctx);
    for (int32_t i = 0; i < sample->n_in; i++) {
        char name[] = "in0";
        name[2] = (char)('0' + i);
        c->in[i] = IR_NONE;
        if (sample->fill[i] != FILL_ABSENT) {
            ir_role role = sample->in[i].dtype == IR_F32 ? IR_PARAM : IR_INPUT;
            assert_int_equal(ebb__ir_add_variable(&c->graph, role, name, &sample->in[i], &c->in[i]),
                             EBB_OK);
        }
    }
    ir_val out[IR_MAX_OUT];
    ebb_status status =
        ebb__op_emit(&c->graph, (op_code)code, c->in, sample->n_in, &sample->attr, out);
    if (status != EBB_OK) {
        fail_msg("%s", ebb_last_error(c->ctx));
    }
    c->node = c->graph.nodes[c->graph.n_nodes - 1];
}

static inline void case_close(op_case *c) {
    ebb__ir_fini(&c->graph);
    ebb_ctx_free(c->ctx);
}

/* Operands and results of a case in memory. */
typedef struct op_data {
    int32_t n_in, n_out;
    tensor in[OP_MAX_SAMPLE_IN], out[IR_MAX_OUT];
} op_data;

/* As the op's kernels take it: gaps lie where they may. */
static inline tensor data_tensor(const op_def *op, const ir_type *type, bool wide, int32_t pad) {
    return tensor_rows(type, ebb__op_rows_axes(op, type), wide, pad);
}

static inline op_data data_make(const op_case *c, bool wide, int32_t pad, double magnitude,
                                uint64_t seed) {
    op_data data = {.n_in = c->node.n_in, .n_out = c->node.n_out};
    draw d = {seed};
    for (int32_t i = 0; i < data.n_in; i++) {
        op_fill fill = c->sample->fill[i];
        if (fill != FILL_ABSENT) {
            data.in[i] = data_tensor(c->op, &c->sample->in[i], wide, pad);
            tensor_fill(&data.in[i], fill, c->sample->limit, magnitude, &d);
        }
    }
    for (int32_t i = 0; i < data.n_out; i++) {
        data.out[i] = data_tensor(c->op, &c->graph.values[c->node.out + i].type, wide, pad);
    }
    return data;
}

static inline void data_free(op_data *data) {
    for (int32_t i = 0; i < data->n_in; i++) {
        tensor_free(&data->in[i]);
    }
    for (int32_t i = 0; i < data->n_out; i++) {
        tensor_free(&data->out[i]);
    }
}

static inline bool data_guarded(const op_data *data) {
    bool held = true;
    for (int32_t i = 0; i < data->n_in; i++) {
        held = held && (data->in[i].block == NULL || tensor_guarded(&data->in[i]));
    }
    for (int32_t i = 0; i < data->n_out; i++) {
        held = held && tensor_guarded(&data->out[i]);
    }
    return held;
}

/* Views of the data; inplace: bit k makes pair k's result take the place of its operand. */
typedef struct op_views {
    op_view in[OP_MAX_SAMPLE_IN], out[IR_MAX_OUT];
    op_call call;
} op_views;

static inline void views_of(op_views *v, const op_case *c, const op_data *data, unsigned inplace) {
    for (int32_t i = 0; i < data->n_in; i++) {
        v->in[i] = data->in[i].view;
    }
    for (int32_t i = 0; i < data->n_out; i++) {
        v->out[i] = data->out[i].view;
    }
    for (int32_t k = 0; k < c->op->n_inplace; k++) {
        if ((inplace >> k & 1) != 0) {
            v->out[c->op->inplace[k].out] = v->in[c->op->inplace[k].in];
        }
    }
    v->call = (op_call){.in = v->in,
                        .out = v->out,
                        .n_in = data->n_in,
                        .n_out = data->n_out,
                        .attr = &c->sample->attr,
                        .member = 0,
                        .members = 1};
}

/* Can these pairs be used together here: operands there, of the result's type, each once? */
static inline bool pairs_usable(const op_case *c, unsigned inplace) {
    unsigned used_out = 0;
    for (int32_t k = 0; k < c->op->n_inplace; k++) {
        if ((inplace >> k & 1) == 0) {
            continue;
        }
        int in = c->op->inplace[k].in, out = c->op->inplace[k].out;
        if (c->in[in] == IR_NONE || (used_out >> out & 1) != 0 ||
            !ebb__ir_type_equal(&c->sample->in[in], &c->graph.values[c->node.out + out].type)) {
            return false;
        }
        used_out |= 1u << out;
    }
    return true;
}

/* The operand whose bytes hold result `out`; -1: it has its own. */
static inline int inplace_operand(const op_def *op, unsigned inplace, int out) {
    for (int32_t k = 0; k < op->n_inplace; k++) {
        if ((inplace >> k & 1) != 0 && op->inplace[k].out == out) {
            return op->inplace[k].in;
        }
    }
    return -1;
}

static inline bool is_overwritten(const op_def *op, unsigned inplace, int in) {
    for (int32_t k = 0; k < op->n_inplace; k++) {
        if ((inplace >> k & 1) != 0 && op->inplace[k].in == in) {
            return true;
        }
    }
    return false;
}

#endif
