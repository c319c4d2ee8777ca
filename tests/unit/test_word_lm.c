/* test_word_lm.c - the language model by sentence: what stands in padding, how much of it there is
 * and the place of a sentence in its batch leave no trace in any bit; every sentence starts from
 * zeros. What the numbers are is tests/golden/test_lm.c's business. */
#include "model/word_lm.h"
#include "support/twin.h"

#include <math.h>
#include <stdio.h>

enum { B = 4, T = 6, V = 11, EOS = 1 };

typedef struct sentence {
    int32_t n; /* with its end; 0: an empty row */
    int32_t words[T];
} sentence;

/* All lengths from full to 2, and an empty row. */
static const sentence corpus[B] = {
    {T, {5, 2, 9, 0, 3, EOS}}, {2, {7, EOS}}, {0, {0}}, {4, {10, 10, 4, EOS}}};

static word_lm variant(int i) {
    return (word_lm){.cell = (lm_cell)(i % 3),
                     .layers = 1 + i % 2,
                     .hidden = 8,
                     .embed = i == 3 ? 8 : 6,
                     .vocab = V,
                     .batch = B,
                     .steps = T,
                     .tie = i == 3,
                     .dropout = i == 4 ? 0.3 : 0,
                     .seed = 7};
}
enum { VARIANTS = 5 };
static const char *const names[VARIANTS] = {"lstm", "gru, 2 layers", "rnn", "lstm, 2 layers, tied",
                                            "gru, dropout"};

static const grad_update_settings adam = {
    .optimizer = UPDATE_ADAM, .beta1 = 0.9F, .beta2 = 0.999F, .eps = 1e-8F, .clip = 0.5F};

/* ---- a model with its data ---- */

static void start(ebb_ctx *ctx, const word_lm *m, test_twin *t) {
    ir_graph graph;
    ebb__op_graph_init(&graph, ctx);
    assert_ok(ctx, ebb__word_lm_build(&graph, m));
    assert_ok(ctx, ebb__op_verify(&graph));
    test_twin_init(t, &graph, true, &adam, 3);
    ebb__ir_fini(&graph);
}

/* The sentences in this order, padding filled with words that depend on `salt`. */
static void load(const test_twin *t, const word_lm *m, const sentence *list, int32_t salt) {
    int32_t *in = test_twin_data(t, LM_INPUTS), *out = test_twin_data(t, LM_TARGETS);
    int32_t steps = (int32_t)m->steps, rows = (int32_t)m->batch;
    for (int32_t b = 0; b < rows; b++) {
        const sentence *x = &list[b];
        for (int32_t k = 0; k < steps; k++) {
            int32_t at = (steps - 1 - k) * rows + b;
            bool inside = k < x->n;
            in[at] = !inside ? (salt + 3 * k + b) % V : k == 0 ? EOS : x->words[k - 1];
            out[at] = inside ? x->words[k] : -1;
        }
    }
}

static float loss_of(const test_twin *t) {
    return *(const float *)test_twin_data(t, LM_LOSS);
}

/* Losses of all cells, [T*B] with time descending. */
static const float *cell_losses(const test_twin *t) {
    for (int32_t i = 0; i < t->graph.n_nodes; i++) {
        if (t->graph.nodes[i].op == OP_XENT) {
            return t->interp.data[t->graph.nodes[i].out];
        }
    }
    fail_msg("the model has no loss");
    return NULL;
}

/* ---- tests ---- */

static void nothing_is_carried(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    for (int i = 0; i < VARIANTS; i++) {
        word_lm m = variant(i);
        test_twin t;
        start(ctx, &m, &t);
        for (ir_val v = 0; v < t.graph.n_values; v++) {
            assert_true(t.graph.values[v].role != IR_STATE);
        }
        test_twin_fini(&t);
    }
    test_ctx_free(ctx);
}

