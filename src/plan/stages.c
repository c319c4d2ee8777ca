/* stages.c - see stages.h. Cuts are listed by their slowest stage (pass/stages.c), which is not
 * all: the last stage waits until forward has come to it, the others until backward has, and how
 * long depends on where the time goes. So of the best few the step is played, and of the one that
 * is shortest then also with other lengths of chunks. */
#include "plan/stages.h"

#include "plan/passes.h"
#include "plan/walk.h"

#include <math.h>
#include <string.h>

enum {
    MOST_CUTS = 12,
    MOST_NODES = 400000, /* of all programs that are compiled for trials */
    SUMS = 2, /* products of a weight's gradient in a step, beside that of the last chunk: more fill
                 pauses no better, and shorter ones are slower */
    CHUNKS_A_STAGE = 3,
    LEAST_CHUNKS_A_STAGE = 4, /* of few steps: else all wait for all */
};

/* What is tried: everything is kept, and weights are packed, as they are wherever there is room. */
static const plan_choice KEEPS_ALL = {.knobs = {.pack = true}};

void ebb__plan_set_chunks(pass_ranks *ranks, int64_t shards, int64_t steps, int64_t chunk_steps) {
    int64_t chunks = (int64_t)CHUNKS_A_STAGE * ranks->stages;
    bool parts = shards * ranks->stages > ranks->count;
    if (steps <= 0 || ranks->stages <= 1 || parts) {
        return;
    }
    int64_t chunk = chunk_steps > 0 ? chunk_steps : (steps + chunks - 1) / chunks;
    int64_t share = (steps + SUMS - 1) / SUMS;
    ranks->chunk_steps = (int32_t)chunk;
    ranks->sum_steps = (int32_t)((share + chunk - 1) / chunk * chunk);
}

void ebb__plan_take_stages(const pass_stages *stages, pass_ranks *ranks) {
    ranks->layers = stages->layers;
    ranks->n_layers = stages->n_layers;
    ranks->early = stages->early;
    ranks->chunk_steps = stages->chunk_steps;
    ranks->sum_steps = stages->sum_steps;
}

typedef struct stages_trial {
    ebb_ctx *ctx;
    const plan_request *program;
    const plan_options *options;
    const forecast_network *network;
    int64_t nodes;  /* compiled so far */
    int32_t steps;  /* time steps of the program; 0: it has none */
    double weights; /* bytes of all parameters */
    int32_t rows;   /* of a time step, the fewest that a product has; 0: there is none */
} stages_trial;

/* ---- cuts ---- */

/* By layer: what a step of it takes alone, nothing saved. */
static ebb_status price_layers(stages_trial *t, alloc_region *region, double **out) {
    pass_config config = ebb__walk_config(t->options, &KEEPS_ALL, false);
    pass_unit unit;
    config.ranks = (pass_ranks){0};
    config.training = t->program->training;
    ebb_status status = ebb__plan_open(&unit, t->ctx, &config, t->program);
    TRY_OUT(status);
    TRY_OUT(ebb__plan_run_passes(&unit, PASS_SCHEDULE));
    TRY_OUT(ebb__region_alloc(region, (size_t)unit.graph.n_layers + 1, sizeof **out, out));
    for (int32_t i = 0; i < unit.graph.n_order; i++) {
        ir_node n = unit.graph.order[i];
        const ir_node_rec *node = &unit.graph.nodes[n];
        (*out)[node->label.layer] +=
            ebb__cost_seconds(unit.dev, &unit.graph, node, unit.kernels[n], 1);
        t->steps = node->label.at >= t->steps ? node->label.at + 1 : t->steps;
        int32_t rows = unit.graph.values[node->out].type.dim[0];
        bool product = (ebb__op(node->op)->flags & OPF_HEAVY) != 0 && node->label.at >= 0;
        t->rows = product && (t->rows == 0 || rows < t->rows) ? rows : t->rows;
    }
    for (ir_val v = 0; v < unit.graph.n_values; v++) {
        const ir_value *value = &unit.graph.values[v];
        t->weights += value->role == IR_PARAM ? (double)ebb__ir_type_bytes(&value->type) : 0;
    }
    t->nodes += unit.graph.n_order;
out:
    ebb__plan_close(&unit);
    return status;
}

static ebb_status list_cuts(stages_trial *t, alloc_region *region, pass_stages *cuts, int32_t *n) {
    const pass_ranks *ranks = &t->options->ranks;
    pass_config config = {
        .dev = t->options->dev, .disabled = t->options->disabled, .stash = t->options->stash};
    pass_unit unit;
    double *seconds = NULL;
    TRY(price_layers(t, region, &seconds));
    ebb_status status = ebb__plan_open(&unit, t->ctx, &config, t->program);
    if (status == EBB_OK) {
        status = ebb__stages_cuts(&unit, seconds, ranks, region, cuts, n);
    }
    ebb__plan_close(&unit);
    for (int32_t i = 0; status == EBB_OK && i < *n; i++) {
        cuts[i].chunk_steps = ranks->chunk_steps;
        cuts[i].sum_steps = ranks->sum_steps;
    }
    return status;
}

