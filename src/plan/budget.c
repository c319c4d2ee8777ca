/* budget.c - which plan a budget takes, and what that is for every program of a run.
 *
 * The plans are those of one program, the *leading* one: of those that train, the one whose forward
 * graph makes most bytes (walk.h). Every other program has the room that it takes: it stays *plain*
 * if that fits, and else does what the leading one does, or another plan of the list, or takes the
 * loss in the finest chunks (follow()). Bytes of a listed plan are those of all programs together,
 * its seconds those of the mean step. `least_bytes` comes from bytes alone.
 *
 * Programs are looked at one after the other, and only one has a graph at a time.
 */
#include "plan/stages.h"
#include "plan/walk.h"

#include "base/host.h"
#include "base/num.h"
#include "op/heap.h"
#include "pass/chunk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_NODES = 150000 }; /* of a forward graph: some 20 seconds */

/* What a program that does not lead does. */
enum {
    HOW_WHOLE,  /* nothing saved */
    HOW_PLAIN,  /* plan_walk.plain: as the leading program without a limit and a knob that saves */
    HOW_FINEST, /* plain with the last way of PLAN_KNOB_SERIES, be it worth trying or not: only of
                   programs that do not train */
    HOW_LISTED  /* + i: plan i of the walk's list */
};

/* What all programs together take. */
typedef struct total {
    uint64_t program_bytes;          /* the sum */
    uint64_t transient_bytes;        /* of the program that has most: they overlay each other */
    uint64_t gradient_bytes;         /* of that program */
    uint64_t instr_bytes;            /* in the host's memory: the sum */
    uint64_t away_bytes;             /* outside the device's: of the program that has most */
    double seconds, product_seconds; /* of the mean step, see plan_size */
} total;

typedef struct settling {
    ebb_ctx *ctx;
    const plan_request *requests;
    int32_t n;
    const plan_options *options;
    ebb_plan *plan;
    plan_walk walk;
    plan_options own_options;      /* those that were given, and what follows from the programs */
    plan_options fallback_options; /* whatever saves may be done: it is the exception */
    plan_walk fallback;            /* where sparse values may not fit: plans without them */
    double shares;                 /* of all that train; 0: the leading one counts alone */
    uint64_t host_of_others;       /* bytes that only the leading program cannot use for itself */
    const cost_table *table;       /* measured times, once they are asked for; NULL: none */
    double look_up_seconds;        /* of that call, which may measure: no part of plan_seconds */
    total whole, plain, listed[PLAN_MAX_CHOICES];
    total exact; /* nothing saved, nothing rounded: what keeping all takes, whatever is rounded */
    plan_choice exact_choice;
    /* [n_list + 1][n]: row k is what each program, the leading one too, does and takes with plan k
     * of the walk's list; the last row, if nothing is saved. */
    struct followed {
        int32_t how;
        plan_size size;
    } * followed;
    plan_size measured[PLAN_MAX_PROGRAMS]; /* of what was chosen, with measured forms */
} settling;

/* ---- totals ---- */

static double share_of(const settling *s, int32_t i) {
    if (s->shares == 0) {
        return i == s->plan->lead ? 1 : 0;
    }
    return s->requests[i].training ? s->requests[i].share / s->shares : 0;
}

static void add_size(const settling *s, int32_t i, const plan_size *size, total *to) {
    to->program_bytes += size->program_bytes;
    to->instr_bytes += size->instr_bytes;
    to->away_bytes = num_larger(to->away_bytes, size->away_bytes);
    to->seconds += share_of(s, i) * size->seconds;
    to->product_seconds += share_of(s, i) * size->product_seconds;
    if (size->transient_bytes > to->transient_bytes || to->transient_bytes == 0) {
        to->transient_bytes = size->transient_bytes;
        to->gradient_bytes = size->gradient_bytes;
    }
}

/* Seconds of the mean step, products scaled by the measured pace. */
static double expected_of(const settling *s, const total *all) {
    double pace = s->table != NULL && s->table->pace > 0 ? s->table->pace : 1;
    return all->seconds + all->product_seconds * (pace - 1);
}

static uint64_t arena_of(const settling *s, const total *all) {
    return ebb__walk_arena(&s->walk, all->program_bytes, all->transient_bytes);
}

