/* test_image_set.c - image sets: records, names, sums and hashes of the images of some files; reuse
 * only of what is sound and made of these very images; every flipped bit, every cut and what lies
 * under right hashes found; how images are split into those to train and those to validate on. */
#include "image_help.h"

#include "data/image_set.h"

#include <math.h>
#include <sys/stat.h>
#include <xxhash.h>

static const image_choice all_images = {.classes = 0};

static void find(const help_room *room, image_files *out) {
    assert_int_equal(find_in(room, IMAGE_TRAIN, out), EBB_OK);
}

static ebb_status ensure(help_room *room, const image_choice *choice, image_set *out) {
    image_files files;
    find(room, &files);
    ebb_status status = ebb__image_set_ensure(&files, choice, room->path[0], out);
    ebb__image_files_free(&files);
    return status;
}

/* ---- what is in it ---- */

/* Every record is image number[i] of the files, of which there are n. */
static void expect_records(const image_set *set, const uint64_t *number, uint64_t n) {
    static uint8_t record[1 << 14];
    int32_t label = -1;
    assert_int_equal(set->facts.count, n);
    assert_true(set->record_bytes <= sizeof record);
    for (uint64_t i = n; i-- > 0;) { /* in any order */
        uint64_t k = number != NULL ? number[i] : i, calls = set->ctx->mem.calls;
        assert_int_equal(ebb__image_set_read(set, i, record, &label), EBB_OK);
        assert_int_equal(set->ctx->mem.calls, calls);
        assert_int_equal(label, label_of(k, set->facts.classes));
        for (size_t j = 0; j < set->record_bytes - IMAGE_LABEL; j++) {
            assert_int_equal(record[IMAGE_LABEL + j], pixel_of(k, j));
        }
    }
    help_expect(set->ctx, ebb__image_set_read(set, n, record, &label), EBB_INTERNAL, "image ");
}

/* Mean and deviation in two passes of long doubles. */
static void expect_sums(const image_set *set) {
    static uint8_t record[1 << 14];
    uint32_t channels = set->facts.size.channels;
    for (uint32_t c = 0; c < channels; c++) {
        long double mean = 0, squares = 0, n = 0;
        for (int pass = 0; pass < 2; pass++) {
            for (uint64_t i = 0; i < set->facts.count; i++) {
                int32_t label;
                assert_int_equal(ebb__image_set_read(set, i, record, &label), EBB_OK);
                for (size_t j = IMAGE_LABEL + c; j < set->record_bytes; j += channels) {
                    mean += pass == 0 ? record[j] : 0;
                    n += pass == 0;
                    squares += pass == 0 ? 0 : (record[j] - mean) * (record[j] - mean);
                }
            }
            mean /= pass == 0 ? n : 1;
        }
        assert_true(fabsl((long double)ebb__image_mean(&set->facts, c) - mean) <
                    1e-12L * (1 + mean));
        long double deviation = sqrtl(squares / n);
        assert_true(fabsl((long double)ebb__image_deviation(&set->facts, c) - deviation) <
                    1e-12L * (1 + deviation));
    }
}

static void expect_same_facts(const image_facts *a, const image_facts *b) {
    assert_true(a->hash == b->hash && a->count == b->count && a->classes == b->classes);
    assert_memory_equal(&a->size, &b->size, sizeof a->size);
    assert_memory_equal(a->sums, b->sums, sizeof a->sums);
    assert_memory_equal(a->squares, b->squares, sizeof a->squares);
}

