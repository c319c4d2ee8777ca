/* kind.h - the kinds of models, and what differs between them: the graph of a program, starting
 * weights, and the texts that a run reads. Everything else that jobs do knows none of them.
 *
 * A program is compiled for one shape. A language model has one, of --bptt steps. Sentences come
 * in all lengths, so that a translation model, or a language model --by-sentence, trains on a few
 * shapes: one program each, all over one arena and one set of weights. */
#ifndef TRAIN_KIND_H
#define TRAIN_KIND_H

#include "run/session.h"
#include "train/job.h"

enum { JOB_PATH_BYTES = 1024 };
_Static_assert(2 * JOB_MAX_SHAPES + 2 * TRANSLATE_MOST_LENGTHS <= (int)PLAN_MAX_PROGRAMS,
               "programs to train, to validate, to translate");

/* What a program is for: a training step; the loss alone, with a state of its own; logits; a step
 * of translation, and reading sources for it. Programs of a use are numbered by their shapes, and
 * found by both (ebb__plan_program). */
typedef enum job_use {
    JOB_TRAIN,
    JOB_VALID,
    JOB_PREDICT,
    JOB_DECODE_STEP,
    JOB_DECODE_READ
} job_use;

/* What to plan: a program for each shape to train on or to predict, for each to validate on, and
 * two for each length to translate (translate.h). */
typedef struct job_request {
    int64_t vocab, src_vocab;   /* of what is predicted; of sources */
    bool train, valid, predict; /* see job_use */
    uint64_t vocab_bytes;       /* planned for the vocabulary, if it is needed while running */
    uint64_t pool_bytes;        /* of the staging memory: sentences of a pool; 0: there is none */
    job_shapes shapes, valid_shapes;
    translate_options decode; /* slots 0: nothing is translated */
    uint64_t most_batch; /* rows, or tokens where batches are counted so, that the text can fill; 0:
                            not known */
    double words;        /* of a batch, in the mean; 0: all positions of the largest */
} job_request;

/* Batches by number. Step s is batch s mod `windows` of epoch s / `windows`. */
typedef struct job_reader {
    uint64_t windows;    /* of an epoch */
    const void *batches; /* the kind's, with the inputs that it writes to */
    /* Puts a batch where *program reads it; *words: labels that count. */
    ebb_status (*fill)(const struct job_reader *reader, uint64_t step, int32_t *program,
                       uint64_t *words);
} job_reader;

/* ---- the texts of a run ---- */

typedef struct corpus corpus;
typedef struct job_bleu {
    double bleu;
    bool stopped; /* the observer asked to */
} job_bleu;
typedef struct corpus_kind {
    size_t bytes; /* of the kind's own struct, which starts with a corpus */
    /* Vocabularies, counted in lists of at most `most` bytes (0: no bound) or loaded and checked
     * where the run is resumed; their sizes for the plan. Writes nothing. */
    ebb_status (*measure)(corpus *c, uint64_t most, job_request *request);
    /* Shapes for the plan; after measure(), and again whenever the settings' batch has changed. */
    ebb_status (*choose)(corpus *c, job_request *request);
    /* Vocabularies into the folder, under names of their own until adopt(). */
    ebb_status (*save)(corpus *c);
    /* Texts as ids into the folder, and what save() does unless the run is resumed. Nothing of a
     * vocabulary stays in memory. */
    ebb_status (*store)(corpus *c);
    ebb_status (*adopt)(corpus *c);
    /* Makes the readers. */
    ebb_status (*begin)(corpus *c, run_session *session);
    /* Greedy translations of the validation sources: their BLEU, tokens as they are; the first
     * settings->samples of them go to the observer. NULL: not of this kind. */
    ebb_status (*translate)(corpus *c, run_session *session, const job_observer *observer,
                            job_bleu *out);
    void (*close)(corpus *c);
} corpus_kind;

struct corpus {
    const corpus_kind *kind; /* NULL until it was measured */
    ebb_ctx *ctx;
    const train_settings *s;
    const char *dir; /* of the run; NULL: only measured */
    bool silent;     /* what is left out was, or will be, said elsewhere */
    bool resumed;    /* the fields below say what the run was started with */
    uint64_t vocab_hash, train_count, train_hash;
    uint64_t valid_hash; /* of the text that perplexities belong to; 0: none yet */
    job_buckets
        buckets; /* of the text to train on; resumed: as stored, no shapes if they are not */
    const struct sentence_set *sets[2]; /* to train, to validate: token files, once stored */
    job_reader train, valid;
};

/* ---- kinds ---- */

typedef enum kind_side { KIND_SOURCE, KIND_TARGET, KIND_SIDES } kind_side;

typedef struct model_kind {
    const char *name;
    const char *labels; /* the input that holds what is predicted */
    corpus_kind corpus;
    /* Name of a side's vocabulary in the run's folder; both sides may share one; NULL: no such
     * side.
     */
    const char *(*vocab_file)(const train_settings *s, kind_side side);
    job_shape (*shape)(const train_settings *s);                  /* without a text */
    void (*sizes)(const train_settings *s, job_request *request); /* vocabularies, likewise */
    ebb_status (*build)(ir_graph *graph, const train_settings *s, const job_request *request,
                        job_shape shape, job_use use);
    uint64_t (*staging)(const train_settings *s, const job_request *request); /* bytes */
    ebb_status (*randomise)(run_session *session, const train_settings *s);   /* program 0 */
    /* In place of what depends on the text: the longest shape. */
    void (*planned)(train_settings *s, int64_t source, int64_t target);
} model_kind;

extern const model_kind ebb__kind_lm, ebb__kind_nmt;
const model_kind *ebb__kind(const train_settings *s);

/* One number for two vocabularies, or two texts. */
uint64_t ebb__kind_join_hashes(uint64_t source, uint64_t target);
/* Positions of the kind's labels: the words of a step. */
int64_t ebb__kind_positions(const train_settings *s, const ebb_plan *plan);
/* The settings with what was planned in place of what depends on the text: lengths of sentences. */
train_settings ebb__kind_planned(const train_settings *s, const ebb_plan *plan);

#endif
