/* test_nmt.c - the translation model: padding, empty sources and the place of a sentence in its
 * batch leave no trace in any bit; sizes that make no sense are refused; starting weights. What the
 * numbers are is tests/golden/test_nmt.c's business. */
#include "model/nmt.h"
#include "support/twin.h"

#include <math.h>
#include <stdio.h>

enum { B = 4, S = 6, T = 5, V = 11, W = 13 }; /* W: words of the source vocabulary */

typedef struct sentence {
    int32_t n_src, n_tgt;
    int32_t src[S], in[T], out[T];
} sentence;

/* All lengths from full to 1; test data, so any words do. */
static const sentence corpus[B] = {
    {S, 2, {1, 5, 12, 0, 3, 7}, {2, 9}, {9, 1}},
    {1, T, {4}, {2, 3, 3, 10, 5}, {3, 3, 10, 5, 1}},
    {3, 1, {8, 8, 2}, {2}, {1}},
    {4, 4, {11, 6, 1, 9}, {2, 7, 0, 4}, {7, 0, 4, 1}},
};

static nmt_model small(void) {
    return (nmt_model){.cell = LM_LSTM,
                       .attention = NMT_MLP,
                       .src_vocab = W,
                       .tgt_vocab = V,
                       .embed = 6,
                       .hidden = 8,
                       .enc_layers = 2,
                       .dec_layers = 2,
                       .batch = B,
                       .src_len = S,
                       .tgt_len = T,
                       .feed = true,
                       .seed = 7};
}

/* Every way the model can be built, at least once. */
static nmt_model variant(int i) {
    nmt_model m = small();
    m.cell = i == 2 ? LM_GRU : i == 3 ? LM_RNN : LM_LSTM;
    m.attention = i % 2 == 1 ? NMT_DOT : NMT_MLP;
    m.feed = i != 1;
    m.layer_norm = i >= 3;
    m.enc_layers = i == 0 ? 1 : 2;
    m.dec_layers = i == 0 || i == 4 ? 1 : 2;
    m.dropout = i == 4 ? 0.3 : 0;
    m.smoothing = i == 2 ? 0.1 : 0;
    m.tie = m.tie_src = i == 5;
    m.embed = i == 5 ? m.hidden : m.embed;
    m.src_vocab = i == 5 ? V : W;
    return m;
}
enum { VARIANTS = 6 };

static const grad_update_settings adam = {
    .optimizer = UPDATE_ADAM, .beta1 = 0.9F, .beta2 = 0.999F, .eps = 1e-8F, .clip = 0.5F};

/* ---- a model with its data ---- */

static void build(ebb_ctx *ctx, const nmt_model *m, ir_graph *out) {
    ebb__op_graph_init(out, ctx);
    assert_ok(ctx, ebb__nmt_build(out, m));
    assert_ok(ctx, ebb__op_verify(out));
}

static void start(ebb_ctx *ctx, const nmt_model *m, test_twin *t) {
    ir_graph graph;
    build(ctx, m, &graph);
    test_twin_init(t, &graph, !m->predict, &adam, 3);
    ebb__ir_fini(&graph);
}

/* The sentences of the corpus in this order, padding filled with words that depend on `salt`. */
static void load(const test_twin *t, const nmt_model *m, const sentence *list, int32_t salt) {
    int32_t *src = test_twin_data(t, NMT_SRC), *len = test_twin_data(t, NMT_SRC_LEN),
            *in = test_twin_data(t, NMT_TGT_IN);
    int32_t *out = m->predict ? NULL : test_twin_data(t, NMT_TGT_OUT);
    int32_t n_src = (int32_t)m->src_len, n_tgt = (int32_t)m->tgt_len;
    int32_t words = (int32_t)m->src_vocab;
    for (int32_t b = 0; b < (int32_t)m->batch; b++) {
        const sentence *x = &list[b];
        len[b] = x->n_src;
        for (int32_t p = 0; p < n_src; p++) {
            src[(n_src - 1 - p) * B + b] =
                p < x->n_src ? x->src[p] % words : (salt + 5 * p + b) % words;
        }
        for (int32_t k = 0; k < n_tgt; k++) {
            int32_t at = (n_tgt - 1 - k) * B + b;
            in[at] = k < x->n_tgt ? x->in[k] : (salt + 3 * k + b) % V;
            if (out != NULL) {
                out[at] = k < x->n_tgt ? x->out[k] : -1;
            }
        }
    }
}