static bool fits_host(const settling *s, const total *all) {
    return ebb__plan_host_bytes(s->plan, all->instr_bytes, all->away_bytes) <=
           ebb__plan_host_most(s->plan, s->options);
}

/* ---- which program leads ---- */

/* Bytes of all that the forward graph makes: a measure of what keeping everything takes. */
static double made_bytes(const ir_graph *g) {
    double bytes = 0;
    for (ir_val v = 0; v < g->n_values; v++) {
        const ir_node def = g->values[v].def;
        bool made = def != IR_NONE && (ebb__op(g->nodes[def].op)->flags & OPF_ALIAS) == 0;
        bytes += made ? (double)ebb__ir_type_bytes(&g->values[v].type) : 0;
    }
    return bytes;
}

static int32_t most_time(const ir_graph *g) {
    int32_t most = 0;
    for (int32_t k = 0; k < g->n_order; k++) {
        int32_t time = g->nodes[g->order[k]].label.at + 1;
        most = time > most ? time : most;
    }
    return most;
}

/* Of a program's forward graph: refuses it if it is too large, adds its variables to the plan, and
 * its rows and steps to what the knobs reach; *made: the bytes it makes. */
static ebb_status inspect_program(settling *s, int32_t i, double *made) {
    const plan_request *request = &s->requests[i];
    pass_config config = {.first = PASS_SHARD,
                          .disabled = s->options->disabled & 1U << PASS_SPLIT,
                          .ranks = s->options->ranks};
    pass_unit unit;
    ebb_status status = ebb__plan_open(&unit, s->ctx, &config, request);
    int64_t nodes = (int64_t)unit.graph.n_nodes * (request->shards > 1 ? request->shards : 1);
    if (status == EBB_OK && nodes > MOST_NODES) {
        status = ebb__fail(s->ctx, EBB_USAGE,
                           "program %s has %lld nodes, and more than %d take too long to plan: "
                           "unroll fewer time steps, or part the batch in fewer shards",
                           request->name, (long long)nodes, MOST_NODES);
    }
    status = status == EBB_OK ? ebb__plan_run_passes(&unit, PASS_GRAD) : status;
    if (status == EBB_OK && (config.disabled >> PASS_SPLIT & 1) == 0) {
        status = ebb__pass_split.run(&unit);
    }
    status = status == EBB_OK ? ebb__pass_cut.run(&unit) : status;
    if (status == EBB_OK) {
        int32_t rows = ebb__walk_rows(&unit.graph);
        int32_t steps = request->training ? most_time(&unit.graph) : 0;
        plan_reach *reach = &s->walk.grid.reach;
        reach->rows = rows > reach->rows ? rows : reach->rows;
        reach->steps = steps > reach->steps ? steps : reach->steps;
        int32_t images = request->training ? ebb__chunk_batch(&unit.graph, NULL) : 0;
        reach->images = images > reach->images ? images : reach->images;
        *made = made_bytes(&unit.graph);
        status = ebb__plan_add_variables(s->plan, request, &unit.graph);
    }
    ebb__plan_close(&unit);
    return status;
}

/* Sparse values are for one program that trains: others would need a fallback each. */
static ebb_status find_lead(settling *s) {
    plan_reach *reach = &s->walk.grid.reach;
    double most = -1;
    int32_t training = 0;
    s->plan->lead = 0;
    for (int32_t i = 0; i < s->n; i++) {
        const plan_request *request = &s->requests[i];
        double made = 0;
        TRY(inspect_program(s, i, &made));
        s->shares += request->training ? request->share : 0;
        training += request->training;
        /* Where nothing is trained, whoever asks puts the largest first. */
        if (most < 0 || (request->training && made > most)) {
            s->plan->lead = i;
            most = made;
        }
    }
    reach->sparse = training == 1 && reach->images > 0 && s->options->density.cut > 0 &&
                    op_heap_dtype(s->options->stash) != IR_DTYPES &&
                    (reach->disabled >> PASS_ENCODE & 1) == 0;
    return EBB_OK;
}

/* ---- the others ---- */

static struct followed *followed_at(const settling *s, int32_t row, int32_t i) {
    return &s->followed[(size_t)row * (size_t)s->n + (size_t)i];
}

