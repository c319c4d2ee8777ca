/* random_rows.c - see random.h. */
#include "support/random.h"

#include <stdio.h>

enum { COLUMNS = 5, MOST = 64, LAYERS = 4 };

int32_t test_random_rows_shards(uint64_t seed) {
    return 2 + (int32_t)(seed % (RANDOM_ROWS_SHARDS - 1));
}

/* A graph in the making, for rows [part*rows, (part+1)*rows) of each block of a batch. */
typedef struct maker {
    ebb_ctx *ctx;
    ir_graph *g;
    test_dice dice;      /* rolls the same for every part */
    int32_t batch, rows; /* of the whole; of this part */
    int32_t part, blocks;
    ir_val step;
    ir_val xs[MOST]; /* [blocks*rows, COLUMNS] each */
    int32_t n, params;
    bool chain; /* of layers */
} maker;

static ir_val emit(maker *m, op_code op, const ir_val *in, int32_t n, const ir_attr *attr) {
    ir_val out[IR_MAX_OUT] = {IR_NONE};
    assert_ok(m->ctx, ebb__op_emit(m->g, op, in, n, attr, out));
    return out[0];
}

static ir_val variable(maker *m, ir_role role, const char *name, ir_dtype dtype, int32_t rows,
                       int32_t cols) {
    ir_type type = {.dtype = dtype, .rank = cols > 0 ? 2 : 1, .dim = {rows, cols}};
    ir_val v = IR_NONE;
    assert_ok(m->ctx, ebb__ir_add_variable(m->g, role, name, &type, &v));
    return v;
}

/* A new one, or now and then one that there is. */
static ir_val param(maker *m, int32_t rows, int32_t cols) {
    char name[16];
    ir_type type = {.dtype = IR_F32, .rank = cols > 0 ? 2 : 1, .dim = {rows, cols}};
    if (m->params > 0 && test_below(&m->dice, 6) == 0) {
        (void)snprintf(name, sizeof name, "w%d", test_below(&m->dice, m->params));
        ir_val old = ebb__ir_find(m->g, name);
        if (ebb__ir_type_equal(&m->g->values[old].type, &type)) {
            return old;
        }
    }
    (void)snprintf(name, sizeof name, "w%d", m->params++);
    return variable(m, IR_PARAM, name, IR_F32, rows, cols);
}

static ir_val any(maker *m) {
    return m->xs[test_below(&m->dice, m->n)];
}

static ir_val slice(maker *m, ir_val x, int32_t axis, int32_t begin, int32_t len) {
    ir_val out = IR_NONE;
    assert_ok(m->ctx, ebb__op_slice(m->g, x, axis, begin, len, &out));
    return out;
}

static ir_val join(maker *m, int32_t axis, const ir_val *parts, int32_t n) {
    ir_val out = IR_NONE;
    assert_ok(m->ctx, ebb__op_join(m->g, axis, parts, n, &out));
    return out;
}

/* The blocks in another order. */
static ir_val turn(maker *m, ir_val x) {
    ir_val parts[2];
    int32_t at = m->rows * (1 + test_below(&m->dice, m->blocks)), all = m->rows * m->blocks;
    if (at == all) {
        return x;
    }
    parts[0] = slice(m, x, 0, at, all - at);
    parts[1] = slice(m, x, 0, 0, at);
    return join(m, 0, parts, 2);
}

static ir_val swap_columns(maker *m, ir_val x) {
    int32_t at = 1 + test_below(&m->dice, COLUMNS - 1);
    return join(m, 1, (ir_val[]){slice(m, x, 1, at, COLUMNS - at), slice(m, x, 1, 0, at)}, 2);
}

static ir_val linear(maker *m, ir_val x) {
    ir_attr attr = {.i = {0, 1}};
    ir_val c = test_below(&m->dice, 2) == 0 ? param(m, COLUMNS, 0) : any(m);
    return emit(m, OP_MATMUL, (ir_val[]){c, x, param(m, COLUMNS, COLUMNS)}, 3, &attr);
}

