/* cut_schedule.c - an order of all nodes for stages that share the output
 * layer's classes too (split_classes.c), found by playing the step: each rank
 * does, of what it could do now, what others wait for most. Forward comes
 * first, chunk by chunk of time steps; then what leads to backward of the last
 * chunks; sums over time steps, which nobody waits for, in between.
 *
 * What a rank does of one chunk, for one purpose, is one task. Seconds are
 * built-in ones, so that all ranks find the same order. */
#include "pass/ranks.h"

#include <math.h>
#include <string.h>

static const double HANDING_ON = 2e-5;                /* seconds, from a rank to another */
static const double FLOPS = 1e11, OTHER_FLOPS = 1e10; /* a second */

/* What a task is for, the most urgent of a chunk first, but for forward, which
 * goes before all, and sums, which come behind all. */
typedef enum purpose {
    FOR_JOINT, /* loss: what goes from part to part of the classes */
    FOR_INPUT, /* the gradient of what the output layer reads */
    FOR_BACKWARD,
    FOR_LOGITS, /* of a part */
    FOR_FORWARD,
    FOR_SUMS,
    PURPOSES
} purpose;

typedef struct task {
    int32_t rank; /* HOME_ALL: takes no time */
    int64_t urgency;
    double seconds, ready;
    int32_t waiting; /* tasks that it waits for */
    int32_t first;   /* edge to who waits for it; -1: none */
    int32_t next;    /* another one of its rank that could be done */
    int64_t number;  /* in the order found; -1: not yet */
    bool listed;     /* it was among those that could be done */
} task;

typedef struct edge {
    int32_t to, next;
} edge;

typedef struct player {
    const rank_cutter *c;
    task *tasks;
    int32_t n;
    int32_t *of; /* by node: its task */
    edge *edges;
    int32_t n_edges;
    int32_t could[PASS_MOST_RANKS]; /* by rank: the first task that could be done;
                                       -1: none */
    double time[PASS_MOST_RANKS];
    int64_t n_done;
} player;

/* ---- tasks ---- */

/* By node: it is of the output layer's parts, and depends on another rank's. */
static ebb_status find_joint(const rank_cutter *c, bool **out) {
    const ir_graph *g = c->g;
    bool *joint = NULL;
    TRY(ebb__region_alloc(c->region, (size_t)g->n_nodes + 1, sizeof *joint, &joint));
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        const ir_node_rec *node = &g->nodes[n];
        for (int32_t k = 0; rank_is_part(c, node) && k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            ir_node def = v == IR_NONE ? (ir_node)IR_NONE : g->values[v].def;
            bool part = def != IR_NONE && rank_is_part(c, &g->nodes[def]);
            joint[n] = joint[n] || (part && (joint[def] || c->home[def] != c->home[n]));
        }
    }
    *out = joint;
    return EBB_OK;
}

static purpose purpose_of(const rank_cutter *c, const ir_node_rec *node, bool joint) {
    bool forward = node->label.phase == IR_FORWARD;
    pass_roles r;
    if (!forward && ebb__pass_roles(c->g, node, &r) && r.out[0] == ROWS_CARRY) {
        return FOR_SUMS;
    }
    if (rank_is_part(c, node)) {
        return !forward ? FOR_INPUT : joint ? FOR_JOINT : FOR_LOGITS;
    }
    return forward ? FOR_FORWARD : FOR_BACKWARD;
}

/* Products of a chunk's time steps will be one: arithmetic counts, not the size
 * of each. */
static double seconds_of(const rank_cutter *c, const ir_node_rec *node) {
    op_cost cost = ebb__op_cost(c->g, node);
    bool product = (ebb__op(node->op)->flags & OPF_HEAVY) != 0;
    return cost.flops / (product ? FLOPS : OTHER_FLOPS);
}

/* Does the node belong to a chunk by itself? */
static bool has_chunk(const rank_cutter *c, ir_node n) {
    const ir_node_rec *node = &c->g->nodes[n];
    return rank_shard(node) >= 0 && c->home[n] != HOME_ALL && node->label.at >= 0;
}

