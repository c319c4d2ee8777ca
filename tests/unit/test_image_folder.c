/* test_image_folder.c - folders of PNG and JPEG files: classes and files in the order of
 * torchvision's ImageFolder, sets made of them, images that cannot be decoded left out or named,
 * and folders that are refused. */
#include "photo_help.h"

#include "data/image_set.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <time.h>

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where) {
    (void)about;
    (void)kind;
    return where->level == 0 ? 0 : remove(path);
}

static int folder_teardown(void **state) {
    help_room *room = *state;
    (void)nftw(room->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return help_teardown(state);
}

static void make_folder(help_room *room, const char *name) {
    assert_int_equal(mkdir(in_room(room, name).text, 0777), 0);
}

/* An image of one shade. */
static void put_photo(help_room *room, const char *name, uint8_t shade) {
    uint8_t pixels[3 * 5 * 7];
    image_path path = in_room(room, name);
    memset(pixels, shade, sizeof pixels);
    if (strstr(name, ".png") != NULL) {
        write_png(path.text, 5, 7, 8, PNG_COLOR_TYPE_RGB, 0, pixels, 21);
    } else {
        write_jpeg(path.text, 5, 7, 3, JCS_RGB, false, pixels);
    }
}

/* In the order in which they must come: their shades ascend. */
static const char *const photos[] = {
    "B/Z.png",   "B/a.JPG",    "B/b.png",   "B/deep/a.png", "B/deep/er/x.jpeg",
    "a b/1.png", "a b/10.png", "a b/2.png", "c/1.png",
};
enum { PHOTOS = sizeof photos / sizeof photos[0] };

static void make_folders(help_room *room) {
    const char *folders[] = {"c", "B", "a b", "B/deep", "B/deep/er"};
    for (int i = 0; i < 5; i++) {
        make_folder(room, folders[i]);
    }
    for (int i = PHOTOS; i-- > 0;) {
        put_photo(room, photos[i], (uint8_t)(20 * i));
    }
    help_write_text(in_room(room, "B/notes.txt").text, "not an image");
    help_write_text(in_room(room, "readme").text, "not a folder");
}

static ebb_status find(help_room *room, bool skip, image_files *out) {
    const char *folder = room->folder;
    return ebb__image_files_find(
        room->ctx, &folder, 1,
        &(image_request){.part = IMAGE_TEST, .want = {4, 4, 3}, .skip_bad = skip}, out);
}

static void listed_in_order(void **state) {
    help_room *room = *state;
    image_files files;
    make_folders(room);
    assert_int_equal(find(room, false, &files), EBB_OK);
    assert_true(files.form == IMAGE_FOLDER && files.count == PHOTOS && files.classes == 3);
    assert_int_equal(files.names_bytes, 8);
    assert_memory_equal(files.names, "B\0a b\0c", 8);
    for (int i = 0; i < PHOTOS; i++) {
        assert_string_equal(files.at[i].path, in_room(room, photos[i]).text);
        assert_int_equal(files.at[i].label, i < 5 ? 0 : i < 8 ? 1 : 2);
    }
    ebb__image_files_free(&files);
}

/* Classes of another list, of which these are some, in another order. */
static void numbered_by_name(void **state) {
    help_room *room = *state;
    static const char names[] = "c\0aa\0B\0a b\0z";
    image_files files;
    image_set set;
    make_folders(room);
    assert_int_equal(find(room, false, &files), EBB_OK);
    assert_int_equal(ebb__image_files_renumber(&files, names, sizeof names, 5), EBB_OK);
    assert_int_equal(files.classes, 5);
    for (int i = 0; i < PHOTOS; i++) {
        assert_int_equal(files.at[i].label, i < 5 ? 2 : i < 8 ? 3 : 0);
    }
    assert_int_equal(
        ebb__image_set_ensure(&files, &(image_choice){.classes = 6}, room->path[0], &set), EBB_OK);
    assert_string_equal(ebb__image_set_name(&set, 3), "a b");
    assert_int_equal(set.facts.classes, 6);
    ebb__image_set_close(&set);
    ebb__image_files_free(&files);
    assert_int_equal(find(room, false, &files), EBB_OK);
    help_expect(room->ctx, ebb__image_files_renumber(&files, "B\0c", sizeof "B\0c", 2), EBB_DATA,
                "/a b/1.png: its class, a b, is none");
    ebb__image_files_free(&files);
}

static ebb_status ensure(help_room *room, bool skip, image_set *out) {
    image_files files;
    ebb_status status = find(room, skip, &files);
    if (status == EBB_OK) {
        status = ebb__image_set_ensure(&files, &(image_choice){.classes = 0}, room->path[0], out);
    }
    ebb__image_files_free(&files);
    return status;
}

/* Image i of the set has the shade and label of photo number[i]. */
static void expect_set(const image_set *set, const int *number, int n) {
    uint8_t record[4 + 48];
    int32_t label = -1;
    assert_int_equal(set->facts.count, n);
    for (int i = 0; i < n; i++) {
        int k = number != NULL ? number[i] : i, want = 20 * k;
        assert_int_equal(ebb__image_set_read(set, (uint64_t)i, record, &label), EBB_OK);
        assert_int_equal(label, k < 5 ? 0 : k < 8 ? 1 : 2);
        for (int j = 4; j < 52; j++) {
            assert_in_range(record[j], want > 2 ? want - 2 : 0, want + 2);
        }
    }
}

static void sets_of_folders(void **state) {
    help_room *room = *state;
    image_set set;
    make_folders(room);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(ensure(room, false, &set), EBB_OK);
        assert_int_equal(set.made, again == 0);
        expect_set(&set, NULL, PHOTOS);
        assert_string_equal(ebb__image_set_name(&set, 1), "a b");
        ebb__image_set_close(&set);
    }
    /* The same size at another time, then another name. */
    const struct timespec times[2] = {{1, 0}, {1, 0}};
    assert_int_equal(utimensat(AT_FDCWD, in_room(room, photos[2]).text, times, 0), 0);
    assert_int_equal(ensure(room, false, &set), EBB_OK);
    assert_true(set.made);
    ebb__image_set_close(&set);
    assert_int_equal(rename(in_room(room, "c/1.png").text, in_room(room, "c/2.png").text), 0);
    assert_int_equal(ensure(room, false, &set), EBB_OK);
    assert_true(set.made);
    ebb__image_set_close(&set);
}

