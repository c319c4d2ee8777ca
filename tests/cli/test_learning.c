/* test_learning.c - the metrics of a run read back: lines that are none are left out, numbers that
 * cannot be are not believed, and memory follows what was read. */
#include "unit/data_help.h"

#include "page/learning.h"

/* The file is DIR/metrics.jsonl, so the room's first name becomes the folder. */
static void write_metrics(help_room *room, char path[128], const void *data, size_t bytes) {
    assert_int_equal(ebb__file_make_dir(room->ctx, room->path[0]), EBB_OK);
    (void)snprintf(path, 128, "%s/metrics.jsonl", room->path[0]);
    help_write(path, data, bytes);
}

static void remove_metrics(help_room *room, const char *path) {
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(room->path[0]), 0);
}

static void counts_are_believed_if_they_can_be(void **state) {
    static const char text[] = "{\"step\":1,\"epoch\":2}\n{\"step\":2,\"epoch\":1e300}\nno line\n"
                               "{\"step\":3,\"epoch\":-1}\n{\"step\":-4}\n{\"step\":5,\"ep";
    static const int64_t epochs[] = {2, 0, 0};
    help_room *room = *state;
    learning_curve curve = {0};
    char path[128];
    write_metrics(room, path, text, sizeof text - 1);
    assert_int_equal(ebb__learning_read(room->ctx, room->path[0], &curve), EBB_OK);
    assert_int_equal(curve.n, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(curve.points[i].step, i + 1);
        assert_int_equal(curve.points[i].epoch, epochs[i]);
    }
    ebb__free(room->ctx, curve.points);
    remove_metrics(room, path);
}

/* Each of these bytes was given room for a point once. */
static void line_ends_take_no_room(void **state) {
    enum { BYTES = 4 << 20 };
    help_room *room = *state;
    learning_curve curve = {0};
    char path[128], *text = malloc(BYTES);
    assert_non_null(text);
    memset(text, '\n', BYTES);
    write_metrics(room, path, text, BYTES);
    free(text);
    room->ctx->mem.peak_bytes = room->ctx->mem.live_bytes;
    assert_int_equal(ebb__learning_read(room->ctx, room->path[0], &curve), EBB_OK);
    assert_int_equal(curve.n, 0);
    assert_true(room->ctx->mem.peak_bytes < 2 * BYTES);
    ebb__free(room->ctx, curve.points);
    remove_metrics(room, path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(counts_are_believed_if_they_can_be, help_setup,
                                        help_teardown),
        cmocka_unit_test_setup_teardown(line_ends_take_no_room, help_setup, help_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
