/* grammar.h - a text to try things on: sentences of a toy English grammar.
 *
 * About 280 words; subject and verb agree in number, also across a relative clause, so that there
 * is something for a recurrent state to carry. Sentence i is a function of seed and i alone. */
#ifndef DATA_GRAMMAR_H
#define DATA_GRAMMAR_H

#include "base/ctx.h"

/* Replaces `path` by `sentences` lines, each ending in " ." and a newline. */
ebb_status ebb__grammar_write(ebb_ctx *ctx, const char *path, uint64_t sentences,
                              uint64_t seed) EBB_MUST_CHECK;

#endif
