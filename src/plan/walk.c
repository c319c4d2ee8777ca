/* walk.c - see walk.h. The order of tries is the algorithm: later ones start from what earlier ones
 * found, and what is beaten by then is called off before it is placed.
 *
 *   1. Everything kept, with every way of the knob of row 0. The one that would be taken without a
 *      limit is *keep-all*: what takes more bytes is no plan.
 *   2. Each of those with the ways of row 1 in turn, as long as a way saves something worth the
 *      name. The next way of row 0, slower and smaller, begins where the last one ended. What would
 *      be taken of all this without a limit is *plain*.
 *   3. Every further knob in turn: all its ways, joined to plain. Those of the smallest two plans
 *      are then joined to what was the smallest plan before this knob, the smallest also to the way
 *      of row 1 behind plain's. Of nets over images, where what a knob saves depends on the others,
 *      all ways are joined to every plan listed so far.
 *
 * Two candidates with the same graph and the same unspent settings are one (measure.c).
 */
#include "plan/walk.h"

#include <math.h>
#include <string.h>

/* What saving memory may cost unasked; of nets over images, whose plans lie close and whose times
 * are known to a percent or so, half of that is predicted at most. */
static const double PACE = 1.02, PACE_OF_NETS = 1.01;
enum {
    LEAST_SAVING = 256, /* part of the peak that the next way of row 1 must save */
    FEW_NODES = 6000, /* of a plan that a knob's every way is joined to, where knobs are crossed */
    FEW_WAYS = 8,     /* of a knob that the one behind it is joined to whole */
};

/* The passes before it do the same for every candidate, so that they run once for a program. */
static const pass_id FIRST_VARIED = PASS_CHUNK;
/* How much longer a step takes whose loss comes late, so that stages wait for it (pass/chunk.c). */
static const double STAGES_WAIT = 1.1;

/* ---- one candidate ---- */

pass_config ebb__walk_config(const plan_options *options, const plan_choice *choice,
                             bool prepared) {
    pass_knobs knobs = choice->knobs;
    if (pass_chunk_steps(&options->ranks) > 0) {
        knobs.span = pass_chunk_steps(&options->ranks); /* messages come and go in that order */
    }
    return (pass_config){.disabled = options->disabled,
                         .first = prepared ? FIRST_VARIED : PASS_INFER,
                         .knobs = knobs,
                         .dev = options->dev,
                         .members = options->members,
                         .stash = options->stash,
                         .density = options->density,
                         .ranks = options->ranks,
                         .table = choice->forms,
                         .update = options->update};
}

ebb_status ebb__walk_measure(ebb_ctx *ctx, const plan_options *options, const plan_request *program,
                             const plan_choice *choice, const plan_bar *bar, plan_size *out) {
    pass_config config = ebb__walk_config(options, choice, true);
    if (options->stop != NULL && options->stop(options->stop_user)) {
        return ebb__fail(ctx, EBB_STOPPED, "stopped while planning, before anything was done");
    }
    TRY(ebb__plan_measure(ctx, program, &config, bar, out));
    if (pass_chunk_steps(&options->ranks) > 0 && config.knobs.chunk_rows > 0) {
        out->seconds *= STAGES_WAIT;
    }
    return EBB_OK;
}

ebb_status ebb__walk_prepare(ebb_ctx *ctx, const plan_options *options, const plan_request *request,
                             ir_graph *out) {
    pass_config config = ebb__walk_config(options, &(plan_choice){0}, false);
    pass_unit unit;
    config.training = request->training;
    ebb_status status = ebb__plan_open(&unit, ctx, &config, request);
    if (status == EBB_OK) {
        status = ebb__plan_run_passes(&unit, FIRST_VARIED);
    }
    *out = unit.graph;
    unit.graph = (ir_graph){.ctx = ctx};
    ebb__plan_close(&unit);
    return status;
}

