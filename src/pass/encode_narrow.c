/* encode_narrow.c - rounded values wait for backward in the bits of their format.
 *
 * What stash has rounded loses nothing when it is kept as codes of that format. They are made of
 * the exact value, right where it was rounded, and made numbers of again right before a reader:
 * once for every layer that reads, so that numbers do not wait from one layer to another. Where a
 * late node reads a view of rounded values that forward has (chunks of images, joined), it reads
 * the same view of those numbers.
 *
 * The gradient of a convolution's weights reads the codes themselves, also where batch norm and
 * relu come in between: the numbers then never exist as a whole.
 */
#include "op/conv.h"
#include "op/narrow.h"
#include "pass/pass.h"

enum { KEY_STEP = 4, MOST_VIEWS = 16 /* of views that are looked through */ };

typedef struct narrower {
    pass_unit *unit;
    ir_graph *g;
    int32_t n_values; /* before */
    int64_t *keys;    /* by node, for the sort in the end */
    size_t cap_keys;
    ir_val *codes;  /* by value */
    ir_val *again;  /* by value: its numbers, or the view of such, ... */
    int32_t *maker; /* ... made for readers of this layer */
} narrower;

static bool is_late(const ir_node_rec *node) {
    return node->label.phase != IR_FORWARD;
}

static ebb_status set_keys(narrower *w, ir_node first, int64_t key) {
    return ebb__pass_set_keys(w->g, &w->unit->scratch, &w->keys, &w->cap_keys, first, key);
}

static void label_for(narrower *w, const ir_node_rec *made, ir_node reader) {
    w->g->label = made->label;
    w->g->label.layer = w->g->nodes[reader].label.layer;
    w->g->label.phase = IR_RECOMPUTE;
}

/* The numbers of the rounded value v, for the reader. */
static ebb_status widen(narrower *w, ir_val v, ir_node reader) {
    ir_graph *g = w->g;
    ir_node def = g->values[v].def, first = g->n_nodes;
    const ir_node_rec node = g->nodes[def];
    const ir_type type = g->values[v].type;
    int32_t format = ebb__op_rounds(&node);
    if (w->codes[v] == IR_NONE) {
        g->label = node.label;
        TRY(ebb__op_narrow(g, ir_in(g, &node, 0), format, &w->codes[v]));
        TRY(set_keys(w, first, w->keys[def]));
    }
    first = g->n_nodes;
    label_for(w, &node, reader);
    TRY(ebb__op_widen(g, w->codes[v], format, &type, &w->again[v]));
    return set_keys(w, first, w->keys[reader] - 1);
}

static ebb_status take(narrower *w, ir_val v, ir_node reader, int32_t depth, ir_val *out);

/* A view that forward has, of what the reader takes for its operands; the same if none of them
 * changes. */
static ebb_status view_again(narrower *w, ir_val v, ir_node reader, int32_t depth) {
    ir_graph *g = w->g;
    const ir_node_rec node = g->nodes[g->values[v].def];
    bool changed = false;
    ir_val *in = NULL;
    TRY(ebb__region_alloc(&w->unit->scratch, (size_t)node.n_in, sizeof *in, &in));
    for (int32_t k = 0; k < node.n_in; k++) {
        TRY(take(w, ir_in(g, &node, k), reader, depth + 1, &in[k]));
        changed = changed || in[k] != ir_in(g, &node, k);
    }
    w->again[v] = v;
    if (!changed) {
        return EBB_OK;
    }
    ir_node first = g->n_nodes;
    label_for(w, &node, reader);
    TRY(ebb__op_emit(g, (op_code)node.op, in, node.n_in, &node.attr, &w->again[v]));
    return set_keys(w, first, w->keys[reader] - 1);
}

/* What the late reader takes for v. */
static ebb_status take(narrower *w, ir_val v, ir_node reader, int32_t depth, ir_val *out) {
    const ir_graph *g = w->g;
    ir_node def = v == IR_NONE || v >= w->n_values ? (ir_node)IR_NONE : g->values[v].def;
    int32_t layer = g->nodes[reader].label.layer;
    *out = v;
    if (def == IR_NONE || is_late(&g->nodes[def]) || depth == MOST_VIEWS) {
        return EBB_OK;
    }
    bool rounds = ebb__op_rounds(&g->nodes[def]) != 0;
    bool view = (ebb__op(g->nodes[def].op)->flags & OPF_ALIAS) != 0;
    if (!rounds && !view) {
        return EBB_OK;
    }
    if (w->again[v] == IR_NONE || w->maker[v] != layer) {
        TRY(rounds ? widen(w, v, reader) : view_again(w, v, reader, depth));
        w->maker[v] = layer;
    }
    *out = w->again[v];
    return EBB_OK;
}

