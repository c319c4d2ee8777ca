/* ebb.h - the public interface of libebb.
 *
 * ebb trains models in the memory you have: build a graph, compile it under a budget in bytes,
 * ask what the plan holds, then run steps that never leave it. Handles are opaque; fallible
 * functions return an ebb_status and leave a sentence in ebb_last_error(); the library never
 * prints and never exits. Nothing here is thread-safe on one handle: use one ebb_ctx a thread.
 *
 * Graph builders return a value id and remember the first mistake, so that a model reads like
 * its equations; ebb_compile() reports that mistake.
 */
#ifndef EBB_H
#define EBB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#include <initializer_list>
extern "C" {
#endif

#if defined(__GNUC__)
#define EBB_API __attribute__((visibility("default")))
#define EBB_MUST_CHECK __attribute__((warn_unused_result))
#else
#define EBB_API
#define EBB_MUST_CHECK
#endif

#define EBB_VERSION "0.1.0"

/* One list: name, value (also the command's exit code), text. */
#define EBB_STATUS_LIST(X)                                                                         \
    X(EBB_OK, 0, "done")                                                                           \
    X(EBB_INTERNAL, 1, "internal error")                                                           \
    X(EBB_USAGE, 2, "wrong usage")                                                                 \
    X(EBB_DATA, 3, "bad data")                                                                     \
    X(EBB_BUDGET, 4, "does not fit the memory budget")                                             \
    X(EBB_MODEL, 5, "bad model or checkpoint")                                                     \
    X(EBB_DIVERGED, 6, "training diverged")                                                        \
    X(EBB_IO, 7, "input or output failed")                                                         \
    X(EBB_NOMEM, 8, "the system gave no memory")                                                   \
    X(EBB_LOST, 9, "a process was lost")                                                           \
    X(EBB_STOPPED, 75, "stopped by a signal, state saved")

typedef enum ebb_status {
#define EBB_STATUS_ENUM(name, value, text) name = value,
    EBB_STATUS_LIST(EBB_STATUS_ENUM)
#undef EBB_STATUS_ENUM
} ebb_status;

EBB_API const char *ebb_status_text(ebb_status status);
EBB_API const char *ebb_version(void);

/* ---- context: errors, log, counted memory ------------------------------------------------ */

typedef struct ebb_ctx ebb_ctx;

typedef enum ebb_log_level {
    EBB_LOG_ERROR,
    EBB_LOG_WARN,
    EBB_LOG_INFO,
    EBB_LOG_DEBUG
} ebb_log_level;
typedef void (*ebb_log_fn)(void *user, ebb_log_level level, const char *line);
/* Text as it is made, not ended by NUL. Other than 0: that is enough. */
typedef int (*ebb_text_fn)(void *user, const char *text, uint64_t bytes);
/* what: "compile": plans that were tried, "plan": programs planned, "run": steps; done of total
 * units; total 0 = not known, until all are done. */
typedef void (*ebb_progress_fn)(void *user, const char *what, uint64_t done, uint64_t total);
/* Other than 0: stop. */
typedef int (*ebb_stop_fn)(void *user);

EBB_API ebb_status ebb_ctx_new(ebb_ctx **out) EBB_MUST_CHECK;
EBB_API void ebb_ctx_free(ebb_ctx *ctx);
EBB_API void ebb_ctx_on_log(ebb_ctx *ctx, ebb_log_fn fn, void *user);
EBB_API void ebb_ctx_on_progress(ebb_ctx *ctx, ebb_progress_fn fn, void *user);
/* Asked again and again while a plan is looked for, which ends with EBB_STOPPED if it says so. */
EBB_API void ebb_ctx_on_stop(ebb_ctx *ctx, ebb_stop_fn fn, void *user);
/* The sentence of the last failure in this context; "" if there was none. */
EBB_API const char *ebb_last_error(const ebb_ctx *ctx);
/* After EBB_BUDGET: the smallest budget that would work, in bytes; 0: it is not known. */
EBB_API uint64_t ebb_least_bytes(const ebb_ctx *ctx);

/* Below, every function that returns an ebb_status or an ebb_value starts a new sentence: after a
 * success ebb_last_error() is "". NULL where a handle or pointer is needed is EBB_USAGE. Strings
 * and arrays given are copied; a context must outlive its graphs and programs. */

/* ---- graph: a model written as its equations ---------------------------------------------- */

typedef struct ebb_graph ebb_graph;

/* One tensor of a graph. Builders give EBB_NO_VALUE on a mistake; the first one is remembered with
 * its sentence and voids all that follows, so results need no checks: passing EBB_NO_VALUE on is
 * harmless. Where an operand is optional, EBB_NO_VALUE leaves it out. */
typedef int32_t ebb_value;
#define EBB_NO_VALUE (-1)

/* Tensors are row-major, of rank 1 to EBB_MAX_RANK; a list is rank 1, a matrix rank 2. "Rows" are
 * all axes but the last, taken together; "columns" are the last axis. */
#define EBB_MAX_RANK 6

/* Rank and sizes at once: ebb_param(g, "w", EBB_DIMS(rows, columns)). In C++ the sizes are int64_t
 * or fit it without narrowing. */
#ifdef __cplusplus
#define EBB_DIMS(...)                                                                              \
    static_cast<int32_t>(std::initializer_list<int64_t>{__VA_ARGS__}.size()),                      \
        std::initializer_list<int64_t>{__VA_ARGS__}.begin()
#else
#define EBB_DIMS(...)                                                                              \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) {                   \
        __VA_ARGS__                                                                                \
    }
