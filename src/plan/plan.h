/* plan.h - from graphs and a budget to addresses: every program of a run (training, validation)
 * planned over one arena and one set of variables, with the bytes and seconds it will take.
 *
 *   host   = [ what the caller needs beside tensors | programs | what is away, of a device apart ]
 *   device = [ descriptors of programs | variables: weights, optimiser, state, inputs | transients
 * ]
 *
 * Where the device's memory is the host's, there are no descriptors and both are one budget; where
 * it is apart (device_apart), the budget, the peak and its parts are the device's alone, and the
 * host's bytes are told, and limited, beside them.
 *
 * All programs share the variables (by name) and overlay the transient part. An address is a space,
 * which follows from what lies there, and an offset in it; instructions get the device's addresses
 * when they are written (emit.c).
 */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "base/names.h"
#include "cost/tune.h"
#include "plan/knobs.h"
#include "plan/passes.h"
#include "plan/ranks.h"

/* A program of a run. Its forward graph is given, or built each time that it is looked at, so that
 * the graphs of many programs need not exist at once. What it points to must last until the plan is
 * released. Requests that train come first. Where none trains, the first leads: it must be the
 * largest. */
typedef struct plan_request {
    const char *name;      /* "train", "valid" */
    const ir_graph *graph; /* forward; NULL: build() makes it, in an empty graph */
    bool training;
    int32_t shards; /* parts of the batch, done one after the other (pass/shard.c); 0: one */
    bool alone;     /* not shared by ranks: the first one does it by itself */
    ebb_status (*build)(const struct plan_request *request, ir_graph *out);
    const void *user; /* for build() */
    int32_t index;    /* likewise */
    double share;     /* weight of its seconds in the mean step: how many of the run's steps it is.
                         Where all have 0, the leading program counts alone */
    int32_t use;      /* what the caller has the program for, and ... */
    int32_t item;     /* ... for which of its shapes: see ebb__plan_program */
} plan_request;

/* Host memory that the caller needs beside tensors (staging, vocabulary); reported as data. */
typedef struct plan_extra {
    const char *name;
    uint64_t bytes;
} plan_extra;

typedef struct plan_options {
    const device *dev; /* NULL: the default */
    int members;
    uint64_t budget;         /* bytes; UINT64_MAX: no limit */
    const char *budget_name; /* what messages call it: "--memory" */
    uint64_t host_budget;    /* bytes, of a device apart; 0: no limit */
    const char *disk;        /* folder of a file that values may wait in for backward, where the
                                device's memory is the host's; NULL: there is none */
    uint32_t disabled;       /* bit per pass_id */
    plan_chunks chunks;      /* how nets over images may be cut, and ... */
    plan_encode encode;      /* ... what else may save memory */
    int32_t stash;           /* pass_config.stash */
    pass_density density;    /* of sparse values, where one program trains; 0: none is kept so */
    pass_ranks ranks;
    grad_update_settings update;
    const cost_table *table; /* measured times, until the plan is released; NULL: none */
    /* Where `table` is NULL: called to give it, once all plans are known and their graphs are gone,
     * so that what it brings into memory never lies beside them. NULL: nothing is measured. */
    ebb_status (*look_up)(void *user, const cost_table **table);
    void *look_up_user;
    bool explain;        /* fill ebb_plan.products */
    uint32_t dump_after; /* bit per pass_id */
    pass_dump_fn dump;
    void *dump_user;
    /* Asked before each candidate: true ends planning with EBB_STOPPED. NULL: nobody is asked. */
    bool (*stop)(void *user);
    void *stop_user;
} plan_options;

