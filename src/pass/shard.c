/* shard.c - the batch in parts. The forward graph of B rows becomes that of V shards of B/V rows
 * each, rows i*B/V and on being shard i, before it is differentiated. Who builds a graph knows
 * nothing of this; the ops' `rows` column says how a node takes part.
 *
 * Values that hold rows of the batch are *cut*: by rows, which lie in blocks of B (time steps), or
 * by the columns of a value [blocks, B]. Rows of feature maps are their images, which every shard
 * has in groups of its own. Cut values are found from what sums over all rows, such as the
 * mean of the losses, along the nodes that keep rows apart. Every node but the *late* ones, which
 * need the rows of all shards, is repeated once a shard. B is the largest number of rows that every
 * cut value, and every range of rows that the graph takes, is a multiple of.
 *
 * Parameters are read through views that form a binary tree, a leaf a shard: so the gradient of a
 * parameter is one chain for each shard, and those are added up by that tree, whoever computes them
 * and when. Rows of several blocks are put in the order of shards once (regroup); the sum over all
 * of them follows that order. Statistics of rows, such as batch norm's, are those of a shard for
 * whatever belongs to it; for the rest, running averages say, they are the mean over the shards,
 * added up by the same tree. */
#include "op/map.h"
#include "pass/pass.h"

#include <string.h>

enum { NO_PART = -1 }; /* in labels */

/* CUT_MEAN: not by rows, but a shard has one of its own, and the mean stands for all. */
typedef enum cut { CUT_NOT, CUT_ROWS, CUT_COLUMNS, CUT_MEAN } cut;

typedef struct sharder {
    ir_graph *g;
    alloc_region *region;
    int32_t parts, part; /* V; the one being made */
    int32_t batch;       /* B */
    ir_node *list;       /* the nodes as they were given */
    int32_t n_list;
    ir_val n_values; /* likewise */
    bool changed;
    /* By value given: */
    cut *cuts;
    bool *data;      /* depends on what is not a parameter */
    bool *late;      /* is there once, and only after the last part */
    bool *held;      /* is read when the step ends */
    ir_val *now;     /* what stands for it in this part */
    ir_val **shards; /* what stands for it in each: of parameters, and of what is needed whole */
    ir_val *joined;  /* all parts one after the other; IR_NONE: not made yet */
    ir_val *whole;   /* the rows as they were given; likewise */
    ir_val *in;      /* operands of one node */
} sharder;

/* ---- which values are cut ---- */

static ebb_status mark(sharder *s, ir_val v, cut how) {
    const ir_value *value = v == IR_NONE ? NULL : &s->g->values[v];
    if (value == NULL || s->cuts[v] == how) {
        return EBB_OK;
    }
    if (value->role == IR_PARAM || s->cuts[v] != CUT_NOT) {
        return ebb__fail(s->g->ctx, EBB_USAGE,
                         "shards: %.60s is %s, so that the batch cannot be parted",
                         value->name != NULL ? value->name : "a value",
                         value->role == IR_PARAM ? "a parameter with a row for each of the batch"
                                                 : "read in more than one way");
    }
    s->cuts[v] = how;
    s->changed = true;
    return EBB_OK;
}

/* How its rows are cut. */
static cut cut_of(const sharder *s, ir_val v) {
    return v == IR_NONE || s->cuts[v] == CUT_MEAN ? CUT_NOT : s->cuts[v];
}

/* The axis that is cut. */
static int32_t axis_of(const sharder *s, ir_val v) {
    return s->cuts[v] == CUT_COLUMNS ? s->g->values[v].type.rank - 1 : 0;
}

/* How operands and results take part; false: the op has no rule for that. */
static bool roles_of(const sharder *s, const ir_node_rec *node, pass_roles *out) {
    /* A chain over all rows is made of all parts. */
    return ebb__pass_batch_roles(s->g, node, out) && out->out[0] != ROWS_CARRY;
}

