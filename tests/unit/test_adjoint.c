/* test_adjoint.c - contributions in the making: what is wanted, order of arrival, ranges, columns.
 */
#include "support/graphs.h"

typedef struct room {
    ebb_ctx *ctx;
    ir_graph g;
    op_adjoint *a;
} room;

static void open_room(room *r) {
    r->ctx = test_ctx_new();
    test_parse(r->ctx,
               "param %0 f32[4,6] \"w\"\ninput %1 f32[4,6] \"x\"\ninput %2 i32[4] \"i\"\n"
               "%3:f32[4,6] = tanh %0\n%4:f32[4,6] = tanh %1\n%5:f32[4,6] = add %3 %4\n"
               "%6:f64[1] = sum_squares %5\n",
               &r->g);
    assert_ok(r->ctx, ebb__adjoint_new(&r->g, &r->a));
}

static void close_room(room *r) {
    ebb__adjoint_free(r->a);
    ebb__ir_fini(&r->g);
    test_ctx_free(r->ctx);
}

static ir_val fill(room *r, int32_t rows, int32_t cols, float value) {
    ir_val out = IR_NONE;
    const ir_type type = {.dtype = IR_F32, .rank = 2, .dim = {rows, cols}};
    assert_ok(r->ctx, ebb__op_fill(&r->g, &type, value, &out));
    return out;
}

static void wanted(void **state) {
    (void)state;
    room r;
    open_room(&r);
    const bool expect[] = {true, false, false, true, false, true, false};
    for (ir_val v = 0; v < 7; v++) {
        assert_int_equal(ebb__adjoint_wanted(r.a, v), expect[v]);
    }
    assert_false(ebb__adjoint_wanted(r.a, IR_NONE));
    assert_false(ebb__adjoint_wanted(r.a, fill(&r, 1, 1, 0))); /* gradients have no gradients */
    ir_val got = 0;
    assert_ok(r.ctx, ebb__adjoint_add(r.a, 1, fill(&r, 4, 6, 1)));
    assert_ok(r.ctx, ebb__adjoint_take(r.a, 1, &got));
    assert_int_equal(got, IR_NONE);
    close_room(&r);
}

static void order_of_arrival(void **state) {
    (void)state;
    room r;
    open_room(&r);
    ir_val one = fill(&r, 4, 6, 1), two = fill(&r, 4, 6, 2), three = fill(&r, 4, 6, 3), got = 0;
    assert_ok(r.ctx, ebb__adjoint_add(r.a, 0, two));
    assert_ok(r.ctx, ebb__adjoint_take(r.a, 0, &got));
    assert_int_equal(got, two);
    assert_ok(r.ctx, ebb__adjoint_add(r.a, 0, one));
    assert_ok(r.ctx, ebb__adjoint_add(r.a, 0, three));
    assert_ok(r.ctx, ebb__adjoint_take(r.a, 0, &got));
    const ir_node_rec *last = test_def(&r.g, got);
    assert_int_equal(last->op, OP_ADD);
    assert_int_equal(ir_in(&r.g, last, 1), three);
    const ir_node_rec *first = test_def(&r.g, ir_in(&r.g, last, 0));
    assert_int_equal(ir_in(&r.g, first, 0), two);
    assert_int_equal(ir_in(&r.g, first, 1), one);
    close_room(&r);
}

static void withdrawn(void **state) {
    (void)state;
    room r;
    open_room(&r);
    ir_val one = fill(&r, 4, 6, 1), rows = fill(&r, 2, 6, 2), got = 0;
    assert_int_equal(ebb__adjoint_withdraw(r.a, 0), IR_NONE);
    assert_ok(r.ctx, ebb__adjoint_add_range(r.a, 0, 0, 1, rows));
    assert_int_equal(ebb__adjoint_withdraw(r.a, 0), IR_NONE); /* a range is no sum of the whole */
    assert_ok(r.ctx, ebb__adjoint_add(r.a, 0, one));
    assert_int_equal(ebb__adjoint_withdraw(r.a, 0), one);
    assert_int_equal(ebb__adjoint_withdraw(r.a, 0), IR_NONE);
    assert_ok(r.ctx, ebb__adjoint_take(r.a, 0, &got)); /* the range is still there */
    assert_int_equal(test_def(&r.g, got)->op, OP_STACK);
    assert_int_equal(test_def(&r.g, got)->n_in, 3);
    close_room(&r);
}

/* Ranges that tile the value need no zeros and no sums; equal ranges are summed on arrival. */
static void tiles(void **state) {
    (void)state;
    room r;
    open_room(&r);
    ir_val left = fill(&r, 4, 2, 1), right = fill(&r, 4, 4, 2), again = fill(&r, 4, 2, 3), got = 0;
    assert_ok(r.ctx, ebb__adjoint_add_range(r.a, 0, 1, 2, right));
    assert_ok(r.ctx, ebb__adjoint_add_range(r.a, 0, 1, 0, left));
    assert_ok(r.ctx, ebb__adjoint_take(r.a, 0, &got));
    const ir_node_rec *join = test_def(&r.g, got);
    assert_int_equal(join->op, OP_CONCAT);
    assert_int_equal(join->n_in, 2);
    assert_int_equal(ir_in(&r.g, join, 0), left);
    assert_int_equal(ir_in(&r.g, join, 1), right);
    assert_ok(r.ctx, ebb__adjoint_add_range(r.a, 0, 1, 0, again));
    assert_ok(r.ctx, ebb__adjoint_take(r.a, 0, &got));
    const ir_node_rec *sum = test_def(&r.g, ir_in(&r.g, test_def(&r.g, got), 0));
    assert_int_equal(sum->op, OP_ADD);
    assert_int_equal(ir_in(&r.g, sum, 0), left);
    assert_int_equal(ir_in(&r.g, sum, 1), again);
    close_room(&r);
}

static void columns_only(void **state) {
    (void)state;
    room r;
    open_room(&r);
    ir_val part = fill(&r, 4, 2, 1), got = 0;
    assert_ok(r.ctx, ebb__adjoint_take_columns(r.a, 0, 4, 2, &got));
    assert_int_equal(got, IR_NONE);
    assert_ok(r.ctx, ebb__adjoint_add_range(r.a, 0, 1, 4, part));
    assert_ok(r.ctx, ebb__adjoint_take_columns(r.a, 0, 4, 2, &got));
    assert_int_equal(got, part);
    assert_refused(r.ctx, ebb__adjoint_take_columns(r.a, 0, 3, 2, &got), EBB_USAGE, "columns 3");
    assert_ok(r.ctx, ebb__adjoint_add(r.a, 0, fill(&r, 4, 6, 1)));
    assert_refused(r.ctx, ebb__adjoint_take_columns(r.a, 0, 4, 2, &got), EBB_USAGE, "columns 4");
    close_room(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(wanted), cmocka_unit_test(order_of_arrival),
                                       cmocka_unit_test(withdrawn), cmocka_unit_test(tiles),
                                       cmocka_unit_test(columns_only)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
