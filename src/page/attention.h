/* attention.h - what the words of translations attended to: as JSON, a line a sentence, and as a
 * picture of the first ones. */
#ifndef PAGE_ATTENTION_H
#define PAGE_ATTENTION_H

#include "data/sink.h"
#include "decode/translate.h"
#include "page/text.h"

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
    page_text text;
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
ebb_status ebb__attention_draw(attention_log *log, const char *path,
                               page_text *into) EBB_MUST_CHECK;
void ebb__attention_close(attention_log *log);

/* Appends a word of n bytes; those that are no text become U+FFFD. */
ebb_status ebb__attention_text(const char *bytes, size_t n, page_text *out) EBB_MUST_CHECK;

#endif
