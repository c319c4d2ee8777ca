/* test_cnn.c - memory runs out, or the disk fails, at every possible place of the training of a
 * convolutional net, of its evaluation and of its answers: the right status and a sentence, nothing
 * left allocated or open, the checkpoint before still whole, and the same command afterwards ends
 * with the same bits as an unbroken run. */
#include "fault/fault_help.h"

#include "kind/cnn/cnn.h"

#include <png.h>

enum { SIDE = 4, IMAGES = 12, CLASSES = 2 };

static void put_word(uint8_t *at, uint32_t word) {
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)(word >> (24 - 8 * i));
    }
}

/* Images whose shade tells their class. */
static void put_images(const run_room *room) {
    uint8_t images[16 + IMAGES * SIDE * SIDE], labels[8 + IMAGES];
    const uint32_t heads[] = {0x803, IMAGES, SIDE, SIDE};
    for (int i = 0; i < 4; i++) {
        put_word(images + 4 * i, heads[i]);
    }
    put_word(labels, 0x801);
    put_word(labels + 4, IMAGES);
    for (size_t i = 0; i < IMAGES; i++) {
        labels[8 + i] = i % CLASSES;
        for (size_t k = 0; k < (size_t)SIDE * SIDE; k++) {
            images[16 + i * SIDE * SIDE + k] = (uint8_t)(100 * (i % CLASSES) + 7 * i + 3 * k);
        }
    }
    run_write(run_join(room->dir, "some-images").text, images, sizeof images);
    run_write(run_join(room->dir, "some-labels").text, labels, sizeof labels);
}

static void put_photo(const run_room *room) {
    uint8_t pixels[3 * SIDE * SIDE];
    png_image image = {
        .version = PNG_IMAGE_VERSION, .width = SIDE, .height = SIDE, .format = PNG_FORMAT_RGB};
    memset(pixels, 77, sizeof pixels);
    assert_true(png_image_write_to_file(&image, run_join(room->dir, "photo.png").text, 0, pixels, 0,
                                        NULL) != 0);
}

static run_room *net_room(void) {
    static const char net[] = "input 1 4 4\nconv 4 3 pad 1\nbn\nrelu\ngap\nflatten\nfc 2\n";
    run_room *room = run_room_new(1, 1);
    ebb_ctx *ctx = test_ctx_new();
    room->train = run_join(room->dir, "some-images");
    room->valid = run_join(room->dir, "net.txt");
    run_write(room->valid.text, net, strlen(net));
    put_images(room);
    put_photo(room);
    assert_ok(ctx, ebb__settings_init(ctx, &ebb__kind_cnn, &room->s));
    room->s.train_path = room->train.text;
    room->s.out_dir = room->out.text;
    room->s.batch = 4;
    room->s.steps = STEPS;
    room->s.save_every = room->s.log_every = 1;
    room->s.momentum = 0.9;
    room->s.threads = 1;
    room->s.memory = (train_memory){.form = MEMORY_BYTES, .bytes = 64 << 20};
    cnn_settings *own = (void *)room->s.own;
    own->net = room->valid.text;
    own->hold = 0.4;
    assert_ok(ctx, ebb__settings_resolve(ctx, &room->s));
    room->s.epochs = 0;
    test_ctx_free(ctx);
    return room;
}

static void training_without_memory(void **state) {
    (void)state;
    fail_training(net_room(), (fault){0}, 0);
}

static void training_without_memory_from_then_on(void **state) {
    (void)state;
    fail_training(net_room(), (fault){.sticky = true}, 0);
}

static void resuming_without_memory(void **state) {
    (void)state;
    fail_training(net_room(), (fault){.sticky = true}, 1);
}

static void training_on_a_full_disk(void **state) {
    (void)state;
    fail_training(net_room(), (fault){.disk = true, .error = ENOSPC}, 0);
}

static void resuming_on_a_broken_disk(void **state) {
    (void)state;
    fail_training(net_room(), (fault){.disk = true, .error = EIO}, 1);
}

static void training_killed(void **state) {
    (void)state;
    kill_training(net_room());
}

/* ---- using the net ---- */

static ebb_status eval_job(ebb_ctx *ctx, const run_room *room) {
    const char *const words[] = {room->other.text, room->train.text};
    kind_facts facts;
    ebb_status status = ebb__cnn_eval(ctx, &room->s, words, NULL, &facts);
    assert_int_equal(facts.classes.n, status == EBB_OK ? CLASSES : 0);
    ebb__facts_free(&facts);
    return status;
}

static ebb_status count_answer(void *user, const predict_answer *answer) {
    assert_int_equal(answer->n, CLASSES);
    ++*(int *)user;
    return EBB_OK;
}

static ebb_status predict_job(ebb_ctx *ctx, const run_room *room) {
    run_path photo = run_join(room->dir, "photo.png");
    const char *const paths[] = {photo.text, photo.text, photo.text};
    predict_summary sum;
    int answers = 0;
    ebb_status status = ebb__job_predict(ctx, &room->s, room->other.text,
                                         &(predict_options){.paths = paths, .n = 3, .top = 5},
                                         count_answer, &answers, &sum);
    assert_true((status == EBB_OK) == (answers == 3));
    return status;
}

static void fail_use(fault_job job) {
    run_room *room = net_room();
    const fault faults[] = {
        {0}, {.sticky = true}, {.disk = true, .error = EIO}, {.disk = true, .error = ENOSPC}};
    run_unbroken(room);
    run_shot before = run_look(room->other.text);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        fault f = faults[i];
        uint64_t failures = 0;
        bool reached = true;
        for (f.place = 1; reached; f.place = next_place(f.place)) {
            ebb_status status;
            reached = run_faulty(room, job, &f, &status);
            failures += status != EBB_OK;
            run_expect_untouched(&before, room->other.text);
        }
        assert_true(failures > 5);
    }
    run_forget(&before);
    run_room_free(room);
}

static void evaluating(void **state) {
    (void)state;
    fail_use(eval_job);
}

static void predicting(void **state) {
    (void)state;
    fail_use(predict_job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_without_memory),
        cmocka_unit_test(training_without_memory_from_then_on),
        cmocka_unit_test(resuming_without_memory),
        cmocka_unit_test(training_on_a_full_disk),
        cmocka_unit_test(resuming_on_a_broken_disk),
        cmocka_unit_test(training_killed),
        cmocka_unit_test(evaluating),
        cmocka_unit_test(predicting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
