/* graph.c - building and copying graphs; types. What ops mean is not known here. */
#include "ir/graph.h"

#include <limits.h>
#include <string.h>

void ebb__ir_init(ir_graph *graph, ebb_ctx *ctx, const ir_schema *const *schemas,
                  int32_t n_schemas) {
    *graph = (ir_graph){.ctx = ctx, .schemas = schemas, .n_schemas = n_schemas, .loss = IR_NONE};
    graph->label = (ir_label){.layer = 0, .at = -1, .phase = IR_FORWARD};
    ebb__region_init(&graph->region, ctx);
}

void ebb__ir_fini(ir_graph *graph) {
    ebb__region_fini(&graph->region);
    *graph = (ir_graph){.loss = IR_NONE};
}

static ebb_status copy_array(alloc_region *region, const void *from, size_t count, size_t size,
                             void *out, size_t *capacity) {
    void *to = NULL;
    TRY(ebb__region_alloc(region, count + 1, size, &to));
    if (count > 0) {
        memcpy(to, from, count * size);
    }
    *(void **)out = to;
    *capacity = count + 1;
    return EBB_OK;
}

ebb_status ebb__ir_copy(const ir_graph *from, ir_graph *to) {
    ebb__ir_init(to, from->ctx, from->schemas, from->n_schemas);
    alloc_region *r = &to->region;
    TRY(copy_array(r, from->values, (size_t)from->n_values, sizeof *to->values, &to->values,
                   &to->cap_values));
    TRY(copy_array(r, from->nodes, (size_t)from->n_nodes, sizeof *to->nodes, &to->nodes,
                   &to->cap_nodes));
    TRY(copy_array(r, from->operands, (size_t)from->n_operands, sizeof *to->operands, &to->operands,
                   &to->cap_operands));
    TRY(copy_array(r, from->order, (size_t)from->n_order, sizeof *to->order, &to->order,
                   &to->cap_order));
    TRY(copy_array(r, from->layers, (size_t)from->n_layers, sizeof *to->layers, &to->layers,
                   &to->cap_layers));
    to->n_values = from->n_values;
    to->n_nodes = from->n_nodes;
    to->n_operands = from->n_operands;
    to->n_order = from->n_order;
    to->n_layers = from->n_layers;
    to->loss = from->loss;
    to->label = from->label;
    for (int32_t v = 0; v < to->n_values; v++) {
        if (to->values[v].name != NULL) {
            char *name = NULL;
            TRY(ebb__region_strdup(r, to->values[v].name, &name));
            to->values[v].name = name;
        }
    }
    for (int32_t l = 0; l < to->n_layers; l++) {
        char *name = NULL;
        TRY(ebb__region_strdup(r, to->layers[l], &name));
        to->layers[l] = name;
    }
    return EBB_OK;
}

/* ---- compacting ---- */

/* New numbers, by old ones; IR_NONE: not kept. */
typedef struct renumbering {
    ir_node *nodes;
    ir_val *values;
} renumbering;

static ir_val renumbered(const renumbering *to, ir_val v) {
    return v == IR_NONE ? (ir_val)IR_NONE : to->values[v];
}

static ebb_status number_kept(const ir_graph *g, alloc_region *region, renumbering *to) {
    ir_node nodes = 0;
    ir_val values = 0;
    TRY(REGION_ARRAYS(region, ARRAY_NONE(to->nodes, (size_t)g->n_nodes + 1),
                      ARRAY(to->values, (size_t)g->n_values + 1)));
    for (int32_t i = 0; i < g->n_order; i++) {
        to->nodes[g->order[i]] = 0;
    }
    for (ir_node n = 0; n < g->n_nodes; n++) {
        to->nodes[n] = to->nodes[n] == 0 ? nodes++ : (ir_node)IR_NONE;
    }
    for (ir_val v = 0; v < g->n_values; v++) {
        ir_node def = g->values[v].def;
        bool kept = def == IR_NONE ? g->values[v].role != IR_TEMP : to->nodes[def] != IR_NONE;
        to->values[v] = kept ? values++ : (ir_val)IR_NONE;
    }
    return EBB_OK;
}

static void move_values(ir_graph *g, const renumbering *to) {
    ir_val kept = 0;
    for (ir_val v = 0; v < g->n_values; v++) {
        if (to->values[v] != IR_NONE) {
            ir_value value = g->values[v];
            value.def = value.def == IR_NONE ? (ir_node)IR_NONE : to->nodes[value.def];
            value.next = renumbered(to, value.next);
            g->values[kept++] = value;
        }
    }
    g->n_values = kept;
    g->loss = renumbered(to, g->loss);
}

