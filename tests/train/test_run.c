/* test_run.c - whole training runs in a folder of their own: what they leave behind, that stopping
 * and going on changes no bit, schedules, budgets, and the use of what was trained. How runs end
 * that cannot go well is in test_trouble.c; kernels and plans have tests of their own. */
#include "train/run_help.h"

/* ---- learning ---- */

static void learns_and_leaves_its_files(void **state) {
    (void)state;
    run_room *room = run_room_new(120, 12);
    room->s.vocab = 0;
    room->s.hidden = 16;
    room->s.optimizer = UPDATE_ADAM;
    room->s.lr = 0.02;
    room->s.epochs = 3;
    room->s.log_every = 10;
    run_watch watch;
    job_train_result result;
    run_error error;
    run_watch_init(&watch, -1);
    watch.mean = true;
    assert_int_equal(run_go(room, &watch, &result, &error), EBB_OK);
    assert_int_equal(watch.planned, 1);
    static const char *const left[] = {"best.safetensors", "config", "last.safetensors",
                                       "metrics.jsonl", "vocab.txt"};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        assert_int_equal(access(run_join(room->out.text, left[i]).text, R_OK), 0);
    }
    run_bytes config = run_read(run_join(room->out.text, "config").text);
    assert_string_equal(config.data, RUN_CONFIG);
    free(config.data);

    json_t *lines = run_metric_lines(room->out.text);
    size_t n = json_array_size(lines);
    int64_t windows = result.steps / 3;
    int validated = 0;
    assert_int_equal(watch.reports, n);
    assert_true(n > 6 && windows * 3 == result.steps && result.epochs == 3);
    for (size_t i = 0; i < n; i++) {
        int64_t step = (int64_t)run_number(lines, i, "step");
        assert_int_equal(run_number(lines, i, "epoch"), (step - 1) / windows + 1);
        assert_true(run_number(lines, i, "loss") > 0);
        assert_true(run_number(lines, i, "lr") == 0.02);
        assert_true(run_number(lines, i, "words_per_second") > 0);
        bool has = json_object_get(json_array_get(lines, i), "valid_perplexity") != NULL;
        assert_true(has == (step % windows == 0));
        assert_true(has || step % 10 == 0);
        validated += has;
    }
    assert_int_equal(validated, 3);
    assert_true(run_number(lines, n - 1, "loss") < 0.75 * run_number(lines, 0, "loss"));
    assert_true(run_number(lines, n - 1, "loss") == result.loss);
    assert_true(run_number(lines, n - 1, "valid_perplexity") == result.valid.at[0]);
    assert_true(result.best.at[0] <= result.valid.at[0]);
    assert_true(result.best.at[0] < 100); /* of about 280 words */
    assert_int_equal(result.planned_peak_bytes, result.measured_peak_bytes);
    assert_false(result.resumed || result.already_done);
    json_decref(lines);
    run_room_free(room);
}

/* Without learning every epoch is the first one again: state starts as zeros in each. */
static void epochs_start_from_the_same_state(void **state) {
    (void)state;
    run_room *room = run_room_new(8, 3);
    room->s.lr = 0;
    room->s.epochs = 3;
    room->s.log_every = 1000;
    (void)run_ok(room);
    json_t *lines = run_metric_lines(room->out.text);
    assert_int_equal(json_array_size(lines), 3);
    for (size_t i = 1; i < 3; i++) {
        assert_true(run_number(lines, i, "loss") == run_number(lines, 0, "loss"));
        assert_true(run_number(lines, i, "valid_perplexity") ==
                    run_number(lines, 0, "valid_perplexity"));
    }
    json_decref(lines);
    run_room_free(room);
}

/* ---- stopping and going on ---- */

/* Runs until it is done, stopped at poll `first`, then at random ones up to `most` if there are
 * dice; returns how often. */