#endif

EBB_API ebb_status ebb_graph_new(ebb_ctx *ctx, ebb_graph **out) EBB_MUST_CHECK;
EBB_API void ebb_graph_free(ebb_graph *graph);
/* EBB_OK, or the status of the first mistake, its sentence then being in ebb_last_error(). */
EBB_API ebb_status ebb_graph_status(const ebb_graph *graph);
/* Of the dropouts added from now on; 1 at first. */
EBB_API void ebb_graph_seed(ebb_graph *graph, uint64_t seed);
/* Labels of what is added next, for reports and messages: a layer, a time step (-1: none). */
EBB_API void ebb_layer(ebb_graph *graph, const char *name);
EBB_API void ebb_time(ebb_graph *graph, int32_t time);

/* Variables: values that a program keeps and that are set and read by name. Names are unique, 1 to
 * 200 bytes of UTF-8, none of them control bytes; "train." and what follows it is the library's.
 * All start as zeros. */
EBB_API ebb_value ebb_param(ebb_graph *graph, const char *name, int32_t rank, const int64_t *dims);
EBB_API ebb_value ebb_input_f32(ebb_graph *graph, const char *name, int32_t rank,
                                const int64_t *dims);
EBB_API ebb_value ebb_input_i32(ebb_graph *graph, const char *name, int32_t rank,
                                const int64_t *dims);
/* Carried from one step to the next: ebb_carry() says which value it holds after a step (without
 * it the state changes only by ebb_program_set). No gradient flows through it. */
EBB_API ebb_value ebb_state(ebb_graph *graph, const char *name, int32_t rank, const int64_t *dims);
EBB_API void ebb_carry(ebb_graph *graph, ebb_value state, ebb_value value);

/* Rows of a table [V,E] chosen by a list of ids [R] in 0..V-1: [R,E]. */
EBB_API ebb_value ebb_embed(ebb_graph *graph, ebb_value table, ebb_value ids);
/* plus + x weight^T: x [...,K] of rank 2 or more, weight [N,K]; plus is a bias [N], a sum so far
 * [...,N], or left out. */
EBB_API ebb_value ebb_linear(ebb_graph *graph, ebb_value x, ebb_value weight, ebb_value plus);
/* plus + a b, each transposed first if asked for; plus as above. */
EBB_API ebb_value ebb_matmul(ebb_graph *graph, ebb_value plus, ebb_value a, ebb_value b,
                             int32_t trans_a, int32_t trans_b);
EBB_API ebb_value ebb_transpose(ebb_graph *graph, ebb_value x); /* of a matrix */
/* Element by element; both of one shape. */
EBB_API ebb_value ebb_add(ebb_graph *graph, ebb_value a, ebb_value b);
EBB_API ebb_value ebb_sub(ebb_graph *graph, ebb_value a, ebb_value b);
EBB_API ebb_value ebb_mul(ebb_graph *graph, ebb_value a, ebb_value b);
EBB_API ebb_value ebb_scale(ebb_graph *graph, ebb_value x, double factor);
EBB_API ebb_value ebb_add_row(ebb_graph *graph, ebb_value x, ebb_value row); /* row: list */
EBB_API ebb_value ebb_tanh(ebb_graph *graph, ebb_value x);
EBB_API ebb_value ebb_sigmoid(ebb_graph *graph, ebb_value x);
EBB_API ebb_value ebb_relu(ebb_graph *graph, ebb_value x);
EBB_API ebb_value ebb_softmax(ebb_graph *graph, ebb_value x); /* over the columns */
/* Zeroes elements with probability p in [0,1) and scales the rest by 1/(1-p), whenever the program
 * runs: for evaluation build the graph with p = 0, which gives x itself. The mask is a function of
 * seed, site (a stable name of the place), the label of ebb_time() and the number of the step. */
