/* test_storage.c - which values share bytes, and from when to when each piece is needed. */
#include "plan/passes.h"
#include "support/twin.h"

#include <stdio.h>

typedef struct room {
    ebb_ctx *ctx;
    test_unit t;
    plan_placement p;
} room;

static void open_room(room *r, const char *text) {
    r->ctx = test_ctx_new();
    test_unit_text(&r->t, r->ctx, text);
    r->t.config.training = false;
    test_pass(&r->t, &ebb__pass_alias);
    test_pass(&r->t, &ebb__pass_select);
    assert_ok(r->ctx, ebb__plan_storage(&r->t.unit, &r->p));
}

static void close_room(room *r) {
    test_unit_fini(&r->t);
    test_ctx_free(r->ctx);
}

static const plan_piece *piece_of(const room *r, ir_val v) {
    for (int32_t i = 0; i < r->p.n_pieces; i++) {
        if (r->p.pieces[i].value == v) {
            return &r->p.pieces[i];
        }
    }
    fail_msg("value %d has no piece", v);
    return NULL;
}

static void lives(const room *r, ir_val v, int32_t birth, int32_t death) {
    assert_int_equal(piece_of(r, v)->birth, birth);
    assert_int_equal(piece_of(r, v)->death, death);
}

/* One block, pieces with lives of their own: a read of a slice keeps only the rows it touches. */
static void stack_of_pieces(void **state) {
    (void)state;
    room r;
    open_room(&r, "input %0 f32[2,4] \"x\"\n"
                  "%1:f32[2,4] = softmax %0\n"               /* 0 */
                  "%2:f32[2,4] = sigmoid %0\n"               /* 1 */
                  "%3:f32[2,4] = relu %0\n"                  /* 2 */
                  "%4:f32[6,4] = stack %1 %2 %3\n"           /* 3 */
                  "%5:f32[3,4] = slice %4 {begin=3 len=3}\n" /* 4 */
                  "%6:f64[1] = sum_squares %1\n"             /* 5 */
                  "%7:f64[1] = sum_squares %5\n"             /* 6 */
                  "%8:f64[1] = sum_squares %3\n"             /* 7 */
                  "output %6 \"a\"\noutput %7 \"b\"\noutput %8 \"c\"\n");
    int32_t block = r.p.block[1];
    for (ir_val v = 1; v <= 5; v++) {
        assert_int_equal(r.p.block[v], block);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(r.p.offset[1 + i], i * 2 * 4 * 4);
    }
    assert_int_equal(r.p.offset[5], 3 * 4 * 4);
    assert_int_equal(r.p.blocks[block].bytes, 6 * 4 * 4);
    assert_int_equal(r.p.blocks[block].n, 4); /* %2 is cut where the slice begins */
    lives(&r, 1, 0, 5);
    lives(&r, 2, 1, 1);
    assert_int_equal(piece_of(&r, 2)[1].value, 2);
    assert_int_equal(piece_of(&r, 2)[1].lo, 3 * 4 * 4);
    assert_int_equal(piece_of(&r, 2)[1].death, 6);
    lives(&r, 3, 2, 7);
    close_room(&r);
}

/* A value read by rows dies by rows: results replace them one by one, and their stack lies where it
 * lay. Not so if the rows come in another order. */
