/* forecast.c - see forecast.h. */
#include "plan/forecast.h"

#include <math.h>
#include <stdlib.h>

/* ---- what a rank does ---- */

static ebb_status add_item(alloc_region *region, forecast_list *list, forecast_item item) {
    forecast_item *last = list->n > 0 ? &list->items[list->n - 1] : NULL;
    if (last != NULL && last->message == MESSAGE_NONE && item.message == MESSAGE_NONE &&
        last->phase == item.phase) {
        last->seconds += item.seconds;
        return EBB_OK;
    }
    TRY(ebb__region_grow(region, &list->items, &list->capacity, (size_t)list->n + 1,
                         sizeof *list->items));
    list->items[list->n++] = item;
    return EBB_OK;
}

static ir_val ticket_of(const ir_graph *g, const ir_node_rec *node, op_message what) {
    switch (what) {
    case MESSAGE_SEND:
        return node->out;
    case MESSAGE_RECV:
        return node->out + 1;
    case MESSAGE_SENT:
        return ir_in(g, node, 0);
    case MESSAGE_GOT:
        return ir_in(g, node, 1);
    case MESSAGE_NONE:
        break;
    }
    return IR_NONE;
}

/* started: by ticket, the item that gave it. */
static ebb_status add_message(const pass_unit *unit, const ir_node_rec *node, alloc_region *region,
                              int32_t *started, forecast_list *list) {
    const ir_graph *g = &unit->graph;
    op_message what = ebb__op(node->op)->message;
    ir_val ticket = ticket_of(g, node, what);
    forecast_item item = {.message = what,
                          .phase = node->label.phase,
                          .seconds = unit->dev->seconds_per_instr,
                          .started = started[ticket]};
    if (what == MESSAGE_SEND || what == MESSAGE_RECV) {
        op_post post = ebb__op_post(what, &node->attr);
        item.peer = post.peer;
        item.tag = post.tag;
        item.bytes = ebb__ir_type_bytes(what == MESSAGE_SEND ? op_in_type(g, node, 0)
                                                             : &g->values[node->out].type);
        started[ticket] = list->n;
    } else if (item.started < 0) {
        return ebb__fail(unit->ctx, EBB_INTERNAL, "a message is waited for that nobody started");
    }
    return add_item(region, list, item);
}

ebb_status ebb__forecast_unit(const pass_unit *unit, alloc_region *region, forecast_list *out) {
    const ir_graph *g = &unit->graph;
    const pass_config *config = unit->config;
    int32_t *started = NULL;
    *out = (forecast_list){.n = 0};
    TRY(REGION_ARRAYS(region, ARRAY_NONE(started, (size_t)g->n_values + 1)));
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        const ir_node_rec *node = &g->nodes[n];
        if (unit->kernels[n] == DEVICE_KERNEL_NONE) {
            continue;
        }
        if (ebb__op(node->op)->message != MESSAGE_NONE) {
            TRY(add_message(unit, node, region, started, out));
            continue;
        }
        forecast_item work = {.phase = node->label.phase,
                              .seconds = ebb__cost_expected(config->pace, unit->dev, g, node,
                                                            unit->kernels[n], config->members)};
        TRY(add_item(region, out, work));
    }
    return EBB_OK;
}

ebb_status ebb__forecast_program(ebb_plan *plan, int32_t index, alloc_region *region,
                                 forecast_list *out) {
    plan_program *program = &plan->programs[index];
    bool there = program->has_unit;
    ebb_status status = there ? EBB_OK : ebb__plan_compile(plan, index);
    if (status == EBB_OK) {
        status = ebb__forecast_unit(&program->unit, region, out);
    }
    if (!there) {
        ebb__plan_close_program(program);
    }
    return status;
}

/* ---- messages: who gets what from whom ---- */

typedef enum message_state {
    MESSAGE_APART,
    MESSAGE_READY,
    MESSAGE_MOVING,
    MESSAGE_THERE
} message_state;

