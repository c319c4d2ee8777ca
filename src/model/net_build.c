/* net_build.c - see net_build.h. */
#include "model/net_build.h"

#include <stdio.h>

static int32_t add(net_build *b, const char *name, net_op op, const net_numbers *n,
                   const int32_t *from, int32_t n_from) {
    char whole[NET_MOST_NAME + 1];
    if (b->status != EBB_OK) {
        return 0;
    }
    (void)snprintf(whole, sizeof whole, "%s%s", b->in != NULL ? b->in : "", name);
    b->status = ebb__net_add(b->net, whole, op, n, from, n_from);
    return b->net->n_layers - 1;
}

int32_t ebb__build_conv(net_build *b, const char *name, int32_t from, net_conv conv) {
    bool half = conv.pad == NET_HALF;
    net_numbers n = {.outputs = conv.outputs,
                     .high = conv.high,
                     .wide = conv.wide,
                     .stride = conv.stride,
                     .pad_y = half ? (conv.high - 1) / 2 : conv.pad,
                     .pad_x = half ? (conv.wide - 1) / 2 : conv.pad,
                     .groups = conv.groups,
                     .no_bias = conv.no_bias};
    return add(b, name, NET_CONV, &n, &from, 1);
}

int32_t ebb__build_bn(net_build *b, const char *name, int32_t from) {
    net_numbers n = ebb__net_usual(NET_BN);
    n.eps = b->eps;
    return add(b, name, NET_BN, &n, &from, 1);
}

int32_t ebb__build_pool(net_build *b, const char *name, int32_t from, net_op op, net_numbers pool) {
    return add(b, name, op, &pool, &from, 1);
}

int32_t ebb__build_plain(net_build *b, const char *name, int32_t from, net_op op) {
    return add(b, name, op, &(net_numbers){0}, &from, 1);
}

int32_t ebb__build_join(net_build *b, const char *name, net_op op, const int32_t *from, int32_t n) {
    return add(b, name, op, &(net_numbers){0}, from, n);
}

int32_t ebb__build_lrn(net_build *b, const char *name, int32_t from, double k) {
    net_numbers n = ebb__net_usual(NET_LRN);
    n.k = k;
    return add(b, name, NET_LRN, &n, &from, 1);
}

int32_t ebb__build_fc(net_build *b, const char *name, int32_t from, int32_t outputs) {
    net_numbers n = {.outputs = outputs};
    return add(b, name, NET_FC, &n, &from, 1);
}

int32_t ebb__build_dropout(net_build *b, const char *name, int32_t from, double rate) {
    net_numbers n = {.rate = rate};
    return add(b, name, NET_DROPOUT, &n, &from, 1);
}

void ebb__build_head(net_build *b, int32_t from, double rate) {
    int32_t x = ebb__build_plain(b, "avgpool", from, NET_GAP);
    x = ebb__build_plain(b, "flatten", x, NET_FLATTEN);
    x = rate > 0 ? ebb__build_dropout(b, "dropout", x, rate) : x;
    (void)ebb__build_fc(b, "fc", x, b->classes);
}
