/* kind.h - what a kind of model is: words for people, options, metrics, data, graphs, and what it
 * can do beside training. A kind is a folder of src/kind that fills a model_kind, and a line in
 * kind/kinds.def. The command and the jobs go through these lists and know no kind by name; so a
 * new one touches nothing else (docs/add-a-kind.md).
 *
 * A program is compiled for one shape. A language model has one, of --bptt steps. Sentences come
 * in all lengths, so that a translation model, or a language model --by-sentence, trains on a few
 * shapes: one program each, all over one arena and one set of weights. */
#ifndef TRAIN_KIND_H
#define TRAIN_KIND_H

#include "run/session.h"
#include "train/job.h"
#include "train/option.h"

enum { JOB_PATH_BYTES = 1024 };
_Static_assert(2 * DATA_MOST_SHAPES + 2 * TRANSLATE_MOST_LENGTHS <= (int)PLAN_MAX_PROGRAMS,
               "programs to train, to validate, to translate");

/* What a program is for: a training step; the loss alone, with a state of its own; logits; the loss
 * of every position; a step of translation, and reading sources for it. Programs of a use are
 * numbered by their shapes, and found by both (ebb__plan_program). */
typedef enum job_use {
    JOB_TRAIN,
    JOB_VALID,
    JOB_PREDICT,
    JOB_SCORE,
    JOB_DECODE_STEP,
    JOB_DECODE_READ
} job_use;

/* What to plan: a program for each shape to train on or to predict, for each to validate on, and
 * two for each length to translate (translate.h). */
typedef struct job_request {
    int64_t vocab, src_vocab;          /* of what is predicted; of sources */
    bool train, valid, predict, score; /* see job_use */
    uint64_t vocab_bytes; /* planned for the vocabulary, if it is needed while running */
    uint64_t line_bytes;  /* planned for what is kept of lines (JOB_LINES); 0: nothing */
    uint64_t pool_bytes;  /* of the staging memory: sentences of a pool; 0: there is none */
    data_shapes shapes, valid_shapes;
    translate_options decode; /* slots 0: nothing is translated */
    uint64_t most_batch; /* rows, or tokens where batches are counted so, that the text can fill; 0:
                            not known */
    double words;        /* of a batch, in the mean; 0: all positions of the largest */
    bool follows; /* of all but the first of several processes: it has no data, and does not decode
                   */
} job_request;

/* Batches by number. Step s is batch s mod n_batches of epoch s / n_batches. */
typedef struct job_reader {
    uint64_t n_batches;  /* of an epoch */
    const void *batches; /* the kind's, with the inputs that it writes to */
    /* Puts a batch where *program reads it; *labels: how many of its labels count. */
    ebb_status (*fill)(const struct job_reader *reader, uint64_t step, int32_t *program,
                       uint64_t *labels);
    /* Looks at the outputs of the batch's program, once it has run, for scores; NULL: nothing. Only
     * while an epoch is scored, from batch 0 on. */
    ebb_status (*look)(const struct job_reader *reader, uint64_t step);
} job_reader;

/* ---- the texts of a run ---- */

/* What a kind does with its data. The order in a run: measure, choose (again while the batch is
 * searched), store, begin, adopt, then score after each validation. */
