/* test_cnn_init.c - the same for convolutional nets as test_train.c for language models: memory
 * runs out, the disk is full, or the process is killed, at every possible place of a training run
 * that starts from a file of weights. */
#include "fault/fault_help.h"

#include "kind/cnn/cnn.h"

enum { IMAGES = 12, SIDE = 4, CLASSES = 3, IDX_HEAD = 16, IDX_LABELS = 8 };

static const char net_text[] = "input 1 4 4\n"
                               "conv 2 3 pad 1 nobias\n"
                               "bn; relu; gap; flatten; fc 3\n";

static void put(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* IDX files in the room. */
static void put_images(const run_room *room) {
    uint8_t images[IDX_HEAD + IMAGES * SIDE * SIDE] = {0, 0, 8, 3,    0, 0, 0, IMAGES,
                                                       0, 0, 0, SIDE, 0, 0, 0, SIDE};
    uint8_t labels[IDX_LABELS + IMAGES] = {0, 0, 8, 1, 0, 0, 0, IMAGES};
    for (int i = 0; i < IMAGES; i++) {
        labels[IDX_LABELS + i] = (uint8_t)(i % CLASSES);
        for (int k = 0; k < SIDE * SIDE; k++) {
            images[IDX_HEAD + i * SIDE * SIDE + k] = (uint8_t)(i * k * 37 % 251 + i % CLASSES);
        }
    }
    put(room->train.text, images, sizeof images);
    put(room->train_target.text, labels, sizeof labels);
}

static run_room *new_room(void) {
    run_room *room = run_room_new(1, 1);
    room->train = run_join(room->dir, "images-idx3-ubyte");
    room->train_target = run_join(room->dir, "labels-idx1-ubyte");
    room->valid_target = run_join(room->dir, "net");
    put(room->valid_target.text, net_text, sizeof net_text - 1);
    put_images(room);
    return room;
}

static void set(run_room *room) {
    ebb_ctx *ctx = test_ctx_new();
    assert_ok(ctx, ebb__settings_init(ctx, &ebb__kind_cnn, &room->s));
    cnn_settings *own = (void *)room->s.own;
    own->net = room->valid_target.text;
    room->s.train_path = room->s.valid_path = room->train.text;
    room->s.out_dir = room->out.text;
    room->s.threads = 1;
    room->s.memory = (train_memory){.form = MEMORY_BYTES, .bytes = 64 << 20};
    room->s.batch = 4;
    room->s.epochs = 0;
    room->s.steps = STEPS;
    room->s.save_every = room->s.log_every = 1;
    room->s.momentum = 0.9;
    assert_ok(ctx, ebb__settings_resolve(ctx, &room->s));
    test_ctx_free(ctx);
}

/* Runs begin with the weights that one of another seed ended with. */
static run_room *small_room(void) {
    run_room *room = new_room();
    run_path first = run_join(room->dir, "first");
    room->valid = run_join(first.text, "last.safetensors");
    set(room);
    room->s.out_dir = first.text;
    room->s.seed = 2;
    (void)run_ok(room);
    room->s.seed = 7;
    room->s.out_dir = room->out.text;
    room->s.init_path = room->valid.text;
    return room;
}

static void nets_without_memory(void **state) {
    (void)state;
    fail_training(small_room(), (fault){0}, 0);
}

static void nets_without_memory_from_then_on(void **state) {
    (void)state;
    fail_training(small_room(), (fault){.sticky = true}, 0);
}

static void nets_on_a_full_disk(void **state) {
    (void)state;
    fail_training(small_room(), (fault){.disk = true, .error = ENOSPC}, 0);
}

static void resuming_nets_on_a_full_disk(void **state) {
    (void)state;
    fail_training(small_room(), (fault){.disk = true, .error = ENOSPC}, 1);
}

static void nets_killed(void **state) {
    (void)state;
    kill_training(small_room());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nets_without_memory), cmocka_unit_test(nets_without_memory_from_then_on),
        cmocka_unit_test(nets_on_a_full_disk), cmocka_unit_test(resuming_nets_on_a_full_disk),
        cmocka_unit_test(nets_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
