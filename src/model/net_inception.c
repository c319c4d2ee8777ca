/* net_inception.c - nets of branches that are joined along channels: GoogLeNet as published (local
 * response normalisation), torchvision's form of it with batch norm, and Inception v3. */
#include "model/net_build.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Convolution, norm if the net has it, relu. With norm the layers are <name>.conv, .bn and .relu,
 * as in torchvision's BasicConv2d; else <name> and <name>.relu. */
static int32_t unit(net_build *b, const char *name, int32_t from, net_conv conv) {
    char whole[64];
    bool bn = b->eps > 0;
    conv.no_bias = bn;
    (void)snprintf(whole, sizeof whole, "%s%s", name, bn ? ".conv" : "");
    int32_t x = ebb__build_conv(b, whole, from, conv);
    (void)snprintf(whole, sizeof whole, "%s.bn", name);
    x = bn ? ebb__build_bn(b, whole, x) : x;
    (void)snprintf(whole, sizeof whole, "%s.relu", name);
    return ebb__build_plain(b, whole, x, NET_RELU);
}

static int32_t square(net_build *b, const char *name, int32_t from, int32_t outputs, int32_t size) {
    return unit(b, name, from, net_square(outputs, size, 1, NET_HALF));
}

/* ---- GoogLeNet ---- */

typedef struct inception {
    const char *name; /* "p" and a number: a pool */
    int32_t one, three_in, three, five_in, five, pool;
} inception;

static const inception modules[] = {
    {"inception3a.", 64, 96, 128, 16, 32, 32},
    {"inception3b.", 128, 128, 192, 32, 96, 64},
    {"maxpool3", 0, 0, 0, 0, 0, 0},
    {"inception4a.", 192, 96, 208, 16, 48, 64},
    {"inception4b.", 160, 112, 224, 24, 64, 64},
    {"inception4c.", 128, 128, 256, 24, 64, 64},
    {"inception4d.", 112, 144, 288, 32, 64, 64},
    {"inception4e.", 256, 160, 320, 32, 128, 128},
    {"maxpool4", 0, 0, 0, 0, 0, 0},
    {"inception5a.", 256, 160, 320, 32, 128, 128},
    {"inception5b.", 384, 192, 384, 48, 128, 128},
};

static int32_t pool_ceil(net_build *b, const char *name, int32_t from, int32_t size) {
    net_numbers n = {.high = size, .wide = size, .stride = 2, .ceil = true};
    return ebb__build_pool(b, name, from, NET_MAXPOOL, n);
}

static int32_t mix(net_build *b, int32_t from, const inception *m) {
    int32_t end[4], x;
    bool bn = b->eps > 0; /* torchvision's third branch has windows of 3x3 */
    net_numbers pool = {.high = 3, .wide = 3, .stride = 1, .pad_y = 1, .pad_x = 1, .ceil = true};
    b->in = m->name;
    end[0] = square(b, "branch1", from, m->one, 1);
    x = square(b, "branch2.0", from, m->three_in, 1);
    end[1] = square(b, "branch2.1", x, m->three, 3);
    x = square(b, "branch3.0", from, m->five_in, 1);
    end[2] = square(b, "branch3.1", x, m->five, bn ? 3 : 5);
    x = ebb__build_pool(b, "branch4.0", from, NET_MAXPOOL, pool);
    end[3] = square(b, "branch4.1", x, m->pool, 1);
    x = ebb__build_join(b, "concat", NET_CONCAT, end, 4);
    b->in = NULL;
    return x;
}

void ebb__build_googlenet(net_build *b, int32_t with_bn) {
    b->eps = with_bn ? 1e-3 : 0;
    int32_t x = unit(b, "conv1", 0, net_square(64, 7, 2, 3));
    x = pool_ceil(b, "maxpool1", x, 3);
    x = with_bn ? x : ebb__build_lrn(b, "lrn1", x, 1);
    x = square(b, "conv2", x, 64, 1);
    x = square(b, "conv3", x, 192, 3);
    x = with_bn ? x : ebb__build_lrn(b, "lrn2", x, 1);
    x = pool_ceil(b, "maxpool2", x, 3);
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        bool last_pool = strcmp(modules[i].name, "maxpool4") == 0;
        x = modules[i].one > 0 ? mix(b, x, &modules[i])
                               : pool_ceil(b, modules[i].name, x, last_pool && with_bn ? 2 : 3);
    }
    ebb__build_head(b, x, with_bn ? 0.2 : 0.4);
}

/* ---- Inception v3: a module is a table of units, each reading the module's input or another ----
 */

enum { IN = -1, MEAN = -2, MAX = -3 }; /* what comes in; its mean or maximum over 3x3 */
typedef struct unit_row {
    const char *name; /* NULL: no convolution, only what `from` says */
    int32_t from;     /* row of this table, or the above */
    int32_t outputs;  /* 0: the module's own number */
    int32_t high, wide, stride;
    bool end; /* joined at the end, in the order of the table */
} unit_row;
enum { MOST_ROWS = 11 };
typedef struct mixed {
    unit_row rows[MOST_ROWS];
} mixed;

static const mixed mixed_a = {{{"branch1x1", IN, 64, 1, 1, 1, true},
                               {"branch5x5_1", IN, 48, 1, 1, 1, false},
                               {"branch5x5_2", 1, 64, 5, 5, 1, true},
                               {"branch3x3dbl_1", IN, 64, 1, 1, 1, false},
                               {"branch3x3dbl_2", 3, 96, 3, 3, 1, false},
                               {"branch3x3dbl_3", 4, 96, 3, 3, 1, true},
                               {"branch_pool", MEAN, 0, 1, 1, 1, true}}};
