/* recompute.c - forward values that backward reads are computed again instead of being kept
 * (EcoRNN's partial forward propagation, as Echo's compiler pass).
 *
 * What is kept is a minimum cut over all of the graph at once: keeping a value costs its bytes at
 * the price of the plan, computing it again costs its seconds, and who is computed again needs its
 * operands. So all decoder steps that read one matrix are one decision, and what is small in, small
 * out and huge between (attention) is found without being known. Readers are the true ones: the
 * nodes of the gradient graph, by their operands. The gradient of a product that needs only its
 * operands reads repeated ones; the product itself is not repeated.
 *
 * Never repeated: what costs more arithmetic than traffic (OPF_HEAVY), unless the settings say so;
 * then only what belongs to a time step. A value that another time step reads is kept, else one
 * repeated step would ask for all steps before it; with `replay` only one that another span reads.
 * What only pointwise ops carry on (an LSTM's c, rebuilt from its gates) is kept every `scan`
 * steps, or where a span begins. Of a net over images, depth takes the place of time: what a place
 * (a residual block, say) hands on is kept every `places` of them, and what lies between, the
 * residual stream too, is repeated from there (Chen et al. 2016, "Training Deep Nets with Sublinear
 * Memory Cost"), as far as the cut finds it worth its price.
 *
 * With spans, forward and backward go from span to span through all layers, so that what is
 * repeated for one span is gone before the next. Applied again with longer spans to what the first
 * application left, recomputation nests.
 *
 * Clones stand right before their first reader. Every op gives the same bits again; random ones
 * replay by their counter.
 */
#include "pass/mincut.h"
#include "pass/pass.h"

#include <stdlib.h>
#include <math.h>
#include <string.h>

static const double TICK = 1e-13; /* seconds; unit of the cut's costs */
enum {
    ROOM_STEPS = 20,    /* halvings, in looking for the least room */
    MOST_ALIKE = 4,     /* nodes of one op and layer in a time step that are told apart */
    VIEW_KEPT = 1 << 20 /* ticks for keeping a view, which costs nothing to repeat */
};

typedef struct recomputer {
    pass_unit *unit;
    ir_graph *g;
    pass_knobs how;
    double tick;               /* seconds: TICK, or more where costs would not fit the cut */
    int32_t n_values, n_nodes; /* before the application */
    bool *late;  /* by node: done in backward's time, since its phase is not forward (clones of an
                    earlier application too), or of a chunk that waits for backward (era > 0) */
    bool *model; /* by node: a forward one outside chunks. A chunk done in forward is neither */
    bool *repeatable;   /* by node */
    bool *needed;       /* by value: a late node reads it, or a clone will */
    bool *pinned;       /* by value: kept if it is needed, whatever the price */
    int32_t *like;      /* by node: the same number as its like in every time step */
    bool *pinned_alike; /* by that number and result: all such values are pinned */
    int32_t *group;     /* by place of a net, if `room`: see group_places; else NULL */
    bool *keep;         /* by value */
    int32_t *choice;    /* by value: number among the cut's choices; -1: none */
    ir_val *again;      /* by value: its clone */
    ir_val *handed;     /* by value: its copy for the readers in span handed_to */
    int32_t *handed_to; /* by value */
} recomputer;

static ir_node producer(const recomputer *r, ir_val v) {
    return v == IR_NONE ? (ir_node)IR_NONE : r->g->values[v].def;
}

/* Steps between states that pin() keeps: those of a span, else `scan` or `places`, else one. */
static int32_t kept_every(const recomputer *r) {
    const pass_knobs *k = &r->how;
    return k->span > 0 ? k->span : k->scan > 0 ? k->scan : k->places > 0 ? k->places : 1;
}

/* A state that goes from one group of steps to another is pinned. */
static int32_t group_of(const recomputer *r, int32_t time) {
    return r->group != NULL ? r->group[time] : time / kept_every(r);
}

/* The span that a node belongs to; -1: none. */
static int32_t span_of_node(const recomputer *r, ir_node n) {
    bool chunk = n < r->unit->n_eras && r->unit->era[n] > 0;
    int32_t time = chunk ? r->unit->era[n] - 1 : r->g->nodes[n].label.at;
    return time < 0 || r->how.span <= 0 ? -1 : group_of(r, time);
}

