/* op.h - what an op is: one definition with columns, in src/op/<family>.c, listed in ops.def.
 *
 * Passes read columns and flags, not op codes. `ref` is the scalar kernel: the specification.
 * Every other kernel of the op gives the same bits. The same source text compiled for double
 * (`ref64`) is what gradients are checked against by finite differences.
 */
#ifndef OP_OP_H
#define OP_OP_H

#include "ir/graph.h"
#include "op/adjoint.h"

#include <stdatomic.h>

typedef enum op_code {
#define OP(upper, lower, operands, text) OP_##upper,
#include "op/ops.def"
#undef OP
    OP_COUNT
} op_code;

/* OP_MAX_SPLIT: most operands of a node that can be split by rows. */
enum {
    OP_MAX_SPLIT = 6,
    OP_MAX_READS = 3,
    OP_MAX_PAIRS = 3,
    OP_MAX_SAMPLE_IN = 7,
    OP_MAX_REBUILD = 2
};

/* Every op gives the same bits for the same operands, and has no effect but its results. */
enum op_flag {
    OPF_ELEMENTWISE = 1 << 0, /* element i of the results reads only element i of the operands */
    OPF_RANDOM = 1 << 1,      /* draws by a counter, so a replay draws the same; no pass asks */
    OPF_HEAVY = 1 << 2,       /* more arithmetic than traffic: repeated only if pass_knobs.heavy */
    OPF_ALIAS = 1 << 3,       /* moves no byte: results and operands share addresses */
    OPF_NOGRAD = 1 << 4,      /* has no gradient, on purpose */
    OPF_LOSS = 1 << 5,        /* row-wise end of a chain that the chunk pass may split */
    OPF_VARIADIC = 1 << 6,    /* any number of operands >= n_in */
    OPF_DECODES = 1 << 7,     /* gives back what was kept in another form: no work done again */
    OPF_ROOM = 1 << 8,        /* its result is whatever lies there, for others to write to */
    OPF_STOPS = 1 << 9,       /* where the first word of its result is not 0, the step ends there */
    OPF_GROWS = 1 << 10,      /* its first result begins with operand 0, and may be longer */
};

/* What an op makes use of in an operand. Where that is less than its value, a pass could keep fewer
 * bytes until the op reads it. A shape alone is an attribute, not an operand. */
typedef enum op_read {
    READ_VALUE,
    READ_SIGN,  /* of each element only whether it is above zero */
    READ_INDEX, /* integers that name rows or columns of other operands or of results */
} op_read;

/* What backward reads of a result where what waits for it is rounded (pass/stash.c). Views are
 * always made again. */
typedef enum op_stash {
    STASH_ROUND,  /* the result, rounded */
    STASH_AGAIN,  /* the result once more, made of what backward reads of the operands */
    STASH_EITHER, /* rounded behind the op or before it are the same: where operands are rounded, as
                     the first, else as the second */
    STASH_EXACT,  /* the result as it is, since it is small */
} op_stash;

/* What an op says of zeros in its first result, of which no element is below 0 where it says so. */
typedef enum op_zeros {
    ZEROS_UNKNOWN,
    ZEROS_CUT,   /* 0 stands for all below it: they are many */
    ZEROS_SUM,   /* nothing, but what is cut of it has fewer: it is a sum of such results */
    ZEROS_KEPT,  /* of operand 0: where that has none below 0, its zeros are the result's */
    ZEROS_FEWER, /* likewise, but about half of them stay */
} op_zeros;

/* What whoever runs a program does with the link of its ranks (comm/comm.h) for a node. */
typedef enum op_message {
    MESSAGE_NONE,
    MESSAGE_SEND, /* starts; the result is the ticket */
    MESSAGE_SENT, /* waits for the ticket that is the first operand */
    MESSAGE_RECV, /* starts; the results are what is received, later, and the ticket */
    MESSAGE_GOT,  /* waits for the ticket that is the second operand, of what is the first */
} op_message;

/* Whether an op moves its operand out of the device's memory, to where its result then lies, or
 * back. Whoever runs a program does so (run/away.c); what lies outside is read by nothing else. */
