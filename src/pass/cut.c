/* cut.c - what one rank does of a step that several share, and the messages between them.
 *
 * All ranks have the graph of the whole step. A node of a shard is done by the rank that has the
 * shard; sums over shards that are one rank's, by that rank; sums of gradients over ranks, and
 * updates, by their owners (reduce.c). Everything else (the norm, the gradient of the mean loss) is
 * done by every rank that wants its results. So no rank computes anything that one rank alone would
 * not, and no bit depends on how many there are.
 *
 * A value that a rank wants and another one makes becomes a message. All ranks go through one order
 * of all nodes, in which the k-th shards of all ranks stand side by side. Where the value is made
 * stands send, and recv there or, if that is later, where the receiver has what it needs beside it;
 * where the value is first wanted stand sent and got. Each rank takes the message nodes of
 * this one sequence that are its own and chains them by an operand. Then no later pass can exchange
 * two of them, and no two ranks can wait for each other: of all that wait, look at who waits at the
 * earliest place of the sequence. It waits for a start that stands before that place, at a rank
 * which is not waiting at or before it, so that this start is done.
 *
 * Gradients are wanted only when the next one is there: between starting a message and waiting for
 * it there is work. Where layers are parted (stages.c), what one stage hands on is waited for by
 * the next, and by itself only in the end. */
#include "pass/classes.h"
#include "pass/ranks.h"

#include "grad/update.h"

#include <string.h>

typedef struct cut_message {
    ir_val x;
    op_post post;
    ir_val beside;     /* of one to be received, until it is started: see recv */
    ir_val started[2]; /* what send or recv gave; IR_NONE: it waits for `beside` */
} cut_message;

typedef struct cutter {
    rank_cutter r;
    int32_t n_values;  /* before messages */
    uint64_t *does;    /* by node: a bit for each rank that does it */
    uint64_t *wants;   /* by value: that wants it, and does not make it */
    uint64_t *arrived; /* by value: where it was waited for */
    int32_t *started;  /* by value: a number from 1 on, growing, once it is on its way */
    bool *is_held;   /* by value: it is read after the step: an output, or what a variable holds */
    ir_node *reader; /* by value: the first node of this rank that reads it */
    bool *done;      /* by value: this rank has made it by now */
    bool *is_late;   /* by value: on other ranks, only nodes that are not needed read it */
    bool *is_handed; /* by value: on another rank, a node of a shard reads it */
    bool *is_early;  /* by value: it has come to this rank while the step may be given up */
    ir_val *now;     /* by value: what stands for it on this rank */
    cut_message *open; /* started, not waited for */
    int32_t n_open;
    size_t cap_open;
    ir_val after; /* what the last message node gave; IR_NONE: there is none yet */
    int32_t sent[PASS_MOST_RANKS], received[PASS_MOST_RANKS]; /* messages so far: their tags */
    int32_t n_started;
} cutter;

/* ---- who does what ---- */

static int32_t rank_of(const rank_cutter *c, int32_t shard, int32_t layer) {
    return rank_group_of_shard(c, shard) * c->stages + c->stage[layer];
}

ebb_status ebb__cut_settle(rank_cutter *c, ir_node first, int32_t home) {
    size_t n = (size_t)c->g->n_nodes;
    TRY(ebb__region_grow(c->region, &c->home, &c->cap_home, n + 1, sizeof *c->home));
    for (ir_node k = first; k < c->g->n_nodes; k++) {
        c->home[k] = home;
    }
    return EBB_OK;
}

/* Of a node of no shard: the rank that has all operands that not everybody has. */
static int32_t home_of_operands(const rank_cutter *c, const ir_node_rec *node) {
    int32_t home = HOME_ALL;
    for (int32_t k = 0; k < node->n_in; k++) {
        ir_val v = ir_in(c->g, node, k);
        int32_t other = v == IR_NONE ? HOME_ALL : rank_home(c, v);
        if (other != HOME_ALL && home != HOME_ALL && other != home) {
            return HOME_ALL;
        }
        home = other != HOME_ALL ? other : home;
    }
    return home;
}

/* A node that reads what only one stage keeps: the first group's rank of that stage; else HOME_ALL.
 * variable: by value, the one that it is, or is a view of. */
static int32_t home_of_keeper(const rank_cutter *c, const ir_val *variable,
                              const ir_node_rec *node) {
    int32_t home = HOME_ALL;
    for (int32_t k = 0; c->stages > 1 && node->label.phase != IR_UPDATE && k < node->n_in; k++) {
        ir_val v = ir_in(c->g, node, k), kept = v == IR_NONE ? v : variable[v];
        home = kept == IR_NONE ? home : c->stage[c->g->values[kept].layer];
    }
    return home;
}

