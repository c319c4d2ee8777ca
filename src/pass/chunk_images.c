/* chunk_images.c - nets over images done for a few images at a time.
 *
 * Without statistics over the batch in between, every layer does image by image what it does. So a
 * segment of the net, forward or backward, is a region of row-wise nodes that can be repeated for
 * chunks of images (split.h): maps that only it reads exist for one chunk at a time, and its weight
 * gradients are carried on from chunk to chunk. Segments end where the net is one map wide and that
 * map is smaller than those before it: behind pools.
 *
 * Or the whole net is one region: a chunk goes forward and backward before the next begins, and
 * nothing at all waits for backward but the chunk's own maps. Weights are then read, and packed,
 * once for every chunk. A net that does not train is cut so in any case: nothing waits.
 *
 * Cuts fall on multiples of 8 images, where the chains of weight gradients are cut, and between the
 * groups of the maps. Where the batch is parted, each shard is cut by itself, all alike. */
#include "pass/chunk.h"

#include "op/map.h"
#include "pass/split.h"

typedef struct image_chunker {
    pass_unit *unit;
    ir_graph *g;
    int32_t images, lanes; /* of the batch, or a shard of it; of a group of its maps */
    int32_t shards, shard; /* how many there are; the one that is cut */
    int32_t *segment;      /* by layer of forward nodes; -1: of none */
    int32_t n_segments;
} image_chunker;

/* ---- where the net can be cut ---- */

static bool is_forward(const ir_graph *g, ir_node n) {
    return g->nodes[n].label.phase == IR_FORWARD;
}

/* A map of the first shard, after which the others are cut. */
static bool is_map_of_first(const ir_graph *g, ir_val v) {
    ir_node def = v == IR_NONE ? (ir_node)IR_NONE : g->values[v].def;
    return def != IR_NONE && op_is_map(&g->values[v].type) && g->nodes[def].label.shard == 0;
}

int32_t ebb__chunk_batch(const ir_graph *g, int32_t *lanes) {
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_type *type = &g->values[g->nodes[g->order[i]].out].type;
        if (op_is_map(type)) {
            op_map m = op_map_of(type);
            if (lanes != NULL) {
                *lanes = m.images;
            }
            return (int32_t)op_map_images(&m);
        }
    }
    return 0;
}

/* Where each value is read last by a forward node, by position in the order; -1: by none. */
static ebb_status last_readers(const image_chunker *c, int32_t **out) {
    const ir_graph *g = c->g;
    TRY(ebb__region_alloc(&c->unit->region, (size_t)g->n_values + 1, sizeof **out, out));
    for (ir_val v = 0; v < g->n_values; v++) {
        (*out)[v] = -1;
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        for (int32_t k = 0; k < node->n_in && is_forward(g, g->order[i]); k++) {
            if (ir_in(g, node, k) != IR_NONE) {
                (*out)[ir_in(g, node, k)] = i;
            }
        }
    }
    return EBB_OK;
}

static bool shrinks(const ir_graph *g, const ir_node_rec *node) {
    uint64_t most = 0;
    for (int32_t k = 0; k < node->n_in; k++) {
        const ir_type *type = op_in_type(g, node, k);
        uint64_t bytes = type != NULL && op_is_map(type) ? ebb__ir_type_bytes(type) : 0;
        most = bytes > most ? bytes : most;
    }
    return op_is_map(&g->values[node->out].type) &&
           ebb__ir_type_bytes(&g->values[node->out].type) < most;
}

/* Numbers the segments, and the layers by them. */
static ebb_status find_segments(image_chunker *c) {
    const ir_graph *g = c->g;
    int32_t *last = NULL, alive = 0;
    TRY(last_readers(c, &last));
    TRY(ebb__region_alloc(&c->unit->region, (size_t)g->n_layers + 1, sizeof *c->segment,
                          &c->segment));
    for (int32_t l = 0; l < g->n_layers; l++) {
        c->segment[l] = -1;
    }
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        if (!is_forward(g, g->order[i]) || node->label.shard > 0) {
            continue;
        }
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            bool ends = is_map_of_first(g, v) && last[v] == i;
            for (int32_t j = 0; j < k; j++) {
                ends = ends && ir_in(g, node, j) != v; /* counted already */
            }
            alive -= ends;
        }
        for (int32_t k = 0; k < node->n_out; k++) {
            alive += is_map_of_first(g, node->out + k) && last[node->out + k] > i;
        }
        if (c->segment[node->label.layer] < 0) { /* where the layer began */
            c->segment[node->label.layer] = c->n_segments;
        }
        c->n_segments += alive == 1 && last[node->out] > i && shrinks(g, node);
    }
    c->n_segments++;
    return EBB_OK;
}

