/* nmt_set.h - pairs of sentences for one purpose (to train on, to validate, to evaluate): two texts
 * scanned, stored as ids and given out in batches of a few shapes (data/pair_batches.h). */
#ifndef TRAIN_NMT_SET_H
#define TRAIN_NMT_SET_H

#include "data/lengths.h"
#include "data/pair_batches.h"
#include "train/kind.h"

typedef struct nmt_set {
    tokens_reader tokens[KIND_SIDES];
    pair_batches batches;
    pair_options options;
    data_lengths lengths;     /* from scanning to choosing */
    uint64_t pairs, left_out; /* that can be used; that cannot */
} nmt_set;

/* Where there are several shapes, the inputs of a program are named after its lengths
 * ("data.src.32"), so that programs of other lengths have inputs of their own. */
typedef struct nmt_set_input {
    char text[48];
} nmt_set_input;
nmt_set_input ebb__nmt_set_input(const char *input, int64_t length);

void ebb__nmt_set_init(nmt_set *set); /* nothing is open */
/* Counts the lengths of the pairs of `texts`. What is left out is said, with where to look, unless
 * `silent`. */
ebb_status ebb__nmt_set_scan(ebb_ctx *ctx, const train_settings *s,
                             const char *const texts[KIND_SIDES], bool silent,
                             nmt_set *set) EBB_MUST_CHECK;
/* Chooses shapes for them, largest first: to train on as the settings say (`sizes` has the
 * vocabularies), else a few. */
ebb_status ebb__nmt_set_choose(const train_settings *s, const job_request *sizes,
                               nmt_set *set) EBB_MUST_CHECK;
ebb_status ebb__nmt_set_choose_few(const train_settings *s, nmt_set *set) EBB_MUST_CHECK;
job_shapes ebb__nmt_set_shapes(const nmt_set *set);

/* Both sides as ids, and the index of their pairs; paths[KIND_SIDES] is the latter's, which has no
 * name afterwards. */
ebb_status ebb__nmt_set_store(ebb_ctx *ctx, const train_settings *s,
                              const char *const texts[KIND_SIDES],
                              const data_vocab *const vocabs[KIND_SIDES],
                              const char *const paths[KIND_SIDES + 1], nmt_set *set) EBB_MUST_CHECK;
/* Its batches, for the programs from `program` on. */
job_reader ebb__nmt_set_reader(nmt_set *set, run_session *session, int32_t program);
void ebb__nmt_set_close(nmt_set *set);

#endif
