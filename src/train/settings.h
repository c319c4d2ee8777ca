/* settings.h - every setting of a run, with plain types. The options of its kind (option.h) name
 * its members; the run's `config` file is its dump. What changes the mathematics is marked there.
 */
#ifndef TRAIN_SETTINGS_H
#define TRAIN_SETTINGS_H

#include "data/buckets.h"
#include "data/text.h"
#include "grad/update.h"
#include "model/nmt.h"
#include "plan/knobs.h"

#include <stdbool.h>

typedef enum train_schedule {
    SCHEDULE_CONSTANT,
    SCHEDULE_PLATEAU,
    SCHEDULE_WARMUP,
    SCHEDULE_COSINE,
    SCHEDULE_INVERSE
} train_schedule;
#define TRAIN_SHAPE_LIST "8,16,24,32,60" /* the usual lengths of BUCKET_STATIC */

/* Formats of op/narrow.h. */
typedef enum train_stash {
    TRAIN_STASH_NONE,
    TRAIN_STASH_FP16,
    TRAIN_STASH_FP10,
    TRAIN_STASH_FP8
} train_stash;

/* A size as the user gave it: bytes, a share of what the machine allows, or auto. It holds for each
 * of several processes, unless each has its own. */
typedef enum train_memory_form { MEMORY_AUTO, MEMORY_BYTES, MEMORY_PERCENT } train_memory_form;
typedef struct train_memory {
    train_memory_form form;
    uint64_t bytes;
    double percent;
    int32_t n_ranks; /* 0: all have the same */
    uint64_t by_rank[PASS_MOST_RANKS];
} train_memory;

typedef enum train_reduce {
    TRAIN_REDUCE_AUTO,
    TRAIN_REDUCE_SLICES,
    TRAIN_REDUCE_COPIES,
    TRAIN_REDUCE_CENTRAL
} train_reduce;

typedef enum train_only { TRAIN_ONLY_ALL, TRAIN_ONLY_MESSAGES, TRAIN_ONLY_COMPUTE } train_only;

enum { SETTINGS_OWN_BYTES = 256, SETTINGS_EPOCHS = 10 }; /* epochs where nothing else is said */