EBB_API ebb_value ebb_dropout(ebb_graph *graph, ebb_value x, double p, const char *site);
/* Pre-activations z [B,4H] (gates i f g o) and c_prev [B,H] to *h and *c [B,H]. Gives *h; h and c
 * may be NULL. */
EBB_API ebb_value ebb_lstm_cell(ebb_graph *graph, ebb_value z, ebb_value c_prev, ebb_value *h,
                                ebb_value *c);
/* Pre-activations of input and of h_prev [B,3H] (gates r z n; n = tanh(gx + r gh)): h [B,H]. */
EBB_API ebb_value ebb_gru_cell(ebb_graph *graph, ebb_value gx, ebb_value gh, ebb_value h_prev);
/* [begin, begin+len) of an axis, of which the first is 0 and the last also -1. Moves no byte. One
 * value may be sliced along several. */
EBB_API ebb_value ebb_slice(ebb_graph *graph, ebb_value x, int32_t axis, int64_t begin,
                            int64_t len);
/* Joins along an axis; along the first (stack); along the last (concat). Moves no byte where it
 * can. */
EBB_API ebb_value ebb_join(ebb_graph *graph, int32_t axis, const ebb_value *values, int32_t n);
EBB_API ebb_value ebb_stack(ebb_graph *graph, const ebb_value *values, int32_t n);
EBB_API ebb_value ebb_concat(ebb_graph *graph, const ebb_value *values, int32_t n);
EBB_API ebb_value ebb_copy(ebb_graph *graph, ebb_value x);

/* Attention. A stack [S*B,H] is what ebb_stack() makes of S matrices [B,H], B being the batch.
 * Where lengths matter it is stacked from the last position to the first: block j is position
 * S-1-j. */
/* rows [B,H] added to every block; the sum of all blocks [B,H]. */
EBB_API ebb_value ebb_add_each(ebb_graph *graph, ebb_value stack, ebb_value rows);
EBB_API ebb_value ebb_sum_each(ebb_graph *graph, ebb_value stack, int64_t batch);
/* Scores [S,B]: each row of the stack times a list [H], or times its row of rows [B,H]. */
EBB_API ebb_value ebb_dot_rows(ebb_graph *graph, ebb_value stack, ebb_value list, int64_t batch);
EBB_API ebb_value ebb_dot_each(ebb_graph *graph, ebb_value stack, ebb_value rows);
/* Softmax of scores [S,B] over the positions below lengths [B] (i32), column by column: [S,B]. The
 * other positions get 0, whatever their scores. */
EBB_API ebb_value ebb_mask_softmax(ebb_graph *graph, ebb_value scores, ebb_value lengths);
/* The sum of all blocks, each row times its weight [S,B]: [B,H]. A row of weight 0 is not read. */
EBB_API ebb_value ebb_weighted_sum(ebb_graph *graph, ebb_value weights, ebb_value stack);
/* x [B,H] with the rows b zeroed whose length, lengths [B] (i32), is not above the position. */
EBB_API ebb_value ebb_mask_rows(ebb_graph *graph, ebb_value x, ebb_value lengths, int64_t position);
/* Every row of x [R,H] brought to mean 0 and variance 1 (biased, eps added), times gain [H] plus
 * bias [H]. batch: that of a stack, which saves memory in its gradient; 0: x is none. */
EBB_API ebb_value ebb_layer_norm(ebb_graph *graph, ebb_value x, ebb_value gain, ebb_value bias,
                                 double eps, int64_t batch);

/* The sum and the mean of all elements: [1]. A squared error is
 * ebb_mean(g, ebb_mul(g, d, d)). */
EBB_API ebb_value ebb_sum(ebb_graph *graph, ebb_value x);
EBB_API ebb_value ebb_mean(ebb_graph *graph, ebb_value x);
/* Mean over rows of the negative log-likelihood of labels [R] under softmax of logits [R,V], in
 * nats: [1]. Labels are below V; rows with a negative label do not count. */
