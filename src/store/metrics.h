/* metrics.h - metrics.jsonl: one JSON object a line, appended as training goes.
 *
 * A line is one write, so what a kill can leave is at most one torn last line, and open() cuts it.
 * write() allocates nothing. On resume the file is cut back to the checkpoint, so that it reads as
 * if the run had never been broken. */
#ifndef STORE_METRICS_H
#define STORE_METRICS_H

#include "base/ctx.h"

typedef struct metrics_field {
    const char *name; /* letters, digits and '_' */
    bool is_integer;
    int64_t integer;
    double real; /* not finite: null, and the line says "nonfinite":"nan" ("inf", "-inf") */
} metrics_field;

#define METRICS_INT(field, value)                                                                  \
    ((metrics_field){.name = field, .is_integer = true, .integer = (int64_t)(value)})
#define METRICS_REAL(field, value) ((metrics_field){.name = field, .real = (double)(value)})

typedef struct metrics_log {
    ebb_ctx *ctx;
    int fd;
    uint64_t bytes; /* length of the file: what a checkpoint stores */
    char path[1024];
} metrics_log;

/* Opens to append after the first keep_bytes, which a checkpoint at `step` recorded (0 of both for
 * a fresh run). Where these bytes are not there or do not end with a whole line of a step <=
 * `step`, every whole line of such a step is kept instead, with a warning. */
ebb_status ebb__metrics_open(ebb_ctx *ctx, const char *path, uint64_t keep_bytes, int64_t step,
                             metrics_log *out) EBB_MUST_CHECK;
/* Appends one line. EBB_USAGE if a name is not plain or the line would pass 4096 bytes. */
ebb_status ebb__metrics_write(metrics_log *log, const metrics_field *fields,
                              size_t n_fields) EBB_MUST_CHECK;
ebb_status ebb__metrics_sync(metrics_log *log) EBB_MUST_CHECK; /* before a checkpoint */
void ebb__metrics_close(metrics_log *log);                     /* safe after a failed open */

#endif
