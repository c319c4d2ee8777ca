/* test_text_form.c - printing and parsing give back the same graph after every pass; malformed text
 * is refused with its line; no bytes, however damaged, do worse than fail. EBB_FUZZ_ROUNDS makes
 * the last longer. */
#include "plan/passes.h"
#include "support/graphs.h"

#include <math.h>
#include <stdio.h>

/* Text names every structural part: two graphs of one text differ in nothing that is printed. */
static void round_trip(ir_graph *g) {
    ir_graph once, twice;
    const char *first = NULL, *second = NULL, *third = NULL;
    assert_ok(g->ctx, ebb__ir_print(g, &first));
    test_parse(g->ctx, first, &once);
    assert_ok(g->ctx, ebb__ir_print(&once, &second));
    test_parse(g->ctx, second, &twice);
    assert_ok(g->ctx, ebb__ir_print(&twice, &third));
    assert_string_equal(second, third); /* parsing numbers values anew, once */
    char *a = test_canonical(first), *b = test_canonical(second);
    assert_string_equal(a, b);
    free(a);
    free(b);
    ebb__ir_fini(&once);
    ebb__ir_fini(&twice);
}

static void after_every_pass(void **state) {
    (void)state;
    const pass_def *passes[] = {&ebb__pass_infer,  &ebb__pass_grad,    &ebb__pass_simplify,
                                &ebb__pass_chunk,  &ebb__pass_layout,  &ebb__pass_alias,
                                &ebb__pass_select, &ebb__pass_schedule};
    for (int cell = LM_LSTM; cell <= LM_RNN; cell++) {
        ebb_ctx *ctx = test_ctx_new();
        word_lm m = test_lm_small((lm_cell)cell, 4);
        ir_graph graph;
        test_unit t;
        test_lm(ctx, &m, &graph);
        test_unit_init(&t, &graph);
        t.config.knobs.chunk_rows = 5;
        t.config.knobs.pack = true;
        t.config.update = (grad_update_settings){
            .optimizer = UPDATE_ADAMW, .beta1 = 0.9F, .beta2 = 0.999F, .eps = 1e-8F, .clip = 0.25F};
        round_trip(&t.unit.graph);
        for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
            test_pass(&t, passes[i]);
            round_trip(&t.unit.graph);
        }
        test_unit_fini(&t);
        ebb__ir_fini(&graph);
        test_ctx_free(ctx);
    }
}

/* Every bit of a float, also where it prints as nothing or as no number. */
static void float_bits(void **state) {
    (void)state;
    const float values[] = {
        0.0F,          -0.0F,           1.0F,        0.1F,     -0.3F,    1e-45F, -1e-38F,
        3.4028235e38F, 1.17549435e-38F, 16777217.0F, INFINITY, -INFINITY};
    ebb_ctx *ctx = test_ctx_new();
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        ir_graph g, again;
        ir_val out = IR_NONE;
        const char *text = NULL;
        ebb__op_graph_init(&g, ctx);
        ir_attr attr = {.i = {1, 1}, .f = {values[i]}};
        assert_ok(ctx, ebb__op_emit(&g, OP_FILL, NULL, 0, &attr, &out));
        assert_ok(ctx, ebb__ir_print(&g, &text));
        test_parse(ctx, text, &again);
        assert_memory_equal(&again.nodes[0].attr.f[0], &values[i], sizeof values[i]);
        ebb__ir_fini(&again);
        ebb__ir_fini(&g);
    }
    test_ctx_free(ctx);
}

