/* cifar.c - files of CIFAR's binary form. The first byte chooses: the bytes as they are under one
 * of the usual names, or records with the labels that the input has, a byte each, and the pixels
 * that the second byte begins; what is left of the input after a byte ff are names of classes. */
#include "fuzz/images.h"

#include <stdlib.h>

enum { RAW = 1, HUNDRED = 2, TWO_FILES = 4, PIXELS = 3072, MOST = 8 };

/* Records of some labels, at most MOST. */
static void write_records(fuzz_path path, bool hundred, uint8_t first, fuzz_input labels) {
    size_t marks = hundred ? 2 : 1, each = marks + PIXELS;
    size_t n = labels.left < MOST ? labels.left : MOST;
    uint8_t *file = malloc(n * each + 1);
    fuzz_require(file != NULL, "no memory");
    for (size_t i = 0; i < n * each; i++) {
        file[i] = i % each < marks ? labels.at[i / each] : (uint8_t)(first + i);
    }
    fuzz_write(path, file, n * each);
    free(file);
}

void fuzz_cifar(fuzz_room *room, fuzz_input input) {
    uint8_t what = fuzz_byte(&input), first = fuzz_byte(&input);
    bool hundred = (what & HUNDRED) != 0;
    fuzz_path path = fuzz_file(room, hundred ? "train.bin" : "data_batch_1.bin");
    if ((what & RAW) != 0) {
        fuzz_write(path, input.at, input.left);
    } else {
        fuzz_input labels = fuzz_part(&input, 0xff);
        write_records(path, hundred, first, labels);
        if (!hundred && (what & TWO_FILES) != 0) {
            write_records(fuzz_file(room, "data_batch_2.bin"), first % 2 != 0, first, labels);
        }
        if (input.left > 0) {
            fuzz_write(fuzz_file(room, hundred ? "fine_label_names.txt" : "batches.meta.txt"),
                       input.at, input.left);
        }
    }
    fuzz_read_images(room);
}
