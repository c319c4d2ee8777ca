/* sample.h - a token drawn from what a language model predicts: by temperature, among the
 * likeliest. */
#ifndef KIND_LM_SAMPLE_H
#define KIND_LM_SAMPLE_H

#include <stdint.h>

typedef struct sample_options {
    double temperature; /* 0: always the likeliest */
    int64_t top_k;      /* only so many of the likeliest; 0: all */
    double top_p;       /* of these the fewest likeliest that have this share together; 0, 1: all */
} sample_options;

typedef struct sample_token {
    float logit;
    int32_t id;
} sample_token;

/* The token whose share of the distribution the number `draw` in [0, 1) falls into; of equally
 * likely ones the lower id counts as the likelier. logits[n], room[n]; n at least 1. */
int32_t ebb__sample(const sample_options *o, const float *logits, int64_t n, double draw,
                    sample_token *room);

#endif
