/* report.c - who holds which byte at the peak: by kind, by layer, the largest values; and a hash of
 * the whole plan. Works on a compiled plan before its graphs are released. */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

typedef struct live_piece {
    uint64_t lo, hi;
    const plan_piece *piece;
} live_piece;

static int compare_live(const void *a, const void *b) {
    const live_piece *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

/* layer: index into plan->layers; -1: it has no variables, and no line in the report. */
static void credit(ebb_plan *plan, int32_t layer, ir_kind kind, uint64_t bytes) {
    plan->bytes_by_kind[kind] += bytes;
    if (layer >= 0) {
        plan->layers[layer].bytes += bytes;
    }
}

/* By layer of the graph: the plan's. */
static ebb_status map_layers(const ebb_plan *plan, pass_unit *unit, int32_t **out) {
    const ir_graph *g = &unit->graph;
    TRY(ebb__region_alloc(&unit->scratch, (size_t)g->n_layers + 1, sizeof **out, out));
    for (int32_t i = 0; i < g->n_layers; i++) {
        (*out)[i] = -1;
        for (int32_t k = 0; k < plan->n_layers && (*out)[i] < 0; k++) {
            (*out)[i] = strcmp(plan->layers[k].name, g->layers[i]) == 0 ? k : -1;
        }
    }
    return EBB_OK;
}

static void add_large(ebb_plan *plan, const plan_large *item) {
    int32_t at = plan->n_largest;
    while (at > 0 && plan->largest[at - 1].bytes < item->bytes) {
        at--;
    }
    if (at == PLAN_LARGEST) {
        return;
    }
    int32_t last = plan->n_largest < PLAN_LARGEST ? plan->n_largest++ : PLAN_LARGEST - 1;
    memmove(&plan->largest[at + 1], &plan->largest[at],
            (size_t)(last - at) * sizeof plan->largest[0]);
    plan->largest[at] = *item;
}

static int32_t layer_of(const ir_graph *graph, const plan_piece *piece) {
    return piece->node == IR_NONE ? graph->values[piece->value].layer
                                  : graph->nodes[piece->node].label.layer;
}

static void note_piece(ebb_plan *plan, const ir_graph *graph, const int32_t *layers,
                       const live_piece *live, uint64_t fresh) {
    const plan_piece *piece = live->piece;
    credit(plan, layers[layer_of(graph, piece)], piece->kind, fresh);
    if (plan->n_largest == PLAN_LARGEST &&
        live->hi - live->lo <= plan->largest[PLAN_LARGEST - 1].bytes) {
        return; /* not among the largest */
    }
    const ir_node_rec *node = &graph->nodes[piece->node];
    plan_large item = {.bytes = live->hi - live->lo, .kind = piece->kind};
    char when[24] = "";
    if (node->label.at >= 0) {
        (void)snprintf(when, sizeof when, " t=%d", node->label.at);
    }
    (void)snprintf(item.what, sizeof item.what, "%.40s %s%s%s", graph->layers[node->label.layer],
                   graph->schemas[node->op]->name, piece->value == IR_NONE ? " (scratch)" : "",
                   when);
    if (piece->value != IR_NONE) {
        item.type = graph->values[piece->value].type;
    }
    add_large(plan, &item);
}

/* Transient pieces alive at the moment of the highest load, lowest first, in unit->scratch. */
static ebb_status find_live(pass_unit *unit, live_piece **out, int32_t *n) {
    const plan_placement *p = unit->placement;
    int32_t position = 0;
    uint64_t load = 0;
    TRY(ebb__plan_load(unit, p, &position, &load));
    TRY(ebb__region_alloc(&unit->scratch, (size_t)p->n_pieces + 1, sizeof **out, out));
    *n = 0;
    for (int32_t i = 0; i < p->n_pieces; i++) {
        const plan_piece *piece = &p->pieces[i];
        if (plan_is_transient(&p->blocks[piece->block]) && piece->birth <= position &&
            position <= piece->death) {
            uint64_t base = plan_block_address(p, piece->block);
            (*out)[(*n)++] = (live_piece){base + piece->lo, base + piece->hi, piece};
        }
    }
    qsort(*out, (size_t)*n, sizeof **out, compare_live);
    return EBB_OK;
}

/* How many of its bytes no piece before it in the list has; *covered: up to where they reach. */
static uint64_t fresh_bytes(const live_piece *live, uint64_t *covered) {
    uint64_t from = live->lo > *covered ? live->lo : *covered;
    uint64_t fresh = live->hi > from ? live->hi - from : 0;
    *covered = live->hi > *covered ? live->hi : *covered;
    return fresh;
}

ebb_status ebb__plan_gradients(pass_unit *unit, uint64_t *bytes) {
    live_piece *live = NULL;
    int32_t n = 0;
    uint64_t covered = 0;
    *bytes = 0;
    TRY(find_live(unit, &live, &n));
    for (int32_t i = 0; i < n; i++) {
        uint64_t fresh = fresh_bytes(&live[i], &covered);
        *bytes += live[i].piece->kind == IR_GRADIENTS ? fresh : 0;
    }
    ebb__region_fini(&unit->scratch);
    return EBB_OK;
}

static ebb_status report_transients(ebb_plan *plan, pass_unit *unit) {
    live_piece *live = NULL;
    int32_t n = 0, *layers = NULL;
    uint64_t covered = 0;
    op_forms forms = ebb__op_forms();
    plan->n_forms = forms.n;
    for (int32_t i = 0; i < forms.n; i++) {
        plan->forms[i] = (plan_form){.name = forms.names[i]};
    }
    TRY(map_layers(plan, unit, &layers));
    TRY(find_live(unit, &live, &n));
    for (int32_t i = 0; i < n; i++) {
        uint64_t fresh = fresh_bytes(&live[i], &covered);
        note_piece(plan, &unit->graph, layers, &live[i], fresh);
        if (live[i].piece->kind == IR_STASH) {
            plan->forms[forms.of[unit->graph.nodes[live[i].piece->node].op]].bytes += fresh;
        }
    }
    ebb__region_fini(&unit->scratch);
    return EBB_OK;
}

static void report_variables(ebb_plan *plan) {
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        ir_kind kind = plan_kind_of_role(v->role);
        if (v->extra && device_apart(plan->dev)) {
            continue;
        }
        credit(plan, v->layer, kind, v->bytes);
        plan_large item = {.type = v->type, .bytes = v->bytes, .kind = kind};
        (void)snprintf(item.what, sizeof item.what, "%.90s", v->name);
        add_large(plan, &item);
    }
}