static float loss_of(const test_twin *t) {
    return *(const float *)test_twin_data(t, NMT_LOSS);
}

static void assert_finite(const test_twin *t) {
    for (ir_val v = 0; v < t->graph.n_values; v++) {
        const ir_value *value = &t->graph.values[v];
        int64_t n = ebb__ir_rows(&value->type) * ir_cols(&value->type);
        const float *x = t->interp.data[v];
        for (int64_t i = 0; value->role == IR_PARAM && i < n; i++) {
            if (!isfinite(x[i])) {
                fail_msg("%s[%lld] is %g", value->name, (long long)i, (double)x[i]);
            }
        }
    }
    assert_true(isfinite(loss_of(t)));
}

/* ---- padding ---- */

static void check_padding(ebb_ctx *ctx, const nmt_model *m, const char *what) {
    test_twin a, b;
    start(ctx, m, &a);
    start(ctx, m, &b);
    for (int step = 0; step < 2; step++) {
        load(&a, m, corpus, 0);
        load(&b, m, corpus, 1 + step);
        assert_memory_not_equal(test_twin_data(&a, NMT_SRC), test_twin_data(&b, NMT_SRC),
                                sizeof(int32_t) * S * B);
        assert_memory_not_equal(test_twin_data(&a, NMT_TGT_IN), test_twin_data(&b, NMT_TGT_IN),
                                sizeof(int32_t) * T * B);
        test_twin_step(&a);
        test_twin_step(&b);
        assert_finite(&a);
        test_twin_same(what, &a, &b);
    }
    /* A word that counts does show. */
    float before = loss_of(&a);
    ((int32_t *)test_twin_data(&a, NMT_SRC))[(S - 1) * B] = 2; /* of sentence 0, position 0 */
    ((int32_t *)test_twin_data(&b, NMT_SRC))[(S - 1) * B] = 3;
    test_twin_step(&a);
    test_twin_step(&b);
    assert_true(loss_of(&a) != loss_of(&b) && loss_of(&a) < before + 1);
    test_twin_fini(&a);
    test_twin_fini(&b);
}

static void what_padding_holds_changes_no_bit(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    for (int i = 0; i < VARIANTS; i++) {
        char what[32];
        nmt_model m = variant(i);
        (void)snprintf(what, sizeof what, "variant %d", i);
        check_padding(ctx, &m, what);
    }
    test_ctx_free(ctx);
}

/* A longer source and target only add zeros to every sum. */
static void more_padding_changes_no_bit(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    for (int i = 0; i < VARIANTS; i++) {
        char what[32];
        test_twin a, b;
        nmt_model m = variant(i), longer = m;
        longer.src_len += 3;
        longer.tgt_len += 2;
        start(ctx, &m, &a);
        start(ctx, &longer, &b);
        test_twin_copy_weights(&a, &b); /* the dice rolled for other inputs */
        load(&a, &m, corpus, 0);
        load(&b, &longer, corpus, 1);
        test_twin_step(&a);
        test_twin_step(&b);
        (void)snprintf(what, sizeof what, "variant %d", i);
        test_twin_same(what, &a, &b);
        test_twin_fini(&a);
        test_twin_fini(&b);
    }
    test_ctx_free(ctx);
}