typedef enum op_transfer { TRANSFER_NONE, TRANSFER_OUT, TRANSFER_BACK } op_transfer;

/* How src/grad takes the gradient of a result before it calls the op's `grad`. */
typedef enum op_take {
    TAKE_WHOLE, /* all of it, IR_NONE if nothing arrived */
    TAKE_NONE,  /* exists only for backward nodes to read: an error if anything arrived */
    TAKE_LATER, /* not at all: `grad` takes a part of it itself */
} op_take;

/* One node whose gradient is being emitted: what src/grad hands to the op's `grad`. */
typedef struct op_grad {
    op_adjoint *adjoint;
    ir_graph *graph;
    ir_node_rec node;     /* a copy, since emitting may move the graph's array of nodes */
    ir_val d[IR_MAX_OUT]; /* gradients of the results, IR_NONE where nothing arrived */
    ir_val dy;            /* the first of them */
} op_grad;

/* How an operand or result takes part when the rows of a node are split: in chunks (chunk pass), or
 * by parts of the batch (shard pass). A node that has one of the last four can be cut only where
 * the batch is, so that only the shard pass splits it. */
typedef enum op_row_role {
    ROWS_WHOLE,   /* an operand: every part reads all of it; a result: made once, of all rows */
    ROWS_SPLIT,   /* chunk i has rows i; of a map, the groups with these images */
    ROWS_CARRY,   /* a chain over rows: chunk i starts from the result of chunk i-1 */
    ROWS_BATCH,   /* blocks of as many rows as the batch: a part has the same rows of every block */
    ROWS_COLUMNS, /* [blocks, batch]: a part has some of the columns */
    ROWS_ANY,     /* of a sum over all rows: the node stays one and reads all parts, joined in any
                     order that is the same for all such operands */
    ROWS_MEAN, /* a result: a statistic of rows. A part has that of its own, and who needs that of
                  all rows reads the mean of the parts' */
} op_row_role;

/* Operand layouts that kernels of the op accept. */
typedef enum op_layout {
    LAYOUT_STRIDED, /* rows may lie ld elements apart */
    LAYOUT_FOLDED,  /* also, rows may be the leading axes up to any one, the same for all operands
                       and results, which have one shape */
    LAYOUT_DENSE,   /* rows follow each other */
    LAYOUT_MAPS,    /* groups of a map may lie apart (map.h); all else is dense */
    LAYOUT_STEPS,   /* the same, and rows of a matrix of f32 may lie ld elements apart (code.h) */
} op_layout;
static inline bool op_layout_has_maps(op_layout layout) {
    return layout == LAYOUT_MAPS || layout == LAYOUT_STEPS;
}

typedef struct op_cost {
    double flops;
    double bytes; /* read and written, once each */
} op_cost;

/* A tensor as a kernel sees it: element (r, c) is data[r * ld + c], r over all but the last
 * dimension. data is NULL for an absent optional operand. Where fewer axes are rows (op_lay), type
 * has two dimensions, the rows and the columns; kernels of LAYOUT_MAPS see types as they are and,
 * where groups of a map lie apart, their distance as ld. */
typedef struct op_view {
    void *data;
    ir_type type;
    int32_t ld;
} op_view;

typedef struct op_call {
    const op_view *in;
    const op_view *out;
    int32_t n_in, n_out;
    const ir_attr *attr;
    /* Scratch that the kernel asked for: one area for the whole team, which the kernel divides
     * itself. One with device_kernel.shares does so by `worker`, since `member` may then exceed the
     * team; for all others either number will do. */
    void *workspace;
    size_t workspace_bytes;
    const void *prepared; /* what its prepare() stored */
    int member, members;  /* which share of how many to do; reference kernels do all as share 0 */
    int worker;           /* the member of the team that does it: one may take several shares */
    /* How many shares have ended, for kernels whose last share puts the others' together
     * (op_last_share); of no use where there is one share. */
    atomic_int *ended;
    int32_t form; /* which of the kernel's ways of working; 0 where it has one */
    /* Kernels that take ranges: do exactly units [lo, hi) of the node, whoever the member is. hi 0:
     * the member's share of the whole. */
    int32_t lo, hi;
    bool maps; /* the op has LAYOUT_MAPS or LAYOUT_STEPS */
} op_call;
typedef void (*op_kernel_fn)(const op_call *call);