/* Absent operands, labels, next, outputs, loss, roles and comments all arrive. */
static void every_part(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    ir_graph g;
    test_parse(ctx,
               "# a comment\n\n  param %7 f32[2,3] \"a b\" layer=\"l x\" next=%40 # behind\n"
               "input %60 u8[2,1,3,1,2,5] \"u\"\ninput %61 u16[3] \"v\"\ninput %62 f16[3] \"f\"\n"
               "slot %8 f32[2,3] \"m\"\nstate %9 f32[2,3] \"s\"\ninput %3 i32[2] \"i\"\n"
               "%20:f32[2,2] = matmul - %7 %8 {trans_b=1} @ \"deep\" t=-5 upd\n"
               "\t%40:f32[2,3]=tanh %7 @ \"\" bwd\n"
               "%50:f32[2], %51:f32[2] = xent %20 %3\n"
               "%52:f32[1] = mean_valid %50 %3\n"
               "loss %52\noutput %20 \"\"\noutput %51 \"lse\"",
               &g);
    assert_int_equal(g.n_order, 4);
    ir_val w = ebb__ir_find(&g, "a b");
    assert_string_equal(g.layers[g.values[w].layer], "l x");
    assert_int_equal(test_def(&g, g.values[w].next)->op, OP_TANH);
    assert_int_equal(g.values[ebb__ir_find(&g, "m")].role, IR_SLOT);
    assert_int_equal(g.values[ebb__ir_find(&g, "s")].role, IR_STATE);
    assert_int_equal(g.values[ebb__ir_find(&g, "i")].role, IR_INPUT);
    assert_int_equal(g.values[ebb__ir_find(&g, "u")].type.dtype, IR_U8);
    assert_int_equal(g.values[ebb__ir_find(&g, "u")].type.dim[5], 5);
    assert_int_equal(g.values[ebb__ir_find(&g, "v")].type.dtype, IR_U16);
    assert_int_equal(g.values[ebb__ir_find(&g, "f")].type.dtype, IR_F16);
    const ir_node_rec *product = test_node(&g, OP_MATMUL, 0);
    assert_int_equal(ir_in(&g, product, 0), IR_NONE);
    assert_int_equal(product->attr.i[1], 1);
    assert_string_equal(g.layers[product->label.layer], "deep");
    assert_int_equal(product->label.at, -5);
    assert_int_equal(product->label.phase, IR_UPDATE);
    assert_int_equal(test_node(&g, OP_TANH, 0)->label.phase, IR_BACKWARD);
    assert_int_equal(test_def(&g, g.loss)->op, OP_MEAN_VALID);
    assert_true(g.values[product->out].output);
    assert_true(g.values[ebb__ir_find(&g, "lse")].output);
    round_trip(&g);
    ebb__ir_fini(&g);
    test_ctx_free(ctx);
}

