/* survey.c - which products a set of graphs has, and how often. See tune.h. */
#include "cost/tune.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void ebb__cost_survey_init(cost_survey *survey, ebb_ctx *ctx, const device *dev, int members) {
    *survey = (cost_survey){.ctx = ctx, .dev = dev, .members = members};
    ebb__cost_table_init(&survey->index, ctx, dev);
}

void ebb__cost_survey_fini(cost_survey *survey) {
    ebb__cost_table_fini(&survey->index);
    ebb__free(survey->ctx, survey->samples);
    survey->samples = NULL;
    survey->n_samples = survey->cap_samples = 0;
}

static ebb_status add_sample(cost_survey *survey, const cost_key *key, const ir_graph *graph,
                             const ir_node_rec *node) {
    if (survey->n_samples == survey->cap_samples) {
        int32_t capacity = survey->cap_samples > 0 ? 2 * survey->cap_samples : 32;
        TRY(ebb__realloc(survey->ctx, survey->samples, (size_t)capacity, sizeof *survey->samples,
                         &survey->samples));
        survey->cap_samples = capacity;
    }
    cost_entry *entry = NULL;
    TRY(ebb__cost_table_add(&survey->index, key, &entry));
    cost_sample *sample = &survey->samples[survey->n_samples++];
    *sample = (cost_sample){
        .key = *key,
        .op = node->op,
        .n_in = node->n_in,
        .attr = node->attr,
        .label = node->label,
        .model = ebb__cost_seconds(survey->dev, graph, node, key->kernel, survey->members)};
    const device_kernel *kernel = &survey->dev->kernels[key->kernel];
    sample->n_forms =
        kernel->forms == NULL ? 1 : kernel->forms(graph, node, survey->members, sample->forms);
    for (int32_t i = 0; i < node->n_in; i++) {
        const ir_type *type = op_in_type(graph, node, i);
        sample->in[i] = type != NULL ? *type : (ir_type){0};
    }
    return EBB_OK;
}

ebb_status ebb__cost_survey_add(cost_survey *survey, const ir_graph *graph,
                                const int32_t *kernels) {
    cost_key key;
    for (int32_t i = 0; i < graph->n_order; i++) {
        ir_node id = graph->order[i];
        const ir_node_rec *node = &graph->nodes[id];
        if (!ebb__cost_key(survey->dev, graph, node, kernels[id], survey->members, &key)) {
            continue;
        }
        const cost_entry *known = ebb__cost_table_find(&survey->index, &key);
        if (known == NULL) {
            TRY(add_sample(survey, &key, graph, node));
            known = &survey->index.entries[survey->n_samples - 1];
        }
        survey->samples[known - survey->index.entries].seen++;
    }
    for (int32_t i = 0; i < survey->n_samples; i++) {
        cost_sample *sample = &survey->samples[i];
        sample->count = sample->seen > sample->count ? sample->seen : sample->count;
        sample->weight += (double)sample->seen * sample->model;
        sample->seen = 0;
    }
    return EBB_OK;
}

int32_t ebb__cost_survey_missing(const cost_survey *survey, const cost_table *table, bool again) {
    int32_t missing = 0;
    for (int32_t i = 0; i < survey->n_samples; i++) {
        const cost_entry *entry = ebb__cost_table_find(table, &survey->samples[i].key);
        missing += entry == NULL || cost_entry_doubtful(entry) || (again && entry->n_forms == 0);
    }
    return missing;
}

/* ---- pace ---- */

typedef struct measured_product {
    double ratio, weight; /* measured over built-in seconds; built-in ones of a step */
} measured_product;

static int compare_ratios(const void *a, const void *b) {
    const measured_product *x = a, *y = b;
    return (x->ratio > y->ratio) - (x->ratio < y->ratio);
}

ebb_status ebb__cost_survey_pace(const cost_survey *survey, cost_table *table) {
    static const double LEAST_FLOPS = 1e7; /* shorter ones measure the start of a run */
    measured_product *list = NULL;
    int32_t n = 0;
    double total = 0, known = 0, all = 0, below = 0;
    table->pace = 1;
    TRY(ebb__alloc(survey->ctx, (size_t)survey->n_samples + 1, sizeof *list, &list));
    for (int32_t i = 0; i < survey->n_samples; i++) {
        const cost_sample *sample = &survey->samples[i];
        const cost_entry *entry = ebb__cost_table_find(table, &sample->key);
        const cost_key *key = &sample->key;
        double flops = 2.0 * (double)key->m * (double)key->n * (double)key->k;
        double fastest = entry != NULL ? ebb__cost_entry_fastest(entry) : HUGE_VAL;
        if (flops < LEAST_FLOPS) {
            continue;
        }
        total += sample->weight;
        known += entry != NULL ? sample->weight : 0;
        if (fastest < HUGE_VAL) {
            list[n++] = (measured_product){fastest / sample->model, sample->weight};
            all += sample->weight;
        }
    }
    n = 2 * known < total ? 0 : n; /* a few that other models share say nothing of this one */
    qsort(list, (size_t)n, sizeof *list, compare_ratios);
    for (int32_t i = 0; i < n && below < all / 2; i++) {
        table->pace = list[i].ratio;
        below += list[i].weight;
    }
    ebb__free(survey->ctx, list);
    return EBB_OK;
}