typedef struct train_settings {
    const struct model_kind *kind;
    /* Of a kind that has its own settings, those: a struct of at most so many bytes. */
    _Alignas(8) unsigned char own[SETTINGS_OWN_BYTES];
    /* data */
    const char *train_path, *valid_path, *out_dir; /* valid may be NULL */
    const char *train_target, *valid_target;       /* nmt: the other side, line by line */
    const char *page;      /* evaluation: file for a page about it; NULL: none */
    bool per_line;         /* evaluation of pairs: what each line scores */
    const char *init_path; /* safetensors file with the starting weights; NULL: drawn */
    const char *weights;   /* of a run that is used: "best" (NULL too), "last", or a file */
    text_mode tokens;
    int64_t codes;                /* of TEXT_BPE: pairs to learn, where none are given */
    const char *codes_from;       /* file of codes, or folder of a run with them; NULL: learnt */
    double codes_dropout;         /* nmt: share of pairs passed over, anew in every epoch */
    double token_dropout;         /* nmt: share of tokens that are read as <unk> while training */
    bool codes_apart;             /* nmt: sources and targets have codes of their own */
    int64_t vocab;                /* at most; 0: all words of the text */
    const char *vocab_from;       /* file, or folder of a run, to take it from; NULL: counted */
    int64_t new_words;            /* of the text, added to one that is taken */
    int64_t src_vocab, tgt_vocab; /* nmt: of one side; 0: vocab */
    int64_t max_len;              /* words of a sentence; longer ones are left out */
    bool by_sentence;             /* lm: lines are sentences, each starts from zeros */
    bool split_long;              /* by sentence: longer ones are split instead */
    /* model */
    lm_cell cell;
    int64_t layers, hidden, embed; /* embed 0: hidden */
    bool tie;
    double dropout;
    /* nmt only */
    nmt_attention attention;
    int64_t enc_layers, dec_layers;
    bool feed, layer_norm, tie_src;
    bool bidirectional, residual, init_decoder; /* see model/nmt.h */
    double smoothing;
    int64_t src_len, tgt_len; /* positions, where there is no text */
    /* batch */
    int64_t batch;          /* 0: the largest that fits; a number once ebb__job_fit was called */
    int64_t batch_tokens;   /* padded tokens of a batch, in place of sentences; 0: by `batch` */
    bucket_strategy bucket; /* which sentences share batches */
    int64_t shapes;         /* at most, that batches are padded to */
    const char *shape_list; /* of BUCKET_STATIC, which AUTO tries too; NULL: the usual one */
    int64_t bptt;
    int64_t shards; /* parts of a batch, done one after the other; divides it */
    /* optimiser */
    grad_optimizer optimizer;
    double average; /* decay of an exponential average of the weights; 0: there is none */
    double lr, momentum, beta1, beta2, eps, weight_decay, clip;
    train_schedule schedule;
    int64_t warmup;      /* steps; with every schedule; 0: none */
    int64_t lr_patience; /* plateau: validations without improvement before the rate is divided */
    double lr_factor;    /* plateau: multiplied into the rate */
    /* length */
    int64_t epochs, steps; /* 0: not limited by this; both 0: the default number of epochs */
    int64_t patience;      /* validations without improvement before the run ends; 0: no limit */
    int64_t valid_every;   /* steps between validations; 0: after every epoch */
    unsigned valid_metric; /* which of the kind's metrics decides which weights are the best */
    /* running */
    int64_t save_every, log_every; /* steps; save_every 0: at epoch ends only */
    int64_t keep;                  /* newest weights that stay as step-<step>.safetensors */
    int64_t samples;               /* nmt: translations shown after a validation */
    const char *tensorboard;       /* folder for event files; NULL: none */
    bool fresh;
    const char *override; /* "lr=0.0001,dropout=0.1": what a run that goes on may have changed of
                             these, the settings have it already; NULL: nothing */
    uint64_t seed;
    int64_t threads;          /* 0: all the machine allows */
    const struct device *dev; /* NULL: the default */
    struct comm_link *link;   /* of the processes that share the run; NULL: there is one */
    int64_t ranks, rank;     /* plan, without a link: so many processes, of which this is planned */
    const char *network;     /* plan, virtual_clock: between them, "1G,50us"; NULL: shared memory */
    const char *trace;       /* plan: folder for what SimGrid replays; NULL: none */
    int64_t stages;          /* processes that share the layers of a part of the batch */
    int64_t chunk_steps;     /* time steps that stages hand on together; 0: as is best */
    const pass_stages *ways; /* what was chosen of stages, for all processes; NULL: nothing yet */
    train_reduce reduce;     /* who adds up and applies gradients of several processes */
    train_only only;         /* bench: steps leave the rest out */
    bool virtual_clock;      /* bench: also the time of processes with a core each */
    double lost_after;       /* seconds without an answer before a process counts as lost */
    train_memory memory;
    train_memory host_memory; /* beside a device with a memory of its own; MEMORY_AUTO: no limit */
    const char *disk; /* folder of a file that values may wait in for backward; NULL: none */
    uint64_t budget;  /* bytes that `memory` stood for when the batch was fitted; 0: ask again */
    const char *tune_folder; /* where measured times are kept; NULL: built-in ones only */
    double tune_seconds;     /* to measure what is not known yet; 0: do not */
    bool explain;            /* plan: list the products */
    bool profile;            /* bench: observe steps too */
    uint32_t disabled;       /* passes; bit per pass_id */
    plan_chunks chunks;      /* how nets over images may be cut, and ... */
    plan_encode encode;      /* ... what else may save memory */
    train_stash stash;       /* what waits for backward is rounded to */
    pass_density density;    /* of sparse values; 0: none is kept so */
    uint32_t dump_after;     /* passes; their graphs go to: */
    void (*dump)(void *user, const char *pass, const char *text);
    void *dump_user;
} train_settings;

/* Settings of a run of this kind, all options at their defaults. */
ebb_status ebb__settings_init(ebb_ctx *ctx, const struct model_kind *kind,
                              train_settings *out) EBB_MUST_CHECK;
extern const char *const ebb__settings_stashes[];    /* names, by train_stash */
extern const char *const ebb__settings_optimizers[]; /* names, by grad_optimizer */
/* Fills in what depends on other settings (rate, epochs, warm-up, those of the kind) and checks
 * them together. Doing it again changes nothing. */
ebb_status ebb__settings_resolve(ebb_ctx *ctx, train_settings *settings) EBB_MUST_CHECK;
/* How many processes share the run. */
int64_t ebb__settings_ranks(const train_settings *settings);
/* How large a batch is: "20", or "4096 tokens". */
typedef struct settings_batch {
    char text[24];
} settings_batch;
settings_batch ebb__settings_batch(const train_settings *settings);

#endif