EBB_API ebb_value ebb_cross_entropy(ebb_graph *graph, ebb_value logits, ebb_value labels);
/* The same with a part of each label, 0 to 1, spread evenly over all V classes (label smoothing).
 */
EBB_API ebb_value ebb_cross_entropy_smooth(ebb_graph *graph, ebb_value logits, ebb_value labels,
                                           double smooth);

/* What is trained: one f32 number, read as "loss" after a step. */
EBB_API void ebb_loss(ebb_graph *graph, ebb_value value);
/* A computed value that can be read by this name after a step. */
EBB_API void ebb_output(ebb_graph *graph, const char *name, ebb_value value);
/* The parameter's gradient, before clipping, is a result named "grad." and the parameter's name,
 * where the graph is trained. */
EBB_API void ebb_gradient(ebb_graph *graph, ebb_value param);

/* ---- several processes ----------------------------------------------------------------------- */

/* The processes that mpirun has started, this one among them, numbered from 0; number 0 leads. Each
 * opens them, builds the same graphs and compiles these with them. Then the leader goes on as one
 * process would: it sets inputs, runs steps, reads, saves; all others call ebb_program_follow() and
 * need no data. Results have the bits of one process with as many shards. */
typedef struct ebb_ranks ebb_ranks;

typedef char *(*ebb_getenv_fn)(const char *name);

/* Always starts as ebb_ranks_options_default(); grows as ebb_options does. */
typedef struct ebb_ranks_options {
    uint32_t version;
    int32_t reserved_word;
    double lost_after;    /* 30: seconds without a sign of life until a process counts as lost */
    const char *plugin;   /* NULL: ebb_mpi.so beside the program or the library, or as installed */
    uint64_t reserved[6]; /* 0 */
} ebb_ranks_options;
EBB_API ebb_ranks_options ebb_ranks_options_default(void);

/* environment: getenv, which says whether mpirun has started this process; if not, or NULL, it is
 * alone, and leads itself. Waits for all others; once in a process, and never beside other use of
 * MPI. EBB_USAGE if MPI cannot be used. options NULL: the defaults. */
EBB_API ebb_status ebb_ranks_open(ebb_ctx *ctx, ebb_getenv_fn environment,
                                  const ebb_ranks_options *options, ebb_ranks **out) EBB_MUST_CHECK;
EBB_API int32_t ebb_ranks_count(const ebb_ranks *ranks);
EBB_API int32_t ebb_ranks_number(const ebb_ranks *ranks); /* of this process */
/* Waits for all others, unless one has failed. After a failure in the middle of what all do, the
 * others are told; the process should then end with a status other than 0. */
EBB_API void ebb_ranks_close(ebb_ranks *ranks);

/* Who adds up and applies gradients, where processes have parts of the batch: each its slice, with
 * the optimiser's state; all of them everything; or the leader. Auto: slices or copies, whichever
 * is forecast to have the shorter step of those that fit each process; compiling takes longer then.
 * The bits are the same. */
typedef enum ebb_reduce {
    EBB_REDUCE_SLICES,
    EBB_REDUCE_COPIES,
    EBB_REDUCE_CENTRAL,
    EBB_REDUCE_AUTO
} ebb_reduce;

/* ---- compiling under a budget -------------------------------------------------------------- */

typedef enum ebb_optimizer {
    EBB_FORWARD, /* nothing is trained: the program only computes its outputs */
    EBB_SGD,
    EBB_ADAM,
    EBB_ADAMW
} ebb_optimizer;

/* Always starts as ebb_options_default(). The size never changes: later members come out of
 * `reserved`. */