static ebb_status new_recomputer(pass_unit *unit, const pass_knobs *how, recomputer *r) {
    ir_graph *g = &unit->graph;
    alloc_region *region = &unit->scratch;
    size_t nv = (size_t)g->n_values + 1, nn = (size_t)g->n_nodes + 1;
    *r = (recomputer){unit, g, *how, .n_values = g->n_values, .n_nodes = g->n_nodes};
    TRY(REGION_ARRAYS(
        region, ARRAY(r->late, nn), ARRAY(r->model, nn), ARRAY(r->repeatable, nn),
        ARRAY(r->needed, nv), ARRAY(r->pinned, nv), ARRAY(r->like, nn),
        ARRAY(r->pinned_alike, (size_t)g->n_layers * OP_COUNT * MOST_ALIKE * IR_MAX_OUT),
        ARRAY(r->keep, nv), ARRAY_NONE(r->choice, nv), ARRAY_NONE(r->again, nv),
        ARRAY_NONE(r->handed, nv), ARRAY(r->handed_to, nv)));
    return EBB_OK;
}

/* ---- who reads what, and when ---- */

/* Numbers the nodes, the same for those that are each other's like in every time step: of one layer
 * and op, with as many such before it in that step. Relies on the order: of a layer and op, one
 * time step's nodes stand together. */
static ebb_status number_alikes(recomputer *r) {
    const ir_graph *g = r->g;
    struct {
        int32_t time, n;
    } *seen = NULL; /* by layer and op: how many of the current time step */
    size_t classes = (size_t)g->n_layers * OP_COUNT;
    TRY(ebb__region_alloc(&r->unit->scratch, classes, sizeof *seen, &seen));
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        size_t class = (size_t)node->label.layer * OP_COUNT + node->op;
        if (!r->model[g->order[i]]) {
            continue;
        }
        seen[class].n = seen[class].time == node->label.at + 2 ? seen[class].n + 1 : 0;
        seen[class].time = node->label.at + 2; /* 0: none yet */
        int32_t nth = seen[class].n < MOST_ALIKE ? seen[class].n : MOST_ALIKE - 1;
        r->like[g->order[i]] = (int32_t)(class * MOST_ALIKE) + nth;
    }
    return EBB_OK;
}

static bool *all_alike_pinned(const recomputer *r, ir_val v) {
    ir_node def = producer(r, v);
    return &r->pinned_alike[(size_t)r->like[def] * IR_MAX_OUT + (size_t)(v - r->g->nodes[def].out)];
}

/* Pins what must not be asked for through the steps before it: `v` of one time step, read at
 * another. Where a product reads it there (unless replay), or there are no groups, all its like are
 * pinned, also the last step's, which nobody reads further on: one stack can then hold all of them.
 * Else, and always along the depth of a net, which has no stacks, it is pinned if the reader is in
 * another group or belongs to no step. */
static void pin(recomputer *r, ir_val v, const ir_node_rec *reader) {
    ir_node def = producer(r, v);
    if (def == IR_NONE || r->g->nodes[def].label.at < 0) {
        return;
    }
    int32_t from = r->g->nodes[def].label.at, to = reader->label.at;
    bool heavy = (ebb__op(reader->op)->flags & OPF_HEAVY) != 0;
    bool alike = (heavy && !r->how.replay) || kept_every(r) == 1;
    if (from != to && to >= 0 && alike && r->how.places == 0) {
        *all_alike_pinned(r, v) = true;
    } else if (from != to) {
        r->pinned[v] = r->pinned[v] || to < 0 || group_of(r, from) != group_of(r, to);
    }
}

/* ---- groups of places ---- */

/* What is there when backward comes to a group of places is what the group makes, done again as a
 * whole, and what was kept of all groups before it: those behind it are done. So early groups can
 * be large, though their maps are, and late ones small. */
typedef struct place_bytes {
    double made;   /* by forward nodes of the place, and read by backward */
    double handed; /* of what is made before it and read from it on */
} place_bytes;

