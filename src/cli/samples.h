/* samples.h - a few lines of a run's validation text, translated to be looked at. */
#ifndef CLI_SAMPLES_H
#define CLI_SAMPLES_H

#include "page/html.h"
#include "train/kind.h"

enum { SAMPLES = 8, SAMPLE_PICTURES = 6 };

typedef struct sample_set {
    html_sample lines[SAMPLES];
    int32_t n;
    attention_log attention; /* of the first ones */
} sample_set;

/* Translates the first lines of the run's validation text. Close in any case. */
ebb_status ebb__samples_make(ebb_ctx *ctx, const train_settings *run, const char *dir,
                             sample_set *out) EBB_MUST_CHECK;
void ebb__samples_close(sample_set *samples);

#endif
