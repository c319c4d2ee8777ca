/* idx.c - IDX files of images and labels. The first byte chooses: the headers that the input has,
 * or right ones for a small size that is drawn from it; which of the two is packed. Then bytes of
 * labels up to a length, bytes of images. */
#include "fuzz/images.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { OWN_HEADERS = 1, PACK_IMAGES = 2, PACK_LABELS = 4 };
enum { MOST = 1 << 20 };

static void write_file(fuzz_room *room, const char *name, bool packed, const uint8_t *bytes,
                       size_t n) {
    fuzz_path path = fuzz_file(room, name);
    if (!packed) {
        fuzz_write(path, bytes, n);
        return;
    }
    gzFile file = gzopen(path.text, "wb1");
    fuzz_require(file != NULL && (n == 0 || gzwrite(file, bytes, (unsigned)n) == (int)n) &&
                     gzclose(file) == Z_OK,
                 "not packed");
}

/* A header of some words, then what is left of the input, at most `most` bytes of it. */
static uint8_t *join(const uint32_t *words, size_t n_words, fuzz_input *input, size_t most,
                     size_t *bytes) {
    size_t part = input->left < most ? input->left : most;
    uint8_t *file = malloc(4 * n_words + part + 1);
    fuzz_require(file != NULL, "no memory");
    for (size_t i = 0; i < n_words; i++) {
        uint32_t word = htobe32(words[i]);
        memcpy(file + 4 * i, &word, sizeof word);
    }
    if (part > 0) {
        memcpy(file + 4 * n_words, input->at, part);
    }
    input->at += part;
    input->left -= part;
    *bytes = 4 * n_words + part;
    return file;
}

void fuzz_idx(fuzz_room *room, fuzz_input input) {
    uint8_t what = fuzz_byte(&input);
    uint32_t n = fuzz_byte(&input), height = fuzz_byte(&input) % 8U, width = fuzz_byte(&input) % 8U;
    const uint32_t images_head[] = {0x803, n, height, width}, labels_head[] = {0x801, n};
    bool own = (what & OWN_HEADERS) != 0;
    size_t bytes = 0;
    uint8_t *file = join(labels_head, own ? 0 : 2, &input, n, &bytes);
    write_file(room, "train-labels-idx1-ubyte", (what & PACK_LABELS) != 0, file, bytes);
    free(file);
    file = join(images_head, own ? 0 : 4, &input, MOST, &bytes);
    write_file(room, "train-images-idx3-ubyte", (what & PACK_IMAGES) != 0, file, bytes);
    free(file);
    fuzz_read_images(room);
}