static ebb_status measure_places(const recomputer *r, int32_t *n, place_bytes **out) {
    const ir_graph *g = r->g;
    int32_t *last = NULL; /* by value: the last place that reads it in forward */
    bool *late = NULL;    /* by value: backward reads it */
    place_bytes *p = NULL;
    *n = 0;
    for (int32_t i = 0; i < g->n_order; i++) {
        int32_t at = g->nodes[g->order[i]].label.at;
        *n = at >= *n ? at + 1 : *n;
    }
    TRY(REGION_ARRAYS(&r->unit->scratch, ARRAY(p, (size_t)*n + 1),
                      ARRAY_NONE(last, (size_t)r->n_values + 1),
                      ARRAY(late, (size_t)r->n_values + 1)));
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            if (v != IR_NONE && r->model[g->order[i]] && node->label.at > last[v]) {
                last[v] = node->label.at;
            } else if (v != IR_NONE && r->late[g->order[i]]) {
                late[v] = true;
            }
        }
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        bool makes = r->model[g->order[i]] && (ebb__op(node->op)->flags & OPF_ALIAS) == 0;
        for (int32_t k = 0; k < node->n_out && makes && node->label.at >= 0; k++) {
            double bytes = (double)ebb__ir_type_bytes(&g->values[node->out + k].type);
            p[node->label.at].made += late[node->out + k] ? bytes : 0;
            for (int32_t at = node->label.at + 1; at <= last[node->out + k]; at++) {
                p[at].handed += bytes;
            }
        }
    }
    *out = p;
    return EBB_OK;
}

/* Groups that take `room` with what is kept before them, as far as that can be; gives what the
 * fullest takes. */
static double fill_groups(const place_bytes *p, int32_t n, double room, int32_t *group) {
    double kept = 0, used = 0, most = 0;
    group[0] = 0;
    for (int32_t i = 0; i < n; i++) {
        bool full = i > 0 && kept + used + p[i].made > room;
        kept += full ? p[i].handed : 0;
        used = (full ? 0 : used) + p[i].made;
        group[i] = i == 0 ? 0 : group[i - 1] + full;
        most = fmax(most, kept + used);
    }
    return most;
}

/* Groups that take how.room times the least that the fullest can take. */
static ebb_status group_places(recomputer *r) {
    int32_t n;
    place_bytes *p = NULL;
    TRY(measure_places(r, &n, &p));
    TRY(ebb__region_alloc(&r->unit->scratch, (size_t)n + 1, sizeof *r->group, &r->group));
    double low = 0, high = fill_groups(p, n, HUGE_VAL, r->group);
    for (int32_t i = 0; i < ROOM_STEPS; i++) {
        double room = (low + high) / 2;
        bool fits = fill_groups(p, n, room, r->group) <= room;
        low = fits ? low : room;
        high = fits ? room : high;
    }
    (void)fill_groups(p, n, high * r->how.room, r->group);
    return EBB_OK;
}

static ebb_status classify(recomputer *r) {
    const ir_graph *g = r->g;
    const pass_unit *unit = r->unit;
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        const ir_node_rec *node = &g->nodes[n];
        uint32_t flags = ebb__op(node->op)->flags;
        int32_t era = n < unit->n_eras ? unit->era[n] : 0;
        r->late[n] = era > 0 || (era == 0 && node->label.phase != IR_FORWARD);
        r->model[n] = era == 0 && node->label.phase == IR_FORWARD;
        bool light = (flags & OPF_HEAVY) == 0 || (r->how.heavy && node->label.at >= 0);
        r->repeatable[n] = r->model[n] && light && ebb__op(node->op)->message == MESSAGE_NONE;
    }
    TRY(number_alikes(r));
    if (r->how.room > 0) {
        TRY(group_places(r));
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        const ir_node_rec *node = &g->nodes[n];
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            if (v == IR_NONE || g->values[v].def == IR_NONE || !r->model[g->values[v].def]) {
                continue;
            }
            if (r->late[n]) {
                r->needed[v] = true;
            } else {
                pin(r, v, node);
            }
        }
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        for (int32_t k = 0; r->model[n] && k < g->nodes[n].n_out; k++) {
            ir_val v = g->nodes[n].out + k;
            r->pinned[v] = r->pinned[v] || (g->nodes[n].label.at >= 0 && *all_alike_pinned(r, v));
        }
    }
    return EBB_OK;
}

/* ---- the decision ---- */

/* The operands that computing v again takes: those of its node, or of the op that rebuilds it from
 * the node's first result. Gives their number. */
