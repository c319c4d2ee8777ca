/* net_shape.c - the shape of what a layer makes, by PyTorch's formulas; what does not meet is
 * refused. Numbers are in their bounds already (net.c), so sums of them fit 32 bits. */
#include "model/net.h"

#include <inttypes.h>
#include <stdio.h>

/* "64x28x28", or "4096 numbers". */
typedef struct shape_text {
    char text[48];
} shape_text;

static shape_text show(const net_shape *s) {
    shape_text out;
    (void)(s->flat ? snprintf(out.text, sizeof out.text, "%" PRId32 " numbers", s->channels)
                   : snprintf(out.text, sizeof out.text, "%" PRId32 "x%" PRId32 "x%" PRId32,
                              s->channels, s->high, s->wide));
    return out;
}

static const net_shape *shape_of(const net_model *net, int32_t layer) {
    return &net->layers[layer].out;
}

static ebb_status want_map(const net_model *net, const net_layer *layer) {
    const net_shape *in = net_in_shape(net, layer);
    return !in->flat ? EBB_OK
                     : ebb__net_wrong(net, "layer '%s': %s needs a map, but '%s' gives %s",
                                      layer->name, ebb__net_op_name(layer->op),
                                      net->layers[net_in(net, layer, 0)].name, show(in).text);
}

/* In ceil mode the last may reach beyond the end, but must begin before the far padding. */
int32_t ebb__net_windows(const net_numbers *n, int32_t length, int32_t size, int32_t pad) {
    int32_t room = length + 2 * pad - size;
    int32_t count = (room + (n->ceil ? n->stride - 1 : 0)) / n->stride + 1;
    return n->ceil && (count - 1) * n->stride >= length + pad ? count - 1 : count;
}

static ebb_status slide(const net_model *net, const net_layer *layer, net_shape *out) {
    const net_numbers *n = &layer->n;
    const net_shape *in = net_in_shape(net, layer);
    if (n->high > in->high + 2 * n->pad_y || n->wide > in->wide + 2 * n->pad_x) {
        return ebb__net_wrong(
            net,
            "layer '%s': a window of %" PRId32 "x%" PRId32 " is larger than its map of %" PRId32
            "x%" PRId32 " with padding %" PRId32 "x%" PRId32
            "; use larger images or fewer strides before it",
            layer->name, n->high, n->wide, in->high, in->wide, n->pad_y, n->pad_x);
    }
    out->high = ebb__net_windows(n, in->high, n->high, n->pad_y);
    out->wide = ebb__net_windows(n, in->wide, n->wide, n->pad_x);
    return EBB_OK;
}

static ebb_status shape_conv(const net_model *net, const net_layer *layer, net_shape *out) {
    const net_numbers *n = &layer->n;
    int32_t channels = net_in_shape(net, layer)->channels;
    TRY(want_map(net, layer));
    if (channels % n->groups != 0 || n->outputs % n->groups != 0) {
        return ebb__net_wrong(net,
                              "layer '%s': %" PRId32 " groups do not divide its %" PRId32
                              " input and %" PRId32 " output channels",
                              layer->name, n->groups, channels, n->outputs);
    }
    out->channels = n->outputs;
    return slide(net, layer, out);
}

static ebb_status shape_pool(const net_model *net, const net_layer *layer, net_shape *out) {
    const net_numbers *n = &layer->n;
    TRY(want_map(net, layer));
    if (2 * n->pad_y > n->high || 2 * n->pad_x > n->wide) {
        return ebb__net_wrong(net,
                              "layer '%s': padding %" PRId32 "x%" PRId32
                              " is more than half of its window of %" PRId32 "x%" PRId32,
                              layer->name, n->pad_y, n->pad_x, n->high, n->wide);
    }
    return slide(net, layer, out);
}

static ebb_status shape_map(const net_model *net, const net_layer *layer, net_shape *out) {
    (void)out;
    return want_map(net, layer);
}

/* One window over all of the map. */
static ebb_status shape_gap(const net_model *net, const net_layer *layer, net_shape *out) {
    TRY(want_map(net, layer));
    if (out->high > NET_MOST_GAP || out->wide > NET_MOST_GAP) {
        return ebb__net_wrong(net,
                              "layer '%s': its map of %s has more than %d rows or columns; put "
                              "strides or pools before it",
                              layer->name, show(out).text, NET_MOST_GAP);
    }
    out->high = out->wide = 1;
    return EBB_OK;
}

static ebb_status shape_same(const net_model *net, const net_layer *layer, net_shape *out) {
    (void)net;
    (void)layer;
    (void)out;
    return EBB_OK;
}

/* Sums want equal shapes, joins of channels equal rows and columns. */
static ebb_status shape_several(const net_model *net, const net_layer *layer, net_shape *out) {
    bool join = layer->op == NET_CONCAT;
    int64_t channels = out->channels;
    for (int32_t i = 1; i < layer->n_from; i++) {
        const net_shape *in = shape_of(net, net_in(net, layer, i));
        if (in->flat != out->flat || in->high != out->high || in->wide != out->wide ||
            (!join && in->channels != out->channels)) {
            return ebb__net_wrong(net, "layer '%s': %s of %s ('%s') and %s ('%s'), which differ%s",
                                  layer->name, ebb__net_op_name(layer->op), show(out).text,
                                  net->layers[net_in(net, layer, 0)].name, show(in).text,
                                  net->layers[net_in(net, layer, i)].name,
                                  join ? " in rows or columns" : "");
        }
        channels += join ? in->channels : 0;
    }
    if (channels > NET_MOST_SIZE) {
        return ebb__net_wrong(net, "layer '%s': %" PRId64 " channels are more than %d", layer->name,
                              channels, NET_MOST_SIZE);
    }
    out->channels = (int32_t)channels;
    return EBB_OK;
}

