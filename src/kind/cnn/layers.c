/* layers.c - the layers of a net for tables: what each is, in a few words, and how much of it. */
#include "kind/cnn/cnn.h"

#include <inttypes.h>
#include <stdio.h>

/* How a window is told: "3", or "1x7" if it is not square, and the stride if there is one. */
static void put_window(const net_numbers *n, char *to, size_t bytes) {
    int used = n->high == n->wide ? snprintf(to, bytes, " %" PRId32, n->high)
                                  : snprintf(to, bytes, " %" PRId32 "x%" PRId32, n->high, n->wide);
    if (n->stride > 1 && used > 0 && (size_t)used < bytes) {
        (void)snprintf(to + used, bytes - (size_t)used, " stride %" PRId32, n->stride);
    }
}

/* Outputs and padding show in the shape. */
static void put_what(const net_layer *layer, kind_layer *out) {
    const net_numbers *n = &layer->n;
    char more[40] = "", groups[24] = "";
    switch (layer->op) {
    case NET_CONV:
    case NET_MAXPOOL:
    case NET_AVGPOOL:
        put_window(n, more, sizeof more);
        break;
    case NET_LRN:
        (void)snprintf(more, sizeof more, " %" PRId32, n->size);
        break;
    case NET_DROPOUT:
        (void)snprintf(more, sizeof more, " %.3g", n->rate);
        break;
    default:
        break;
    }
    if (n->groups > 1) {
        (void)snprintf(groups, sizeof groups, " groups %" PRId32, n->groups);
    }
    (void)snprintf(out->what, sizeof out->what, "%s%s%s", ebb__net_op_name(layer->op), more,
                   groups);
}

/* Layers that only change numbers one by one, of what stands right before them. */
static bool follows(const net_model *net, int32_t i) {
    const net_layer *layer = &net->layers[i];
    bool pointwise = layer->op == NET_BN || layer->op == NET_RELU || layer->op == NET_DROPOUT ||
                     layer->op == NET_FLATTEN;
    return pointwise && i > 1 && net_in(net, layer, 0) == i - 1;
}

/* Products are two operations each tap; a window's comparison or sum is one, and so is whatever
 * else is done with a number. */
static double flops_of(const net_model *net, const net_layer *layer) {
    double made = (double)net_elements(&layer->out), madds = (double)ebb__net_madds(net, layer);
    switch (layer->op) {
    case NET_INPUT:
    case NET_FLATTEN:
    case NET_CONCAT:
        return 0;
    case NET_MAXPOOL:
    case NET_AVGPOOL:
        return made * layer->n.high * layer->n.wide;
    case NET_GAP:
        return (double)net_elements(net_in_shape(net, layer));
    case NET_LRN:
        return made * (2 * layer->n.size + 3);
    case NET_BN:
        return 2 * made;
    default:
        return madds > 0 ? 2 * madds : made;
    }
}

static ebb_status put_layer(const net_model *net, int32_t i, alloc_region *region,
                            kind_layer *out) {
    const net_layer *layer = &net->layers[i];
    char *name = NULL;
    TRY(ebb__region_strdup(region, i == 0 ? CNN_DATA_LAYER : layer->name, &name));
    *out = (kind_layer){.name = name,
                        .rank = layer->out.flat ? 1 : 3,
                        .dim = {layer->out.channels, layer->out.high, layer->out.wide},
                        .parameters = ebb__net_weights(net, layer),
                        .flops = flops_of(net, layer),
                        .follows = i > 0 && follows(net, i)};
    put_what(layer, out);
    return EBB_OK;
}

ebb_status ebb__cnn_layers(const train_settings *s, alloc_region *region, kind_layer **out,
                           int32_t *n) {
    net_model net;
    ebb_status status;
    ebb__net_init(&net, region->ctx);
    TRY_OUT(ebb__cnn_net(s, &net));
    TRY_OUT(ebb__region_alloc(region, (size_t)net.n_layers, sizeof **out, out));
    for (int32_t i = 0; i < net.n_layers; i++) {
        TRY_OUT(put_layer(&net, i, region, &(*out)[i]));
    }
    *n = net.n_layers;
out:
    ebb__net_fini(&net);
    return status;
}
