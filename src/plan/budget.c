/* budget.c - one walk from the fastest plan to the smallest; a budget takes the smallest of those
 * within 2% of the fastest that fits.
 *
 * Every candidate (size of the loss chunks, packed copies of weights, what is computed again) is
 * compiled to addresses, so its bytes are exact. `least_bytes` comes from bytes alone; seconds only
 * order the list. Plans that another one beats in both are left out, so a smaller budget never
 * gives a higher peak and a larger one never a slower plan.
 */
#include "plan/plan.h"

#include "base/host.h"
#include "plan/storage.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double PACE = 1.02; /* what saving memory may cost unasked */
enum {
    MOST_CHUNKS = 4096, /* more would save nothing and take long to plan */
    LEAST_SAVING =
        256 /* a smaller chunk must save this part of the peak, or none is tried after it */
};
static const int32_t chunk_sizes[] = {1024, 512, 256, 128, 64, 32, 16, 8};

typedef struct walk {
    ebb_ctx *ctx;
    const plan_request *requests;
    int32_t n_requests;
    const plan_extra *extras;
    int32_t n_extras;
    const plan_options *options;
    bool prepared; /* the requests' graphs have been through the passes before FIRST_VARIED */
} walk;

/* The passes before it do the same for every candidate. */
static const pass_id FIRST_VARIED = PASS_CHUNK;

static pass_config config_of(const walk *w, const plan_choice *choice) {
    const plan_options *o = w->options;
    return (pass_config){.disabled = o->disabled,
                         .first = w->prepared ? FIRST_VARIED : PASS_INFER,
                         .chunk_rows = choice->chunk_rows,
                         .pack = choice->pack,
                         .recompute = choice->recompute,
                         .members = o->members,
                         .table = o->table,
                         .update = o->update};
}

static ebb_status new_plan(const walk *w, ebb_plan **out) {
    ebb_plan *plan = NULL;
    TRY(ebb__alloc(w->ctx, 1, sizeof *plan, &plan));
    plan->ctx = w->ctx;
    plan->dev = ebb__device_default();
    plan->members = w->options->members;
    *out = plan;
    return EBB_OK;
}

/* Size of program i under a choice. What is taken in the end is verified, this is not. */
static ebb_status measure(const walk *w, int32_t i, const plan_choice *choice, const plan_bar *bar,
                          plan_size *out) {
    pass_config config = config_of(w, choice);
    if (w->options->stop != NULL && w->options->stop(w->options->stop_user)) {
        return ebb__fail(w->ctx, EBB_STOPPED, "stopped while planning, before anything was done");
    }
    return ebb__plan_measure(w->ctx, &w->requests[i], &config, bar, out);
}

/* As arena.c lays programs, variables and transients out. */
static uint64_t arena_bytes(const ebb_plan *plan, uint64_t programs, uint64_t transients) {
    return transients > 0 ? programs + plan->variable_bytes + transients
                          : programs + plan->variable_end;
}

/* As if there were only the first program. */
static void set_size(const ebb_plan *plan, const plan_size *size, plan_choice *choice) {
    choice->transient_bytes = size->transient_bytes;
    choice->program_bytes = plan_align(size->program_bytes);
    choice->peak_bytes = arena_bytes(plan, choice->program_bytes, size->transient_bytes);
    choice->seconds = size->seconds;
    choice->recomputed_nodes = size->recomputed_nodes;
}

/* Bytes and seconds of a choice. */
static ebb_status price(const walk *w, const ebb_plan *plan, plan_choice *choice) {
    plan_size size;
    TRY(measure(w, 0, choice, NULL, &size));
    set_size(plan, &size, choice);
    return EBB_OK;
}