typedef struct ebb_options {
    uint32_t version;         /* set by ebb_options_default() */
    int32_t threads;          /* 0: as many as the machine allows */
    uint64_t memory;          /* budget in bytes; 0: 80% of what the machine allows, less 32 MiB */
    ebb_optimizer optimizer;  /* EBB_SGD */
    double momentum;          /* 0: sgd */
    double beta1, beta2, eps; /* 0.9, 0.999, 1e-8: adam, adamw */
    double weight_decay;      /* 0 */
    double clip;              /* 0 (off): greatest norm of all gradients together */
    const char *disable;      /* NULL: names of optional passes, separated by commas */
    /* 0 or 1: none. Else the rows of the batch are done in so many parts, one after the other, and
     * gradients of parts are added up in an order that this number alone decides. It must divide
     * the batch, and rows must go through the graph apart from each other, up to the loss. */
    int64_t shards;
    /* NULL: the CPU. "opencl": the first device of OpenCL that can be used; "opencl:P.D": device D
     * of platform P; "auto": the first of OpenCL's that is no CPU, else the CPU. The same bits on
     * all. Where a device has a memory of its own, the budget and the plan's bytes are of that, 0
     * is 80% of it, and the largest buffer of its driver is a bound. EBB_USAGE if it cannot be
     * used. */
    const char *device;
    const char *kernels; /* NULL: a folder in which the device's compiled kernels are kept */
    /* NULL: this process alone. Else all of these compile, together and with the same options but
     * `threads` and `memory`, which are each process's own. Something must be trained; graphs that
     * are only computed are the leader's, and have no states, where there are several groups
     * (below). shards 0: as many as there are groups. One memory at a time. EBB_LOST. */
    ebb_ranks *ranks;
    /* So many processes, one after the other, are a group, and share the layers, as ebb_layer()
     * names them, of a part of the batch; 0 or 1: each has them all. It must divide their number.
     */
    int32_t stages;
    int32_t reduce;       /* EBB_REDUCE_SLICES: an ebb_reduce */
    uint64_t reserved[3]; /* 0 */
} ebb_options;

EBB_API ebb_options ebb_options_default(void);

/* A device that may be chosen, as long as the function runs that is told of it. */
typedef struct ebb_device {
    const char *name;                     /* "cpu", "opencl:0.0" */
    const char *what;                     /* model and driver */
    const char *why_not;                  /* "": it can be used */
    uint64_t memory_bytes, largest_bytes; /* its memory, and the most of it in one piece; 0: the
                                             host's */
    int32_t is_cpu;                       /* 1: it computes on processors of the host */
    int32_t reserved_word;
    uint64_t reserved[4];
} ebb_device;
typedef void (*ebb_device_fn)(void *user, const ebb_device *device);
/* Tells of each, the CPU first. Those that look usable are asked to compute, which takes seconds
 * where their kernels are not compiled yet; `kernels` as in ebb_options. */
EBB_API ebb_status ebb_devices(ebb_ctx *ctx, const char *kernels, ebb_device_fn fn,
                               void *user) EBB_MUST_CHECK;

/* Who owns a byte of the plan. */
typedef enum ebb_kind {
    EBB_KIND_WEIGHTS,
    EBB_KIND_GRADIENTS,
    EBB_KIND_OPTIMIZER,
    EBB_KIND_STASH, /* kept from forward to backward */
    EBB_KIND_WORKSPACE,
    EBB_KIND_DATA, /* inputs and states */
    EBB_KIND_PROGRAM,
    EBB_KIND_UNUSED,
    EBB_KINDS
} ebb_kind;
/* Structs that the library fills have room for kinds and dimensions that later versions may add, so
 * that a program compiled today goes on working with them. */
#define EBB_KIND_ROOM 16
#define EBB_DIM_ROOM 8

EBB_API const char *ebb_kind_name(ebb_kind kind); /* "?" if there is none */

typedef struct ebb_plan_info {
    uint64_t peak_bytes;     /* what the program uses, exactly */
    uint64_t least_bytes;    /* the smallest budget that works */
    uint64_t keep_all_bytes; /* what it would use if nothing were saved */
    uint64_t budget_bytes;
    uint64_t bytes_by_kind[EBB_KIND_ROOM]; /* by ebb_kind; sums to peak_bytes */
    double seconds_per_step;               /* predicted */
    int64_t nodes;
    uint64_t hash; /* equal plans have equal hashes */
    int32_t threads;
    int32_t reduce; /* an ebb_reduce, never auto: of several processes; else 0 */
    uint64_t reserved[8];
} ebb_plan_info;

typedef struct ebb_program ebb_program;

typedef enum ebb_picture {
    EBB_PICTURE_STEP, /* bytes over one step, by layer and kind */
    EBB_PICTURE_CURVE /* time against memory: every plan worth taking */
} ebb_picture;

/* Plans only: no memory of the plan is taken. With EBB_BUDGET *info is filled too (with the
 * smallest plan); with any other failure it is zeros. options NULL: the defaults. */
EBB_API ebb_status ebb_graph_plan(const ebb_graph *graph, const ebb_options *options,
                                  ebb_plan_info *info) EBB_MUST_CHECK;