/* Operand k of the node, or a result where k goes on; how it takes part, as *role. */
static ir_val value_at(const sharder *s, const ir_node_rec *node, const pass_roles *r, int32_t k,
                       op_row_role *role) {
    bool operand = k < node->n_in;
    *role = r == NULL ? ROWS_SPLIT : operand ? r->in[k] : r->out[k - node->n_in];
    return operand ? ir_in(s->g, node, k) : node->out + k - node->n_in;
}

/* How what goes with `role` is cut if a value of the node is cut as `found`. */
static cut cut_by(op_row_role role, cut found, bool same) {
    return role == ROWS_WHOLE || role == ROWS_ANY ? CUT_NOT
           : role == ROWS_MEAN                    ? CUT_MEAN
           : same                                 ? found
           : role == ROWS_COLUMNS                 ? CUT_COLUMNS
                                                  : CUT_ROWS;
}

/* If an operand or result of the node is cut, so are all that take part like it. What is summed
 * over rows is cut if it comes from data. */
static ebb_status spread(sharder *s, const ir_node_rec *node) {
    pass_roles own, *r = &own;
    op_range range;
    op_row_role role;
    int32_t axis, n = node->n_in + node->n_out;
    cut found = CUT_NOT, any = CUT_NOT;
    if (ebb__op_is_slice(node, &range) || ebb__op_is_join(node, &axis)) {
        r = NULL;
    } else if (!roles_of(s, node, r)) {
        return EBB_OK;
    }
    for (int32_t k = 0; k < n; k++) {
        ir_val v = value_at(s, node, r, k, &role);
        if (role == ROWS_ANY) {
            any = v != IR_NONE && s->data[v] ? CUT_ROWS : any;
        } else if (role != ROWS_WHOLE && found == CUT_NOT) {
            found = cut_of(s, v);
        }
    }
    bool same = r == NULL || (ebb__op(node->op)->flags & OPF_ELEMENTWISE) != 0;
    for (int32_t k = 0; (found != CUT_NOT || any != CUT_NOT) && k < n; k++) {
        ir_val v = value_at(s, node, r, k, &role);
        cut how = role == ROWS_ANY ? any : found == CUT_NOT ? found : cut_by(role, found, same);
        TRY(how == CUT_NOT ? EBB_OK : mark(s, v, how));
    }
    return EBB_OK;
}

static ebb_status find_cuts(sharder *s) {
    ir_graph *g = s->g;
    for (ir_val v = 0; v < s->n_values; v++) {
        s->data[v] = g->values[v].role != IR_TEMP && g->values[v].role != IR_PARAM;
    }
    for (int32_t i = 0; i < s->n_list; i++) {
        const ir_node_rec *node = &g->nodes[s->list[i]];
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(g, node, k);
            for (int32_t o = 0; v != IR_NONE && s->data[v] && o < node->n_out; o++) {
                s->data[node->out + o] = true;
            }
        }
    }
    do {
        s->changed = false;
        for (int32_t i = s->n_list - 1; i >= 0; i--) {
            TRY(spread(s, &g->nodes[s->list[i]]));
        }
        for (int32_t i = 0; i < s->n_list; i++) {
            TRY(spread(s, &g->nodes[s->list[i]]));
        }
    } while (s->changed);
    return EBB_OK;
}

/* ---- what that makes of nodes ---- */

static bool is_cut(const sharder *s, const ir_node_rec *node) {
    return s->cuts[node->out] != CUT_NOT;
}

/* A view along blocks of rows, or within rows; of a map, within images. */
static bool can_view(const sharder *s, ir_val v, int32_t axis) {
    const ir_type *type = &s->g->values[v].type;
    if (op_is_map(type)) {
        return !op_map_is_image_axis(axis);
    }
    return axis == 0 || (s->cuts[v] == CUT_ROWS && axis == type->rank - 1);
}