static int32_t sources(const recomputer *r, ir_val v, ir_val in[OP_MAX_REBUILD + 1],
                       const ir_val **all) {
    const ir_graph *g = r->g;
    const ir_node_rec *node = &g->nodes[g->values[v].def];
    const op_def *def = ebb__op(node->op);
    if (def->rebuild.n_in == 0 || v != node->out + def->rebuild.out) {
        *all = &g->operands[node->in];
        return node->n_in;
    }
    in[0] = node->out;
    for (int32_t k = 0; k < def->rebuild.n_in; k++) {
        in[k + 1] = ir_in(g, node, def->rebuild.in[k]);
    }
    *all = in;
    return def->rebuild.n_in + 1;
}

static double seconds_of(const recomputer *r, ir_node n) {
    const pass_unit *unit = r->unit;
    const ir_node_rec *node = &r->g->nodes[n];
    int32_t kernel = 0;
    while (kernel < unit->dev->n_kernels && unit->dev->kernels[kernel].op != node->op) {
        kernel++;
    }
    return ebb__cost_seconds(unit->dev, r->g, node,
                             kernel < unit->dev->n_kernels ? kernel : DEVICE_KERNEL_REFERENCE,
                             unit->config->members);
}

/* Values that the decision is about: needed, or a source of one that may be repeated. Two choices
 * each: 2i, that it is there when backward asks for it; 2i + 1, that it is computed again. */
static int32_t number_choices(recomputer *r, ir_val *list) {
    int32_t n = 0;
    for (ir_val v = 0; v < r->n_values; v++) {
        if (r->needed[v]) {
            r->choice[v] = n;
            list[n++] = v;
        }
    }
    for (int32_t i = 0; i < n; i++) {
        ir_val v = list[i], few[OP_MAX_REBUILD + 1];
        const ir_val *in;
        if (!r->repeatable[producer(r, v)]) {
            continue;
        }
        for (int32_t k = sources(r, v, few, &in) - 1; k >= 0; k--) {
            ir_node def = producer(r, in[k]);
            if (def != IR_NONE && r->model[def] && r->choice[in[k]] < 0) {
                r->choice[in[k]] = n;
                list[n++] = in[k];
            }
        }
    }
    return n;
}

/* A unit of costs such that all of them together stay below MINCUT_NEVER. */
static double find_tick(const recomputer *r, const ir_val *list, int32_t n) {
    double all = 0;
    for (int32_t i = 0; i < n; i++) {
        all += (double)ebb__ir_type_bytes(&r->g->values[list[i]].type) * r->how.price +
               seconds_of(r, producer(r, list[i]));
    }
    return fmax(TICK, all / ((double)MINCUT_NEVER / 4));
}

/* A value that is there pays `kept` with its first choice; computed again, its second choice takes
 * that back and pays `repeated`. A view has no bytes of its own: it is to be repeated, which is
 * free, rather than kept. */
static ebb_status price_value(recomputer *r, mincut *cut, ir_val v) {
    int32_t there = 2 * r->choice[v], anew = there + 1;
    ir_node def = producer(r, v);
    ir_val few[OP_MAX_REBUILD + 1];
    const ir_val *in;
    bool view = (ebb__op(r->g->nodes[def].op)->flags & OPF_ALIAS) != 0;
    bool may = r->repeatable[def] && !r->pinned[v];
    double bytes = (double)ebb__ir_type_bytes(&r->g->values[v].type);
    int64_t kept = r->pinned[v] ? 0 : view ? VIEW_KEPT : (int64_t)(bytes * r->how.price / r->tick);
    int64_t repeated = view ? 0 : (int64_t)(seconds_of(r, def) / r->tick) + 1;
    TRY(ebb__mincut_cost(cut, there, r->needed[v] ? -MINCUT_NEVER : 0));
    TRY(ebb__mincut_cost(cut, there, kept));
    TRY(ebb__mincut_cost(cut, anew, may ? repeated - kept : MINCUT_NEVER));
    TRY(ebb__mincut_requires(cut, anew, there));
    if (!may) {
        return EBB_OK;
    }
    for (int32_t k = sources(r, v, few, &in) - 1; k >= 0; k--) {
        if (in[k] != IR_NONE && r->choice[in[k]] >= 0) {
            TRY(ebb__mincut_requires(cut, anew, 2 * r->choice[in[k]]));
        }
    }
    return EBB_OK;
}