static plan_choice choice_for_how(const settling *s, int32_t i, int32_t how) {
    const plan_walk *w = &s->walk;
    plan_choice choice = how >= HOW_LISTED  ? w->list[how - HOW_LISTED]
                         : how == HOW_WHOLE ? w->whole[w->keep_all]
                                            : w->plain;
    for (int32_t k = 0; !s->requests[i].training && k < w->grid.n_knobs; k++) {
        if (w->grid.knobs[k].training) {
            ebb__walk_turn(&w->grid, &choice, k, 0);
        }
    }
    for (int32_t k = PLAN_KNOB_SERIES; how == HOW_FINEST && k < w->grid.n_knobs; k++) {
        if (!w->grid.knobs[k].training) {
            ebb__walk_turn(&w->grid, &choice, k, w->grid.knobs[k].n - 1);
        }
    }
    return choice;
}

/* A program while it has a graph, and what was measured of it so far, if it does not lead. */
typedef struct follower {
    settling *s;
    int32_t i;
    plan_request program;
    struct followed known[HOW_LISTED + PLAN_MAX_CHOICES];
    int32_t n_known;
} follower;

/* What the program takes if it does `how`; compiles it the first time that it is asked. */
static ebb_status measure_as(follower *f, int32_t how, const plan_size **out) {
    for (int32_t k = 0; k < f->n_known; k++) {
        if (f->known[k].how == how) {
            *out = &f->known[k].size;
            return EBB_OK;
        }
    }
    struct followed *fresh = &f->known[f->n_known];
    plan_choice choice = choice_for_how(f->s, f->i, how);
    fresh->how = how;
    TRY(ebb__walk_measure(f->s->ctx, f->s->options, &f->program, &choice, NULL, &fresh->size));
    f->n_known++;
    *out = &fresh->size;
    return EBB_OK;
}

/* Takes another way if that needs less than the one taken so far. */
static ebb_status take_smaller(follower *f, int32_t how, int32_t *taken, const plan_size **size) {
    const plan_size *other = NULL;
    TRY(measure_as(f, how, &other));
    if (other->transient_bytes < (*size)->transient_bytes) {
        *taken = how;
        *size = other;
    }
    return EBB_OK;
}

/* What a program does if the leading one does plan k. Plain if that fits the leading program's
 * room; else plan k if smaller; else, not training, the finest chunks, or, training and k the last
 * plan, any plan of the list that is smaller. What still does not fit makes the arena larger. */
static ebb_status follow(follower *f, int32_t k) {
    settling *s = f->s;
    uint64_t room = s->walk.list[k].size.transient_bytes;
    bool training = s->requests[f->i].training, last = k == s->walk.n_list - 1;
    int32_t taken = HOW_PLAIN;
    const plan_size *size = NULL;
    TRY(measure_as(f, taken, &size));
    if (size->transient_bytes > room) {
        TRY(take_smaller(f, HOW_LISTED + k, &taken, &size));
    }
    if (size->transient_bytes > room && !training) {
        TRY(take_smaller(f, HOW_FINEST, &taken, &size));
    }
    for (int32_t j = k - 1; last && training && size->transient_bytes > room && j >= 0; j--) {
        TRY(take_smaller(f, HOW_LISTED + j, &taken, &size));
    }
    *followed_at(s, k, f->i) = (struct followed){taken, *size};
    add_size(s, f->i, size, &s->listed[k]);
    return EBB_OK;
}

static ebb_status settle_one(settling *s, follower *f) {
    const plan_size *whole = NULL, *plain = NULL;
    TRY(measure_as(f, HOW_WHOLE, &whole));
    TRY(measure_as(f, HOW_PLAIN, &plain));
    *followed_at(s, s->walk.n_list, f->i) = (struct followed){HOW_WHOLE, *whole};
    add_size(s, f->i, whole, &s->whole);
    add_size(s, f->i, plain, &s->plain);
    for (int32_t k = 0; k < s->walk.n_list; k++) {
        TRY(follow(f, k));
    }
    return EBB_OK;
}

/* Prepares a program for as long as `with` looks at it. */
static ebb_status with_program(settling *s, int32_t i, const plan_options *options,
                               ebb_status (*with)(settling *s, follower *f)) {
    ir_graph graph;
    follower *f = NULL;
    TRY(ebb__alloc(s->ctx, 1, sizeof *f, &f));
    f->s = s;
    f->i = i;
    f->program = s->requests[i];
    f->program.graph = &graph;
    ebb_status status = ebb__walk_prepare(s->ctx, options, &s->requests[i], &graph);
    if (status == EBB_OK) {
        status = with(s, f);
    }
    ebb__ir_fini(&graph);
    ebb__free(s->ctx, f);
    return status;
}