/* A node that makes rows of the batch keeps them apart, and waits for nobody who needs all. */
static ebb_status check_cut(const sharder *s, const ir_node_rec *node) {
    op_range range = {.axis = 0};
    int32_t axis = 0;
    pass_roles r;
    bool slice = ebb__op_is_slice(node, &range), join = ebb__op_is_join(node, &axis);
    bool can = slice || join || roles_of(s, node, &r);
    if (slice || join) {
        can = can_view(s, node->out, slice ? range.axis : axis);
    }
    for (int32_t k = 0; can && k < node->n_in; k++) {
        ir_val v = ir_in(s->g, node, k);
        bool apart = slice || join || r.in[k] != ROWS_WHOLE;
        can = v == IR_NONE || (!s->late[v] && (apart || cut_of(s, v) == CUT_NOT));
    }
    return can ? EBB_OK
               : ebb__op_bad(s->g, node,
                             "shards: this cannot be done for a part of the batch's rows");
}

/* Keeps the parts of a value, if it is cut. */
static ebb_status keep_parts(sharder *s, ir_val v) {
    bool keep = v != IR_NONE && s->cuts[v] != CUT_NOT && s->shards[v] == NULL;
    return keep ? ebb__region_alloc(s->region, (size_t)s->parts, sizeof(ir_val), &s->shards[v])
                : EBB_OK;
}

static ebb_status find_late(sharder *s, const ir_node_rec *node) {
    bool late = false;
    for (int32_t k = 0; k < node->n_in; k++) {
        ir_val v = ir_in(s->g, node, k);
        late = late || (v != IR_NONE && (s->late[v] || s->cuts[v] != CUT_NOT));
    }
    for (int32_t k = 0; late && k < node->n_in; k++) {
        TRY(keep_parts(s, ir_in(s->g, node, k)));
    }
    memset(&s->late[node->out], late, node->n_out);
    return EBB_OK;
}

static ebb_status sort_nodes(sharder *s) {
    const ir_graph *g = s->g;
    for (int32_t i = 0; i < s->n_list; i++) {
        const ir_node_rec *node = &g->nodes[s->list[i]];
        TRY(is_cut(s, node) ? check_cut(s, node) : find_late(s, node));
    }
    for (ir_val v = 0; v < s->n_values; v++) {
        ir_val next = g->values[v].next;
        if (next != IR_NONE) {
            s->held[next] = true;
            TRY(keep_parts(s, next));
        }
        if (g->values[v].output || v == g->loss) {
            s->held[v] = true;
            TRY(keep_parts(s, v));
        }
    }
    return EBB_OK;
}

/* ---- rows ---- */

static int64_t rows_of(const ir_type *type) {
    int64_t images = op_images_of(type);
    return images > 0 ? images : type->rank == 1 ? type->dim[0] : ebb__ir_rows(type);
}

static int64_t common(int64_t a, int64_t b) {
    return b == 0 ? a : common(b, a % b);
}

/* Blocks of B rows that the value has. */
static int32_t blocks_of(const sharder *s, const ir_type *type) {
    return (int32_t)(rows_of(type) / s->batch);
}

/* Maps that are made come in groups that suit a shard. */
static bool divides(const sharder *s, ir_val v) {
    const ir_value *value = &s->g->values[v];
    bool made = value->role == IR_TEMP && op_is_map(&value->type);
    return s->cuts[v] == CUT_COLUMNS ? ir_cols(&value->type) == s->batch
           : made                    ? rows_of(&value->type) == s->batch
                  : value->type.dim[0] % ((int64_t)blocks_of(s, &value->type) * s->parts) == 0;
}

static ebb_status find_batch(sharder *s) {
    const ir_graph *g = s->g;
    int64_t batch = 0;
    bool even = true;
    for (ir_val v = 0; v < s->n_values; v++) {
        const ir_type *type = &g->values[v].type;
        batch = s->cuts[v] == CUT_ROWS      ? common(batch, rows_of(type))
                : s->cuts[v] == CUT_COLUMNS ? common(batch, ir_cols(type))
                                            : batch;
    }
    for (int32_t i = 0; i < s->n_list; i++) {
        const ir_node_rec *node = &g->nodes[s->list[i]];
        const ir_type *type = &g->values[node->out].type;
        const int32_t count = ebb__op(node->op)->batch_rows_attr;
        op_range range;
        if (s->cuts[node->out] == CUT_ROWS && ebb__op_is_slice(node, &range) && range.axis == 0) {
            batch = common(batch, range.begin * (rows_of(type) / type->dim[0]));
        } else if (is_cut(s, node) && count > 0 && node->n_in > 0) {
            batch = common(batch, node->attr.i[count - 1]);
        }
    }
    if (batch == 0) {
        return ebb__fail(g->ctx, EBB_USAGE,
                         "shards: nothing is summed over the rows of a batch that could be parted");
    }
    s->batch = (int32_t)batch;
    for (ir_val v = 0; v < s->n_values && batch % s->parts == 0; v++) {
        even = even && (cut_of(s, v) == CUT_NOT || divides(s, v));
    }
    return even && batch % s->parts == 0
               ? EBB_OK
               : ebb__fail(g->ctx, EBB_USAGE, "shards: %d do not divide the %d rows of the batch",
                           s->parts, s->batch);
}

