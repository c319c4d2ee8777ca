/* stages.c - which rank of a group does which layer, where layers are parted too (pipeline): runs
 * of layers in their order, so that the slowest stage is as fast as it can be. Layers that share a
 * variable, as tied tables do, are one. Labels are all that is looked at, so that any graph can be
 * cut. */
#include "pass/classes.h"
#include "pass/ranks.h"

#include <stdio.h>
#include <string.h>

enum { HALVINGS = 60 };
static const double LOSS_IN_CHUNKS = 1.25; /* times as slow as for all rows at once */

/* Layers in the order in which forward comes to them; those that share a variable only once. */
typedef struct layer_list {
    int32_t *layers;
    double *seconds; /* of a step, of that layer and those that are one with it */
    int32_t n;
} layer_list;

/* Backward takes about twice what forward does, layer by layer. */
static double seconds_of(const rank_cutter *c, const ir_node_rec *node) {
    int32_t kernel = ebb__pass_kernel(c->unit, node);
    return ebb__cost_seconds(c->unit->dev, c->g, node, kernel, 1);
}

static int32_t first_of(const int32_t *same, int32_t layer) {
    while (same[layer] != layer) {
        layer = same[layer];
    }
    return layer;
}

/* By layer: one that it shares a variable with, through views too; itself if there is none. A
 * variable is also its own layer's, on whose rank it is kept. */
static ebb_status find_same(const rank_cutter *c, int32_t **out) {
    const ir_graph *g = c->g;
    int32_t *same = NULL;
    ir_val *variable = NULL; /* by value: the variable that it is, or is a view of */
    size_t nv = (size_t)g->n_values + 1;
    TRY(REGION_ARRAYS(c->region, ARRAY(same, (size_t)g->n_layers + 1), ARRAY_NONE(variable, nv)));
    for (int32_t l = 0; l < g->n_layers; l++) {
        same[l] = l;
    }
    for (ir_val v = 0; v < g->n_values; v++) {
        variable[v] = rank_keeps(&g->values[v]) ? v : (ir_val)IR_NONE;
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        bool view = (ebb__op(node->op)->flags & OPF_ALIAS) != 0;
        for (int32_t k = 0; node->label.phase == IR_FORWARD && k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k), read = v == IR_NONE ? v : variable[v];
            variable[node->out] = view && read != IR_NONE ? read : variable[node->out];
            if (read != IR_NONE && (!view || node->n_in > 1)) {
                same[first_of(same, node->label.layer)] = first_of(same, g->values[read].layer);
            }
        }
    }
    *out = same;
    return EBB_OK;
}

/* seconds: by layer; NULL: of the graph's nodes. */
static ebb_status list_layers(const rank_cutter *c, const int32_t *same, const double *seconds,
                              layer_list *out) {
    const ir_graph *g = c->g;
    int32_t *at = NULL; /* by layer: its number in the list */
    TRY(REGION_ARRAYS(c->region, ARRAY_NONE(at, (size_t)g->n_layers + 1),
                      ARRAY(out->layers, (size_t)g->n_layers + 1),
                      ARRAY(out->seconds, (size_t)g->n_layers + 1)));
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        int32_t layer = first_of(same, node->label.layer);
        if (node->label.phase == IR_FORWARD && at[layer] < 0) {
            at[layer] = out->n;
            out->layers[out->n++] = layer;
        }
    }
    for (int32_t i = 0; seconds == NULL && i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        int32_t k = at[first_of(same, node->label.layer)];
        out->seconds[k < 0 ? 0 : k] += k < 0 ? 0 : seconds_of(c, node);
    }
    for (int32_t l = 0; seconds != NULL && l < g->n_layers; l++) {
        int32_t k = at[first_of(same, l)];
        out->seconds[k < 0 ? 0 : k] += seconds[l];
    }
    return EBB_OK;
}