/* Called once at the end of each share: true for the one that ends last, which then sees what all
 * others wrote. */
static inline bool op_last_share(const op_call *call) {
    return call->members == 1 ||
           atomic_fetch_add_explicit(call->ended, 1, memory_order_acq_rel) == call->members - 1;
}

/* How test data for an operand is drawn. */
typedef enum op_fill {
    FILL_NORMAL,
    FILL_UNIT,      /* (0, 1) */
    FILL_POSITIVE,  /* (0.1, 2) */
    FILL_INDEX,     /* i32 in [0, limit) */
    FILL_LABEL,     /* i32 in [-1, limit): -1 is the ignored label */
    FILL_SMALL_INT, /* i32 in [0, 100) */
    FILL_BYTE,      /* u8 or u16, any */
    FILL_ABSENT,    /* optional operand left out */
} op_fill;

typedef struct op_sample {
    int32_t n_in;
    ir_type in[OP_MAX_SAMPLE_IN];
    op_fill fill[OP_MAX_SAMPLE_IN];
    int32_t limit; /* for FILL_INDEX and FILL_LABEL */
    ir_attr attr;
} op_sample;

/* Result `out` may be computed in the bytes of operand `in`. */
typedef struct op_pair {
    int16_t in, out;
} op_pair;

/* Attributes of the two nodes that stand for one that reads an operand in full. */
typedef struct op_coded_attr {
    ir_attr code, reader;
} op_coded_attr;

typedef struct op_def {
    ir_schema schema;  /* name and attribute names */
    int32_t n_in;      /* operands (least number if variadic); optional ones count */
    uint32_t optional; /* bit i: operand i may be absent */
    int32_t n_out;
    uint32_t flags;
    op_message message;
    op_layout layout;
    /* 1 + the index of an int attribute; 0: there is none. */
    int32_t first_row_attr;  /* holds the number of the node's first row */
    int32_t batch_rows_attr; /* counts rows of the batch */
    int32_t lanes_attr;      /* says how many images a group of the map has that the node makes */

    /* Types of the results; checks operands and attributes, EBB_USAGE with a sentence if wrong. */
    ebb_status (*infer)(const ir_graph *graph, const ir_node_rec *node, ir_type *out);
    /* Emits the gradient: from that of the results, of which at least one is there, to that of the
     * operands, of which at least one is wanted. NULL only with OPF_NOGRAD. */
    ebb_status (*grad)(op_grad *g);
    op_take take[IR_MAX_OUT];
    op_stash stash[IR_MAX_OUT];
    op_read reads[OP_MAX_READS]; /* by operand; operands beyond: their values */
    op_zeros zeros;
    op_pair inplace[OP_MAX_PAIRS];
    int32_t n_inplace;
    /* Result `out` can also be had, with the same bits, as the first result of op `op`, without
     * attributes, from the node's first result and its operands in[0], in[1]. The recompute pass
     * does so where the node's first result is kept and `out` is not. */
    struct {
        int16_t n_in; /* how many of `in`; 0: there is no such op */
        int16_t out;
        uint16_t op;
        int16_t in[OP_MAX_REBUILD];
    } rebuild;
    /* Operand `in` can wait in fewer bytes: op `code` makes a code of it (code.h), from which op
     * `reader`, the other operands being the same, makes the results with the same bits. `attr`
     * gives the attributes of both; NULL: they have none. `able` says whether the node has such a
     * code; NULL: each has. code 0: there is no such op. */
    struct {
        uint16_t code, reader;
        int16_t in;
        void (*attr)(const ir_graph *graph, const ir_node_rec *node, op_coded_attr *out);
        bool (*able)(const ir_graph *graph, const ir_node_rec *node);
    } coded;
    /* What reports call the form that its results are in, of ops that make something smaller to
     * wait for backward; NULL: dense. */
    const char *form;
    /* Operand `in`, the last, can be read where it lies in a heap (heap.h): op `reader`, of the
     * operands before it, the heap, and bits and starts of every part that is joined in it along
     * axis 1, makes the result with the same bits. `attr` gives its attributes; false: not here. */
    struct {
        uint16_t reader;
        int16_t in;
        bool (*attr)(const ir_graph *graph, const ir_node_rec *node, ir_attr *out);
    } heaped;
    /* Arithmetic of a node: so many operations for each element of its results or, if `of` is
     * 1 + i, of operand i. An exponential or tanh counts as 20. */
    struct {
        double flops;
        int32_t of;
    } work;
    /* Where that is not enough: both costs. NULL: from `work`, with all operands and results moved
     * once. See ebb__op_cost. */
    op_cost (*cost)(const ir_graph *graph, const ir_node_rec *node);
    /* Row roles of operands and results; NULL: cannot be split by rows. */
    void (*rows)(const ir_graph *graph, const ir_node_rec *node, op_row_role *in, op_row_role *out);
    /* How many units the columns of the results consist of, if a range of units can be computed
     * apart from the rest: a result or operand of G * units columns holds unit u in columns u,
     * units + u, 2 * units + u, ... Of maps (map.h), which must have no gaps then, units are rows
     * of pixels instead. Bit i of *whole: operand i is not read by units but all of it. NULL or 0:
     * cannot be cut so. */
    int32_t (*units)(const ir_graph *graph, const ir_node_rec *node, uint32_t *whole);
    /* Units are batch rows instead: unit u is rows u, units + u, 2 * units + u, ... of a value with
     * G * units rows, and column u of a value [G, units]. */
    bool unit_rows;
    op_kernel_fn ref, ref64;
    const op_sample *samples;
    int32_t n_samples;
    op_transfer transfer;
} op_def;