/* What the leading program falls back to, where a plan of its list has sparse values. */
static const plan_size *fallback_of(const settling *s, const plan_choice *choice) {
    return choice->size.heap_bytes > 0 ? &s->fallback.list[choice->fallback].size : NULL;
}

static void add_fallback(const settling *s, const plan_choice *choice, total *to) {
    const plan_size *size = fallback_of(s, choice);
    plan_size same = size != NULL ? *size : (plan_size){0};
    if (size != NULL) {
        same.seconds = same.product_seconds = 0; /* steps are done by it now and then */
        add_size(s, s->plan->lead, &same, to);
    }
}

/* All plans of the leading program without sparse values, by whatever saves. */
static ebb_status walk_fallback(settling *s) {
    const uint32_t saving =
        1U << PASS_CHUNK | 1U << PASS_SLICES | 1U << PASS_ENCODE | 1U << PASS_RECOMPUTE;
    plan_reach reach = s->walk.grid.reach;
    s->fallback_options = *s->options;
    s->fallback_options.disabled &= ~saving;
    s->fallback_options.chunks = CHUNKS_AUTO;
    s->fallback_options.encode = ENCODE_AUTO;
    reach.disabled &= ~saving;
    reach.chunks = CHUNKS_AUTO;
    reach.encode = ENCODE_AUTO;
    reach.sparse = false;
    s->fallback = s->walk;
    s->fallback.options = &s->fallback_options;
    s->fallback.grid = ebb__knobs_grid(reach);
    TRY(ebb__walk_run(&s->fallback));
    s->walk.fallbacks = s->fallback.list;
    s->walk.n_fallbacks = s->fallback.n_list;
    return EBB_OK;
}

static ebb_status walk_lead(settling *s, follower *f) {
    plan_walk *w = &s->walk;
    w->program = f->program;
    /* The optimiser's, which training adds. */
    TRY(ebb__plan_add_variables(s->plan, &f->program, f->program.graph));
    w->variable_bytes = ebb__plan_variable_bytes(s->plan, &w->variable_end);
    w->away_most = ebb__plan_away_most(s->plan, s->options, s->host_of_others);
    if (w->grid.reach.sparse) {
        TRY(walk_fallback(s));
    }
    TRY(ebb__walk_run(w));
    TRY(ebb__alloc(s->ctx, ((size_t)w->n_list + 1) * (size_t)s->n, sizeof *s->followed,
                   &s->followed));
    for (int32_t k = 0; k < w->n_list; k++) {
        *followed_at(s, k, f->i) = (struct followed){HOW_LISTED + k, w->list[k].size};
        add_size(s, f->i, &w->list[k].size, &s->listed[k]);
        add_fallback(s, &w->list[k], &s->listed[k]);
    }
    const plan_size *whole = &w->whole[w->keep_all].size;
    *followed_at(s, w->n_list, f->i) = (struct followed){HOW_WHOLE, *whole};
    add_size(s, f->i, whole, &s->whole);
    add_size(s, f->i, &w->plain.size, &s->plain);
    return EBB_OK;
}

/* ---- without rounding ---- */

static ebb_status size_exact_lead(settling *s, follower *f) {
    plan_walk *w = NULL;
    TRY(ebb__alloc(s->ctx, 1, sizeof *w, &w));
    *w = s->walk;
    w->program = f->program;
    w->n_list = 0;
    ebb_status status = ebb__walk_whole(w);
    s->exact_choice = w->whole[w->keep_all];
    ebb__free(s->ctx, w);
    add_size(s, f->i, &s->exact_choice.size, &s->exact);
    return status;
}

static ebb_status size_exact(settling *s, follower *f) {
    plan_size size;
    TRY(ebb__walk_measure(s->ctx, s->options, &f->program, &s->exact_choice, NULL, &size));
    add_size(s, f->i, &size, &s->exact);
    return EBB_OK;
}

