/* test_far.c - training, validating, stopping and going on, evaluating, generating and translating
 * on a device whose memory the host cannot touch (support/far.h): every byte goes through the
 * session's door, and the bits are those of the CPU. */
#include "train/run_help.h"

#include "run/session.h"
#include "support/far.h"
#include "support/twin.h"

#include <signal.h>
#include <sys/wait.h>

/* ---- the device itself ---- */

static run_session *small_session(ebb_ctx *ctx, ir_graph *graph) {
    run_session *session = NULL;
    test_parse(ctx,
               "param %0 f32[4,4] \"w\"\ninput %1 f32[4,4] \"x\"\n"
               "%2:f32[4,4] = matmul - %1 %0\noutput %2 \"y\"\n",
               graph);
    plan_request request = {.name = "t", .graph = graph, .training = false};
    plan_options options = {.dev = test_far_device(), .members = 2, .budget = UINT64_MAX};
    ebb_plan *plan = NULL;
    assert_ok(ctx, ebb__plan_make(ctx, &request, 1, NULL, 0, &options, &plan));
    assert_ptr_equal(plan->dev, test_far_device());
    assert_ok(ctx, ebb__run_new(ctx, plan, &session));
    return session;
}

static void the_door_is_the_only_way_in(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    ir_graph graph;
    run_session *session = small_session(ctx, &graph);
    run_place w = ebb__run_find(session, "w"), y = ebb__run_find_output(session, 0, "y");
    float data[16], got[16];
    for (int i = 0; i < 16; i++) {
        data[i] = (float)(i % 5 == 0); /* the identity */
    }
    assert_ok(ctx, ebb__run_write(session, w, data));
    assert_ok(ctx, ebb__run_write(session, ebb__run_find(session, "x"), data));
    assert_ok(ctx, ebb__run_step(session, 0));
    assert_ok(ctx, ebb__run_read(session, y, got));
    assert_memory_equal(got, data, sizeof data);
    assert_ok(ctx, ebb__run_zero(session, run_part(w, 4 * sizeof *data, 4 * sizeof *data)));
    memset(data + 4, 0, 4 * sizeof *data);
    assert_ok(ctx, ebb__run_read(session, w, got));
    assert_memory_equal(got, data, sizeof data);
    assert_int_equal(session->measured_bytes, session->plan->peak_bytes);
    /* There is no address for those who do not ask. */
    assert_null(ebb__run_variable(session, "w", NULL));
    assert_null(ebb__run_output(session, 0, "y"));
    assert_int_equal(ebb__run_find(session, "nobody").bytes, 0);
    assert_int_equal(ebb__run_find_output(session, 0, "w").bytes, 0);
    pid_t child = fork();
    if (child == 0) {
        const volatile char *at = test_far_device()->buffer.address(session->buffer);
        (void)signal(SIGSEGV, SIG_DFL);
        _exit(at[w.offset]);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_false(WIFEXITED(how) && WEXITSTATUS(how) < 2);
    ebb__run_free(session);
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

static void all_are_mapped_or_none(void **state) {
    (void)state;
    ebb_ctx *ctx = test_ctx_new();
    ir_graph graph;
    run_session *session = small_session(ctx, &graph);
    const run_place places[] = {ebb__run_find(session, "w"), {0}, ebb__run_find(session, "x")};
    void *data[3];
    assert_ok(ctx, ebb__run_map_all(session, places, 3, DEVICE_WRITE, data));
    assert_true(data[0] != NULL && data[1] == NULL && data[2] != NULL);
    assert_refused(ctx, ebb__run_step(session, 0), EBB_INTERNAL, "while bytes are mapped");
    memset(data[0], 0, places[0].bytes);
    memset(data[2], 0, places[2].bytes);
    assert_ok(ctx, ebb__run_unmap_all(session, places, 3, DEVICE_WRITE, data));
    test_far_fail(0, 2);
    assert_refused(ctx, ebb__run_map_all(session, places, 3, DEVICE_WRITE, data), EBB_IO, "mapped");
    assert_int_equal(far.mapped, 0);
    assert_ok(ctx, ebb__run_step(session, 0));
    test_far_fail(1, 0);
    assert_refused(ctx, ebb__run_step(session, 0), EBB_IO, "gone");
    test_far_fail(0, 0);
    ebb__run_free(session);
    ebb__ir_fini(&graph);
    test_ctx_free(ctx);
}

/* ---- training ---- */

/* A run on the CPU in the other folder; the same one on the far device, stopped half way and gone
 * on with: the same end. */
static void expect_the_same_far(run_room *room) {
    run_watch whole, watch;
    job_train_result result;
    run_error error;
    int64_t steps = run_other(room, &whole).steps;
    int maps = far.maps;
    room->s.dev = test_far_device();
    run_watch_init(&watch, whole.polls / 2);
    assert_int_equal(run_go(room, &watch, &result, &error), EBB_STOPPED);
    result = run_ok(room);
    assert_true(result.resumed);
    assert_int_equal(result.planned_peak_bytes, result.measured_peak_bytes);
    run_expect_same_end(room->out.text, room->other.text, steps);
    assert_true(far.maps > maps);
    assert_int_equal(far.mapped, 0);
}

static void language_models(void **state) {
    (void)state;
    static const lm_cell cells[] = {LM_LSTM, LM_GRU, LM_RNN};
    for (int i = 0; i < 3; i++) {
        run_room *room = run_busy_room();
        room->s.cell = cells[i];
        room->s.optimizer = i == 1 ? UPDATE_ADAM : UPDATE_SGD;
        room->s.tie = i == 2;
        expect_the_same_far(room);
        run_room_free(room);
    }
}

static void sentences(void **state) {
    (void)state;
    run_room *room = run_lines_room(19, 7, 5, false);
    room->s.save_every = 3;
    expect_the_same_far(room);
    run_room_free(room);
}

static run_room *pairs_room(int i) {
    run_room *room = run_pairs_room(19, 7, 5, false);
    room->s.dropout = 0.2;
    room->s.smoothing = 0.1;
    room->s.attention = i == 0 ? NMT_MLP : NMT_DOT;
    room->s.layer_norm = i == 1;
    room->s.valid_metric = METRIC_BLEU;
    return room;
}

static void translation_models(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        run_room *room = pairs_room(i);
        expect_the_same_far(room);
        run_room_free(room);
    }
}

/* In the least memory, where much is computed again. */
static void in_the_least_memory(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    run_watch whole, watch;
    job_train_result result;
    run_error error;
    int64_t steps = run_other(room, &whole).steps;
    room->s.dev = test_far_device();
    room->s.memory.bytes = 1;
    run_watch_init(&watch, -1);
    assert_int_equal(run_go(room, &watch, &result, &error), EBB_BUDGET);
    room->s.memory.bytes = watch.least_bytes;
    result = run_ok(room);
    assert_int_equal(result.planned_peak_bytes, watch.least_bytes);
    run_expect_same_end(room->out.text, room->other.text, steps);
    run_room_free(room);
}

/* A device that fails ends the run with its status and sentence; what was saved is there. */
static void a_device_that_fails(void **state) {
    (void)state;
    for (int door = 0; door < 2; door++) {
        run_room *room = run_busy_room();
        room->s.dev = test_far_device();
        test_far_fail(door ? 0 : 5, door ? 400 : 0);
        run_refused(room, EBB_IO, door ? "nothing can be mapped" : "the device is gone");
        test_far_fail(0, 0);
        assert_int_equal(far.mapped, 0);
        (void)run_ok(room);
        run_room_free(room);
    }
}

/* A loss is read while the next step is under way; all the same the step that diverged is named, and
 * nothing that came of it is saved. */
static void divergence_is_seen_one_step_later(void **state) {
    (void)state;
    run_error errors[2];
    int64_t kept[2];
    for (int i = 0; i < 2; i++) {
        run_room *room = run_busy_room();
        job_train_result result;
        room->s.schedule = SCHEDULE_CONSTANT;
        room->s.dropout = room->s.momentum = room->s.clip = 0;
        room->s.lr = 3e38;
        room->s.save_every = 2;
        room->s.dev = i == 0 ? NULL : test_far_device();
        far.most_marks = 0;
        assert_int_equal(run_go(room, NULL, &result, &errors[i]), EBB_DIVERGED);
        kept[i] = run_checkpoint(room->out.text);
        assert_int_equal(far.most_marks, i == 0 ? 0 : DEVICE_MARKS);
        assert_int_equal(far.n_marks, 0);
        run_room_free(room);
    }
    assert_string_equal(errors[0].text, errors[1].text);
    assert_int_equal(kept[0], kept[1]);
}

/* ---- use ---- */

static void evaluating_and_generating(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    text_eval_result scores[2];
    run_output texts[2] = {{.bytes = 0}};
    (void)run_ok(room);
    for (int i = 0; i < 2; i++) {
        ebb_ctx *ctx = test_ctx_new();
        generate_options options = {.tokens = 40, .temperature = 1, .prompt = "the dog"};
        room->s.dev = i == 0 ? NULL : test_far_device();
        assert_ok(ctx, ebb__lm_measure(ctx, &room->s, room->out.text, room->valid.text, NULL,
                                       &scores[i]));
        assert_ok(ctx,
                  ebb__job_generate(ctx, &room->s, room->out.text, &options, run_keep, &texts[i]));
        test_ctx_free(ctx);
    }
    assert_true(scores[0].loss == scores[1].loss);
    assert_true(texts[0].bytes > 40);
    assert_string_equal(texts[0].text, texts[1].text);
    run_room_free(room);
}

typedef struct lines {
    int next;
    run_output found;
} lines;

static ebb_status read_line(void *user, decode_line *line, translate_next *got) {
    static const char *const texts[] = {"s0 s1 s2", "", "s4", "s3 s3 s1 s0 s2", "s1 s2 s3 s4"};
    lines *l = user;
    *got = l->next < 5 ? TRANSLATE_SENTENCE : TRANSLATE_END;
    if (*got == TRANSLATE_SENTENCE) {
        *line = (decode_line){texts[l->next], strlen(texts[l->next])};
        l->next++;
    }
    return EBB_OK;
}

static ebb_status write_line(void *user, const decode_result *result) {
    lines *l = user;
    for (int32_t i = 0; i < result->found->n; i++) {
        const translate_hypothesis *h = &result->found->best[i];
        char text[64];
        int n = snprintf(text, sizeof text, "%d %a:", (int)h->length, h->score);
        (void)run_keep(&l->found, text, (size_t)n);
        (void)run_keep(&l->found, (const char *)h->tokens, (size_t)h->length * sizeof *h->tokens);
        if (h->attention != NULL) {
            (void)run_keep(&l->found, (const char *)h->attention,
                           (size_t)(result->found->source_length) * sizeof *h->attention);
        }
    }
    return EBB_OK;
}

static void translating(void **state) {
    (void)state;
    run_room *room = pairs_room(0);
    lines l[2] = {{.next = 0}};
    text_eval_result scores[2];
    room->s.epochs = 3;
    (void)run_ok(room);
    for (int i = 0; i < 2; i++) {
        ebb_ctx *ctx = test_ctx_new();
        decode_options options = {
            .beam = 3, .nbest = 2, .alpha = 0.7, .max_ratio = 2, .attention = true};
        decode_io io = {&l[i], read_line, write_line, NULL};
        decode_summary summary;
        room->s.dev = i == 0 ? NULL : test_far_device();
        room->s.batch = 2;
        assert_ok(ctx, ebb__job_decode(ctx, &room->s, room->out.text, &options, &io, &summary));
        assert_int_equal(summary.lines, 5);
        assert_ok(ctx, ebb__nmt_measure(ctx, &room->s, room->out.text, room->valid.text,
                                        room->valid_target.text, NULL, &scores[i]));
        test_ctx_free(ctx);
    }
    assert_true(l[0].found.bytes > 100);
    assert_int_equal(l[0].found.bytes, l[1].found.bytes);
    assert_memory_equal(l[0].found.text, l[1].found.text, l[0].found.bytes);
    assert_true(scores[0].loss == scores[1].loss);
    run_room_free(room);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_door_is_the_only_way_in),
        cmocka_unit_test(all_are_mapped_or_none),
        cmocka_unit_test(language_models),
        cmocka_unit_test(sentences),
        cmocka_unit_test(translation_models),
        cmocka_unit_test(in_the_least_memory),
        cmocka_unit_test(a_device_that_fails),
        cmocka_unit_test(divergence_is_seen_one_step_later),
        cmocka_unit_test(evaluating_and_generating),
        cmocka_unit_test(translating),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
