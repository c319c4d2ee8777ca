/* walk.c - see walk.h. */
#include "plan/walk.h"

#include <math.h>

static const double PACE = 1.02; /* what saving memory may cost unasked */
enum {
    MOST_CHUNKS = 4096, /* more would save nothing and take long to plan */
    LEAST_SAVING =
        256 /* a smaller chunk must save this part of the peak, or none is tried after it */
};
static const int32_t chunk_sizes[] = {1024, 512, 256, 128, 64, 32, 16, 8};
enum { N_CHUNK_SIZES = sizeof chunk_sizes / sizeof *chunk_sizes };

/* The passes before it do the same for every candidate. */
static const pass_id FIRST_VARIED = PASS_CHUNK;

/* ---- one candidate ---- */

pass_config ebb__walk_config(const plan_options *options, const plan_choice *choice,
                             bool prepared) {
    return (pass_config){.disabled = options->disabled,
                         .first = prepared ? FIRST_VARIED : PASS_INFER,
                         .chunk_rows = choice->chunk_rows,
                         .pack = choice->pack,
                         .recompute = choice->recompute,
                         .members = options->members,
                         .table = choice->forms,
                         .update = options->update};
}

ebb_status ebb__walk_measure(ebb_ctx *ctx, const plan_options *options, const plan_request *program,
                             const plan_choice *choice, const plan_bar *bar, plan_size *out) {
    pass_config config = ebb__walk_config(options, choice, true);
    if (options->stop != NULL && options->stop(options->stop_user)) {
        return ebb__fail(ctx, EBB_STOPPED, "stopped while planning, before anything was done");
    }
    return ebb__plan_measure(ctx, program, &config, bar, out);
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

uint64_t ebb__walk_arena(uint64_t variable_bytes, uint64_t variable_end, uint64_t programs,
                         uint64_t transients) {
    return transients > 0 ? programs + variable_bytes + transients : programs + variable_end;
}

/* As if there were only this program. */
static void set_size(const plan_walk *w, const plan_size *size, plan_choice *choice) {
    choice->size = *size;
    choice->peak_bytes = ebb__walk_arena(w->variable_bytes, w->variable_end,
                                         plan_align(size->program_bytes), size->transient_bytes);
    choice->seconds = size->seconds;
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

/* The fastest that fits sets the pace; of those at most 2% slower the smallest is taken.
 * Recomputation that leaves the rest as it would be without may instead take 2% more than that. In
 * a list without dominated plans the smallest is the last, and what is allowed grows with the pace,
 * so a larger budget never gives a slower plan, nor a smaller one a higher peak. */
int32_t ebb__walk_choose(const plan_choice *list, int32_t n, const plan_choice *plain,
                         uint64_t budget) {
    int32_t fit = 0, chosen;
    while (fit < n - 1 && list[fit].peak_bytes > budget) {
        fit++;
    }
    double pace = list[fit].seconds;
    chosen = fit;
    for (int32_t i = fit + 1; i < n; i++) {
        const plan_choice *c = &list[i];
        bool only =
            c->recompute.price > 0 && c->chunk_rows == plain->chunk_rows && c->pack == plain->pack;
        chosen = c->seconds <= PACE * (only ? fmax(pace, plain->seconds) : pace) ? i : chosen;
    }
    return chosen;
}

/* What takes more than keeping everything is no plan to list. */
static ebb_status add(plan_walk *w, plan_choice fresh) {
    return ebb__walk_add(w->ctx, w->list, &w->n_list, w->whole[w->whole_pack].peak_bytes, fresh);
}

static const plan_choice *smallest(const plan_walk *w) {
    return &w->list[w->n_list - 1];
}

/* ---- without recomputation ---- */

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

int32_t ebb__walk_finest(void) {
    return chunk_sizes[N_CHUNK_SIZES - 1];
}

/* Sizes of the loss chunks, with and without packed weights. */
int32_t ebb__walk_plain(const plan_options *options, int32_t rows,
                        plan_choice list[PLAN_MAX_CHOICES]) {
    bool chunks = (options->disabled & (1U << PASS_CHUNK)) == 0;
    bool layouts = (options->disabled & (1U << PASS_LAYOUT)) == 0;
    int32_t n = 0;
    for (int t = layouts; t >= 0; t--) {
        list[n++] = (plan_choice){.pack = t > 0};
        for (int32_t i = 0; chunks && i < N_CHUNK_SIZES; i++) {
            if (chunk_sizes[i] < rows && rows / chunk_sizes[i] <= MOST_CHUNKS) {
                list[n++] = (plan_choice){.chunk_rows = chunk_sizes[i], .pack = t > 0};
            }
        }
    }
    return n;
}
_Static_assert(2 * (1 + N_CHUNK_SIZES) <= PLAN_MAX_CHOICES, "the list has room");

/* Smaller chunks are tried as long as they save something worth the name. Without packed weights,
 * which is slower, only those that may go below what was reached with them. */
static ebb_status try_plain(plan_walk *w) {
    plan_choice list[PLAN_MAX_CHOICES];
    int32_t n = ebb__walk_plain(w->options, w->rows, list), least = 0;
    uint64_t last_peak = 0;
    for (int32_t i = 0; i < n; i++) {
        bool first = i == 0 || list[i].pack != list[i - 1].pack;
        if (!list[i].pack && least > 0) { /* chunks are worth while: begin with those */
            if (list[i].chunk_rows == 0 || list[i].chunk_rows > least) {
                continue;
            }
            first = list[i].chunk_rows == least;
        }
        if (!first && last_peak == 0) {
            continue; /* the peak lies elsewhere by now */
        }
        if (list[i].chunk_rows == 0) {
            list[i] = w->whole[list[i].pack];
        } else {
            TRY(price(w, &list[i]));
        }
        TRY(add(w, list[i]));
        bool saves = first || list[i].peak_bytes + list[i].peak_bytes / LEAST_SAVING < last_peak;
        last_peak = saves ? list[i].peak_bytes : 0;
        least = saves && list[i].pack ? list[i].chunk_rows : least;
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
    plan_walk *w;
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
    set_size(s->w, least, &choice);
    return fresh &&
           !is_beaten(s->w->list, s->w->n_list, s->w->whole[s->w->whole_pack].peak_bytes, &choice);
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
static ebb_status try_recompute(search *s, plan_choice base, pass_recompute how, uint64_t *least) {
    plan_bar bar = {is_worth, s};
    plan_size size;
    bool left_out = false;
    base.recompute = how;
    TRY(measure_within(s->w, &base, &bar, &size, &left_out));
    if (left_out) {
        return EBB_OK;
    }
    int32_t at = find_tried(s, size.graph);
    if (at == PLAN_MAX_CHOICES) {
        return ebb__fail(s->w->ctx, EBB_INTERNAL, "plan: more than %d plans to try", at);
    }
    if (at == s->n_tried) {
        s->tried[at].graph = size.graph;
        s->tried[at].least = ebb__walk_arena(s->w->variable_bytes, s->w->variable_end,
                                             plan_align(size.program_bytes), size.load_bytes);
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

/* From what the fastest plain plan does with the loss and the weights; what saved most of that is
 * then joined to finer chunks, and to what the smallest plain plan does. */
static ebb_status try_all_recompute(plan_walk *w) {
    search s = {.w = w};
    plan_choice fast = w->plain, small = *smallest(w), finer = fast;
    for (size_t i = 0; i < sizeof prices / sizeof *prices; i++) {
        TRY(try_recompute(&s, fast, (pass_recompute){.price = prices[i]}, NULL));
    }
    if (w->steps >= 2) {
        pass_recompute how = {.price = ANY_PRICE, .scan = root_of(w->steps)};
        TRY(try_recompute(&s, fast, how, NULL));
        how.merge = 2 * how.scan;
        TRY(try_recompute(&s, fast, how, NULL));
        how.heavy = true;
        for (size_t i = 0; i < sizeof product_prices / sizeof *product_prices; i++) {
            how.price = product_prices[i];
            TRY(try_recompute(&s, fast, how, NULL));
        }
        TRY(try_spans(&s, fast, w->steps));
    }
    const pass_recompute best = smallest(w)->recompute;
    const pass_recompute next = w->list[w->n_list > 1 ? w->n_list - 2 : 0].recompute;
    finer.chunk_rows = fast.chunk_rows / 2;
    if (finer.chunk_rows > small.chunk_rows) {
        TRY(try_recompute(&s, finer, best, NULL));
    }
    TRY(try_recompute(&s, small, best, NULL));
    return try_recompute(&s, small, next, NULL);
}

/* What the same options take when nothing is saved is the plan taken with exactly the passes chunk
 * and recompute disabled and no limit. */
static ebb_status try_whole(plan_walk *w) {
    bool layouts = (w->options->disabled & (1U << PASS_LAYOUT)) == 0;
    for (int pack = layouts; pack >= 0; pack--) {
        w->whole[pack] = (plan_choice){.pack = pack > 0};
        TRY(price(w, &w->whole[pack]));
        TRY(ebb__walk_add(w->ctx, w->list, &w->n_list, UINT64_MAX, w->whole[pack]));
    }
    w->whole_pack =
        w->list[ebb__walk_choose(w->list, w->n_list, &(plan_choice){0}, UINT64_MAX)].pack;
    w->n_list = 0;
    return add(w, w->whole[w->whole_pack]); /* so the list is never empty */
}

ebb_status ebb__walk_run(plan_walk *w) {
    TRY(try_whole(w));
    TRY(try_plain(w));
    w->plain = w->list[ebb__walk_choose(w->list, w->n_list, &(plan_choice){0}, UINT64_MAX)];
    return (w->options->disabled & (1U << PASS_RECOMPUTE)) != 0 ? EBB_OK : try_all_recompute(w);
}