static ebb_status decide(recomputer *r) {
    alloc_region *region = &r->unit->scratch;
    ir_val *list = NULL;
    bool *taken = NULL;
    mincut cut;
    TRY(ebb__region_alloc(region, (size_t)r->n_values + 1, sizeof *list, &list));
    int32_t n = number_choices(r, list);
    r->tick = find_tick(r, list, n);
    TRY(ebb__region_alloc(region, 2 * (size_t)n + 1, sizeof *taken, &taken));
    TRY(ebb__mincut_new(&cut, region, 2 * n));
    for (int32_t i = 0; i < n; i++) {
        TRY(price_value(r, &cut, list[i]));
    }
    TRY(ebb__mincut_solve(&cut, taken));
    for (ir_val v = 0; v < r->n_values; v++) {
        r->keep[v] = r->choice[v] < 0 || !taken[2 * r->choice[v] + 1];
    }
    return EBB_OK;
}

/* ---- clones ---- */

static bool is_missing(const recomputer *r, ir_val v) {
    return r->needed[v] && !r->keep[v];
}

/* Of a node's missing results only the one that another op rebuilds? */
static bool can_rebuild(const recomputer *r, const ir_node_rec *node) {
    const op_def *def = ebb__op(node->op);
    bool only =
        def->rebuild.n_in > 0 && is_missing(r, node->out + def->rebuild.out) && r->keep[node->out];
    for (int32_t k = 0; only && k < node->n_out; k++) {
        only = k == def->rebuild.out || !is_missing(r, node->out + k);
    }
    return only;
}

/* What computing the node's missing results again reads. Gives their number. */
static int32_t inputs(const recomputer *r, const ir_node_rec *node, ir_val few[OP_MAX_REBUILD + 1],
                      const ir_val **all) {
    if (can_rebuild(r, node)) {
        return sources(r, node->out + ebb__op(node->op)->rebuild.out, few, all);
    }
    *all = &r->g->operands[node->in];
    return node->n_in;
}

/* Which values clones take in turn; readers first. */
static void spread_needs(recomputer *r) {
    const ir_graph *g = r->g;
    for (int32_t i = g->n_order - 1; i >= 0; i--) {
        ir_node n = g->order[i];
        const ir_node_rec *node = &g->nodes[n];
        bool missing = false;
        for (int32_t k = 0; k < node->n_out && r->model[n]; k++) {
            missing = missing || is_missing(r, node->out + k);
        }
        if (!missing) {
            continue;
        }
        ir_val few[OP_MAX_REBUILD + 1];
        const ir_val *in;
        for (int32_t k = inputs(r, node, few, &in) - 1; k >= 0; k--) {
            ir_node def = producer(r, in[k]);
            if (def != IR_NONE && r->model[def]) {
                r->needed[in[k]] = true;
            }
        }
    }
}

typedef struct emission {
    ir_node *order; /* being built */
    int32_t n;
    size_t cap_order;
    ir_node *stack;    /* nodes to be cloned, found but not yet looked at */
    int32_t *found;    /* their positions in the order given, to be sorted */
    bool *seen;        /* by node */
    int32_t *position; /* by node, in the order given */
} emission;

/* A node is cloned once at most, but a value is copied for every span that reads it: room grows. */
static ebb_status append(recomputer *r, emission *e, ir_node n) {
    TRY(ebb__region_grow(&r->unit->scratch, &e->order, &e->cap_order, (size_t)e->n + 1,
                         sizeof *e->order));
    e->order[e->n++] = n;
    return EBB_OK;
}

/* What `span` reads of v: its clone, if there is one. A state that was kept between spans is
 * copied, so that it can be contiguous with those of this span: else all spans would be one stack,
 * which has to be there as a whole, or the few states that are kept would hold stacks of a span in
 * place. */
