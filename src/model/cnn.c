/* cnn.c - see cnn.h. One layer of the list after the other; a value stands for what each makes. */
#include "model/cnn.h"

#include "model/cell.h"
#include "op/conv.h"
#include "op/pool.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct builder {
    model_builder b;
    const cnn_model *m;
    const net_model *net;
    ir_graph *g;
    int32_t images; /* lanes of images */
    int32_t *lanes; /* by layer: of the channels of its map */
    int32_t *place; /* by layer: how deep in the net it is (ir_label.at) */
    int32_t *last;  /* by layer: the last that reads it */
    ir_val *made;   /* by layer */
    alloc_region scratch;
} builder;

/* ---- lanes of channels ---- */

static int64_t divisor(int64_t a, int64_t b) {
    return b == 0 ? a : divisor(b, a % b);
}

/* Layers whose map has the lanes of what they read. */
static bool keeps_lanes(net_op op) {
    return op != NET_CONV && op != NET_INPUT && op != NET_FC && op != NET_FLATTEN;
}

static int32_t leader_of(int32_t *leader, int32_t i) {
    while (leader[i] != i) {
        leader[i] = leader[leader[i]];
        i = leader[i];
    }
    return i;
}

/* What is read and what is made have the same lanes but around convolutions: layers fall into sets,
 * whose lanes divide the channels of every one of them. */
static ebb_status find_lanes(builder *b) {
    const net_model *net = b->net;
    size_t n = (size_t)net->n_layers;
    int32_t *leader = NULL;
    int64_t *common = NULL;
    TRY(REGION_ARRAYS(&b->scratch, ARRAY(leader, n), ARRAY(common, n), ARRAY(b->lanes, n),
                      ARRAY_NONE(b->made, n)));
    for (int32_t i = 0; i < net->n_layers; i++) {
        leader[i] = i;
        for (int32_t k = 0; k < net->layers[i].n_from && keeps_lanes(net->layers[i].op); k++) {
            leader[leader_of(leader, net_in(net, &net->layers[i], k))] = leader_of(leader, i);
        }
    }
    for (int32_t i = 0; i < net->n_layers; i++) {
        int64_t *all = &common[leader_of(leader, i)];
        *all = divisor(*all, net->layers[i].out.channels);
    }
    for (int32_t i = 0; i < net->n_layers; i++) {
        b->lanes[i] = op_map_channel_lanes(common[leader_of(leader, i)]);
    }
    return EBB_OK;
}

/* ---- places ---- */

/* The net as a chain: a place begins with a product where all that goes on is one map. So a
 * residual block is one place, as are the branches between two joins. */
static ebb_status find_places(builder *b) {
    const net_model *net = b->net;
    int32_t alive = 1, place = -1; /* the input */
    TRY(REGION_ARRAYS(&b->scratch, ARRAY(b->last, (size_t)net->n_layers),
                      ARRAY(b->place, (size_t)net->n_layers)));
    for (int32_t i = 1; i < net->n_layers; i++) {
        for (int32_t k = 0; k < net->layers[i].n_from; k++) {
            b->last[net_in(net, &net->layers[i], k)] = i;
        }
    }
    for (int32_t i = 1; i < net->n_layers; i++) {
        const net_layer *layer = &net->layers[i];
        place += alive == 1 && (layer->op == NET_CONV || layer->op == NET_FC);
        b->place[i] = place;
        for (int32_t k = 0; k < layer->n_from; k++) {
            int32_t from = net_in(net, layer, k);
            bool again = false; /* it may be read twice */
            for (int32_t j = 0; j < k; j++) {
                again = again || net_in(net, layer, j) == from;
            }
            alive -= b->last[from] == i && !again;
        }
        alive++;
    }
    return EBB_OK;
}

/* ---- parameters ---- */

/* Parameter i of a layer: convolutions start as in "Delving Deep into Rectifiers" (He et al. 2015);
 * products as PyTorch's do; norms as if they were not there. A convolution with a bias has no norm
 * behind it, and is scaled by the taps that a result comes from, so that maps keep their size: by
 * those that a pixel goes out to, as is usual before norms, GoogLeNet's narrow branches would give
 * logits in the hundreds. */