static void stack_over_its_source(void **state) {
    (void)state;
    static const char *const head = "input %0 f32[4,3] \"x\"\nparam %1 f32[8,3] \"w\"\n"
                                    "%2:f32[4,8] = matmul - %0 %1 {trans_b=1}\n" /* 0 */
                                    "%3:f32[2,8] = slice %2 {begin=2 len=2}\n"   /* 1 */
                                    "%4:f32[2,8] = tanh %3\n"                    /* 2 */
                                    "%5:f32[2,8] = slice %2 {len=2}\n"           /* 3 */
                                    "%6:f32[2,8] = sigmoid %5\n";                /* 4 */
    char text[1024];
    room r;
    for (int swapped = 0; swapped < 2; swapped++) {
        (void)snprintf(
            text, sizeof text,
            "%s%%7:f32[4,8] = stack %s\n%%8:f64[1] = sum_squares %%7\noutput %%8 \"y\"\n", head,
            swapped ? "%4 %6" : "%6 %4");
        open_room(&r, text);
        /* First rows until sigmoid, last rows until tanh; handed over just before. */
        lives(&r, 2, 0, swapped ? 4 : 3);
        assert_int_equal(piece_of(&r, 2)[1].death, swapped ? 2 : 1);
        assert_int_equal(r.p.block[7] == r.p.block[2], !swapped);
        assert_int_equal(r.p.offset[4], swapped ? 0 : 2 * 8 * 4);
        close_room(&r);
    }
}

/* Columns of a concat lie interleaved: one leading dimension for all. */
static void concat_of_columns(void **state) {
    (void)state;
    room r;
    open_room(&r,
              "input %0 f32[2,4] \"x\"\n"
              "%1:f32[2,4] = tanh %0\n%2:f32[2,4] = sigmoid %0\n"
              "%3:f32[2,8] = concat %1 %2 {axis=1}\n%4:f32[2,3] = slice %3 {axis=1 begin=3 len=3}\n"
              "%5:f64[1] = sum_squares %4\noutput %5 \"y\"\n");
    assert_int_equal(r.p.block[1], r.p.block[2]);
    assert_int_equal(r.p.offset[2], 4 * 4);
    assert_int_equal(r.p.offset[4], 3 * 4);
    for (ir_val v = 1; v <= 4; v++) {
        assert_int_equal(r.p.ld[v], 8);
    }
    lives(&r, 1, 0, 4);
    lives(&r, 2, 1, 4);
    close_room(&r);
}

/* A chain of pointwise ops is one block; the last reader hands the bytes over. */
static void in_place_chain(void **state) {
    (void)state;
    room r;
    open_room(&r, "input %0 f32[2,4] \"x\"\n%1:f32[2,4] = tanh %0\n%2:f32[2,4] = sigmoid %1\n"
                  "%3:f32[2,4] = relu %2\n%4:f64[1] = sum_squares %3\noutput %4 \"y\"\n");
    assert_int_not_equal(r.p.block[1], r.p.block[0]); /* a variable is never overwritten */
    assert_int_equal(r.p.block[2], r.p.block[1]);
    assert_int_equal(r.p.block[3], r.p.block[1]);
    lives(&r, 1, 0, 0);
    lives(&r, 2, 1, 1);
    lives(&r, 3, 2, 3);
    close_room(&r);
}

static void not_in_place_while_needed(void **state) {
    (void)state;
    room r;
    open_room(&r, "input %0 f32[2,4] \"x\"\n%1:f32[2,4] = tanh %0\n%2:f32[2,4] = sigmoid %1\n"
                  "%3:f32[2,4] = add %1 %2\noutput %3 \"y\"\n");
    assert_int_not_equal(r.p.block[2], r.p.block[1]);
    assert_int_equal(r.p.block[3], r.p.block[1]);
    close_room(&r);
}

/* The last node of the step may not overwrite what is read after it. */
static void outputs_outlive_the_last_node(void **state) {
    (void)state;
    room r;
    open_room(&r, "input %0 f32[2,4] \"x\"\nstate %3 f32[2,4] \"s\" next=%4\n"
                  "%4:f32[2,4] = sigmoid %0\n%1:f32[2,4] = tanh %0\n"
                  "%5:f32[2,4] = add %4 %1\noutput %1 \"a\"\noutput %5 \"b\"\n");
    assert_int_not_equal(r.p.block[4], r.p.block[2]);
    assert_int_not_equal(r.p.block[4], r.p.block[3]);
    assert_true(piece_of(&r, 3)->death >= r.p.n_positions);
    close_room(&r);
}