/* ---- regions ---- */

/* Chunks of at most `most` images, cut where everything can be. */
static ebb_status cut_images(const image_chunker *c, pass_split *s, int32_t most) {
    int32_t grain = OP_MAP_IMAGES;
    while (grain % c->lanes != 0) {
        grain += OP_MAP_IMAGES;
    }
    int32_t len = most < grain ? grain : most / grain * grain;
    TRY(ebb__region_alloc(&s->scratch, (size_t)(c->images / len) + 1, sizeof *s->chunks,
                          &s->chunks));
    for (int32_t at = 0; at < c->images; at += len) {
        int32_t left = c->images - at;
        s->chunks[s->n_chunks++] = (split_range){at, left < len ? left : len, SPLIT_BY_PHASE};
    }
    return EBB_OK;
}

static bool has_map(const ir_graph *g, const ir_node_rec *node) {
    bool map = op_is_map(&g->values[node->out].type);
    for (int32_t k = 0; k < node->n_in && !map; k++) {
        map = ir_in(g, node, k) != IR_NONE && op_is_map(op_in_type(g, node, k));
    }
    return map;
}

/* Whether the node belongs to the region: all of the net, or one way through a segment. What comes
 * behind the maps is small, and the gradients of its weights, were they carried on from chunk to
 * chunk, would all be there at once. */
static bool is_of(const image_chunker *c, ir_node n, int32_t segment, bool forward) {
    const ir_node_rec *node = &c->g->nodes[n];
    bool step = node->label.phase != IR_UPDATE && node->label.shard == c->shard;
    if (segment < 0) {
        return step;
    }
    return step && is_forward(c->g, n) == forward && c->segment[node->label.layer] == segment &&
           has_map(c->g, node);
}

static ebb_status chunk_region(const image_chunker *c, int32_t segment, bool forward) {
    pass_split s;
    TRY(ebb__split_open(&s, c->unit));
    s.rows = c->images;
    for (int32_t i = 0; i < c->g->n_order; i++) {
        ir_node n = c->g->order[i];
        pass_roles r;
        bool takes = is_of(c, n, segment, forward) && ebb__split_takes(&s, n, &r);
        /* Gradients of two shards are added element by element, but have no rows of the batch. */
        if (takes && !(r.out[0] == ROWS_SPLIT && c->g->values[c->g->nodes[n].out].param_grad)) {
            ebb__split_admit(&s, n);
        }
    }
    ebb_status status = EBB_OK;
    if (s.n_region > 0 && ebb__split_is_convex(&s)) {
        status = cut_images(c, &s, c->unit->config->knobs.chunk_images);
        if (status == EBB_OK && s.n_chunks > 1) {
            status = ebb__split_region(&s);
        }
    }
    ebb__split_forget(&s);
    TRY(status);
    return ebb__split_finish(&s);
}

ebb_status ebb__chunk_images(pass_unit *unit) {
    image_chunker c = {.unit = unit, .g = &unit->graph};
    c.images = ebb__chunk_batch(c.g, &c.lanes);
    if (c.images <= unit->config->knobs.chunk_images) {
        return EBB_OK;
    }
    for (int32_t i = 0; i < c.g->n_order; i++) {
        int32_t shard = c.g->nodes[c.g->order[i]].label.shard;
        c.shards = shard >= c.shards ? shard + 1 : c.shards;
    }
    bool net = unit->config->knobs.chunk_net || !unit->config->training;
    TRY(net ? EBB_OK : find_segments(&c));
    for (c.shard = 0; c.shard < c.shards; c.shard++) {
        TRY(net ? chunk_region(&c, -1, true) : EBB_OK);
        for (int32_t i = 0; i < c.n_segments; i++) {
            TRY(chunk_region(&c, i, true));
            TRY(chunk_region(&c, i, false));
        }
    }
    return EBB_OK;
}