static ebb_status fetch(recomputer *r, emission *e, ir_val v, int32_t span, ir_label label,
                        ir_val *out) {
    ir_graph *g = r->g;
    ir_node def = v >= r->n_values ? (ir_node)IR_NONE : producer(r, v);
    *out = v;
    if (def == IR_NONE || !r->model[def]) {
        return EBB_OK;
    }
    const ir_label *made = &g->nodes[def].label;
    if (r->again[v] != IR_NONE) {
        *out = r->again[v];
    } else if (span >= 0 && r->pinned[v] && made->at >= 0 &&
               (r->how.replay || group_of(r, made->at) != span)) {
        if (r->handed[v] == IR_NONE || r->handed_to[v] != span) {
            g->label = label;
            g->label.phase = IR_RECOMPUTE;
            TRY(ebb__op_emit(g, OP_COPY, &v, 1, NULL, &r->handed[v]));
            r->handed_to[v] = span;
            TRY(append(r, e, g->values[r->handed[v]].def));
        }
        *out = r->handed[v];
    }
    return EBB_OK;
}

static ebb_status make_clone(recomputer *r, emission *e, ir_node n) {
    ir_graph *g = r->g;
    const ir_node_rec node = g->nodes[n];
    const op_def *def = ebb__op(node.op);
    ir_val few[OP_MAX_REBUILD + 1], out[IR_MAX_OUT], *in = few;
    const ir_val *from;
    bool rebuild = can_rebuild(r, &node);
    int32_t span = span_of_node(r, n), n_in = inputs(r, &node, few, &from);
    if (!rebuild) { /* `from` is the graph's own, which moves as nodes are emitted */
        TRY(ebb__region_alloc(&r->unit->scratch, (size_t)n_in + 1, sizeof *in, &in));
        memcpy(in, from, (size_t)n_in * sizeof *in);
    }
    for (int32_t k = 0; k < n_in; k++) {
        TRY(fetch(r, e, in[k], span, node.label, &in[k]));
    }
    g->label = node.label;
    g->label.phase = IR_RECOMPUTE;
    TRY(ebb__op_emit(g, (op_code)(rebuild ? def->rebuild.op : node.op), in, n_in,
                     rebuild ? NULL : &node.attr, out));
    TRY(append(r, e, g->values[out[0]].def));
    for (int32_t k = 0; k < node.n_out; k++) {
        if (is_missing(r, node.out + k)) {
            r->again[node.out + k] = out[rebuild ? 0 : k];
        }
    }
    return EBB_OK;
}

static bool is_to_be_made(const recomputer *r, ir_val v) {
    return v != IR_NONE && v < r->n_values && producer(r, v) != IR_NONE && is_missing(r, v) &&
           r->again[v] == IR_NONE;
}

static int by_position(const void *a, const void *b) {
    const int32_t *x = a, *y = b;
    return (x[0] > y[0]) - (x[0] < y[0]);
}

/* Clones the producer of v and all that it takes, in the order of the originals. */
static ebb_status require(recomputer *r, emission *e, const ir_node *given, ir_val v) {
    int32_t n_stack = 0, n_found = 0;
    if (!is_to_be_made(r, v)) {
        return EBB_OK;
    }
    e->stack[n_stack++] = producer(r, v);
    e->seen[producer(r, v)] = true;
    while (n_stack > 0) {
        ir_node n = e->stack[--n_stack];
        ir_val few[OP_MAX_REBUILD + 1];
        const ir_val *in;
        int32_t n_in = inputs(r, &r->g->nodes[n], few, &in);
        e->found[n_found++] = e->position[n];
        for (int32_t k = 0; k < n_in; k++) {
            ir_node def = producer(r, in[k]);
            if (is_to_be_made(r, in[k]) && !e->seen[def]) {
                e->seen[def] = true;
                e->stack[n_stack++] = def;
            }
        }
    }
    qsort(e->found, (size_t)n_found, sizeof *e->found, by_position);
    for (int32_t i = 0; i < n_found; i++) {
        TRY(make_clone(r, e, given[e->found[i]]));
    }
    return EBB_OK;
}