/* Views of variables are made wherever somebody wants them. */
static ebb_status find_homes(rank_cutter *c) {
    ir_graph *g = c->g;
    ir_val *variable = NULL;
    TRY(REGION_ARRAYS(c->region, ARRAY_NONE(variable, (size_t)g->n_values + 1)));
    for (ir_val v = 0; v < g->n_values; v++) {
        variable[v] = rank_keeps(&g->values[v]) ? v : (ir_val)IR_NONE;
    }
    TRY(ebb__cut_settle(c, 0, HOME_ALL));
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        int32_t shard = rank_shard(node);
        int32_t home = ebb__cut_is_for_all(node)  ? HOME_ALL
                       : ebb__cut_continues(node) ? rank_home(c, ir_in(g, node, 1))
                                                  : home_of_operands(c, node);
        int32_t keeper = home_of_keeper(c, variable, node);
        bool read = keeper != HOME_ALL && g->values[node->out].output; /* by the first rank */
        bool view = (ebb__op(node->op)->flags & OPF_ALIAS) != 0 && home == HOME_ALL && !read;
        if (view) {
            for (int32_t k = 0; k < node->n_in; k++) {
                ir_val v = ir_in(g, node, k);
                variable[node->out] = variable[v] != IR_NONE ? variable[v] : variable[node->out];
            }
        } else if (shard >= 0 && keeper != HOME_ALL) { /* done again for another layer, say */
            home = rank_group_of_shard(c, shard) * c->stages + keeper;
        } else if (shard >= 0) {
            home = rank_of(c, shard, node->label.layer);
        } else if (keeper != HOME_ALL) {
            home = keeper;
        }
        c->home[g->order[i]] = home;
    }
    return EBB_OK;
}

/* ---- who wants what ---- */

/* A slot that nothing is updated with, as an average: it is made of what its parameter will be, and
 * who has the one has the other. */
static bool is_average(const cutter *c, const ir_value *value) {
    const ir_graph *g = c->r.g;
    return value->role == IR_SLOT && value->next != IR_NONE &&
           g->nodes[g->values[value->next].def].n_out == 1;
}

/* The ranks that have a variable: of the optimiser's state, who uses it; of others, who does its
 * layer. */
static uint64_t holders_of(const cutter *c, ir_val v) {
    const ir_value *value = &c->r.g->values[v];
    uint64_t ranks = 0;
    if (value->role == IR_SLOT && !is_average(c, value)) {
        return value->next == IR_NONE ? 0 : c->does[c->r.g->values[value->next].def];
    }
    for (int32_t group = 0; group < rank_groups(&c->r); group++) {
        bool has = value->role != IR_STATE || value->all_rows == 0 || group == rank_group(&c->r);
        int32_t rank = group * c->r.stages + c->r.stage[value->layer];
        ranks |= has ? (uint64_t)1 << rank : 0;
    }
    return value->role == IR_INPUT ? ~(uint64_t)0 : ranks;
}

/* The learner of every rank looks at the norm, and all go on, or give up, together; the rest is for
 * reports. */
static uint64_t readers_of_output(const cutter *c, const ir_value *value) {
    bool looked_at = value->name != NULL && (strcmp(value->name, UPDATE_NORM) == 0 ||
                                             strcmp(value->name, UPDATE_BAD) == 0);
    bool agreed = value->def != IR_NONE && value->def == c->r.agreed;
    return looked_at || agreed ? ~(uint64_t)0 >> (PASS_MOST_RANKS - c->r.ranks) : 1;
}

/* A value is wanted by ranks: those that do not have it from its maker, or must make it. */
static void want(cutter *c, ir_val v, uint64_t ranks) {
    int32_t home = rank_home(&c->r, v);
    if (c->r.g->values[v].def != IR_NONE) {
        c->wants[v] |= home == HOME_ALL ? ranks : ranks & ~((uint64_t)1 << home);
    }
}

/* From the last node to the first: readers come before makers. Of a value of all ranks, wants[]
 * says who must make it. */
