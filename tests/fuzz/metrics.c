/* metrics.c - metrics.jsonl of a run that goes on: what is kept of it ends with a whole line, and
 * the next line can be written. The first bytes are what the checkpoint says of it. */
#include "fuzz/fuzz.h"
#include "store/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

static void check_kept(fuzz_room *room, fuzz_path path, fuzz_input input, uint64_t kept) {
    char *text = NULL;
    size_t bytes = 0;
    fuzz_require(ebb__file_read_all(room->ctx, path.text, 1U << 24, &text, &bytes) == EBB_OK,
                 "the file is gone");
    fuzz_require(bytes == kept, "the log does not know its length");
    fuzz_require(bytes == 0 || text[bytes - 1] == '\n', "a torn line was kept");
    fuzz_require(bytes <= input.left, "lines were made up");
    ebb__free(room->ctx, text);
}

void fuzz_metrics(fuzz_room *room, fuzz_input input) {
    uint64_t keep = fuzz_byte(&input);
    keep |= (uint64_t)fuzz_byte(&input) << 8;
    int64_t step = fuzz_byte(&input);
    fuzz_path path = fuzz_file(room, "metrics.jsonl");
    metrics_log log;
    fuzz_write(path, input.at, input.left);
    if (fuzz_fine(room, ebb__metrics_open(room->ctx, path.text, keep, step, &log))) {
        metrics_field fields[] = {METRICS_INT("step", step + 1), METRICS_REAL("loss", 1.5)};
        check_kept(room, path, input, log.bytes);
        fuzz_require(ebb__metrics_write(&log, fields, 2) == EBB_OK, "no line can be added");
        ebb__metrics_close(&log);
    }
}