/* What a program takes under one configuration. */
typedef struct plan_size {
    uint64_t graph_hash; /* of graph and settings before batch_time: two candidates of a request
                            with the same one are the same plan */
    uint64_t load_bytes; /* most transients alive at one time: no placement can take less */
    uint64_t transient_bytes; /* of the placement; before it is made, the load */
    uint64_t gradient_bytes;  /* gradients among the transients when most of those are alive */
    uint64_t heap_bytes;      /* of heaps of sparse values that are there at once (pass/heap.c) */
    uint64_t away_bytes;      /* of what waits outside the device's memory (pass/offload.c) */
    uint64_t program_bytes;   /* of the instructions themselves, rounded as addresses are; of a
                                 device apart, of their descriptors */
    uint64_t instr_bytes;     /* of the instructions in the host's memory, in any case */
    uint64_t program_hash;    /* of kernels, forms and places */
    double seconds, product_seconds; /* of a step, of its products alone; by built-in times */
    int32_t n_instrs, n_views, n_nodes, recomputed_nodes;
    bool placed; /* false: it was called off (plan_bar), and some of the above is 0 */
} plan_size;

/* One plan on the walk from the fastest to the smallest. */
typedef struct plan_choice {
    int32_t at[PLAN_MAX_KNOBS]; /* by knob: the number of its way */
    pass_knobs knobs;           /* what that means to passes */
    const cost_table *forms;    /* by whose times products take forms; NULL: by built-in ones */
    plan_size size;             /* of the leading program */
    uint64_t peak_bytes, activation_bytes; /* of all programs together; as in ebb_plan */
    double seconds;   /* of the mean step of all programs that train, by which plans are compared */
    int32_t fallback; /* where size.heap_bytes > 0: number in plan_walk.fallbacks */
    int32_t row;      /* budget.c's own while it plans; means nothing afterwards */
} plan_choice;

#define PLAN_OFFLOADED "offloaded"

/* What not keeping a layer's forward values as they are saves and costs. */
typedef struct plan_decision {
    char layer[128];
    const char *form; /* that they wait in, or PLAN_OFFLOADED; NULL: they are computed again */
    int32_t nodes;    /* that do it */
    uint64_t bytes;   /* of all that is computed again: no less than what need not be kept; of what
                         waits encoded, by how much that is less */
    double seconds;   /* that these nodes take */
} plan_decision;

typedef struct plan_variable {
    char *name;
    ir_type type;
    ir_role role;
    ir_start start;
    uint64_t offset, bytes; /* in the device's space; of an extra, in the host's */
    bool extra;             /* a plan_extra, whose type means nothing */
    /* An input of a program that trains, beside a device apart: the host has two copies of it, from
     * here on in its space. */
    bool staged;
    uint64_t copies;
    int32_t first_row, all_rows; /* of a part: see ir_value */
    bool shared;   /* a program that ranks share has it: else what this one has is a copy */
    int32_t layer; /* index into plan->layers */
} plan_variable;

enum {
    PLAN_LARGEST = 5,
    PLAN_MAX_CHOICES = 96, /* listed */
    PLAN_MAX_TRIES = 2048, /* looked at */
    PLAN_MAX_PROGRAMS = 80
};

/* What planning may take beside the bytes of a plan: of the 32 MiB that a process may have, what
 * code and libraries leave before kernels are generated. */
#define PLAN_BESIDE_BYTES ((uint64_t)26 << 20)

typedef struct plan_large {
    char what[96]; /* "rnn.l0 lstm_gates t=34" or a variable's name */
    ir_type type;
    uint64_t bytes;
    ir_kind kind;
} plan_large;

/* A form (op_forms), and the bytes of stash that are in it at the peak. */
typedef struct plan_form {
    const char *name;
    uint64_t bytes;
} plan_form;

typedef struct plan_layer {
    char *name;
    uint64_t bytes;
} plan_layer;

/* One kind of product of the leading program (plan_options.explain), the most expensive first. */
typedef struct plan_product {
    cost_key key;
    uint16_t op;
    int32_t count;                     /* in a step */
    int32_t form;                      /* taken */
    double seconds;                    /* of one */
    double expected;                   /* the same as plans are compared by */
    bool measured;                     /* else predicted */
    int32_t n_forms;                   /* offered, best guess first */
    cost_form forms[DEVICE_MAX_FORMS]; /* seconds < 0: not measured */
    char where[48];                    /* layer and phase of the first */
} plan_product;

/* A value that can be read by name after the program has run, until another one runs. */
typedef struct plan_output {
    char *name;
    ir_type type;
    uint64_t offset; /* in the device's space */
} plan_output;