/* Forms in which values can wait for backward (op_def.form). */
enum { FORMS_MOST = 12 };
typedef struct op_forms {
    const char *names[FORMS_MOST]; /* the first is "dense" */
    int32_t n;
    int32_t of[OP_COUNT]; /* by op: the form of its results */
} op_forms;
op_forms ebb__op_forms(void);

extern const op_def *const ebb__ops[OP_COUNT];
static inline const op_def *ebb__op(int code) {
    return ebb__ops[code];
}
bool ebb__op_reads(int code, op_read what); /* any of its operands */
op_cost ebb__op_cost(const ir_graph *graph, const ir_node_rec *node);
/* An empty graph that knows every op's schema. */
void ebb__op_graph_init(ir_graph *graph, ebb_ctx *ctx);
/* Infers, appends a node with the graph's current label, gives the results. attr may be NULL. */
ebb_status ebb__op_emit(ir_graph *graph, op_code op, const ir_val *in, int32_t n_in,
                        const ir_attr *attr, ir_val *out) EBB_MUST_CHECK;
/* A tensor of one value everywhere. */
ebb_status ebb__op_fill(ir_graph *graph, const ir_type *type, float value,
                        ir_val *out) EBB_MUST_CHECK;
/* Structure and types of the whole graph (ebb__ir_verify, then every node inferred again). */
ebb_status ebb__op_verify(const ir_graph *graph) EBB_MUST_CHECK;

/* ---- nodes by what they mean (emit.c) ---- */
ebb_status ebb__op_copy(ir_graph *graph, ir_val x, ir_val *out) EBB_MUST_CHECK;
/* The first axis, `outer` groups of `inner` blocks, as `inner` groups of `outer` blocks. */
ebb_status ebb__op_regroup(ir_graph *graph, ir_val x, int32_t outer, int32_t inner,
                           ir_val *out) EBB_MUST_CHECK;
/* c + x w^T; x [B, K], w [N, K], c a bias [N], a sum so far [B, N], or absent. */
ebb_status ebb__op_linear(ir_graph *graph, ir_val c, ir_val x, ir_val w,
                          ir_val *out) EBB_MUST_CHECK;