static int run_in_pieces(run_room *room, int first, int32_t most, test_dice *dice) {
    int stops = 0;
    for (int at = first;; at = dice != NULL ? 1 + test_below(dice, most) : -1) {
        run_watch watch;
        job_train_result result;
        run_error error;
        run_watch_init(&watch, at);
        ebb_status status = run_go(room, &watch, &result, &error);
        assert_true(result.resumed == (stops > 0));
        assert_int_equal(watch.planned, 1);
        if (status == EBB_OK) {
            return stops;
        }
        assert_int_equal(status, EBB_STOPPED);
        assert_non_null(strstr(error.text, "state saved"));
        assert_int_equal(run_checkpoint(room->out.text), result.steps);
        stops++;
    }
}

static void stopped_at_any_poll_ends_with_the_same_bits(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    run_watch watch;
    job_train_result whole;
    run_error error;
    run_watch_init(&watch, -1);
    room->s.out_dir = room->other.text;
    assert_int_equal(run_go(room, &watch, &whole, &error), EBB_OK);
    assert_true(watch.polls > whole.steps); /* validation is polled too */
    room->s.out_dir = room->out.text;
    for (int at = 1; at <= watch.polls; at++) {
        run_remove(room->out.text);
        assert_int_equal(run_in_pieces(room, at, 0, NULL), 1);
        run_expect_same_end(room->out.text, room->other.text, whole.steps);
    }
    run_room_free(room);
}

static void stopped_many_times_ends_with_the_same_bits(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    test_dice dice = {1};
    room->s.out_dir = room->other.text;
    job_train_result whole = run_ok(room);
    room->s.out_dir = room->out.text;
    for (int round = 0; round < 4; round++) {
        run_remove(room->out.text);
        room->s.threads = 1 + round % 2; /* threads and memory may change from piece to piece */
        /* Validation has to get through between two stops. */
        assert_true(run_in_pieces(room, 1, 20, &dice) > 2);
        run_expect_same_end(room->out.text, room->other.text, whole.steps);
    }
    run_room_free(room);
}

static void more_epochs_go_on(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    room->s.out_dir = room->other.text;
    job_train_result whole = run_ok(room);
    room->s.out_dir = room->out.text;
    for (int64_t epochs = 1; epochs <= 3; epochs++) {
        room->s.epochs = epochs;
        job_train_result part = run_ok(room);
        assert_int_equal(part.steps, whole.steps / 3 * epochs);
        assert_true(part.resumed == (epochs > 1) && !part.already_done);
    }
    run_expect_same_end(room->out.text, room->other.text, whole.steps);
    run_room_free(room);
}

static void finished_run_changes_nothing(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    job_train_result first = run_ok(room);
    run_shot shot = run_look(room->out.text);
    room->s.threads = 2;
    room->s.memory.bytes = 1; /* nothing is planned */
    job_train_result again = run_ok(room);
    assert_true(again.already_done && again.resumed && !first.already_done);
    assert_int_equal(again.steps, first.steps);
    assert_true(again.valid.at[0] == first.valid.at[0]);
    assert_true(again.best.at[0] == first.best.at[0] && again.loss == first.loss);
    run_expect_untouched(&shot, room->out.text);
    run_forget(&shot);
    run_room_free(room);
}

static void fresh_starts_over(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    (void)run_ok(room);
    room->s.fresh = true;
    room->s.seed = 8;
    job_train_result result = run_ok(room);
    assert_false(result.resumed);
    room->s.out_dir = room->other.text;
    room->s.fresh = false;
    (void)run_ok(room);
    run_expect_same_end(room->out.text, room->other.text, result.steps);
    run_room_free(room);
}

/* ---- schedules ---- */

