/* cut_schedule.c - an order of all nodes for stages that share the output
 * layer's classes too (split_classes.c), found by playing the step: each rank
 * does, of what it could do now, what others wait for most. Forward comes
 * first, chunk by chunk of time steps; then what leads to backward of the last
 * chunks; sums over time steps, which nobody waits for, in between.
 *
 * What a rank does of one chunk, for one purpose, is one task. Seconds are
 * built-in ones, so that all ranks find the same order. No rule is the best for all
 * models, so that several are played, and the shortest step is taken. */
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
    purpose what;
    int32_t chunk;
    double seconds;
    int32_t needs; /* tasks that it waits for */
    int32_t first; /* edge to who waits for it; -1: none */
    int64_t place; /* in the shortest order so far */
    /* While a step is played: */
    int64_t urgency;
    double ready;
    int32_t waiting; /* tasks that it still waits for */
    int32_t next;    /* another one of its rank that could be done */
    int64_t number;  /* in the order found; -1: not yet */
    bool listed;     /* it was among those that could be done */
} task;

/* What a rule may differ in. */
typedef struct rule {
    int32_t lead;    /* chunks by which the gradient of what the output layer reads goes ahead of
                        backward: it has all ranks to pass before the last one can go on */
    double patience; /* what is more urgent than a sum is waited for, if it comes within so much of
                        the time that the sum takes */
} rule;
/* The first is plain; of equal ones an earlier one is taken. */
static const rule rules[] = {{0, 0},   {0, 0.25}, {0, 0.5},  {2, 0.25},
                             {2, 0.5}, {4, 0},    {4, 0.25}, {4, 0.5}};
enum { RULES = sizeof rules / sizeof *rules };

typedef struct edge {
    int32_t to, next;
} edge;

typedef struct player {
    const rank_cutter *c;
    task *tasks;
    int32_t n, chunks;
    rule rule;
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
static int64_t urgency_of(const player *p, const task *t) {
    int64_t chunk = t->chunk, chunks = p->chunks, after = chunks - 1 - chunk;
    switch (t->what) {
    case FOR_JOINT: /* takes next to no time */
        return -2 * chunks - chunk;
    case FOR_FORWARD:
        return chunk - chunks;
    case FOR_SUMS:
        return chunks * PURPOSES - chunk;
    case FOR_INPUT:
        return (after - p->rule.lead) * PURPOSES + FOR_INPUT;
    default:
        return after * PURPOSES + (int64_t)t->what;
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
            p->tasks[*at] = (task){
                .rank = grouped ? c->home[n] : HOME_ALL, .what = what, .chunk = chunk, .first = -1};
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
                p->tasks[to].needs++;
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

/* What a rank could begin next. */
typedef struct choice {
    int32_t task; /* -1: nothing */
    double start;
} choice;

/* The most urgent of those, sums or all others, that the rank could begin first. */
static choice first_of(const player *p, int32_t rank, bool sums) {
    choice best = {.task = -1, .start = HUGE_VAL};
    for (int32_t t = p->could[rank]; t >= 0; t = p->tasks[t].next) {
        const task *now = &p->tasks[t];
        double start = fmax(now->ready, p->time[rank]);
        bool alike = start == best.start && now->urgency < p->tasks[best.task].urgency;
        if ((now->what == FOR_SUMS) == sums && (start < best.start || alike)) {
            best = (choice){t, start};
        }
    }
    return best;
}

static choice choose(const player *p, int32_t rank) {
    choice other = first_of(p, rank, false), sum = first_of(p, rank, true);
    double patience = sum.task < 0 ? 0 : p->rule.patience * p->tasks[sum.task].seconds;
    return other.task >= 0 && other.start <= sum.start + patience ? other : sum;
}

static void unlist(player *p, int32_t rank, int32_t t) {
    int32_t *at = &p->could[rank];
    while (*at != t) {
        at = &p->tasks[*at].next;
    }
    *at = p->tasks[t].next;
}

static void begin(player *p, const rule *by) {
    p->rule = *by;
    p->n_done = 0;
    memset(p->could, -1, sizeof p->could);
    memset(p->time, 0, sizeof p->time);
    for (int32_t t = 0; t < p->n; t++) {
        task *now = &p->tasks[t];
        now->urgency = urgency_of(p, now);
        now->ready = 0;
        now->waiting = now->needs;
        now->number = -1;
        now->listed = false;
    }
    for (int32_t t = 0; t < p->n; t++) {
        if (p->tasks[t].needs == 0 && p->tasks[t].number < 0 && !p->tasks[t].listed) {
            let_go(p, t);
        }
    }
}

/* The seconds of the step. */
static double play(player *p, const rule *by) {
    double end = 0;
    begin(p, by);
    for (;;) {
        choice next = {.task = -1, .start = HUGE_VAL};
        for (int32_t r = 0; r < p->c->ranks; r++) {
            choice own = choose(p, r);
            next = own.start < next.start ? own : next;
        }
        if (next.task < 0) {
            return end;
        }
        task *now = &p->tasks[next.task];
        unlist(p, now->rank, next.task);
        p->time[now->rank] = now->ready = next.start + now->seconds;
        end = fmax(end, now->ready);
        let_go(p, next.task);
    }
}

/* By the first of the best rules. False: tasks wait for each other. */
static bool play_all(player *p) {
    double least = HUGE_VAL;
    for (int k = 0; k < RULES; k++) {
        double seconds = play(p, &rules[k]);
        if (p->n_done < p->n) {
            return false;
        }
        for (int32_t t = 0; seconds < least && t < p->n; t++) {
            p->tasks[t].place = p->tasks[t].number;
        }
        least = fmin(least, seconds);
    }
    return true;
}

ebb_status ebb__cut_schedule(const rank_cutter *c, int32_t steps, int32_t chunks, int64_t *keys,
                             bool *found) {
    const ir_graph *g = c->g;
    player p = {.c = c, .chunks = chunks};
    int64_t all = g->n_order;
    TRY(find_tasks(&p, steps, chunks));
    TRY(find_edges(&p));
    *found = play_all(&p);
    for (int32_t i = 0; *found && i < g->n_order; i++) {
        keys[g->order[i]] = p.tasks[p.of[g->order[i]]].place * all + i;
    }
    return EBB_OK;
}
