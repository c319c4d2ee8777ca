/* learning.h - how training went: the metrics of a run, read back and drawn. */
#ifndef PAGE_LEARNING_H
#define PAGE_LEARNING_H

#include "page/text.h"

/* A number that validation gave, as the page shows it. */
typedef struct learning_metric {
    const char *name;   /* `valid_NAME` of metrics.jsonl */
    const char *phrase; /* "validation perplexity" */
    bool higher;        /* is better */
    bool exponential;   /* of a loss: those of training are drawn beside it, as perplexities */
} learning_metric;

enum { LEARNING_MOST_METRICS = 4 };
typedef struct learning_point {
    int64_t step, epoch;
    double loss, per_second;
    double valid[LEARNING_MOST_METRICS]; /* < 0: none */
} learning_point;
typedef struct learning_curve {
    const learning_metric *metrics; /* the caller's */
    int32_t n_metrics;
    const char *unit; /* of speed: `UNIT_per_second` of metrics.jsonl; NULL: it is not read */
    learning_point *points;
    size_t n;
} learning_curve;

/* Adds the lines of DIR/metrics.jsonl in their order, those that are none left out; a file that is
 * not there has none. The points are the caller's to free, also after a failure. */
ebb_status ebb__learning_read(ebb_ctx *ctx, const char *dir, learning_curve *out) EBB_MUST_CHECK;
/* The loss of training over the steps, and every metric that was measured. */
ebb_status ebb__learning_draw(ebb_ctx *ctx, const learning_curve *curve,
                              page_text *into) EBB_MUST_CHECK;

#endif
