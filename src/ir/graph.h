/* graph.h - the graph: values and nodes as indices into arrays of one region.
 *
 * A value is one tensor; a node applies one op to values and defines others. `order` is the
 * sequence of nodes (always topological); passes append nodes and rebuild it. Variables are values
 * without a producer: parameters, optimiser slots, carried state, inputs. A variable's `next` is
 * the value that becomes its content at the end of the step; it is stored in the variable's bytes.
 * What an op means is not known here: a schema gives only the names needed to print and parse.
 */
#ifndef IR_GRAPH_H
#define IR_GRAPH_H

#include "base/alloc.h"

typedef int32_t ir_val;
typedef int32_t ir_node;
enum { IR_NONE = -1, IR_MAX_RANK = 6, IR_MAX_INTS = 16, IR_MAX_FLOATS = 4, IR_MAX_OUT = 4 };
enum { IR_MAX_SHARDS = 1024 };

/* Graphs hold many types and values: their enumerations take one byte each. */
#define IR_SMALL __attribute__((packed))

/* How an element is stored. Ops compute with the first three; the others only hold what an op has
 * made smaller. One list: enumerator behind IR_, name, bytes (docs/add-a-dtype.md adds one). */
#define IR_DTYPE_LIST(X)                                                                           \
    X(F32, "f32", 4)                                                                               \
    X(I32, "i32", 4)                                                                               \
    X(F64, "f64", 8)                                                                               \
    X(U8, "u8", 1)                                                                                 \
    X(U16, "u16", 2)                                                                               \
    X(F16, "f16", 2)
typedef enum IR_SMALL ir_dtype {
#define IR_DTYPE_ENUM(id, name, bytes) IR_##id,
    IR_DTYPE_LIST(IR_DTYPE_ENUM)
#undef IR_DTYPE_ENUM
        IR_DTYPES
} ir_dtype;

/* Who owns a byte. They sum to the peak. One list: enumerator, name. */
#define IR_KIND_LIST(X)                                                                            \
    X(IR_WEIGHTS, "weights")                                                                       \
    X(IR_GRADIENTS, "gradients")                                                                   \
    X(IR_OPTIMIZER, "optimizer")                                                                   \
    X(IR_STASH, "stash")                                                                           \
    X(IR_WORKSPACE, "workspace")                                                                   \
    X(IR_DATA, "data")                                                                             \
    X(IR_PROGRAM, "program")                                                                       \
    X(IR_UNUSED, "unused")
typedef enum ir_kind {
#define IR_KIND_ENUM(id, name) id,
    IR_KIND_LIST(IR_KIND_ENUM)
#undef IR_KIND_ENUM
        IR_KINDS
} ir_kind;

typedef enum IR_SMALL ir_role {
    IR_TEMP,    /* defined by a node */
    IR_PARAM,   /* trained; kept over steps */
    IR_SLOT,    /* optimiser state; kept over steps */
    IR_STATE,   /* carried from step to step and saved; an epoch starts with zeros */
    IR_BUFFER,  /* carried from step to step and saved, over epochs too (running means) */
    IR_SCRATCH, /* carried from step to step, never saved: who runs the program zeros it */
    IR_INPUT,   /* written by the caller before a step; programs may give it different sizes */
    IR_ROLES
} ir_role;

/* What a node is done for; recompute: a forward node done again for the backward ones. One list:
 * enumerator, name, name in the text form. */
#define IR_PHASE_LIST(X)                                                                           \
    X(IR_FORWARD, "forward", "fwd")                                                                \
    X(IR_BACKWARD, "backward", "bwd")                                                              \
    X(IR_UPDATE, "update", "upd")                                                                  \
    X(IR_RECOMPUTE, "recompute", "rec")
typedef enum ir_phase {
#define IR_PHASE_ENUM(id, name, brief) id,
    IR_PHASE_LIST(IR_PHASE_ENUM)
#undef IR_PHASE_ENUM
        IR_PHASES
} ir_phase;

/* Every node carries where it comes from; passes preserve it. */
typedef struct ir_label {
    int32_t layer; /* index into graph->layers */
    /* Where the node stands along the axis that the model is unrolled over: its time step, or its
     * depth in a chain of equal blocks; -1: it belongs to no single place. */
    int32_t at;
    int32_t shard; /* which part of the batch's rows; 0 also where there is one. -1, from shard to
                      cut: it belongs to none; after that such nodes have 0 too */
    ir_phase phase;
} ir_label;

typedef struct ir_type {
    ir_dtype dtype;
    int16_t rank;             /* 1..IR_MAX_RANK */
    int32_t dim[IR_MAX_RANK]; /* each >= 1 */
} ir_type;

/* How a variable starts: one number everywhere, or numbers drawn by its name and a seed. */
typedef enum ir_draw { IR_CONSTANT, IR_UNIFORM, IR_NORMAL } ir_draw;
typedef struct ir_start {
    ir_draw draw;
    float scale; /* that number; uniform in (-scale, scale); the normal distribution's deviation */
} ir_start;

typedef struct ir_value {
    ir_type type;
    ir_role role;
    ir_start start;   /* variables; not part of the text form */
    bool output;      /* must still be readable when the step ends */
    bool param_grad;  /* part of a sum that ends in a parameter's gradient */
    bool show_grad;   /* of a parameter: its gradient is an output, UPDATE_SHOWN before its name */
    ir_node def;      /* IR_NONE for variables */
    ir_val next;      /* variables: see above; IR_NONE if the step leaves it alone */
    const char *name; /* variables and outputs; else NULL */
    int32_t layer;    /* variables: owner for reports; temporaries follow their node */
    /* Of a variable that other ranks have the rest of: it is rows first_row and on of all_rows. 0
     * and 0: it is all of what is stored under its name. Not part of the text form. */
    int32_t first_row, all_rows;
} ir_value;