static ir_start start_of(const net_model *net, const net_layer *layer, int32_t i) {
    static const float norm[NET_MOST_PARAMS] = {1, 0, 0, 1}; /* weight, bias, mean, variance */
    if (layer->op == NET_FC) {
        return ebb__model_uniform(net_elements(net_in_shape(net, layer)));
    }
    if (layer->op == NET_BN || i > 0) {
        return (ir_start){.draw = IR_CONSTANT, .scale = layer->op == NET_BN ? norm[i] : 0};
    }
    int32_t maps = layer->n.no_bias ? layer->n.outputs : net_in_shape(net, layer)->channels;
    float fan = (float)maps * (float)layer->n.high * (float)layer->n.wide;
    return (ir_start){.draw = IR_NORMAL, .scale = sqrtf(2.0F * (float)layer->n.groups / fan)};
}

/* One pattern, which ends at `end`. */
static bool matches(const char *pattern, const char *end, const char *name) {
    const char *star = NULL, *behind = NULL; /* the last * and what it must end before */
    while (*name != '\0') {
        if (pattern < end && *pattern == '*') {
            star = ++pattern;
            behind = name;
        } else if (pattern < end && (*pattern == '?' || *pattern == *name)) {
            pattern++;
            name++;
        } else if (star != NULL) {
            pattern = star;
            name = ++behind;
        } else {
            return false;
        }
    }
    while (pattern < end && *pattern == '*') {
        pattern++;
    }
    return pattern == end;
}

bool ebb__cnn_is_frozen(const char *patterns, const char *name) {
    bool found = false;
    while (patterns != NULL && !found) {
        const char *end = patterns + strcspn(patterns, ",");
        found = matches(patterns, end, name);
        patterns = *end == ',' ? end + 1 : NULL;
    }
    return found;
}

/* The variables of a layer, in the order of ebb__net_params. Those that are frozen are a part of
 * the model that no step changes: nothing is kept or computed for their gradient. */
static ebb_status add_params(builder *b, const net_layer *layer, ir_val *out) {
    net_param params[NET_MOST_PARAMS];
    int32_t n = ebb__net_params(b->net, layer, params);
    for (int32_t i = 0; i < n; i++) {
        char name[NET_MOST_NAME + 32];
        ir_type type = {.dtype = IR_F32, .rank = (int16_t)params[i].rank};
        for (int32_t d = 0; d < params[i].rank; d++) {
            type.dim[d] = params[i].dim[d];
        }
        (void)snprintf(name, sizeof name, "%s.%s", layer->name, params[i].suffix);
        bool trained = params[i].trained && !ebb__cnn_is_frozen(b->m->freeze, name);
        TRY(ebb__ir_add_variable(b->g, trained ? IR_PARAM : IR_BUFFER, name, &type, &out[i]));
        b->g->values[out[i]].start = start_of(b->net, layer, i);
    }
    return EBB_OK;
}

/* ---- layers ---- */

static ir_val in_of(const builder *b, const net_layer *layer, int32_t i) {
    return b->made[net_in(b->net, layer, i)];
}

static ebb_status build_conv(builder *b, const net_layer *layer, int32_t lanes, ir_val *out) {
    const net_numbers *n = &layer->n;
    ir_val p[NET_MOST_PARAMS] = {IR_NONE, IR_NONE, IR_NONE, IR_NONE};
    ir_attr attr = {.i = {[CONV_STRIDE] = n->stride,
                          [CONV_PAD_Y] = n->pad_y,
                          [CONV_PAD_X] = n->pad_x,
                          [CONV_GROUPS] = n->groups,
                          [CONV_LANES] = lanes}};
    TRY(add_params(b, layer, p));
    ir_val in[] = {p[1], in_of(b, layer, 0), p[0]};
    return ebb__op_emit(b->g, OP_CONV, in, 3, &attr, out);
}

static ebb_status build_fc(builder *b, const net_layer *layer, ir_val *out) {
    ir_val p[NET_MOST_PARAMS] = {IR_NONE, IR_NONE, IR_NONE, IR_NONE};
    TRY(add_params(b, layer, p));
    return ebb__op_linear(b->g, p[1], in_of(b, layer, 0), p[0], out);
}

/* weight, bias, running_mean, running_var. */
static ebb_status build_norm(builder *b, const net_layer *layer, ir_val *out) {
    ir_val p[NET_MOST_PARAMS] = {0}, x = in_of(b, layer, 0), made[2], next[2], stat = IR_NONE;
    ir_attr eps = {.f = {(float)layer->n.eps}}, momentum = {.f = {(float)layer->n.momentum}};
    TRY(add_params(b, layer, p));
    if (!b->m->train) {
        TRY(ebb__op_emit(b->g, OP_BATCH_KNOWN, (ir_val[]){p[2], p[3]}, 2, &eps, &stat));
        return ebb__op_emit(b->g, OP_BATCH_APPLY, (ir_val[]){x, stat, p[0], p[1]}, 4, NULL, out);
    }
    TRY(ebb__op_emit(b->g, OP_BATCH_NORM, (ir_val[]){x, p[0], p[1]}, 3, &eps, made));
    TRY(ebb__op_emit(b->g, OP_BATCH_TRACK, (ir_val[]){p[2], p[3], made[1]}, 3, &momentum, next));
    b->g->values[p[2]].next = next[0];
    b->g->values[p[3]].next = next[1];
    *out = made[0];
    return EBB_OK;
}

