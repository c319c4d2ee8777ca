/* cnn.h - what training and using a convolutional net share: its own settings, the net that they
 * name, and how batches of images reach a program. */
#ifndef KIND_CNN_CNN_H
#define KIND_CNN_CNN_H

#include "data/image_batches.h"
#include "data/image_card.h"
#include "model/cnn.h"
#include "train/job_int.h"

typedef struct cnn_settings {
    const char *net; /* a name that ebb__net_named knows, or a file */
    int64_t size;    /* of the images: they are square; 0, as the two below: not settled yet */
    int64_t channels, classes;
    const char *freeze;  /* patterns of parameters that are not trained, with commas; NULL: none */
    double dropout;      /* below 0: the net's own */
    int64_t lanes;       /* images of a group of the maps; 0: as suits the batch */
    int64_t shift;       /* pixels that images are shifted by, at most, to train */
    double crop;         /* least share of an image that is seen of it, to train; 1: all of it */
    bool flip;           /* some are turned left to right, to train */
    double hold;         /* share of the images to validate on, where there are no others */
    unsigned bad;        /* what becomes of photographs that cannot be decoded: */
    const char *density; /* of sparse maps: "D,R", or "none" */
    const char *csv;     /* eval: file for the confusion matrix; NULL: none */
} cnn_settings;
enum { CNN_BAD_STOP, CNN_BAD_SKIP };
_Static_assert(sizeof(cnn_settings) <= SETTINGS_OWN_BYTES, "room for the kind's settings");

static inline const cnn_settings *cnn_own(const train_settings *s) {
    return (const void *)s->own;
}

static inline image_size cnn_image_size(const train_settings *s) {
    const cnn_settings *own = cnn_own(s);
    return (image_size){(uint32_t)own->size, (uint32_t)own->size, (uint32_t)own->channels};
}

/* The net of settled settings; `net` is empty. */
ebb_status ebb__cnn_net(const train_settings *s, net_model *net) EBB_MUST_CHECK;

/* The last layer that has parameters: a row of them for each class. */
const net_layer *ebb__cnn_head(const net_model *net);

/* How images are looked for: photographs are brought to the size of the net. */
image_request ebb__cnn_images(const train_settings *s, image_part part);

/* Metrics that validation gives. */
enum { CNN_TOP1, CNN_TOP5, CNN_METRICS };

/* What validation counts class by class, where somebody wants to know it. */
typedef struct cnn_tally {
    uint64_t *images, *said, *right; /* [classes]: that are of a class, are said to be, are both */
    uint64_t *confused;              /* [classes, classes]: of the row's, said to be the column's */
    kind_wrong *wrong;               /* [KIND_MOST_WRONG]: the surest of the wrong answers */
    int32_t n_wrong;
} cnn_tally;

/* Batches of a set for the programs of one use, and what validation counts of them. */
typedef struct cnn_batches {
    image_batches batches;
    run_session *session;
    int32_t program;
    run_place places[2];         /* pixels, labels */
    uint64_t seen, first, fifth; /* labels so far; found at once, or among the first five */
    cnn_tally tally;             /* NULL: not wanted; `confused` may be NULL alone */
} cnn_batches;
/* `out` reads from *b, which it fills in; the set must outlive both. */
ebb_status ebb__cnn_read(const train_settings *s, const image_set *set, run_session *session,
                         job_use use, cnn_batches *b, job_reader *out) EBB_MUST_CHECK;
/* Writes by what pixels are normalised: the mean and the deviation of the set to train on. */
ebb_status ebb__cnn_normalise(run_session *session, const image_card *card) EBB_MUST_CHECK;

/* ---- options.c ---- */

enum { CNN_COMMANDS = 5 };
extern const option_list ebb__cnn_options;
extern const kind_command ebb__cnn_commands[CNN_COMMANDS];
void ebb__cnn_describe(const train_settings *s, char *text, size_t bytes);
ebb_status ebb__cnn_resolve(ebb_ctx *ctx, train_settings *s) EBB_MUST_CHECK;

