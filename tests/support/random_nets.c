/* random_nets.c - see random.h. */
#include "support/random.h"

#include "model/cnn.h"

#include <stdio.h>

enum { MOST_LAYERS = 12, CLASSES = 5 };

typedef struct drawer {
    net_model *net;
    test_dice *dice;
    int32_t maps[MOST_LAYERS + 2]; /* layers that anything may read */
    int32_t n_maps, n_names;
} drawer;

static int32_t roll(drawer *d, int32_t n) {
    return test_below(d->dice, n);
}

/* Adds a layer that reads some; false, and nothing else: they do not fit. */
static bool add(drawer *d, net_op op, const net_numbers *n, const int32_t *from, int32_t n_from) {
    char name[16];
    (void)snprintf(name, sizeof name, "l%d", d->n_names++);
    if (ebb__net_add(d->net, name, op, n, from, n_from) != EBB_OK) {
        ebb__ctx_clear(d->net->ctx);
        return false;
    }
    return true;
}

static void add_map(drawer *d, net_op op, const net_numbers *n, const int32_t *from,
                    int32_t n_from) {
    if (d->n_maps < MOST_LAYERS && add(d, op, n, from, n_from)) {
        d->maps[d->n_maps++] = d->net->n_layers - 1;
    }
}

/* One of three is leaky. */
static net_numbers draw_relu(drawer *d) {
    net_numbers n = ebb__net_usual(NET_RELU);
    n.slope = roll(d, 3) == 0 ? 0.1 : 0;
    return n;
}

static void draw_conv(drawer *d, int32_t from) {
    static const int32_t outputs[] = {1, 3, 8, 16, 24, 40, 64};
    static const int32_t windows[] = {1, 1, 2, 3, 3, 5};
    net_numbers n = ebb__net_usual(NET_CONV);
    n.outputs = outputs[roll(d, 7)];
    n.high = n.wide = windows[roll(d, 6)];
    n.wide = roll(d, 5) == 0 ? 1 : n.wide;
    n.stride = 1 + roll(d, 8) / 6;
    n.pad_y = roll(d, n.high);
    n.pad_x = roll(d, n.wide);
    n.groups = roll(d, 4) == 0 ? 2 : 1;
    n.no_bias = roll(d, 2) == 0;
    add_map(d, NET_CONV, &n, &from, 1);
    if (roll(d, 2) == 0) {
        net_numbers relu = draw_relu(d);
        add_map(d, NET_RELU, &relu, &d->maps[d->n_maps - 1], 1);
    }
}

static void draw_pool(drawer *d, int32_t from) {
    net_op op = roll(d, 3) > 0 ? NET_MAXPOOL : NET_AVGPOOL;
    net_numbers n = ebb__net_usual(op);
    n.high = n.wide = 2 + roll(d, 2);
    n.stride = 1 + roll(d, 2);
    n.pad_y = n.pad_x = roll(d, 2);
    n.ceil = roll(d, 2) == 0;
    add_map(d, op, &n, &from, 1);
}

/* A sum, or a join, of this map and another that fits. */
static void draw_join(drawer *d, int32_t from) {
    net_op op = roll(d, 2) == 0 ? NET_ADD : NET_CONCAT;
    int32_t both[2] = {from, d->maps[roll(d, d->n_maps)]};
    if (both[0] != both[1]) {
        net_numbers n = ebb__net_usual(op);
        add_map(d, op, &n, both, 2);
    }
}

static void draw_layer(drawer *d) {
    /* Mostly chains, as nets are. */
    int32_t from = d->maps[roll(d, 3) > 0 ? d->n_maps - 1 : roll(d, d->n_maps)];
    static const net_op plain[] = {NET_RELU, NET_RELU, NET_BN, NET_LRN, NET_DROPOUT};
    int32_t kind = roll(d, 10);
    if (kind < 4) {
        draw_conv(d, from);
    } else if (kind < 5) {
        draw_pool(d, from);
    } else if (kind < 7) {
        draw_join(d, from);
    } else {
        net_op op = plain[roll(d, 5)];
        net_numbers n = op == NET_RELU ? draw_relu(d) : ebb__net_usual(op);
        n.rate = op == NET_DROPOUT ? 0.3 : n.rate;
        n.size = op == NET_LRN ? 1 + roll(d, 5) : n.size;
        if (op != NET_BN || roll(d, 2) == 0) {
            add_map(d, op, &n, &from, 1);
        }
    }
}

static void draw_end(drawer *d) {
    int32_t from = d->maps[d->n_maps - 1];
    net_numbers n = ebb__net_usual(NET_FC);
    n.outputs = CLASSES;
    if (roll(d, 2) == 0) {
        net_numbers gap = ebb__net_usual(NET_GAP);
        assert_true(add(d, NET_GAP, &gap, &from, 1));
    } else if (d->net->n_layers - 1 != from) {
        net_numbers relu = ebb__net_usual(NET_RELU);
        assert_true(add(d, NET_RELU, &relu, &from, 1));
    }
    net_numbers flat = ebb__net_usual(NET_FLATTEN);
    assert_true(add(d, NET_FLATTEN, &flat, NULL, 0));
    assert_true(add(d, NET_FC, &n, NULL, 0));
}

int32_t test_random_net(ebb_ctx *ctx, test_dice *dice, bool training, ir_graph *g) {
    static const int64_t batches[] = {1, 3, 4, 7, 8, 9, 12, 16, 16, 24, 32};
    net_model net;
    drawer d = {.net = &net, .dice = dice, .n_maps = 1};
    ebb__net_init(&net, ctx);
    assert_ok(ctx, ebb__net_input(&net, 1 + roll(&d, 4), 3 + roll(&d, 5), 3 + roll(&d, 5)));
    for (int32_t i = 0, n = 1 + roll(&d, MOST_LAYERS); i < n; i++) {
        draw_layer(&d);
    }
    draw_end(&d);
    cnn_model model = {.net = &net,
                       .batch = batches[roll(&d, 11)],
                       .train = training,
                       .dropout = -1,
                       .seed = test_roll(dice)};
    model.lanes = roll(&d, 3) == 0 ? 1 : model.batch % 2 == 0 && roll(&d, 3) == 0 ? 2 : 0;
    ebb__op_graph_init(g, ctx);
    assert_ok(ctx, ebb__cnn_build(g, &model));
    ebb__net_fini(&net);
    int32_t shards = 1 + roll(&d, 6);
    return model.batch % shards == 0 ? shards : 1;
}