typedef struct plan_program {
    char *name;
    int32_t use, item; /* as requested */
    plan_request request;
    plan_output *outputs; /* once it is compiled */
    int32_t n_outputs;
    int32_t *trained; /* variables that a step updates, as UPDATE_BAD numbers them; likewise */
    int32_t n_trained;
    pass_config config;
    pass_unit unit; /* while has_unit: of the leading program from ebb__plan_make to ebb__plan_emit,
                       of others only while they are compiled */
    bool has_unit;
    plan_size size;
    uint64_t offset;        /* of the program itself in the host's space */
    uint64_t descriptors;   /* of a device apart: where they begin in its space */
    bool shared;            /* other ranks run their parts of it */
    bool agrees;            /* then: all do a step once more if it does not fit one of them */
    plan_messages messages; /* of one that is shared, once it is compiled, until they are proved */
    int32_t fallback; /* number of the program that does the same where this one gives up, which
                         none else asks for; 0: it never does */
} plan_program;

typedef struct ebb_plan {
    ebb_ctx *ctx;
    const device *dev;
    int members;
    uint64_t peak_bytes, least_bytes, keep_all_bytes, keep_all_activation_bytes, budget_bytes;
    uint64_t bytes_by_kind[IR_KINDS];
    plan_form forms[FORMS_MOST]; /* together the stash of bytes_by_kind */
    int32_t n_forms;
    uint64_t activation_bytes; /* not weights, gradients, optimiser; but data, programs, unused */
    double seconds_per_step, seconds_per_step_keep_all, plan_seconds;
    double words_per_step; /* of the mean step: the caller fills it in, for reports */
    uint64_t host_bytes,
        device_bytes;         /* of the two spaces: together the peak, or it is the second */
    uint64_t transient_base;  /* in the device's space */
    uint64_t transient_bytes; /* of the program that has most */
    /* Of values that wait outside the device's memory, of the program that has most; of a device
     * apart, they are the last of the host's, from away_offset on. Addresses of such values begin
     * at away_base, behind all of the device's (emit.c). */
    uint64_t away_bytes, away_offset, away_base;
    char disk[1024];          /* plan_options.disk; "": none */
    int32_t lead;             /* the leading program, whose plans are listed (budget.c) */
    int32_t recomputed_nodes; /* of the leading program */
    plan_decision *decisions; /* first what is computed again; the most bytes first */
    int32_t n_decisions;
    uint64_t hash; /* equal: the same kernels on the same addresses in the same order */
    int32_t nodes; /* of all programs together */
    plan_layer *layers;
    int32_t n_layers;
    plan_large largest[PLAN_LARGEST];
    int32_t n_largest;
    plan_choice choices[PLAN_MAX_CHOICES]; /* no other is smaller and faster; fastest first */
    int32_t n_choices, chosen;
    plan_product *products;
    int32_t n_products;
    plan_variable *variables;
    int32_t n_variables;
    names_table variable_names, layer_names;
    alloc_region stages; /* pass_ranks.layers of all programs */
    void *source; /* what the requests point to, and the table: freed by free_source, if it is
                     the plan's, when the plan is released */
    void (*free_source)(void *source);
    plan_program programs[PLAN_MAX_PROGRAMS];
    int32_t n_programs;
} ebb_plan;

/* Chooses a plan (budget.c says which) and compiles its leading program; others are compiled by
 * ebb__plan_emit, and need not have outputs before. EBB_BUDGET with the least budget in digits and
 * what sets it if none fits; *out is then still given (NULL otherwise on failure), for reports
 * only: it is not verified and must not be opened (run/session.h). Free with ebb__plan_free. */
ebb_status ebb__plan_make(ebb_ctx *ctx, const plan_request *requests, int32_t n_requests,
                          const plan_extra *extras, int32_t n_extras, const plan_options *options,
                          ebb_plan **out) EBB_MUST_CHECK;
void ebb__plan_free(ebb_plan *plan);

/* Writes all programs into the host's space, one after the other: compiles and verifies those that
 * are not there any more, resolves addresses in the device's space, which begins at `arena` as its
 * kernels know it, prepares kernels. Closes every unit. lists[i]: instructions of program i. */
