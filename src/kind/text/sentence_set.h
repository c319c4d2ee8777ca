/* sentence_set.h - sentences for one purpose (to train on, to validate, to evaluate): one text, or
 * two whose lines are pairs, scanned, stored as ids and given out in batches of a few shapes
 * (data/sentence_batches.h). Texts and vocabularies come by side; of one text there is only the
 * target, and the source is NULL. */
#ifndef KIND_TEXT_SENTENCE_SET_H
#define KIND_TEXT_SENTENCE_SET_H

#include "data/codes.h"
#include "data/lengths.h"
#include "data/sentence_batches.h"
#include "train/kind.h"

typedef struct sentence_set {
    tokens_reader tokens[KIND_SIDES];
    sentence_batches batches;
    sentence_options options;
    data_lengths lengths;         /* from scanning to storing */
    uint64_t sentences, left_out; /* that can be used; that cannot */
    job_buckets buckets;          /* what was chosen */
    uint64_t enough_tokens; /* batches of so many hold all sentences of every shape: more change
                               nothing; 0: not known (stored shapes) */
    bool own_rows;          /* batches are counted in tokens: a shape has rows of its own */
    /* Once there is a reader: where its batches go, and the program of each shape. */
    run_session *session;
    codes_drop drop[KIND_SIDES]; /* where options.drop says so */
    run_place places[4];         /* as sentence_target has them */
    int32_t programs[DATA_MOST_SHAPES];
    double *line_sums; /* of an evaluation: losses by entry of the index (line_scores.h) */
} sentence_set;

/* ---- programs ---- */

/* Rows of a program: the shape's own, else those of the settings. */
static inline int64_t ebb__sentence_rows(const train_settings *s, data_shape shape) {
    return shape.rows > 0 ? shape.rows : s->batch;
}
/* A shape of these lengths, with the rows that the settings' tokens give it; rows 0 where they
 * count sentences. */
data_shape ebb__sentence_shape(const train_settings *s, int64_t source, int64_t target);
/* Bytes of the staging memory for all shapes of a request: one sentence and an <eos> before it, and
 * at its end the pool. */
uint64_t ebb__sentence_staging(const job_request *request);

/* ---- the set ---- */

void ebb__sentence_set_init(sentence_set *set); /* nothing is open */
/* Counts the lengths of the sentences of `texts`, whose words `codes` cut (NULL: they do not). What
 * is left out is said, with where to look, unless `silent`. Sentences will be cut anew in every
 * epoch if `drop`, the share of pairs that is passed over then, is not 0. Sets set->options: of a shape,
 * sentences come in the order of the text unless the caller then sets options.shuffle, before
 * storing. */
ebb_status ebb__sentence_set_scan(ebb_ctx *ctx, const train_settings *s,
                                  const char *const texts[KIND_SIDES],
                                  const data_codes *const codes[KIND_SIDES], bool silent,
                                  double drop, sentence_set *set) EBB_MUST_CHECK;
/* Chooses shapes, longest first, for the sentences to train on and to validate (if there are any):
 * for the former as the settings say or, where the run is resumed, those stored in c->buckets,
 * which are noted there otherwise. Again whenever the settings' batch has changed. Where batches
 * are counted in tokens, a shape gets no more rows than the text has sentences for it. The request
 * gets the shapes, and the most tokens or rows of a batch that the text can fill (tokens 0 where
 * stored shapes are taken). EBB_MODEL if stored shapes are none that the settings give. */
ebb_status ebb__sentence_sets_choose(corpus *c, sentence_set *train, sentence_set *valid,
                                     job_request *request) EBB_MUST_CHECK;
/* At most 4, with the fewest padded tokens whatever the strategy is: to validate and evaluate. */
ebb_status ebb__sentence_set_choose_few(const train_settings *s, sentence_set *set) EBB_MUST_CHECK;
/* Rows are 0, which is the settings' batch, unless batches are counted in tokens. */
data_shapes ebb__sentence_set_shapes(const sentence_set *set);

/* Stores each side as ids in paths[side], and the index of the sentences in the folder of
 * paths[KIND_SIDES]. The index has no name; neither have the ids unless `keep`. */
ebb_status ebb__sentence_set_store(ebb_ctx *ctx, const train_settings *s,
                                   const char *const texts[KIND_SIDES],
                                   const data_vocab *const vocabs[KIND_SIDES],
                                   const char *const paths[KIND_SIDES + 1], bool keep,
                                   sentence_set *set) EBB_MUST_CHECK;
/* EBB_MODEL naming the run if stored shapes do not hold every sentence. */
ebb_status ebb__sentence_set_held(const sentence_set *set, const char *dir) EBB_MUST_CHECK;
/* Names of the inputs that batches are put into; of one text the first two are NULL. */
typedef struct sentence_inputs {
    const char *source, *lengths, *inputs, *labels;
} sentence_inputs;
/* With options.drop, before there is a reader: the vocabularies, which stay where they are. */
void ebb__sentence_set_words(sentence_set *set, const data_vocab *const vocabs[KIND_SIDES]);
/* Its batches, for the programs of the use, which have an item a shape. The plan's JOB_STAGING must
 * have the bytes of ebb__sentence_staging; a pool takes its end. EBB_INTERNAL if the session has no
 * such programs or inputs. */
ebb_status ebb__sentence_set_reader(sentence_set *set, run_session *session, job_use use,
                                    const sentence_inputs *names, job_reader *out) EBB_MUST_CHECK;
void ebb__sentence_set_close(sentence_set *set);

#endif