static ebb_status shape_flatten(const net_model *net, const net_layer *layer, net_shape *out) {
    int64_t count = net_elements(out);
    TRY(want_map(net, layer));
    if (count > NET_MOST_SIZE) {
        return ebb__net_wrong(net, "layer '%s': %s are %" PRId64 " numbers, more than %d",
                              layer->name, show(out).text, count, NET_MOST_SIZE);
    }
    *out = (net_shape){(int32_t)count, 1, 1, true};
    return EBB_OK;
}

static ebb_status shape_fc(const net_model *net, const net_layer *layer, net_shape *out) {
    if (!out->flat) {
        return ebb__net_wrong(net, "layer '%s': fc reads a map of %s; put flatten before it",
                              layer->name, show(out).text);
    }
    out->channels = layer->n.outputs;
    return EBB_OK;
}

typedef ebb_status (*shape_fn)(const net_model *net, const net_layer *layer, net_shape *out);
static const struct {
    shape_fn shape;
    int32_t least_in, most_in;
} rules[NET_OPS] = {
    [NET_CONV] = {shape_conv, 1, 1},       [NET_BN] = {shape_map, 1, 1},
    [NET_RELU] = {shape_same, 1, 1},       [NET_MAXPOOL] = {shape_pool, 1, 1},
    [NET_AVGPOOL] = {shape_pool, 1, 1},    [NET_GAP] = {shape_gap, 1, 1},
    [NET_LRN] = {shape_map, 1, 1},         [NET_ADD] = {shape_several, 2, NET_MOST_INPUTS},
    [NET_FLATTEN] = {shape_flatten, 1, 1}, [NET_CONCAT] = {shape_several, 2, NET_MOST_INPUTS},
    [NET_FC] = {shape_fc, 1, 1},           [NET_DROPOUT] = {shape_same, 1, 1},
};

/* Whether a b is at most `most`; both are at least 1. */
static bool fits(int64_t a, int64_t b, int64_t most, int64_t *product) {
    return !__builtin_mul_overflow(a, b, product) && *product <= most;
}

static ebb_status check_counts(const net_model *net, const net_layer *layer) {
    const net_shape *out = &layer->out;
    net_param params[NET_MOST_PARAMS];
    int64_t count = 1, pixels = (int64_t)out->high * out->wide;
    if (!fits(pixels, out->channels, NET_MOST_ELEMENTS, &count)) {
        return ebb__net_wrong(net, "layer '%s': a map of %s has more than %" PRId64 " elements",
                              layer->name, show(out).text, NET_MOST_ELEMENTS);
    }
    if (ebb__net_params(net, layer, params) == 0) {
        return EBB_OK;
    }
    count = 1;
    for (int32_t i = 0; i < params[0].rank; i++) {
        if (!fits(count, params[0].dim[i], NET_MOST_WEIGHTS, &count)) {
            return ebb__net_wrong(net, "layer '%s': more than %" PRId64 " weights", layer->name,
                                  NET_MOST_WEIGHTS);
        }
    }
    return fits(count, pixels, NET_MOST_MADDS, &count)
               ? EBB_OK
               : ebb__net_wrong(net, "layer '%s': more than %" PRId64 " multiply-adds an image",
                                layer->name, NET_MOST_MADDS);
}

ebb_status ebb__net_input(net_model *net, int32_t channels, int32_t high, int32_t wide) {
    net_shape out = {channels, high, wide, false};
    int64_t pixels = (int64_t)high * wide, count = 0;
    if (channels < 1 || high < 1 || wide < 1 || channels > NET_MOST_SIZE || high > NET_MOST_SIZE ||
        wide > NET_MOST_SIZE || !fits(pixels, channels, NET_MOST_ELEMENTS, &count)) {
        return ebb__net_wrong(net, "an image of %s: each must be in 1..%d, all at most %" PRId64,
                              show(&out).text, NET_MOST_SIZE, NET_MOST_ELEMENTS);
    }
    return ebb__net_append(net, &(net_layer){.name = "input", .op = NET_INPUT, .out = out}, NULL);
}

ebb_status ebb__net_infer(const net_model *net, net_layer *layer) {
    if (layer->n_from < rules[layer->op].least_in || layer->n_from > rules[layer->op].most_in) {
        return ebb__net_wrong(
            net, "layer '%s': %s reads %" PRId32 " to %" PRId32 " layers, not %" PRId32,
            layer->name, ebb__net_op_name(layer->op), rules[layer->op].least_in,
            rules[layer->op].most_in, layer->n_from);
    }
    layer->out = *net_in_shape(net, layer);
    TRY(rules[layer->op].shape(net, layer, &layer->out));
    return check_counts(net, layer);
}
