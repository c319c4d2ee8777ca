/* sink.h - base/file's replacing writer behind a buffer of 64 KiB, for files made of small pieces.
 */
#ifndef DATA_SINK_H
#define DATA_SINK_H

#include "base/file.h"

typedef struct data_sink {
    ebb_ctx *ctx;
    file_writer file;
    char *buffer;
    size_t used;
} data_sink;

/* On failure nothing is held, and ebb__sink_close is harmless. */
ebb_status ebb__sink_open(ebb_ctx *ctx, const char *path, data_sink *out) EBB_MUST_CHECK;
ebb_status ebb__sink_put(data_sink *sink, const void *data, size_t bytes) EBB_MUST_CHECK;
ebb_status ebb__sink_commit(data_sink *sink) EBB_MUST_CHECK;
/* Removes what was not committed. */
void ebb__sink_close(data_sink *sink);

#endif