/* ---- variables of a part ---- */

/* How many of n leaves the left half of the tree has: the greatest power of two, so that gradients
 * arriving in order wait for each other as seldom as can be. */
static int32_t left_of(int32_t n) {
    int32_t half = 1;
    while (2 * half < n) {
        half *= 2;
    }
    return half;
}

/* Leaves [begin, begin + n) of the tree below x. */
static ebb_status grow_tree(ir_graph *g, ir_val x, int32_t begin, int32_t n, ir_val *leaves) {
    int32_t half = left_of(n);
    ir_val left = IR_NONE, right = IR_NONE;
    if (n == 1) {
        leaves[begin] = x;
        return EBB_OK;
    }
    TRY(ebb__op_slice_all(g, x, &left));
    TRY(ebb__op_slice_all(g, x, &right));
    TRY(grow_tree(g, left, begin, half, leaves));
    return grow_tree(g, right, begin + half, n - half, leaves);
}

static ebb_status begin_variable(sharder *s, ir_val v) {
    ir_graph *g = s->g;
    int32_t axis = axis_of(s, v), blocks = blocks_of(s, &g->values[v].type);
    g->label = (ir_label){.layer = g->values[v].layer, .at = -1, .shard = NO_PART};
    s->whole[v] = v;
    if (g->values[v].role == IR_PARAM) {
        if (s->part == 0) {
            TRY(ebb__region_alloc(s->region, (size_t)s->parts, sizeof(ir_val), &s->shards[v]));
            TRY(grow_tree(g, v, 0, s->parts, s->shards[v]));
        }
        s->now[v] = s->shards[v][s->part];
        return EBB_OK;
    }
    s->now[v] = v;
    if (s->cuts[v] == CUT_NOT) {
        return EBB_OK;
    }
    if (s->part == 0) {
        s->joined[v] = v;
        if (s->cuts[v] == CUT_ROWS && blocks > 1) {
            TRY(ebb__op_regroup(g, v, blocks, s->parts, &s->joined[v]));
        }
    }
    int32_t len = g->values[v].type.dim[axis] / s->parts;
    g->label.shard = s->part;
    return ebb__op_slice(g, s->joined[v], axis, s->part * len, len, &s->now[v]);
}

/* ---- all of a value ---- */

static ebb_status join(sharder *s, ir_val v, ir_val *out) {
    ir_val all = s->joined[v];
    if (all == IR_NONE) {
        TRY(ebb__op_join(s->g, axis_of(s, v), s->shards[v], s->parts, &all));
        s->joined[v] = all;
    }
    *out = all;
    return EBB_OK;
}

/* The sum of n leaves. */
static ebb_status add_leaves(ir_graph *g, const ir_val *leaves, int32_t n, ir_val *out) {
    int32_t half = left_of(n);
    ir_val both[2];
    if (n == 1) {
        *out = leaves[0];
        return EBB_OK;
    }
    TRY(add_leaves(g, leaves, half, &both[0]));
    TRY(add_leaves(g, leaves + half, n - half, &both[1]));
    return ebb__op_emit(g, OP_ADD, both, 2, NULL, out);
}

