/* lines.h - lines of text as ids of a trained run's vocabulary, all at once: what is scored. */
#ifndef KIND_TEXT_LINES_H
#define KIND_TEXT_LINES_H

#include "kind/text/use.h"

typedef struct text_lines {
    ebb_ctx *ctx;
    int32_t *ids;  /* of all lines, <eos> after each */
    size_t *begin; /* [n + 1]: where a line starts */
} text_lines;

/* Of the side's vocabulary. A zero byte, a line end or what is not UTF-8 in a line makes unknown
 * words, as everywhere. Free also after a failure. */
ebb_status ebb__lines_encode(const model_use *u, kind_side side, const decode_line *lines, size_t n,
                             text_lines *out) EBB_MUST_CHECK;
void ebb__lines_free(text_lines *lines);

/* What scoring puts there before the losses are known. */
static inline score_found text_lines_start(const text_lines *lines, size_t i) {
    score_found found = {.tokens = lines->begin[i + 1] - lines->begin[i]};
    for (size_t k = lines->begin[i]; k < lines->begin[i + 1]; k++) {
        found.unknown += lines->ids[k] == VOCAB_UNK;
    }
    return found;
}

#endif