/* Operands lie in any order: they are gathered anew. */
static ebb_status move_nodes(ir_graph *g, alloc_region *region, const renumbering *to,
                             int32_t *marks, int32_t *n_marks) {
    ir_val *operands = NULL;
    int32_t at = 0, marked = 0;
    ir_node kept = 0;
    TRY(ebb__region_alloc(region, (size_t)g->n_operands + 1, sizeof *operands, &operands));
    memcpy(operands, g->operands, (size_t)g->n_operands * sizeof *operands);
    for (ir_node n = 0; n < g->n_nodes; n++) {
        ir_node_rec node = g->nodes[n];
        if (to->nodes[n] == IR_NONE) {
            continue;
        }
        for (int32_t k = 0; k < node.n_in; k++) {
            g->operands[at + k] = renumbered(to, operands[node.in + k]);
        }
        node.in = at;
        node.out = renumbered(to, node.out);
        at += node.n_in;
        if (marks != NULL && n < *n_marks) {
            marks[kept] = marks[n];
            marked = kept + 1;
        }
        g->nodes[kept++] = node;
    }
    if (marks != NULL) {
        *n_marks = marked;
    }
    g->n_nodes = kept;
    g->n_operands = at;
    return EBB_OK;
}

/* Gives back what the arrays no longer need. */
static ebb_status shrink(ir_graph *g) {
    alloc_region *r = &g->region;
    TRY(ebb__region_shrink(r, &g->values, &g->cap_values, (size_t)g->n_values, sizeof *g->values));
    TRY(ebb__region_shrink(r, &g->nodes, &g->cap_nodes, (size_t)g->n_nodes, sizeof *g->nodes));
    TRY(ebb__region_shrink(r, &g->operands, &g->cap_operands, (size_t)g->n_operands,
                           sizeof *g->operands));
    return ebb__region_shrink(r, &g->order, &g->cap_order, (size_t)g->n_order, sizeof *g->order);
}

ebb_status ebb__ir_compact(ir_graph *graph, int32_t *marks, int32_t *n_marks) {
    alloc_region scratch;
    renumbering to;
    ebb__region_init(&scratch, graph->ctx);
    ebb_status status = number_kept(graph, &scratch, &to);
    if (status == EBB_OK) {
        status = move_nodes(graph, &scratch, &to, marks, n_marks);
    }
    if (status == EBB_OK) {
        move_values(graph, &to);
        for (int32_t i = 0; i < graph->n_order; i++) {
            graph->order[i] = to.nodes[graph->order[i]];
        }
        status = shrink(graph);
    }
    ebb__region_fini(&scratch);
    return status;
}

/* ---- types ---- */

static const struct {
    const char *name;
    size_t bytes;
} dtypes[IR_DTYPES] = {
#define IR_DTYPE_ROW(id, name, bytes) {name, bytes},
    IR_DTYPE_LIST(IR_DTYPE_ROW)
#undef IR_DTYPE_ROW
};

size_t ebb__ir_dtype_bytes(ir_dtype dtype) {
    return dtypes[dtype].bytes;
}

const char *ebb__ir_dtype_name(ir_dtype dtype) {
    return dtypes[dtype].name;
}

int64_t ebb__ir_rows(const ir_type *type) {
    int64_t rows = 1;
    for (int32_t i = 0; i + 1 < type->rank; i++) {
        rows *= type->dim[i];
    }
    return rows;
}

uint64_t ebb__ir_type_bytes(const ir_type *type) {
    return (uint64_t)ebb__ir_rows(type) * (uint64_t)ir_cols(type) *
           ebb__ir_dtype_bytes(type->dtype);
}

bool ebb__ir_type_equal(const ir_type *a, const ir_type *b) {
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0;
}

ebb_status ebb__ir_type_check(ebb_ctx *ctx, const ir_type *type, const char *what) {
    if (type->rank < 1 || type->rank > IR_MAX_RANK) {
        return ebb__fail(ctx, EBB_USAGE, "%s: rank %d is not in 1..%d", what, type->rank,
                         IR_MAX_RANK);
    }
    /* Bytes must fit in 2^47, the address space; so every product below fits in 64 bits. */
    uint64_t bytes = ebb__ir_dtype_bytes(type->dtype);
    for (int32_t i = 0; i < type->rank; i++) {
        if (type->dim[i] < 1) {
            return ebb__fail(ctx, EBB_USAGE, "%s: dimension %d is %d, must be at least 1", what, i,
                             type->dim[i]);
        }
        if (__builtin_mul_overflow(bytes, (uint64_t)type->dim[i], &bytes) || bytes >> 47 != 0) {
            return ebb__fail(ctx, EBB_USAGE, "%s: more bytes than an address space holds", what);
        }
    }
    return EBB_OK;
}

const char *ebb__ir_kind_name(ir_kind kind) {
    static const char *const names[] = {
#define IR_KIND_NAME(id, name) name,
        IR_KIND_LIST(IR_KIND_NAME)
#undef IR_KIND_NAME
    };
    return kind < IR_KINDS ? names[kind] : "?";
}

const char *ebb__ir_phase_name(ir_phase phase) {
    static const char *const names[IR_PHASES] = {
#define IR_PHASE_NAME(id, name, brief) [id] = name,
        IR_PHASE_LIST(IR_PHASE_NAME)
#undef IR_PHASE_NAME
    };
    return phase < IR_PHASES ? names[phase] : "?";
}

/* ---- building ---- */

static ebb_status count_fits(const ir_graph *graph, size_t count) {
    return count < INT32_MAX ? EBB_OK
                             : ebb__fail(graph->ctx, EBB_USAGE, "graph: more than 2^31 items");
}