/* Two plans with the same hash run the same kernels on the same addresses in the same order. */
static uint64_t hash_plan(const ebb_plan *plan) {
    XXH64_hash_t hash = XXH3_64bits(&plan->peak_bytes, sizeof plan->peak_bytes);
    for (int32_t i = 0; i < plan->n_programs; i++) {
        const uint64_t program[] = {plan->programs[i].offset, plan->programs[i].size.program_hash};
        hash = XXH3_64bits_withSeed(program, sizeof program, hash);
    }
    return hash;
}

ebb_status ebb__plan_report(ebb_plan *plan, pass_unit *unit) {
    uint64_t used = 0;
    memset(plan->bytes_by_kind, 0, sizeof plan->bytes_by_kind);
    for (int32_t i = 0; i < plan->n_programs; i++) {
        plan->bytes_by_kind[IR_PROGRAM] += plan->programs[i].size.program_bytes;
    }
    report_variables(plan);
    TRY(report_transients(plan, unit));
    for (int i = 0; i < IR_UNUSED; i++) {
        used += plan->bytes_by_kind[i];
    }
    plan->bytes_by_kind[IR_UNUSED] = plan->peak_bytes - used;
    plan->activation_bytes = plan->peak_bytes - plan->bytes_by_kind[IR_WEIGHTS] -
                             plan->bytes_by_kind[IR_GRADIENTS] - plan->bytes_by_kind[IR_OPTIMIZER];
    plan->hash = hash_plan(plan);
    return EBB_OK;
}
