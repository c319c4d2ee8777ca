/* net_resnet.c - residual nets: those of torchvision (the stride in a bottleneck's 3x3), and the
 * ones for small images, 6n + 2 layers deep, whose shortcut is a convolution without norm where the
 * shape changes. */
#include "model/net_build.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct stage {
    int32_t width, stride; /* of the first block */
    bool bottleneck;       /* 1x1, 3x3, 1x1 to four times the width; else 3x3, 3x3 */
    bool norm;             /* of the shortcut */
} stage;

static int32_t conv_bn(net_build *b, int32_t number, int32_t from, net_conv conv, bool relu) {
    char name[32];
    conv.no_bias = true;
    (void)snprintf(name, sizeof name, "conv%" PRId32, number);
    int32_t x = ebb__build_conv(b, name, from, conv);
    (void)snprintf(name, sizeof name, "bn%" PRId32, number);
    x = ebb__build_bn(b, name, x);
    (void)snprintf(name, sizeof name, "relu%" PRId32, number);
    return relu ? ebb__build_plain(b, name, x, NET_RELU) : x;
}

static int32_t shortcut(net_build *b, int32_t from, const stage *s, int32_t outputs,
                        int32_t stride) {
    net_conv conv = net_square(outputs, 1, stride, 0);
    conv.no_bias = true;
    int32_t x = ebb__build_conv(b, "downsample.0", from, conv);
    return s->norm ? ebb__build_bn(b, "downsample.1", x) : x;
}

static int32_t block(net_build *b, int32_t from, const stage *s, int32_t stride) {
    int32_t outputs = s->bottleneck ? 4 * s->width : s->width, x = from;
    if (s->bottleneck) {
        x = conv_bn(b, 1, x, net_square(s->width, 1, 1, 0), true);
        x = conv_bn(b, 2, x, net_square(s->width, 3, stride, 1), true);
        x = conv_bn(b, 3, x, net_square(outputs, 1, 1, 0), false);
    } else {
        x = conv_bn(b, 1, x, net_square(s->width, 3, stride, 1), true);
        x = conv_bn(b, 2, x, net_square(outputs, 3, 1, 1), false);
    }
    bool same = stride == 1 && b->net->layers[from].out.channels == outputs;
    int32_t other = same ? from : shortcut(b, from, s, outputs, stride);
    x = ebb__build_join(b, "add", NET_ADD, (int32_t[]){x, other}, 2);
    return ebb__build_plain(b, "relu", x, NET_RELU);
}

/* Blocks layer<number>.0, layer<number>.1, ... */
static int32_t blocks(net_build *b, int32_t from, int32_t number, int32_t count, const stage *s) {
    char in[48];
    int32_t x = from;
    b->in = in;
    for (int32_t i = 0; i < count && b->status == EBB_OK; i++) {
        (void)snprintf(in, sizeof in, "layer%" PRId32 ".%" PRId32 ".", number, i);
        x = block(b, x, s, i == 0 ? s->stride : 1);
    }
    b->in = NULL;
    return x;
}

void ebb__build_resnet(net_build *b, int32_t depth) {
    static const struct {
        int32_t depth, blocks[4];
        bool bottleneck;
    } forms[] = {{18, {2, 2, 2, 2}, false},
                 {34, {3, 4, 6, 3}, false},
                 {50, {3, 4, 6, 3}, true},
                 {101, {3, 4, 23, 3}, true},
                 {152, {3, 8, 36, 3}, true}};
    size_t form = 0;
    while (forms[form].depth != depth) {
        form++;
    }
    int32_t x = conv_bn(b, 1, 0, net_square(64, 7, 2, 3), true);
    x = ebb__build_pool(b, "maxpool", x, NET_MAXPOOL,
                        (net_numbers){.high = 3, .wide = 3, .stride = 2, .pad_y = 1, .pad_x = 1});
    for (int32_t i = 0; i < 4; i++) {
        stage s = {64 << i, i == 0 ? 1 : 2, forms[form].bottleneck, true};
        x = blocks(b, x, i + 1, forms[form].blocks[i], &s);
    }
    ebb__build_head(b, x, 0);
}

void ebb__build_resnet_cifar(net_build *b, int32_t depth) {
    int32_t x = conv_bn(b, 1, 0, net_square(16, 3, 1, 1), true);
    for (int32_t i = 0; i < 3; i++) {
        stage s = {16 << i, i == 0 ? 1 : 2, false, false};
        x = blocks(b, x, i + 1, (depth - 2) / 6, &s);
    }
    ebb__build_head(b, x, 0);
}