/* Of a statistic that every part has its own of; belongs to none of them. */
static ebb_status take_mean(sharder *s, ir_val v, ir_val *out) {
    ir_attr share = {.f = {1.0F / (float)s->parts}};
    ir_val sum;
    s->g->label.shard = NO_PART;
    TRY(add_leaves(s->g, s->shards[v], s->parts, &sum));
    return ebb__op_emit(s->g, OP_SCALE, &sum, 1, &share, out);
}

/* The rows of v in their order, in bytes of their own; of a statistic, the mean. */
static ebb_status restore(sharder *s, ir_val v, ir_val *out) {
    ir_val all = s->whole[v];
    int32_t blocks = blocks_of(s, &s->g->values[v].type);
    if (all == IR_NONE && s->cuts[v] == CUT_MEAN) {
        TRY(take_mean(s, v, &all));
        s->whole[v] = all;
    } else if (all == IR_NONE) {
        TRY(join(s, v, &all));
        TRY(s->cuts[v] == CUT_ROWS && blocks > 1
                ? ebb__op_regroup(s->g, all, s->parts, blocks, &all)
                : ebb__op_copy(s->g, all, &all));
        s->whole[v] = all;
    }
    *out = all;
    return EBB_OK;
}

/* ---- nodes of a part ---- */

/* An op that numbers its rows: those of each block are a range of the numbers. */
static ebb_status emit_numbered(sharder *s, const ir_node_rec *node, const ir_attr *attr,
                                ir_val *out) {
    ir_graph *g = s->g;
    const op_def *def = ebb__op(node->op);
    int32_t blocks = blocks_of(s, &g->values[node->out].type), rows = s->batch / s->parts;
    ir_val *done = NULL, x = s->in[0];
    TRY(ebb__region_alloc(s->region, (size_t)blocks, sizeof *done, &done));
    for (int32_t b = 0; b < blocks; b++) {
        ir_attr own = *attr;
        int32_t len = g->values[x].type.dim[0] / blocks;
        own.i[def->first_row_attr - 1] += b * s->batch + s->part * rows;
        TRY(ebb__op_slice(g, x, 0, b * len, len, &s->in[0]));
        TRY(ebb__op_emit(g, (op_code)node->op, s->in, node->n_in, &own, out));
        done[b] = out[0];
    }
    return ebb__op_join(g, 0, done, blocks, out);
}

static ebb_status emit_cut(sharder *s, const ir_node_rec *node, ir_val *out) {
    const op_def *def = ebb__op(node->op);
    ir_attr attr = node->attr;
    op_range range;
    const int32_t images = s->batch / s->parts;
    if (def->batch_rows_attr > 0) {
        attr.i[def->batch_rows_attr - 1] /= s->parts;
    }
    if (def->lanes_attr > 0 && images % attr.i[def->lanes_attr - 1] != 0) {
        attr.i[def->lanes_attr - 1] = op_map_image_lanes(images);
    }
    if (ebb__op_is_slice(node, &range)) {
        int32_t parts = s->cuts[node->out] == CUT_ROWS && range.axis == 0 ? s->parts : 1;
        return ebb__op_slice(s->g, s->in[0], range.axis, range.begin / parts, range.len / parts,
                             out);
    }
    return def->first_row_attr > 0
               ? emit_numbered(s, node, &attr, out)
               : ebb__op_emit(s->g, (op_code)node->op, s->in, node->n_in, &attr, out);
}

/* Operand k of a node that comes after all parts. */
static ebb_status gather(sharder *s, const ir_node_rec *node, int32_t k, ir_val v, ir_val *out) {
    pass_roles r;
    bool any = roles_of(s, node, &r) && r.in[k] == ROWS_ANY && s->cuts[v] != CUT_MEAN;
    if (s->cuts[v] == CUT_NOT) {
        *out = s->g->values[v].role == IR_PARAM ? v : s->now[v];
        return EBB_OK;
    }
    return any ? join(s, v, out) : restore(s, v, out);
}

