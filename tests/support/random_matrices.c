/* random_matrices.c - see random.h. */
#include "support/random.h"

#include <stdio.h>

enum { MOST_POOL = 64, MOST_JOIN = 4, GRAPH_OPS = 14 };

typedef struct maker {
    ebb_ctx *ctx;
    ir_graph *g;
    test_dice *dice;
    ir_val pool[MOST_POOL]; /* f32 matrices that anything may read */
    int32_t n_pool;
    ir_val step;
    int32_t n_names;
} maker;

static int32_t roll(maker *m, int32_t n) {
    return test_below(m->dice, n);
}

static int32_t some_size(maker *m) {
    static const int32_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 33};
    return sizes[roll(m, 10)];
}

static ir_val variable(maker *m, ir_role role, ir_dtype dtype, int32_t rows, int32_t cols) {
    char name[32];
    ir_type type = {.dtype = dtype, .rank = rows > 0 ? 2 : 1};
    ir_val v = IR_NONE;
    type.dim[0] = rows > 0 ? rows : cols;
    type.dim[1] = rows > 0 ? cols : 0;
    (void)snprintf(name, sizeof name, "v%d", m->n_names++);
    assert_ok(m->ctx, ebb__ir_add_variable(m->g, role, name, &type, &v));
    return v;
}

static void emit(maker *m, op_code op, const ir_val *in, int32_t n_in, const ir_attr *attr,
                 ir_val *out) {
    assert_ok(m->ctx, ebb__op_emit(m->g, op, in, n_in, attr, out));
}

static void keep(maker *m, ir_val v) {
    if (m->n_pool < MOST_POOL) {
        m->pool[m->n_pool++] = v;
    }
}

static ir_val any(maker *m) {
    return m->pool[roll(m, m->n_pool)];
}

static const ir_type *type_of(const maker *m, ir_val v) {
    return &m->g->values[v].type;
}

/* A value of the pool with this type; IR_NONE if there is none. */
static ir_val like(maker *m, const ir_type *type) {
    int32_t start = roll(m, m->n_pool);
    for (int32_t i = 0; i < m->n_pool; i++) {
        ir_val v = m->pool[(start + i) % m->n_pool];
        if (ebb__ir_type_equal(type_of(m, v), type)) {
            return v;
        }
    }
    return IR_NONE;
}

/* x w^T + c with a fresh or, if one fits, an old parameter. */
static ir_val linear(maker *m, ir_val x, int32_t cols) {
    int32_t k = (int32_t)ir_cols(type_of(m, x)), form = roll(m, 3);
    bool transposed = roll(m, 3) > 0;
    ir_type wanted = {
        .dtype = IR_F32, .rank = 2, .dim = {transposed ? cols : k, transposed ? k : cols}};
    ir_val w = IR_NONE, c = IR_NONE, y = IR_NONE;
    for (ir_val v = 0; v < m->g->n_values && roll(m, 2) == 0; v++) {
        w = m->g->values[v].role == IR_PARAM && ebb__ir_type_equal(type_of(m, v), &wanted) ? v : w;
    }
    w = w == IR_NONE ? variable(m, IR_PARAM, IR_F32, wanted.dim[0], wanted.dim[1]) : w;
    if (form == 1) {
        c = variable(m, IR_PARAM, IR_F32, 0, cols);
    } else if (form == 2) {
        ir_type out = {.dtype = IR_F32, .rank = 2, .dim = {type_of(m, x)->dim[0], cols}};
        c = like(m, &out);
    }
    emit(m, OP_MATMUL, (ir_val[]){c, x, w}, 3, &(ir_attr){.i = {0, transposed}}, &y);
    return y;
}

/* ---- what a random graph is made of ---- */

static void make_pointwise(maker *m) {
    static const op_code one[] = {OP_TANH,  OP_SIGMOID, OP_RELU,   OP_LEAKY_RELU,
                                  OP_SCALE, OP_COPY,    OP_SOFTMAX};
    static const op_code two[] = {OP_ADD, OP_SUB, OP_MUL};
    ir_val x = any(m), y = like(m, type_of(m, x)), out = IR_NONE;
    if (roll(m, 2) == 0) {
        emit(m, one[roll(m, 7)], &x, 1, &(ir_attr){.f = {0.5F}}, &out);
    } else {
        emit(m, two[roll(m, 3)], (ir_val[]){x, y}, 2, NULL, &out);
        emit(m, OP_TANH, &out, 1, NULL, &out);
    }
    keep(m, out);
}

