/* safetensors.c - a safetensors file: the bytes as they are, or a header up to the first zero byte
 * with its length put before it, then data. The first byte chooses. What is accepted can be read
 * whole, and tensors lie inside the file. */
#include "fuzz/fuzz.h"
#include "store/safetensors.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

static void write_file(fuzz_path path, fuzz_input input) {
    fuzz_input header = fuzz_part(&input, 0);
    uint64_t length = htole64(header.left);
    size_t bytes = sizeof length + header.left + input.left;
    char *file = malloc(bytes);
    fuzz_require(file != NULL, "no memory");
    memcpy(file, &length, sizeof length);
    if (header.left > 0) {
        memcpy(file + sizeof length, header.at, header.left);
    }
    if (input.left > 0) {
        memcpy(file + sizeof length + header.left, input.at, input.left);
    }
    fuzz_write(path, file, bytes);
    free(file);
}

static void read_tensor(const st_reader *reader, const st_tensor *tensor) {
    size_t bytes = (size_t)(tensor->end - tensor->begin);
    char *data = malloc(bytes + 1);
    fuzz_require(data != NULL, "no memory");
    fuzz_require(ebb__safetensors_find(reader, tensor->name) == tensor, "a tensor is not found");
    fuzz_require(ebb__safetensors_read(reader, tensor, data, bytes) == EBB_OK, "not read whole");
    (void)ebb__safetensors_show(tensor->name);
    free(data);
}

void fuzz_safetensors(fuzz_room *room, fuzz_input input) {
    bool raw = (fuzz_byte(&input) & 1) != 0;
    fuzz_path path = fuzz_file(room, "a.safetensors");
    st_reader reader;
    if (raw) {
        fuzz_write(path, input.at, input.left);
    } else {
        write_file(path, input);
    }
    if (fuzz_fine(room, ebb__safetensors_open(room->ctx, path.text, &reader))) {
        for (size_t i = 0; i < reader.n_tensors; i++) {
            read_tensor(&reader, &reader.tensors[i]);
        }
        for (size_t i = 0; i < reader.n_notes; i++) {
            fuzz_require(ebb__safetensors_note(&reader, reader.notes[i].key) != NULL,
                         "a note is not found");
        }
        ebb__safetensors_close(&reader);
    }
}