/* Does another one beat it? What takes more than keeping everything is no plan to list either. */
static bool is_beaten(const ebb_plan *plan, const plan_choice *fresh) {
    bool beaten = fresh->peak_bytes > plan->keep_all_bytes;
    for (int32_t i = 0; i < plan->n_choices && !beaten; i++) {
        const plan_choice *c = &plan->choices[i];
        beaten = c->seconds <= fresh->seconds && c->peak_bytes <= fresh->peak_bytes;
    }
    return beaten;
}

/* Keeps the list sorted by seconds and free of plans that another beats. */
static void add_choice(ebb_plan *plan, plan_choice fresh) {
    int32_t kept = 0;
    if (is_beaten(plan, &fresh)) {
        return;
    }
    for (int32_t i = 0; i < plan->n_choices; i++) {
        const plan_choice *c = &plan->choices[i];
        if (!(fresh.seconds <= c->seconds && fresh.peak_bytes <= c->peak_bytes)) {
            plan->choices[kept++] = *c;
        }
    }
    int32_t at = kept;
    while (at > 0 && plan->choices[at - 1].seconds > fresh.seconds) {
        plan->choices[at] = plan->choices[at - 1];
        at--;
    }
    plan->choices[at] = fresh;
    plan->n_choices = kept + 1;
}

static int32_t most_rows(const walk *w) {
    int32_t rows = 0;
    for (int32_t i = 0; i < w->n_requests; i++) {
        const ir_graph *g = w->requests[i].graph;
        for (int32_t k = 0; k < g->n_order; k++) {
            const ir_node_rec *node = &g->nodes[g->order[k]];
            if ((ebb__op(node->op)->flags & OPF_LOSS) != 0) {
                int32_t r = op_in_type(g, node, 0)->dim[0];
                rows = r > rows ? r : rows;
            }
        }
    }
    return rows;
}

/* Without recomputation: sizes of the loss chunks, with and without packed weights. */
static int32_t list_plain(const walk *w, plan_choice list[PLAN_MAX_CHOICES]) {
    bool chunks = (w->options->disabled & (1U << PASS_CHUNK)) == 0;
    bool layouts = (w->options->disabled & (1U << PASS_LAYOUT)) == 0;
    int32_t rows = most_rows(w), n = 0;
    for (int t = layouts; t >= 0; t--) {
        list[n++] = (plan_choice){.pack = t > 0};
        for (size_t i = 0; chunks && i < sizeof chunk_sizes / sizeof *chunk_sizes; i++) {
            if (chunk_sizes[i] < rows && rows / chunk_sizes[i] <= MOST_CHUNKS) {
                list[n++] = (plan_choice){.chunk_rows = chunk_sizes[i], .pack = t > 0};
            }
        }
    }
    return n;
}

int32_t ebb__plan_candidates(const plan_request *requests, int32_t n_requests,
                             const plan_options *options, pass_config list[PLAN_MAX_CHOICES]) {
    walk w = {.requests = requests, .n_requests = n_requests, .options = options};
    plan_choice choices[PLAN_MAX_CHOICES];
    int32_t n = list_plain(&w, choices);
    for (int32_t i = 0; i < n; i++) {
        list[i] = config_of(&w, &choices[i]);
    }
    return n;
}

/* Smaller chunks are tried as long as they save something worth the name. Without packed weights,
 * which is slower, only those that may go below what was reached with them. */
static ebb_status try_plain(const walk *w, ebb_plan *plan) {
    plan_choice list[PLAN_MAX_CHOICES];
    int32_t n = list_plain(w, list), smallest = 0;
    uint64_t last_peak = 0;
    for (int32_t i = 0; i < n; i++) {
        bool first = i == 0 || list[i].pack != list[i - 1].pack;
        if (!list[i].pack && smallest > 0) { /* chunks are worth while: begin with those */
            if (list[i].chunk_rows == 0 || list[i].chunk_rows > smallest) {
                continue;
            }
            first = list[i].chunk_rows == smallest;
        }
        if (!first && last_peak == 0) {
            continue; /* the peak lies elsewhere by now */
        }
        if (list[i].chunk_rows == 0) {
            list[i] = plan->whole[list[i].pack];
        } else {
            TRY(price(w, plan, &list[i]));
        }
        add_choice(plan, list[i]);
        bool saves = first || list[i].peak_bytes + list[i].peak_bytes / LEAST_SAVING < last_peak;
        last_peak = saves ? list[i].peak_bytes : 0;
        smallest = saves && list[i].pack ? list[i].chunk_rows : smallest;
    }
    return EBB_OK;
}

