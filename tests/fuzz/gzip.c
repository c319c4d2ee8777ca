/* gzip.c - a packed text. The first byte chooses: the bytes as they are behind the first two of
 * gzip, or packed here, whole or with one byte changed. What was packed whole comes back. */
#include "data/source.h"
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { RAW = 0, WHOLE = 1, CHANGED = 2, FORMS = 3 };

/* A gzip member of the input; the caller frees it. */
static uint8_t *pack(fuzz_input input, size_t *bytes) {
    z_stream z = {.next_in = (Bytef *)(uintptr_t)input.at, .avail_in = (uInt)input.left};
    size_t room = input.left + input.left / 100 + 64;
    uint8_t *packed = malloc(room);
    fuzz_require(packed != NULL && deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, 0) == Z_OK,
                 "no packer");
    z.next_out = packed;
    z.avail_out = (uInt)room;
    fuzz_require(deflate(&z, Z_FINISH) == Z_STREAM_END, "not packed");
    *bytes = room - z.avail_out;
    (void)deflateEnd(&z);
    return packed;
}

/* Reads all of it, in parts; what comes must be `want` where that is given. */
static void read_all(fuzz_room *room, const char *path, const fuzz_input *want) {
    data_source source;
    uint8_t part[1000];
    size_t got = 1, total = 0;
    if (!fuzz_fine(room, ebb__source_open(room->ctx, path, "fuzz", NULL, &source))) {
        fuzz_require(want == NULL || want->left == 0, "a good file was refused");
        return;
    }
    while (got > 0 && total < (1U << 24)) {
        if (!fuzz_fine(room, ebb__source_read(&source, part, sizeof part, &got))) {
            fuzz_require(want == NULL || want->left == 0, "a good file was not read");
            break;
        }
        fuzz_require(want == NULL ||
                         (total + got <= want->left && memcmp(want->at + total, part, got) == 0),
                     "other bytes came back");
        total += got;
    }
    fuzz_require(want == NULL || total == want->left, "bytes are missing");
    ebb__source_close(&source);
}

void fuzz_gzip(fuzz_room *room, fuzz_input input) {
    uint8_t form = (uint8_t)(fuzz_byte(&input) % FORMS);
    uint32_t place = form == CHANGED ? fuzz_word(&input) : 0;
    uint8_t flip = form == CHANGED ? fuzz_byte(&input) : 0;
    fuzz_path path = fuzz_file(room, "text.gz");
    uint8_t *packed = NULL;
    size_t bytes = input.left + 2;
    if (form == RAW) {
        packed = malloc(bytes);
        fuzz_require(packed != NULL, "no memory");
        memcpy(packed, "\x1f\x8b", 2);
        memcpy(packed + 2, input.left > 0 ? input.at : (const uint8_t *)"", input.left);
    } else {
        packed = pack(input, &bytes);
        packed[place % bytes] ^= flip;
    }
    fuzz_write(path, packed, bytes);
    free(packed);
    read_all(room, path.text, form == WHOLE ? &input : NULL);
}
