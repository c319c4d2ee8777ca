/* input.h - lines to decode, from a stream as they come. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "train/job.h"

enum { INPUT_MOST_LINE = 4 << 20 }; /* bytes; the rest of a longer line is skipped */

/* Lines of a descriptor, an unfinished last one too, through a buffer of one line. A carriage
 * return before the line end, and a byte order mark at the beginning, are dropped. */
typedef struct cli_input {
    ebb_ctx *ctx;
    int fd;
    const char *name;
    char *buffer;
    size_t begin, end; /* unread bytes */
    size_t searched;   /* of them, without a line end */
    bool skipping;     /* the rest of a line that was too long */
    bool ended, pending;
    bool (*stop)(void); /* polled while waiting: no more lines */
    uint64_t lines;
    uint64_t odd, first_odd; /* lines that are not UTF-8 text, or hold a zero byte */
    uint64_t too_long, first_too_long;
} cli_input;

ebb_status ebb__input_open(ebb_ctx *ctx, int fd, const char *name, bool (*stop)(void),
                           cli_input *out) EBB_MUST_CHECK;
/* TRANSLATE_PAUSE if lines were given since the last pause and there are none at the moment; the
 * next call waits. */
ebb_status ebb__input_next(cli_input *input, decode_line *line, translate_next *got) EBB_MUST_CHECK;
void ebb__input_close(cli_input *input);

#endif