static void empty_sources_are_learned_from(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    for (int i = 0; i < VARIANTS; i++) {
        sentence list[B];
        nmt_model m = variant(i);
        test_twin a, b;
        memcpy(list, corpus, sizeof list);
        for (int b_empty = 0; b_empty < 2; b_empty++) { /* one, then all of them */
            list[3].n_src = 0;
            for (int k = 0; k < B * b_empty; k++) {
                list[k].n_src = 0;
            }
            start(ctx, &m, &a);
            start(ctx, &m, &b);
            load(&a, &m, list, 0);
            load(&b, &m, list, 1);
            test_twin_step(&a);
            test_twin_step(&b);
            assert_finite(&a);
            assert_true(loss_of(&a) > 1);
            test_twin_same("empty source", &a, &b);
            test_twin_fini(&a);
            test_twin_fini(&b);
        }
    }
    test_ctx_free(ctx);
}

static void a_batch_of_padding_teaches_nothing(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    nmt_model m = small();
    sentence none[B] = {{0}};
    test_twin a, b;
    start(ctx, &m, &a);
    start(ctx, &m, &b);
    load(&b, &m, none, 1);
    test_twin_step(&b);
    assert_true(loss_of(&b) == 0);
    for (ir_val v = 0; v < a.graph.n_values; v++) {
        if (a.graph.values[v].role == IR_PARAM) {
            assert_memory_equal(a.interp.data[v], b.interp.data[v],
                                (size_t)ebb__ir_type_bytes(&a.graph.values[v].type));
        }
    }
    test_twin_fini(&a);
    test_twin_fini(&b);
    test_ctx_free(ctx);
}

/* ---- a sentence in its batch ---- */

static void a_sentences_logits_do_not_depend_on_its_place(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    for (int i = 0; i < VARIANTS; i++) {
        nmt_model m = variant(i);
        m.predict = true;
        m.dropout = 0;
        test_twin a, b;
        const sentence moved[B] = {corpus[2], corpus[0], corpus[3], corpus[1]};
        const int32_t place[B] = {1, 3, 0, 2};
        start(ctx, &m, &a);
        start(ctx, &m, &b);
        load(&a, &m, corpus, 0);
        load(&b, &m, moved, 1);
        test_twin_step(&a);
        test_twin_step(&b);
        const float *x = a.interp.data[ebb__ir_find(&a.graph, NMT_LOGITS)];
        const float *y = b.interp.data[ebb__ir_find(&b.graph, NMT_LOGITS)];
        for (int32_t n = 0; n < B; n++) {
            for (int32_t k = 0; k < corpus[n].n_tgt; k++) {
                assert_memory_equal(x + ((T - 1 - k) * B + n) * V,
                                    y + ((T - 1 - k) * B + place[n]) * V, V * sizeof *x);
            }
        }
        test_twin_fini(&a);
        test_twin_fini(&b);
    }
    test_ctx_free(ctx);
}

/* ---- planned ---- */

static void planned_programs_give_the_same_bits(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    for (int i = 0; i < VARIANTS; i++) {
        nmt_model m = variant(i);
        ir_graph graph;
        m.dropout = 0.2;
        build(ctx, &m, &graph);
        pass_config config = {.members = 2, .training = true, .update = adam};
        plan_request request = {.name = "train", .graph = &graph, .training = true};
        test_run_equal(test_compile(ctx, &request, &config), &graph, true, &adam, 5, 3);
        ebb__ir_fini(&graph);
    }
    test_ctx_free(ctx);
}

static const pass_config ways[] = {
    {.members = 2, .training = true},
    {.members = 3,
     .training = true,
     .knobs.chunk_rows = 3,
     .knobs.pack = true,
     .knobs.price = 1e-9},
    {.members = 1, .training = true, .knobs.price = 1e-6, .knobs.span = 2, .knobs.heavy = true},
    {.members = 2,
     .training = true,
     .knobs.chunk_rows = 4,
     .knobs.price = 1e-6,
     .knobs.span = 1,
     .knobs.outer = 2,
     .knobs.heavy = true,
     .knobs.replay = true},
};