/* Dropout of x [rows, N] at a site of the model and a time; `step` i32 [1] is the training step. */
typedef struct op_dropout {
    uint64_t seed;
    const char *site;
    int32_t time, rows;
    double p;
} op_dropout;
ebb_status ebb__op_dropout(ir_graph *graph, ir_val x, ir_val step, const op_dropout *how,
                           ir_val *out) EBB_MUST_CHECK;
/* One step of an LSTM from the sums z [B, 4H] of its gates i f g o: the new h and c [B, H]. */
ebb_status ebb__op_lstm(ir_graph *graph, ir_val z, ir_val c_prev, ir_val *h,
                        ir_val *c) EBB_MUST_CHECK;

/* ---- codes (code.c): the two nodes that column `coded` of a reader names ---- */
/* `reader` is a copy of the node: emitting may move the graph's array of them. */
ebb_status ebb__op_emit_code(ir_graph *graph, const ir_node_rec *reader,
                             ir_val *out) EBB_MUST_CHECK;
ebb_status ebb__op_emit_coded(ir_graph *graph, const ir_node_rec *reader, ir_val code,
                              ir_val *out) EBB_MUST_CHECK;
/* Formats are 16, 10 or 8 (narrow.h); `like` has the type of what widen makes of the codes. */
ebb_status ebb__op_round_to(ir_graph *graph, ir_val x, int32_t format, ir_val *out) EBB_MUST_CHECK;
ebb_status ebb__op_narrow(ir_graph *graph, ir_val x, int32_t format, bool mark,
                          ir_val *out) EBB_MUST_CHECK;
/* The format that the node rounds to; 0: it does not round. */
int32_t ebb__op_rounds(const ir_node_rec *node);
ebb_status ebb__op_widen(ir_graph *graph, ir_val codes, int32_t format, const ir_type *like,
                         ir_val *out) EBB_MUST_CHECK;

/* ---- messages (message.c); `after`, a number that any of them gives, may be IR_NONE ---- */
typedef struct op_post {
    int32_t peer, tag;
    int32_t value; /* which of the whole step's values it is: both ranks number them alike */
} op_post;
ebb_status ebb__op_send(ir_graph *graph, ir_val x, op_post post, ir_val after,
                        ir_val *ticket) EBB_MUST_CHECK;
ebb_status ebb__op_sent(ir_graph *graph, ir_val ticket, ir_val x, ir_val after,
                        ir_val *done) EBB_MUST_CHECK;
/* What is received, and a number; not before `beside` is there, which may be IR_NONE. */
ebb_status ebb__op_recv(ir_graph *graph, const ir_type *type, op_post post, ir_val after,
                        ir_val beside, ir_val out[2]) EBB_MUST_CHECK;
ebb_status ebb__op_got(ir_graph *graph, const ir_val recv[2], ir_val after,
                       ir_val out[2]) EBB_MUST_CHECK;
/* Of MESSAGE_SEND and MESSAGE_RECV. */
op_post ebb__op_post(op_message what, const ir_attr *attr);

/* ---- heaps (heap.c, heap.h) ---- */
/* An empty one with room for so many floats. */
ebb_status ebb__op_heap(ir_graph *graph, ir_dtype dtype, int32_t values,
                        ir_val *out) EBB_MUST_CHECK;
/* What reads operand column `heaped` of `reader`, a copy of the node, from a heap; list: bits and
 * starts of its parts, n of both together. */
bool ebb__op_is_heaped(const ir_graph *graph, const ir_node_rec *reader, int32_t operand);
ebb_status ebb__op_emit_heaped(ir_graph *graph, const ir_node_rec *reader, ir_val heap,
                               const ir_val *list, int32_t n, ir_val *out) EBB_MUST_CHECK;
/* The tensor of this type that was pushed into a heap with these bits and starts. */
ebb_status ebb__op_heap_pull(ir_graph *graph, ir_val heap, ir_val bits, ir_val starts,
                             const ir_type *type, ir_val *out) EBB_MUST_CHECK;

