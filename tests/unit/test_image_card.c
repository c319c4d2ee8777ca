/* test_image_card.c - what a trained net knows of its images: written and read back to the last
 * bit, and refused with a sentence where it is not what it should be. */
#include "image_help.h"

#include "data/image_card.h"

static void make_set(help_room *room, bool names, image_set *out) {
    static char some[] = "one\0\"two\"\0dr\xc3\xa9i";
    image_files files;
    put_idx(room, 11, 3, 5, 7);
    assert_int_equal(find_in(room, IMAGE_TRAIN, &files), EBB_OK);
    if (names) { /* as others have them; those of IDX are not known */
        files.names = some;
        files.names_bytes = sizeof some;
    }
    assert_int_equal(
        ebb__image_set_ensure(&files, &(image_choice){.classes = 8}, room->path[0], out), EBB_OK);
    ebb__image_files_free(&files);
}

static void comes_back_the_same(void **state) {
    help_room *room = *state;
    image_set set;
    image_card made, read;
    for (int names = 0; names < 2; names++) {
        make_set(room, names != 0, &set);
        assert_int_equal(ebb__image_card_make(&set, &made), EBB_OK);
        assert_int_equal(ebb__image_card_write(&made, room->path[1]), EBB_OK);
        assert_int_equal(ebb__image_card_read(room->ctx, room->path[1], &read), EBB_OK);
        assert_true(read.size.height == 3 && read.size.width == 5 && read.size.channels == 1);
        assert_int_equal(read.classes, 8);
        assert_true(read.mean[0] == ebb__image_mean(&set.facts, 0));
        assert_true(read.deviation[0] == ebb__image_deviation(&set.facts, 0));
        assert_int_equal(read.hash, made.hash);
        assert_int_equal(read.names_bytes, set.names_bytes);
        if (names != 0) {
            assert_memory_equal(read.names, set.names, set.names_bytes);
        } else {
            assert_null(read.names);
        }
        ebb__image_card_free(&read);
        ebb__image_card_free(&made);
        ebb__image_set_close(&set);
    }
}

static void refuse(help_room *room, const char *text, const char *says) {
    image_card card;
    help_write_text(room->path[1], text);
    ebb_status status = ebb__image_card_read(room->ctx, room->path[1], &card);
    ebb__image_card_free(&card);
    help_expect(room->ctx, status, EBB_MODEL, says);
}

#define HEAD "{\"schema\": 1, \"height\": 2, \"width\": 2, \"channels\": 1, "

static void refusals(void **state) {
    help_room *room = *state;
    static const char *const wrong[] = {
        "[]",
        "{}",
        HEAD "\"classes\": 0, \"mean\": [1], \"deviation\": [1], \"names\": []}",
        HEAD "\"classes\": 65537, \"mean\": [1], \"deviation\": [1], \"names\": []}",
        HEAD "\"classes\": 2, \"mean\": [], \"deviation\": [1], \"names\": []}",
        HEAD "\"classes\": 2, \"mean\": [1, 2], \"deviation\": [1], \"names\": []}",
        HEAD "\"classes\": 2, \"mean\": [-1], \"deviation\": [1], \"names\": []}",
        HEAD "\"classes\": 2, \"mean\": [256], \"deviation\": [1], \"names\": []}",
        HEAD "\"classes\": 2, \"mean\": [\"1\"], \"deviation\": [1], \"names\": []}",
        HEAD "\"classes\": 2, \"mean\": [1], \"deviation\": [1]}",
        HEAD "\"classes\": 2, \"mean\": [1], \"deviation\": [1], \"names\": [\"\"]}",
        HEAD "\"classes\": 2, \"mean\": [1], \"deviation\": [1], \"names\": [\"a\\n\"]}",
        HEAD "\"classes\": 2, \"mean\": [1], \"deviation\": [1], \"names\": [1]}",
        HEAD "\"classes\": 2, \"mean\": [1], \"deviation\": [1], \"names\": [\"a\", \"b\", \"c\"]}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        refuse(room, wrong[i], "does not describe images");
    }
    refuse(room, HEAD, ":1: is not JSON");
    refuse(room, "{\"a\": 1,\n\"a\": 2}", ":2: is not JSON");
    image_card card;
    help_expect(room->ctx, ebb__image_card_read(room->ctx, "/nowhere/card", &card), EBB_MODEL,
                "/nowhere/card: is not there");
    ebb__image_card_free(&card);
}

static void without_memory(void **state) {
    help_room *room = *state;
    image_set set;
    image_card card;
    bool reached = true;
    make_set(room, true, &set);
    for (uint64_t place = 1; reached; place++) {
        room->ctx->mem.calls = 0;
        room->ctx->mem.fail_at = place;
        ebb_status status = ebb__image_card_make(&set, &card);
        if (status == EBB_OK) {
            status = ebb__image_card_write(&card, room->path[1]);
        }
        ebb__image_card_free(&card);
        if (status == EBB_OK) {
            status = ebb__image_card_read(room->ctx, room->path[1], &card);
            ebb__image_card_free(&card);
        }
        reached = room->ctx->mem.calls >= place;
        assert_int_equal(status, reached ? EBB_NOMEM : EBB_OK);
        ebb__ctx_clear(room->ctx);
    }
    room->ctx->mem.fail_at = 0;
    ebb__image_set_close(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(comes_back_the_same, help_setup, image_teardown),
        cmocka_unit_test_setup_teardown(refusals, help_setup, image_teardown),
        cmocka_unit_test_setup_teardown(without_memory, help_setup, image_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