/* An output has dense rows: it is not computed in columns of something wider. */
static void outputs_are_dense(void **state) {
    (void)state;
    room r;
    open_room(&r, "input %0 f32[2,4] \"x\"\n%1:f32[2,4] = tanh %0\n"
                  "%2:f32[2,2] = slice %1 {axis=1 begin=1 len=2}\n%3:f32[2,2] = relu %2\n"
                  "output %3 \"y\"\n");
    assert_int_equal(r.p.ld[3], 2);
    close_room(&r);
}

/* One operand given twice cannot be the place of two results. */
static void operand_twice(void **state) {
    (void)state;
    room r;
    open_room(&r, "input %0 f32[2,4] \"x\"\ninput %1 f32[2,4] \"o\"\ninput %2 f32[2,4] \"c\"\n"
                  "%3:f32[2,4] = tanh %0\n"
                  "%4:f32[2,4], %5:f32[2,4] = lstm_out_grad %3 %3 %1 %2\n"
                  "%6:f64[1] = sum_squares %4\n%7:f64[1] = sum_squares %5\n"
                  "output %6 \"a\"\noutput %7 \"b\"\n");
    assert_int_not_equal(r.p.block[4], r.p.block[5]);
    close_room(&r);
}

/* The next value lies in the variable's bytes, whose kind it takes. */
static void next_value_in_the_variable(void **state) {
    (void)state;
    room r;
    open_room(&r, "state %0 f32[2,4] \"s\" next=%1\n%1:f32[2,4] = tanh %0\n");
    assert_int_equal(r.p.block[0], r.p.block[1]);
    assert_int_equal(r.p.blocks[r.p.block[0]].variable, 0);
    for (int32_t i = 0; i < r.p.n_pieces; i++) {
        assert_int_equal(r.p.pieces[i].kind, IR_DATA);
    }
    close_room(&r);
}

/* T accumulations of a weight's gradient share one buffer: its bytes do not depend on T. */
static void gradients_do_not_grow_with_time(void **state) {
    (void)state;
    for (int cell = LM_LSTM; cell <= LM_RNN; cell++) {
        uint64_t bytes[2];
        for (int i = 0; i < 2; i++) {
            ebb_ctx *ctx = test_ctx_new();
            word_lm m = test_lm_small((lm_cell)cell, i == 0 ? 3 : 12);
            m.batch = 1;
            ir_graph graph;
            test_lm(ctx, &m, &graph);
            pass_config config = {
                .members = 1, .disabled = 1U << PASS_SPARSE, .update = {.clip = 1}};
            ebb_plan *plan = test_compile(
                ctx, &(plan_request){.name = "t", .graph = &graph, .training = true}, &config);
            const plan_placement *p = plan->programs[0].unit.placement;
            bool *seen = calloc((size_t)p->n_blocks, sizeof *seen);
            bytes[i] = 0;
            for (int32_t k = 0; k < p->n_pieces; k++) {
                if (p->pieces[k].kind == IR_GRADIENTS && !seen[p->pieces[k].block]) {
                    seen[p->pieces[k].block] = true;
                    bytes[i] += p->blocks[p->pieces[k].block].bytes;
                }
            }
            free(seen);
            ebb__plan_free(plan);
            ebb__ir_fini(&graph);
            test_ctx_free(ctx);
        }
        assert_int_equal(bytes[0], bytes[1]);
        assert_true(bytes[0] > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(stack_of_pieces),
                                       cmocka_unit_test(stack_over_its_source),
                                       cmocka_unit_test(concat_of_columns),
                                       cmocka_unit_test(in_place_chain),
                                       cmocka_unit_test(not_in_place_while_needed),
                                       cmocka_unit_test(outputs_outlive_the_last_node),
                                       cmocka_unit_test(outputs_are_dense),
                                       cmocka_unit_test(operand_twice),
                                       cmocka_unit_test(next_value_in_the_variable),
                                       cmocka_unit_test(gradients_do_not_grow_with_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