/* Plans that round are compared with keeping all in f32. */
static ebb_status settle_exact(settling *s) {
    plan_options exact = *s->options;
    exact.stash = 0;
    s->exact = s->whole;
    if (s->options->stash == 0) {
        return EBB_OK;
    }
    s->exact = (total){0};
    TRY(with_program(s, s->plan->lead, &exact, size_exact_lead));
    for (int32_t i = 0; i < s->n; i++) {
        if (i != s->plan->lead) {
            TRY(with_program(s, i, &exact, size_exact));
        }
    }
    return EBB_OK;
}

/* ---- all of them ---- */

static ebb_status add_listed(settling *s, plan_choice choice, const total *all, int32_t row) {
    ebb_plan *plan = s->plan;
    choice.row = row;
    choice.peak_bytes = arena_of(s, all);
    choice.seconds = expected_of(s, all);
    return ebb__walk_add(s->ctx, plan->choices, &plan->n_choices, arena_of(s, &s->whole), choice);
}

static ebb_status list_all(settling *s) {
    const plan_walk *w = &s->walk;
    bool any = false; /* else the one that is taken is refused for that */
    for (int32_t k = 0; k < w->n_list; k++) {
        any = any || fits_host(s, &s->listed[k]);
    }
    for (int32_t k = 0; k < w->n_list; k++) {
        if (!any || fits_host(s, &s->listed[k])) {
            TRY(add_listed(s, w->list[k], &s->listed[k], k));
        }
    }
    if (s->plan->n_choices > 0) {
        return EBB_OK;
    }
    /* Of small models, instructions may take more than they save: then everything is kept. */
    return add_listed(s, w->whole[w->keep_all], &s->whole, w->n_list);
}

static bool any_fits(const settling *s) {
    bool fits = arena_of(s, &s->whole) <= s->plan->budget_bytes;
    for (int32_t k = 0; k < s->walk.n_list && !fits; k++) {
        fits = arena_of(s, &s->listed[k]) <= s->plan->budget_bytes;
    }
    return fits;
}

/* Asks for measured times, unless no plan fits: measuring would only delay the answer. */
static ebb_status look_up_times(settling *s) {
    const plan_options *o = s->options;
    double start = ebb__clock_seconds();
    ebb__region_trim(s->ctx);
    s->table = o->table;
    if (o->table == NULL && o->look_up != NULL && any_fits(s)) {
        TRY(o->look_up(o->look_up_user, &s->table));
    }
    s->look_up_seconds = ebb__clock_seconds() - start;
    return EBB_OK;
}

static ebb_status settle_programs(settling *s) {
    const ebb_plan *plan = s->plan;
    TRY(with_program(s, plan->lead, s->options, walk_lead));
    for (int32_t i = 0; i < s->n; i++) {
        if (i != plan->lead) {
            TRY(with_program(s, i, s->options, settle_one));
        }
        ebb__progress(s->ctx, "plan", (uint64_t)i + 1, (uint64_t)s->n);
    }
    return EBB_OK;
}

/* What the other programs take of the host's memory is known when all are settled: where the
 * leading one's plans then let too much wait there, it is walked again with so much less of it. */
static ebb_status settle_in_host(settling *s) {
    bool fit = true;
    TRY(settle_programs(s));
    for (int32_t k = 0; k < s->walk.n_list; k++) {
        const plan_size *lead = &s->walk.list[k].size;
        const total *all = &s->listed[k];
        uint64_t others = all->instr_bytes - lead->instr_bytes + all->away_bytes - lead->away_bytes;
        s->host_of_others = num_larger(s->host_of_others, lead->away_bytes > 0 ? others : 0);
        fit = fit && (lead->away_bytes == 0 || fits_host(s, all));
    }
    if (fit) {
        return EBB_OK;
    }
    ebb__free(s->ctx, s->followed);
    s->followed = NULL;
    s->walk.n_list = 0;
    s->whole = s->plain = (total){0};
    memset(s->listed, 0, sizeof s->listed);
    return settle_programs(s);
}