static void shards_give_the_same_bits(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    for (int i = 0; i < VARIANTS; i++) {
        nmt_model m = variant(i);
        ir_graph graph;
        m.dropout = 0.2;
        build(ctx, &m, &graph);
        test_shard(&graph, i % 2 == 0 ? 2 : B);
        for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
            pass_config config = ways[k];
            config.update = adam;
            plan_request request = {.name = "train", .graph = &graph, .training = true};
            test_run_equal(test_compile(ctx, &request, &config), &graph, true, &adam, 5, 2);
        }
        ebb__ir_fini(&graph);
    }
    test_ctx_free(ctx);
}

/* Rows go through the model alone, so that shards change only the order of sums; with dropout, they
 * draw what they would have drawn. */
static void shards_change_only_the_order_of_sums(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    for (int i = 0; i < VARIANTS; i++) {
        nmt_model m = variant(i);
        test_twin a, b;
        m.dropout = 0.2;
        ir_graph graph;
        build(ctx, &m, &graph);
        test_twin_init(&a, &graph, true, &adam, 3);
        test_shard(&graph, B);
        test_twin_init(&b, &graph, true, &adam, 3);
        ebb__ir_fini(&graph);
        load(&a, &m, corpus, 0);
        load(&b, &m, corpus, 1);
        test_twin_step(&a);
        test_twin_step(&b);
        assert_float_equal(loss_of(&a), loss_of(&b), 1e-6F);
        double p = *(const double *)a.interp.data[ebb__ir_find(&a.graph, UPDATE_NORM)];
        double q = *(const double *)b.interp.data[ebb__ir_find(&b.graph, UPDATE_NORM)];
        assert_true(p > 0 && fabs(p - q) < 1e-5 * p);
        test_twin_fini(&a);
        test_twin_fini(&b);
    }
    test_ctx_free(ctx);
}

/* ---- sizes ---- */

static void check_refused(ebb_ctx *ctx, const nmt_model *m, const char *words) {
    ir_graph graph;
    ebb__op_graph_init(&graph, ctx);
    assert_refused(ctx, ebb__nmt_build(&graph, m), EBB_USAGE, words);
    ebb__ir_fini(&graph);
}

#define REFUSED(change, words)                                                                     \
    do {                                                                                           \
        nmt_model m = small();                                                                     \
        m.change;                                                                                  \
        check_refused(ctx, &m, words);                                                             \
    } while (0)

static void sizes_without_sense_are_refused(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    REFUSED(hidden = 9, "--hidden 9 is odd");
    REFUSED(hidden = 0, "--hidden 0 is not in 1..");
    REFUSED(src_len = 0, "--src-len 0 is not in 1..");
    REFUSED(tgt_len = -1, "--tgt-len -1 is not in 1..");
    REFUSED(enc_layers = 0, "--enc-layers 0 is not in 1..");
    REFUSED(dec_layers = INT64_MAX, "--dec-layers 9223372036854775807 is not in 1..");
    REFUSED(src_vocab = 0, "--src-vocab 0 is not in 1..");
    REFUSED(tgt_vocab = INT32_MAX, "--tgt-vocab 2147483647 is not in 1..");
    REFUSED(src_len = INT32_MAX / 4, "times --batch 4 is more than");
    REFUSED(tgt_len = INT32_MAX / 8, "--tgt-len 268435455 times --batch 4 is more than");
    REFUSED(src_len = 1000000, "with these layers make 3000015 cells, more than 2000000");
    REFUSED(tie = true, "--tie needs --embed equal to --hidden (6 and 8)");
    REFUSED(tie_src = true, "--tie-src needs as many source as target words (13 and 11)");
    REFUSED(dropout = 1, "--dropout 1 is not in [0, 1)");
    REFUSED(dropout = (double)NAN, "--dropout nan is not in [0, 1)");
    REFUSED(smoothing = -0.1, "--smoothing -0.1 is not in [0, 1)");
    test_ctx_free(ctx);
}