typedef struct play_message {
    int32_t from, to, tag;
    uint64_t bytes;
    int32_t posts; /* of the two calls that start it */
    message_state state;
    int32_t next; /* ready, to the same rank; < 0: none */
    /* While it moves: */
    bool flows;         /* the latency is over */
    bool settled;       /* its rate is known */
    double left, since; /* bytes at that time */
    double rate, end;   /* as it is now */
} play_message;

/* One end of a message, to be matched with the other. */
typedef struct play_end {
    int32_t from, to, tag;
    int32_t rank, item;
} play_end;

typedef struct play_rank {
    const forecast_list *list;
    int32_t *number;     /* by item that starts a message: its number */
    int32_t at;          /* next item */
    double free;         /* when it is done with what it does */
    int32_t copies;      /* message that it copies; < 0: none */
    int32_t first, last; /* messages to it that are ready, in order; first < 0: none */
} play_rank;

/* The way out of a rank, or into it, that messages share. */
typedef struct play_port {
    int32_t open; /* messages whose share is not known yet */
    double room;  /* bytes a second that are left for them */
} play_port;

typedef struct play {
    ebb_ctx *ctx;
    const forecast_network *network;
    forecast_step *step;
    play_rank *ranks;
    int32_t n;
    play_message *messages;
    int32_t n_messages;
    int32_t *moving; /* numbers of all that move */
    int32_t n_moving;
    play_port *ports; /* out of each rank, then into each */
    bool changed;     /* others flow than the rates are for */
    double now;
} play;

static int compare_ends(const void *a, const void *b) {
    const play_end *x = a, *y = b;
    const int32_t p[] = {x->from, x->to, x->tag, x->rank, x->item};
    const int32_t q[] = {y->from, y->to, y->tag, y->rank, y->item};
    for (size_t i = 0; i < sizeof p / sizeof *p; i++) {
        if (p[i] != q[i]) {
            return p[i] < q[i] ? -1 : 1;
        }
    }
    return 0;
}

static ebb_status list_ends(play *p, op_message what, play_end **out, int32_t *n) {
    size_t capacity = 0;
    *n = 0;
    for (int32_t r = 0; r < p->n; r++) {
        const forecast_list *list = p->ranks[r].list;
        for (int32_t i = 0; i < list->n; i++) {
            const forecast_item *item = &list->items[i];
            if (item->message != what) {
                continue;
            }
            if (item->peer < 0 || item->peer >= p->n || item->peer == r) {
                return ebb__fail(p->ctx, EBB_INTERNAL, "rank %d talks to rank %d of %d", r,
                                 item->peer, p->n);
            }
            bool sends = what == MESSAGE_SEND;
            TRY(ebb__region_grow(&p->step->region, out, &capacity, (size_t)*n + 1, sizeof **out));
            (*out)[(*n)++] = (play_end){.from = sends ? r : item->peer,
                                        .to = sends ? item->peer : r,
                                        .tag = item->tag,
                                        .rank = r,
                                        .item = i};
        }
    }
    if (*n > 0) {
        qsort(*out, (size_t)*n, sizeof **out, compare_ends);
    }
    return EBB_OK;
}

static bool same_way(const play_end *a, const play_end *b) {
    return a->from == b->from && a->to == b->to && a->tag == b->tag;
}

/* Of two sorted lists of ends, the first that has no other one. */
static ebb_status refuse_lonely(play *p, const play_end *send, const play_end *recv) {
    bool sent = recv == NULL || (send != NULL && compare_ends(send, recv) < 0);
    const play_end *end = sent ? send : recv;
    return ebb__fail(p->ctx, EBB_INTERNAL,
                     sent ? "rank %d sends message %d to rank %d, which does not expect it"
                          : "rank %d never sends message %d, which rank %d expects",
                     end->from, end->tag, end->to);
}

