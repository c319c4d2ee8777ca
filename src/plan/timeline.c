/* timeline.c - bytes alive over a step. One sweep finds how much is alive at each position, which
 * settles what each column shows; each piece then adds its bytes to the columns that it lives
 * through, as a change where they begin and one where they end. */
#include "plan/timeline.h"

#include <string.h>

/* In the order in which bands are stacked. */
static const ir_kind transient_kinds[] = {IR_STASH, IR_GRADIENTS, IR_WORKSPACE};
enum { N_TRANSIENT = sizeof transient_kinds / sizeof *transient_kinds };

typedef struct sweep {
    const pass_unit *unit;
    const ir_graph *g;
    const plan_placement *p;
    plan_timeline *out;
    int32_t *instrs;    /* by instruction: its position */
    uint64_t *alive;    /* by position: transient bytes */
    int32_t *column_at; /* by position: the first column that shows this position or a later one */
    op_forms forms;
    int32_t *band_of; /* by form of stash or transient kind, and layer; first only whether there is
                         one */
} sweep;

static bool is_transient(const plan_placement *p, const plan_piece *piece) {
    return plan_is_transient(&p->blocks[piece->block]);
}

static ebb_status list_instrs(sweep *s) {
    TRY(REGION_ARRAYS(&s->out->region, ARRAY(s->instrs, (size_t)s->g->n_order + 1)));
    for (int32_t i = 0; i < s->g->n_order; i++) {
        ir_node n = s->g->order[i];
        if (s->unit->kernels[n] != DEVICE_KERNEL_NONE) {
            s->instrs[s->out->n_instrs++] = i;
            s->out->instrs[s->g->nodes[n].label.phase]++;
        }
    }
    return EBB_OK;
}

static ebb_status find_alive(sweep *s) {
    const plan_placement *p = s->p;
    int64_t *change = NULL, sum = 0;
    size_t n = (size_t)p->n_positions + 2;
    TRY(REGION_ARRAYS(&s->out->region, ARRAY(change, n), ARRAY(s->alive, n)));
    for (int32_t i = 0; i < p->n_pieces; i++) {
        const plan_piece *piece = &p->pieces[i];
        if (is_transient(p, piece)) {
            change[piece->birth] += (int64_t)piece->own;
            change[piece->death + 1] -= (int64_t)piece->own;
        }
    }
    for (int32_t t = 0; t < p->n_positions; t++) {
        sum += change[t];
        s->alive[t] = (uint64_t)sum;
    }
    return EBB_OK;
}

static void fill_column(const sweep *s, plan_column *c) {
    int32_t by_phase[IR_PHASES] = {0};
    c->fullest = c->first;
    for (int32_t i = c->first; i < c->first + c->n; i++) {
        by_phase[s->g->nodes[s->g->order[s->instrs[i]]].label.phase]++;
        if (s->alive[s->instrs[i]] > s->alive[s->instrs[c->fullest]]) {
            c->fullest = i;
        }
    }
    for (int k = 0; k < IR_PHASES; k++) {
        c->phase = by_phase[k] > by_phase[c->phase] ? (ir_phase)k : c->phase;
    }
    c->bytes = s->alive[s->instrs[c->fullest]];
    c->node = s->g->order[s->instrs[c->fullest]];
}

static ebb_status cut_columns(sweep *s, int32_t most) {
    plan_timeline *out = s->out;
    int64_t n = out->n_instrs, columns = n < most ? n : most;
    TRY(ebb__region_alloc(&out->region, (size_t)columns + 1, sizeof *out->columns, &out->columns));
    out->n_columns = (int32_t)columns;
    out->fullest = -1;
    for (int32_t i = 0; i < out->n_columns; i++) {
        plan_column *c = &out->columns[i];
        c->first = (int32_t)(i * n / columns);
        c->n = (int32_t)((i + 1) * n / columns) - c->first;
        fill_column(s, c);
        if (out->fullest < 0 || c->bytes > out->load) {
            out->fullest = i;
            out->load = c->bytes;
        }
    }
    size_t positions = (size_t)s->p->n_positions + 2;
    TRY(ebb__region_alloc(&out->region, positions, sizeof *s->column_at, &s->column_at));
    for (int32_t t = 0, i = 0; t < (int32_t)positions; t++) {
        while (i < out->n_columns && s->instrs[out->columns[i].fullest] < t) {
            i++;
        }
        s->column_at[t] = i;
    }
    return EBB_OK;
}

