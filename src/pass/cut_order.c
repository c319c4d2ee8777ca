/* cut_order.c - the one order of all nodes that all ranks go by: shards of different ranks side by
 * side, stages as a pipeline has them, sums over ranks when there is work between. See cut.c. */
#include "pass/ranks.h"

enum { STEP = 4 }; /* between keys: room for sums to stand behind what they wait for */

/* Is a gradient made of what the node gives? needed: by node, marked so far by those that read it.
 */
static bool is_needed(const ir_node_rec *node, bool marked) {
    bool backward = node->label.phase != IR_FORWARD && node->label.phase != IR_UPDATE;
    return marked || backward || rank_shard(node) >= 0;
}

static ebb_status find_needed(const rank_cutter *c, bool **out) {
    const ir_graph *g = c->g;
    bool *needed = NULL;
    TRY(ebb__region_alloc(c->region, (size_t)g->n_nodes + 1, sizeof *needed, &needed));
    for (int32_t i = g->n_order - 1; i >= 0; i--) {
        ir_node n = g->order[i];
        const ir_node_rec *node = &g->nodes[n];
        needed[n] = is_needed(node, needed[n]);
        for (int32_t k = 0; needed[n] && k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            if (v != IR_NONE && g->values[v].def != IR_NONE) {
                needed[g->values[v].def] = true;
            }
        }
    }
    *out = needed;
    return EBB_OK;
}

/* By node: when it is done in a shard's turn, where stages go through time in chunks: forward from
 * chunk to chunk, backward the other way. What belongs to no time step follows what it reads. */
static ebb_status find_waves(const rank_cutter *c, int32_t **out, int32_t *n_waves) {
    const ir_graph *g = c->g;
    const int32_t steps = pass_chunk_steps(&c->unit->config->ranks);
    int32_t *wave = NULL, chunks = 1;
    TRY(ebb__region_alloc(c->region, (size_t)g->n_nodes + 1, sizeof *wave, &wave));
    for (int32_t i = 0; i < g->n_order && steps > 0; i++) {
        int32_t chunk = g->nodes[g->order[i]].label.at / steps + 1;
        chunks = chunk > chunks ? chunk : chunks;
    }
    for (int32_t i = 0; i < g->n_order && steps > 0; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        bool forward = node->label.phase == IR_FORWARD;
        int32_t chunk = node->label.at / steps, now = forward ? 0 : chunks;
        for (int32_t k = 0; node->label.at < 0 && k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            ir_node def = v == IR_NONE ? (ir_node)IR_NONE : g->values[v].def;
            now = def != IR_NONE && wave[def] > now ? wave[def] : now;
        }
        wave[g->order[i]] = node->label.at < 0 ? now : forward ? chunk : 2 * chunks - 1 - chunk;
    }
    *n_waves = steps > 0 ? 2 * chunks : 1;
    *out = wave;
    return EBB_OK;
}

/* When a node of a shard is done: the k-th shards of all groups at the same time; if there are
 * stages, as a pipeline has it in which each does forward of one shard and backward of an earlier
 * one in turn (1F1B, Narayanan et al. 2019), so that as few shards as can be are on their way. */
static int64_t turn_of(const rank_cutter *c, const ir_node_rec *node) {
    int32_t first = rank_first_shard(c, rank_group_of_shard(c, node->label.shard));
    int64_t k = node->label.shard - first, stage = c->stage[node->label.layer];
    /* Parts of the output layer are a stage of their own, behind all others, on every rank. */
    int64_t parts = pass_has_parts(&c->unit->config->ranks);
    if (rank_is_part(c, node)) {
        return 2 * k + c->stages;
    }
    return node->label.phase == IR_FORWARD ? 2 * k + stage
                                           : 2 * k + 2 * (c->stages + parts) - 1 - stage;
}

/* Where stages share the output layer too, the nodes of shards as they come if the step is played.
 */
static ebb_status play_step(const rank_cutter *c, int32_t chunks, int64_t *keys) {
    const ir_graph *g = c->g;
    int64_t *played = NULL;
    bool found = false;
    TRY(ebb__region_alloc(c->region, (size_t)g->n_nodes + 1, sizeof *played, &played));
    TRY(ebb__cut_schedule(c, pass_chunk_steps(&c->unit->config->ranks), chunks, played, &found));
    for (int32_t i = 0; found && i < g->n_order; i++) {
        ir_node n = g->order[i];
        keys[n] = rank_shard(&g->nodes[n]) >= 0 ? played[n] : keys[n];
    }
    return EBB_OK;
}

/* Shards of different ranks side by side; what belongs to none as soon as it can be, but at the end
 * what only reports and the next step read. */
ebb_status ebb__cut_align(rank_cutter *c) {
    ir_graph *g = c->g;
    int64_t *keys = NULL, *nth = NULL, all = g->n_order;
    int32_t *wave = NULL, waves = 0;
    TRY(find_needed(c, &c->needed));
    TRY(find_waves(c, &wave, &waves));
    TRY(REGION_ARRAYS(c->region, ARRAY(keys, (size_t)g->n_nodes + 1),
                      ARRAY(nth, (size_t)c->shards)));
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        int32_t shard = rank_shard(&g->nodes[n]);
        if (shard >= 0) {
            int64_t turn = waves > 1 ? 0 : turn_of(c, &g->nodes[n]);
            keys[n] = (turn + wave[n]) * all + nth[shard]++;
        } else {
            keys[n] = c->needed[n] ? -1 : (int64_t)1 << 60;
        }
    }
    if (waves > 1 && pass_is_played(&c->unit->config->ranks)) {
        TRY(play_step(c, waves / 2, keys));
    }
    return ebb__pass_sort(g, keys);
}

/* A sum of what different ranks have, done by one of them. */
static bool is_sum_over_ranks(const rank_cutter *c, ir_node n) {
    const ir_graph *g = c->g;
    const ir_node_rec *node = &g->nodes[n];
    bool joint = false;
    for (int32_t k = 0; k < node->n_in; k++) {
        ir_val v = ir_in(g, node, k);
        joint = joint || (v != IR_NONE && rank_home(c, v) != c->home[n]);
    }
    return joint && c->home[n] != HOME_ALL && rank_shard(node) < 0 &&
           node->label.phase == IR_BACKWARD;
}

/* Moves sums over ranks down to where the next ones, with work of shards before them, stand. */
ebb_status ebb__cut_lag(rank_cutter *c) {
    ir_graph *g = c->g;
    int64_t *keys = NULL;
    int32_t next = -1, here = -1; /* where the group below begins, and this one so far */
    TRY(ebb__pass_keys(g, c->region, (size_t)g->n_nodes, STEP, &keys));
    for (int32_t i = g->n_order - 1; i >= 0; i--) {
        ir_node n = g->order[i];
        if (rank_shard(&g->nodes[n]) >= 0 && here >= 0) {
            next = here;
            here = -1;
        }
        if (is_sum_over_ranks(c, n)) {
            here = i;
            keys[n] = next >= 0 ? (int64_t)next * STEP - 1 : keys[n];
        }
    }
    return ebb__pass_sort(g, keys);
}
