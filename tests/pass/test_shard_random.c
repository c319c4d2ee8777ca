/* test_shard_random.c - random forward graphs, parted by the shard pass, beside the same graphs
 * built for a part of the rows and run by the interpreter on that part of the inputs: every output
 * and carried state has the same bits, row by row, and every gradient is the sum of the parts'
 * gradients by the fixed tree. */
#include "grad/grad.h"
#include "support/random.h"
#include "support/twin.h"

#include <stdlib.h>
#include <string.h>

enum { GRAPHS = 150 };

/* ---- run ---- */

typedef struct runner {
    ir_graph g;
    ir_val *grads; /* by value */
    int32_t n;
    run_interp interp;
} runner;

static void differentiate(runner *r, ebb_ctx *ctx) {
    ir_attr attr = {.i = {1, 1, 0, 0, 0, IR_F32}, .f = {1.0F}};
    ir_val one = IR_NONE;
    r->n = r->g.n_values;
    assert_ok(ctx, ebb__op_emit(&r->g, OP_FILL, NULL, 0, &attr, &one));
    r->grads = calloc((size_t)r->g.n_values, sizeof *r->grads);
    assert_ok(ctx, ebb__grad_build(&r->g, &r->g.loss, &one, 1, r->grads));
    assert_ok(ctx, ebb__interp_init(&r->interp, &r->g));
}

static void end(runner *r) {
    free(r->grads);
    ebb__interp_fini(&r->interp);
    ebb__ir_fini(&r->g);
}

/* A number for an element of the whole variable of that name. */
static double number(uint64_t seed, const char *name, int64_t i) {
    test_dice dice = {seed + (uint64_t)i * 7919};
    for (const char *c = name; *c != '\0'; c++) {
        dice.state = dice.state * 31 + (uint64_t)*c;
    }
    (void)test_roll(&dice);
    return (double)(test_roll(&dice) % 2001) / 1000.0 - 1.0;
}

/* Fills variables; those with rows of the batch with this part's. */
static void fill(runner *r, uint64_t seed, int32_t parts, int32_t part, int32_t batch) {
    for (ir_val v = 0; v < r->g.n_values; v++) {
        const ir_value *value = &r->g.values[v];
        const int64_t cols = value->type.rank == 1 ? 1 : value->type.dim[1];
        const int32_t rows = batch / parts;
        const bool cut = (value->role == IR_INPUT || value->role == IR_STATE) &&
                         strcmp(value->name, "step") != 0;
        for (int64_t i = 0; value->role != IR_TEMP && i < value->type.dim[0] * cols; i++) {
            int64_t row = i / cols, at = cut ? row / rows * batch + part * rows + row % rows : row;
            double x = number(seed, value->name, at * cols + i % cols);
            if (value->type.dtype == IR_I32) {
                ((int32_t *)r->interp.data[v])[i] = (int32_t)((x + 1) * 2);
            } else {
                ((float *)r->interp.data[v])[i] = (float)x;
            }
        }
    }
}

/* ---- compare ---- */

/* Rows of the whole are the parts' rows. */
static void check_rows(const runner *whole, const runner *parts, int32_t n, int32_t batch,
                       const char *name) {
    ir_val v = ebb__ir_find(&whole->g, name);
    const ir_type *type = &whole->g.values[v].type;
    int32_t rows = batch / n, cols = type->dim[1];
    for (int32_t row = 0; row < type->dim[0]; row++) {
        int32_t part = row % batch / rows, at = row / batch * rows + row % rows;
        const float *a = (const float *)whole->interp.data[v] + row * cols;
        const float *b =
            (const float *)parts[part].interp.data[ebb__ir_find(&parts[part].g, name)] + at * cols;
        assert_memory_equal(a, b, (size_t)cols * sizeof *a);
    }
}

/* Element i of the gradient of parts [begin, begin + n), added up by the tree. */
static float tree(const runner *parts, ir_val param, int64_t i, int32_t begin, int32_t n) {
    int32_t half = 1;
    if (n == 1) {
        const runner *r = &parts[begin];
        return ((const float *)r->interp.data[r->grads[param]])[i];
    }
    while (2 * half < n) {
        half *= 2;
    }
    return tree(parts, param, i, begin + half, n - half) + tree(parts, param, i, begin, half);
}

static int check_gradients(const runner *whole, const runner *parts, int32_t n) {
    int checked = 0;
    for (ir_val v = 0; v < whole->n; v++) {
        const ir_value *value = &whole->g.values[v];
        if (value->role != IR_PARAM) {
            continue;
        }
        ir_val p = ebb__ir_find(&parts[0].g, value->name), d = whole->grads[v];
        assert_int_equal(d == IR_NONE, parts[0].grads[p] == IR_NONE);
        int64_t count =
            d == IR_NONE ? 0 : (int64_t)(ebb__ir_type_bytes(&value->type) / sizeof(float));
        for (int64_t i = 0; i < count; i++) {
            const float *w = whole->interp.data[v], *g = whole->interp.data[d];
            float want = strcmp(value->name, "l2") == 0 ? 2 * w[i] : tree(parts, p, i, 0, n);
            assert_memory_equal(&g[i], &want, sizeof want);
            checked++;
        }
    }
    return checked;
}

static int check_one(ebb_ctx *ctx, uint64_t seed) {
    int32_t n = test_random_rows_shards(seed);
    runner whole, parts[RANDOM_ROWS_SHARDS];
    test_random_rows(ctx, seed, 1, 0, &whole.g);
    int32_t batch = whole.g.values[ebb__ir_find(&whole.g, "h")].type.dim[0];
    test_shard(&whole.g, n);
    differentiate(&whole, ctx);
    fill(&whole, seed, 1, 0, batch);
    assert_ok(ctx, ebb__interp_step(&whole.interp));
    for (int32_t i = 0; i < n; i++) {
        test_random_rows(ctx, seed, n, i, &parts[i].g);
        differentiate(&parts[i], ctx);
        fill(&parts[i], seed, n, i, batch);
        assert_ok(ctx, ebb__interp_step(&parts[i].interp));
    }
    check_rows(&whole, parts, n, batch, "held");
    check_rows(&whole, parts, n, batch, "h");
    int checked = check_gradients(&whole, parts, n);
    end(&whole);
    for (int32_t i = 0; i < n; i++) {
        end(&parts[i]);
    }
    return checked;
}

static void parts_are_what_each_would_be_alone(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    int checked = 0;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        checked += check_one(ctx, seed);
    }
    assert_true(checked > 20 * GRAPHS);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_are_what_each_would_be_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
