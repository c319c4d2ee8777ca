/* lm.h - what training and using a language model share: how batches of a text reach a program. */
#ifndef KIND_LM_LM_H
#define KIND_LM_LM_H

#include "data/batcher.h"
#include "train/job_int.h"
#include "train/sentence_set.h"

extern const sentence_inputs ebb__lm_inputs; /* of a batch of sentences */

/* Windows of a text that is read as one stream, and the program and inputs that they are for. */
typedef struct lm_windows {
    data_batcher batches;
    run_session *session;
    int32_t program;
    run_place places[2]; /* inputs, targets */
} lm_windows;
/* `out` reads from *w, which it fills in. */
ebb_status ebb__lm_read_windows(const train_settings *s, const tokens_reader *tokens,
                                run_session *session, job_use use, lm_windows *w,
                                job_reader *out) EBB_MUST_CHECK;

#endif