typedef struct corpus corpus;
typedef struct corpus_calls {
    size_t bytes; /* of the kind's own struct, which starts with a corpus */
    /* Looks at the data: lengths of sentences, vocabularies in lists of at most `most` bytes (0: no
     * bound) or, where the run is resumed, loaded and compared with c->vocab_hash. Sets that, and
     * the vocabularies' sizes for the plan. Writes nothing. */
    ebb_status (*measure)(corpus *c, uint64_t most, job_request *request);
    /* Shapes for the plan, and c->buckets. */
    ebb_status (*choose)(corpus *c, job_request *request);
    /* Vocabularies into the folder, under names of their own until adopt(). */
    ebb_status (*save)(corpus *c);
    /* Texts as ids into the folder, compared with those of the run (ebb__corpus_same), and what
     * save() does unless the run is resumed. Nothing of a vocabulary stays in memory. */
    ebb_status (*store)(corpus *c);
    /* Makes the readers c->train and c->valid. */
    ebb_status (*begin)(corpus *c, run_session *session);
    /* Gives the files of save() the names they keep; only of a run that is not resumed. */
    ebb_status (*adopt)(corpus *c);
    /* Scores of a validation whose mean loss is known; *stopped if the observer asked to. */
    ebb_status (*score)(corpus *c, run_session *session, const job_observer *observer, double loss,
                        kind_scores *out, bool *stopped);
    /* Whether the settings' data are, by what lies in `dir`, those that the run was started with
     * and validated on: `c` holds its hashes. Writes nothing. */
    ebb_status (*compare)(const corpus *c, const char *dir, bool *train, bool *valid);
    void (*close)(corpus *c);
} corpus_calls;

struct corpus {
    const corpus_calls *calls; /* NULL until it was measured: nothing is to be closed */
    ebb_ctx *ctx;
    const train_settings *s;
    const char *dir; /* of the run; NULL: only measured */
    bool silent;     /* what is left out was, or will be, said elsewhere */
    bool resumed;    /* the fields below say what the run was started with */
    uint64_t vocab_hash, train_count, train_hash;
    uint64_t valid_hash; /* of the text that perplexities belong to; 0: none yet */
    job_buckets buckets; /* to train on; resumed: as stored, no shapes if they are not */
    const struct sentence_set *sets[2]; /* to train, to validate: token files, once stored */
    const struct image_set *images[2];  /* likewise, of a kind that has images */
    job_reader train, valid;
};

/* ---- kinds ---- */

typedef enum kind_side { KIND_SOURCE, KIND_TARGET, KIND_SIDES } kind_side;

/* A number that validation gives: `valid_NAME` in metrics and results. */
typedef struct kind_metric {
    const char *name;   /* "perplexity" */
    const char *brief;  /* in a line of progress: "valid ppl" */
    const char *phrase; /* in a sentence: "validation perplexity" */
    bool higher;        /* is better */
    bool exponential;   /* of the mean loss */
} kind_metric;

/* A command that the kind takes part in: `ebb train lm`. */
typedef struct kind_command {
    option_command command;
    int n_words; /* arguments that are no options, all required */
    const char *usage, *summary, *details;
} kind_command;

/* A layer of a net, as tables show it. */
typedef struct kind_layer {
    const char *name;     /* as plans have it */
    char what[48];        /* "conv 7 stride 2" */
    int32_t rank, dim[3]; /* of what it makes of one image */
    int64_t parameters;   /* that are trained */
    double flops;         /* forward, of one image */
    bool follows;         /* may share a line with the layer before it, which it only passes on */
} kind_layer;

/* An image that was said to be of another class, and how sure that was. */
enum { KIND_MOST_WRONG = 24 };
typedef struct kind_wrong {
    uint64_t image; /* its number among those that were shown */
    int32_t label, said;
    double probability; /* of the class that was said */
} kind_wrong;
/* Pixels, u8 [Y,X,C]. */
typedef struct kind_pixels {
    uint32_t height, width, channels;
    const uint8_t *at;
} kind_pixels;

/* What an evaluation found class by class. Lies in memory of the run, as long as the facts do. */
enum { KIND_MOST_CONFUSED = 1024 }; /* classes of a confusion matrix */
typedef struct kind_classes {
    uint32_t n;                            /* 0: the kind has no classes */
    const char *const *names;              /* [n]; NULL where one has no name */
    const uint64_t *images, *said, *right; /* [n]: that are of a class, are said to be, are both */
    const uint64_t *confused; /* [n, n]: of the row's class, said to be of the column's; NULL: too
                                 many classes */
    const kind_wrong *wrong;  /* [n_wrong]: the surest of the wrong answers, these first */
    int32_t n_wrong;
} kind_classes;

/* What an evaluation found: numbers by name, and the same in lines for people. Free with
 * ebb__facts_free. */
