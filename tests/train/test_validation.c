/* test_validation.c - runs that look at their validation: the end by patience, the best weights by
 * BLEU, every schedule, what metrics and event files say; and that none of it depends on stops,
 * kills or failures on the way. */
#include "fault/fault_help.h"
#include "support/events.h"

/* ---- patience ---- */

/* Learns nothing after the first epoch: the best is the first. */
static run_room *stale_room(void) {
    run_room *room = run_busy_room();
    room->s.lr = 1e-30;
    room->s.epochs = 9;
    room->s.patience = 3;
    return room;
}

static void patience_ends_a_run(void **state) {
    (void)state;
    run_room *room = stale_room();
    job_train_result result = run_ok(room);
    assert_int_equal(result.epochs, 4);
    assert_true(result.stopped_early && !result.already_done);
    run_shot shot = run_look(room->out.text);
    job_train_result again = run_ok(room);
    assert_true(again.already_done && again.stopped_early && again.steps == result.steps);
    run_expect_untouched(&shot, room->out.text);
    run_forget(&shot);
    room->s.patience = 5;
    again = run_ok(room);
    assert_true(again.epochs == 6 && again.stopped_early && again.resumed && !again.already_done);
    room->s.patience = 0;
    again = run_ok(room);
    assert_true(again.epochs == 9 && !again.stopped_early);
    /* The last step is no early end, whatever patience says. */
    room->s.patience = 1;
    again = run_ok(room);
    assert_true(again.already_done && !again.stopped_early);
    room->s.out_dir = room->other.text;
    room->s.patience = 0;
    (void)run_ok(room);
    run_expect_same_end(room->out.text, room->other.text, again.steps);
    room->s.valid_path = NULL;
    room->s.schedule = SCHEDULE_CONSTANT;
    room->s.patience = 1;
    run_refused(room, EBB_USAGE, "--patience needs");
    run_room_free(room);
}

/* Stopped once at poll `at`, then run to its end. */
static void run_with_a_stop(run_room *room, int at, const job_train_result *whole) {
    run_watch watch;
    job_train_result result;
    run_error error;
    run_watch_init(&watch, at);
    assert_int_equal(run_go(room, &watch, &result, &error), EBB_STOPPED);
    result = run_ok(room);
    assert_true(result.stopped_early == whole->stopped_early);
    assert_int_equal(result.steps, whole->steps);
    assert_true(result.best.at[1] == whole->best.at[1] && result.valid.at[1] == whole->valid.at[1]);
    assert_true(result.valid.at[0] == whole->valid.at[0]);
    run_expect_same_end(room->out.text, room->other.text, whole->steps);
}

static job_train_result run_whole(run_room *room, int *polls) {
    run_watch watch;
    job_train_result whole;
    run_error error;
    run_watch_init(&watch, -1);
    room->s.out_dir = room->other.text;
    assert_int_equal(run_go(room, &watch, &whole, &error), EBB_OK);
    room->s.out_dir = room->out.text;
    *polls = watch.polls;
    return whole;
}

static void patience_outlives_stops(void **state) {
    (void)state;
    run_room *room = stale_room();
    int polls = 0;
    job_train_result whole = run_whole(room, &polls);
    for (int at = 1; at <= polls; at += 2) {
        run_remove(room->out.text);
        run_with_a_stop(room, at, &whole);
    }
    run_room_free(room);
}

/* ---- schedules ---- */

static void every_schedule_outlives_stops(void **state) {
    (void)state;
    for (train_schedule schedule = SCHEDULE_CONSTANT; schedule <= SCHEDULE_INVERSE; schedule++) {
        run_room *room = run_busy_room();
        int polls = 0;
        room->s.schedule = schedule;
        room->s.warmup = 5;
        room->s.log_every = 1;
        room->s.epochs = 2;
        job_train_result whole = run_whole(room, &polls);
        for (int at = 2; at < polls; at += 3) { /* in the middle of epochs */
            run_remove(room->out.text);
            run_with_a_stop(room, at, &whole);
        }
        json_t *lines = run_metric_lines(room->out.text);
        assert_int_equal(json_array_size(lines), whole.steps);
        for (size_t i = 0; i < json_array_size(lines); i++) {
            double lr = run_number(lines, i, "lr"), t = (double)i + 1, n = (double)whole.steps;
            double want = i < 5                          ? 2 * t / 5
                          : schedule == SCHEDULE_INVERSE ? 2 * sqrt(5 / t)
                          : schedule == SCHEDULE_COSINE  ? 1 + cos(acos(-1) * (t - 6) / (n - 5))
                          : schedule == SCHEDULE_PLATEAU ? lr
                                                         : 2;
            assert_true(fabs(lr - want) < 1e-12);
        }
        json_decref(lines);
        run_room_free(room);
    }
}

/* ---- BLEU ---- */

typedef struct samples_seen {
    run_watch watch;
    int n;
    bool right;
} samples_seen;

/* The texts are words of their languages, or <unk>; `watch` comes first, so that it is the same
 * user. */
