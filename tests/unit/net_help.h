/* net_help.h - what tests of nets share: nets of a context of their own, layers found by name. */
#ifndef TESTS_NET_HELP_H
#define TESTS_NET_HELP_H

#include "data_help.h"

#include "model/net.h"

static inline void help_ok(ebb_ctx *ctx, ebb_status status) {
    if (status != EBB_OK) {
        fail_msg("status %d: %s", (int)status, ebb_last_error(ctx));
    }
}

static inline const net_layer *help_layer(const net_model *net, const char *name) {
    int32_t i = ebb__net_find(net, name);
    if (i < 0) {
        fail_msg("no layer '%s'", name);
    }
    return &net->layers[i];
}

static inline void help_shape(const net_model *net, const char *name, int32_t channels,
                              int32_t high, int32_t wide) {
    const net_shape *out = &help_layer(net, name)->out;
    if (out->channels != channels || out->high != high || out->wide != wide) {
        fail_msg("%s: %dx%dx%d, not %dx%dx%d", name, out->channels, out->high, out->wide, channels,
                 high, wide);
    }
}

static inline int64_t help_weights(const net_model *net) {
    int64_t sum = 0;
    for (int32_t i = 0; i < net->n_layers; i++) {
        sum += ebb__net_weights(net, &net->layers[i]);
    }
    return sum;
}

static inline int64_t help_madds(const net_model *net) {
    int64_t sum = 0;
    for (int32_t i = 0; i < net->n_layers; i++) {
        sum += ebb__net_madds(net, &net->layers[i]);
    }
    return sum;
}

#endif
