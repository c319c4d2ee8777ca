/* fold.c - how values lie in memory that are cut or joined along an axis in the middle.
 *
 * A part of a tensor along any axis is rows of columns that lie a pitch apart: the axes before it
 * are the rows, it and those behind it the columns. Kernels that treat all elements alike take any
 * such view, those of maps one whose rows are groups of images; others want rows of the last axis.
 * Parts of parts may need two pitches. Where a kernel cannot read or write a value as it lies, or
 * no op_lay says how, a copy goes between.
 *
 * Graphs that cut and join only along first and last axes have plain values throughout: nothing is
 * done for them.
 */
#include "pass/pass.h"

typedef struct folder {
    ir_graph *g;
    op_lay *lays; /* by value; ld 0: not known yet, so far it lies by itself */
    pass_copy_fn copy;
    void *user;
} folder;

static op_lay lay_of(const folder *f, ir_val v) {
    return f->lays[v].ld != 0 ? f->lays[v] : ebb__op_plain(&f->g->values[v].type);
}

static op_layout layout_of(const ir_graph *g, ir_node n) {
    return ebb__op(g->nodes[n].op)->layout;
}

/* Can a node read or write this value where it lies, whatever it does with its others? */
static bool takes(const ir_graph *g, ir_node n, ir_val v, op_lay lay) {
    const ir_type *type = &g->values[v].type;
    op_layout layout = layout_of(g, n);
    if (op_layout_has_maps(layout)) {
        return lay.fold == ebb__op_rows_axes(ebb__op(g->nodes[n].op), type) ||
               ebb__op_is_gapless(type, lay);
    }
    return layout == LAYOUT_FOLDED || op_is_plain(type, lay);
}

/* What was found holds only as long as nothing that has parts, or is one, gets bytes elsewhere. */
static void set_part(folder *f, const op_part *part, op_lay lay) {
    op_lay whole = lay_of(f, part->whole);
    lay.fixed = whole.fixed = f->g->values[part->whole].type.rank > 2;
    f->lays[part->piece] = lay;
    f->lays[part->whole] = whole;
}

/* Can its producer, or can the operands of a join, write a value that lies so? */
static bool can_be_made(const folder *f, ir_val v, op_lay lay) {
    const ir_graph *g = f->g;
    ir_node def = g->values[v].def;
    op_part part = {0};
    op_lay unused;
    int32_t axis;
    if (!ebb__op_is_join(&g->nodes[def], &axis)) {
        return takes(g, def, v, lay);
    }
    bool can = true;
    while (can && ebb__op_next_part(g, &g->nodes[def], &part)) {
        can = ebb__op_part_lay(g, &part, lay, &unused);
    }
    return can;
}

static ebb_status no_lay(const folder *f, ir_node n) {
    return ebb__op_bad(f->g, &f->g->nodes[n], "no lay says where a part is");
}

/* From the last join to the first: a join that is part of another lies as that says. */
static ebb_status place_operands(folder *f, ir_node n) {
    op_part part = {0};
    op_lay lay;
    for (int32_t k = 0; ebb__op_next_part(f->g, &f->g->nodes[n], &part); k++) {
        if (!ebb__op_part_lay(f->g, &part, lay_of(f, part.whole), &lay)) {
            return no_lay(f, n);
        }
        if (!can_be_made(f, part.piece, lay)) {
            TRY(f->copy(f->user, n, k));
            part.piece = ir_in(f->g, &f->g->nodes[n], k);
        }
        set_part(f, &part, lay);
    }
    return EBB_OK;
}

static ebb_status place_slice(folder *f, ir_node n) {
    op_part part = {0};
    op_lay lay;
    (void)ebb__op_next_part(f->g, &f->g->nodes[n], &part);
    if (!ebb__op_part_lay(f->g, &part, lay_of(f, part.whole), &lay)) {
        TRY(f->copy(f->user, n, 0));
        part = (op_part){0};
        (void)ebb__op_next_part(f->g, &f->g->nodes[n], &part);
        if (!ebb__op_part_lay(f->g, &part, lay_of(f, part.whole), &lay)) {
            return no_lay(f, n);
        }
    }
    set_part(f, &part, lay);
    return EBB_OK;
}