/* A relu that only a max pool reads is done behind that, where there is less of it: relu(max(x)) is
 * max(relu(x)), also of NaN and of the signs of zeros, and so are the gradients: where a window has
 * nothing above 0 none goes through, and else both take the same pixel. Not so with a slope: of two
 * numbers below 0, products with it may round to the same one, and the first of these would win. */
static bool is_put_off(const builder *b, int32_t i) {
    const net_layer *relu = &b->net->layers[i];
    return relu->op == NET_RELU && relu->n.slope == 0 && b->last[i] == i + 1 &&
           relu[1].op == NET_MAXPOOL;
}

static ebb_status build_relu(builder *b, int32_t i, ir_val x, ir_val *out) {
    const net_layer *layer = &b->net->layers[i];
    ir_attr slope = {.f = {(float)layer->n.slope}};
    TRY(ebb__model_layer(&b->b, layer->name));
    b->g->label.at = b->place[i];
    return layer->n.slope == 0 ? ebb__op_emit(b->g, OP_RELU, &x, 1, NULL, out)
                               : ebb__op_emit(b->g, OP_LEAKY_RELU, &x, 1, &slope, out);
}

static ebb_status build_pool(builder *b, const net_layer *layer, ir_val *out) {
    const net_numbers *n = &layer->n;
    const net_shape *in = net_in_shape(b->net, layer);
    ir_val x = in_of(b, layer, 0);
    ir_attr attr = {.i = {[POOL_WINDOW_Y] = n->high,
                          [POOL_WINDOW_X] = n->wide,
                          [POOL_STRIDE] = n->stride,
                          [POOL_PAD_Y] = n->pad_y,
                          [POOL_PAD_X] = n->pad_x,
                          [POOL_HIGH] = layer->out.high,
                          [POOL_WIDE] = layer->out.wide}};
    if (layer->op == NET_GAP) { /* one window */
        attr.i[POOL_WINDOW_Y] = in->high;
        attr.i[POOL_WINDOW_X] = in->wide;
        attr.i[POOL_STRIDE] = 1;
    }
    return ebb__op_emit(b->g, layer->op == NET_MAXPOOL ? OP_MAX_POOL : OP_AVG_POOL, &x, 1, &attr,
                        out);
}

static ebb_status build_lrn(builder *b, const net_layer *layer, ir_val *out) {
    ir_val x = in_of(b, layer, 0);
    ir_attr attr = {.i = {layer->n.size}, .f = {(float)layer->n.alpha, (float)layer->n.k}};
    return ebb__op_emit(b->g, OP_LRN, &x, 1, &attr, out);
}

/* Drawn by image and by the number of the element as flatten counts, whatever the map's lanes. */
static ebb_status build_dropout(builder *b, const net_layer *layer, ir_val *out) {
    ir_val x = in_of(b, layer, 0), flat = x;
    const ir_type type = b->g->values[x].type;
    b->b.dropout = b->m->dropout < 0 ? layer->n.rate : b->m->dropout;
    *out = x;
    if (!b->m->train || b->b.dropout <= 0) {
        return EBB_OK;
    }
    if (b->b.step == IR_NONE) {
        TRY(ebb__model_variable(&b->b, IR_INPUT, CNN_STEP, IR_I32, 0, 1, &b->b.step));
    }
    if (op_is_map(&type)) {
        TRY(ebb__op_emit(b->g, OP_FLATTEN, &x, 1, NULL, &flat));
    }
    TRY(ebb__model_dropout(&b->b, layer->name, 0, &flat));
    *out = flat;
    if (op_is_map(&type)) {
        op_map m = op_map_of(&type);
        ir_attr attr = {.i = {m.blocks, m.high, m.wide, m.images, m.channels}};
        TRY(ebb__op_emit(b->g, OP_UNFLATTEN, &flat, 1, &attr, out));
    }
    return EBB_OK;
}