/* The three ways to a set, and its facts without one. */
static void expect_set(help_room *room, uint64_t n, uint32_t classes) {
    image_set set, other;
    image_files files;
    image_facts facts;
    assert_int_equal(ensure(room, &all_images, &set), EBB_OK);
    assert_int_equal(set.facts.classes, classes);
    expect_records(&set, NULL, n);
    expect_sums(&set);
    assert_int_equal(ebb__image_set_open(room->ctx, room->path[0], &other), EBB_OK);
    expect_same_facts(&set.facts, &other.facts);
    expect_records(&other, NULL, n);
    ebb__image_set_close(&other);
    find(room, &files);
    assert_int_equal(ebb__image_set_measure(&files, &all_images, &facts), EBB_OK);
    expect_same_facts(&set.facts, &facts);
    assert_int_equal(ebb__image_set_unnamed(&files, &all_images, room->path[1], &other), EBB_OK);
    assert_false(ebb__file_exists(room->path[1]));
    expect_same_facts(&set.facts, &other.facts);
    expect_records(&other, NULL, n);
    assert_int_equal(other.file_bytes, set.file_bytes);
    ebb__image_set_close(&other);
    ebb__image_files_free(&files);
    ebb__image_set_close(&set);
}

static void images_and_sums(void **state) {
    help_room *room = *state;
    static made_file file;
    put_idx(room, 1, 1, 1, 1);
    expect_set(room, 1, 1);
    put_idx(room, 50, 3, 5, 7);
    expect_set(room, 50, 7);
    put_idx(room, 4500, 9, 7, 9); /* several chunks */
    expect_set(room, 4500, 9);
    remove_files(room);
    make_cifar(&file, 0, 200, 1);
    put_file(room, "data_batch_1.bin", file.bytes, file.size);
    expect_set(room, 200, 10);
}

/* Four images of one pixel: 1 2 4 9, labels 0 1 1 0. */
static void known_bytes(void **state) {
    help_room *room = *state;
    const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 4, 9};
    const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 4, 0, 1, 1, 0};
    const uint8_t records[] = {0, 0, 0, 0, 1, 1, 0, 0, 0, 2, 1, 0, 0, 0, 4, 0, 0, 0, 0, 9};
    uint8_t bytes[512];
    image_set set;
    put_file(room, "train-images-idx3-ubyte", images, sizeof images);
    put_file(room, "train-labels-idx1-ubyte", labels, sizeof labels);
    assert_int_equal(ensure(room, &all_images, &set), EBB_OK);
    assert_true(set.facts.sums[0] == 16 && set.facts.squares[0] == 102);
    assert_true(ebb__image_mean(&set.facts, 0) == 4.0);
    assert_true(ebb__image_deviation(&set.facts, 0) == sqrt(9.5));
    assert_null(ebb__image_set_name(&set, 0));
    ebb__image_set_close(&set);
    assert_int_equal(help_read(room->path[0], bytes, sizeof bytes), sizeof records + 23 * 8);
    assert_memory_equal(bytes, records, sizeof records);
    assert_memory_equal(bytes + sizeof records, "EBBIMAGE\1\0\0\0\0\0\0\0\4", 17);
}

static void equal_pixels_deviate_by_nothing(void **state) {
    (void)state;
    image_facts facts = {.size = {1000, 1000, 1}, .count = 1000000007};
    uint64_t n = facts.count * 1000000;
    facts.size.channels = 2;
    facts.sums[0] = n * 251;
    facts.squares[0] = n * 251 * 251;
    facts.sums[1] = n * 10 + n / 4; /* a quarter of them 11 */
    facts.squares[1] = n * 100 + n / 4 * 21;
    assert_true(ebb__image_deviation(&facts, 0) == 0.0);
    assert_true(fabs(ebb__image_deviation(&facts, 1) - sqrt(3.0) / 4) < 1e-9);
}

static void names_are_kept(void **state) {
    help_room *room = *state;
    static made_file file;
    const char text[] = "plane\ncar\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\n\xc3\xbc\n";
    image_choice more = {.classes = 12};
    image_set set;
    make_cifar(&file, 0, 3, 1);
    put_file(room, "data_batch_1.bin", file.bytes, file.size);
    put_file(room, "batches.meta.txt", text, sizeof text - 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ensure(room, i < 2 ? &all_images : &more, &set), EBB_OK);
        assert_true(set.made == (i != 1));
        assert_int_equal(set.facts.classes, i < 2 ? 10 : 12);
        assert_string_equal(ebb__image_set_name(&set, 0), "plane");
        assert_string_equal(ebb__image_set_name(&set, 9), "\xc3\xbc");
        assert_null(ebb__image_set_name(&set, 10));
        assert_null(ebb__image_set_name(&set, -1));
        ebb__image_set_close(&set);
    }
    (void)unlink(in_room(room, "batches.meta.txt").text);
    assert_int_equal(ensure(room, &all_images, &set), EBB_OK);
    assert_true(set.made && ebb__image_set_name(&set, 0) == NULL);
    ebb__image_set_close(&set);
}