static void a_single_position_is_enough(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    nmt_model m = small();
    test_twin a;
    m.src_len = m.tgt_len = 1;
    start(ctx, &m, &a);
    load(&a, &m, (const sentence[B]){{1, 1, {3}, {2}, {1}}, {0, 1, {0}, {2}, {4}}}, 0);
    test_twin_step(&a);
    assert_finite(&a);
    test_twin_fini(&a);
    test_ctx_free(ctx);
}

/* ---- starting weights ---- */

/* As the parameter of that name starts in the model. */
static void draw(ebb_ctx *ctx, const char *name, const nmt_model *m, uint64_t seed, float *data,
                 uint64_t count) {
    ir_graph graph;
    build(ctx, m, &graph);
    ebb__ir_draw(graph.values[ebb__ir_find(&graph, name)].start, name, seed, data, 0, count);
    ebb__ir_fini(&graph);
}

static double largest(ebb_ctx *ctx, const char *name, const nmt_model *m, float *data,
                      uint64_t count) {
    double most = 0;
    draw(ctx, name, m, 1, data, count);
    for (uint64_t i = 0; i < count; i++) {
        most = fmax(most, fabs((double)data[i]));
    }
    return most;
}

static void starting_weights_are_drawn_as_pytorchs(void **state) {
    (void)state;
    enum { N = 4096 };
    static float data[N], again[N];
    ebb_ctx *ctx = test_ctx_new();
    nmt_model m = small();
    m.hidden = 64;
    m.layer_norm = true;
    const struct {
        const char *name;
        int inputs;
    } list[] = {{"enc.weight_ih_l0", 32},  {"enc.bias_hh_l0_reverse", 32},
                {"enc.weight_hh_l1", 64},  {"dec.weight_ih_l0", 64},
                {"attn.key.weight", 64},   {"attn.score.weight", 64},
                {"attn.query.weight", 64}, {"mix.weight", 128},
                {"out.bias", 64}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        double bound = 1 / sqrt(list[i].inputs);
        assert_in_range((int)(1000 * largest(ctx, list[i].name, &m, data, N) / bound), 990, 1000);
    }
    double most = largest(ctx, "src_embed.weight", &m, data, N), squares = 0;
    for (int i = 0; i < N; i++) {
        squares += (double)data[i] * (double)data[i];
    }
    assert_true(most > 3 && most < 6 && squares > 0.9 * N && squares < 1.1 * N);
    m.tie = true;
    m.embed = m.hidden;
    assert_true(largest(ctx, "tgt_embed.weight", &m, data, N) <= 0.125);
    draw(ctx, "tgt_embed.weight", &m, 1, again, N);
    assert_memory_equal(data, again, sizeof data);
    draw(ctx, "tgt_embed.weight", &m, 2, again, N);
    assert_memory_not_equal(data, again, sizeof data);
    draw(ctx, "attn.norm.weight", &m, 1, data, 2);
    draw(ctx, "attn.norm.bias", &m, 1, again, 2);
    assert_true(data[0] == 1 && data[1] == 1 && again[0] == 0 && again[1] == 0);
    test_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_padding_holds_changes_no_bit),
        cmocka_unit_test(more_padding_changes_no_bit),
        cmocka_unit_test(empty_sources_are_learned_from),
        cmocka_unit_test(a_batch_of_padding_teaches_nothing),
        cmocka_unit_test(a_sentences_logits_do_not_depend_on_its_place),
        cmocka_unit_test(planned_programs_give_the_same_bits),
        cmocka_unit_test(shards_give_the_same_bits),
        cmocka_unit_test(shards_change_only_the_order_of_sums),
        cmocka_unit_test(sizes_without_sense_are_refused),
        cmocka_unit_test(a_single_position_is_enough),
        cmocka_unit_test(starting_weights_are_drawn_as_pytorchs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