/* ---- layers.c: as model_kind has it ---- */

ebb_status ebb__cnn_layers(const train_settings *s, alloc_region *region, kind_layer **out,
                           int32_t *n) EBB_MUST_CHECK;

/* ---- corpus.c ---- */

#define CNN_CARD "images.json" /* what a trained run must know of them (data/image_card.h) */
#define CNN_VALID_SET "valid.images"
#define CNN_NET_COPY "net.txt" /* of the file that the net was read from */

/* The images of a run: [0] to train on, [1] to validate on. */
typedef struct cnn_corpus {
    corpus base;
    image_files files[2]; /* the second is empty where images are held back */
    image_set sets[2];
    bool open[2];
    image_card card;
    cnn_batches batches[2];
} cnn_corpus;

/* As corpus_calls has them. */
ebb_status ebb__cnn_measure(corpus *base, uint64_t most, job_request *request) EBB_MUST_CHECK;
ebb_status ebb__cnn_store(corpus *base) EBB_MUST_CHECK;
ebb_status ebb__cnn_begin(corpus *base, run_session *session) EBB_MUST_CHECK;
ebb_status ebb__cnn_score(corpus *base, run_session *session, const job_observer *observer,
                          double loss, kind_scores *out, bool *stopped) EBB_MUST_CHECK;
ebb_status ebb__cnn_compare(const corpus *base, const char *dir, bool *train,
                            bool *valid) EBB_MUST_CHECK;
ebb_status ebb__cnn_adopt(corpus *base) EBB_MUST_CHECK;
ebb_status ebb__cnn_at_home(ebb_ctx *ctx, train_settings *s, const char *dir,
                            alloc_region *region) EBB_MUST_CHECK;
void ebb__cnn_close(corpus *base);
/* EBB_USAGE if the net does not take images of this size, which are those of `path`. */
ebb_status ebb__cnn_check_size(ebb_ctx *ctx, const train_settings *s, const char *path,
                               const image_size *size) EBB_MUST_CHECK;
/* EBB_DATA if there is nothing to tell apart in the images to learn from. */
ebb_status ebb__cnn_check_learnt(ebb_ctx *ctx, const char *path,
                                 const image_files *files) EBB_MUST_CHECK;

/* ---- use.c, predict.c: as model_kind has them ---- */

ebb_status ebb__cnn_eval(ebb_ctx *ctx, const train_settings *s, const char *const *args,
                         const job_observer *observer, kind_facts *out) EBB_MUST_CHECK;
ebb_status ebb__cnn_classes(ebb_ctx *ctx, const train_settings *s, const char *dir,
                            alloc_region *region, const char ***names, int64_t *n) EBB_MUST_CHECK;
ebb_status ebb__cnn_predict_open(ebb_ctx *ctx, const train_settings *s, const char *dir,
                                 kind_open **out) EBB_MUST_CHECK;
ebb_status ebb__cnn_predict(kind_open *open, const predict_options *options, predict_fn emit,
                            void *user, predict_summary *out) EBB_MUST_CHECK;

/* A trained run that is open: its best weights, and what it knows of images. */
typedef struct cnn_use {
    ebb_ctx *ctx;
    train_settings s;
    image_card card;
    run_session *session;
    image_set set; /* that is evaluated; fd -1: none */
} cnn_use;
/* Both to be closed in any case. A plan that does not fit is EBB_BUDGET, and another can be tried.
 * What is planned beside the validation program lies at JOB_VOCAB. */
ebb_status ebb__cnn_use_card(cnn_use *u, const char *dir) EBB_MUST_CHECK;
ebb_status ebb__cnn_use_open(cnn_use *u, const char *dir, uint64_t extra) EBB_MUST_CHECK;
void ebb__cnn_use_close(cnn_use *u);

#endif