/* ---- recomputation ---- */

/* Seconds that a byte of stash is worth. The first is about what writing and reading it takes. */
static const double prices[] = {1e-10, 4e-10, 2e-9, 1e-6};
static const double ANY_PRICE = 1e-6;
/* The same where products may be repeated, each of which takes some nanoseconds a byte: the
 * cheapest go first. */
static const double product_prices[] = {2.5e-9, 3.5e-9, 4.5e-9, 6e-9};

static int32_t most_time(const walk *w) {
    int32_t most = 0;
    for (int32_t i = 0; i < w->n_requests; i++) {
        const ir_graph *g = w->requests[i].graph;
        for (int32_t k = 0; w->requests[i].training && k < g->n_order; k++) {
            int32_t time = g->nodes[g->order[k]].label.time + 1;
            most = time > most ? time : most;
        }
    }
    return most;
}

/* The least power of two whose square is at least n. */
static int32_t root_of(int32_t n) {
    int32_t r = 1;
    while ((int64_t)r * r < n) {
        r *= 2;
    }
    return r;
}

/* What was tried so far. */
typedef struct search {
    const walk *w;
    ebb_plan *plan;
    struct {
        uint64_t graph; /* plan_size.graph */
        uint64_t least; /* peak, were it placed without a gap */
    } tried[PLAN_MAX_CHOICES];
    int32_t n_tried;
} search;

/* Where a graph was tried; n_tried: it was not. */
static int32_t find_tried(const search *s, uint64_t graph) {
    int32_t i = 0;
    while (i < s->n_tried && s->tried[i].graph != graph) {
        i++;
    }
    return i;
}

/* Not if it is the same as one that was tried, nor if it is beaten whatever place does. */
static bool is_worth(void *user, const plan_size *least) {
    const search *s = user;
    plan_choice choice = {.seconds = least->seconds};
    bool fresh = find_tried(s, least->graph) == s->n_tried;
    if (least->program_bytes == 0) { /* not known yet */
        return fresh;
    }
    set_size(s->plan, least, &choice);
    return fresh && !is_beaten(s->plan, &choice);
}

/* *least: its peak, were it placed without a gap; NULL: nobody asks. */
static ebb_status try_recompute(search *s, plan_choice base, pass_recompute how, uint64_t *least) {
    plan_bar bar = {is_worth, s};
    plan_size size;
    base.recompute = how;
    TRY(measure(s->w, 0, &base, &bar, &size));
    int32_t at = find_tried(s, size.graph);
    if (at == s->n_tried && at < PLAN_MAX_CHOICES) {
        s->tried[at].graph = size.graph;
        s->tried[at].least = arena_bytes(s->plan, plan_align(size.program_bytes), size.load_bytes);
        s->n_tried++;
    }
    if (least != NULL && at < s->n_tried) {
        *least = s->tried[at].least;
    }
    if (size.placed) {
        set_size(s->plan, &size, &base);
        add_choice(s->plan, base);
    }
    return EBB_OK;
}

/* Time in spans: no product repeated, but weight gradients and the loss as soon as a span is done;
 * products repeated with all of a span's steps as one; step by step with only the states between
 * spans kept; then with fewer of those, as long as shorter spans save something. */