/* By node: the chunk that it is done with; -1: none. What reads results of a
 * later one of its phase goes with that: the gradient of a state is added to
 * what came down from the layer above, say. Views, which may have no chunk of
 * their own, hand on that of what they show. */
static ebb_status find_chunks(const rank_cutter *c, int32_t steps, int32_t **out) {
    const ir_graph *g = c->g;
    int32_t *chunk = NULL;
    TRY(REGION_ARRAYS(c->region, ARRAY_NONE(chunk, (size_t)g->n_nodes + 1)));
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        const ir_node_rec *node = &g->nodes[n];
        bool forward = node->label.phase == IR_FORWARD;
        chunk[n] = has_chunk(c, n) ? node->label.at / steps : -1;
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            ir_node def = v == IR_NONE ? (ir_node)IR_NONE : g->values[v].def;
            bool same =
                def != IR_NONE && chunk[def] >= 0 && g->nodes[def].label.phase == node->label.phase;
            bool later = same && (forward ? chunk[def] > chunk[n] : chunk[def] < chunk[n]);
            chunk[n] = later || (same && chunk[n] < 0) ? chunk[def] : chunk[n];
        }
    }
    *out = chunk;
    return EBB_OK;
}

/* Less is more urgent. */
static int64_t urgency_of(purpose what, int64_t chunk, int64_t chunks) {
    switch (what) {
    case FOR_JOINT: /* takes next to no time */
        return -2 * chunks - chunk;
    case FOR_FORWARD:
        return chunk - chunks;
    case FOR_SUMS:
        return chunks * PURPOSES - chunk;
    default:
        return (chunks - 1 - chunk) * PURPOSES + (int64_t)what;
    }
}

/* Sums over time steps are done for several chunks at once (batch_find.c): the first of them. */
static int32_t chunk_of_sums(const rank_cutter *c, int32_t chunk, int32_t steps) {
    const pass_ranks *ranks = &c->unit->config->ranks;
    int32_t sum = pass_sum_of(ranks, chunk * steps);
    return sum == 0 ? 0 : 1 + (sum - 1) * (ranks->sum_steps / steps);
}

/* Which task does a node of a chunk belong to? Sums are for each layer: whoever has nothing else to
 * do should not be held up by all of them when something comes. */
static size_t kind_of(const rank_cutter *c, ir_node n, int32_t chunk, int32_t chunks,
                      purpose what) {
    size_t kinds = PURPOSES + (size_t)c->g->n_layers;
    size_t kind = what == FOR_SUMS ? PURPOSES + (size_t)c->g->nodes[n].label.layer : (size_t)what;
    return ((size_t)c->home[n] * (size_t)chunks + (size_t)chunk) * kinds + kind;
}

/* Nodes of no chunk are tasks of their own. */
static ebb_status find_tasks(player *p, int32_t steps, int32_t chunks) {
    const rank_cutter *c = p->c;
    const ir_graph *g = c->g;
    size_t classes = (size_t)c->ranks * (size_t)chunks * (PURPOSES + (size_t)g->n_layers);
    int32_t *known = NULL; /* by kind_of */
    bool *joint = NULL;
    int32_t *chunk_of = NULL;
    TRY(find_joint(c, &joint));
    TRY(find_chunks(c, steps, &chunk_of));
    TRY(REGION_ARRAYS(c->region, ARRAY_NONE(known, classes), ARRAY(p->of, (size_t)g->n_nodes + 1),
                      ARRAY(p->tasks, (size_t)g->n_order + 1)));
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        const ir_node_rec *node = &g->nodes[n];
        int32_t chunk = chunk_of[n], none = -1, *at = &none;
        purpose what = purpose_of(c, node, joint[n]);
        bool grouped = has_chunk(c, n);
        if (grouped && what == FOR_SUMS) {
            chunk = chunk_of_sums(c, chunk, steps);
        }
        if (grouped) {
            at = &known[kind_of(c, n, chunk, chunks, what)];
        }
        if (*at < 0) {
            *at = p->n++;
            p->tasks[*at] = (task){.rank = grouped ? c->home[n] : HOME_ALL,
                                   .urgency = urgency_of(what, chunk, chunks),
                                   .first = -1,
                                   .number = -1};
        }
        p->of[n] = *at;
        p->tasks[*at].seconds += grouped ? seconds_of(c, node) : 0;
    }
    return EBB_OK;
}