/* The plan as an SVG document; `title` (may be NULL) says what was planned. With EBB_BUDGET the
 * picture of the smallest plan is given too. */
EBB_API ebb_status ebb_graph_draw(const ebb_graph *graph, const ebb_options *options,
                                  ebb_picture picture, const char *title, ebb_text_fn fn,
                                  void *user) EBB_MUST_CHECK;
/* A program that fits the budget: the smallest within 2% of the fastest. EBB_BUDGET if none does:
 * the sentence names the least budget that would work and what sets it. The graph can be freed or
 * compiled again afterwards; its own memory is not part of the budget. */
EBB_API ebb_status ebb_compile(const ebb_graph *graph, const ebb_options *options,
                               ebb_program **out) EBB_MUST_CHECK;
/* Several graphs over one set of variables and one memory, e.g. to train, to evaluate, to predict:
 * variables of one name are one, and what a step computes lies where the others' steps do. The
 * first n_training of the n graphs are trained by the options' optimiser, the others only computed.
 * out[i] is the program of graphs[i]; all count as one plan, in bytes and in ebb_program_plan(). An
 * output holds until another of the programs runs. Each is to be freed; memory goes with the last.
 */
EBB_API ebb_status ebb_compile_all(const ebb_graph *const *graphs, int32_t n, int32_t n_training,
                                   const ebb_options *options, ebb_program **out) EBB_MUST_CHECK;
EBB_API void ebb_program_free(ebb_program *program);
/* Of a process that does not lead: does what the leader's calls ask for, until that frees its
 * programs. Nothing else can be done with the program but ask for its plan and free it.
 * EBB_LOST. */
EBB_API ebb_status ebb_program_follow(ebb_program *program) EBB_MUST_CHECK;

/* ---- running -------------------------------------------------------------------------------- */

EBB_API ebb_status ebb_program_plan(const ebb_program *program, ebb_plan_info *info);
/* Highest byte of the plan used so far, tracked apart from the plan. */
EBB_API uint64_t ebb_program_measured(const ebb_program *program);

typedef enum ebb_dtype { EBB_F32, EBB_I32, EBB_F64 } ebb_dtype;
typedef enum ebb_role {
    EBB_ROLE_PARAM,
    EBB_ROLE_SLOT, /* optimiser state: "momentum.", "exp_avg.", "exp_avg_sq." before the parameter
                    */
    EBB_ROLE_STATE,
    EBB_ROLE_INPUT,
    EBB_ROLE_OUTPUT
} ebb_role;

typedef struct ebb_shape {
    ebb_role role;
    ebb_dtype dtype;
    int32_t rank;
    int32_t reserved;
    int64_t dims[EBB_DIM_ROOM]; /* 0 beyond rank */
    uint64_t bytes;
} ebb_shape;

/* Of a value of a graph, as it is built. A parameter, a state, an input; else it is computed
 * (EBB_ROLE_OUTPUT). */
EBB_API ebb_status ebb_value_shape(const ebb_graph *graph, ebb_value value,
                                   ebb_shape *out) EBB_MUST_CHECK;
/* Names of all variables and outputs: index 0, 1, ... until NULL. Owned by the program. */
EBB_API const char *ebb_program_name(const ebb_program *program, int32_t index);
EBB_API ebb_status ebb_program_shape(ebb_program *program, const char *name, ebb_shape *out);
/* `bytes` must be the value's size. Ids and labels are checked against what they index (EBB_DATA;
 * nothing is written then). Outputs cannot be set. Neither call allocates. */
EBB_API ebb_status ebb_program_set(ebb_program *program, const char *name, const void *data,
                                   size_t bytes) EBB_MUST_CHECK;
EBB_API ebb_status ebb_program_get(ebb_program *program, const char *name, void *data,
                                   size_t bytes) EBB_MUST_CHECK;
/* The bytes of a value themselves, to be read, and written unless it is an output, between steps;
 * valid as long as the program. shape may be NULL. EBB_USAGE where ids or labels are checked when
 * they are set, where the device has memory that the host cannot touch, and of what several
 * processes keep. */
EBB_API ebb_status ebb_program_data(ebb_program *program, const char *name, void **data,
                                    ebb_shape *shape) EBB_MUST_CHECK;

/* Starts over: parameters uniform in +-1/sqrt(columns), those of rank 1 zero, as a function of seed
 * and name; slots and states zero; step 0. */