static ebb_status try_spans(search *s, plan_choice base, int32_t steps) {
    int32_t root = root_of(steps);
    uint64_t longer = 0, shorter = 0; /* what the last two replays take */
    for (int32_t span = 2 * root; span >= 2 && 2 * span >= root; span /= 2) {
        pass_recompute how = {.price = ANY_PRICE, .span = span};
        if (span >= steps) {
            continue;
        }
        TRY(try_recompute(s, base, how, NULL));
        how.heavy = true;
        TRY(try_recompute(s, base, how, NULL));
        how.replay = true;
        longer = shorter;
        TRY(try_recompute(s, base, how, &shorter));
    }
    bool saves = shorter + shorter / LEAST_SAVING < longer;
    for (int32_t span = root / 2; span >= 4 && steps >= 64 && saves; span /= 4) {
        pass_recompute how = {.price = ANY_PRICE,
                              .span = span,
                              .outer = root_of(steps / span),
                              .heavy = true,
                              .replay = true};
        longer = shorter;
        TRY(try_recompute(s, base, how, &shorter));
        saves = span == root / 2 || shorter < longer;
    }
    return EBB_OK;
}

static int32_t choose(const ebb_plan *plan, uint64_t budget);

/* From what the fastest plain plan does with the loss and the weights; what saved most of that is
 * then joined to finer chunks, and to what the smallest plain plan does. */
static ebb_status try_all_recompute(const walk *w, ebb_plan *plan) {
    search s = {.w = w, .plan = plan};
    int32_t steps = most_time(w);
    plan_choice fast = plan->plain;
    plan_choice small = plan->choices[plan->n_choices - 1], finer = fast;
    for (size_t i = 0; i < sizeof prices / sizeof *prices; i++) {
        TRY(try_recompute(&s, fast, (pass_recompute){.price = prices[i]}, NULL));
    }
    if (steps >= 2) {
        pass_recompute how = {.price = ANY_PRICE, .scan = root_of(steps)};
        TRY(try_recompute(&s, fast, how, NULL));
        how.merge = 2 * how.scan;
        TRY(try_recompute(&s, fast, how, NULL));
        how.heavy = true;
        for (size_t i = 0; i < sizeof product_prices / sizeof *product_prices; i++) {
            how.price = product_prices[i];
            TRY(try_recompute(&s, fast, how, NULL));
        }
        TRY(try_spans(&s, fast, steps));
    }
    const pass_recompute best = plan->choices[plan->n_choices - 1].recompute;
    const pass_recompute next =
        plan->choices[plan->n_choices > 1 ? plan->n_choices - 2 : 0].recompute;
    finer.chunk_rows = fast.chunk_rows / 2;
    if (finer.chunk_rows > small.chunk_rows) {
        TRY(try_recompute(&s, finer, best, NULL));
    }
    TRY(try_recompute(&s, small, best, NULL));
    return try_recompute(&s, small, next, NULL);
}

static ebb_status list_choices(const walk *w, ebb_plan *plan) {
    TRY(try_plain(w, plan));
    plan->plain = plan->choices[choose(plan, UINT64_MAX)];
    return (w->options->disabled & (1U << PASS_RECOMPUTE)) != 0 ? EBB_OK
                                                                : try_all_recompute(w, plan);
}

/* The fastest that fits sets the pace; of those at most 2% slower the smallest is taken.
 * Recomputation that leaves the rest as it would be without may instead take 2% more than that. In
 * a list without dominated plans the smallest is the last, and what is allowed grows with the pace,
 * so a larger budget never gives a slower plan, nor a smaller one a higher peak. The last of all if
 * nothing fits. */
static int32_t choose(const ebb_plan *plan, uint64_t budget) {
    int32_t fit = 0, chosen;
    while (fit < plan->n_choices - 1 && plan->choices[fit].peak_bytes > budget) {
        fit++;
    }
    double pace = plan->choices[fit].seconds;
    chosen = fit;
    for (int32_t i = fit + 1; i < plan->n_choices; i++) {
        const plan_choice *c = &plan->choices[i];
        bool only = c->recompute.price > 0 && c->chunk_rows == plan->plain.chunk_rows &&
                    c->pack == plan->plain.pack;
        chosen = c->seconds <= PACE * (only ? fmax(pace, plan->plain.seconds) : pace) ? i : chosen;
    }
    return chosen;
}