static void malformed(void **state) {
    (void)state;
    static const struct {
        const char *text, *where, *why;
    } cases[] = {
        {"hello\n", ":1:", "expected a variable"},
        {"\n\nparam\n", ":3:", "expected %id"},
        {"param 0 f32[2] \"x\"\n", ":1:", "expected %id"},
        {"param %-1 f32[2] \"x\"\n", ":1:", "out of range"},
        {"param %99999999 f32[2] \"x\"\n", ":1:", "out of range"},
        {"param %99999999999999999999 f32[2] \"x\"\n", ":1:", "expected a number"},
        {"param %0 f17[2] \"x\"\n", ":1:", "expected a type"},
        {"param %0 f32 \"x\"\n", ":1:", "expected a type"},
        {"param %0 f32[] \"x\"\n", ":1:", "expected a number"},
        {"param %0 f32[1,1,1,1,1,1,1] \"x\"\n", ":1:", "too many dimensions"},
        {"param %0 f32[2 \"x\"\n", ":1:", "expected ]"},
        {"param %0 f32[\n2] \"x\"\n", ":1:", "expected a number"},
        {"param %0 f32[2] \"x\n", ":1:", "unfinished string"},
        {"param %0 f32[2]\n", ":1:", "expected a word"},
        {"param %0 f32[2] \"x\" what\n", ":1:", "unexpected text"},
        {"param %0 f32[2] \"x\" next=%4\n", ":2:", "next value is not defined"},
        {"param %0 f32[2] \"x\"\nparam %0 f32[2] \"y\"\n", ":2:", "defined twice"},
        {"param %0 f32[2] \"x\"\n%1:f32[2] = tanh %5\n", ":2:", "used before"},
        {"param %0 f32[2] \"x\"\n%1:f32[2] = tanh %1\n", ":2:", "used before"},
        {"param %0 f32[2] \"x\"\n%0:f32[2] = tanh %0\n", ":2:", "defined twice"},
        {"param %0 f32[2] \"x\"\n%1 = tanh %0\n", ":2:", "expected :type"},
        {"param %0 f32[2] \"x\"\n%1:f32[2] tanh %0\n", ":2:", "expected ="},
        {"param %0 f32[2] \"x\"\n%1:f32[2] = tanhh %0\n", ":2:", "unknown op"},
        {"param %0 f32[2] \"x\"\n%1:f32[2] = tanh %0 {a=1}\n", ":2:", "no such attribute"},
        {"param %0 f32[2] \"x\"\n%1:f32[2] = scale %0 {factor}\n", ":2:", "expected ="},
        {"param %0 f32[2] \"x\"\n%1:f32[2] = scale %0 {factor=x}\n", ":2:", "expected a number"},
        {"param %0 f32[2] \"x\"\n%1:f32[2] = scale %0 {factor=1\n", ":2:", "expected a word"},
        {"param %0 f32[2] \"x\"\n%1:f32[2] = tanh %0 @ \"l\" t=1 now\n", ":2:", "expected fwd"},
        {"%1:f32[2], %2:f32[2], %3:f32[2], %4:f32[2], %5:f32[2] = tanh\n",
         ":1:", "too many results"},
        {"loss %3\n", ":1:", "used before"},
        {"output %3 \"x\"\n", ":1:", "used before"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ebb_ctx *ctx = test_ctx_new();
        ir_graph g;
        ebb__op_graph_init(&g, ctx);
        ebb_status status = ebb__ir_parse(&g, cases[i].text);
        const char *error = ebb_last_error(ctx);
        if (status != EBB_DATA || strstr(error, cases[i].where) == NULL ||
            strstr(error, cases[i].why) == NULL || strchr(error, '\n') != NULL) {
            fail_msg("case %zu: status %d: %s", i, (int)status, error);
        }
        ebb__ir_fini(&g);
        test_ctx_free(ctx);
    }
}

/* Well formed, but not a graph: types the ops refuse, sizes no memory holds. */
static void not_a_graph(void **state) {
    (void)state;
    const char *texts[] = {
        "param %0 f32[0] \"x\"\n",
        "param %0 f32[2147483647,2147483647] \"x\"\n",
        "param %0 f32[2] \"x\"\nparam %1 f32[2] \"x\"\n",
        "param %0 f32[2] \"x\"\n%1:f32[3] = tanh %0\n",
        "param %0 f32[2] \"x\"\n%1:f32[2], %2:f32[2] = tanh %0\n",
        "param %0 f32[2] \"x\"\n%1:f32[2] = tanh %0 %0\n",
        "param %0 f32[2] \"x\"\n%1:f32[2] = tanh -\n",
        "param %0 f32[2] \"x\" next=%0\n",
        "param %0 f32[2] \"x\" next=%1\n%1:f32[2] = tanh %0\n%2:f32[3] = stack %1\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ebb_ctx *ctx = test_ctx_new();
        ir_graph g;
        ebb__op_graph_init(&g, ctx);
        ebb_status status = ebb__ir_parse(&g, texts[i]);
        status = status == EBB_OK ? ebb__op_verify(&g) : status;
        if (status != EBB_USAGE && status != EBB_INTERNAL) {
            fail_msg("case %zu: status %d", i, (int)status);
        }
        assert_true(ebb_last_error(ctx)[0] != '\0');
        ebb__ir_fini(&g);
        test_ctx_free(ctx);
    }
}

static void damage(char *text, size_t n, test_dice *dice) {
    static const char likely[] = "%:,=-@{}[]\"0123456789 \n#fiptl";
    for (int32_t k = 1 + test_below(dice, 4); k > 0; k--) {
        size_t at = (size_t)(test_roll(dice) % n);
        switch (test_below(dice, 4)) {
        case 0:
            text[at] = (char)(1 + test_below(dice, 255));
            break;
        case 1:
            text[at] ^= (char)(1 << test_below(dice, 7));
            break;
        case 2:
            text[at] = likely[test_below(dice, (int32_t)sizeof likely - 1)];
            break;
        default:
            text[at] = '\0'; /* cut off */
            break;
        }
    }
}

static void damaged_text(void **state) {
    (void)state;
    const char *rounds_text = getenv("EBB_FUZZ_ROUNDS");
    long rounds = rounds_text != NULL ? strtol(rounds_text, NULL, 10) * 10 : 3000, fine = 0;
    ebb_ctx *ctx = test_ctx_new();
    word_lm m = test_lm_small(LM_GRU, 1);
    ir_graph graph;
    const char *good = NULL;
    m.layers = 1;
    test_lm(ctx, &m, &graph);
    assert_ok(ctx, ebb__ir_print(&graph, &good));
    size_t n = strlen(good);
    char *text = malloc(n + 1);
    assert_non_null(text);
    for (long i = 0; i < rounds; i++) {
        test_dice dice = {(uint64_t)i};
        ir_graph g;
        memcpy(text, good, n + 1);
        damage(text, n, &dice);
        ebb__op_graph_init(&g, ctx);
        ebb_status status = ebb__ir_parse(&g, text);
        status = status == EBB_OK ? ebb__op_verify(&g) : status;
        if (status == EBB_OK) {
            const char *again = NULL;
            fine++;
            assert_ok(ctx, ebb__ir_print(&g, &again));
        } else if (status != EBB_DATA && status != EBB_USAGE && status != EBB_INTERNAL) {
            fail_msg("round %ld: status %d: %s", i, (int)status, ebb_last_error(ctx));
        }
        ebb__ctx_clear(ctx);
        ebb__ir_fini(&g);
    }
    assert_true(fine > 0 && fine < rounds);
    free(text);
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_every_pass), cmocka_unit_test(float_bits),
        cmocka_unit_test(every_part),       cmocka_unit_test(malformed),
        cmocka_unit_test(not_a_graph),      cmocka_unit_test(damaged_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
