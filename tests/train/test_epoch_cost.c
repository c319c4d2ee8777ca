/* test_epoch_cost.c - predicted seconds and bytes of shapes that were not planned against plans of
 * exactly those; which strategy is chosen. */
#include "kind/kinds.h"
#include "kind/text/options.h"
#include "run_help.h"

#include "kind/text/epoch_cost.h"
#include "train/job_int.h"

typedef struct cost_room {
    ebb_ctx *ctx;
    train_settings lm, nmt;
    job_request sizes;
} cost_room;

static int set_up(void **state) {
    cost_room *room = calloc(1, sizeof *room);
    assert_non_null(room);
    assert_int_equal(ebb_ctx_new(&room->ctx), EBB_OK);
    room->sizes = (job_request){.vocab = 200, .src_vocab = 150};
    room->lm = (train_settings){.kind = &ebb__kind_lm,
                                .vocab = 200,
                                .layers = 2,
                                .hidden = 32,
                                .embed = 32,
                                .batch = 16,
                                .bptt = 5,
                                .shards = 1,
                                .lr = 1,
                                .clip = 5,
                                .seed = 1,
                                .threads = 1,
                                .bucket = BUCKET_AUTO,
                                .shapes = 4,
                                .shape_list = "5,9"};
    room->nmt = room->lm;
    room->nmt.kind = &ebb__kind_nmt;
    room->nmt.enc_layers = room->nmt.dec_layers = 1;
    *state = room;
    return 0;
}

static int tear_down(void **state) {
    cost_room *room = *state;
    uint64_t live = room->ctx->mem.live_blocks;
    ebb_ctx_free(room->ctx);
    free(room);
    return live != 0;
}

/* A plan of exactly this shape. */
static void check_shape(const cost_room *room, const train_settings *settings,
                        const epoch_cost *cost, data_shape shape, double tolerance) {
    train_settings exact = *settings;
    job_request request = room->sizes;
    ebb_plan *plan = NULL;
    exact.budget = UINT64_MAX / 2;
    exact.disabled = 1U << PASS_RECOMPUTE | 1U << PASS_CHUNK;
    request.train = true;
    request.shapes = (data_shapes){1, {shape}};
    assert_int_equal(ebb__job_compile(room->ctx, &exact, &request, &plan), EBB_OK);
    shape.rows = settings->batch;
    shape.sentences = 3 * (uint64_t)settings->batch;
    shape.batches = 3;
    bucket_plan epoch = {.programs = {1, {shape}}};
    double seconds = ebb__epoch_seconds(cost, &epoch) / 3 / plan->seconds_per_step;
    double bytes = (double)ebb__epoch_bytes(cost, &shape) / (double)plan->peak_bytes;
    if (fabs(seconds - 1) > tolerance || fabs(bytes - 1) > tolerance) {
        fail_msg("%d x %d, batch %d: %.3f of the seconds, %.3f of the bytes", (int)shape.source,
                 (int)shape.target, (int)settings->batch, seconds, bytes);
    }
    ebb__plan_free(plan);
}

static void other_shapes_follow(void **state) {
    const cost_room *room = *state;
    const epoch_range texts = {{.target = 60}, {16, 16}},
                      pairs = {{.source = 50, .target = 60}, {16, 16}};
    epoch_cost cost;
    assert_int_equal(ebb__epoch_cost_make(room->ctx, &room->lm, &room->sizes, &texts, &cost),
                     EBB_OK);
    check_shape(room, &room->lm, &cost, (data_shape){.source = 0, .target = 3}, 0.05);
    check_shape(room, &room->lm, &cost, (data_shape){.source = 0, .target = 60}, 0.05);
    assert_int_equal(ebb__epoch_cost_make(room->ctx, &room->nmt, &room->sizes, &pairs, &cost),
                     EBB_OK);
    check_shape(room, &room->nmt, &cost, (data_shape){.source = 4, .target = 5}, 0.05);
    check_shape(room, &room->nmt, &cost, (data_shape){.source = 50, .target = 10}, 0.05);
    check_shape(room, &room->nmt, &cost, (data_shape){.source = 40, .target = 60}, 0.05);
}