enum { KIND_MOST_FACTS = 20 };
typedef struct kind_facts {
    int32_t n;
    struct kind_fact {
        const char *name;
        bool whole; /* then `count`, else `real` */
        uint64_t count;
        double real;
    } at[KIND_MOST_FACTS];
    char text[1024];
    kind_classes classes;
    void *held; /* what the classes lie in; NULL: nothing */
    /* The pixels of an image that was shown, until the next call or the release. */
    ebb_status (*show)(void *held, uint64_t image, kind_pixels *out);
    void (*release)(void *held);
} kind_facts;
void ebb__facts_free(kind_facts *facts);
void ebb__facts_count(kind_facts *facts, const char *name, uint64_t count);
void ebb__facts_real(kind_facts *facts, const char *name, double real);

/* A trained run that is open for one use: its lore (vocabularies, names of classes), weights and
 * programs, in one plan. Starts the kind's own struct. */
typedef struct kind_open {
    run_session *session;
    void (*close)(struct kind_open *open);
} kind_open;

typedef struct model_kind {
    /* words for people */
    const char *name;    /* "lm": of commands and config files */
    const char *title;   /* "Language model" */
    const char *what;    /* "a language model" */
    const char *used_by; /* commands that use a trained one: "generate or ebb eval lm" */
    const char *unit;    /* what a step's speed counts: "words" */
    const char *held;    /* file of a run's folder that it was validated on, which eval takes; NULL:
                            there is none */
    const char *data;    /* what it is trained on: "set of images"; NULL: "text" */
    const char *missing; /* said where there is no data to train on */
    const kind_command *commands;
    size_t n_commands;
    /* What is trained, in a few words. */
    void (*describe)(const train_settings *s, char *text, size_t bytes);
    /* settings */
    const option_list *options;
    const kind_metric *metrics; /* the first one decides, unless settings->valid_metric says so */
    int32_t n_metrics;
    /* Learning rates of sgd without and with momentum, where none is given; 0: 1. */
    double sgd_rate, momentum_rate;
    bool timed; /* it is unrolled over time */
    bool nats;  /* the loss is a mean negative log likelihood: its exponential is a perplexity */
    /* Fills in what follows from other settings, checks sizes. NULL: nothing. */
    ebb_status (*resolve)(ebb_ctx *ctx, train_settings *s);
    /* Settings of a run that is used, before they are resolved: files that have a copy in its
     * folder are meant to be these. Texts are of `region`. NULL: there are none. */
    ebb_status (*at_home)(ebb_ctx *ctx, train_settings *s, const char *dir, alloc_region *region);
    /* Whether the text of an option that is a path (OPTION_PATH) is none, but the name of
     * something. NULL: never. */
    bool (*is_name)(const train_option *option, const char *text);
    /* Whether there is what a run of these settings needs to train. NULL: always. */
    ebb_status (*check)(ebb_ctx *ctx, const train_settings *s);
    /* Why a run of these settings has no such option (OPTION_PART); NULL: it has. */
    const char *(*lacks)(const train_settings *s, const train_option *option);
    /* Whether batches are of sentences, which come in shapes. NULL: never. */
    bool (*sentences)(const train_settings *s);
    bool validates_always; /* else where settings->valid_path is given */
    /* `ebb tune` without any of these options, of which the last is NULL, tunes the models that
     * `usual` puts into models[KIND_MOST_USUAL]; it gives their number. */
    const char *const *size_options;
    int32_t (*usual)(const train_settings *s, train_settings *models);
    /* data */
    corpus_calls corpus;
    const char *labels; /* the input that holds what is predicted */
    /* Name of a side's vocabulary in the run's folder; both sides may share one; NULL: no such
     * side. The function is NULL where there are none at all. */
    const char *(*vocab_file)(const train_settings *s, kind_side side);
    /* Names of the tensors that have a row for each word, the last NULL. NULL: no words. */
    const char *const *word_rows;
    data_shape (*shape)(const train_settings *s);                       /* without a text */
    void (*vocab_sizes)(const train_settings *s, job_request *request); /* vocabularies, likewise */
    uint64_t (*staging)(const train_settings *s, const job_request *request); /* bytes */
    /* model */
    ebb_status (*build)(ir_graph *graph, const train_settings *s, const job_request *request,
                        data_shape shape, job_use use);
    ebb_status (*randomise)(run_session *session, const train_settings *s); /* program 0 */
    /* The layers of a net, in their order; in `region`. NULL: there is no table of them. */
    ebb_status (*layers)(const train_settings *s, alloc_region *region, kind_layer **out,
                         int32_t *n);
    /* Files of weights: beside every variable X.counted they have X.counter, the number of steps;
     * NULL: there are no such counts. */
    const char *counted, *counter;
    /* Whether a file to start from may have this tensor, which is none of the model's; it is then
     * ignored. NULL: any. */
    bool (*spares)(const char *name);
    /* The name of the layer that has a row of parameters for each class: in a file to start from,
     * there may be more or fewer of them. NULL: there is no such layer. */
    ebb_status (*head)(ebb_ctx *ctx, const train_settings *s, char *name, size_t bytes);
    /* Puts the lengths of the longest planned shape into the settings that say them where there is
     * no text, for reports. NULL: there are none. */
    void (*set_longest)(train_settings *s, int64_t source, int64_t target);
    /* What a trained run can do; NULL: it cannot. `args` are the command's arguments. */
    ebb_status (*eval)(ebb_ctx *ctx, const train_settings *s, const char *const *args,
                       const job_observer *observer, kind_facts *out);
    /* The same opened (`open`, below), then used any number of times: what comes of it depends on
     * what is given alone. Fewer sentences, lines or images at once are taken where the budget asks
     * for it. */
    ebb_status (*decode_open)(ebb_ctx *ctx, const train_settings *s, const char *dir,
                              const decode_options *options, kind_open **out);
    ebb_status (*decode)(kind_open *open, const decode_io *io, decode_summary *out);
    ebb_status (*generate_open)(ebb_ctx *ctx, const train_settings *s, const char *dir,
                                kind_open **out);
    ebb_status (*generate)(kind_open *open, const generate_options *options, generate_fn emit,
                           void *user);
    ebb_status (*score_open)(ebb_ctx *ctx, const train_settings *s, const char *dir,
                             kind_open **out);
    ebb_status (*score)(kind_open *open, const score_request *request);
    /* Names of the classes that it tells apart, NULL where one has none; in `region`. */
    ebb_status (*classes)(ebb_ctx *ctx, const train_settings *s, const char *dir,
                          alloc_region *region, const char ***names, int64_t *n);
    ebb_status (*predict_open)(ebb_ctx *ctx, const train_settings *s, const char *dir,
                               kind_open **out);
    ebb_status (*predict)(kind_open *open, const predict_options *options, predict_fn emit,
                          void *user, predict_summary *out);
} model_kind;

enum { KIND_MOST_USUAL = 8 };

/* Whether a run of these settings is validated. */
static inline bool kind_validates(const train_settings *s) {
    return s->valid_path != NULL || s->kind->validates_always;
}
/* Whether there are sources beside targets. */
static inline bool kind_has_pairs(const train_settings *s) {
    return s->kind->vocab_file != NULL && s->kind->vocab_file(s, KIND_SOURCE) != NULL;
}

static inline const char *kind_data(const train_settings *s) {
    return s->kind->data != NULL ? s->kind->data : "text";
}

/* One number for two vocabularies, or two texts; of one text that of the target. */
uint64_t ebb__kind_join_hashes(const train_settings *s, uint64_t source, uint64_t target);
/* Positions of the kind's labels: the words of a step. */
int64_t ebb__kind_positions(const train_settings *s, const ebb_plan *plan);
/* The settings with what was planned in place of what depends on the text: lengths of sentences. */
train_settings ebb__kind_planned(const train_settings *s, const ebb_plan *plan);

#endif