static void make_matmul(maker *m) {
    ir_val x = any(m), y = any(m), out = IR_NONE;
    const ir_type *a = type_of(m, x), *b = type_of(m, y);
    if (a->dim[0] == b->dim[0] && roll(m, 2) == 0) {
        emit(m, OP_MATMUL, (ir_val[]){IR_NONE, x, y}, 3, &(ir_attr){.i = {1, 0}}, &out);
    } else if (a->dim[1] == b->dim[1] && roll(m, 2) == 0) {
        emit(m, OP_MATMUL, (ir_val[]){IR_NONE, x, y}, 3, &(ir_attr){.i = {0, 1}}, &out);
    } else if (a->dim[0] == b->dim[1]) {
        emit(m, OP_MATMUL, (ir_val[]){IR_NONE, x, y}, 3, &(ir_attr){.i = {1, 1}}, &out);
    } else {
        out = linear(m, x, some_size(m));
    }
    if (roll(m, 3) > 0) {
        emit(m, OP_TANH, &out, 1, NULL, &out);
    }
    keep(m, out);
}

static void make_row(maker *m) {
    ir_val x = any(m), out = IR_NONE;
    if (roll(m, 3) == 0) {
        emit(m, OP_TRANSPOSE, &x, 1, NULL, &out);
    } else {
        ir_val row = variable(m, IR_PARAM, IR_F32, 0, (int32_t)ir_cols(type_of(m, x)));
        emit(m, OP_ADD_ROW, (ir_val[]){x, row}, 2, NULL, &out);
    }
    keep(m, out);
}

static void make_dropout(maker *m) {
    ir_val x = any(m), out = IR_NONE;
    ir_attr attr = {
        .i = {roll(m, 1000), roll(m, 1000), roll(m, 9), roll(m, 3) - 1, 1 + roll(m, 4), 0},
        .f = {0.3F}};
    emit(m, OP_DROPOUT, (ir_val[]){x, m->step}, 2, &attr, &out);
    keep(m, out);
}

static void make_slice(maker *m) {
    ir_val x = any(m), out = IR_NONE;
    int32_t axis = roll(m, 2), extent = type_of(m, x)->dim[axis], begin = roll(m, extent);
    ir_attr attr = {.i = {axis, begin, 1 + roll(m, extent - begin)}};
    emit(m, OP_SLICE, &x, 1, &attr, &out);
    keep(m, out);
}

static void make_join(maker *m) {
    int32_t axis = roll(m, 2), n = 1 + roll(m, MOST_JOIN), other = 1 - axis;
    ir_val parts[MOST_JOIN], out = IR_NONE;
    parts[0] = any(m);
    for (int32_t i = 1; i < n; i++) {
        parts[i] = any(m);
        if (type_of(m, parts[i])->dim[other] != type_of(m, parts[0])->dim[other]) {
            parts[i] = like(m, type_of(m, parts[0]));
        }
    }
    emit(m, axis == 0 ? OP_STACK : OP_CONCAT, parts, n, &(ir_attr){.i = {axis}}, &out);
    if (type_of(m, out)->dim[axis] <= 80) {
        keep(m, out);
    }
}

static void make_cell(maker *m) {
    ir_val h = any(m), x = like(m, type_of(m, h)), out[2] = {IR_NONE, IR_NONE}, o = IR_NONE;
    int32_t H = (int32_t)ir_cols(type_of(m, h));
    if (roll(m, 2) == 0) {
        ir_val z = linear(m, x, 4 * H);
        emit(m, OP_LSTM_GATES, (ir_val[]){z, h}, 2, NULL, out);
        emit(m, OP_SLICE, out, 1, &(ir_attr){.i = {1, 3 * H, H}}, &o);
        keep(m, out[1]);
        if (roll(m, 4) > 0) {
            emit(m, OP_LSTM_OUT, (ir_val[]){o, out[1]}, 2, NULL, &h);
            keep(m, h);
        }
    } else {
        ir_val gx = linear(m, x, 3 * H), gh = linear(m, h, 3 * H);
        emit(m, OP_GRU_CELL, (ir_val[]){gx, gh, h}, 3, NULL, out);
        keep(m, out[0]);
    }
}