/* All programs with nothing saved: how many bytes, and how large the variables are. */
static ebb_status compile_whole(const walk *w, const plan_choice *choice, ebb_plan *plan,
                                uint64_t *peak) {
    ebb_plan *all = NULL;
    pass_config configs[PLAN_MAX_PROGRAMS];
    for (int32_t i = 0; i < w->n_requests; i++) {
        configs[i] = config_of(w, choice);
        configs[i].disabled |= 1U << PASS_VERIFY;
    }
    TRY(new_plan(w, &all));
    ebb_status status =
        ebb__plan_compile(all, w->requests, w->n_requests, w->extras, w->n_extras, configs);
    if (status == EBB_OK) {
        status = ebb__plan_report(all);
    }
    plan->variable_bytes = all->variable_bytes;
    plan->variable_end = all->variable_end;
    plan->keep_all_activation_bytes = all->activation_bytes;
    *peak = all->peak_bytes;
    ebb__plan_free(all);
    return status;
}

/* The walk of the first program. What the same options take when nothing is saved is the plan taken
 * with exactly the passes chunk and recompute disabled and no limit. */
static ebb_status walk_first(const walk *w, ebb_plan *plan) {
    bool layouts = (w->options->disabled & (1U << PASS_LAYOUT)) == 0;
    uint64_t peak = 0;
    plan->keep_all_bytes = UINT64_MAX;
    for (int pack = layouts; pack >= 0; pack--) {
        plan->whole[pack] = (plan_choice){.pack = pack > 0};
        TRY(price(w, plan, &plan->whole[pack]));
        add_choice(plan, plan->whole[pack]);
    }
    plan->whole_pack = plan->choices[choose(plan, UINT64_MAX)].pack;
    plan_choice *all = &plan->whole[plan->whole_pack];
    TRY(compile_whole(w, all, plan, &peak));
    for (int pack = layouts; pack >= 0; pack--) {
        plan_choice *c = &plan->whole[pack];
        c->peak_bytes = arena_bytes(plan, c->program_bytes, c->transient_bytes);
    }
    plan->n_choices = 0;
    plan->keep_all_bytes = all->peak_bytes;
    plan->seconds_per_step_keep_all = all->seconds;
    add_choice(plan, *all); /* so the list is never empty */
    TRY(list_choices(w, plan));
    plan->keep_all_bytes = peak;
    return EBB_OK;
}

/* ---- several programs ---- */

/* Every program but the first has the room that the first one takes: it is left as fast as can be
 * if that fits, does what the first one does otherwise, and where nothing is learned, with the loss
 * in the smallest chunks. `plain` is its size as fast as can be, once it is known. */
static ebb_status settle_one(const walk *w, const ebb_plan *plan, const plan_choice *first,
                             int32_t i, plan_size *plain, plan_choice *taken, plan_size *size) {
    plan_choice tries[3] = {plan->plain, *first};
    int32_t n = 2;
    if (!w->requests[i].training) {
        tries[1].recompute = (pass_recompute){0};
        tries[2] = tries[1];
        tries[2].chunk_rows = chunk_sizes[sizeof chunk_sizes / sizeof *chunk_sizes - 1];
        n = 3;
    }
    if (plain->program_bytes == 0) {
        TRY(measure(w, i, &tries[0], NULL, plain));
        ebb__progress(w->ctx, "plan", (uint64_t)i + 1, (uint64_t)w->n_requests);
    }
    *taken = tries[0];
    *size = *plain;
    for (int32_t k = 1; k < n && size->transient_bytes > first->transient_bytes; k++) {
        plan_size now;
        TRY(measure(w, i, &tries[k], NULL, &now));
        if (now.transient_bytes < size->transient_bytes) {
            *taken = tries[k];
            *size = now;
        }
    }
    return EBB_OK;
}