/* Fills stages up to `most` seconds; false: they are too few for that. */
static bool fill_stages(const layer_list *list, int32_t stages, double most, int32_t *stage) {
    int32_t at = 0;
    double sum = 0;
    for (int32_t i = 0; i < list->n; i++) {
        bool last = list->n - i == stages - 1 - at; /* as many layers are left as stages behind */
        if (i > 0 && at + 1 < stages && (sum + list->seconds[i] > most || last)) {
            at++;
            sum = 0;
        }
        sum += list->seconds[i];
        if (sum > most) {
            return false;
        }
        stage[i] = at;
    }
    return true;
}

/* How much of the last layer, the loss, the last stage can do until forward has come to the end: of
 * what a layer takes forward is a third; of the loss in chunks about as much is done then as of the
 * loss as a whole with the gradient of its weights. */
static double early_share(const layer_list *list, const int32_t *stage) {
    int32_t last = list->n - 1;
    double before[PASS_MOST_RANKS] = {0}, slowest = 0, loss = list->seconds[last] / LOSS_IN_CHUNKS;
    for (int32_t i = 0; i < last; i++) {
        before[stage[i]] += list->seconds[i] / 3;
    }
    for (int32_t s = 0; s < stage[last]; s++) {
        slowest = before[s] > slowest ? before[s] : slowest;
    }
    double share = loss > 0 ? (slowest - before[stage[last]]) / loss : 1;
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

/* What all stages share of the list: the output layer's classes (split_classes.c). Its seconds are
 * taken out of the list; 0 if it stays a layer like others. */
static double take_out(const rank_cutter *c, const int32_t *same, layer_list *list,
                       const classes_output *output) {
    double seconds = 0;
    int32_t layer = output == NULL ? -1 : first_of(same, output->layer);
    for (int32_t i = 0; i < list->n; i++) {
        bool parted = list->layers[i] == layer && i + 1 == list->n && c->stages <= list->n;
        seconds = parted ? list->seconds[i] : seconds;
        list->seconds[i] = parted ? 0 : list->seconds[i];
    }
    return seconds;
}

/* Parts for all stages; *ends becomes NULL where one would have all. */
static ebb_status share_classes(const rank_cutter *c, const layer_list *list, const int32_t *stage,
                                int32_t classes, double seconds, int32_t **ends) {
    double before[PASS_MOST_RANKS] = {0};
    for (int32_t i = 0; i < list->n; i++) {
        before[stage[i]] += list->seconds[i];
    }
    TRY(ebb__region_alloc(c->region, (size_t)c->stages, sizeof **ends, ends));
    *ends = ebb__classes_share(classes, seconds, before, c->stages, *ends) ? *ends : NULL;
    return EBB_OK;
}

/* chunks: the loss, the last layer, is done in chunks. output: the one that may be parted, NULL:
 * none; then *ends is where. */
static ebb_status find_stages(rank_cutter *c, const double *seconds, bool chunks, double *early,
                              const classes_output *output, int32_t **ends) {
    const ir_graph *g = c->g;
    layer_list list = {.n = 0};
    int32_t *same = NULL, *stage = NULL;
    double low = 0, high = 0;
    TRY(find_same(c, &same));
    TRY(list_layers(c, same, seconds, &list));
    TRY(ebb__region_alloc(c->region, (size_t)list.n + 1, sizeof *stage, &stage));
    if (c->stages > list.n) {
        return ebb__fail(c->unit->ctx, EBB_USAGE,
                         "--stages %d: the model has %d layers to part (those that share "
                         "parameters count as one)",
                         c->stages, list.n);
    }
    list.seconds[list.n - 1] *= chunks ? LOSS_IN_CHUNKS : 1;
    double parted = take_out(c, same, &list, output);
    for (int32_t i = 0; i < list.n; i++) {
        high += list.seconds[i];
    }
    high = high > 0 ? 2 * high : 1;
    for (int k = 0; k < HALVINGS; k++) {
        double middle = (low + high) / 2;
        *(fill_stages(&list, c->stages, middle, stage) ? &high : &low) = middle;
    }
    (void)fill_stages(&list, c->stages, high, stage);
    *early = early_share(&list, stage);
    if (parted > 0) {
        TRY(share_classes(c, &list, stage, g->values[output->weight].type.dim[0], parted, ends));
    }
    for (int32_t l = 0; l < g->n_layers; l++) {
        for (int32_t i = 0; i < list.n; i++) {
            c->stage[l] = list.layers[i] == first_of(same, l) ? stage[i] : c->stage[l];
        }
    }
    return EBB_OK;
}

ebb_status ebb__cut_stages(rank_cutter *c) {
    const pass_ranks *ranks = &c->unit->config->ranks;
    const ir_graph *g = c->g;
    TRY(ebb__region_alloc(c->region, (size_t)g->n_layers + 1, sizeof *c->stage, &c->stage));
    TRY(ebb__region_alloc(c->region, (size_t)g->n_layers + 1, sizeof *c->is_part, &c->is_part));
    if (c->stages == 1) {
        return EBB_OK;
    }
    if (ranks->layers == NULL) {
        double unused;
        return find_stages(c, NULL, false, &unused, NULL, NULL);
    }
    for (int32_t l = 0; l < g->n_layers; l++) {
        for (int32_t i = 0; i < ranks->n_layers; i++) {
            bool same = strncmp(ranks->layers[i].layer, g->layers[l],
                                sizeof ranks->layers[i].layer - 1) == 0;
            c->stage[l] = same ? ranks->layers[i].stage : c->stage[l];
            c->is_part[l] = same ? ranks->layers[i].part : c->is_part[l];
        }
    }
    return EBB_OK;
}

ebb_status ebb__stages_choose(pass_unit *unit, const double *seconds, alloc_region *region,
                              pass_ranks *ranks) {
    const ir_graph *g = &unit->graph;
    rank_cutter c = {
        .unit = unit, .g = &unit->graph, .region = &unit->scratch, .stages = ranks->stages};
    const pass_config *config = unit->config;
    pass_stage *layers = NULL;
    classes_output output;
    bool parts = ranks->stages > 1 && config->stash == 0 &&
                 (config->disabled >> PASS_SPLIT & 1) == 0 && ebb__classes_find(g, &output);
    int32_t *ends = NULL, *kept = NULL, n = g->n_layers;
    char *names[2] = {NULL, NULL};
    TRY(ebb__region_alloc(c.region, (size_t)g->n_layers + 1, sizeof *c.stage, &c.stage));
    TRY(find_stages(&c, seconds, ranks->chunk_steps > 0, &ranks->early, parts ? &output : NULL,
                    &ends));
    TRY(ebb__region_alloc(region, (size_t)(g->n_layers + ranks->stages), sizeof *layers, &layers));
    for (int32_t l = 0; l < g->n_layers; l++) {
        (void)snprintf(layers[l].layer, sizeof layers[l].layer, "%s", g->layers[l]);
        layers[l].stage = c.stage[l];
    }
    ranks->ends = NULL;
    if (ends != NULL) {
        TRY(ebb__region_alloc(region, (size_t)ranks->stages, sizeof *kept, &kept));
        memcpy(kept, ends, (size_t)ranks->stages * sizeof *kept);
        ranks->ends = kept;
        TRY(ebb__region_strdup(region, g->values[output.weight].name, &names[0]));
        if (output.bias != IR_NONE) {
            TRY(ebb__region_strdup(region, g->values[output.bias].name, &names[1]));
        }
    }
    ranks->parted[0] = names[0];
    ranks->parted[1] = names[1];
    for (int32_t s = 0; s < ranks->stages && ends != NULL; s++) {
        ebb__classes_layer(g->layers[output.layer], s, layers[n].layer, sizeof layers[n].layer);
        layers[n].part = true;
        layers[n++].stage = s;
    }
    ranks->layers = layers;
    ranks->n_layers = n;
    return EBB_OK;
}