static ir_val norm(maker *m, ir_val x) {
    ir_attr attr = {.i = {test_below(&m->dice, 2) == 0 ? 0 : m->rows}, .f = {1e-5F}};
    ir_val gain = param(m, COLUMNS, 0), bias = param(m, COLUMNS, 0);
    return emit(m, OP_LAYER_NORM, (ir_val[]){x, gain, bias}, 3, &attr);
}

static ir_val drop(maker *m, ir_val x) {
    ir_val parts[MOST];
    for (int32_t b = 0; b < m->blocks; b++) { /* the numbers that rows have in the whole */
        ir_attr attr = {.i = {1, 2, 3, 1, 7, b * m->batch + m->part * m->rows}, .f = {0.4F}};
        parts[b] = emit(m, OP_DROPOUT, (ir_val[]){slice(m, x, 0, b * m->rows, m->rows), m->step}, 2,
                        &attr);
    }
    if (m->rows < m->batch) {
        return join(m, 0, parts, m->blocks);
    }
    ir_attr attr = {.i = {1, 2, 3, 1, 7, 0}, .f = {0.4F}};
    return emit(m, OP_DROPOUT, (ir_val[]){x, m->step}, 2, &attr);
}

/* Attends from one block to all of the same row; every block takes what that gives. */
static ir_val attend(maker *m, ir_val x) {
    ir_val q = slice(m, any(m), 0, 0, m->rows), s = IR_NONE;
    ir_attr batch = {.i = {m->rows}}, half = {.f = {0.5F}};
    if (test_below(&m->dice, 2) == 0) {
        s = emit(m, OP_DOT_EACH, (ir_val[]){x, q}, 2, NULL);
    } else {
        ir_val sum = emit(m, OP_ADD_EACH, (ir_val[]){x, q}, 2, NULL);
        s = emit(m, OP_DOT_ROWS, (ir_val[]){sum, param(m, COLUMNS, 0)}, 2, &batch);
    }
    s = emit(m, OP_SCALE, &s, 1, &half);
    if (m->blocks > 1) { /* scores [blocks, rows] in another order of blocks */
        s = join(m, 0, (ir_val[]){slice(m, s, 0, 1, m->blocks - 1), slice(m, s, 0, 0, 1)}, 2);
    }
    s = emit(m, OP_MASK_SOFTMAX, (ir_val[]){s, ebb__ir_find(m->g, "lengths")}, 2, NULL);
    s = emit(m, OP_WEIGHTED_SUM, (ir_val[]){s, x}, 2, NULL);
    return emit(m, OP_ADD_EACH, (ir_val[]){x, s}, 2, NULL);
}

static ir_val cell(maker *m, ir_val x) {
    ir_val z = join(m, 1, (ir_val[]){x, any(m), any(m), any(m)}, 4), out[IR_MAX_OUT];
    assert_ok(m->ctx, ebb__op_emit(m->g, OP_LSTM_GATES, (ir_val[]){z, any(m)}, 2, NULL, out));
    return out[1];
}

static ir_val grow(maker *m) {
    ir_val x = any(m);
    ir_attr half = {.f = {0.5F}};
    switch (test_below(&m->dice, 11)) {
    case 0:
        return turn(m, x);
    case 1: /* of a copy: a gradient may be of ranges along one axis */
        return swap_columns(m, emit(m, OP_COPY, &x, 1, NULL));
    case 2:
        return linear(m, x);
    case 3:
        return norm(m, x);
    case 4:
        return drop(m, x);
    case 5:
        return attend(m, x);
    case 6:
        return cell(m, x);
    case 7:
        return emit(m, OP_SCALE, &x, 1, &half);
    case 8: /* what belongs to no row is made of parameters */
        return emit(m, OP_ADD_ROW,
                    (ir_val[]){x, emit(m, OP_TANH, &(ir_val){param(m, COLUMNS, 0)}, 1, NULL)}, 2,
                    NULL);
    case 9:
        return emit(m, OP_SOFTMAX, &x, 1, NULL);
    default:
        return emit(m, OP_MUL, (ir_val[]){x, any(m)}, 2, NULL);
    }
}