static const mixed mixed_b = {{{"branch3x3", IN, 384, 3, 3, 2, true},
                               {"branch3x3dbl_1", IN, 64, 1, 1, 1, false},
                               {"branch3x3dbl_2", 1, 96, 3, 3, 1, false},
                               {"branch3x3dbl_3", 2, 96, 3, 3, 2, true},
                               {NULL, MAX, 0, 0, 0, 0, true}}};
static const mixed mixed_c = {{{"branch1x1", IN, 192, 1, 1, 1, true},
                               {"branch7x7_1", IN, 0, 1, 1, 1, false},
                               {"branch7x7_2", 1, 0, 1, 7, 1, false},
                               {"branch7x7_3", 2, 192, 7, 1, 1, true},
                               {"branch7x7dbl_1", IN, 0, 1, 1, 1, false},
                               {"branch7x7dbl_2", 4, 0, 7, 1, 1, false},
                               {"branch7x7dbl_3", 5, 0, 1, 7, 1, false},
                               {"branch7x7dbl_4", 6, 0, 7, 1, 1, false},
                               {"branch7x7dbl_5", 7, 192, 1, 7, 1, true},
                               {"branch_pool", MEAN, 192, 1, 1, 1, true}}};
static const mixed mixed_d = {{{"branch3x3_1", IN, 192, 1, 1, 1, false},
                               {"branch3x3_2", 0, 320, 3, 3, 2, true},
                               {"branch7x7x3_1", IN, 192, 1, 1, 1, false},
                               {"branch7x7x3_2", 2, 192, 1, 7, 1, false},
                               {"branch7x7x3_3", 3, 192, 7, 1, 1, false},
                               {"branch7x7x3_4", 4, 192, 3, 3, 2, true},
                               {NULL, MAX, 0, 0, 0, 0, true}}};
static const mixed mixed_e = {{{"branch1x1", IN, 320, 1, 1, 1, true},
                               {"branch3x3_1", IN, 384, 1, 1, 1, false},
                               {"branch3x3_2a", 1, 384, 1, 3, 1, true},
                               {"branch3x3_2b", 1, 384, 3, 1, 1, true},
                               {"branch3x3dbl_1", IN, 448, 1, 1, 1, false},
                               {"branch3x3dbl_2", 4, 384, 3, 3, 1, false},
                               {"branch3x3dbl_3a", 5, 384, 1, 3, 1, true},
                               {"branch3x3dbl_3b", 5, 384, 3, 1, 1, true},
                               {"branch_pool", MEAN, 192, 1, 1, 1, true}}};

static int32_t pool_of(net_build *b, int32_t from, bool mean) {
    net_numbers n = {.high = 3, .wide = 3, .stride = mean ? 1 : 2, .pad_y = mean, .pad_x = mean};
    return ebb__build_pool(b, "pool", from, mean ? NET_AVGPOOL : NET_MAXPOOL, n);
}

static int32_t mix_rows(net_build *b, const char *in, int32_t from, const mixed *m, int32_t own) {
    int32_t made[MOST_ROWS], end[MOST_ROWS], n = 0;
    b->in = in;
    for (int32_t i = 0; i < MOST_ROWS && m->rows[i].high + m->rows[i].end > 0; i++) {
        const unit_row *row = &m->rows[i];
        int32_t x = row->from >= 0 ? made[row->from] : from;
        x = row->from < IN ? pool_of(b, x, row->from == MEAN) : x;
        /* A stride of 2 goes without padding. */
        net_conv conv = {row->outputs > 0 ? row->outputs : own, row->high, row->wide, row->stride,
                         row->stride == 1 ? NET_HALF : 0,       1,         true};
        made[i] = row->name != NULL ? unit(b, row->name, x, conv) : x;
        end[n] = made[i];
        n += row->end;
    }
    int32_t joined = ebb__build_join(b, "concat", NET_CONCAT, end, n);
    b->in = NULL;
    return joined;
}

void ebb__build_inception_v3(net_build *b, int32_t unused) {
    static const struct {
        const char *name;
        const mixed *rows;
        int32_t own;
    } list[] = {
        {"Mixed_5b.", &mixed_a, 32},  {"Mixed_5c.", &mixed_a, 64},  {"Mixed_5d.", &mixed_a, 64},
        {"Mixed_6a.", &mixed_b, 0},   {"Mixed_6b.", &mixed_c, 128}, {"Mixed_6c.", &mixed_c, 160},
        {"Mixed_6d.", &mixed_c, 160}, {"Mixed_6e.", &mixed_c, 192}, {"Mixed_7a.", &mixed_d, 0},
        {"Mixed_7b.", &mixed_e, 0},   {"Mixed_7c.", &mixed_e, 0}};
    net_numbers pool = {.high = 3, .wide = 3, .stride = 2};
    (void)unused;
    b->eps = 1e-3;
    int32_t x = unit(b, "Conv2d_1a_3x3", 0, net_square(32, 3, 2, 0));
    x = unit(b, "Conv2d_2a_3x3", x, net_square(32, 3, 1, 0));
    x = square(b, "Conv2d_2b_3x3", x, 64, 3);
    x = ebb__build_pool(b, "maxpool1", x, NET_MAXPOOL, pool);
    x = square(b, "Conv2d_3b_1x1", x, 80, 1);
    x = unit(b, "Conv2d_4a_3x3", x, net_square(192, 3, 1, 0));
    x = ebb__build_pool(b, "maxpool2", x, NET_MAXPOOL, pool);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        x = mix_rows(b, list[i].name, x, list[i].rows, list[i].own);
    }
    ebb__build_head(b, x, 0.5);
}