static void plateau_lowers_the_rate(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    room->s.lr = 1e-30; /* too little to learn: after the first epoch nothing improves */
    room->s.lr_patience = 1;
    room->s.epochs = 7;
    room->s.out_dir = room->other.text;
    job_train_result whole = run_ok(room);
    room->s.out_dir = room->out.text;
    for (int64_t epochs = 1; epochs <= 7; epochs++) { /* patience outlives a stop */
        room->s.epochs = epochs;
        (void)run_ok(room);
    }
    run_expect_same_end(room->out.text, room->other.text, whole.steps);
    json_t *lines = run_metric_lines(room->out.text);
    for (size_t i = 0; i < json_array_size(lines); i++) {
        /* Epochs 2 and 3 use patience up, then 4 and 5. */
        int epoch = (int)run_number(lines, i, "epoch");
        double share = epoch < 4 ? 1 : epoch < 6 ? 0.5 : 0.25;
        assert_true(run_number(lines, i, "lr") == 1e-30 * share);
    }
    json_decref(lines);
    room->s.valid_path = NULL;
    run_remove(room->out.text);
    run_refused(room, EBB_USAGE, "--valid");
    run_room_free(room);
}

static void warm_up_raises_the_rate(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    room->s.schedule = SCHEDULE_WARMUP;
    room->s.warmup = 5;
    room->s.log_every = 1;
    room->s.lr = 0.5;
    (void)run_ok(room);
    json_t *lines = run_metric_lines(room->out.text);
    for (size_t i = 0; i < json_array_size(lines); i++) {
        double step = run_number(lines, i, "step");
        assert_true(run_number(lines, i, "lr") == 0.5 * (step < 5 ? step / 5 : 1));
    }
    json_decref(lines);
    run_room_free(room);
}

/* ---- budgets ---- */

static void least_budget_runs_and_one_byte_less_does_not(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    room->s.vocab = 0;
    for (int64_t hidden = 1; hidden <= 9; hidden += 4) {
        room->s.hidden = hidden;
        room->s.out_dir = room->other.text;
        room->s.memory.bytes = (uint64_t)64 << 20;
        run_remove(room->out.text);
        run_remove(room->other.text);
        ebb_ctx *ctx = test_ctx_new();
        ebb_plan *plan = NULL;
        assert_ok(ctx, ebb__job_plan(ctx, &room->s, &plan));
        uint64_t least = plan->least_bytes;
        assert_int_equal(run_ok(room).planned_peak_bytes, plan->peak_bytes);
        ebb__plan_free(plan);
        test_ctx_free(ctx);

        char digits[32];
        run_watch watch;
        job_train_result result;
        run_error error;
        run_watch_init(&watch, -1);
        room->s.out_dir = room->out.text;
        (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)least);
        for (int tiny = 0; tiny < 2; tiny++) {
            room->s.memory.bytes = tiny ? 1 : least - 1;
            assert_int_equal(run_go(room, &watch, &result, &error), EBB_BUDGET);
            assert_non_null(strstr(error.text, digits));
            assert_int_equal(watch.planned, tiny + 1); /* the plan can be shown all the same */
            assert_int_equal(watch.least_bytes, least);
            run_shot shot = run_look(room->out.text);
            assert_int_equal(shot.n, 1);
            assert_string_equal(shot.file[0].name, "lock");
            run_forget(&shot);
        }
        room->s.memory.bytes = least;
        result = run_ok(room);
        assert_int_equal(result.planned_peak_bytes, least);
        assert_int_equal(result.measured_peak_bytes, least);
        run_expect_same_end(room->out.text, room->other.text, result.steps);
    }
    run_room_free(room);
}

/* ---- every kind of model: stop and go on, evaluate, generate ---- */

static run_output generate(const run_room *room, double temperature, uint64_t seed,
                           const char *prompt) {
    run_output output = {.bytes = 0};
    ebb_ctx *ctx = test_ctx_new();
    generate_options options = {
        .tokens = 40, .temperature = temperature, .seed = seed, .prompt = prompt};
    assert_ok(ctx, ebb__job_generate(ctx, &room->s, room->s.out_dir, &options, run_keep, &output));
    test_ctx_free(ctx);
    return output;
}

static void check_generation(const run_room *room) {
    run_output likeliest = generate(room, 0, 1, "the dog"), again = generate(room, 0, 2, "the dog");
    assert_string_equal(likeliest.text, again.text);
    assert_int_equal(likeliest.text[likeliest.bytes - 1], '\n');
    run_output one = generate(room, 1, 1, NULL), two = generate(room, 1, 2, NULL);
    again = generate(room, 1, 1, NULL);
    assert_string_equal(one.text, again.text);
    assert_true(strcmp(one.text, two.text) != 0);
}