/* Layers one after the other, or in any order. */
static void set_layer(maker *m, int32_t i, int32_t n) {
    char name[8];
    int32_t layer = m->chain ? i * LAYERS / n : test_below(&m->dice, LAYERS);
    (void)snprintf(name, sizeof name, "l%d", layer);
    assert_ok(m->ctx, ebb__ir_layer(m->g, name, &m->g->label.layer));
}

/* Two sums over rows, and one of a parameter alone. */
static void add_loss(maker *m) {
    ir_val rows =
        emit(m, OP_XENT, (ir_val[]){m->xs[m->n - 1], ebb__ir_find(m->g, "labels")}, 2, NULL);
    ir_val w = variable(m, IR_PARAM, "l2", IR_F32, 3, 3);
    ir_val a = emit(m, OP_SUM_ALL, &rows, 1, NULL),
           b = emit(m, OP_SUM_ALL, &m->xs[m->n - 2], 1, NULL);
    ir_val c = emit(m, OP_SUM_ALL, &(ir_val){emit(m, OP_MUL, (ir_val[]){w, w}, 2, NULL)}, 1, NULL);
    m->g->loss =
        emit(m, OP_ADD, (ir_val[]){emit(m, OP_ADD, (ir_val[]){a, b}, 2, NULL), c}, 2, NULL);
}

void test_random_rows(ebb_ctx *ctx, uint64_t seed, int32_t parts, int32_t part, ir_graph *out) {
    maker m = {.ctx = ctx, .g = out, .dice = {seed}, .part = part};
    m.batch = test_random_rows_shards(seed) * (1 + test_below(&m.dice, 3));
    m.rows = m.batch / parts;
    m.blocks = 1 + test_below(&m.dice, 3);
    m.chain = test_below(&m.dice, 2) == 0;
    int32_t all = m.rows * m.blocks, grown = 3 + test_below(&m.dice, 12);
    ebb__op_graph_init(out, ctx);
    ir_val h = variable(&m, IR_STATE, "h", IR_F32, m.rows, COLUMNS);
    m.step = variable(&m, IR_INPUT, "step", IR_I32, 1, 0);
    (void)variable(&m, IR_INPUT, "lengths", IR_I32, m.rows, 0);
    (void)variable(&m, IR_INPUT, "labels", IR_I32, all, 0);
    m.xs[m.n++] = variable(&m, IR_INPUT, "x", IR_F32, all, COLUMNS);
    ir_attr zeros = {.i = {2, m.rows, COLUMNS, 0, 0, IR_F32}, .f = {0.25F}};
    ir_val start = emit(&m, OP_ADD, (ir_val[]){h, emit(&m, OP_FILL, NULL, 0, &zeros)}, 2, NULL);
    m.xs[m.n] = emit(&m, OP_ADD_EACH, (ir_val[]){m.xs[0], start}, 2, NULL);
    m.n++;
    m.xs[m.n] = linear(&m, m.xs[1]);
    m.n++;
    for (int32_t i = 0; i < grown; i++) {
        set_layer(&m, i, grown);
        ir_val x = grow(&m);
        m.xs[m.n++] = x;
    }
    add_loss(&m);
    ir_val last = any(&m), held = any(&m);
    last = slice(&m, last, 0, 0, m.rows);
    last = emit(&m, OP_COPY, &last, 1, NULL);
    out->values[h].next = last; /* not at once: emitting may move the array */
    held = emit(&m, OP_COPY, &held, 1, NULL);
    out->values[held].output = true;
    assert_ok(ctx, ebb__ir_name(out, held, "held"));
    assert_ok(ctx, ebb__op_verify(out));
}