static ebb_status find_edges(player *p) {
    const ir_graph *g = p->c->g;
    TRY(ebb__region_alloc(p->c->region, (size_t)g->n_operands + 1, sizeof *p->edges, &p->edges));
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        int32_t to = p->of[g->order[i]];
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            ir_node def = v == IR_NONE ? (ir_node)IR_NONE : g->values[v].def;
            if (def != IR_NONE && p->of[def] != to) {
                p->edges[p->n_edges] = (edge){to, p->tasks[p->of[def]].first};
                p->tasks[p->of[def]].first = p->n_edges++;
                p->tasks[to].waiting++;
            }
        }
    }
    return EBB_OK;
}

/* ---- playing ---- */

/* What waits for nothing now can be done; what takes no time is, and so is what
 * is taken from the list of what could be done: whoever waits for it goes on.
 */
static void let_go(player *p, int32_t t) {
    task *now = &p->tasks[t];
    if (now->rank != HOME_ALL && !now->listed) {
        now->listed = true;
        now->next = p->could[now->rank];
        p->could[now->rank] = t;
        return;
    }
    now->number = p->n_done++;
    for (int32_t e = now->first; e >= 0; e = p->edges[e].next) {
        task *to = &p->tasks[p->edges[e].to];
        double there = now->ready + (to->rank != now->rank ? HANDING_ON : 0);
        to->ready = there > to->ready ? there : to->ready;
        if (--to->waiting == 0) {
            let_go(p, p->edges[e].to);
        }
    }
}

/* When a rank could begin with something; HUGE_VAL: never. */
static double next_start(const player *p, int32_t rank) {
    double start = HUGE_VAL;
    for (int32_t t = p->could[rank]; t >= 0; t = p->tasks[t].next) {
        start = p->tasks[t].ready < start ? p->tasks[t].ready : start;
    }
    return start > p->time[rank] ? start : p->time[rank];
}

/* The most urgent of what the rank could begin by then, taken from its list. */
static int32_t take(player *p, int32_t rank, double start) {
    int32_t *best = NULL;
    for (int32_t *t = &p->could[rank]; *t >= 0; t = &p->tasks[*t].next) {
        const task *now = &p->tasks[*t];
        bool better = best == NULL || now->urgency < p->tasks[*best].urgency;
        best = now->ready <= start && better ? t : best;
    }
    int32_t taken = *best;
    *best = p->tasks[taken].next;
    return taken;
}

static void play(player *p) {
    for (int32_t t = 0; t < p->n; t++) {
        if (p->tasks[t].waiting == 0 && p->tasks[t].number < 0 && !p->tasks[t].listed) {
            let_go(p, t);
        }
    }
    for (;;) {
        int32_t rank = -1;
        double start = HUGE_VAL;
        for (int32_t r = 0; r < p->c->ranks; r++) {
            double at = p->could[r] < 0 ? HUGE_VAL : next_start(p, r);
            rank = at < start ? r : rank;
            start = at < start ? at : start;
        }
        if (rank < 0) {
            return;
        }
        int32_t t = take(p, rank, start);
        task *now = &p->tasks[t];
        p->time[rank] = now->ready = start + now->seconds;
        let_go(p, t);
    }
}

ebb_status ebb__cut_schedule(const rank_cutter *c, int32_t steps, int32_t chunks, int64_t *keys,
                             bool *found) {
    const ir_graph *g = c->g;
    player p = {.c = c};
    int64_t all = g->n_order;
    memset(p.could, -1, sizeof p.could);
    TRY(find_tasks(&p, steps, chunks));
    TRY(find_edges(&p));
    play(&p);
    *found = p.n_done == p.n; /* else tasks wait for each other */
    for (int32_t i = 0; *found && i < g->n_order; i++) {
        keys[g->order[i]] = p.tasks[p.of[g->order[i]]].number * all + i;
    }
    return EBB_OK;
}
