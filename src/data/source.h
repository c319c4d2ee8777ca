/* source.h - the bytes of a text file, plain or gzip, or of several one after the other
 * (text_list.h), streamed once from start to end.
 *
 * The kind is told by the first two bytes, not by the name. Files must be regular, since texts are
 * read more than once. Of several, one that does not end with a line end gets one. What is wrong
 * with a data file is EBB_DATA; EBB_IO is left to a disk that fails or refuses. zlib takes its
 * memory from base/alloc. */
#ifndef DATA_SOURCE_H
#define DATA_SOURCE_H

#include "data/text_list.h"

#include <zlib.h>

struct XXH3_state_s;

typedef struct data_source {
    ebb_ctx *ctx;
    const char *path;  /* for messages: the caller's, which must outlive the source */
    text_list files;   /* what that stands for */
    size_t file;       /* of these, the one being read */
    bool open_line;    /* what was read of it does not end with a line end */
    const char *phase; /* what the progress callback is told */
    int fd;
    uint64_t raw_done, raw_bytes; /* bytes of the file, read and in all */
    struct XXH3_state_s *tap;     /* sees every raw byte; may be NULL */
    bool stream;                  /* the descriptor is the caller's, and what is there is enough */
    bool gzip, member_open;
    unsigned char *packed; /* gzip input not yet inflated */
    z_stream inflater;
} data_source;

/* EBB_DATA if the path is not that of a regular file with at least a byte, or of several. */
ebb_status ebb__source_check(ebb_ctx *ctx, const char *path) EBB_MUST_CHECK;
/* On failure nothing is held, and ebb__source_close is harmless. */
ebb_status ebb__source_open(ebb_ctx *ctx, const char *path, const char *phase,
                            struct XXH3_state_s *tap, data_source *out) EBB_MUST_CHECK;
/* What comes through a descriptor, once, as it is (plain). */
void ebb__source_of_stream(ebb_ctx *ctx, int fd, const char *name, const char *phase,
                           data_source *out);
/* Fills `data` wholly unless the text ends before, or a stream has no more at the moment; *got 0 at
 * the end. */
ebb_status ebb__source_read(data_source *source, void *data, size_t bytes,
                            size_t *got) EBB_MUST_CHECK;
void ebb__source_close(data_source *source);

/* XXH3-64 and size of the files as they lie on disk (compressed, if they are). */
ebb_status ebb__source_hash(ebb_ctx *ctx, const char *path, uint64_t *hash,
                            uint64_t *bytes) EBB_MUST_CHECK;

#endif