static ebb_status build_join(builder *b, const net_layer *layer, ir_val *out) {
    ir_val *parts = NULL;
    TRY(ebb__region_alloc(&b->scratch, (size_t)layer->n_from, sizeof *parts, &parts));
    for (int32_t i = 0; i < layer->n_from; i++) {
        parts[i] = in_of(b, layer, i);
    }
    if (layer->op == NET_CONCAT) {
        return ebb__op_join(b->g, 1, parts, layer->n_from, out);
    }
    *out = parts[0];
    for (int32_t i = 1; i < layer->n_from; i++) {
        TRY(ebb__op_emit(b->g, OP_ADD, (ir_val[]){*out, parts[i]}, 2, NULL, out));
    }
    return EBB_OK;
}

static ebb_status build_layer(builder *b, int32_t i, ir_val *out) {
    const net_layer *layer = &b->net->layers[i];
    ir_val x = in_of(b, layer, 0);
    TRY(ebb__model_layer(&b->b, layer->name));
    b->g->label.at = b->place[i];
    switch (layer->op) {
    case NET_CONV:
        return build_conv(b, layer, b->lanes[i], out);
    case NET_FC:
        return build_fc(b, layer, out);
    case NET_BN:
        return build_norm(b, layer, out);
    case NET_RELU:
        *out = x;
        return is_put_off(b, i) ? EBB_OK : build_relu(b, i, x, out);
    case NET_MAXPOOL:
        TRY(build_pool(b, layer, out));
        return is_put_off(b, i - 1) ? build_relu(b, i - 1, *out, out) : EBB_OK;
    case NET_AVGPOOL:
    case NET_GAP:
        return build_pool(b, layer, out);
    case NET_LRN:
        return build_lrn(b, layer, out);
    case NET_ADD:
    case NET_CONCAT:
        return build_join(b, layer, out);
    case NET_FLATTEN:
        return ebb__op_emit(b->g, OP_FLATTEN, &x, 1, NULL, out);
    case NET_DROPOUT:
        return build_dropout(b, layer, out);
    case NET_INPUT:
    case NET_OPS:
        break;
    }
    return ebb__fail(b->g->ctx, EBB_INTERNAL, "layer %s: unknown op", layer->name);
}

/* ---- ends ---- */

static ebb_status build_input(builder *b, ir_val *labels) {
    const net_shape *in = &b->net->layers[0].out;
    int32_t n = (int32_t)b->m->batch, c = in->channels;
    const ir_type pixels = {.dtype = IR_U8, .rank = 4, .dim = {n, in->high, in->wide, c}};
    ir_val x[3];
    TRY(ebb__model_layer(&b->b, CNN_DATA_LAYER));
    TRY(ebb__ir_add_variable(b->g, IR_INPUT, CNN_PIXELS, &pixels, &x[0]));
    TRY(ebb__model_variable(&b->b, IR_INPUT, CNN_SCALE, IR_F32, 0, c, &x[1]));
    TRY(ebb__model_variable(&b->b, IR_INPUT, CNN_SHIFT, IR_F32, 0, c, &x[2]));
    TRY(ebb__model_variable(&b->b, IR_INPUT, CNN_LABELS, IR_I32, 0, n, labels));
    return ebb__op_emit(b->g, OP_IMAGES, x, 3, &(ir_attr){.i = {b->images, b->lanes[0]}},
                        &b->made[0]);
}

static ebb_status build_net(builder *b) {
    ir_val labels = IR_NONE, out[IR_MAX_OUT], logits;
    TRY(find_lanes(b));
    TRY(find_places(b));
    TRY(build_input(b, &labels));
    for (int32_t i = 1; i < b->net->n_layers; i++) {
        TRY(build_layer(b, i, &b->made[i]));
    }
    logits = b->made[b->net->n_layers - 1];
    if (!b->m->train) {
        b->g->values[logits].output = true;
        TRY(ebb__ir_name(b->g, logits, CNN_LOGITS));
    }
    TRY(ebb__model_layer(&b->b, "loss"));
    TRY(ebb__op_emit(b->g, OP_XENT, (ir_val[]){logits, labels}, 2, NULL, out));
    return ebb__model_loss(&b->b, out[0], labels, "loss");
}

ebb_status ebb__cnn_build(ir_graph *graph, const cnn_model *model) {
    builder b = {
        .b = {.g = graph, .batch = (int32_t)model->batch, .seed = model->seed, .step = IR_NONE},
        .m = model,
        .net = model->net,
        .g = graph};
    b.images = (int32_t)(model->lanes > 0 ? model->lanes : op_map_image_lanes(model->batch));
    ebb__region_init(&b.scratch, graph->ctx);
    ebb_status status = build_net(&b);
    ebb__region_fini(&b.scratch);
    return status;
}
