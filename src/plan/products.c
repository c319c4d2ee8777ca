/* products.c - which products a plan has: those of common candidates, so that they can be measured
 * once all plans are known; those of the plan that was taken, with the form of each, for people. */
#include "plan/walk.h"

#include <stdio.h>
#include <stdlib.h>

enum { COMMON_ROWS = 128 };

/* One candidate up to its kernels: addresses do not matter here. */
static ebb_status survey_one(ebb_ctx *ctx, const plan_request *program, const pass_config *like,
                             cost_survey *survey) {
    pass_config config = *like;
    pass_unit unit;
    config.training = program->training;
    ebb_status status = ebb__plan_open(&unit, ctx, &config, program);
    unit.dev = survey->dev;
    if (status == EBB_OK) {
        status = ebb__plan_run_passes(&unit, PASS_SCHEDULE);
    }
    if (status == EBB_OK) {
        status = ebb__cost_survey_add(survey, &unit.graph, unit.kernels);
    }
    ebb__plan_close(&unit);
    return status;
}

/* Small chunks are for small budgets: not worth the time of every first run. Of several programs
 * chunks have the same products, but for the first. */
static ebb_status survey_program(ebb_ctx *ctx, const plan_options *options,
                                 const plan_request *program, bool first, cost_survey *survey) {
    plan_choice list[PLAN_MAX_CHOICES];
    int32_t n;
    plan_grid grid = ebb__knobs_grid(
        (plan_reach){.rows = ebb__walk_rows(program->graph), .disabled = options->disabled});
    TRY(ebb__walk_plain(ctx, &grid, list, &n));
    for (int32_t i = 0; i < n; i++) {
        int32_t rows = list[i].knobs.chunk_rows;
        if (rows == 0 || (first && rows >= COMMON_ROWS)) {
            pass_config config = ebb__walk_config(options, &list[i], true);
            TRY(survey_one(ctx, program, &config, survey));
        }
    }
    return EBB_OK;
}

ebb_status ebb__plan_survey(ebb_ctx *ctx, const plan_request *requests, int32_t n_requests,
                            const plan_options *options, cost_survey *survey,
                            uint64_t *parameter_bytes) {
    *parameter_bytes = 0;
    for (int32_t i = 0; i < n_requests; i++) {
        plan_request program = requests[i];
        ir_graph graph;
        program.graph = &graph;
        ebb_status status = ebb__walk_prepare(ctx, options, &requests[i], &graph);
        if (status == EBB_OK) {
            status = survey_program(ctx, options, &program, i == 0, survey);
        }
        for (ir_val v = 0; status == EBB_OK && i == 0 && v < graph.n_values; v++) {
            const ir_value *value = &graph.values[v];
            *parameter_bytes += value->role == IR_PARAM ? ebb__ir_type_bytes(&value->type) : 0;
        }
        ebb__ir_fini(&graph);
        TRY(status);
    }
    return EBB_OK;
}

static int compare_products(const void *a, const void *b) {
    const plan_product *x = a, *y = b;
    double s = x->seconds * x->count, t = y->seconds * y->count;
    return (s < t) - (s > t);
}

static void describe(const pass_unit *unit, const cost_sample *sample, plan_product *out) {
    const cost_table *table = unit->config->table;
    const cost_entry *entry = table != NULL ? ebb__cost_table_find(table, &sample->key) : NULL;
    *out = (plan_product){.key = sample->key,
                          .op = sample->op,
                          .count = (int32_t)sample->count,
                          .n_forms = sample->n_forms};
    for (int32_t i = 0; i < sample->n_forms; i++) {
        int32_t at = entry != NULL ? ebb__cost_entry_find(entry, sample->forms[i]) : -1;
        out->forms[i] = (cost_form){sample->forms[i], at < 0 ? -1 : entry->forms[at].seconds};
    }
    (void)snprintf(out->where, sizeof out->where, "%.36s %s",
                   unit->graph.layers[sample->label.layer],
                   ebb__ir_phase_name(sample->label.phase));
}

/* What the node's form and seconds are: as select and the walk saw them. */
static void settle(const pass_unit *unit, ir_node n, plan_product *product) {
    const ir_node_rec *node = &unit->graph.nodes[n];
    double measured = -1;
    (void)ebb__cost_form(unit->config->table, unit->dev, &unit->graph, node, unit->kernels[n],
                         unit->config->members, &measured);
    product->measured = measured >= 0;
    product->form = unit->forms[n];
    product->expected = ebb__cost_expected(unit->config->pace, unit->dev, &unit->graph, node,
                                           unit->kernels[n], unit->config->members);
    product->seconds = ebb__cost_measured(unit->config->table, unit->dev, &unit->graph, node,
                                          unit->kernels[n], unit->config->members);
}

static ebb_status fill(ebb_plan *plan, cost_survey *survey) {
    const pass_unit *unit = &plan->programs[plan->lead].unit;
    const ir_graph *g = &unit->graph;
    cost_key key;
    TRY(ebb__cost_survey_add(survey, g, unit->kernels));
    TRY(ebb__alloc(plan->ctx, (size_t)survey->n_samples + 1, sizeof *plan->products,
                   &plan->products));
    plan->n_products = survey->n_samples;
    for (int32_t i = 0; i < survey->n_samples; i++) {
        describe(unit, &survey->samples[i], &plan->products[i]);
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        if (ebb__cost_key(unit->dev, g, &g->nodes[n], unit->kernels[n], plan->members, &key)) {
            const cost_entry *found = ebb__cost_table_find(&survey->index, &key);
            settle(unit, n, &plan->products[found - survey->index.entries]);
        }
    }
    qsort(plan->products, (size_t)plan->n_products, sizeof *plan->products, compare_products);
    return EBB_OK;
}

ebb_status ebb__plan_products(ebb_plan *plan) {
    cost_survey survey;
    ebb__cost_survey_init(&survey, plan->ctx, plan->dev, plan->members);
    ebb_status status = fill(plan, &survey);
    ebb__cost_survey_fini(&survey);
    return status;
}
