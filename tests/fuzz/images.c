/* images.c - see images.h. */
#include "fuzz/images.h"

#include "data/image_batches.h"
#include "data/image_reader.h"

#include <stdlib.h>

static void read_set(fuzz_room *room, const image_files *files, uint64_t hash, uint64_t count) {
    const image_choice all = {.classes = 0};
    image_set set, again;
    image_batches batches;
    fuzz_path path = fuzz_file(room, "set");
    fuzz_require(fuzz_fine(room, ebb__image_set_ensure(files, &all, path.text, &set)), "no set");
    fuzz_require(set.made && set.facts.hash == hash && set.facts.count == count, "another set");
    fuzz_require(fuzz_fine(room, ebb__image_set_open(room->ctx, path.text, &again)), "not opened");
    fuzz_require(again.facts.hash == hash, "other images");
    uint8_t *staging = malloc(set.record_bytes), *pixels = malloc(set.record_bytes);
    fuzz_require(staging != NULL && pixels != NULL, "no memory");
    const image_batch_options how = {
        .images = 1, .train = true, .augment = {.flip = true, .crop = 0.3}};
    fuzz_require(ebb__image_batches_init(&again, &how, staging, &batches) == EBB_OK, "no batches");
    for (uint64_t i = 0; i < count && i < 100; i++) {
        int32_t label = -1;
        fuzz_require(ebb__image_batches_fill(&batches, i, 0, 1, pixels, &label, NULL) == EBB_OK,
                     "no batch");
        fuzz_require(label >= 0 && (uint32_t)label < files->classes, "a label that is none");
    }
    free(pixels);
    free(staging);
    ebb__image_set_close(&again);
    ebb__image_set_close(&set);
}

/* Whether all images can be read. */
static bool read_files(fuzz_room *room, const image_files *files) {
    image_reader reader;
    size_t n = 1, most = 3;
    uint64_t total = 0;
    uint8_t *pixels = malloc(most * image_bytes(&files->size));
    int32_t labels[3];
    fuzz_require(pixels != NULL, "no memory");
    bool fine = fuzz_fine(room, ebb__image_reader_open(files, "fuzz", &reader));
    while (fine && n > 0) {
        fine = fuzz_fine(room, ebb__image_reader_next(&reader, most, pixels, labels, &n));
        for (size_t i = 0; fine && i < n; i++) {
            fuzz_require(labels[i] >= 0 && (uint32_t)labels[i] < files->classes, "no such class");
        }
        total += n;
    }
    fuzz_require(!fine || total == files->count, "other than the number that was told");
    ebb__image_reader_close(&reader);
    free(pixels);
    return fine;
}

void fuzz_read_images(fuzz_room *room) {
    const char *folder = room->folder;
    const image_choice all = {.classes = 0};
    image_files files;
    image_facts facts;
    if (fuzz_fine(room, ebb__image_files_find(room->ctx, &folder, 1,
                                              &(image_request){.part = IMAGE_TRAIN}, &files))) {
        bool fine = read_files(room, &files);
        bool measured = fuzz_fine(room, ebb__image_set_measure(&files, &all, &facts));
        fuzz_require(fine == measured, "read by one, refused by the other");
        if (fine) {
            read_set(room, &files, facts.hash, facts.count);
        }
    }
    ebb__image_files_free(&files);
}