static ebb_status match(play *p) {
    play_end *sends = NULL, *recvs = NULL;
    int32_t n_sends = 0, n_recvs = 0;
    TRY(list_ends(p, MESSAGE_SEND, &sends, &n_sends));
    TRY(list_ends(p, MESSAGE_RECV, &recvs, &n_recvs));
    TRY(ebb__region_alloc(&p->step->region, (size_t)n_sends + 1, sizeof *p->messages,
                          &p->messages));
    for (int32_t i = 0; i < n_sends || i < n_recvs; i++) {
        const play_end *send = i < n_sends ? &sends[i] : NULL;
        const play_end *recv = i < n_recvs ? &recvs[i] : NULL;
        if (send == NULL || recv == NULL || !same_way(send, recv)) {
            return refuse_lonely(p, send, recv);
        }
        uint64_t bytes = p->ranks[send->rank].list->items[send->item].bytes;
        uint64_t room = p->ranks[recv->rank].list->items[recv->item].bytes;
        if (bytes != room) {
            return ebb__fail(p->ctx, EBB_INTERNAL,
                             "message %d from rank %d has %llu bytes, rank %d expects %llu",
                             send->tag, send->from, (unsigned long long)bytes, send->to,
                             (unsigned long long)room);
        }
        p->messages[i] =
            (play_message){.from = send->from, .to = send->to, .tag = send->tag, .bytes = bytes};
        p->ranks[send->rank].number[send->item] = i;
        p->ranks[recv->rank].number[recv->item] = i;
    }
    p->n_messages = n_sends;
    return EBB_OK;
}

/* ---- time ---- */

static ebb_status add_span(play *p, int32_t r, forecast_span span) {
    forecast_rank *rank = &p->step->ranks[r];
    forecast_span *last = rank->n_spans > 0 ? &rank->spans[rank->n_spans - 1] : NULL;
    rank->seconds[span.state] += span.end - span.begin;
    if (span.end <= span.begin) {
        return EBB_OK;
    }
    if (last != NULL && last->state == span.state) {
        last->end = span.end;
        return EBB_OK;
    }
    TRY(ebb__region_grow(&p->step->region, &rank->spans, &rank->capacity, (size_t)rank->n_spans + 1,
                         sizeof *rank->spans));
    rank->spans[rank->n_spans++] = span;
    return EBB_OK;
}

/* The rank has waited since it was done with what it did last. */
static ebb_status end_wait(play *p, int32_t r, double now) {
    double from = p->ranks[r].free;
    return now > from ? add_span(p, r, (forecast_span){from, now, FORECAST_WAITING}) : EBB_OK;
}

static ebb_status spend(play *p, int32_t r, int32_t state, double seconds) {
    TRY(end_wait(p, r, p->now));
    p->ranks[r].free = p->now + seconds;
    return add_span(p, r, (forecast_span){p->now, p->now + seconds, state});
}

/* ---- messages on their way ---- */

/* Both ends of a message are posted: on a network it moves, in shared memory its receiver may copy
 * it. */
static void begin_move(play *p, int32_t number) {
    play_message *m = &p->messages[number];
    play_rank *to = &p->ranks[m->to];
    if (!p->network->copied) {
        m->state = MESSAGE_MOVING;
        m->left = (double)m->bytes;
        m->end = p->now + p->network->latency;
        p->moving[p->n_moving++] = number;
        return;
    }
    m->state = MESSAGE_READY;
    m->next = -1;
    *(to->first < 0 ? &to->first : &p->messages[to->last].next) = number;
    to->last = number;
}

/* Which share of a port each message gets that has none yet. */
static double share_of(const play_port *port) {
    return port->open > 0 ? port->room / port->open : HUGE_VAL;
}

static play_port *port_out(const play *p, const play_message *m) {
    return &p->ports[m->from];
}
static play_port *port_in(const play *p, const play_message *m) {
    return &p->ports[p->n + m->to];
}