ebb_status ebb__plan_even_stages(ebb_ctx *ctx, const plan_request *program,
                                 const plan_options *options, alloc_region *region,
                                 pass_ranks *ranks) {
    stages_trial t = {.ctx = ctx, .program = program, .options = options};
    pass_stages even;
    int32_t n = 1;
    if (ranks->count <= 1 || ranks->stages <= 1 || ranks->layers != NULL) {
        return EBB_OK;
    }
    TRY(list_cuts(&t, region, &even, &n));
    ebb__plan_take_stages(&even, ranks);
    return EBB_OK;
}

/* ---- trials ---- */

/* What one rank of the first group would do. */
static ebb_status list_rank(stages_trial *t, const pass_stages *stages, int32_t rank,
                            alloc_region *region, forecast_list *out) {
    plan_options options = *t->options;
    pass_unit unit;
    options.members = 1;
    options.ranks.rank = rank;
    ebb__plan_take_stages(stages, &options.ranks);
    pass_config config = ebb__walk_config(&options, &KEEPS_ALL, false);
    config.training = t->program->training;
    ebb_status status = ebb__plan_open(&unit, t->ctx, &config, t->program);
    status = status == EBB_OK ? ebb__plan_run_passes(&unit, PASS_FUSE) : status;
    if (status == EBB_OK) {
        t->nodes += unit.graph.n_order;
        status = ebb__forecast_unit(&unit, region, out);
    }
    ebb__plan_close(&unit);
    return status;
}

/* Finds stages->seconds. */
static ebb_status try_stages(stages_trial *t, pass_stages *stages) {
    const int32_t n = t->options->ranks.count;
    forecast_list *lists = NULL;
    forecast_step step = {.n_ranks = 0};
    alloc_region region;
    ebb_status status;
    ebb__region_init(&region, t->ctx);
    TRY_OUT(ebb__region_alloc(&region, (size_t)n, sizeof *lists, &lists));
    for (int32_t rank = 0; rank < n; rank++) {
        TRY_OUT(list_rank(t, stages, rank, &region, &lists[rank]));
    }
    status = ebb__forecast_play(t->ctx, lists, n, t->network, &step);
    stages->seconds = step.seconds;
    ebb__forecast_free(&step);
out:
    ebb__region_fini(&region);
    return status;
}

/* Puts the way where it belongs among those that were tried. */
static void add_way(stages_list *list, pass_stages way) {
    int32_t at = list->n++;
    while (at > 0 && list->at[at - 1].seconds > way.seconds) {
        list->at[at] = list->at[at - 1];
        at--;
    }
    list->at[at] = way;
}

/* Beside what is usual. */
static const int32_t chunks_a_stage[] = {2, 4, 6, 9};
static const double early_shares[] = {0.7, 1.4};
enum {
    N_CHUNKS = sizeof chunks_a_stage / sizeof *chunks_a_stage,
    N_SHARES = sizeof early_shares / sizeof *early_shares,
    CUTS_BY_LENGTH = 3,
    MOST_WAYS = MOST_CUTS + CUTS_BY_LENGTH * N_CHUNKS + N_SHARES + 1
};

/* Every chunk reads all weights of its stage, which prices of single products know nothing of:
 * unless caches hold these, shorter ones than this were never faster, measured, and take more
 * bytes. Of many stages each has less to read, and where one has the whole output layer the others
 * wait longer for each. */
static int32_t least_chunk(const stages_trial *t) {
    enum { MOST = 80, LEAST = 40, ROWS_AND_STAGES = 320 };
    bool split = (t->options->disabled >> PASS_SPLIT & 1) == 0;
    int32_t rows = split ? ROWS_AND_STAGES / t->options->ranks.stages : LEAST;
    rows = rows > MOST ? MOST : rows < LEAST ? LEAST : rows;
    /* As they are, packed for forward and for backward, and what becomes their gradient. */
    double share = 4 * t->weights / t->options->ranks.stages;
    bool few = t->rows == 0 || share <= device_or_default(t->options->dev)->cache_bytes;
    int32_t steps = few ? 1 : (rows - 1) / t->rows + 1;
    int32_t most = (t->steps - 1) / (LEAST_CHUNKS_A_STAGE * t->options->ranks.stages) + 1;
    return steps < most ? steps : most;
}