static ebb_status settle(settling *s) {
    ebb_plan *plan = s->plan;
    uint64_t weights = 0;
    TRY(settle_in_host(s));
    TRY(settle_exact(s));
    TRY(look_up_times(s));
    for (int32_t i = 0; i < plan->n_variables; i++) {
        ir_role role = plan->variables[i].role;
        weights +=
            role == IR_PARAM || role == IR_BUFFER || role == IR_SLOT ? plan->variables[i].bytes : 0;
    }
    plan->keep_all_bytes = arena_of(s, &s->exact);
    plan->keep_all_activation_bytes = plan->keep_all_bytes - weights - s->exact.gradient_bytes;
    plan->seconds_per_step_keep_all = expected_of(s, &s->exact);
    TRY(list_all(s));
    for (int32_t i = 0; i < plan->n_choices; i++) {
        plan_choice *choice = &plan->choices[i];
        choice->activation_bytes = choice->peak_bytes - weights - choice->size.gradient_bytes;
    }
    s->walk.plain.seconds = expected_of(s, &s->plain);
    plan->chosen = ebb__walk_choose(&s->walk.grid, plan->choices, plan->n_choices, &s->walk.plain,
                                    plan->budget_bytes);
    plan->least_bytes = plan->choices[plan->n_choices - 1].peak_bytes;
    return EBB_OK;
}

/* ---- the plan that is taken ---- */

static struct followed *followed_in_chosen(const settling *s, int32_t i) {
    return followed_at(s, s->plan->choices[s->plan->chosen].row, i);
}

static plan_choice chosen_choice(const settling *s, int32_t i, bool measured) {
    plan_choice choice = choice_for_how(s, i, followed_in_chosen(s, i)->how);
    choice.forms = measured ? s->table : NULL;
    return choice;
}

static ebb_status size_measured(settling *s, follower *f) {
    plan_choice choice = chosen_choice(s, f->i, true);
    return ebb__walk_measure(s->ctx, s->options, &f->program, &choice, NULL, &s->measured[f->i]);
}

/* Forms that were measured to be faster may need more scratch: they are taken where the budget has
 * room for that, and never decide what fits. */
static ebb_status try_measured(settling *s, bool *taken) {
    const plan_choice *chosen = &s->plan->choices[s->plan->chosen];
    total all = {0};
    *taken = s->table != NULL && chosen->peak_bytes <= s->plan->budget_bytes;
    for (int32_t i = 0; *taken && i < s->n; i++) {
        TRY(with_program(s, i, s->options, size_measured));
        add_size(s, i, &s->measured[i], &all);
    }
    plan_choice lead = chosen_choice(s, s->plan->lead, false);
    add_fallback(s, &lead, &all);
    *taken = *taken && arena_of(s, &all) <= s->plan->budget_bytes;
    return EBB_OK;
}

static ebb_status fill_program(settling *s, int32_t i, const char *name, const plan_size *size,
                               const plan_options *options, const plan_choice *choice) {
    ebb_plan *plan = s->plan;
    const plan_options *o = s->options;
    plan_program *program = &plan->programs[plan->n_programs++];
    TRY(ebb__strdup(s->ctx, name, &program->name));
    program->request = s->requests[i];
    program->use = s->requests[i].use;
    program->item = s->requests[i].item;
    program->size = *size;
    program->config = ebb__walk_config(options, choice, false);
    program->config.pace = s->table != NULL ? s->table->pace : 0;
    if (plan->choices[plan->chosen].peak_bytes > plan->budget_bytes) {
        program->config.disabled |= 1U << PASS_VERIFY; /* nobody will run it */
    }
    program->config.dump_after = o->dump_after;
    program->config.dump = o->dump;
    program->config.dump_user = o->dump_user;
    plan->nodes += program->size.n_nodes;
    return EBB_OK;
}

static ebb_status fill_programs(settling *s, bool measured) {
    ebb_plan *plan = s->plan;
    const int32_t lead = plan->lead;
    for (int32_t i = 0; i < s->n; i++) {
        plan_choice choice = chosen_choice(s, i, measured);
        TRY(fill_program(s, i, s->requests[i].name,
                         measured ? &s->measured[i] : &followed_in_chosen(s, i)->size, s->options,
                         &choice));
    }
    plan_choice choice = chosen_choice(s, lead, false);
    const plan_size *fallback = fallback_of(s, &choice);
    if (fallback == NULL) {
        return EBB_OK;
    }
    if (plan->n_programs == PLAN_MAX_PROGRAMS) {
        return ebb__fail(s->ctx, EBB_INTERNAL, "plan: no room for a program to fall back to");
    }
    plan->programs[lead].fallback = plan->n_programs;
    TRY(fill_program(s, lead, "fallback", fallback, &s->fallback_options,
                     &s->fallback.list[choice.fallback]));
    plan->programs[plan->programs[lead].fallback].use = -1; /* of the session alone */
    return EBB_OK;
}