static void see_sample(void *user, const job_sample *sample) {
    samples_seen *seen = user;
    seen->n++;
    seen->right = seen->right && sample->source[0] == 's' && sample->target[0] == 't' &&
                  (sample->translation[0] == 't' || sample->translation[0] == '\0' ||
                   strncmp(sample->translation, "<unk>", 5) == 0);
}

static run_room *bleu_room(void) {
    run_room *room = run_pairs_room(24, 9, 5, false);
    room->s.epochs = 5;
    room->s.save_every = 3;
    room->s.hidden = 12;
    room->s.valid_metric = METRIC_BLEU;
    return room;
}

/* Of the metrics lines with a BLEU: the step of the highest. */
static int64_t best_step(const char *dir, const char *key, double sign, int *n) {
    json_t *lines = run_metric_lines(dir);
    double best = -(double)INFINITY;
    int64_t step = -1;
    *n = 0;
    for (size_t i = 0; i < json_array_size(lines); i++) {
        if (json_object_get(json_array_get(lines, i), key) != NULL) {
            double value = sign * run_number(lines, i, key);
            step = value > best ? (int64_t)run_number(lines, i, "step") : step;
            best = fmax(value, best);
            ++*n;
        }
    }
    json_decref(lines);
    return step;
}

static void best_weights_are_those_of_the_metric(void **state) {
    (void)state;
    for (unsigned metric = METRIC_PERPLEXITY; metric <= METRIC_BLEU; metric++) {
        run_room *room = bleu_room();
        samples_seen seen = {.right = true};
        job_train_result result;
        run_error error;
        int n = 0;
        room->s.valid_metric = metric;
        room->s.samples = 3;
        room->s.lr = 0.2; /* restless */
        run_watch_init(&seen.watch, -1);
        seen.watch.observer.sample = see_sample;
        assert_int_equal(run_go(room, &seen.watch, &result, &error), EBB_OK);
        int64_t step = metric == METRIC_BLEU
                           ? best_step(room->out.text, "valid_bleu", 1, &n)
                           : best_step(room->out.text, "valid_perplexity", -1, &n);
        assert_int_equal(n, 5);
        assert_true(seen.right && seen.n == 3 * 5);
        ebb_ctx *ctx = test_ctx_new();
        checkpoint_info info = {0};
        assert_ok(ctx, ebb__checkpoint_peek(ctx, room->out.text, &info));
        assert_true(info.has_best);
        assert_int_equal(info.best_step, step);
        ebb__checkpoint_info_fini(&info);
        test_ctx_free(ctx);
        assert_true(result.best.at[1] >= result.valid.at[1] && result.valid.at[1] >= 0);
        assert_true(result.best.at[1] > 0 && result.best.at[1] <= 100);
        run_room_free(room);
    }
}

static void bleu_outlives_stops(void **state) {
    (void)state;
    run_room *room = bleu_room();
    int polls = 0;
    room->s.patience = 2;
    room->s.schedule = SCHEDULE_PLATEAU;
    room->s.lr_patience = 0;
    job_train_result whole = run_whole(room, &polls);
    assert_true(whole.best.at[1] >= 0 && polls > whole.steps);
    for (int at = 1; at <= polls; at += 3) { /* also between words of a translation */
        run_remove(room->out.text);
        run_with_a_stop(room, at, &whole);
    }
    run_room_free(room);
}

static void language_models_do_not_translate(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    room->s.valid_metric = METRIC_BLEU;
    run_refused(room, EBB_USAGE, "models of kind lm have no such metric");
    room->s.valid_metric = METRIC_PERPLEXITY;
    room->s.valid_path = NULL;
    run_refused(room, EBB_USAGE, "--schedule plateau needs");
    run_room_free(room);
}

/* ---- metrics and events ---- */

/* The run's event files hold what its metrics say: every line once, in order. */
static void expect_events(const char *folder, const char *dir) {
    static const struct {
        const char *tag, *key;
    } pairs[] = {{"train/loss", "loss"},
                 {"train/learning_rate", "lr"},
                 {"train/gradient_norm", "gradient_norm"},
                 {"train/words_per_second", "words_per_second"},
                 {"memory/bytes", "memory_bytes"},
                 {"valid/perplexity", "valid_perplexity"},
                 {"valid/bleu", "valid_bleu"}};
    json_t *lines = run_metric_lines(dir);
    events_seen *seen = events_of(folder);
    size_t line = 0;
    for (int i = 0; i < seen->n; i++) {
        const event_seen *e = &seen->at[i];
        if (e->n == 0) {
            assert_true(e->version || e->start);
            continue;
        }
        assert_true(line < json_array_size(lines));
        const json_t *metrics = json_array_get(lines, line);
        assert_int_equal(e->step, run_number(lines, line, "step"));
        assert_int_equal(e->n, json_object_size(metrics) - 2); /* step and epoch */
        for (int k = 0; k < e->n; k++) {
            size_t p = 0;
            while (p < 7 && strcmp(pairs[p].tag, e->scalar[k].tag) != 0) {
                p++;
            }
            assert_true(p < 7);
            assert_true(e->scalar[k].value == (float)run_number(lines, line, pairs[p].key));
        }
        line++;
    }
    assert_int_equal(line, json_array_size(lines));
    free(seen);
    json_decref(lines);
}