static void make_embed(maker *m) {
    int32_t rows = type_of(m, any(m))->dim[0], n = rows + roll(m, 3);
    ir_val table = variable(m, IR_PARAM, IR_F32, some_size(m), some_size(m)), at = IR_NONE;
    ir_val ids = variable(m, IR_INPUT, IR_I32, 0, n), out = IR_NONE;
    assert_ok(m->ctx, ebb__op_slice(m->g, ids, 0, n - rows, rows, &at));
    emit(m, OP_EMBED, (ir_val[]){table, at}, 2, NULL, &out);
    keep(m, out);
}

/* A cell over a few time steps with shared weights: what batch_time, layout and fuse look for, and
 * sometimes almost: steps that feed each other, inputs in any order. */
static void make_recurrent(maker *m) {
    ir_val x = any(m), hs[4], z = IR_NONE, h, c, o = IR_NONE, cell[2];
    int32_t T = 2 + roll(m, 3), k = (int32_t)ir_cols(type_of(m, x)), n = some_size(m);
    int32_t rows = type_of(m, x)->dim[0] / T, time = m->g->label.at;
    bool lstm = roll(m, 2) == 0, reverse = roll(m, 2) == 0, feeds = roll(m, 4) == 0;
    int32_t wide = lstm ? 4 * n : n;
    if (rows == 0) {
        return;
    }
    emit(m, OP_COPY, &x, 1, NULL, &x); /* the gradient of one value takes slices along one axis */
    ir_val w = variable(m, IR_PARAM, IR_F32, wide, k), u = variable(m, IR_PARAM, IR_F32, wide, n);
    ir_val back = variable(m, IR_PARAM, IR_F32, k, n);
    ir_val bias = roll(m, 2) ? variable(m, IR_PARAM, IR_F32, 0, wide) : (ir_val)IR_NONE;
    h = variable(m, IR_STATE, IR_F32, rows, n);
    c = variable(m, IR_STATE, IR_F32, rows, n);
    for (int32_t t = 0; t < T; t++) {
        ir_val at = IR_NONE;
        m->g->label.at = t;
        assert_ok(m->ctx, ebb__op_slice(m->g, x, 0, rows * (reverse ? T - 1 - t : t), rows, &at));
        if (feeds && t > 0) {
            emit(m, OP_MATMUL, (ir_val[]){at, h, back}, 3, &(ir_attr){.i = {0, 1}}, &at);
        }
        emit(m, OP_MATMUL, (ir_val[]){bias, at, w}, 3, &(ir_attr){.i = {0, 1}}, &z);
        emit(m, OP_MATMUL, (ir_val[]){z, h, u}, 3, &(ir_attr){.i = {0, 1}}, &z);
        if (lstm) {
            emit(m, OP_LSTM_GATES, (ir_val[]){z, c}, 2, NULL, cell);
            assert_ok(m->ctx, ebb__op_slice(m->g, cell[0], 1, 3 * n, n, &o));
            c = cell[1];
            emit(m, OP_LSTM_OUT, (ir_val[]){o, c}, 2, NULL, &h);
        } else {
            emit(m, OP_TANH, &z, 1, NULL, &h);
        }
        hs[T - 1 - t] = h;
        if (roll(m, 3) == 0) {
            ir_attr attr = {.i = {1, 2, t, 0, rows, 0}, .f = {0.25F}};
            emit(m, OP_DROPOUT, (ir_val[]){h, m->step}, 2, &attr, &hs[T - 1 - t]);
        }
    }
    assert_ok(m->ctx, ebb__op_join(m->g, 0, hs, T, &z));
    keep(m, z);
    keep(m, h);
    m->g->label.at = time;
}