/* The leading program stays for those who want to look at it; another only as long as it is needed
 * for the report, or to be printed. */
static ebb_status compile_shown(settling *s) {
    ebb_plan *plan = s->plan;
    int32_t largest = plan->lead;
    for (int32_t i = 0; i < plan->n_programs; i++) {
        bool more =
            plan->programs[i].size.transient_bytes > plan->programs[largest].size.transient_bytes;
        largest = more ? i : largest;
    }
    for (int32_t i = 0; i < plan->n_programs; i++) {
        if (i == plan->lead || i == largest || s->options->dump_after != 0) {
            TRY(ebb__plan_compile(plan, i));
            plan->programs[i].config.dump_after = 0; /* once is enough */
        }
        if (i == largest) {
            TRY(ebb__plan_report(plan, &plan->programs[i].unit));
        }
        if (i != plan->lead) {
            ebb__plan_close_program(&plan->programs[i]);
        }
    }
    return EBB_OK;
}

static ebb_status make(settling *s, const plan_extra *extras, int32_t n_extras) {
    ebb_plan *plan = s->plan;
    double start = ebb__clock_seconds();
    bool measured = false;
    TRY(find_lead(s));
    for (int32_t i = 0; i < n_extras; i++) {
        TRY(ebb__plan_add_extra(plan, &extras[i]));
    }
    ebb__progress(s->ctx, "plan", 0, (uint64_t)s->n);
    TRY(settle(s));
    TRY(try_measured(s, &measured));
    TRY(fill_programs(s, measured));
    ebb__plan_lay_out(plan);
    TRY(compile_shown(s));
    TRY(ebb__plan_list_decisions(plan));
    const plan_choice *choice = &plan->choices[plan->chosen];
    plan->recomputed_nodes = choice->size.recomputed_nodes;
    plan->seconds_per_step = choice->seconds;
    if (s->options->explain) {
        TRY(ebb__plan_products(plan));
    }
    plan->plan_seconds = ebb__clock_seconds() - start - s->look_up_seconds;
    return ebb__plan_judge(plan, s->options);
}

ebb_status ebb__plan_make(ebb_ctx *ctx, const plan_request *requests, int32_t n_requests,
                          const plan_extra *extras, int32_t n_extras, const plan_options *options,
                          ebb_plan **out) {
    settling *s = NULL;
    *out = NULL;
    if (n_requests < 1 || n_requests > PLAN_MAX_PROGRAMS) {
        return ebb__fail(ctx, EBB_USAGE, "a plan takes 1 to %d programs", PLAN_MAX_PROGRAMS);
    }
    TRY(ebb__alloc(ctx, 1, sizeof *s, &s));
    *s = (settling){.ctx = ctx, .requests = requests, .n = n_requests, .own_options = *options};
    s->options = &s->own_options;
    if (!ebb__plan_can_offload(options)) {
        s->own_options.disabled |= 1U << PASS_OFFLOAD;
    }
    s->walk = (plan_walk){.ctx = ctx,
                          .options = s->options,
                          .grid = ebb__knobs_grid((plan_reach){.disabled = s->options->disabled,
                                                               .chunks = options->chunks,
                                                               .encode = options->encode,
                                                               .stash = options->stash != 0})};
    ebb_status status = ebb__alloc(ctx, 1, sizeof *s->plan, &s->plan);
    ebb_plan *plan = s->plan;
    if (status == EBB_OK) {
        plan->ctx = ctx;
        plan->dev = device_or_default(options->dev);
        plan->members = options->members;
        (void)snprintf(plan->disk, sizeof plan->disk, "%s",
                       options->disk != NULL ? options->disk : "");
        plan->budget_bytes = options->budget;
        if (plan->dev->largest_bytes > 0 && plan->dev->largest_bytes < plan->budget_bytes) {
            plan->budget_bytes = plan->dev->largest_bytes;
        }
        ebb__region_init(&plan->stages, ctx);
        status =
            ebb__plan_even_stages(ctx, requests, options, &plan->stages, &s->own_options.ranks);
        status = status == EBB_OK ? make(s, extras, n_extras) : status;
    }
    ebb__free(ctx, s->followed);
    ebb__free(ctx, s);
    if (status != EBB_OK && status != EBB_BUDGET) {
        ebb__plan_free(plan);
        return status;
    }
    *out = plan;
    return status;
}