/* ---- reuse ---- */

static bool made_anew(help_room *room, const image_choice *choice) {
    image_set set;
    assert_int_equal(ensure(room, choice, &set), EBB_OK);
    bool made = set.made;
    ebb__image_set_close(&set);
    return made;
}

static void reused_only_if_the_same(void **state) {
    help_room *room = *state;
    image_choice choice = {.classes = 0};
    put_idx(room, 40, 2, 3, 4);
    assert_true(made_anew(room, &choice));
    assert_false(made_anew(room, &choice));
    put_idx(room, 40, 2, 3, 4); /* new files of the same bytes */
    assert_false(made_anew(room, &choice));
    choice.seed = 5; /* of no split */
    assert_false(made_anew(room, &choice));
    put_idx(room, 40, 3, 2, 4); /* the same pixels */
    assert_true(made_anew(room, &choice));
    put_idx(room, 40, 3, 2, 3); /* other labels */
    assert_true(made_anew(room, &choice));
    choice.classes = 4;
    assert_true(made_anew(room, &choice));
    choice.side = IMAGE_KEPT;
    choice.share = IMAGE_WHOLE / 4;
    assert_true(made_anew(room, &choice));
    assert_false(made_anew(room, &choice));
    choice.seed = 6;
    assert_true(made_anew(room, &choice));
    choice.share++;
    assert_true(made_anew(room, &choice));
    choice.side = IMAGE_HELD;
    assert_true(made_anew(room, &choice));
    assert_false(made_anew(room, &choice));
}

/* ---- damage ---- */

enum { TRAILER = 23 * 8, FIELD_NAMES = 11, FIELD_NAMES_HASH = 12, FIELD_RECORDS = 21 };

typedef struct set_file {
    uint8_t bytes[1024];
    size_t size, records; /* bytes of the records */
} set_file;

/* Three images of 1 x 2 with 2 classes; with names if it is told to be CIFAR's. */
static set_file make_good(help_room *room) {
    set_file good = {.records = 3 * (IMAGE_LABEL + 2)};
    image_set set;
    put_idx(room, 3, 1, 2, 2);
    assert_int_equal(ensure(room, &all_images, &set), EBB_OK);
    ebb__image_set_close(&set);
    good.size = help_read(room->path[0], good.bytes, sizeof good.bytes);
    assert_int_equal(good.size, good.records + TRAILER);
    return good;
}

static void expect_refused(help_room *room, const set_file *bad, const char *why) {
    image_set set;
    (void)unlink(room->path[0]);
    help_write(room->path[0], bad->bytes, bad->size);
    help_expect(room->ctx, ebb__image_set_open(room->ctx, room->path[0], &set), EBB_DATA, why);
}

/* What was just refused is made again where the images are there. */
static void expect_made_again(help_room *room, const set_file *good) {
    uint8_t found[1024];
    image_set set;
    assert_int_equal(ensure(room, &all_images, &set), EBB_OK);
    assert_true(set.made);
    ebb__image_set_close(&set);
    assert_int_equal(help_read(room->path[0], found, sizeof found), good->size);
    assert_memory_equal(found, good->bytes, good->size);
}

static void damage_is_found(void **state) {
    help_room *room = *state;
    set_file good = make_good(room);
    for (size_t bit = 0; bit < 8 * good.size; bit++) {
        set_file bad = good;
        bad.bytes[bit / 8] = (uint8_t)(bad.bytes[bit / 8] ^ 1U << bit % 8);
        expect_refused(room, &bad, room->path[0]);
        if (bit % 37 == 0) { /* it takes a while: files are synced */
            expect_made_again(room, &good);
        }
    }
    for (size_t size = 0; size < good.size; size++) {
        set_file bad = good;
        bad.size = size;
        expect_refused(room, &bad, room->path[0]);
    }
    expect_made_again(room, &good);
    set_file longer = good;
    longer.size++;
    expect_refused(room, &longer, "is not an image set; make it again");
}