static void give_rate(play *p, play_message *m, double rate) {
    play_port *ports[] = {port_out(p, m), port_in(p, m)};
    for (int i = 0; i < 2; i++) {
        ports[i]->open--;
        ports[i]->room = fmax(0, ports[i]->room - rate);
    }
    m->left = fmax(0, m->left - m->rate * (p->now - m->since));
    m->since = p->now;
    m->rate = rate;
    m->end = p->now + m->left / rate;
}

/* Messages share ports evenly, and what one cannot use, since its other port gives it less, is the
 * others': the tightest port settles the rates of its messages, then the next. */
static void share_ports(play *p) {
    static const double SAME = 1 + 1e-9; /* ports alike are settled at once */
    int32_t open = 0;
    for (int32_t i = 0; i < 2 * p->n; i++) {
        p->ports[i] = (play_port){.room = p->network->bytes_per_second};
    }
    for (int32_t i = 0; i < p->n_moving; i++) {
        play_message *m = &p->messages[p->moving[i]];
        port_out(p, m)->open += m->flows;
        port_in(p, m)->open += m->flows;
        m->settled = !m->flows;
        open += m->flows;
    }
    while (open > 0) {
        double least = HUGE_VAL;
        for (int32_t i = 0; i < 2 * p->n; i++) {
            least = fmin(least, share_of(&p->ports[i]));
        }
        for (int32_t i = 0; i < p->n_moving; i++) {
            play_message *m = &p->messages[p->moving[i]];
            if (!m->settled &&
                fmin(share_of(port_out(p, m)), share_of(port_in(p, m))) <= least * SAME) {
                give_rate(p, m, least);
                m->settled = true;
                open--;
            }
        }
    }
    p->changed = false;
}

static bool is_over(const play *p, const play_message *m) {
    return m->end <= p->now * (1 + 1e-12);
}

/* Latencies and messages that ended by now. */
static void end_moves(play *p) {
    int32_t n = p->n_moving, kept = 0;
    for (int32_t i = 0; i < n; i++) {
        play_message *m = &p->messages[p->moving[i]];
        if (is_over(p, m) && !m->flows) {
            m->flows = p->changed = true;
            m->since = p->now;
            m->end = HUGE_VAL;
        } else if (is_over(p, m)) {
            m->state = MESSAGE_THERE;
            p->changed = true;
            continue;
        }
        p->moving[kept++] = p->moving[i];
    }
    p->n_moving = kept;
}

/* In shared memory: the rank copies what has been ready for it for the longest, if there is
 * something. */
static ebb_status copy_in(play *p, int32_t r, bool *copied) {
    play_rank *rank = &p->ranks[r];
    int32_t number = rank->first;
    *copied = number >= 0;
    if (!*copied) {
        return EBB_OK;
    }
    play_message *m = &p->messages[number];
    rank->first = m->next;
    rank->copies = number;
    m->state = MESSAGE_MOVING;
    return spend(p, r, FORECAST_COPYING,
                 p->network->latency + (double)m->bytes / p->network->bytes_per_second);
}

/* ---- ranks ---- */

/* One item of a rank that has nothing to do; *moved: there was something it could do. */
static ebb_status do_item(play *p, int32_t r, bool *moved) {
    play_rank *rank = &p->ranks[r];
    const forecast_item *item = &rank->list->items[rank->at];
    *moved = true;
    if (item->message == MESSAGE_NONE) {
        rank->at++;
        return spend(p, r, (int32_t)item->phase, item->seconds);
    }
    if (rank->copies >= 0) { /* until now */
        p->messages[rank->copies].state = MESSAGE_THERE;
        rank->copies = -1;
        return EBB_OK;
    }
    bool copied = false;
    TRY(copy_in(p, r, &copied));
    if (copied) {
        return EBB_OK;
    }
    bool starts = item->message == MESSAGE_SEND || item->message == MESSAGE_RECV;
    int32_t number = rank->number[starts ? rank->at : item->started];
    play_message *m = &p->messages[number];
    if (starts) {
        if (++m->posts == 2) {
            begin_move(p, number);
        }
        bool sends = item->message == MESSAGE_SEND;
        p->step->ranks[r].messages += sends;
        p->step->ranks[r].sent_bytes += sends ? item->bytes : 0;
    } else if (m->state != MESSAGE_THERE) {
        *moved = false;
        return EBB_OK;
    }
    rank->at++;
    return spend(p, r, (int32_t)item->phase, item->seconds);
}

