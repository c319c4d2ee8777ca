/* npy.c - NumPy files of images and labels. The first byte says how long the labels are, in pieces
 * of 4 bytes; then their bytes, then those of images. */
#include "fuzz/images.h"

void fuzz_npy(fuzz_room *room, fuzz_input input) {
    size_t labels = (size_t)fuzz_byte(&input) * 4;
    labels = labels < input.left ? labels : input.left;
    fuzz_write(fuzz_file(room, "train-labels.npy"), input.at, labels);
    fuzz_write(fuzz_file(room, "train-images.npy"), input.at + labels, input.left - labels);
    fuzz_read_images(room);
}
