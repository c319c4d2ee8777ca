/* learning.h - how training went: the metrics of a run, read back and drawn. */
#ifndef PAGE_LEARNING_H
#define PAGE_LEARNING_H

#include "page/text.h"

typedef struct learning_point {
    int64_t step, epoch;
    double loss, words_per_second;
    double perplexity, bleu; /* of validation text; < 0: none */
} learning_point;
typedef struct learning_curve {
    learning_point *points;
    size_t n;
} learning_curve;

/* Adds the lines of DIR/metrics.jsonl in their order, those that are none left out; a file that is
 * not there has none. The points are the caller's to free, also after a failure. */
ebb_status ebb__learning_read(ebb_ctx *ctx, const char *dir, learning_curve *out) EBB_MUST_CHECK;
/* Perplexity and, if it was measured, BLEU over the steps. */
ebb_status ebb__learning_draw(ebb_ctx *ctx, const learning_curve *curve,
                              page_text *into) EBB_MUST_CHECK;

#endif
