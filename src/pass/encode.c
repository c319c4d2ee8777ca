/* encode.c - what waits for backward waits as a code where that is enough (Gist's lossless forms).
 *
 * An op's column `coded` says that it can read an operand as a code of fewer bytes: relu's gradient
 * needs signs, a pool's which pixel of each window won. Where all that backward reads of a forward
 * value are such operands, the code is made right behind the value, readers take the code, and the
 * value itself is free as soon as forward is done with it. Equal codes are made once. Readers give
 * the same bits either way.
 */
#include "pass/pass.h"

#include <string.h>

typedef struct encoder {
    pass_unit *unit;
    ir_graph *g;
    int64_t *keys; /* by node, for the sort in the end */
    size_t cap_keys;
    bool *in_full; /* by value: a late node reads more of it than a code has */
    ir_val *codes; /* by value: of a stash its newest code; of what a reader made before, what
                      stands for it now */
    int32_t n_values;
    bool changed;
} encoder;

/* Whether the node can read operand k as a code. */
static bool can_code(const ir_graph *g, const ir_node_rec *node, int32_t k) {
    const op_def *def = ebb__op(node->op);
    return def->coded.code != 0 && def->coded.in == k &&
           (def->coded.able == NULL || def->coded.able(g, node));
}

static void find_readers(encoder *e) {
    const ir_graph *g = e->g;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        for (int32_t k = 0; pass_is_late(node) && k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            if (v != IR_NONE && !can_code(g, node, k)) {
                e->in_full[v] = true;
            }
        }
    }
}

/* A view, which takes no bytes, is none, but for a join whose parts nobody late reads in full. */
static bool is_stash(const encoder *e, ir_val v) {
    const ir_graph *g = e->g;
    ir_node def = g->values[v].def;
    int32_t axis;
    if (def == IR_NONE || pass_is_late(&g->nodes[def]) || g->values[v].output) {
        return false;
    }
    const ir_node_rec *node = &g->nodes[def];
    bool alone = ebb__op_is_join(node, &axis);
    for (int32_t k = 0; k < node->n_in && alone; k++) {
        alone = !e->in_full[ir_in(g, node, k)];
    }
    return alone || (ebb__op(node->op)->flags & OPF_ALIAS) == 0;
}

static ebb_status set_keys(encoder *e, ir_node first, int64_t key) {
    return ebb__pass_set_keys(e->g, &e->unit->scratch, &e->keys, &e->cap_keys, first, key);
}

/* The code of v that the reader takes: one that is there, or a new one right behind v. */
static ebb_status code_for(encoder *e, const ir_node_rec *reader, ir_val v, ir_val *out) {
    ir_graph *g = e->g;
    ir_node first = g->n_nodes;
    ir_val before = e->codes[v];
    g->label = g->nodes[g->values[v].def].label;
    TRY(ebb__op_emit_code(g, reader, out));
    const ir_node_rec *made = &g->nodes[first];
    const ir_node_rec *old = before == IR_NONE ? NULL : &g->nodes[g->values[before].def];
    if (old != NULL && old->op == made->op &&
        memcmp(&old->attr, &made->attr, sizeof old->attr) == 0) {
        *out = before; /* the new one is dropped with what nobody reads */
    }
    e->codes[v] = *out;
    return set_keys(e, first, e->keys[g->values[v].def] + 1);
}

static ebb_status encode_reader(encoder *e, ir_node n) {
    ir_graph *g = e->g;
    const ir_node_rec node = g->nodes[n];
    const op_def *def = ebb__op(node.op);
    ir_val v = def->coded.code != 0 ? ir_in(g, &node, def->coded.in) : (ir_val)IR_NONE;
    ir_val code = IR_NONE, out[IR_MAX_OUT];
    if (!pass_is_late(&node) || v == IR_NONE || v >= e->n_values || e->in_full[v] ||
        !is_stash(e, v)) {
        return EBB_OK;
    }
    TRY(code_for(e, &node, v, &code));
    ir_node first = g->n_nodes;
    g->label = node.label;
    TRY(ebb__op_emit_coded(g, &node, code, out));
    TRY(set_keys(e, first, e->keys[n]));
    e->changed = true;
    for (int32_t k = 0; k < node.n_out; k++) {
        e->codes[node.out + k] = out[k]; /* what stands for it from now on */
    }
    return EBB_OK;
}

