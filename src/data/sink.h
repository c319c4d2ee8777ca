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
    const char *stream; /* the name of an open stream in place of the file; NULL: the file */
} data_sink;

/* On failure nothing is held, and ebb__sink_close is harmless. */
ebb_status ebb__sink_open(ebb_ctx *ctx, const char *path, data_sink *out) EBB_MUST_CHECK;
/* Into a file that has no name: see ebb__file_create_unnamed. */
ebb_status ebb__sink_open_unnamed(ebb_ctx *ctx, const char *path, data_sink *out) EBB_MUST_CHECK;
/* The same, or into standard output if the path is "-": what was flushed is there, whatever comes.
 */
ebb_status ebb__sink_open_any(ebb_ctx *ctx, const char *path, data_sink *out) EBB_MUST_CHECK;
ebb_status ebb__sink_put(data_sink *sink, const void *data, size_t bytes) EBB_MUST_CHECK;
ebb_status ebb__sink_flush(data_sink *sink) EBB_MUST_CHECK;
ebb_status ebb__sink_commit(data_sink *sink) EBB_MUST_CHECK;
/* All that was put is in the file, whose descriptor is the caller's from here on: of one without a
 * name, instead of a commit. */
ebb_status ebb__sink_take(data_sink *sink, int *fd) EBB_MUST_CHECK;
/* Removes what was not committed. */
void ebb__sink_close(data_sink *sink);

#endif