typedef struct ir_attr {
    int32_t i[IR_MAX_INTS];
    float f[IR_MAX_FLOATS];
} ir_attr;

typedef struct ir_node_rec {
    uint16_t op;
    uint16_t n_out;
    int32_t n_in;
    int32_t in; /* first operand in graph->operands; an absent optional operand is IR_NONE */
    ir_val out; /* results are out, out+1, ... */
    ir_attr attr;
    ir_label label;
} ir_node_rec;
_Static_assert(sizeof(ir_node_rec) == 16 + sizeof(ir_attr) + 16, "no padding: nodes are hashed");

/* What text needs to know of an op; unnamed attributes are not printed and must be 0. */
typedef struct ir_schema {
    const char *name;
    const char *ints[IR_MAX_INTS];
    const char *floats[IR_MAX_FLOATS];
} ir_schema;

typedef struct ir_graph {
    ebb_ctx *ctx;
    alloc_region region;
    const ir_schema *const *schemas; /* indexed by op code */
    int32_t n_schemas;
    ir_value *values;
    int32_t n_values;
    ir_node_rec *nodes;
    int32_t n_nodes;
    ir_val *operands;
    int32_t n_operands;
    ir_node *order;
    int32_t n_order;
    const char **layers; /* [0] is "" */
    int32_t n_layers;
    ir_val loss;    /* what grad differentiates; IR_NONE if there is none */
    ir_label label; /* given to nodes added next */
    size_t cap_values, cap_nodes, cap_operands, cap_order, cap_layers;
} ir_graph;

void ebb__ir_init(ir_graph *graph, ebb_ctx *ctx, const ir_schema *const *schemas,
                  int32_t n_schemas);
void ebb__ir_fini(ir_graph *graph);
/* Deep copy into a fresh graph, so that the budget walk can compile variants of one model. */
ebb_status ebb__ir_copy(const ir_graph *from, ir_graph *to) EBB_MUST_CHECK;

/* Lets go of nodes that are not in the order, of what only they define, and of variables whose role
 * was made IR_TEMP. Those that stay keep their order by number, and are given new ones from 0 on;
 * so do `marks`, one a node below *n_marks (NULL: there are none). */
ebb_status ebb__ir_compact(ir_graph *graph, int32_t *marks, int32_t *n_marks) EBB_MUST_CHECK;

ebb_status ebb__ir_layer(ir_graph *graph, const char *name, int32_t *out) EBB_MUST_CHECK;
ebb_status ebb__ir_add_variable(ir_graph *graph, ir_role role, const char *name,
                                const ir_type *type, ir_val *out) EBB_MUST_CHECK;
/* Appends a node with results of the given types to the end of the order. */
ebb_status ebb__ir_add_node(ir_graph *graph, uint16_t op, const ir_val *in, int32_t n_in,
                            const ir_attr *attr, const ir_type *out_types, int32_t n_out,
                            ir_val *out) EBB_MUST_CHECK;
ebb_status ebb__ir_name(ir_graph *graph, ir_val value, const char *name) EBB_MUST_CHECK;
ir_val ebb__ir_find(const ir_graph *graph, const char *name); /* IR_NONE if absent */
/* Starting values of a variable of that name: a pure function of name and seed (start.c). */
void ebb__ir_draw(ir_start start, const char *name, uint64_t seed, float *data, uint64_t first,
                  uint64_t count);

static inline ir_val ir_in(const ir_graph *g, const ir_node_rec *n, int32_t i) {
    return i < n->n_in ? g->operands[n->in + i] : (ir_val)IR_NONE;
}
static inline void ir_set_in(ir_graph *g, const ir_node_rec *n, int32_t i, ir_val v) {
    g->operands[n->in + i] = v;
}

/* Types. Element counts fit int64 because ebb__ir_type_bytes is checked when a value is added. */
ebb_status ebb__ir_type_check(ebb_ctx *ctx, const ir_type *type, const char *what) EBB_MUST_CHECK;
bool ebb__ir_type_equal(const ir_type *a, const ir_type *b);
size_t ebb__ir_dtype_bytes(ir_dtype dtype);
const char *ebb__ir_dtype_name(ir_dtype dtype);
int64_t ebb__ir_rows(const ir_type *type); /* product of all dimensions but the last */
static inline int64_t ir_cols(const ir_type *type) {
    return type->dim[type->rank - 1];
}
uint64_t ebb__ir_type_bytes(const ir_type *type); /* dense */
const char *ebb__ir_kind_name(ir_kind kind);
const char *ebb__ir_phase_name(ir_phase phase);

/* Structure only: operands defined before use, one producer each, `next` of equal type. */
ebb_status ebb__ir_verify(const ir_graph *graph) EBB_MUST_CHECK;

/* Text form (text.c). print gives a string in the graph's region; parse wants an empty graph. */
ebb_status ebb__ir_print(ir_graph *graph, const char **out) EBB_MUST_CHECK;
ebb_status ebb__ir_parse(ir_graph *graph, const char *text) EBB_MUST_CHECK;

#endif