ebb_status ebb__ir_layer(ir_graph *graph, const char *name, int32_t *out) {
    for (int32_t i = graph->n_layers - 1; i >= 0; i--) {
        if (strcmp(graph->layers[i], name) == 0) {
            *out = i;
            return EBB_OK;
        }
    }
    if (graph->n_layers == 0 && name[0] != '\0') {
        int32_t none;
        TRY(ebb__ir_layer(graph, "", &none));
    }
    TRY(ebb__region_grow(&graph->region, &graph->layers, &graph->cap_layers,
                         (size_t)graph->n_layers + 1, sizeof *graph->layers));
    char *copy = NULL;
    TRY(ebb__region_strdup(&graph->region, name, &copy));
    graph->layers[graph->n_layers] = copy;
    *out = graph->n_layers++;
    return EBB_OK;
}

static ebb_status add_value(ir_graph *graph, const ir_value *value, ir_val *out) {
    TRY(count_fits(graph, (size_t)graph->n_values + 1));
    TRY(ebb__region_grow(&graph->region, &graph->values, &graph->cap_values,
                         (size_t)graph->n_values + 1, sizeof *graph->values));
    graph->values[graph->n_values] = *value;
    *out = graph->n_values++;
    return EBB_OK;
}

ebb_status ebb__ir_add_variable(ir_graph *graph, ir_role role, const char *name,
                                const ir_type *type, ir_val *out) {
    TRY(ebb__ir_type_check(graph->ctx, type, name));
    if (ebb__ir_find(graph, name) != IR_NONE) {
        return ebb__fail(graph->ctx, EBB_USAGE, "%s: this name is already taken", name);
    }
    if (role == IR_PARAM && type->dtype != IR_F32) {
        return ebb__fail(graph->ctx, EBB_USAGE, "%s: a parameter must be f32", name);
    }
    if (graph->n_layers == 0) {
        int32_t none;
        TRY(ebb__ir_layer(graph, "", &none));
    }
    char *copy = NULL;
    TRY(ebb__region_strdup(&graph->region, name, &copy));
    ir_value value = {.type = *type,
                      .role = role,
                      .def = IR_NONE,
                      .next = IR_NONE,
                      .name = copy,
                      .layer = graph->label.layer};
    return add_value(graph, &value, out);
}

ebb_status ebb__ir_add_node(ir_graph *graph, uint16_t op, const ir_val *in, int32_t n_in,
                            const ir_attr *attr, const ir_type *out_types, int32_t n_out,
                            ir_val *out) {
    if (graph->n_layers == 0) {
        int32_t none;
        TRY(ebb__ir_layer(graph, "", &none));
    }
    TRY(count_fits(graph, (size_t)graph->n_operands + (size_t)n_in));
    TRY(ebb__region_grow(&graph->region, &graph->nodes, &graph->cap_nodes,
                         (size_t)graph->n_nodes + 1, sizeof *graph->nodes));
    TRY(ebb__region_grow(&graph->region, &graph->order, &graph->cap_order,
                         (size_t)graph->n_order + 1, sizeof *graph->order));
    TRY(ebb__region_grow(&graph->region, &graph->operands, &graph->cap_operands,
                         (size_t)graph->n_operands + (size_t)n_in, sizeof *graph->operands));
    ir_node_rec node = {.op = op,
                        .n_out = (uint16_t)n_out,
                        .n_in = n_in,
                        .in = graph->n_operands,
                        .out = graph->n_values,
                        .label = graph->label};
    if (attr != NULL) {
        node.attr = *attr;
    }
    if (n_in > 0) { /* before the results: a caller may give one variable for both */
        memcpy(graph->operands + graph->n_operands, in, (size_t)n_in * sizeof *in);
    }
    for (int32_t i = 0; i < n_out; i++) {
        ir_value value = {
            .type = out_types[i], .role = IR_TEMP, .def = graph->n_nodes, .next = IR_NONE};
        ir_val v = IR_NONE;
        TRY(ebb__ir_type_check(graph->ctx, &out_types[i], graph->schemas[op]->name));
        TRY(add_value(graph, &value, &v));
        out[i] = v;
    }
    graph->n_operands += n_in;
    graph->nodes[graph->n_nodes] = node;
    graph->order[graph->n_order++] = graph->n_nodes++;
    return EBB_OK;
}

ebb_status ebb__ir_name(ir_graph *graph, ir_val value, const char *name) {
    ir_val other = ebb__ir_find(graph, name);
    if (other != IR_NONE && other != value) {
        return ebb__fail(graph->ctx, EBB_USAGE, "%s: this name is already taken", name);
    }
    char *copy = NULL;
    TRY(ebb__region_strdup(&graph->region, name, &copy));
    graph->values[value].name = copy;
    return EBB_OK;
}

ir_val ebb__ir_find(const ir_graph *graph, const char *name) {
    for (ir_val v = 0; v < graph->n_values; v++) {
        const char *other = graph->values[v].name;
        if (other != NULL && strcmp(other, name) == 0) {
            return v;
        }
    }
    return IR_NONE;
}