/* What every program does if the first one does this, and what that takes together. */
static ebb_status settle(const walk *w, const ebb_plan *plan, plan_size *plain, plan_choice *first,
                         plan_choice each[PLAN_MAX_PROGRAMS]) {
    uint64_t programs = first->program_bytes, transients = first->transient_bytes;
    each[0] = *first;
    for (int32_t i = 1; i < w->n_requests; i++) {
        plan_size size;
        TRY(settle_one(w, plan, first, i, &plain[i], &each[i], &size));
        programs += plan_align(size.program_bytes);
        transients = size.transient_bytes > transients ? size.transient_bytes : transients;
    }
    first->peak_bytes = arena_bytes(plan, programs, transients);
    return EBB_OK;
}

/* The list was made of the first program, the largest: now with the bytes of all. */
static ebb_status settle_all(const walk *w, ebb_plan *plan, plan_choice each[PLAN_MAX_PROGRAMS]) {
    plan_choice list[PLAN_MAX_CHOICES];
    plan_size plain[PLAN_MAX_PROGRAMS] = {0};
    int32_t n = plan->n_choices;
    memcpy(list, plan->choices, (size_t)n * sizeof *list);
    plan->n_choices = 0;
    for (int32_t i = 0; i < n; i++) {
        TRY(settle(w, plan, plain, &list[i], each));
        add_choice(plan, list[i]);
    }
    if (plan->n_choices == 0) { /* of small models, instructions take more than they save */
        plan_choice all = plan->whole[plan->whole_pack];
        all.peak_bytes = plan->keep_all_bytes;
        add_choice(plan, all);
        for (int32_t i = 0; i < w->n_requests; i++) {
            each[i] = all;
        }
        plan->chosen = 0;
        return EBB_OK;
    }
    plan->chosen = choose(plan, w->options->budget);
    return settle(w, plan, plain, &plan->choices[plan->chosen], each);
}

static ebb_status refuse(ebb_plan *plan, uint64_t budget) {
    char largest[256] = "";
    size_t used = 0;
    for (int32_t i = 0; i < plan->n_largest && i < 3; i++) {
        int n = snprintf(largest + used, sizeof largest - used, "%s%s %" PRIu64, i ? ", " : "",
                         plan->largest[i].what, plan->largest[i].bytes);
        used += n > 0 && (size_t)n < sizeof largest - used ? (size_t)n : 0;
    }
    return ebb__fail(plan->ctx, EBB_BUDGET,
                     "the budget of %" PRIu64
                     " bytes is too small: the least that works is %" PRIu64
                     " bytes (--memory %" PRIu64 "); largest: %s",
                     budget, plan->least_bytes, plan->least_bytes, largest);
}

/* Takes a graph through the passes that do the same for all candidates. *out is to be closed in any
 * case. */
static ebb_status prepare(const walk *w, const plan_request *request, ir_graph *out) {
    pass_config config = config_of(w, &(plan_choice){0});
    pass_unit unit;
    config.training = request->training;
    ebb_status status = ebb__plan_open(&unit, w->ctx, &config, request->graph);
    if (status == EBB_OK) {
        status = ebb__plan_run_passes(&unit, FIRST_VARIED);
    }
    ebb__region_fini(&unit.region);
    ebb__region_fini(&unit.scratch);
    *out = unit.graph;
    return status;
}