uint64_t ebb__walk_arena(const plan_walk *w, uint64_t program_bytes, uint64_t transient_bytes) {
    uint64_t variables = transient_bytes > 0 ? w->variable_bytes : w->variable_end;
    return program_bytes + variables + transient_bytes;
}

/* Which plan does the steps that one with sparse values gives up. */
static int32_t find_fallback(const plan_walk *w, uint64_t room) {
    int32_t i = 0;
    while (i < w->n_fallbacks - 1 && w->fallbacks[i].size.transient_bytes > room) {
        i++;
    }
    return i;
}

/* As if there were only this program, and what it falls back to. */
static void set_size(const plan_walk *w, const plan_size *size, plan_choice *choice) {
    uint64_t program = size->program_bytes, transients = size->transient_bytes;
    choice->size = *size;
    if (size->heap_bytes > 0 && w->n_fallbacks > 0) {
        choice->fallback = find_fallback(w, transients);
        const plan_size *other = &w->fallbacks[choice->fallback].size;
        program += other->program_bytes;
        transients = other->transient_bytes > transients ? other->transient_bytes : transients;
    }
    choice->peak_bytes = ebb__walk_arena(w, program, transients);
    choice->seconds = size->seconds;
    if (size->away_bytes > 0 && size->away_bytes + size->instr_bytes > w->away_most) {
        choice->peak_bytes = UINT64_MAX; /* there is no such room: never listed */
    }
}

void ebb__walk_turn(const plan_grid *grid, plan_choice *choice, int32_t knob, int32_t way) {
    choice->at[knob] = way;
    choice->knobs = ebb__knobs_at(grid, choice->at);
}

/* Bytes and seconds of a choice. */
static ebb_status price(const plan_walk *w, plan_choice *choice) {
    plan_size size;
    TRY(ebb__walk_measure(w->ctx, w->options, &w->program, choice, NULL, &size));
    set_size(w, &size, choice);
    return EBB_OK;
}

/* ---- lists ---- */

static bool is_beaten(const plan_choice *list, int32_t n, uint64_t most, const plan_choice *fresh) {
    bool beaten = fresh->peak_bytes > most;
    for (int32_t i = 0; i < n && !beaten; i++) {
        beaten = list[i].seconds <= fresh->seconds && list[i].peak_bytes <= fresh->peak_bytes;
    }
    return beaten;
}

ebb_status ebb__walk_add(ebb_ctx *ctx, plan_choice list[PLAN_MAX_CHOICES], int32_t *n,
                         uint64_t most, plan_choice fresh) {
    int32_t kept = 0;
    if (is_beaten(list, *n, most, &fresh)) {
        return EBB_OK;
    }
    for (int32_t i = 0; i < *n; i++) {
        if (!(fresh.seconds <= list[i].seconds && fresh.peak_bytes <= list[i].peak_bytes)) {
            list[kept++] = list[i];
        }
    }
    if (kept == PLAN_MAX_CHOICES) {
        return ebb__fail(ctx, EBB_INTERNAL, "plan: more than %d plans to list", PLAN_MAX_CHOICES);
    }
    int32_t at = kept;
    while (at > 0 && list[at - 1].seconds > fresh.seconds) {
        list[at] = list[at - 1];
        at--;
    }
    list[at] = fresh;
    *n = kept + 1;
    return EBB_OK;
}

/* Does it only save what plain keeps, and leave the rest as it is? */
static bool is_only_saving(const plan_choice *choice, const plan_choice *plain) {
    bool saves = false;
    for (int32_t k = PLAN_KNOB_SAVING; k < PLAN_MAX_KNOBS; k++) {
        saves = saves || choice->at[k] > 0;
    }
    return saves && choice->at[PLAN_KNOB_WHOLE] == plain->at[PLAN_KNOB_WHOLE] &&
           choice->at[PLAN_KNOB_SERIES] == plain->at[PLAN_KNOB_SERIES];
}