ebb_status ebb__plan_emit(ebb_plan *plan, void *host, void *arena,
                          const device_instr *const **lists) EBB_MUST_CHECK;
/* Lets go of the lists of messages. */
void ebb__plan_drop_messages(ebb_plan *plan);
/* Lets go of graphs, pass scratch, requests and the source: all else remains. */
void ebb__plan_release(ebb_plan *plan);

const plan_variable *ebb__plan_variable(const ebb_plan *plan, const char *name);
const plan_output *ebb__plan_output(const ebb_plan *plan, int32_t index, const char *name);
/* The number of the program that was requested with this use and item; < 0: there is none. */
int32_t ebb__plan_program(const ebb_plan *plan, int32_t use, int32_t item);

/* ---- parts of the above, each in its file ---- */
/* arena.c: adds to the plan the variables of a program's graph that it does not know by name yet,
 * or an extra. */
ebb_status ebb__plan_add_variables(ebb_plan *plan, const plan_request *request,
                                   const ir_graph *graph) EBB_MUST_CHECK;
ebb_status ebb__plan_add_extra(ebb_plan *plan, const plan_extra *extra) EBB_MUST_CHECK;
/* Bytes of all variables; *end: without the last one's rounding, for where no transients follow. */
uint64_t ebb__plan_variable_bytes(const ebb_plan *plan, uint64_t *end);
/* Lays out programs, whose sizes are known, variables and transients. */
void ebb__plan_lay_out(ebb_plan *plan);
/* Compiles a program of a plan that is laid out, as its config says, and verifies it. */
ebb_status ebb__plan_compile(ebb_plan *plan, int32_t index) EBB_MUST_CHECK;
/* Lets go of a program's graph. */
void ebb__plan_close_program(plan_program *program);
/* measure.c: compiles one program only to see what it takes, without verifying it. A bar may call
 * it off: worth() is asked when the graph is known, and again before it is placed, with what is
 * known by then, the rest being 0. False: it is of no use. */
typedef struct plan_bar {
    bool (*worth)(void *user, const plan_size *least);
    void *user;
} plan_bar;
ebb_status ebb__plan_measure(ebb_ctx *ctx, const plan_request *request, const pass_config *config,
                             const plan_bar *bar, plan_size *out) EBB_MUST_CHECK;
/* What a compiled unit takes, placed or not. */
void ebb__plan_size_unit(const pass_unit *unit, plan_size *out);
/* products.c: collects products of common candidates, to be measured; lists those of the plan. */
ebb_status ebb__plan_survey(ebb_ctx *ctx, const plan_request *requests, int32_t n_requests,
                            const plan_options *options, cost_survey *survey,
                            uint64_t *parameter_bytes) EBB_MUST_CHECK;
ebb_status ebb__plan_products(ebb_plan *plan) EBB_MUST_CHECK;
/* decisions.c: counts nodes done again; lists decisions of the leading program by layer. */
int32_t ebb__plan_recomputed(const pass_unit *unit);
ebb_status ebb__plan_list_decisions(ebb_plan *plan) EBB_MUST_CHECK;
/* kept.c: the stash of every layer of the leading program, by form the most at one time; in
 * `region`, names as long as the plan has its graph (ebb__plan_emit). */
typedef struct plan_kept {
    const char *layer; /* first, for base/names */
    uint64_t bytes[FORMS_MOST];
} plan_kept;
ebb_status ebb__plan_kept(const ebb_plan *plan, alloc_region *region, plan_kept **out,
                          int32_t *n) EBB_MUST_CHECK;
/* report.c: fills in bytes by kind and layer, largest values, hash. Transients are taken from the
 * unit: the caller gives that of the program that has most. */
ebb_status ebb__plan_report(ebb_plan *plan, pass_unit *unit) EBB_MUST_CHECK;
/* Bytes of gradients where most transients are alive. */
ebb_status ebb__plan_gradients(pass_unit *unit, uint64_t *bytes) EBB_MUST_CHECK;

#endif
