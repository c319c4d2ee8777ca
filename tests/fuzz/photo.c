/* photo.c - a PNG or JPEG file: the bytes as they are, behind the first bytes of either, or what
 * comes after a PNG signature with the checksums of its chunks put right. The first byte chooses,
 * the next two say which size is wanted. */
#include "data/image_decode.h"
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { RAW, PNG, PNG_RIGHT, JPEG, FORMS };

static uint32_t word_at(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Of every chunk that is whole: length, type, data, checksum of the last two. */
static void put_sums_right(uint8_t *bytes, size_t n) {
    size_t at = 8;
    while (n - at >= 12 && word_at(bytes + at) <= n - at - 12) {
        size_t length = word_at(bytes + at);
        uint32_t sum = (uint32_t)crc32(0, bytes + at + 4, (uInt)length + 4);
        for (int i = 0; i < 4; i++) {
            bytes[at + 8 + length + (size_t)i] = (uint8_t)(sum >> (24 - 8 * i));
        }
        at += 12 + length;
    }
}

void fuzz_photo(fuzz_room *room, fuzz_input input) {
    static const struct {
        const char *bytes;
        size_t n;
    } heads[FORMS] = {{"", 0}, {"\x89PNG\r\n\x1a\n", 8}, {"\x89PNG\r\n\x1a\n", 8}, {"\xff\xd8", 2}};
    uint8_t form = fuzz_byte(&input) % FORMS;
    const image_size want = {fuzz_byte(&input) % 40U, fuzz_byte(&input) % 40U, form % 2U * 2 + 1};
    size_t bytes = heads[form].n + input.left;
    uint8_t *file = malloc(bytes + 1), *pixels = calloc(image_bytes(&want) + 1, 1);
    fuzz_path path = fuzz_file(room, "photo");
    image_decoder decoder;
    fuzz_require(file != NULL && pixels != NULL, "no memory");
    memcpy(file, heads[form].bytes, heads[form].n);
    if (input.left > 0) {
        memcpy(file + heads[form].n, input.at, input.left);
    }
    if (form == PNG_RIGHT) {
        put_sums_right(file, bytes);
    }
    fuzz_write(path, file, bytes);
    pixels[image_bytes(&want)] = 77;
    if (fuzz_fine(room, ebb__image_decoder_init(room->ctx, &want, &decoder))) {
        (void)fuzz_fine(room, ebb__image_decode(&decoder, path.text, pixels));
    }
    fuzz_require(pixels[image_bytes(&want)] == 77, "more than the image was written");
    ebb__image_decoder_free(&decoder);
    free(pixels);
    free(file);
}