/* Does something wait outside the device's memory? */
static bool is_offloaded(const plan_grid *grid, const plan_choice *choice) {
    bool any = false;
    for (int32_t k = 0; k < grid->n_knobs; k++) {
        any = any || (grid->knobs[k].pass == PASS_OFFLOAD && choice->at[k] > 0);
    }
    return any;
}

/* The next of the list, from i on, that has nothing outside the device's memory, or that has; n:
 * there is none. */
static int32_t next_like(const plan_grid *grid, const plan_choice *list, int32_t n, int32_t i,
                         bool offloaded) {
    while (i < n && is_offloaded(grid, &list[i]) != offloaded) {
        i++;
    }
    return i;
}

/* The fastest that fits and is so; n: none does. */
static int32_t fastest(const plan_grid *grid, const plan_choice *list, int32_t n, bool offloaded,
                       uint64_t budget) {
    int32_t i = next_like(grid, list, n, 0, offloaded);
    while (i < n && list[i].peak_bytes > budget) {
        i = next_like(grid, list, n, i + 1, offloaded);
    }
    return i;
}

/* The fastest that fits sets the pace; of those at most 2% slower (1% for nets) the smallest is
 * taken. What only saves beside plain may instead take 2% (1%) more than plain. In a list without
 * dominated plans the smallest is the last, and what is allowed grows with the pace, so a larger
 * budget never gives a slower plan, nor a smaller one a higher peak.
 *
 * All this is of plans that keep what waits in the device's memory. One that does not is taken only
 * where it is faster than what would be taken without, or nothing else fits: the host's memory and
 * disks are not to be used for nothing. */
int32_t ebb__walk_choose(const plan_grid *grid, const plan_choice *list, int32_t n,
                         const plan_choice *plain, uint64_t budget) {
    const double slower = grid->reach.images > 0 ? PACE_OF_NETS : PACE;
    int32_t fit = fastest(grid, list, n, false, budget), chosen = fit;
    int32_t away = fastest(grid, list, n, true, budget);
    if (fit == n) {
        return away < n ? away : n - 1;
    }
    double pace = list[fit].seconds;
    for (int32_t i = next_like(grid, list, n, fit + 1, false); i < n;
         i = next_like(grid, list, n, i + 1, false)) {
        const plan_choice *c = &list[i];
        bool only = is_only_saving(c, plain);
        chosen = c->seconds <= slower * (only ? fmax(pace, plain->seconds) : pace) ? i : chosen;
    }
    return away < n && list[away].seconds < list[chosen].seconds ? away : chosen;
}

/* What takes more than keeping everything is no plan to list. */
static ebb_status add(plan_walk *w, plan_choice fresh) {
    return ebb__walk_add(w->ctx, w->list, &w->n_list, w->whole[w->keep_all].peak_bytes, fresh);
}

static const plan_choice *smallest(const plan_walk *w) {
    return &w->list[w->n_list - 1];
}

/* ---- everything kept, then row 1 ---- */

int32_t ebb__walk_rows(const ir_graph *g) {
    int32_t rows = 0;
    for (int32_t k = 0; k < g->n_order; k++) {
        const ir_node_rec *node = &g->nodes[g->order[k]];
        if ((ebb__op(node->op)->flags & OPF_LOSS) != 0) {
            int32_t r = op_in_type(g, node, 0)->dim[0];
            rows = r > rows ? r : rows;
        }
    }
    return rows;
}

/* Is it worth trying? Then *choice is turned to it. */
static bool turn_to(const plan_grid *grid, plan_choice *choice, int32_t knob, int32_t way) {
    plan_way unused = {.saving = 0};
    bool worth = ebb__knobs_way(grid, knob, way, &unused);
    if (worth) {
        ebb__walk_turn(grid, choice, knob, way);
    }
    return worth;
}

