/* page.h - what the page about a run (`ebb report`, html.c) is made of: how training went
 * (learning.c), and translations of validation text (samples.c). */
#ifndef CLI_PAGE_H
#define CLI_PAGE_H

#include "cli/decode.h"

/* ---- learning.c ---- */

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
                              cli_text *into) EBB_MUST_CHECK;

/* ---- samples.c ---- */

enum { SAMPLES = 8, SAMPLE_PICTURES = 6 };

typedef struct sample_line {
    char *source, *target, *translation;
} sample_line;
typedef struct sample_set {
    sample_line lines[SAMPLES];
    int32_t n;
    attention_log attention; /* of the first ones */
} sample_set;

/* Translates the first lines of the run's validation text. Close in any case. */
ebb_status ebb__samples_make(ebb_ctx *ctx, const train_settings *run, const char *dir,
                             sample_set *out) EBB_MUST_CHECK;
void ebb__samples_close(sample_set *samples);

#endif
