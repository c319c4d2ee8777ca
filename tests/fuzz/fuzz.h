/* fuzz.h - what the fuzz targets share. A target is given bytes, hands them to one parser as the
 * file or text that it reads, and checks what must hold of any bytes: no crash (sanitizers see it),
 * no leak, bounded memory, a refusal with one sentence and a status that blames the input, and
 * that what is accepted comes back the same when it is written and read again.
 *
 * libFuzzer finds inputs (engine.c), and those that were worth keeping lie in corpus/<target>,
 * which every test run reads again (test_replay.c). */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include "base/ctx.h"

#include <jansson.h>

typedef struct fuzz_path {
    char text[256];
} fuzz_path;

/* A context and an empty folder, new for each input. */
typedef struct fuzz_room {
    ebb_ctx *ctx;
    char folder[128];
} fuzz_room;

typedef struct fuzz_input {
    const uint8_t *at;
    size_t left;
} fuzz_input;

typedef void (*fuzz_fn)(fuzz_room *room, fuzz_input input);
typedef struct fuzz_target {
    const char *name;
    fuzz_fn run;
} fuzz_target;

#define X(name) void fuzz_##name(fuzz_room *room, fuzz_input input);
#include "fuzz/targets.def"
#undef X

const fuzz_target *fuzz_find(const char *name); /* NULL: there is none */
const fuzz_target *fuzz_at(size_t index);       /* NULL: no more */
void fuzz_run(const fuzz_target *target, const uint8_t *data, size_t bytes);

/* ---- for targets ---- */

uint8_t fuzz_byte(fuzz_input *input); /* takes one; 0 where there is none left */
uint32_t fuzz_word(fuzz_input *input);
/* Takes what comes before the byte `end`, and that; all if it does not occur. */
fuzz_input fuzz_part(fuzz_input *input, uint8_t end);
char *fuzz_string(fuzz_input input); /* NUL-terminated copy; the caller frees it */

fuzz_path fuzz_file(const fuzz_room *room, const char *name);
void fuzz_write(fuzz_path path, const void *data, size_t bytes); /* folders are made */

/* Ends the process with a line, as a crash, unless `holds`. */
void fuzz_require(bool holds, const char *what);
/* Whether it went well; a failure must have a sentence and not be ours. The sentence is taken back,
 * so that the next call starts clean. */
bool fuzz_fine(fuzz_room *room, ebb_status status);

/* Hash of a JSON value in the form that ebb's own files use, 16 hexadecimal digits. */
typedef struct fuzz_sum {
    char digits[17];
} fuzz_sum;
fuzz_sum fuzz_json_sum(const json_t *value);
void fuzz_write_json(fuzz_path path, const json_t *value);

#endif