static ir_val make_loss(maker *m, bool first) {
    ir_val x = any(m), rows[2], loss = IR_NONE;
    ir_val labels = variable(m, IR_INPUT, IR_I32, 0, type_of(m, x)->dim[0]);
    ir_val logits = !first && roll(m, 3) == 0 ? x : linear(m, x, some_size(m));
    if (roll(m, 4) == 0) { /* dropout on the logits: chunks must keep their row numbers */
        ir_attr attr = {.i = {1, 2, 3, 1, 2, 0}, .f = {0.25F}};
        emit(m, OP_DROPOUT, (ir_val[]){logits, m->step}, 2, &attr, &logits);
    }
    if (roll(m, 4) == 0) {
        keep(m, logits); /* another reader of the widest value */
    }
    emit(m, OP_XENT, (ir_val[]){logits, labels}, 2, NULL, rows);
    emit(m, OP_MEAN_VALID, (ir_val[]){rows[0], labels}, 2, NULL, &loss);
    return loss;
}

/* A little of the sum of a value's squares. */
static ir_val make_penalty(maker *m) {
    ir_val x = any(m), squares = IR_NONE, loss = IR_NONE;
    emit(m, OP_MUL, (ir_val[]){x, x}, 2, NULL, &squares);
    emit(m, OP_SUM_ALL, &squares, 1, NULL, &loss);
    emit(m, OP_SCALE, &loss, 1, &(ir_attr){.f = {0.001F}}, &loss);
    return loss;
}

/* Some values are read by name, some become the next content of a state of their type. */
static void finish(maker *m) {
    ir_graph *g = m->g;
    for (ir_val v = 0, n = g->n_values; v < n; v++) {
        ir_node def = g->values[v].def;
        char name[32];
        if (g->values[v].role == IR_STATE) {
            for (int32_t tries = 0; tries < 8 && g->values[v].next == IR_NONE; tries++) {
                ir_val from = like(m, type_of(m, v));
                ir_node d = from == IR_NONE ? IR_NONE : g->values[from].def;
                if (d != IR_NONE && (ebb__op(g->nodes[d].op)->flags & OPF_ALIAS) == 0) {
                    emit(m, OP_COPY, &from, 1, NULL, &g->values[v].next);
                }
            }
        } else if (def != IR_NONE && g->values[v].type.rank == 2 && roll(m, 8) == 0) {
            (void)snprintf(name, sizeof name, "out%d", v);
            g->values[v].output = true;
            assert_ok(m->ctx, ebb__ir_name(g, v, name));
        }
    }
}

int32_t test_random_matrices(ebb_ctx *ctx, test_dice *dice, bool training, ir_graph *g) {
    (void)training;
    static void (*const makers[])(maker *) = {
        make_pointwise, make_pointwise, make_matmul,    make_matmul,   make_row,
        make_dropout,   make_slice,     make_slice,     make_join,     make_join,
        make_cell,      make_embed,     make_recurrent, make_recurrent};
    maker *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->ctx = ctx;
    m->g = g;
    m->dice = dice;
    ebb__op_graph_init(g, ctx);
    m->step = variable(m, IR_INPUT, IR_I32, 0, 1);
    int32_t rows = some_size(m), cols = some_size(m);
    keep(m, variable(m, IR_PARAM, IR_F32, rows, cols));
    for (int32_t i = 0; i < 1 + roll(m, 3); i++) {
        keep(m, variable(m, IR_STATE, IR_F32, rows, roll(m, 2) ? cols : some_size(m)));
    }
    for (int32_t i = 0, n = 2 + roll(m, GRAPH_OPS); i < n; i++) {
        char layer[8];
        (void)snprintf(layer, sizeof layer, "l%d", roll(m, 3));
        assert_ok(ctx, ebb__ir_layer(g, layer, &g->label.layer));
        g->label.at = i;
        makers[roll(m, 14)](m);
    }
    g->loss = make_loss(m, true);
    while (roll(m, 3) == 0) {
        ir_val more = roll(m, 2) == 0 ? make_penalty(m) : make_loss(m, false);
        emit(m, OP_ADD, (ir_val[]){g->loss, more}, 2, NULL, &g->loss);
    }
    g->values[g->loss].output = true;
    assert_ok(ctx, ebb__ir_name(g, g->loss, "loss"));
    finish(m);
    free(m);
    return 1;
}
