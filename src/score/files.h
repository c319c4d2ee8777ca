/* files.h - texts that belong together line by line, read side by side; in memory there is a line
 * of each.
 *
 * Lines are those of the sacrebleu command: they end at line feeds only, a last one without counts
 * too, and white space at their end is dropped (so CR LF is a line end). They must be UTF-8; a byte
 * order mark or a NUL is a character like others. gzip is unpacked (data/source.h). */
#ifndef SCORE_FILES_H
#define SCORE_FILES_H

#include "data/source.h"
#include "score/words.h"

typedef struct score_file {
    data_source source;
    unsigned char *buffer; /* SCORE_BUFFER_BYTES */
    size_t cursor, end;    /* unread bytes of it */
    uint64_t lines;        /* read so far */
    bool ended;
    score_text line; /* the last one read */
} score_file;

enum { SCORE_BUFFER_BYTES = 65536, SCORE_MOST_LINE = 1 << 30 };

typedef struct score_files {
    ebb_ctx *ctx;
    score_file *at; /* [n]: hypotheses, then references */
    size_t n;
} score_files;

/* The paths must outlive it. On failure nothing is held, and closing is harmless. */
ebb_status ebb__score_open(ebb_ctx *ctx, const char *const *paths, size_t n,
                           score_files *out) EBB_MUST_CHECK;
/* The next line of all; *got is false at their end. EBB_DATA, with file and line, if a line is not
 * UTF-8 or has more than SCORE_MOST_LINE bytes, or if one text ends before another. */
ebb_status ebb__score_next(score_files *files, bool *got) EBB_MUST_CHECK;
void ebb__score_close(score_files *files);

#endif
