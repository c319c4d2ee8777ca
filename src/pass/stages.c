/* stages.c - which rank of a group does which layer, where layers are parted too (pipeline): runs
 * of layers in their order, so that the slowest stage is as fast as it can be. Layers that share a
 * variable, as tied tables do, are one. Labels are all that is looked at, so that any graph can be
 * cut. */
#include "pass/classes.h"
#include "pass/ranks.h"

#include <math.h>
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

/* What stages are made of: layers that share a variable are one. */
typedef struct stage_parts {
    layer_list list;
    int32_t *same;  /* by layer */
    int32_t *stage; /* by number in the list */
    /* The output layer, if it can go by its classes and chunks of time (split_classes.c), and what
     * it takes if all stages share it: then it has no seconds in the list. */
    classes_output output;
    bool has_output;
    double shared;
} stage_parts;

/* chunks: the loss, the last layer, is done in chunks. */
static ebb_status list_parts(const rank_cutter *c, const double *seconds, bool chunks,
                             stage_parts *out) {
    *out = (stage_parts){.same = NULL};
    TRY(find_same(c, &out->same));
    TRY(list_layers(c, out->same, seconds, &out->list));
    TRY(ebb__region_alloc(c->region, (size_t)out->list.n + 1, sizeof *out->stage, &out->stage));
    if (c->stages > out->list.n) {
        return ebb__fail(c->unit->ctx, EBB_USAGE,
                         "--stages %d: the model has %d layers to part (those that share "
                         "parameters count as one)",
                         c->stages, out->list.n);
    }
    out->list.seconds[out->list.n - 1] *= chunks ? LOSS_IN_CHUNKS : 1;
    return EBB_OK;
}

/* The slowest stage as fast as can be. */
static void find_even(const rank_cutter *c, stage_parts *p) {
    double low = 0, high = 0;
    for (int32_t i = 0; i < p->list.n; i++) {
        high += p->list.seconds[i];
    }
    high = high > 0 ? 2 * high : 1;
    for (int k = 0; k < HALVINGS; k++) {
        double middle = (low + high) / 2;
        *(fill_stages(&p->list, c->stages, middle, p->stage) ? &high : &low) = middle;
    }
    (void)fill_stages(&p->list, c->stages, high, p->stage);
}

/* c->stage of all layers. */
static void note_stages(const rank_cutter *c, const stage_parts *p) {
    for (int32_t l = 0; l < c->g->n_layers; l++) {
        for (int32_t i = 0; i < p->list.n; i++) {
            bool same = p->list.layers[i] == first_of(p->same, l);
            c->stage[l] = same ? p->stage[i] : c->stage[l];
        }
    }
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
        stage_parts parts;
        TRY(list_parts(c, NULL, false, &parts));
        find_even(c, &parts);
        note_stages(c, &parts);
        return EBB_OK;
    }
    for (int32_t l = 0; l < g->n_layers; l++) {
        for (int32_t i = 0; i < ranks->n_layers; i++) {
            bool same = strncmp(ranks->layers[i].layer, g->layers[l],
                                sizeof ranks->layers[i].layer - 1) == 0;
            c->stage[l] = same ? ranks->layers[i].stage : c->stage[l];
            c->is_part[l] = same ? ranks->layers[i].end > 0 : c->is_part[l];
        }
    }
    return EBB_OK;
}

/* ---- cuts to choose from ---- */

/* Takes the output layer out of the list, where it is the last and can be parted. chunks: there is
 * time, which stages go through in such; then it goes with them also if it is one stage's. */
static void share_output(const rank_cutter *c, bool chunks, stage_parts *p) {
    const pass_config *config = c->unit->config;
    int32_t last = p->list.n - 1;
    bool may = (config->disabled >> PASS_SPLIT & 1) == 0;
    p->has_output = c->stages > 1 && config->stash == 0 && (may || chunks) &&
                    ebb__classes_find(c->g, &p->output) &&
                    p->list.layers[last] == first_of(p->same, p->output.layer);
    if (p->has_output && may) {
        p->shared = p->list.seconds[last];
        p->list.seconds[last] = 0;
    }
}

/* Parts of the output layer, that level the stages, or one of all classes, behind the *n layers of
 * a cut. */
static void add_parts(const rank_cutter *c, const stage_parts *p, pass_stage *layers, int32_t *n) {
    double before[PASS_MOST_RANKS] = {0};
    int32_t ends[PASS_MOST_RANKS] = {0};
    int32_t classes = p->has_output ? c->g->values[p->output.weight].type.dim[0] : 0;
    for (int32_t i = 0; i < p->list.n; i++) {
        before[p->stage[i]] += p->list.seconds[i];
    }
    bool one = p->has_output && p->shared <= 0;
    bool parts =
        one || (p->shared > 0 && ebb__classes_share(classes, p->shared, before, c->stages, ends));
    if (one) {
        ends[c->stages - 1] = classes;
    }
    for (int32_t s = 0; parts && s < c->stages; s++) {
        pass_stage *part = &layers[(*n)++];
        ebb__classes_layer(c->g->layers[p->output.layer], s, part->layer, sizeof part->layer);
        part->stage = s;
        part->end = ends[s];
    }
}