EBB_API ebb_status ebb_program_init(ebb_program *program, uint64_t seed) EBB_MUST_CHECK;
/* One step; never allocates. EBB_DIVERGED if the loss or a gradient is not finite: the parameters
 * are then not to be trusted. The learning rate counts only where something is trained. */
EBB_API ebb_status ebb_program_run(ebb_program *program, double learning_rate) EBB_MUST_CHECK;
EBB_API double ebb_program_loss(const ebb_program *program);      /* of the last step; NaN: none */
EBB_API double ebb_program_grad_norm(const ebb_program *program); /* before clipping; NaN: none */
/* Steps run since the start: what Adam and dropout count by. Programs that train in one memory
 * count together. */
EBB_API uint64_t ebb_program_steps(const ebb_program *program);
EBB_API void ebb_program_set_steps(ebb_program *program, uint64_t steps);

/* All parameters as a safetensors file: written beside, synced, then renamed. */
EBB_API ebb_status ebb_program_save(ebb_program *program, const char *path) EBB_MUST_CHECK;
/* Every parameter from a file (others in it are ignored); EBB_MODEL if one is missing or of another
 * shape, or if the file is damaged: some parameters may have been replaced by then. */
EBB_API ebb_status ebb_program_load(ebb_program *program, const char *path) EBB_MUST_CHECK;
/* All that a run is taken up again from: parameters, optimiser state, states and the number of
 * steps. A run that is saved, loaded and gone on with ends with the bits of an unbroken one. */
EBB_API ebb_status ebb_program_save_all(ebb_program *program, const char *path) EBB_MUST_CHECK;
EBB_API ebb_status ebb_program_load_all(ebb_program *program, const char *path) EBB_MUST_CHECK;
/* Every parameter of `to` from the one of that name in `from`: e.g. from training to sampling. */
EBB_API ebb_status ebb_program_copy(ebb_program *to, const ebb_program *from) EBB_MUST_CHECK;

/* ---- trained runs ---------------------------------------------------------------------------- */

/* A run that was trained into a folder (ebb train), opened to be used: its best weights, and what
 * belongs to them. What it is used for is planned at the first call, under the budget, and kept for
 * calls of the same kind; another use takes its place. So the budget holds at any time, and the
 * first call of a use takes longest. Results are those of the command: same bits. */
typedef struct ebb_run ebb_run;

/* Always starts as ebb_run_options_default(); grows as ebb_options does. */
typedef struct ebb_run_options {
    uint32_t version;
    int32_t threads; /* 0: as the run was trained with */
    uint64_t memory; /* budget in bytes; 0: that of the training */
    int64_t batch;   /* sentences, lines or images at once, fewer if the budget asks for it; never
                        changes a result; 0: as the command does */
    const char *weights; /* NULL: the best; "last": of the last step saved; or a safetensors file */
    const char *device, *kernels; /* as in ebb_options; NULL: the CPU, whatever it was trained on */
    uint64_t reserved[5];         /* 0 */
} ebb_run_options;

EBB_API ebb_run_options ebb_run_options_default(void);

/* EBB_MODEL if there is no run in the folder. options NULL: the defaults. */
EBB_API ebb_status ebb_run_open(ebb_ctx *ctx, const char *dir, const ebb_run_options *options,
                                ebb_run **out) EBB_MUST_CHECK;
EBB_API void ebb_run_close(ebb_run *run);
EBB_API const char *ebb_run_kind(const ebb_run *run); /* "lm", "nmt", "cnn" */
/* Of what is open at the moment: EBB_USAGE before the first use. */
EBB_API ebb_status ebb_run_plan(const ebb_run *run, ebb_plan_info *info);
EBB_API uint64_t ebb_run_measured(const ebb_run *run); /* 0 before the first use */

/* How its training went, as an SVG document: losses and what validation found, over the steps.
 * EBB_DATA before anything was measured. */
EBB_API ebb_status ebb_run_draw(ebb_run *run, ebb_text_fn fn, void *user) EBB_MUST_CHECK;

/* Lines of text: NUL ends one, and it has no line end. A run of another kind is EBB_USAGE, in all
 * the calls below. While they work ebb_ctx_on_stop() is asked again and again: EBB_STOPPED. */

/* What becomes of a word that the model has not: the source word that it attended to most stands
 * for it; it is never written, the next likeliest is; or it stays, as <unk>. */