/* The same text in the same columns is the same loss, to the bit. */
static void check_evaluation(const run_room *room, const job_train_result *trained) {
    text_eval_result result;
    ebb_ctx *ctx = test_ctx_new();
    assert_ok(ctx,
              ebb__lm_measure(ctx, &room->s, room->s.out_dir, room->valid.text, NULL, &result));
    assert_true(result.token_perplexity == trained->best.at[0]);
    assert_true(result.token_perplexity == exp(result.loss));
    assert_int_equal(result.planned_peak_bytes, result.measured_peak_bytes);
    run_bytes text = run_read(room->valid.text);
    assert_int_equal(result.bytes, text.bytes);
    assert_true(result.tokens > 0 && result.words > 0 && result.unknown < result.tokens);
    free(text.data);
    test_ctx_free(ctx);
}

static const struct run_kind {
    const char *name;
    train_settings s; /* zero: as in the room */
} kinds[] = {
    {"lstm sgd", {.cell = LM_LSTM}},
    {"lstm tied", {.cell = LM_LSTM, .tie = true, .optimizer = UPDATE_ADAM}},
    {"lstm momentum chars", {.cell = LM_LSTM, .tokens = TEXT_CHAR, .momentum = 0.9}},
    {"gru adam", {.cell = LM_GRU, .optimizer = UPDATE_ADAM, .layers = 2}},
    {"gru adamw bytes", {.cell = LM_GRU, .optimizer = UPDATE_ADAMW, .tokens = TEXT_BYTE}},
    {"rnn adamw tied", {.cell = LM_RNN, .optimizer = UPDATE_ADAMW, .tie = true}},
    {"rnn momentum", {.cell = LM_RNN, .momentum = 0.5, .embed = 3}},
};

static void check_kind(const struct run_kind *kind) {
    run_room *room = run_room_new(8, 3);
    room->s.cell = kind->s.cell;
    room->s.tie = kind->s.tie;
    room->s.optimizer = kind->s.optimizer;
    room->s.tokens = kind->s.tokens;
    room->s.momentum = kind->s.momentum;
    room->s.embed = kind->s.embed;
    room->s.layers = kind->s.layers > 0 ? kind->s.layers : 1;
    room->s.vocab = kind->s.tokens == TEXT_WORD ? 24 : 0;
    room->s.lr = kind->s.optimizer == UPDATE_SGD ? 0.5 : 0.01;
    room->s.weight_decay = kind->s.optimizer == UPDATE_ADAMW ? 0.1 : 0;
    room->s.dropout = 0.2;
    room->s.batch = kind->s.tokens == TEXT_WORD ? 3 : 9;
    room->s.out_dir = room->other.text;
    job_train_result whole = run_ok(room);
    assert_int_equal(whole.planned_peak_bytes, whole.measured_peak_bytes);
    check_evaluation(room, &whole);
    check_generation(room);
    room->s.out_dir = room->out.text;
    room->s.threads = 2;
    test_dice dice = {3};
    assert_true(run_in_pieces(room, 2, (int32_t)whole.steps, &dice) > 0);
    run_expect_same_end(room->out.text, room->other.text, whole.steps);
    run_room_free(room);
}

static void every_kind_of_model(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        check_kind(&kinds[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learns_and_leaves_its_files),
        cmocka_unit_test(epochs_start_from_the_same_state),
        cmocka_unit_test(stopped_at_any_poll_ends_with_the_same_bits),
        cmocka_unit_test(stopped_many_times_ends_with_the_same_bits),
        cmocka_unit_test(more_epochs_go_on),
        cmocka_unit_test(finished_run_changes_nothing),
        cmocka_unit_test(fresh_starts_over),
        cmocka_unit_test(plateau_lowers_the_rate),
        cmocka_unit_test(warm_up_raises_the_rate),
        cmocka_unit_test(least_budget_runs_and_one_byte_less_does_not),
        cmocka_unit_test(every_kind_of_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