static void find_wants(cutter *c) {
    const ir_graph *g = c->r.g;
    for (ir_val v = 0; v < c->n_values; v++) {
        const ir_value *value = &g->values[v];
        ir_node def = value->def;
        /* A sum of gradients that all ranks apply goes at once: beside backward, not behind it. */
        c->is_late[v] = def != IR_NONE && c->r.needed[def] && !value->param_grad;
        if (value->output || v == g->loss) {
            want(c, v, readers_of_output(c, value));
            c->is_held[v] = true;
        }
        if (value->next != IR_NONE && (value->role != IR_SLOT || is_average(c, value))) {
            want(c, value->next, holders_of(c, v));
            c->is_held[value->next] = true;
        }
    }
    for (int32_t i = g->n_order - 1; i >= 0; i--) {
        ir_node n = g->order[i];
        const ir_node_rec *node = &g->nodes[n];
        int32_t home = c->r.home[n];
        for (int32_t k = 0; k < node->n_out; k++) {
            c->does[n] |= home == HOME_ALL ? c->wants[node->out + k] : (uint64_t)1 << home;
        }
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            if (v != IR_NONE) {
                bool away = rank_home(&c->r, v) != home && rank_home(&c->r, v) != HOME_ALL;
                want(c, v, c->does[n]);
                c->is_late[v] = c->is_late[v] && (!away || !c->r.needed[n]);
                c->is_handed[v] = c->is_handed[v] || (away && rank_shard(node) >= 0);
                c->reader[v] = rank_has(c->does[n], c->r.me) ? n : c->reader[v];
            }
        }
    }
}

/* ---- messages ---- */

static ir_label own_label(const cutter *c, ir_label label) {
    int32_t first = rank_first_shard(&c->r, rank_group(&c->r));
    int32_t end = rank_first_shard(&c->r, rank_group(&c->r) + 1);
    bool own = label.shard >= first && label.shard < end;
    label.shard = own ? label.shard - first : 0;
    return label;
}

/* What a sum over shards needs beside the value and its rank makes itself; IR_NONE: nothing. */
static ir_val beside_of(const cutter *c, ir_val x) {
    const ir_graph *g = c->r.g;
    ir_val beside = IR_NONE;
    const ir_node_rec *node = c->reader[x] == IR_NONE ? NULL : &g->nodes[c->reader[x]];
    for (int32_t k = 0; node != NULL && rank_shard(node) < 0 && k < node->n_in; k++) {
        ir_val v = ir_in(g, node, k);
        beside = v != IR_NONE && rank_home(&c->r, v) == c->r.me ? v : beside;
    }
    return beside;
}

static ebb_status start_receiving(cutter *c, cut_message *m) {
    ir_graph *g = c->r.g;
    const ir_type type = g->values[m->x].type;
    g->label = own_label(c, g->nodes[g->values[m->x].def].label);
    TRY(ebb__op_recv(g, &type, m->post, c->after, m->beside, m->started));
    g->values[m->started[0]].param_grad = g->values[m->x].param_grad;
    c->after = m->started[1];
    return EBB_OK;
}

/* Value x goes from its maker to another rank: started behind the node that makes it, or that makes
 * what is to be there beside it. */
static ebb_status start(cutter *c, ir_val x, int32_t to) {
    ir_graph *g = c->r.g;
    int32_t from = rank_home(&c->r, x), me = c->r.me;
    if (from != me && to != me) {
        return EBB_OK;
    }
    /* Two ranks count the messages between them: they do not know of all that others have. */
    int32_t tag = from == me ? c->sent[to]++ : c->received[from]++;
    cut_message m = {x, {from == me ? to : from, tag, x}, IR_NONE, {IR_NONE, IR_NONE}};
    if (from == me) {
        g->label = own_label(c, g->nodes[g->values[x].def].label);
        TRY(ebb__op_send(g, x, m.post, c->after, &m.started[0]));
        c->after = m.started[0];
    } else {
        m.beside = beside_of(c, x);
        TRY(m.beside == IR_NONE || c->done[m.beside] ? start_receiving(c, &m) : EBB_OK);
    }
    TRY(ebb__region_grow(c->r.region, &c->open, &c->cap_open, (size_t)c->n_open + 1,
                         sizeof *c->open));
    c->open[c->n_open++] = m;
    return EBB_OK;
}

/* Starts what waited for results of the node, in the order in which they were sent. */
static ebb_status start_waiting(cutter *c, const ir_node_rec *node) {
    for (int32_t i = 0; i < c->n_open; i++) {
        cut_message *m = &c->open[i];
        bool now = m->beside >= node->out && m->beside < node->out + node->n_out;
        if (now && m->started[0] == IR_NONE) {
            TRY(start_receiving(c, m));
        }
    }
    return EBB_OK;
}