/* ---- products that read codes ---- */

static const ir_node_rec *late_def(const ir_graph *g, ir_val v, op_code op) {
    ir_node def = v == IR_NONE ? (ir_node)IR_NONE : g->values[v].def;
    bool found = def != IR_NONE && g->nodes[def].op == op && is_late(&g->nodes[def]);
    return found ? &g->nodes[def] : NULL;
}

/* What conv_weights would read instead of its x: operands from codes on; false: it reads numbers.
 */
static bool find_codes(const ir_graph *g, const ir_node_rec *reader, ir_val in[6], ir_attr *attr) {
    ir_val x = ir_in(g, reader, 2);
    const ir_node_rec *relu = late_def(g, x, OP_RELU);
    const ir_node_rec *norm = late_def(g, relu != NULL ? ir_in(g, relu, 0) : x, OP_BATCH_APPLY);
    const ir_node_rec *last = norm != NULL ? norm : relu;
    const ir_node_rec *widened = late_def(g, last != NULL ? ir_in(g, last, 0) : x, OP_WIDEN);
    if (widened == NULL) {
        return false;
    }
    const ir_type *type = &g->values[x].type;
    in[0] = ir_in(g, reader, 0);
    in[1] = ir_in(g, reader, 1);
    in[2] = ir_in(g, widened, 0);
    for (int32_t k = 0; k < 3; k++) {
        in[3 + k] = norm != NULL ? ir_in(g, norm, 1 + k) : (ir_val)IR_NONE;
    }
    *attr = reader->attr;
    attr->i[CONV_FORMAT] = widened->attr.i[NARROW_FORMAT];
    attr->i[CONV_RELU] = relu != NULL;
    for (int32_t d = 1; d < type->rank; d++) {
        attr->i[CONV_X + d - 1] = type->dim[d];
    }
    return true;
}

static ebb_status read_codes(narrower *w) {
    ir_graph *g = w->g;
    int32_t n_values = g->n_values;
    ir_val *now = NULL, in[6], out;
    TRY(ebb__region_alloc(&w->unit->scratch, (size_t)n_values + 1, sizeof *now, &now));
    for (ir_val v = 0; v < n_values; v++) {
        now[v] = v;
    }
    for (int32_t i = 0, n = g->n_order; i < n; i++) {
        ir_node reader = g->order[i], first = g->n_nodes;
        ir_val v = g->nodes[reader].out;
        ir_attr attr;
        if (g->nodes[reader].op != OP_CONV_WEIGHTS || g->values[v].output ||
            !find_codes(g, &g->nodes[reader], in, &attr)) {
            continue;
        }
        g->label = g->nodes[reader].label;
        TRY(ebb__op_emit(g, OP_CONV_WEIGHTS_NARROW, in, 6, &attr, &out));
        g->values[out].param_grad = g->values[v].param_grad;
        TRY(set_keys(w, first, w->keys[reader]));
        now[v] = out;
    }
    ebb__pass_rewire(g, now, n_values);
    return EBB_OK;
}

/* ---- the whole ---- */

ebb_status ebb__encode_narrow(pass_unit *unit) {
    ir_graph *g = &unit->graph;
    narrower w = {.unit = unit, .g = g, .n_values = g->n_values, .cap_keys = (size_t)g->n_nodes};
    size_t nv = (size_t)g->n_values + 1;
    TRY(REGION_ARRAYS(&unit->scratch, ARRAY_NONE(w.codes, nv), ARRAY_NONE(w.again, nv),
                      ARRAY(w.maker, nv)));
    TRY(ebb__pass_keys(g, &unit->scratch, w.cap_keys, KEY_STEP, &w.keys));
    for (int32_t i = 0, n = g->n_order; i < n; i++) {
        ir_node reader = g->order[i];
        for (int32_t k = 0; is_late(&g->nodes[reader]) && k < g->nodes[reader].n_in; k++) {
            ir_val now = IR_NONE;
            TRY(take(&w, ir_in(g, &g->nodes[reader], k), reader, 0, &now));
            ir_set_in(g, &g->nodes[reader], k, now);
        }
    }
    TRY(read_codes(&w));
    TRY(ebb__pass_sort(g, w.keys));
    return ebb__pass_drop_dead(g);
}