static void count_warnings(void *user, ebb_log_level level, const char *line) {
    *(int *)user += level == EBB_LOG_WARN && strstr(line, "b.png: cannot be decoded") != NULL &&
                    strstr(line, "left out") != NULL;
}

static void bad_images(void **state) {
    help_room *room = *state;
    const int good[] = {0, 1, 3, 4, 5, 6, 7, 8};
    image_set set;
    int warned = 0;
    make_folders(room);
    assert_int_equal(truncate(in_room(room, "B/b.png").text, 40), 0);
    help_expect(room->ctx, ensure(room, false, &set), EBB_DATA, "/B/b.png: cannot be decoded");
    ebb_ctx_on_log(room->ctx, count_warnings, &warned);
    assert_int_equal(ensure(room, true, &set), EBB_OK);
    assert_int_equal(warned, 1);
    expect_set(&set, good, 8);
    ebb__image_set_close(&set);
    help_expect(room->ctx, ensure(room, false, &set), EBB_DATA, "/B/b.png: cannot be decoded");
    ebb_ctx_on_log(room->ctx, NULL, NULL);
}

static void refuse(help_room *room, ebb_status want, const char *part) {
    image_files files;
    ebb_status status = find(room, false, &files);
    ebb__image_files_free(&files);
    help_expect(room->ctx, status, want, part);
}

static void refusals(void **state) {
    help_room *room = *state;
    image_files files;
    refuse(room, EBB_DATA, "holds no test images under the usual names");
    make_folder(room, "a");
    make_folder(room, ".hidden");
    refuse(room, EBB_DATA, "/a: holds no PNG or JPEG file");
    put_photo(room, "a/x.png", 1);
    help_write_text(in_room(room, "a/y.BMP").text, "BM");
    refuse(room, EBB_DATA, "/a/y.BMP: only PNG and JPEG files are read");
    (void)unlink(in_room(room, "a/y.BMP").text);
    make_folder(room, "\xff");
    refuse(room, EBB_DATA, "the name of its folder 2, by name, is not UTF-8 text");
    (void)rmdir(in_room(room, "\xff").text);
    const char *twice[] = {room->folder, room->folder};
    ebb_status status =
        ebb__image_files_find(room->ctx, twice, 2, &(image_request){.want = {4, 4, 3}}, &files);
    ebb__image_files_free(&files);
    help_expect(room->ctx, status, EBB_DATA, "is named alone");
    status =
        ebb__image_files_find(room->ctx, twice, 1, &(image_request){.want = {0, 0, 3}}, &files);
    ebb__image_files_free(&files);
    help_expect(room->ctx, status, EBB_USAGE, "need one to be brought to");
    assert_int_equal(symlink(".", in_room(room, "a/circle").text), 0);
    refuse(room, EBB_DATA, "deep, or in a circle");
}

static void changed_while_read(void **state) {
    help_room *room = *state;
    image_files files;
    image_facts facts;
    make_folders(room);
    assert_int_equal(find(room, true, &files), EBB_OK);
    assert_int_equal(truncate(in_room(room, photos[6]).text, 50), 0);
    help_expect(room->ctx, ebb__image_set_measure(&files, &(image_choice){.classes = 0}, &facts),
                EBB_DATA, "10.png: changed while it was read");
    (void)unlink(in_room(room, photos[6]).text);
    help_expect(room->ctx, ebb__image_set_measure(&files, &(image_choice){.classes = 0}, &facts),
                EBB_DATA, "10.png: No such file");
    ebb__image_files_free(&files);
}

static ebb_status ensure_job(help_room *room) {
    image_set set;
    (void)unlink(room->path[0]);
    ebb_status status = ensure(room, false, &set);
    if (status == EBB_OK) {
        ebb__image_set_close(&set);
    }
    return status;
}

static void failures_leave_nothing(void **state) {
    help_room *room = *state;
    make_folders(room);
    help_fail_each(room, ensure_job);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, help_setup, folder_teardown)
    const struct CMUnitTest tests[] = {
        TEST(listed_in_order),
        TEST(numbered_by_name),
        TEST(sets_of_folders),
        TEST(bad_images),
        TEST(refusals),
        TEST(changed_while_read),
        TEST(failures_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