typedef struct cut_search {
    const rank_cutter *c;
    stage_parts *parts;
    alloc_region *region;
    pass_stages *cuts; /* by `seconds`, which are of the slowest stage, about */
    int32_t n, most;
    double bound;   /* as sums of powers: slower ones are not looked at */
    int32_t visits; /* left */
} cut_search;

enum { MOST_VISITS = 200000 };
static const double WORTH_A_TRY = 3; /* times as slow as the most even cut */
static const double ALIKE = 1 + 1e-9;

/* Cuts are compared by the sum of the fourth powers of their stages: the slowest counts most, and
 * where one layer is slower than anything the others still matter. */
static double power(double seconds) {
    return seconds * seconds * seconds * seconds;
}

static double sum_of_powers(const rank_cutter *c, const stage_parts *p) {
    double sums[PASS_MOST_RANKS] = {0}, all = 0;
    for (int32_t i = 0; i < p->list.n; i++) {
        sums[p->stage[i]] += p->list.seconds[i];
    }
    for (int32_t k = 0; k < c->stages; k++) {
        all += power(sums[k]);
    }
    return all;
}

static ebb_status add_cut(cut_search *s, double powers) {
    const ir_graph *g = s->c->g;
    pass_stage *layers = NULL;
    int32_t at = s->n < s->most ? s->n++ : s->most - 1, n = g->n_layers;
    TRY(ebb__region_alloc(s->region, (size_t)(n + s->c->stages), sizeof *layers, &layers));
    note_stages(s->c, s->parts);
    for (int32_t l = 0; l < g->n_layers; l++) {
        (void)snprintf(layers[l].layer, sizeof layers[l].layer, "%s", g->layers[l]);
        layers[l].stage = s->c->stage[l];
    }
    add_parts(s->c, s->parts, layers, &n);
    while (at > 0 && power(s->cuts[at - 1].seconds) > powers) {
        s->cuts[at] = s->cuts[at - 1];
        at--;
    }
    s->cuts[at] = (pass_stages){.layers = layers,
                                .n_layers = n,
                                .early = early_share(&s->parts->list, s->parts->stage),
                                .seconds = sqrt(sqrt(powers))};
    s->bound = s->n == s->most ? power(s->cuts[s->n - 1].seconds) : s->bound;
    return EBB_OK;
}

/* All ways to part what is left, from number `first` on, into stages from `stage` on. */
static ebb_status search_cuts(cut_search *s, int32_t first, int32_t stage, double powers) {
    const layer_list *list = &s->parts->list;
    const int32_t left = s->c->stages - 1 - stage; /* behind this one */
    double sum = 0;
    for (int32_t i = first; i < list->n - left && s->visits-- > 0; i++) {
        s->parts->stage[i] = stage;
        sum += list->seconds[i];
        double now = powers + power(sum);
        if (now >= s->bound) {
            return EBB_OK;
        }
        if (left == 0 && i == list->n - 1) {
            TRY(add_cut(s, now));
        } else if (left > 0) {
            TRY(search_cuts(s, i + 1, stage + 1, now));
        }
    }
    return EBB_OK;
}

ebb_status ebb__stages_cuts(pass_unit *unit, const double *seconds, const pass_ranks *ranks,
                            alloc_region *region, pass_stages *cuts, int32_t *n) {
    rank_cutter c = {
        .unit = unit, .g = &unit->graph, .region = &unit->scratch, .stages = ranks->stages};
    stage_parts parts;
    TRY(ebb__region_alloc(c.region, (size_t)c.g->n_layers + 1, sizeof *c.stage, &c.stage));
    TRY(list_parts(&c, seconds, ranks->chunk_steps > 0, &parts));
    share_output(&c, ranks->chunk_steps > 0, &parts);
    cut_search s = {.c = &c,
                    .parts = &parts,
                    .region = region,
                    .cuts = cuts,
                    .most = *n,
                    .visits = MOST_VISITS};
    find_even(&c, &parts);
    double even = sum_of_powers(&c, &parts);
    s.bound = power(WORTH_A_TRY) * even;
    if (s.most > 1) {
        TRY(search_cuts(&s, 0, 0, 0));
    }
    if (s.n == 0 || power(cuts[0].seconds) > even * ALIKE) { /* the search has not come to it */
        find_even(&c, &parts);
        TRY(add_cut(&s, even));
    }
    *n = s.n;
    return EBB_OK;
}