ebb_status ebb__walk_plain(ebb_ctx *ctx, const plan_grid *grid, plan_choice list[PLAN_MAX_CHOICES],
                           int32_t *n) {
    *n = 0;
    for (int32_t i = grid->knobs[PLAN_KNOB_WHOLE].n - 1; i >= 0; i--) {
        plan_choice choice = {.row = 0};
        bool worth = turn_to(grid, &choice, PLAN_KNOB_WHOLE, i);
        for (int32_t k = 0; worth && k < grid->knobs[PLAN_KNOB_SERIES].n; k++) {
            if (*n == PLAN_MAX_CHOICES) {
                return ebb__fail(ctx, EBB_INTERNAL, "plan: more than %d plain plans", *n);
            }
            if (turn_to(grid, &choice, PLAN_KNOB_SERIES, k)) {
                list[(*n)++] = choice;
            }
        }
    }
    return EBB_OK;
}

/* What the same options take when nothing is saved is the plan taken with exactly the passes chunk
 * and recompute disabled and no limit. */
ebb_status ebb__walk_whole(plan_walk *w) {
    const plan_knob *knob = &w->grid.knobs[PLAN_KNOB_WHOLE];
    if (knob->n > PLAN_MAX_WHOLE) {
        return ebb__fail(w->ctx, EBB_INTERNAL, "plan: %s has more than %d ways", knob->name,
                         PLAN_MAX_WHOLE);
    }
    for (int32_t i = knob->n - 1; i >= 0; i--) {
        w->whole[i] = (plan_choice){.row = 0};
        if (turn_to(&w->grid, &w->whole[i], PLAN_KNOB_WHOLE, i)) {
            TRY(price(w, &w->whole[i]));
            TRY(ebb__walk_add(w->ctx, w->list, &w->n_list, UINT64_MAX, w->whole[i]));
        }
    }
    int32_t taken = ebb__walk_choose(&w->grid, w->list, w->n_list, &(plan_choice){0}, UINT64_MAX);
    w->keep_all = w->list[taken].at[PLAN_KNOB_WHOLE];
    w->n_list = 0;
    return add(w, w->whole[w->keep_all]); /* so the list is never empty */
}

/* The ways of row 1 from *from on, as long as each saves something worth the name; *from is then
 * the last that did. */
static ebb_status try_series(plan_walk *w, plan_choice choice, int32_t *from) {
    uint64_t last = UINT64_MAX;
    for (int32_t i = *from; i < w->grid.knobs[PLAN_KNOB_SERIES].n; i++) {
        if (!turn_to(&w->grid, &choice, PLAN_KNOB_SERIES, i)) {
            continue;
        }
        if (i > 0) {
            TRY(price(w, &choice));
        }
        TRY(add(w, choice));
        if (choice.peak_bytes + choice.peak_bytes / LEAST_SAVING >= last) {
            break; /* the peak lies elsewhere by now */
        }
        last = choice.peak_bytes;
        *from = i;
    }
    return EBB_OK;
}

static ebb_status try_plain(plan_walk *w) {
    int32_t from = 0;
    for (int32_t i = w->grid.knobs[PLAN_KNOB_WHOLE].n - 1; i >= 0; i--) {
        if (w->whole[i].size.placed) { /* else it was not worth trying */
            TRY(try_series(w, w->whole[i], &from));
        }
    }
    return EBB_OK;
}

/* ---- the knobs that save ---- */

/* What was tried so far. */
typedef struct search {
    plan_walk *w;
    struct {
        uint64_t graph_hash;
        uint64_t least; /* peak, were it placed without a gap */
    } tried[PLAN_MAX_TRIES];
    int32_t n_tried;
} search;

/* Where a graph was tried; n_tried: it was not. */
static int32_t find_tried(const search *s, uint64_t graph_hash) {
    int32_t i = 0;
    while (i < s->n_tried && s->tried[i].graph_hash != graph_hash) {
        i++;
    }
    return i;
}