static bool is_done(const play_rank *rank) {
    return rank->at == rank->list->n;
}

/* All that happens now. */
static ebb_status do_now(play *p) {
    bool any = true;
    while (any) {
        any = false;
        for (int32_t r = 0; r < p->n; r++) {
            bool moved = true;
            while (moved && !is_done(&p->ranks[r]) && p->ranks[r].free <= p->now) {
                TRY(do_item(p, r, &moved));
                any = any || moved;
            }
        }
    }
    return EBB_OK;
}

/* When the next thing ends; not finite: nothing is under way. */
static double next_time(const play *p) {
    double next = HUGE_VAL;
    for (int32_t r = 0; r < p->n; r++) {
        const play_rank *rank = &p->ranks[r];
        next = rank->free > p->now ? fmin(next, rank->free) : next;
    }
    for (int32_t i = 0; i < p->n_moving; i++) {
        next = fmin(next, p->messages[p->moving[i]].end);
    }
    return next;
}

static ebb_status refuse_stuck(play *p) {
    for (int32_t r = 0; r < p->n; r++) {
        const play_rank *rank = &p->ranks[r];
        if (!is_done(rank)) {
            const forecast_item *item = &rank->list->items[rank->at];
            const play_message *m = &p->messages[rank->number[item->started]];
            return ebb__fail(p->ctx, EBB_INTERNAL,
                             "ranks wait for each other: rank %d for message %d %s rank %d", r,
                             m->tag, m->from == r ? "to" : "from", m->from == r ? m->to : m->from);
        }
    }
    return EBB_OK;
}

static ebb_status play_all(play *p) {
    double next = 0;
    while (next < HUGE_VAL) {
        p->now = next;
        end_moves(p);
        TRY(do_now(p));
        if (p->changed) {
            share_ports(p);
        }
        next = next_time(p);
    }
    TRY(refuse_stuck(p));
    for (int32_t r = 0; r < p->n; r++) {
        p->step->seconds = fmax(p->step->seconds, p->ranks[r].free);
    }
    for (int32_t r = 0; r < p->n; r++) {
        TRY(end_wait(p, r, p->step->seconds));
    }
    return EBB_OK;
}

ebb_status ebb__forecast_play(ebb_ctx *ctx, const forecast_list *lists, int32_t n_ranks,
                              const forecast_network *network, forecast_step *out) {
    play p = {.ctx = ctx, .network = network, .step = out, .n = n_ranks};
    size_t n = (size_t)n_ranks;
    *out = (forecast_step){.n_ranks = n_ranks};
    ebb__region_init(&out->region, ctx);
    TRY(REGION_ARRAYS(&out->region, ARRAY(out->ranks, n + 1), ARRAY(p.ranks, n + 1),
                      ARRAY(p.ports, 2 * n + 1)));
    for (int32_t r = 0; r < n_ranks; r++) {
        p.ranks[r] = (play_rank){.list = &lists[r], .copies = -1, .first = -1};
        TRY(ebb__region_alloc(&out->region, (size_t)lists[r].n + 1, sizeof *p.ranks[r].number,
                              &p.ranks[r].number));
    }
    TRY(match(&p));
    TRY(ebb__region_alloc(&out->region, (size_t)p.n_messages + 1, sizeof *p.moving, &p.moving));
    return play_all(&p);
}

void ebb__forecast_free(forecast_step *step) {
    ebb__region_fini(&step->region);
    *step = (forecast_step){.n_ranks = 0};
}
