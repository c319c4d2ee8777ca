/* decode.h - what `ebb decode` is made of: lines from a stream as they come (input.c), and what
 * words attended to, as JSON and as a picture (attention.c). */
#ifndef CLI_DECODE_H
#define CLI_DECODE_H

#include "cli/picture.h"
#include "data/sink.h"

/* ---- input.c ---- */

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

/* ---- attention.c ---- */

enum { ATTENTION_PICTURES = 6, ATTENTION_SIDE = 60 };

/* The best translation of one sentence, as much of it as a picture shows. */
typedef struct attention_matrix {
    uint64_t line;
    char **source, **target; /* words, UTF-8 */
    int32_t n_source, n_target;
    float *weights; /* [n_target][n_source] */
} attention_matrix;

typedef struct attention_log {
    ebb_ctx *ctx;
    data_sink sink; /* of the JSON file, if there is one */
    bool to_file;
    cli_text text;
    alloc_region region;
    attention_matrix matrices[ATTENTION_PICTURES];
    int32_t n_matrices, wanted;
} attention_log;

/* `path` of the JSON file, NULL: none; the first `wanted` sentences that are not empty are kept to
 * be drawn. Close in any case. */
ebb_status ebb__attention_open(ebb_ctx *ctx, const char *path, int32_t wanted,
                               attention_log *out) EBB_MUST_CHECK;
ebb_status ebb__attention_add(attention_log *log, const decode_result *result) EBB_MUST_CHECK;
ebb_status ebb__attention_commit(attention_log *log) EBB_MUST_CHECK; /* of the JSON file */
/* A matrix a sentence: to the file `path`, or appended to `into`. */
ebb_status ebb__attention_draw(attention_log *log, const char *path, cli_text *into) EBB_MUST_CHECK;
void ebb__attention_close(attention_log *log);

/* Appends a word; bytes that are no text become U+FFFD. */
ebb_status ebb__attention_word(const struct data_vocab *vocab, int32_t id,
                               cli_text *out) EBB_MUST_CHECK;

#endif