/* Not if it is the same as one that was tried, nor if it is beaten whatever place does. */
static bool is_worth(void *user, const plan_size *least) {
    const search *s = user;
    plan_choice choice = {.seconds = least->seconds};
    bool fresh = find_tried(s, least->graph_hash) == s->n_tried;
    if (least->program_bytes == 0) { /* not known yet */
        return fresh;
    }
    set_size(s->w, least, &choice);
    return fresh &&
           !is_beaten(s->w->list, s->w->n_list, s->w->whole[s->w->keep_all].peak_bytes, &choice);
}

/* Of a candidate that may be left out: not where looking at it takes more than the process may have
 * beside the smallest plan so far. Not all that is counted is ever written. */
static ebb_status measure_within(plan_walk *w, const plan_choice *choice, const plan_bar *bar,
                                 plan_size *size, bool *left_out) {
    ebb_ctx *ctx = w->ctx;
    ctx->mem.most = (smallest(w)->peak_bytes + PLAN_BESIDE_BYTES) / 8 * 9;
    ctx->mem.over = false;
    ebb_status status = ebb__walk_measure(ctx, w->options, &w->program, choice, bar, size);
    *left_out = status == EBB_NOMEM && ctx->mem.over;
    ctx->mem.most = 0;
    if (*left_out) {
        ebb__ctx_clear(ctx);
        ebb__log(ctx, EBB_LOG_DEBUG, "plan: a candidate would take more memory than its plan");
        status = EBB_OK;
    }
    return status;
}

/* *least: its peak, were it placed without a gap; NULL: nobody asks. */
static ebb_status try_way(search *s, plan_choice base, int32_t knob, int32_t way, uint64_t *least) {
    plan_bar bar = {is_worth, s};
    plan_size size;
    bool left_out = false;
    ebb__walk_turn(&s->w->grid, &base, knob, way);
    TRY(measure_within(s->w, &base, &bar, &size, &left_out));
    if (left_out) {
        return EBB_OK;
    }
    int32_t at = find_tried(s, size.graph_hash);
    if (at == PLAN_MAX_TRIES) {
        return ebb__fail(s->w->ctx, EBB_INTERNAL, "plan: more than %d plans to try", at);
    }
    if (at == s->n_tried) {
        s->tried[at].graph_hash = size.graph_hash;
        s->tried[at].least = ebb__walk_arena(s->w, size.program_bytes, size.load_bytes);
        s->n_tried++;
    }
    if (least != NULL) {
        *least = s->tried[at].least;
    }
    if (size.placed) {
        set_size(s->w, &size, &base);
        TRY(add(s->w, base));
    }
    return EBB_OK;
}

/* All ways, in the order of their numbers: see plan_way for what ends them. */
static ebb_status try_ways(search *s, const plan_choice *base, int32_t knob) {
    uint64_t longer = 0, shorter = 0; /* what the last two of the chain take */
    for (int32_t i = 1; i < s->w->grid.knobs[knob].n; i++) {
        plan_way way = {.saving = 0};
        if (!ebb__knobs_way(&s->w->grid, knob, i, &way)) {
            continue;
        }
        if (way.saving > 0 && shorter + shorter / way.saving >= longer) {
            break;
        }
        longer = way.chained ? shorter : longer;
        TRY(try_way(s, *base, knob, i, way.chained ? &shorter : NULL));
    }
    return EBB_OK;
}

static ebb_status try_knob(search *s, int32_t knob) {
    plan_walk *w = s->w;
    plan_choice small = *smallest(w), finer = w->plain;
    TRY(try_ways(s, &w->plain, knob));
    const int32_t best = smallest(w)->at[knob];
    const int32_t next = w->list[w->n_list > 1 ? w->n_list - 2 : 0].at[knob];
    const int32_t at = finer.at[PLAN_KNOB_SERIES] + 1, end = small.at[PLAN_KNOB_SERIES];
    if (at > 1 && (at < end || end == 0)) {
        ebb__walk_turn(&w->grid, &finer, PLAN_KNOB_SERIES, at);
        TRY(try_way(s, finer, knob, best, NULL));
    }
    TRY(try_way(s, small, knob, best, NULL));
    return try_way(s, small, knob, next, NULL);
}