static ebb_status walk_all(const walk *w, ebb_plan *plan, plan_choice each[PLAN_MAX_PROGRAMS]) {
    ir_graph graphs[PLAN_MAX_PROGRAMS];
    plan_request requests[PLAN_MAX_PROGRAMS];
    walk prepared = *w;
    ebb_status status = EBB_OK;
    int32_t n = 0;
    while (status == EBB_OK && n < w->n_requests) {
        requests[n] = w->requests[n];
        requests[n].graph = &graphs[n];
        status = prepare(w, &w->requests[n], &graphs[n]);
        n++;
    }
    prepared.requests = requests;
    prepared.prepared = true;
    if (status == EBB_OK) {
        ebb__progress(w->ctx, "plan", 0, (uint64_t)w->n_requests);
        status = walk_first(&prepared, plan);
    }
    if (status == EBB_OK) {
        status = settle_all(&prepared, plan, each);
    }
    while (n > 0) {
        ebb__ir_fini(&graphs[--n]);
    }
    return status;
}

static ebb_status compile_chosen(const walk *w, ebb_plan *plan, const plan_choice *each) {
    const plan_options *o = w->options;
    uint64_t listed = plan->choices[plan->chosen].peak_bytes;
    pass_config configs[PLAN_MAX_PROGRAMS];
    for (int32_t i = 0; i < w->n_requests; i++) {
        configs[i] = config_of(w, &each[i]);
        configs[i].dump_after = o->dump_after;
        configs[i].dump = o->dump;
        configs[i].dump_user = o->dump_user;
    }
    TRY(ebb__plan_compile(plan, w->requests, w->n_requests, w->extras, w->n_extras, configs));
    if (plan->peak_bytes != listed) {
        return ebb__fail(w->ctx, EBB_INTERNAL,
                         "the plan takes %" PRIu64 " bytes and was listed with %" PRIu64,
                         plan->peak_bytes, listed);
    }
    const plan_program *last = &plan->programs[plan->n_programs - 1];
    bool proved = (o->disabled & (1U << PASS_VERIFY)) == 0; /* else nobody will run it */
    for (int32_t i = 0; proved && i < plan->n_programs; i++) {
        TRY(ebb__plan_check(&plan->programs[i].unit, last->offset + last->bytes, plan->peak_bytes));
    }
    return EBB_OK;
}

static ebb_status make(const walk *w, ebb_plan *plan) {
    plan_choice each[PLAN_MAX_PROGRAMS];
    double start = ebb__clock_seconds();
    TRY(walk_all(w, plan, each));
    plan->budget_bytes = w->options->budget;
    plan->least_bytes = plan->choices[plan->n_choices - 1].peak_bytes;
    TRY(compile_chosen(w, plan, each));
    TRY(ebb__plan_report(plan));
    TRY(ebb__plan_decide(plan));
    const plan_choice *choice = &plan->choices[plan->chosen];
    plan->recomputed_nodes = choice->recomputed_nodes;
    if (w->options->explain) {
        TRY(ebb__plan_products(plan));
    }
    plan->plan_seconds = ebb__clock_seconds() - start;
    return choice->peak_bytes <= plan->budget_bytes ? EBB_OK : refuse(plan, plan->budget_bytes);
}

ebb_status ebb__plan_make(ebb_ctx *ctx, const plan_request *requests, int32_t n_requests,
                          const plan_extra *extras, int32_t n_extras, const plan_options *options,
                          ebb_plan **out) {
    walk w = {ctx, requests, n_requests, extras, n_extras, options, false};
    *out = NULL;
    if (n_requests < 1 || n_requests > PLAN_MAX_PROGRAMS) {
        return ebb__fail(ctx, EBB_USAGE, "a plan takes 1 to %d programs", PLAN_MAX_PROGRAMS);
    }
    ebb_plan *plan = NULL;
    TRY(new_plan(&w, &plan));
    ebb_status status = make(&w, plan);
    plan->config.table = NULL; /* the caller's, only for planning */
    for (int32_t i = 0; i < plan->n_programs; i++) {
        plan->programs[i].config.table = NULL;
    }
    if (status != EBB_OK && status != EBB_BUDGET) {
        ebb__plan_free(plan);
        return status;
    }
    *out = plan;
    return status;
}