/* Results of readers that were replaced: codes[] holds what stands for them. */
static ebb_status rewire(encoder *e) {
    ir_graph *g = e->g;
    ir_val *now = NULL;
    TRY(ebb__region_alloc(&e->unit->scratch, (size_t)e->n_values + 1, sizeof *now, &now));
    for (ir_val v = 0; v < e->n_values; v++) {
        ir_node def = g->values[v].def;
        bool replaced = def != IR_NONE && pass_is_late(&g->nodes[def]) && e->codes[v] != IR_NONE;
        now[v] = replaced ? e->codes[v] : v;
        if (replaced) {
            ir_value *to = &g->values[now[v]];
            to->param_grad = g->values[v].param_grad;
        }
    }
    ebb__pass_rewire(g, now, e->n_values);
    return EBB_OK;
}

/* ---- variables that are codes themselves ---- */

/* Whether forward only makes numbers of variables, bytes of an image say: these wait anyway. */
static bool decodes_variables(const ir_graph *g, ir_val v) {
    ir_node def = v == IR_NONE ? (ir_node)IR_NONE : g->values[v].def;
    bool decodes = def != IR_NONE && !pass_is_late(&g->nodes[def]) &&
                   (ebb__op(g->nodes[def].op)->flags & OPF_DECODES) != 0;
    for (int32_t k = 0; decodes && k < g->nodes[def].n_in; k++) {
        ir_val x = ir_in(g, &g->nodes[def], k);
        op_range rows;
        while (x != IR_NONE && g->values[x].def != IR_NONE &&
               ebb__op_is_slice(&g->nodes[g->values[x].def], &rows)) {
            x = ir_in(g, &g->nodes[g->values[x].def], 0);
        }
        decodes = x == IR_NONE || (g->values[x].def == IR_NONE && g->values[x].next == IR_NONE);
    }
    return decodes;
}

/* Late readers have them made numbers of again, right before the first of them. */
static ebb_status decode_again(encoder *e) {
    ir_graph *g = e->g;
    for (int32_t i = 0, n = g->n_order; i < n; i++) {
        ir_node reader = g->order[i];
        for (int32_t k = 0; pass_is_late(&g->nodes[reader]) && k < g->nodes[reader].n_in; k++) {
            ir_val v = ir_in(g, &g->nodes[reader], k);
            if (v >= e->n_values || !decodes_variables(g, v)) {
                continue;
            }
            if (e->codes[v] == IR_NONE) {
                const ir_node_rec node = g->nodes[g->values[v].def];
                ir_node first = g->n_nodes;
                g->label = node.label;
                g->label.phase = IR_RECOMPUTE;
                ir_val in[OP_MAX_SPLIT];
                for (int32_t j = 0; j < node.n_in; j++) {
                    in[j] = ir_in(g, &node, j);
                }
                TRY(ebb__op_emit(g, (op_code)node.op, in, node.n_in, &node.attr, &e->codes[v]));
                TRY(set_keys(e, first, e->keys[reader] - 1));
                e->changed = true;
            }
            ir_set_in(g, &g->nodes[reader], k, e->codes[v]);
        }
    }
    return EBB_OK;
}

static ebb_status encode_readers(pass_unit *unit) {
    ir_graph *g = &unit->graph;
    encoder e = {.unit = unit, .g = g, .n_values = g->n_values, .cap_keys = (size_t)g->n_nodes};
    size_t nv = (size_t)g->n_values + 1;
    TRY(REGION_ARRAYS(&unit->scratch, ARRAY(e.in_full, nv), ARRAY_NONE(e.codes, nv)));
    TRY(ebb__pass_keys(g, &unit->scratch, e.cap_keys, 2, &e.keys));
    find_readers(&e);
    for (int32_t i = 0, n = g->n_order; i < n; i++) {
        TRY(encode_reader(&e, g->order[i]));
    }
    TRY(decode_again(&e));
    if (!e.changed) {
        return EBB_OK;
    }
    TRY(rewire(&e));
    TRY(ebb__pass_sort(g, e.keys));
    return ebb__pass_drop_dead(g);
}

static ebb_status run(pass_unit *unit) {
    if (!unit->config->training || !unit->config->knobs.encode) {
        return EBB_OK;
    }
    if (!unit->config->knobs.decode) {
        TRY(ebb__encode_norm(unit));
    }
    TRY(encode_readers(unit));
    if (unit->config->knobs.encode > 2) {
        TRY(ebb__encode_pool(unit));
    }
    return unit->config->stash != 0 ? ebb__encode_narrow(unit, true) : EBB_OK;
}

const pass_def ebb__pass_encode = {.id = PASS_ENCODE, .run = run};