/* Waits for the message. read: else the value is only held, from recv on. */
static ebb_status finish(cutter *c, ir_val x, int32_t to, bool read) {
    ir_graph *g = c->r.g;
    int32_t from = rank_home(&c->r, x), me = c->r.me, at = 0;
    int32_t peer = from == me ? to : from;
    c->arrived[x] |= (uint64_t)1 << to;
    if (from != me && to != me) {
        return EBB_OK;
    }
    while (c->open[at].x != x || c->open[at].post.peer != peer) {
        at++;
    }
    const cut_message message = c->open[at];
    if (from == me && c->is_handed[x]) {
        return EBB_OK; /* who hands on does not wait: see finish_handed */
    }
    g->label = own_label(c, g->nodes[g->values[x].def].label);
    c->n_open--;
    memmove(&c->open[at], &c->open[at + 1], (size_t)(c->n_open - at) * sizeof *c->open);
    if (from == me) {
        return ebb__op_sent(g, message.started[0], x, c->after, &c->after);
    }
    ir_val got[2];
    TRY(ebb__op_got(g, message.started, c->after, got));
    g->values[got[0]].param_grad = g->values[x].param_grad;
    c->now[x] = read ? got[0] : message.started[0];
    c->after = got[1];
    return EBB_OK;
}

/* To all ranks that want it. */
static ebb_status start_all(cutter *c, ir_val x) {
    for (int32_t to = 0; rank_home(&c->r, x) != HOME_ALL && to < c->r.ranks; to++) {
        if (rank_has(c->wants[x], to)) {
            TRY(start(c, x, to));
        }
    }
    c->started[x] = ++c->n_started;
    return EBB_OK;
}

/* At all these ranks. */
static ebb_status finish_all(cutter *c, ir_val x, uint64_t ranks, bool read) {
    for (int32_t to = 0; to < c->r.ranks; to++) {
        TRY(rank_has(ranks, to) ? finish(c, x, to, read) : EBB_OK);
    }
    return EBB_OK;
}

/* Where operand k of a node is still to come. */
static uint64_t awaited(const cutter *c, const ir_node_rec *node, uint64_t does, int32_t k) {
    ir_val x = ir_in(c->r.g, node, k);
    return x == IR_NONE || rank_home(&c->r, x) == HOME_ALL ? 0
                                                           : does & c->wants[x] & ~c->arrived[x];
}

/* What the node reads must be there, wherever it is done: first what was sent first. */
static ebb_status finish_operands(cutter *c, const ir_node_rec *node, uint64_t does) {
    for (int32_t k = 0; k < node->n_in; k++) {
        if (awaited(c, node, does, k) != 0 && c->started[ir_in(c->r.g, node, k)] == 0) {
            TRY(start_all(c, ir_in(c->r.g, node, k)));
        }
    }
    for (;;) {
        ir_val next = IR_NONE;
        uint64_t wait = 0;
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val x = ir_in(c->r.g, node, k);
            uint64_t here = awaited(c, node, does, k);
            if (here != 0 && (next == IR_NONE || c->started[x] < c->started[next])) {
                next = x;
                wait = here;
            }
        }
        if (next == IR_NONE) {
            return EBB_OK;
        }
        TRY(finish_all(c, next, wait, true));
    }
}

/* What no gradient waits for is not started before it is read: it would stand in the way of what is
 * urgent. */
static ebb_status start_results(cutter *c, const ir_node_rec *node) {
    for (ir_val x = node->out; x < node->out + node->n_out; x++) {
        TRY(c->is_late[x] ? EBB_OK : start_all(c, x));
    }
    return EBB_OK;
}

/* ---- the rank's graph ---- */

static ebb_status append(ir_graph *g, ir_node n) {
    TRY(ebb__region_grow(&g->region, &g->order, &g->cap_order, (size_t)g->n_order + 1,
                         sizeof *g->order));
    g->order[g->n_order++] = n;
    return EBB_OK;
}

static ebb_status agree(cutter *c, const ir_node_rec *node);

static ebb_status visit(cutter *c, ir_node n) {
    ir_graph *g = c->r.g;
    const ir_node_rec node = g->nodes[n];
    TRY(finish_operands(c, &node, c->does[n]));
    if (n == c->r.agreed) {
        return agree(c, &node);
    }
    if (rank_has(c->does[n], c->r.me)) {
        for (int32_t k = 0; k < node.n_in; k++) {
            ir_val v = ir_in(g, &node, k);
            ir_set_in(g, &node, k, v == IR_NONE ? v : c->now[v]);
        }
        g->nodes[n].label = own_label(c, node.label);
        TRY(append(g, n));
        memset(&c->done[node.out], true, node.n_out);
        TRY(start_waiting(c, &node));
    }
    return start_results(c, &node);
}

