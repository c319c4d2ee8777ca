/* image_set.c - an image set that was changed: the one that ebb makes of a few images, of which the
 * input replaces bytes of records and names and fields of the trailer, and the length; the first
 * byte says which hashes are put right afterwards. What is believed by itself is read whole, and
 * where the images are there, a set that is not theirs is made again. */
#include "data/image_set.h"

#include "base/file.h"
#include "fuzz/fuzz.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { RIGHT_RECORDS = 1, RIGHT_NAMES = 2, RIGHT_TRAILER = 4, CUT = 8, MAKE = 16, MOST = 64 };
enum { FIELD_NAMES_BYTES = 11, FIELD_NAMES_HASH = 12, FIELD_RECORDS_HASH = 21, FIELDS = 23 };
enum { IMAGES = 3, RECORD = 4 + 2, NAMES = 6 };

static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0,
                                 1, 0, 0, 0, 2, 5, 6, 7, 8, 9, 255}; /* 1 x 2 */
static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 1, 0, 2};

/* The set, with names, which IDX has none of. */
static void add_names(uint8_t *file, size_t *bytes) {
    uint64_t names = htole64(NAMES);
    uint8_t *trailer = file + IMAGES * RECORD;
    memmove(trailer + NAMES, trailer, FIELDS * 8);
    memcpy(trailer, "a\0b\0c", NAMES);
    memcpy(trailer + NAMES + 8 * FIELD_NAMES_BYTES, &names, sizeof names);
    *bytes += NAMES;
}

static void put_right(uint8_t *file, size_t bytes, uint8_t what) {
    uint64_t field[FIELDS];
    uint8_t *trailer = file + bytes - sizeof field;
    memcpy(field, trailer, sizeof field);
    size_t before = bytes - sizeof field, names = (size_t)le64toh(field[FIELD_NAMES_BYTES]);
    names = names <= before ? names : before;
    if ((what & RIGHT_RECORDS) != 0) {
        field[FIELD_RECORDS_HASH] = htole64(XXH3_64bits(file, before - names));
    }
    if ((what & RIGHT_NAMES) != 0) {
        field[FIELD_NAMES_HASH] = htole64(XXH3_64bits(file + before - names, names));
    }
    if ((what & RIGHT_TRAILER) != 0) {
        field[FIELDS - 1] = htole64(XXH3_64bits(field, sizeof field - sizeof field[0]));
    }
    memcpy(trailer, field, sizeof field);
}

static void change(fuzz_room *room, fuzz_path path, fuzz_input input) {
    uint8_t what = fuzz_byte(&input), *file = NULL;
    char *read = NULL;
    size_t bytes = 0;
    fuzz_require(ebb__file_read_all(room->ctx, path.text, 1 << 16, &read, &bytes) == EBB_OK,
                 "no set was made");
    file = malloc(bytes + NAMES);
    fuzz_require(file != NULL, "no memory");
    memcpy(file, read, bytes);
    ebb__free(room->ctx, read);
    add_names(file, &bytes);
    put_right(file, bytes, RIGHT_NAMES | RIGHT_TRAILER);
    for (int i = 0; i < MOST && input.left > 0; i++) {
        size_t at = fuzz_byte(&input) % (FIELDS + IMAGES * RECORD + NAMES);
        if (at < FIELDS) {
            uint64_t value = htole64((uint64_t)fuzz_byte(&input) << 60 | fuzz_word(&input));
            memcpy(file + bytes - FIELDS * 8 + 8 * at, &value, sizeof value);
        } else {
            file[at - FIELDS] = fuzz_byte(&input);
        }
    }
    put_right(file, bytes, what);
    fuzz_write(path, file, (what & CUT) != 0 ? bytes - what % bytes : bytes);
    free(file);
}

static void read_all(fuzz_room *room, image_set *set) {
    uint8_t *record = malloc(set->record_bytes);
    int32_t label = -1;
    fuzz_require(record != NULL, "no memory");
    for (uint64_t i = 0; i < set->facts.count; i++) {
        fuzz_require(fuzz_fine(room, ebb__image_set_read(set, i, record, &label)), "not read");
        fuzz_require(label >= 0 && (uint32_t)label < set->facts.classes, "a label that is none");
        const char *name = ebb__image_set_name(set, label);
        fuzz_require(name == NULL || strlen(name) > 0, "a name that is none");
    }
    for (uint32_t c = 0; c < set->facts.size.channels; c++) {
        double mean = ebb__image_mean(&set->facts, c);
        double deviation = ebb__image_deviation(&set->facts, c);
        fuzz_require(mean >= 0 && mean <= 255, "no mean");
        fuzz_require(deviation >= 0 && deviation <= 128, "no deviation");
    }
    free(record);
}

void fuzz_image_set(fuzz_room *room, fuzz_input input) {
    const char *folder = room->folder;
    const image_choice all = {.classes = 0};
    bool again = input.left > 0 && (input.at[0] & MAKE) != 0;
    fuzz_path path = fuzz_file(room, "set");
    image_files files;
    image_set set;
    fuzz_write(fuzz_file(room, "train-images-idx3-ubyte"), images, sizeof images);
    fuzz_write(fuzz_file(room, "train-labels-idx1-ubyte"), labels, sizeof labels);
    fuzz_require(ebb__image_files_find(room->ctx, &folder, 1, &(image_request){.part = IMAGE_TRAIN},
                                       &files) == EBB_OK,
                 "no files");
    fuzz_require(ebb__image_set_ensure(&files, &all, path.text, &set) == EBB_OK, "no set");
    uint64_t hash = set.facts.hash;
    ebb__image_set_close(&set);
    change(room, path, input);
    if (fuzz_fine(room, ebb__image_set_open(room->ctx, path.text, &set))) {
        read_all(room, &set);
        ebb__image_set_close(&set);
    }
    if (again) {
        fuzz_require(ebb__image_set_ensure(&files, &all, path.text, &set) == EBB_OK,
                     "a wrong set was not made again");
        fuzz_require(set.facts.hash == hash && set.names == NULL, "another set");
        read_all(room, &set);
        ebb__image_set_close(&set);
    }
    ebb__image_files_free(&files);
}
