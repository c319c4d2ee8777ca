/* validate.h - how well a model in training translates: greedy translations of the validation
 * sources, their BLEU against the targets, and some of them to look at. */
#ifndef KIND_NMT_VALIDATE_H
#define KIND_NMT_VALIDATE_H

#include "data/sentence_batches.h"
#include "train/sentence_set.h"

extern const sentence_inputs ebb__nmt_inputs; /* of a batch of pairs */

typedef struct nmt_validation {
    run_session *session;
    translate_options options;
    const sentence_batches *pairs;
    const data_vocab *vocabs[KIND_SIDES]; /* only to show samples */
    bool characters;                      /* tokens are */
    uint64_t samples;                     /* to be shown, spread over all pairs */
    const job_observer *observer;         /* may be NULL */
} nmt_validation;

/* BLEU of tokens as they are. An unknown word never matches. */
ebb_status ebb__nmt_validate(ebb_ctx *ctx, const nmt_validation *validation,
                             job_bleu *out) EBB_MUST_CHECK;

#endif