/* What a knob's ways are joined to where knobs are crossed: every plan listed so far and, since
 * what saves nothing now may matter once more is repeated, every way of row 0, and every way of the
 * knob before it with what else the smallest plan does: values that wait in few bytes save nothing
 * as long as gradients of a whole batch are larger, nor do cuts as long as what waits is. */
static int32_t crossed_bases(const plan_walk *w, int32_t knob, plan_choice *bases) {
    int32_t n = w->n_list;
    memcpy(bases, w->list, (size_t)n * sizeof *bases);
    for (int32_t i = 0; i < w->grid.knobs[PLAN_KNOB_WHOLE].n; i++) {
        if (w->whole[i].size.placed && i != w->keep_all) {
            bases[n++] = w->whole[i];
        }
    }
    const int32_t ways = knob > PLAN_KNOB_SAVING ? w->grid.knobs[knob - 1].n : 0;
    for (int32_t i = 1; ways <= FEW_WAYS && i < ways; i++) {
        bases[n] = *smallest(w);
        n += turn_to(&w->grid, &bases[n], knob - 1, i);
    }
    return n;
}

/* A plan of many nodes, which takes long, is joined only to what the smallest two plans do. The
 * others have been joined to that by then, but for way 0. */
static ebb_status try_bases(search *s, const plan_choice *bases, int32_t n, int32_t knob) {
    plan_walk *w = s->w;
    const int32_t whole = w->whole[w->keep_all].size.n_nodes;
    const int32_t few = whole > FEW_NODES ? whole : FEW_NODES;
    for (int32_t i = 0; i < n; i++) {
        if (bases[i].size.n_nodes <= few) {
            TRY(try_ways(s, &bases[i], knob));
        }
    }
    const int32_t ways[] = {smallest(w)->at[knob],
                            w->list[w->n_list > 1 ? w->n_list - 2 : 0].at[knob]};
    for (int32_t i = 0; i < n; i++) {
        for (int32_t k = 0; k < 2; k++) {
            if (bases[i].size.n_nodes > few || ways[k] == 0) {
                TRY(try_way(s, bases[i], knob, ways[k], NULL));
            }
        }
    }
    return EBB_OK;
}

static ebb_status try_crossed(search *s, int32_t knob) {
    plan_choice *bases = NULL;
    TRY(ebb__alloc(s->w->ctx, PLAN_MAX_CHOICES + PLAN_MAX_WHOLE + FEW_WAYS, sizeof *bases, &bases));
    ebb_status status = try_bases(s, bases, crossed_bases(s->w, knob, bases), knob);
    ebb__free(s->w->ctx, bases);
    return status;
}

/* What a knob before saved nothing of may be what the smallest plan lacks by now. */
static ebb_status try_earlier(search *s, int32_t knob) {
    for (int32_t k = PLAN_KNOB_SAVING; k < knob; k++) {
        const plan_choice small = *smallest(s->w);
        bool few = s->w->grid.knobs[k].n <= FEW_WAYS && small.at[knob] > 0;
        TRY(few ? try_ways(s, &small, k) : EBB_OK);
    }
    return EBB_OK;
}

ebb_status ebb__walk_run(plan_walk *w) {
    search s = {.w = w};
    TRY(ebb__walk_whole(w));
    TRY(try_plain(w));
    w->plain =
        w->list[ebb__walk_choose(&w->grid, w->list, w->n_list, &(plan_choice){0}, UINT64_MAX)];
    for (int32_t k = PLAN_KNOB_SAVING; k < w->grid.n_knobs; k++) {
        if ((w->options->disabled >> w->grid.knobs[k].pass & 1) == 0) {
            bool crossed = w->grid.reach.images > 0 && w->grid.knobs[k].pass != PASS_OFFLOAD;
            TRY(crossed ? try_crossed(&s, k) : try_knob(&s, k));
            TRY(crossed ? try_earlier(&s, k) : EBB_OK);
        }
    }
    return EBB_OK;
}