static ebb_status emit(sharder *s, ir_node n) {
    ir_graph *g = s->g;
    const ir_node_rec node = g->nodes[n];
    bool late = s->late[node.out];
    ir_val out[IR_MAX_OUT] = {IR_NONE};
    if (late && s->part + 1 < s->parts) {
        return EBB_OK;
    }
    g->label = node.label;
    g->label.shard = late ? NO_PART : s->part;
    for (int32_t k = 0; k < node.n_in; k++) {
        ir_val v = ir_in(g, &node, k);
        s->in[k] = v == IR_NONE ? (ir_val)IR_NONE : s->now[v];
        if (late && v != IR_NONE) {
            TRY(gather(s, &node, k, v, &s->in[k]));
        }
    }
    TRY(is_cut(s, &node) ? emit_cut(s, &node, out)
                         : ebb__op_emit(g, (op_code)node.op, s->in, node.n_in, &node.attr, out));
    for (ir_val v = node.out; v < node.out + node.n_out; v++) {
        ir_val all = s->now[v] = out[v - node.out];
        if (s->shards[v] != NULL) {
            s->shards[v][s->part] = all;
            g->label.shard = NO_PART;
            TRY(s->held[v] && s->part + 1 == s->parts ? restore(s, v, &all) : EBB_OK);
        }
    }
    return EBB_OK;
}

/* ---- the graph ---- */

static ebb_status emit_part(sharder *s) {
    ir_val v = 0;
    for (int32_t i = 0; i < s->n_list; i++) {
        /* As they were built: a variable before the first node that follows it. */
        for (; v < s->g->nodes[s->list[i]].out; v++) {
            TRY(s->g->values[v].role == IR_TEMP ? EBB_OK : begin_variable(s, v));
        }
        TRY(emit(s, s->list[i]));
    }
    return EBB_OK;
}

static ir_val held_by(const sharder *s, ir_val v) {
    bool given = v == IR_NONE || s->g->values[v].role != IR_TEMP;
    return given ? v : s->cuts[v] != CUT_NOT ? s->whole[v] : s->now[v];
}

/* What is read when the step ends is another value now. */
static void hold(sharder *s) {
    ir_graph *g = s->g;
    for (ir_val v = 0; v < s->n_values; v++) {
        ir_value *value = &g->values[v];
        value->next = held_by(s, value->next);
        if (value->output && value->role == IR_TEMP) {
            ir_value *held = &g->values[held_by(s, v)];
            held->output = true;
            held->name = value->name;
            value->name = NULL;
        }
    }
    g->loss = held_by(s, g->loss);
}

static ebb_status make(sharder *s) {
    ir_graph *g = s->g;
    TRY(find_cuts(s));
    TRY(sort_nodes(s));
    TRY(find_batch(s));
    g->n_order = 0;
    for (s->part = 0; s->part < s->parts; s->part++) {
        TRY(emit_part(s));
    }
    hold(s);
    g->label = (ir_label){.at = -1};
    return ebb__ir_compact(g, NULL, NULL);
}

static ebb_status run(pass_unit *unit) {
    ir_graph *g = &unit->graph;
    alloc_region *r = &unit->scratch;
    sharder s = {
        .g = g, .region = r, .parts = unit->shards, .n_list = g->n_order, .n_values = g->n_values};
    size_t n = (size_t)g->n_values + 1;
    if (s.parts < 0 || s.parts > IR_MAX_SHARDS) {
        return ebb__fail(g->ctx, EBB_USAGE, "shards: %d is not in 1..%d", s.parts, IR_MAX_SHARDS);
    }
    if (s.parts <= 1) {
        return EBB_OK;
    }
    TRY(REGION_ARRAYS(r, ARRAY(s.list, (size_t)g->n_order + 1), ARRAY(s.cuts, n), ARRAY(s.data, n),
                      ARRAY(s.late, n), ARRAY(s.held, n), ARRAY(s.now, n), ARRAY(s.shards, n),
                      ARRAY_NONE(s.joined, n), ARRAY_NONE(s.whole, n),
                      ARRAY(s.in, (size_t)g->n_operands + 1)));
    memcpy(s.list, g->order, (size_t)g->n_order * sizeof *s.list);
    return make(&s);
}

const pass_def ebb__pass_shard = {.id = PASS_SHARD, .run = run};