static void other_batches_follow(void **state) {
    const cost_room *room = *state;
    const epoch_range range = {{.source = 30, .target = 30}, {4, 64}};
    train_settings settings = room->nmt;
    epoch_cost cost;
    assert_int_equal(ebb__epoch_cost_make(room->ctx, &settings, &room->sizes, &range, &cost),
                     EBB_OK);
    for (settings.batch = 4; settings.batch <= 64; settings.batch *= 2) {
        check_shape(room, &settings, &cost, (data_shape){.source = 12, .target = 20},
                    settings.batch == 4 || settings.batch == 64 ? 0.05 : 0.2);
    }
}

/* Lengths of which a tenth are long. */
static void make_lengths(const cost_room *room, bool pairs, data_lengths *out) {
    assert_int_equal(ebb__lengths_init(room->ctx, pairs, 100, out), EBB_OK);
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t target = i % 10 == 0 ? 40 + i % 7 : 5 + i % 11;
        assert_int_equal(ebb__lengths_add(out, target + i % 3, target), EBB_OK);
    }
    assert_int_equal(ebb__lengths_finish(out), EBB_OK);
}

static void auto_is_the_shortest_epoch(void **state) {
    const cost_room *room = *state;
    for (int pairs = 0; pairs < 2; pairs++) {
        train_settings settings = pairs ? room->nmt : room->lm;
        data_lengths lengths;
        bucket_report report;
        bucket_plan plan;
        make_lengths(room, pairs, &lengths);
        assert_int_equal(ebb__bucket_report_make(&settings, &room->sizes, &lengths, &report),
                         EBB_OK);
        for (int i = 0; i < BUCKET_STRATEGIES; i++) {
            assert_true(report.seconds[i] >= report.seconds[report.chosen] &&
                        report.seconds[i] > 0);
        }
        /* Four fifths of what `none` computes is padding. */
        assert_true(report.seconds[report.chosen] < report.seconds[BUCKET_NONE] / 2);
        assert_int_equal(ebb__bucket_choose(&settings, &room->sizes, &lengths, &plan), EBB_OK);
        assert_int_equal(plan.strategy, report.chosen);
        assert_int_equal(plan.padded_tokens, report.plans[report.chosen].padded_tokens);
        ebb__buckets_free(&plan);
        ebb__bucket_report_free(&report);
        settings.batch_tokens = 300; /* which pools cannot be trained with */
        assert_int_equal(ebb__bucket_choose(&settings, &room->sizes, &lengths, &plan), EBB_OK);
        assert_int_not_equal(plan.strategy, BUCKET_POOL);
        ebb__buckets_free(&plan);
        settings.batch_tokens = 0;
        settings.bucket = BUCKET_STATIC;
        assert_int_equal(ebb__bucket_choose(&settings, &room->sizes, &lengths, &plan), EBB_OK);
        assert_int_equal(plan.strategy, BUCKET_STATIC);
        assert_int_equal(plan.n_shapes, 3); /* the list, and what is longer */
        ebb__buckets_free(&plan);
        settings.shape_list = NULL; /* the usual list */
        assert_int_equal(ebb__bucket_choose(&settings, &room->sizes, &lengths, &plan), EBB_OK);
        assert_int_equal(plan.strategy, BUCKET_STATIC);
        ebb__buckets_free(&plan);
        settings.bucket = BUCKET_AUTO;
        assert_int_equal(ebb__bucket_choose(&settings, &room->sizes, &lengths, &plan), EBB_OK);
        ebb__buckets_free(&plan);
        settings.bucket = BUCKET_STATIC;
        settings.shape_list = "5,x";
        assert_int_equal(ebb__bucket_choose(&settings, &room->sizes, &lengths, &plan), EBB_USAGE);
        ebb__buckets_free(&plan);
        settings.bucket = BUCKET_AUTO;
        assert_int_equal(ebb__bucket_choose(&settings, &room->sizes, &lengths, &plan), EBB_USAGE);
        ebb__buckets_free(&plan);
        ebb__ctx_clear(room->ctx);
        ebb__lengths_free(&lengths);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(other_shapes_follow),
        TEST(other_batches_follow),
        TEST(auto_is_the_shortest_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