static void what_padding_holds_changes_no_bit(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    for (int i = 0; i < VARIANTS; i++) {
        word_lm m = variant(i);
        test_twin a, b;
        start(ctx, &m, &a);
        start(ctx, &m, &b);
        for (int step = 0; step < 2; step++) {
            load(&a, &m, corpus, 0);
            load(&b, &m, corpus, 1 + step);
            assert_memory_not_equal(test_twin_data(&a, LM_INPUTS), test_twin_data(&b, LM_INPUTS),
                                    sizeof(int32_t) * T * B);
            test_twin_step(&a);
            test_twin_step(&b);
            assert_true(isfinite(loss_of(&a)) && loss_of(&a) > 0);
            test_twin_same(names[i], &a, &b);
        }
        /* A word that counts does show. */
        ((int32_t *)test_twin_data(&b, LM_INPUTS))[(T - 2) * B] =
            8; /* sentence 0, after its first word */
        test_twin_step(&a);
        test_twin_step(&b);
        assert_true(loss_of(&a) != loss_of(&b));
        test_twin_fini(&a);
        test_twin_fini(&b);
    }
    test_ctx_free(ctx);
}

/* More steps, and more rows where nothing is dropped by row, only add zeros to every sum. */
static void more_padding_changes_no_bit(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    for (int i = 0; i < VARIANTS; i++) {
        word_lm m = variant(i), larger = m;
        sentence list[B + 3] = {corpus[0], corpus[1], corpus[2], corpus[3]};
        test_twin a, b;
        larger.steps += 3;
        larger.batch += m.dropout > 0 ? 0 : 3;
        start(ctx, &m, &a);
        start(ctx, &larger, &b);
        test_twin_copy_weights(&a, &b);
        load(&a, &m, corpus, 0);
        load(&b, &larger, list, 1);
        test_twin_step(&a);
        test_twin_step(&b);
        test_twin_same(names[i], &a, &b);
        test_twin_fini(&a);
        test_twin_fini(&b);
    }
    test_ctx_free(ctx);
}

static void a_sentences_loss_does_not_depend_on_its_place(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    static const int32_t place[B] = {1, 3, 0, 2};
    for (int i = 0; i < VARIANTS; i++) {
        word_lm m = variant(i);
        sentence moved[B];
        test_twin a, b;
        m.dropout = 0;
        for (int n = 0; n < B; n++) {
            moved[place[n]] = corpus[n];
        }
        moved[place[2]] = (sentence){3, {6, 6, EOS}}; /* and another neighbour */
        start(ctx, &m, &a);
        start(ctx, &m, &b);
        load(&a, &m, corpus, 0);
        load(&b, &m, moved, 1);
        test_twin_step(&a);
        test_twin_step(&b);
        const float *x = cell_losses(&a), *y = cell_losses(&b);
        for (int32_t n = 0; n < B; n++) {
            for (int32_t k = 0; k < corpus[n].n; k++) {
                int32_t block = (T - 1 - k) * B;
                assert_true(x[block + n] > 0);
                assert_memory_equal(&x[block + n], &y[block + place[n]], sizeof *x);
            }
        }
        test_twin_fini(&a);
        test_twin_fini(&b);
    }
    test_ctx_free(ctx);
}

static void planned_programs_give_the_same_bits(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    for (int i = 0; i < 2 * VARIANTS; i++) {
        word_lm m = variant(i / 2);
        ir_graph graph;
        ebb__op_graph_init(&graph, ctx);
        assert_ok(ctx, ebb__word_lm_build(&graph, &m));
        test_shard(&graph, i % 2 == 0 ? 1 : 2);
        pass_config config = {.members = 2,
                              .training = true,
                              .knobs.chunk_rows = i % 2 == 0 ? 0 : 3,
                              .knobs.price = i % 4 < 2 ? 0 : 1e-6,
                              .update = adam};
        plan_request request = {.name = "train", .graph = &graph, .training = true};
        test_run_equal(test_compile(ctx, &request, &config), &graph, true, &adam, 5, 3);
        ebb__ir_fini(&graph);
    }
    test_ctx_free(ctx);
}

static void lengths_without_sense_are_refused(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    word_lm m = variant(0);
    ir_graph graph;
    m.steps = 0;
    ebb__op_graph_init(&graph, ctx);
    assert_refused(ctx, ebb__word_lm_build(&graph, &m), EBB_USAGE, "--max-len 0 is not in 1..");
    m.steps = 3000000;
    assert_refused(ctx, ebb__word_lm_build(&graph, &m), EBB_USAGE, "use a shorter --max-len");
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_carried),
        cmocka_unit_test(what_padding_holds_changes_no_bit),
        cmocka_unit_test(more_padding_changes_no_bit),
        cmocka_unit_test(a_sentences_loss_does_not_depend_on_its_place),
        cmocka_unit_test(planned_programs_give_the_same_bits),
        cmocka_unit_test(lengths_without_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
