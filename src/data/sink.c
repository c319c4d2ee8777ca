/* sink.c - gathers small pieces into writes of 64 KiB. A buffer exists exactly while the file
 * underneath is open, so close knows from it whether there is something to abandon. */
#include "data/sink.h"

#include "base/alloc.h"

#include <string.h>
#include <unistd.h>

enum { SINK_BYTES = 65536 };

static ebb_status open_sink(ebb_ctx *ctx, const char *path, bool named, data_sink *out) {
    *out = (data_sink){.ctx = ctx};
    TRY(ebb__alloc(ctx, SINK_BYTES, 1, &out->buffer));
    ebb_status status = named ? ebb__file_create(ctx, path, &out->file)
                              : ebb__file_create_unnamed(ctx, path, &out->file);
    if (status != EBB_OK) {
        ebb__free(ctx, out->buffer);
        out->buffer = NULL;
    }
    return status;
}

ebb_status ebb__sink_open(ebb_ctx *ctx, const char *path, data_sink *out) {
    return open_sink(ctx, path, true, out);
}

ebb_status ebb__sink_open_unnamed(ebb_ctx *ctx, const char *path, data_sink *out) {
    return open_sink(ctx, path, false, out);
}

ebb_status ebb__sink_open_any(ebb_ctx *ctx, const char *path, data_sink *out) {
    if (strcmp(path, "-") != 0) {
        return ebb__sink_open(ctx, path, out);
    }
    *out = (data_sink){
        .ctx = ctx, .file = {.ctx = ctx, .fd = STDOUT_FILENO}, .stream = "standard output"};
    return ebb__alloc(ctx, SINK_BYTES, 1, &out->buffer);
}

ebb_status ebb__sink_flush(data_sink *sink) {
    size_t used = sink->used;
    sink->used = 0;
    if (used == 0) {
        return EBB_OK;
    }
    return sink->stream != NULL
               ? ebb__file_write_fd(sink->ctx, sink->file.fd, sink->stream, sink->buffer, used)
               : ebb__file_write(&sink->file, sink->buffer, used);
}

ebb_status ebb__sink_put(data_sink *sink, const void *data, size_t bytes) {
    const char *from = data;
    while (bytes > 0) {
        size_t room = SINK_BYTES - sink->used, part = bytes < room ? bytes : room;
        memcpy(sink->buffer + sink->used, from, part);
        sink->used += part;
        from += part;
        bytes -= part;
        if (sink->used == SINK_BYTES) {
            TRY(ebb__sink_flush(sink));
        }
    }
    return EBB_OK;
}

ebb_status ebb__sink_commit(data_sink *sink) {
    TRY(ebb__sink_flush(sink));
    return sink->stream != NULL ? EBB_OK : ebb__file_commit(&sink->file);
}

ebb_status ebb__sink_take(data_sink *sink, int *fd) {
    TRY(ebb__sink_flush(sink));
    *fd = sink->file.fd;
    sink->file.fd = -1;
    return EBB_OK;
}

void ebb__sink_close(data_sink *sink) {
    if (sink->buffer != NULL) {
        if (sink->stream == NULL) {
            ebb__file_abandon(&sink->file);
        }
        ebb__free(sink->ctx, sink->buffer);
        sink->buffer = NULL;
    }
}