static ir_val view_at(const ir_graph *g, const ir_node_rec *node, int32_t i) {
    return i < node->n_out ? node->out + i : ir_in(g, node, i - node->n_out);
}

/* What a node cannot read where it lies is copied; a result always fits. All views of one that
 * takes any fold end their rows at the same axis. */
static ebb_status agree(folder *f, ir_node n) {
    ir_graph *g = f->g;
    int32_t fold = -1, count = g->nodes[n].n_out + g->nodes[n].n_in;
    bool same = layout_of(g, n) == LAYOUT_FOLDED;
    for (int32_t i = 0; i < count; i++) {
        ir_val v = view_at(g, &g->nodes[n], i);
        if (v == IR_NONE || ebb__op_is_gapless(&g->values[v].type, lay_of(f, v))) {
            continue;
        }
        op_lay lay = lay_of(f, v);
        if (!takes(g, n, v, lay) || (same && fold >= 0 && lay.fold != fold)) {
            TRY(f->copy(f->user, n, i - g->nodes[n].n_out));
        } else {
            fold = lay.fold;
        }
    }
    return EBB_OK;
}

static bool cuts_middle(const ir_graph *g, const ir_node_rec *node) {
    op_part part = {0};
    return ebb__op_next_part(g, node, &part) && part.axis > 0 &&
           part.axis < g->values[part.whole].type.rank - 1;
}

static ebb_status find(folder *f) {
    ir_graph *g = f->g;
    op_range range;
    int32_t axis;
    for (int32_t i = g->n_order - 1; i >= 0; i--) {
        if (ebb__op_is_join(&g->nodes[g->order[i]], &axis)) {
            TRY(place_operands(f, g->order[i]));
        }
    }
    int32_t n_order = g->n_order;
    for (int32_t i = 0; i < n_order; i++) {
        if (ebb__op_is_slice(&g->nodes[g->order[i]], &range)) {
            TRY(place_slice(f, g->order[i]));
        }
    }
    for (int32_t i = 0; i < g->n_order; i++) { /* copies are appended and looked at, too */
        if ((ebb__op(g->nodes[g->order[i]].op)->flags & OPF_ALIAS) == 0) {
            TRY(agree(f, g->order[i]));
        }
    }
    for (ir_val v = 0; v < g->n_values; v++) {
        f->lays[v] = lay_of(f, v);
    }
    return EBB_OK;
}

bool ebb__pass_needs_lays(const ir_graph *graph) {
    bool needs = false;
    for (int32_t i = 0; i < graph->n_order && !needs; i++) {
        needs = cuts_middle(graph, &graph->nodes[graph->order[i]]);
    }
    return needs;
}

ebb_status ebb__pass_find_lays(pass_unit *unit, size_t room, pass_copy_fn copy, void *user) {
    folder f = {.g = &unit->graph, .copy = copy, .user = user};
    TRY(ebb__region_alloc(&unit->region, room, sizeof *f.lays, &f.lays));
    TRY(find(&f));
    unit->lays = f.lays;
    return EBB_OK;
}

int32_t ebb__pass_fold(const pass_unit *unit, const ir_node_rec *node) {
    const ir_graph *g = &unit->graph;
    bool any = unit->lays != NULL && !op_layout_has_maps(ebb__op(node->op)->layout);
    for (int32_t i = 0; any && i < node->n_out + node->n_in; i++) {
        ir_val v = view_at(g, node, i);
        if (v != IR_NONE && !op_is_plain(&g->values[v].type, unit->lays[v])) {
            return unit->lays[v].fold;
        }
    }
    return -1;
}