typedef enum ebb_unk { EBB_UNK_REPLACE, EBB_UNK_BAN, EBB_UNK_KEEP } ebb_unk;

/* Always starts as ebb_translate_options_default(). */
typedef struct ebb_translate_options {
    uint32_t version;
    int32_t beam;              /* 5: translations of a line followed side by side, 1 to 64 */
    int32_t nbest;             /* 1: of them wanted, at most beam */
    int32_t unk;               /* EBB_UNK_REPLACE: what becomes of <unk>, an ebb_unk */
    double length_penalty;     /* 1: score = log probability / length^this */
    double max_ratio;          /* 2: a translation has at most so many tokens for one, and 10 */
    const char *const *others; /* an ensemble: folders of other runs, of the same sizes and words;
                                  the mean of all their probabilities is followed; NULL: none */
    uint64_t n_others;         /* 0: of them, at most 15; their weights as this run's */
    uint64_t reserved[6];      /* 0 */
} ebb_translate_options;
EBB_API ebb_translate_options ebb_translate_options_default(void);

/* Lives until the function returns. */
typedef struct ebb_translation {
    uint64_t line; /* from 0 */
    int32_t rank;  /* from 0, the best */
    int32_t ended; /* 0: it was ended for its length */
    const char *text;
    uint64_t bytes;
    double log_prob, score; /* natural */
    uint64_t reserved[4];
} ebb_translation;
/* In the order of lines, then ranks. Other than 0: stop, which is EBB_STOPPED. */
typedef int (*ebb_translation_fn)(void *user, const ebb_translation *found);
/* A line that is longer than the plan has room for gets a new plan, of fewer lines at once where
 * the budget asks for it. If it does not fit even so, or has more than 2047 tokens, its beginning
 * is translated, which the log says (EBB_LOG_WARN). */
EBB_API ebb_status ebb_run_translate(ebb_run *run, const char *const *lines, uint64_t n,
                                     const ebb_translate_options *options, ebb_translation_fn fn,
                                     void *user) EBB_MUST_CHECK;

/* Always starts as ebb_generate_options_default(). */
typedef struct ebb_generate_options {
    uint32_t version;
    int32_t stop_at_eos;  /* 0; else the text ends with the first line end */
    int64_t tokens;       /* 200: how many to write */
    double temperature;   /* 1; 0: always the likeliest */
    uint64_t seed;        /* 1 */
    const char *prompt;   /* NULL: a new line */
    int64_t top_k;        /* 0: all; else only the so many likeliest tokens are drawn */
    double top_p;         /* 1; else only the likeliest, as few as have this share together */
    uint64_t reserved[6]; /* 0 */
} ebb_generate_options;
EBB_API ebb_generate_options ebb_generate_options_default(void);
EBB_API ebb_status ebb_run_generate(ebb_run *run, const ebb_generate_options *options,
                                    ebb_text_fn fn, void *user) EBB_MUST_CHECK;

/* How likely a line is: exp(-log_prob / tokens) is its perplexity. */
typedef struct ebb_score {
    double log_prob; /* natural; NaN: the line or its source is longer than the model reads */
    uint64_t tokens, unknown; /* its end included; those that the vocabulary has not */
    uint64_t reserved;
} ebb_score;
/* Each line by itself: of a language model from its initial state (sources NULL), of a translation
 * model as the translation of sources[i]. out[n]. */
EBB_API ebb_status ebb_run_score(ebb_run *run, const char *const *sources, const char *const *lines,
                                 uint64_t n, ebb_score *out) EBB_MUST_CHECK;

/* What a net tells apart; NULL, or 0: it has no name, or is no net. */
EBB_API int64_t ebb_run_classes(const ebb_run *run);
EBB_API const char *ebb_run_class_name(const ebb_run *run, int64_t index);
/* How likely images are of each class: probabilities [n, classes]. PNG and JPEG files, or pixels u8
 * [n, height, width, channels] of 1 channel or 3, which are brought to the net's size as a file's
 * are. A file that cannot be decoded is EBB_DATA, or NaNs where the run leaves such files out. */
EBB_API ebb_status ebb_run_predict_files(ebb_run *run, const char *const *paths, uint64_t n,
                                         double *probabilities) EBB_MUST_CHECK;
EBB_API ebb_status ebb_run_predict(ebb_run *run, const uint8_t *pixels, uint64_t n, uint32_t height,
                                   uint32_t width, uint32_t channels,
                                   double *probabilities) EBB_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* EBB_H */