/* Forms of stash, then the other kinds. */
static int32_t *band_slot(const sweep *s, const plan_piece *piece) {
    const ir_node_rec *node = &s->g->nodes[piece->node];
    int32_t kind = 0;
    while (kind < N_TRANSIENT - 1 && transient_kinds[kind] != piece->kind) {
        kind++;
    }
    int32_t row = kind == 0 ? s->forms.of[node->op] : s->forms.n - 1 + kind;
    return &s->band_of[row * s->g->n_layers + node->label.layer];
}

/* A band for every layer and kind that holds a byte at some time. */
static ebb_status name_bands(sweep *s) {
    plan_timeline *out = s->out;
    int32_t forms = s->forms.n, slots = (forms + N_TRANSIENT - 1) * s->g->n_layers;
    TRY(ebb__region_alloc(&out->region, (size_t)slots + 1, sizeof *s->band_of, &s->band_of));
    for (int32_t i = 0; i < s->p->n_pieces; i++) {
        if (is_transient(s->p, &s->p->pieces[i])) {
            *band_slot(s, &s->p->pieces[i]) = 1;
        }
    }
    TRY(ebb__region_alloc(&out->region, (size_t)slots + 1, sizeof *out->bands, &out->bands));
    for (int32_t i = 0; i < slots; i++) {
        if (s->band_of[i] == 0) {
            continue;
        }
        plan_band *band = &out->bands[out->n_bands];
        int32_t row = i / s->g->n_layers;
        band->layer = s->g->layers[i % s->g->n_layers];
        band->kind = transient_kinds[row < forms ? 0 : row - forms + 1];
        band->form = row < forms ? row : 0;
        TRY(REGION_ARRAYS(&out->region, ARRAY(band->bytes, (size_t)out->n_columns + 1)));
        s->band_of[i] = out->n_bands++;
    }
    return EBB_OK;
}

/* Until they are summed up, the bytes of a band are changes, modulo 2^64. */
static void fill_bands(const sweep *s) {
    const plan_timeline *out = s->out;
    for (int32_t i = 0; i < s->p->n_pieces; i++) {
        const plan_piece *piece = &s->p->pieces[i];
        if (is_transient(s->p, piece)) {
            uint64_t *change = out->bands[*band_slot(s, piece)].bytes;
            change[s->column_at[piece->birth]] += piece->own;
            change[s->column_at[piece->death + 1]] -= piece->own;
        }
    }
    for (int32_t b = 0; b < out->n_bands; b++) {
        plan_band *band = &out->bands[b];
        for (int32_t i = 0; i < out->n_columns; i++) {
            band->bytes[i] += i > 0 ? band->bytes[i - 1] : 0;
            band->most = band->bytes[i] > band->most ? band->bytes[i] : band->most;
        }
    }
}

static void add_fixed(const ebb_plan *plan, plan_timeline *out) {
    for (int32_t i = 0; i < plan->n_variables; i++) {
        if (!plan->variables[i].extra || !device_apart(plan->dev)) {
            out->fixed[plan_kind_of_role(plan->variables[i].role)] += plan->variables[i].bytes;
        }
    }
    for (int32_t i = 0; i < plan->n_programs; i++) {
        out->fixed[IR_PROGRAM] += plan->programs[i].size.program_bytes;
    }
}

ebb_status ebb__timeline_make(const ebb_plan *plan, int32_t columns, plan_timeline *out) {
    const pass_unit *unit = &plan->programs[plan->lead].unit;
    sweep s = {.unit = unit, .g = &unit->graph, .p = unit->placement, .out = out};
    s.forms = ebb__op_forms();
    memset(out, 0, sizeof *out);
    ebb__region_init(&out->region, plan->ctx);
    TRY(list_instrs(&s));
    TRY(find_alive(&s));
    TRY(cut_columns(&s, columns));
    TRY(name_bands(&s));
    fill_bands(&s);
    add_fixed(plan, out);
    return EBB_OK;
}

void ebb__timeline_free(plan_timeline *timeline) {
    ebb__region_fini(&timeline->region);
}