static void metrics_say_gradient_and_memory(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    room->s.log_every = 1;
    room->s.clip = 1e-3;
    job_train_result result = run_ok(room);
    json_t *lines = run_metric_lines(room->out.text);
    double most = 0;
    for (size_t i = 0; i < json_array_size(lines); i++) {
        assert_true(run_number(lines, i, "memory_bytes") == (double)result.measured_peak_bytes);
        assert_true(run_number(lines, i, "gradient_norm") > 0);
        most = fmax(most, run_number(lines, i, "gradient_norm"));
        assert_null(json_object_get(json_array_get(lines, i), "valid_bleu"));
    }
    assert_true(most > 0.01); /* what clipping makes of it does not count */
    json_decref(lines);
    run_room_free(room);
}

static void events_outlive_stops(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    test_dice dice = {9};
    run_path board = run_join(room->dir, "board");
    job_train_result whole = run_ok(room), result;
    run_error error;
    room->s.tensorboard = board.text;
    for (int round = 0; round < 3; round++) {
        ebb_status status = EBB_STOPPED;
        run_remove(room->out.text);
        run_remove(board.text);
        for (int stops = 0; status == EBB_STOPPED; stops++) {
            run_watch watch;
            run_watch_init(&watch, 1 + test_below(&dice, 20));
            status = run_go(room, &watch, &result, &error);
        }
        assert_int_equal(status, EBB_OK);
        assert_int_equal(result.steps, whole.steps);
        expect_events(board.text, room->out.text);
        events_seen *seen = events_of(board.text);
        assert_int_equal(seen->files, 1); /* nothing was ever cut */
        free(seen);
    }
    /* The run in the folder is finished: it says nothing more. */
    run_shot shot = run_look(board.text);
    assert_true(run_ok(room).already_done);
    run_expect_untouched(&shot, board.text);
    run_forget(&shot);
    room->s.fresh = true;
    (void)run_ok(room);
    expect_events(board.text, room->out.text);
    room->s.tensorboard = run_join(room->dir, "no/board").text;
    run_refused(room, EBB_USAGE, "--tensorboard");
    run_room_free(room);
}

static run_room *small_room(run_path *board) {
    run_room *room = shorten(run_room_new(4, 1));
    *board = run_join(room->dir, "board");
    return room;
}

/* Each time the folder is that of a new run, but for what the failed one left. */
static void fail_and_recover(run_room *room, const char *board, fault f, uint64_t stride) {
    uint64_t failures = 0;
    bool reached = true;
    room->s.tensorboard = board;
    run_unbroken(room);
    for (f.place = 1; reached; f.place += is_full() ? 1 : stride) {
        ebb_status status;
        run_remove(room->out.text);
        run_remove(board);
        reached = run_faulty(room, train_job, &f, &status);
        failures += status != EBB_OK;
        (void)run_ok(room);
        run_expect_same_end(room->out.text, room->other.text, STEPS);
        expect_events(board, room->out.text);
    }
    assert_true(failures > 20);
    run_room_free(room);
}

static void events_outlive_a_full_disk(void **state) {
    (void)state;
    run_path board;
    run_room *room = small_room(&board);
    fail_and_recover(room, board.text, (fault){.disk = true, .error = ENOSPC}, 3);
}

static void translations_outlive_failures(void **state) {
    (void)state;
    const fault faults[] = {{.disk = true, .error = ENOSPC}, {.sticky = true}};
    for (int i = 0; i < 2; i++) {
        run_room *room = shorten(run_pairs_room(6, 3, 3, false));
        run_path board = run_join(room->dir, "board");
        room->s.valid_metric = METRIC_BLEU;
        room->s.samples = 2;
        fail_and_recover(room, board.text, faults[i], i == 0 ? 5 : 97);
    }
}

static void events_outlive_kills(void **state) {
    (void)state;
    run_path board;
    run_room *room = small_room(&board);
    bool ended = false;
    int kills = 0;
    room->s.tensorboard = board.text;
    for (int n = 1; !ended; n += is_full() ? 2 : 2 * STRIDE) {
        run_remove(room->out.text);
        run_remove(board.text);
        ended = killed_at(room, n);
        kills += !ended;
        if (!ended && n % 4 == 1) { /* and again, on the way from there */
            kills += !killed_at(room, n / 2 | 1);
        }
        (void)run_ok(room);
        expect_events(board.text, room->out.text);
    }
    assert_true(kills > 20);
    run_room_free(room);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patience_ends_a_run),
        cmocka_unit_test(patience_outlives_stops),
        cmocka_unit_test(every_schedule_outlives_stops),
        cmocka_unit_test(best_weights_are_those_of_the_metric),
        cmocka_unit_test(bleu_outlives_stops),
        cmocka_unit_test(language_models_do_not_translate),
        cmocka_unit_test(metrics_say_gradient_and_memory),
        cmocka_unit_test(events_outlive_stops),
        cmocka_unit_test(events_outlive_a_full_disk),
        cmocka_unit_test(translations_outlive_failures),
        cmocka_unit_test(events_outlive_kills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