/* What is read only after the step. What a variable holds then may lie there from recv on; an
 * output is one wherever it is wanted. */
static ebb_status finish_held(cutter *c) {
    ir_graph *g = c->r.g;
    for (ir_val x = 0; x < c->n_values; x++) {
        uint64_t wait =
            !c->is_held[x] || rank_home(&c->r, x) == HOME_ALL ? 0 : c->wants[x] & ~c->arrived[x];
        if (wait != 0 && c->started[x] == 0) {
            TRY(start_all(c, x));
        }
        TRY(finish_all(c, x, wait, g->values[x].output));
        if (g->values[x].output && c->now[x] != x) {
            g->values[c->now[x]].output = true;
            g->values[c->now[x]].name = g->values[x].name;
            g->values[x].output = false;
        }
    }
    return EBB_OK;
}

/* What was handed on from stage to stage: all at the end, when there is nothing else to do. */
static ebb_status finish_handed(cutter *c) {
    ir_graph *g = c->r.g;
    for (int32_t i = 0; i < c->n_open; i++) {
        const cut_message *m = &c->open[i];
        g->label = own_label(c, g->nodes[g->values[m->x].def].label);
        TRY(ebb__op_sent(g, m->started[0], m->x, c->after, &c->after));
    }
    c->n_open = 0;
    return EBB_OK;
}

/* Where the step may be given up, no message is on its way: neither will those that come later be
 * sent then, nor may these be met by others. The rank reads what it has and may change, so that it
 * is changed later, and is a link of the chain itself. */
static ebb_status agree(cutter *c, const ir_node_rec *node) {
    ir_graph *g = c->r.g;
    ir_val *in = NULL, out;
    int32_t n = c->r.ranks;
    for (int32_t i = 0; i < c->n_open; i++) {
        cut_message *m = &c->open[i];
        if (m->started[0] == IR_NONE) { /* whatever is to be beside it is for reports */
            m->beside = IR_NONE;
            TRY(start_receiving(c, m));
        }
    }
    for (ir_val x = 0; x < c->n_values; x++) {
        uint64_t wait = c->started[x] == 0 ? 0 : c->wants[x] & ~c->arrived[x];
        TRY(rank_home(&c->r, x) == HOME_ALL ? EBB_OK : finish_all(c, x, wait, true));
    }
    TRY(finish_handed(c));
    TRY(ebb__region_alloc(c->r.region, (size_t)node->n_in + 1, sizeof *in, &in));
    for (int32_t k = 0; k < c->r.ranks; k++) {
        in[k] = c->now[ir_in(g, node, k)];
    }
    if (c->after != IR_NONE) {
        in[n++] = c->after;
    }
    for (int32_t k = c->r.ranks; k < node->n_in; k++) {
        ir_val v = ir_in(g, node, k);
        if (g->values[v].role != IR_TEMP && rank_has(holders_of(c, v), c->r.me)) {
            in[n++] = v;
        }
    }
    g->label = own_label(c, node->label);
    TRY(ebb__op_emit(g, OP_GIVE_UP, in, n, &node->attr, &out));
    g->values[out].output = true;
    g->values[node->out].output = false;
    for (ir_val x = 0; x < c->n_values; x++) {
        c->is_early[x] = c->now[x] != x;
    }
    return ebb__op_slice(g, out, 0, 0, 1, &c->after);
}

/* What stands for the next value of a variable here. What came too early to lie there is copied. */
static ebb_status hold_next(cutter *c, ir_val v) {
    ir_graph *g = c->r.g;
    ir_val x = g->values[v].next, next = c->now[x];
    if (c->is_early[x]) {
        g->label = own_label(c, g->nodes[g->values[x].def].label);
        g->label.phase = IR_UPDATE;
        TRY(ebb__op_copy(g, c->now[x], &next));
    }
    g->values[v].next = next;
    return EBB_OK;
}

