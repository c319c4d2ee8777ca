/* weights.h - a run's model to and from files of weights, as other programs have them too. */
#ifndef TRAIN_WEIGHTS_H
#define TRAIN_WEIGHTS_H

#include "train/job_int.h"

/* What a file of weights holds after so many steps, in memory of `region`: the model's variables,
 * and the counts that the kind has beside some of them (model_kind.counted). */
ebb_status ebb__weights_list(run_session *session, const model_kind *kind, int64_t steps,
                             alloc_region *region, st_entry **out, size_t *n) EBB_MUST_CHECK;
/* What such a file says of itself: of a model of texts, which words and codes it knows, as the hash
 * that its run has of them. */
#define WEIGHTS_VOCAB "vocab_xxh3"
typedef struct weights_lore {
    char digits[17];
    st_note note;
} weights_lore;
const st_note *ebb__weights_lore(const corpus *c, weights_lore *room, size_t *n);
/* That hash, of a file that has it; *known if it does. */
ebb_status ebb__weights_vocab(ebb_ctx *ctx, const char *file, uint64_t *hash,
                              bool *known) EBB_MUST_CHECK;
/* The file of weights that a path means: itself or, of the folder of a run, its best one. */
ebb_status ebb__weights_file(ebb_ctx *ctx, const char *path,
                             char file[JOB_PATH_BYTES]) EBB_MUST_CHECK;
/* Reads the model from a file that may be another program's, or from the folder of a run. EBB_MODEL
 * if a tensor is missing, has another shape, is not finite, or is none of the model's and of those
 * that the kind spares. With settings->new_words, tensors with a row for each word may have fewer
 * of them: the others start as that of <unk>. A last layer for another number of classes stays as
 * it is, which is said (model_kind.head). */
ebb_status ebb__weights_load(run_session *session, const train_settings *s,
                             const char *path) EBB_MUST_CHECK;

#endif
