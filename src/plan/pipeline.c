/* pipeline.c - the compiler in one array. Each pass is one file; after each the graph is verified.
 */
#include "plan/plan.h"

/* clang-format off */
static const pass_def *const pipeline[PASS_COUNT] = {
    &ebb__pass_infer,    /* types of every node                              */
    &ebb__pass_shard,    /* the batch in parts, a tree of sums for gradients */
    &ebb__pass_grad,     /* reverse mode, optimiser: fixes every sum, so it sees the model as built */
    &ebb__pass_stash,    /* what waits for backward is rounded, if asked for */
    &ebb__pass_simplify, /* views of views; dead nodes                       */
    &ebb__pass_split,    /* the output layer in parts of its classes         */
    &ebb__pass_cut,      /* what this rank does of all that, and messages    */
    &ebb__pass_turns,    /* parts of the batch one after the other           */
    &ebb__pass_chunk,    /* logits of all rows never exist at once           */
    &ebb__pass_encode,   /* signs and the like wait for backward as codes    */
    &ebb__pass_recompute, /* forward values done again instead of kept        */
    &ebb__pass_heap,     /* sparse values wait for backward without zeros    */
    &ebb__pass_offload,  /* what waits for backward waits outside the memory */
    &ebb__pass_batch_time, /* products of all time steps as one              */
    &ebb__pass_sparse,   /* embedding gradients by rows                      */
    &ebb__pass_slices,     /* weight gradients used up as they are made      */
    &ebb__pass_contract, /* attention's scores as one node, and their gradient */
    &ebb__pass_layout,   /* packed copies of weights that time steps share  */
    &ebb__pass_alias,    /* stacks own their operands; copies where they can't */
    &ebb__pass_select,   /* a kernel for each node                           */
    &ebb__pass_schedule, /* the order with the lowest peak                   */
    &ebb__pass_fuse, /* runs of nodes, block by block of hidden units */
    &ebb__pass_place,    /* a byte offset for every value                    */
    &ebb__pass_team,     /* how many members take part in each run           */
    &ebb__pass_verify,   /* separate code replays the plan                   */
};
/* clang-format on */

static const struct {
    const char *name;
    bool optional;
} passes[] = {
#define PASS_ROW(id, name, optional) {name, optional},
    PASS_LIST(PASS_ROW)
#undef PASS_ROW
};

const char *ebb__pass_name(pass_id id) {
    return passes[id].name;
}

bool ebb__pass_optional(pass_id id) {
    return passes[id].optional;
}

ebb_status ebb__plan_open(pass_unit *unit, ebb_ctx *ctx, const pass_config *config,
                          const plan_request *request) {
    *unit = (pass_unit){.ctx = ctx,
                        .config = config,
                        .dev = device_or_default(config->dev),
                        .shards = request->shards,
                        .alone = request->alone};
    ebb__region_init(&unit->region, ctx);
    ebb__region_init(&unit->scratch, ctx);
    if (request->graph != NULL) {
        return ebb__ir_copy(request->graph, &unit->graph);
    }
    ebb__op_graph_init(&unit->graph, ctx);
    return request->build(request, &unit->graph);
}

void ebb__plan_close(pass_unit *unit) {
    ebb__ir_fini(&unit->graph);
    ebb__region_fini(&unit->region);
    ebb__region_fini(&unit->scratch);
}

static ebb_status dump(pass_unit *unit, pass_id id) {
    const char *text = NULL;
    TRY(ebb__ir_print(&unit->graph, &text));
    unit->config->dump(unit->config->dump_user, passes[id].name, text);
    return EBB_OK;
}

/* Passes leave what they replaced behind. Worth a walk over the graph where that is a good part of
 * it, and possible as long as nothing but eras is known by node, and nothing by value. */
static ebb_status compact(pass_unit *unit, pass_id done) {
    const ir_graph *g = &unit->graph;
    bool worth = g->n_nodes - g->n_order > g->n_order / 4;
    return worth && done < PASS_ALIAS ? ebb__ir_compact(&unit->graph, unit->era, &unit->n_eras)
                                      : EBB_OK;
}

ebb_status ebb__plan_run_passes(pass_unit *unit, pass_id end) {
    for (int i = (int)unit->config->first; i < (int)end; i++) {
        pass_id id = pipeline[i]->id;
        uint32_t bit = 1U << id;
        if ((unit->config->disabled & bit) != 0) {
            continue;
        }
        TRY(pipeline[i]->run(unit));
        ebb__region_fini(&unit->scratch);
        TRY(compact(unit, id));
        TRY(ebb__ir_verify(&unit->graph));
        if ((unit->config->dump_after & bit) != 0 && unit->config->dump != NULL) {
            TRY(dump(unit, id));
        }
    }
    return EBB_OK;
}
