/* tok13a.h - sacreBLEU's default tokeniser, the one of mteval-v13a: punctuation becomes words of
 * its own. */
#ifndef SCORE_TOK13A_H
#define SCORE_TOK13A_H

#include "score/words.h"

/* The line (well-formed UTF-8) with spaces put between its words, several in a row in places.
 * `out` is replaced. */
ebb_status ebb__tok13a(ebb_ctx *ctx, const char *line, size_t bytes,
                       score_text *out) EBB_MUST_CHECK;

#endif