static void put_field(set_file *file, int which, uint64_t value) {
    uint64_t field = htole64(value);
    memcpy(file->bytes + file->size - TRAILER + 8 * which, &field, sizeof field);
}

/* As somebody would who wants to deceive: all hashes are right. */
static void put_hashes_right(set_file *file, size_t names) {
    uint8_t *trailer = file->bytes + file->size - TRAILER;
    put_field(file, FIELD_RECORDS, XXH3_64bits(file->bytes, file->records));
    put_field(file, FIELD_NAMES_HASH, XXH3_64bits(file->bytes + file->records, names));
    put_field(file, 22, XXH3_64bits(trailer, TRAILER - 8));
}

static void lies_under_right_hashes(void **state) {
    help_room *room = *state;
    set_file good = make_good(room), bad = good;
    const struct {
        int field;
        uint64_t value;
        const char *why;
    } lies[] = {
        {0, 0, "is not an image set"},
        {1, 2, "has another version"},
        {2, 0, "has not the size it tells"},
        {2, 2, "has not the size it tells"},
        {2, UINT64_MAX / 6 + 1, "has not the size it tells"},
        {3, 0, "has not the size it tells"},
        {3, 2, "has not the size it tells"},
        {3, (1ULL << 32) + 1, "has not the size it tells"},
        {4, 20001, "has not the size it tells"},
        {4, UINT64_MAX, "has not the size it tells"},
        {5, 5, "has not the size it tells"},
        {5, 0, "has not the size it tells"},
        {6, 0, "has not the size it tells"},
        {6, 65537, "has not the size it tells"},
        {6, 1, "is damaged"}, /* a label is not below */
        {FIELD_NAMES, 1, "has not the size it tells"},
        {FIELD_NAMES, UINT64_MAX, "has not the size it tells"},
        {13, 1, "is damaged"}, /* sums */
        {14, 1, "is damaged"},
        {17, 1, "is damaged"},
        {20, 1, "is damaged"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        bad = good;
        put_field(&bad, lies[i].field, lies[i].value);
        put_hashes_right(&bad, 0);
        expect_refused(room, &bad, lies[i].why);
        expect_made_again(room, &good);
    }
    bad = good;
    memcpy(bad.bytes + 6, "\2\0\0\0", 4); /* the second label */
    put_hashes_right(&bad, 0);
    expect_refused(room, &bad, "is damaged");
    memcpy(bad.bytes + 6, "\0\0\0\x80", 4);
    put_hashes_right(&bad, 0);
    expect_refused(room, &bad, "is damaged");
}

static void names_that_lie(void **state) {
    help_room *room = *state;
    set_file good = make_good(room);
    const struct {
        const char *names;
        size_t bytes;
        bool fine;
    } cases[] = {
        {"a\0b", 4, true},     {"a", 2, true},     {"a\0b", 3, false},
        {"a\0b\0c", 6, false}, {"a\0", 3, false},  {"\0", 1, false},
        {"a\nb", 4, false},    {"\x7f", 2, false}, {"\xff\0b", 4, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        set_file bad = good;
        image_set set;
        memcpy(bad.bytes + bad.records, cases[i].names, cases[i].bytes);
        memcpy(bad.bytes + bad.records + cases[i].bytes, good.bytes + good.records, TRAILER);
        bad.size += cases[i].bytes;
        put_field(&bad, FIELD_NAMES, cases[i].bytes);
        put_hashes_right(&bad, cases[i].bytes);
        if (!cases[i].fine) {
            expect_refused(room, &bad, "is damaged");
            continue;
        }
        help_write(room->path[0], bad.bytes, bad.size);
        assert_int_equal(ebb__image_set_open(room->ctx, room->path[0], &set), EBB_OK);
        assert_string_equal(ebb__image_set_name(&set, 0), "a");
        ebb__image_set_close(&set);
    }
}

static void changed_while_in_use(void **state) {
    help_room *room = *state;
    set_file good = make_good(room);
    uint8_t record[6];
    int32_t label;
    image_set set;
    assert_int_equal(ebb__image_set_open(room->ctx, room->path[0], &set), EBB_OK);
    good.bytes[6] = 2;
    help_write(room->path[0], good.bytes, good.size); /* into the same file */
    assert_int_equal(ebb__image_set_read(&set, 0, record, &label), EBB_OK);
    help_expect(room->ctx, ebb__image_set_read(&set, 1, record, &label), EBB_DATA,
                "was changed by somebody while in use");
    assert_int_equal(truncate(room->path[0], 8), 0);
    help_expect(room->ctx, ebb__image_set_read(&set, 1, record, &label), EBB_IO, "it ends at");
    ebb__image_set_close(&set);
}

/* ---- the split ---- */

enum { SPLIT_IMAGES = 3000, SPLIT_CLASSES = 7 };

/* Which images of the files are on a side, by the definition; how many. */
static uint64_t expected_side(const image_choice *choice, uint64_t *number) {
    image_split split;
    ebb_ctx *ctx = NULL;
    uint64_t n = 0;
    assert_int_equal(ebb_ctx_new(&ctx), EBB_OK);
    assert_int_equal(ebb__image_split_init(ctx, choice->seed, choice->share, SPLIT_CLASSES, &split),
                     EBB_OK);
    for (uint64_t i = 0; i < SPLIT_IMAGES; i++) {
        bool held = ebb__image_split_next(&split, label_of(i, SPLIT_CLASSES));
        if (held == (choice->side == IMAGE_HELD)) {
            number[n++] = i;
        }
    }
    ebb__image_split_free(&split);
    ebb_ctx_free(ctx);
    return n;
}

static void sides_are_the_whole(void **state) {
    help_room *room = *state;
    static uint64_t number[2][SPLIT_IMAGES];
    uint64_t n[2];
    put_idx(room, SPLIT_IMAGES, 2, 2, SPLIT_CLASSES);
    for (int held = 0; held < 2; held++) {
        image_choice choice = {0, held ? IMAGE_HELD : IMAGE_KEPT, 100000, 17};
        image_set set;
        n[held] = expected_side(&choice, number[held]);
        assert_int_equal(ensure(room, &choice, &set), EBB_OK);
        expect_records(&set, number[held], n[held]);
        expect_sums(&set);
        ebb__image_set_close(&set);
    }
    assert_int_equal(n[0] + n[1], SPLIT_IMAGES);
}

/* Every class keeps its share at any time, and which image is taken is drawn: of images far apart
 * about as many pairs are held as chance has it, and seeds differ. */
static void shares_and_draws(void **state) {
    help_room *room = *state;
    static bool held[2][200000];
    enum { N = 200000 };
    const uint32_t shares[] = {1, 1000, 100000, 333333, 500000, 900000, 999999};
    for (size_t s = 0; s < sizeof shares / sizeof shares[0]; s++) {
        uint64_t same = 0, total = 0;
        double share = shares[s] / 1e6;
        for (uint64_t seed = 0; seed < 2; seed++) {
            int64_t seen[3] = {0}, taken[3] = {0};
            image_split split;
            assert_int_equal(ebb__image_split_init(room->ctx, seed, shares[s], 3, &split), EBB_OK);
            for (int i = 0; i < N; i++) {
                int label = i % 10 == 0 ? 2 : i % 2; /* classes of three sizes */
                held[seed][i] = ebb__image_split_next(&split, label);
                seen[label]++;
                taken[label] += held[seed][i];
                double off = (double)taken[label] - share * (double)seen[label];
                assert_true(off > -1.001 && off < 5.001);
            }
            ebb__image_split_free(&split);
        }
        for (int i = 0; i < N; i++) {
            same += held[0][i] && held[1][i];
            total += held[0][i];
        }
        if (shares[s] >= 100000) {
            assert_true(fabs((double)same / (double)total - share) < 0.05);
        }
    }
}

static void refusals(void **state) {
    help_room *room = *state;
    image_choice choice = {.classes = 3};
    image_set set;
    put_idx(room, 12, 2, 2, 4);
    help_expect(room->ctx, ensure(room, &choice, &set), EBB_DATA,
                "has labels of 4 classes, but there are 3");
    choice = (image_choice){.classes = 65537};
    help_expect(room->ctx, ensure(room, &choice, &set), EBB_DATA, "but there are 65537");
    choice = (image_choice){.side = IMAGE_HELD, .share = 0};
    help_expect(room->ctx, ensure(room, &choice, &set), EBB_USAGE, "a share of 0 of the images");
    choice.share = IMAGE_WHOLE;
    help_expect(room->ctx, ensure(room, &choice, &set), EBB_USAGE, "a share of 1 of the images");
    choice.share = 1;
    help_expect(room->ctx, ensure(room, &choice, &set), EBB_DATA,
                "none of the 12 images is left to validate on");
    choice = (image_choice){.side = IMAGE_KEPT, .share = IMAGE_WHOLE - 1};
    help_expect(room->ctx, ensure(room, &choice, &set), EBB_DATA, "is left to train on");
    assert_false(ebb__file_exists(room->path[0]));
    help_expect(room->ctx, ebb__image_set_open(room->ctx, room->path[0], &set), EBB_DATA,
                "No such file");
}

static void label_found_while_making(void **state) {
    help_room *room = *state;
    static made_file file;
    image_set set;
    make_cifar(&file, 0, 3, 1);
    file.bytes[2 * 3073] = 10;
    put_file(room, "data_batch_1.bin", file.bytes, file.size);
    help_expect(room->ctx, ensure(room, &all_images, &set), EBB_DATA,
                "image 2, at byte 6146, has the label 10");
}

/* ---- failures ---- */

static ebb_status ensure_job(help_room *room) {
    image_choice choice = {.side = IMAGE_KEPT, .share = IMAGE_WHOLE / 4};
    image_files files;
    image_set set;
    (void)unlink(room->path[0]);
    ebb_status status = find_in(room, IMAGE_TRAIN, &files);
    if (status == EBB_OK) {
        status = ebb__image_set_ensure(&files, &choice, room->path[0], &set);
    }
    if (status == EBB_OK) {
        ebb__image_set_close(&set);
    }
    ebb__image_files_free(&files);
    return status;
}

static ebb_status unnamed_job(help_room *room) {
    image_files files;
    image_set set;
    ebb_status status = find_in(room, IMAGE_TRAIN, &files);
    if (status == EBB_OK) {
        status = ebb__image_set_unnamed(&files, &all_images, room->path[1], &set);
    }
    if (status == EBB_OK) {
        ebb__image_set_close(&set);
    }
    ebb__image_files_free(&files);
    return status;
}

static void failures_leave_nothing(void **state) {
    help_room *room = *state;
    static made_file file;
    const char names[] = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";
    make_cifar(&file, 0, 9, 1);
    put_file(room, "data_batch_1.bin", file.bytes, file.size);
    put_file(room, "batches.meta.txt", names, sizeof names - 1);
    help_fail_each(room, ensure_job);
    help_fail_each(room, unnamed_job);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, help_setup, image_teardown)
    const struct CMUnitTest tests[] = {
        TEST(images_and_sums),
        TEST(known_bytes),
        TEST(equal_pixels_deviate_by_nothing),
        TEST(names_are_kept),
        TEST(reused_only_if_the_same),
        TEST(damage_is_found),
        TEST(lies_under_right_hashes),
        TEST(names_that_lie),
        TEST(changed_while_in_use),
        TEST(sides_are_the_whole),
        TEST(shares_and_draws),
        TEST(refusals),
        TEST(label_found_while_making),
        TEST(failures_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