/* As many of the longest program, which options are for, as are usual; whole chunks. */
static int32_t sum_steps(const stages_trial *t, int64_t chunk) {
    return (int32_t)((t->options->ranks.sum_steps + chunk - 1) / chunk * chunk);
}

/* A way with other lengths of chunks. */
static ebb_status try_lengths(stages_trial *t, const pass_stages *cut, stages_list *list) {
    int64_t last = cut->chunk_steps, least = least_chunk(t);
    for (size_t i = 0; i < N_CHUNKS; i++) {
        int64_t chunks = (int64_t)chunks_a_stage[i] * t->options->ranks.stages;
        int64_t chunk = (t->steps + chunks - 1) / chunks;
        chunk = chunk < least ? least : chunk;
        if (chunk == last || chunk == cut->chunk_steps || t->nodes > MOST_NODES) {
            continue;
        }
        pass_stages way = *cut;
        last = way.chunk_steps = (int32_t)chunk;
        way.sum_steps = sum_steps(t, chunk);
        TRY(try_stages(t, &way));
        add_way(list, way);
    }
    return EBB_OK;
}

/* The best cuts so far: with long chunks another one may be ahead than with short ones. */
static ebb_status try_chunks(stages_trial *t, stages_list *list) {
    pass_stages best[CUTS_BY_LENGTH];
    int32_t n = list->n < CUTS_BY_LENGTH ? list->n : CUTS_BY_LENGTH;
    memcpy(best, list->at, (size_t)n * sizeof *best);
    for (int32_t i = 0; i < n; i++) {
        TRY(try_lengths(t, &best[i], list));
    }
    return EBB_OK;
}

/* Does the play of the step say what is done of the loss while forward goes on? */
static bool has_parts(const stages_trial *t, const pass_stages *way) {
    pass_ranks ranks = t->options->ranks;
    ebb__plan_take_stages(way, &ranks);
    return pass_has_parts(&ranks);
}

/* If not: the best way so far, with more or less of it. */
static ebb_status try_early(stages_trial *t, stages_list *list) {
    const pass_stages best = list->at[0];
    if (has_parts(t, &best)) {
        return EBB_OK;
    }
    for (size_t i = 0; i < N_SHARES && best.early > 0 && t->nodes <= MOST_NODES; i++) {
        pass_stages way = best;
        way.early = best.early * early_shares[i] < 1 ? best.early * early_shares[i] : 1;
        TRY(try_stages(t, &way));
        add_way(list, way);
    }
    return EBB_OK;
}

/* Behind all others, not tried: the best with its output layer on the last stage, whose loss can
 * then go in as few rows at a time as bytes ask for (pass/chunk.c). */
static void add_smallest(const stages_trial *t, stages_list *list) {
    pass_stages way = list->at[0];
    if (has_parts(t, &way)) {
        way.n_layers -= t->options->ranks.stages;
        list->at[list->n++] = way;
    }
}

ebb_status ebb__plan_list_stages(ebb_ctx *ctx, const plan_request *program,
                                 const plan_options *options, const forecast_network *network,
                                 bool any_chunk, alloc_region *region, stages_list *out) {
    stages_trial t = {.ctx = ctx, .program = program, .options = options, .network = network};
    pass_stages cuts[MOST_CUTS];
    int32_t n = MOST_CUTS;
    *out = (stages_list){.n = 0};
    TRY(ebb__region_alloc(region, MOST_WAYS, sizeof *out->at, &out->at));
    TRY(list_cuts(&t, region, cuts, &n));
    for (int32_t i = 0; any_chunk && i < n && cuts[i].chunk_steps < least_chunk(&t); i++) {
        cuts[i].chunk_steps = least_chunk(&t);
        cuts[i].sum_steps = sum_steps(&t, cuts[i].chunk_steps);
    }
    for (int32_t i = 0; i < n && (i == 0 || t.nodes <= MOST_NODES / 2); i++) {
        TRY(try_stages(&t, &cuts[i]));
        add_way(out, cuts[i]);
    }
    if (any_chunk && t.steps > 0) {
        TRY(try_chunks(&t, out));
    }
    if (options->ranks.chunk_steps > 0) {
        TRY(try_early(&t, out));
    }
    add_smallest(&t, out);
    return EBB_OK;
}

ebb_status ebb__plan_pick_stages(const stages_list *list, stages_share_fn share, void *user,
                                 pass_stages *out) {
    double least = HUGE_VAL;
    *out = list->at[0];
    for (int32_t i = 0; share != NULL && i < list->n && least > 1; i++) {
        double found = 0;
        TRY(share(user, &list->at[i], &found));
        if (found < least) {
            least = found;
            *out = list->at[i];
        }
    }
    return EBB_OK;
}