/* ---- views (view.c): passes make and follow them without naming ops ---- */
ebb_status ebb__op_slice(ir_graph *graph, ir_val x, int32_t axis, int32_t begin, int32_t len,
                         ir_val *out) EBB_MUST_CHECK; /* x itself if it is all of it */
/* All of x, as a value of its own with the same bytes. */
ebb_status ebb__op_slice_all(ir_graph *graph, ir_val x, ir_val *out) EBB_MUST_CHECK;
ebb_status ebb__op_join(ir_graph *graph, int32_t axis, const ir_val *parts, int32_t n,
                        ir_val *out) EBB_MUST_CHECK; /* the part itself if there is one */
typedef struct op_range {
    int32_t axis, begin, len;
} op_range;
/* True if the node takes a range of its operand without moving a byte. */
bool ebb__op_is_slice(const ir_node_rec *node, op_range *out);
/* Whether the bytes of a result can be those of an operand, or begin with them. */
bool ebb__op_begins_with(const ir_node_rec *node, const ir_type *out, const ir_type *in);
/* Moves where a slice begins, for a new operand that begins elsewhere. */
void ebb__op_shift_slice(ir_node_rec *node, int32_t by);
/* True if the node joins its operands along *axis without moving a byte. */
bool ebb__op_is_join(const ir_node_rec *node, int32_t *axis);

/* One tensor inside another, along one axis: a slice in its operand, or an operand in its join.
 * It is `outer` stretches of len * inner elements, each begin * inner elements behind the start of
 * extent * inner elements of the whole. */
typedef struct op_part {
    ir_val whole, piece;
    int32_t axis, number; /* number: how many parts were given, with this one */
    int64_t outer, begin, len, extent, inner;
} op_part;
/* The parts that a view makes, one a call, from a zeroed `part` on; false: there are no more. */
bool ebb__op_next_part(const ir_graph *graph, const ir_node_rec *node, op_part *part);
/* Where the piece's element `e` is in the whole. */
static inline int64_t op_part_element(const op_part *part, int64_t e) {
    int64_t stretch = part->len * part->inner;
    return (e / stretch * part->extent + part->begin) * part->inner + e % stretch;
}

/* How a tensor lies in memory: its first `fold` axes are rows, `ld` elements apart; the elements of
 * the other axes follow each other. It is plain if all axes but the last are rows. */
typedef struct op_lay {
    int32_t ld;
    int16_t fold;
    bool fixed; /* others lie inside this one, or it inside another: it must not lie otherwise */
} op_lay;
op_lay ebb__op_plain(const ir_type *type); /* the plain lay without gaps */
/* How many leading axes are the rows of an operand or result as the op's kernels see it. */
int32_t ebb__op_rows_axes(const op_def *op, const ir_type *type);
static inline bool op_is_plain(const ir_type *type, op_lay lay) {
    return lay.fold == type->rank - 1;
}
int64_t ebb__op_fold_cols(const ir_type *type, int32_t fold);
bool ebb__op_is_gapless(const ir_type *type, op_lay lay);
/* How a piece lies whose whole lies like this; false: no op_lay can say it. */
bool ebb__op_part_lay(const ir_graph *graph, const op_part *part, op_lay whole, op_lay *out);

/* ---- helpers shared by the op families (op.c) ---- */
/* Fails with "<op>: <sentence>". */
ebb_status ebb__op_bad(const ir_graph *graph, const ir_node_rec *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static inline const ir_type *op_in_type(const ir_graph *g, const ir_node_rec *n, int32_t i) {
    ir_val v = ir_in(g, n, i);
    return v == IR_NONE ? NULL : &g->values[v].type;
}
void ebb__op_rows_split(const ir_graph *graph, const ir_node_rec *node, op_row_role *in,
                        op_row_role *out);
/* One result of all rows, in any order. */
void ebb__op_rows_any(const ir_graph *graph, const ir_node_rec *node, op_row_role *in,
                      op_row_role *out);

#endif