/* Variables that other ranks have go; the others hold what stands for their next value here. */
static ebb_status hold(cutter *c) {
    ir_graph *g = c->r.g;
    for (ir_val v = 0; v < c->n_values; v++) {
        ir_value *value = &g->values[v];
        if (value->role != IR_TEMP && !rank_has(holders_of(c, v), c->r.me)) {
            value->role = IR_TEMP;
            value->next = IR_NONE;
        } else if (value->next != IR_NONE) {
            TRY(hold_next(c, v));
        }
    }
    if (g->loss != IR_NONE && !rank_has(c->does[g->values[g->loss].def], c->r.me)) {
        g->loss = c->now[g->loss] != g->loss ? c->now[g->loss] : (ir_val)IR_NONE;
    }
    return EBB_OK;
}

/* The chain of messages has its end, so that none is dropped. */
static ebb_status hold_messages(cutter *c) {
    if (c->after == IR_NONE) {
        return EBB_OK;
    }
    c->r.g->values[c->after].output = true;
    return ebb__ir_name(c->r.g, c->after, PASS_MESSAGES);
}

static ebb_status make(cutter *c) {
    ir_graph *g = c->r.g;
    TRY(ebb__cut_stages(&c->r));
    TRY(find_homes(&c->r));
    TRY(ebb__cut_reduce(&c->r));
    TRY(ebb__cut_states(&c->r));
    TRY(ebb__cut_agree(&c->r));
    TRY(ebb__cut_align(&c->r));
    TRY(ebb__pass_drop_dead(g));
    TRY(ebb__cut_lag(&c->r));
    size_t nv = (size_t)g->n_values + 1, nn = (size_t)g->n_nodes + 1;
    c->n_values = g->n_values;
    int32_t n_list = g->n_order;
    ir_node *list = NULL; /* all nodes in the order that all ranks go by */
    TRY(REGION_ARRAYS(c->r.region, ARRAY(list, nn), ARRAY(c->does, nn), ARRAY(c->wants, nv),
                      ARRAY(c->arrived, nv), ARRAY(c->started, nv), ARRAY(c->is_held, nv),
                      ARRAY_NONE(c->reader, nv), ARRAY(c->done, nv), ARRAY(c->is_late, nv),
                      ARRAY(c->is_handed, nv), ARRAY(c->is_early, nv)));
    TRY(ebb__pass_same(g, c->r.region, &c->now));
    memcpy(list, g->order, (size_t)n_list * sizeof *list);
    find_wants(c);
    g->n_order = 0;
    for (int32_t i = 0; i < n_list; i++) {
        TRY(visit(c, list[i]));
    }
    TRY(finish_held(c));
    TRY(finish_handed(c));
    TRY(hold(c));
    TRY(hold_messages(c));
    TRY(ebb__pass_drop_dead(g));
    return ebb__ir_compact(g, NULL, NULL);
}

/* From here on what belongs to no shard is as if of the first. */
static void forget_shardless(ir_graph *g) {
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_label *label = &g->nodes[g->order[i]].label;
        label->shard = label->shard < 0 ? 0 : label->shard;
    }
}

static ebb_status check(const rank_cutter *c, const pass_ranks *ranks) {
    if (ranks->count > PASS_MOST_RANKS) {
        return ebb__fail(c->unit->ctx, EBB_USAGE, "%d processes are more than %d", ranks->count,
                         PASS_MOST_RANKS);
    }
    if (ranks->count % c->stages != 0) {
        return ebb__fail(c->unit->ctx, EBB_USAGE,
                         "--stages %d does not divide the number of processes, %d", c->stages,
                         ranks->count);
    }
    if (rank_groups(c) > c->shards) {
        return ebb__fail(c->unit->ctx, EBB_USAGE,
                         "%d processes share the parts of a batch, of which there are %d: use "
                         "--shards %d or more",
                         rank_groups(c), c->shards, rank_groups(c));
    }
    return EBB_OK;
}

static ebb_status run(pass_unit *unit) {
    const pass_ranks *ranks = &unit->config->ranks;
    cutter c = {.r = {.unit = unit,
                      .g = &unit->graph,
                      .region = &unit->scratch,
                      .me = ranks->rank,
                      .ranks = ranks->count,
                      .shards = unit->shards > 1 ? unit->shards : 1,
                      .stages = ranks->stages > 1 ? ranks->stages : 1},
                .after = IR_NONE};
    if (ranks->count <= 1 || unit->alone) {
        forget_shardless(&unit->graph);
        return EBB_OK;
    }
    TRY(check(&c.r, ranks));
    TRY(ebb__classes_chunk(unit));
    TRY(ebb__region_alloc(&unit->scratch, (size_t)ranks->count, sizeof *c.r.owned, &c.r.owned));
    return make(&c);
}

const pass_def ebb__pass_cut = {.id = PASS_CUT, .run = run};
