/* encode_narrow.c - rounded values wait for backward in the bits of their format.
 *
 * What stash has rounded loses nothing when it is kept as codes of that format. They are made of
 * the exact value, right where it was rounded, and made numbers of again right before a reader:
 * once for every layer that reads, so that numbers do not wait from one layer to another. Where a
 * late node reads a view of rounded values that forward has (chunks of images, joined), it reads
 * the same view of those numbers.
 *
 * Of a relu's result that waits so, codes also tell what is above 0: the relu's gradient then needs
 * no bits beside them.
 *
 * The gradient of a convolution's weights reads the codes themselves, also where batch norm and
 * relu come in between: the numbers then never exist as a whole; unless the knob decode says so.
 *
 * What may wait without its zeros (heap.c) is left alone at first; when heap has taken what it
 * does, the rest becomes codes as all else.
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
    double *share;  /* by value: above 0 where it is left for heap */
    bool *marked;   /* by value: a late node reads its signs from its codes */
    ir_val *codes;  /* by value; of what is marked, also by the value that was rounded */
    ir_val *again;  /* by value: its numbers, or the view of such, ... */
    int32_t *maker; /* ... made for readers of this layer */
} narrower;

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
    ir_val exact = ir_in(g, &node, 0);
    if (w->codes[v] == IR_NONE) {
        g->label = node.label;
        TRY(ebb__op_narrow(g, exact, format, w->marked[exact], &w->codes[v]));
        TRY(set_keys(w, first, w->keys[def]));
        w->codes[exact] = w->codes[v];
    }
    first = g->n_nodes;
    label_for(w, &node, reader);
    TRY(ebb__op_widen(g, w->codes[v], format, &type, &w->again[v]));
    if (w->marked[exact]) {
        TRY(ebb__op_emit(g, OP_RELU, &w->again[v], 1, NULL, &w->again[v]));
    }
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
    if (def == IR_NONE || pass_is_late(&g->nodes[def]) || depth == MOST_VIEWS) {
        return EBB_OK;
    }
    bool rounds = ebb__op_rounds(&g->nodes[def]) != 0 && w->share[v] == 0;
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

/* ---- signs from codes ---- */

/* The relu's result whose signs the late node reads as bits; IR_NONE: it does not. */
static ir_val signs_of(const ir_graph *g, const ir_node_rec *reader) {
    if (reader->op != OP_RELU_GRAD_BITS || !pass_is_late(reader)) {
        return IR_NONE;
    }
    ir_node bits = g->values[ir_in(g, reader, 1)].def;
    ir_val y = g->nodes[bits].op == OP_SIGN_BITS ? ir_in(g, &g->nodes[bits], 0) : (ir_val)IR_NONE;
    ir_node def = y == IR_NONE ? (ir_node)IR_NONE : g->values[y].def;
    return def != IR_NONE && g->nodes[def].op == OP_RELU ? y : (ir_val)IR_NONE;
}

static void mark(narrower *w) {
    const ir_graph *g = w->g;
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_val y = signs_of(g, &g->nodes[g->order[i]]);
        if (y != IR_NONE) {
            w->marked[y] = true;
        }
    }
}

/* The node in place of one that reads bits of what is marked; *out stays IR_NONE if there is none.
 */
static ebb_status read_signs(narrower *w, ir_node reader, ir_val *out) {
    ir_graph *g = w->g;
    ir_val y = signs_of(g, &g->nodes[reader]);
    if (y == IR_NONE || y >= w->n_values || w->codes[y] == IR_NONE) {
        return EBB_OK;
    }
    const ir_node_rec *code = &g->nodes[g->values[w->codes[y]].def];
    const ir_attr attr = {.i = {[NARROW_FORMAT] = code->attr.i[NARROW_FORMAT]}};
    ir_val in[] = {ir_in(g, &g->nodes[reader], 0), w->codes[y]};
    return ebb__op_emit(g, OP_RELU_GRAD_CODES, in, 2, &attr, out);
}

/* ---- products that read codes ---- */

static const ir_node_rec *late_def(const ir_graph *g, ir_val v, op_code op) {
    ir_node def = v == IR_NONE ? (ir_node)IR_NONE : g->values[v].def;
    bool found = def != IR_NONE && g->nodes[def].op == op && pass_is_late(&g->nodes[def]);
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

static ebb_status read_sums(narrower *w, ir_node reader, ir_val *out) {
    ir_graph *g = w->g;
    ir_val in[6];
    ir_attr attr;
    if (w->unit->config->knobs.decode || g->nodes[reader].op != OP_CONV_WEIGHTS ||
        !find_codes(g, &g->nodes[reader], in, &attr)) {
        return EBB_OK;
    }
    return ebb__op_emit(g, OP_CONV_WEIGHTS_NARROW, in, 6, &attr, out);
}

static ebb_status read_codes(narrower *w) {
    ir_graph *g = w->g;
    int32_t n_values = g->n_values;
    ir_val *now = NULL;
    TRY(ebb__pass_same(g, &w->unit->scratch, &now));
    for (int32_t i = 0, n = g->n_order; i < n; i++) {
        ir_node reader = g->order[i], first = g->n_nodes;
        ir_val v = g->nodes[reader].out, out = IR_NONE;
        g->label = g->nodes[reader].label;
        if (!g->values[v].output) {
            TRY(read_sums(w, reader, &out));
            TRY(read_signs(w, reader, &out));
        }
        if (out != IR_NONE) {
            g->values[out].param_grad = g->values[v].param_grad;
            TRY(set_keys(w, first, w->keys[reader]));
            now[v] = out;
        }
    }
    ebb__pass_rewire(g, now, n_values);
    return EBB_OK;
}

/* ---- the whole ---- */

ebb_status ebb__encode_narrow(pass_unit *unit, bool before_heap) {
    ir_graph *g = &unit->graph;
    narrower w = {.unit = unit, .g = g, .n_values = g->n_values, .cap_keys = (size_t)g->n_nodes};
    size_t nv = (size_t)g->n_values + 1;
    TRY(REGION_ARRAYS(&unit->scratch, ARRAY(w.share, nv), ARRAY(w.marked, nv),
                      ARRAY_NONE(w.codes, nv), ARRAY_NONE(w.again, nv), ARRAY(w.maker, nv)));
    TRY(ebb__pass_keys(g, &unit->scratch, w.cap_keys, KEY_STEP, &w.keys));
    if (before_heap) {
        ebb__heap_shares(unit, w.share);
    }
    mark(&w);
    for (int32_t i = 0, n = g->n_order; i < n; i++) {
        ir_node reader = g->order[i];
        for (int32_t k = 0; pass_is_late(&g->nodes[reader]) && k < g->nodes[reader].n_in; k++) {
            ir_val now = IR_NONE;
            TRY(take(&w, ir_in(g, &g->nodes[reader], k), reader, 0, &now));
            ir_set_in(g, &g->nodes[reader], k, now);
        }
    }
    TRY(read_codes(&w));
    TRY(ebb__pass_sort(g, w.keys));
    return ebb__pass_drop_dead(g);
}