/* The order given, each late node behind the clones and copies that it is the first to read. */
static ebb_status emit(recomputer *r) {
    ir_graph *g = r->g;
    alloc_region *region = &r->unit->scratch;
    int32_t n_order = g->n_order;
    emission e = {.cap_order = 4 * (size_t)n_order + 1};
    ir_node *given = NULL;
    size_t nn = (size_t)r->n_nodes + 1;
    TRY(REGION_ARRAYS(region, ARRAY(e.order, e.cap_order), ARRAY(e.stack, nn), ARRAY(e.found, nn),
                      ARRAY(e.seen, nn), ARRAY(e.position, nn), ARRAY(given, (size_t)n_order + 1)));
    memcpy(given, g->order, (size_t)n_order * sizeof *given);
    for (int32_t i = 0; i < n_order; i++) {
        e.position[given[i]] = i;
    }
    for (int32_t i = 0; i < n_order; i++) {
        ir_node n = given[i];
        for (int32_t k = 0; r->late[n] && k < g->nodes[n].n_in; k++) {
            ir_val v = ir_in(g, &g->nodes[n], k), from = v;
            if (v != IR_NONE) {
                TRY(require(r, &e, given, v));
                TRY(fetch(r, &e, v, span_of_node(r, n), g->nodes[n].label, &from));
                ir_set_in(g, &g->nodes[n], k, from);
            }
        }
        TRY(append(r, &e, n));
    }
    g->n_order = 0;
    TRY(ebb__region_grow(&g->region, &g->order, &g->cap_order, (size_t)e.n, sizeof *g->order));
    memcpy(g->order, e.order, (size_t)e.n * sizeof *e.order);
    g->n_order = e.n;
    return EBB_OK;
}

/* ---- spans ---- */

/* Of each shard: forward from span to span, backward the other way round; what belongs to no time
 * step as soon as it can be done, updates last. There are fewer than 2^18 spans. Where stages wait
 * for each other, gradients of weights come when backward is through. */
static ebb_status sort_by_span(recomputer *r) {
    ir_graph *g = r->g;
    int64_t *keys = NULL;
    const int64_t shard = INT64_C(1) << 52, half = INT64_C(1) << 50, per_span = INT64_C(1) << 32;
    TRY(ebb__pass_keys(g, &r->unit->scratch, (size_t)g->n_nodes, 1, &keys));
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        int64_t span = span_of_node(r, n), begin = g->nodes[n].label.shard * shard;
        if (g->nodes[n].label.phase == IR_UPDATE) {
            keys[n] += IR_MAX_SHARDS * shard;
        } else if (span < 0) {
            bool sum = pass_chunk_steps(&r->unit->config->ranks) > 0 &&
                       g->values[g->nodes[n].out].param_grad;
            keys[n] = sum ? begin + 2 * half + per_span : begin - 1;
        } else {
            keys[n] += begin + (r->late[n] ? 2 * half - span * per_span : span * per_span);
        }
    }
    return ebb__pass_sort(g, keys);
}

static ebb_status apply(pass_unit *unit, const pass_knobs *how, bool sorts) {
    recomputer r;
    TRY(new_recomputer(unit, how, &r));
    TRY(classify(&r));
    if (sorts) {
        TRY(sort_by_span(&r));
    }
    TRY(decide(&r));
    spread_needs(&r);
    TRY(emit(&r));
    return ebb__pass_drop_dead(&unit->graph);
}

ebb_status ebb__recompute_sort(pass_unit *unit, const pass_knobs *how) {
    recomputer r;
    TRY(new_recomputer(unit, how, &r));
    TRY(classify(&r));
    return sort_by_span(&r);
}

/* Stages go from chunk to chunk of time steps also where nothing is repeated. */
static ebb_status sort_for_stages(pass_unit *unit, const pass_knobs *how) {
    bool sorts = how->span > 0 && pass_chunk_steps(&unit->config->ranks) > 0 &&
                 !pass_is_played(&unit->config->ranks);
    return sorts ? ebb__recompute_sort(unit, how) : EBB_OK;
}

static ebb_status run(pass_unit *unit) {
    pass_knobs how = unit->config->knobs;
    if (!unit->config->training) {
        return EBB_OK;
    }
    if (how.price <= 0) {
        return sort_for_stages(unit, &how);
    }
    TRY(apply(unit, &how, how.span > 0 && !pass_is_played(&unit->config->ranks)));
    if (how.span > 0 && how.outer > 1) {
        how.span *= how.outer;
        TRY(apply(unit, &how, false));
    }
    return EBB_OK;
}

const pass_def ebb__pass_recompute = {.id = PASS_RECOMPUTE, .run = run};
