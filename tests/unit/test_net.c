/* test_net.c - a list of layers: shapes by PyTorch's formulas, counts, what does not meet. */
#include "net_help.h"

static void start(help_room *room, net_model *net, int32_t channels, int32_t high, int32_t wide) {
    ebb__net_init(net, room->ctx);
    help_ok(room->ctx, ebb__net_input(net, channels, high, wide));
}

static ebb_status add(net_model *net, const char *name, net_op op, net_numbers n) {
    return ebb__net_add(net, name, op, &n, NULL, 0);
}

/* ---- shapes ---- */

/* How many windows there are, found by walking along the padded axis as PyTorch says it: the last
 * one of ceil mode may reach beyond the end, but begins inside the axis or its left padding. */
static int32_t walk(int32_t length, int32_t size, int32_t stride, int32_t pad, bool ceil) {
    int32_t count = 0;
    for (int32_t at = -pad; at < length + pad; at += stride) {
        bool whole = at + size <= length + pad;
        bool enough = at - stride + size < length + pad; /* the one before did not end all */
        count += whole || (ceil && enough && at < length);
    }
    return count;
}

static void windows_are_counted(void **state) {
    help_room *room = *state;
    int checked = 0;
    for (int32_t i = 0; i < 4 * 12 * 5 * 4 * 3; i++) {
        int32_t length = 1 + i % 12, size = 1 + i / 12 % 5, stride = 1 + i / 60 % 4;
        int32_t pad = i / 240 % 3, form = i / 720 % 4;
        bool pool = form >= 2, ceil = form == 3;
        if (size > length + 2 * pad || (pool && 2 * pad > size)) {
            continue;
        }
        net_model net;
        start(room, &net, 3, length, 20);
        net_numbers n = {.outputs = pool ? 0 : 4,
                         .high = size,
                         .wide = 1,
                         .stride = stride,
                         .pad_y = pad,
                         .groups = pool ? 0 : 1,
                         .ceil = ceil};
        help_ok(room->ctx, add(&net, "x", pool ? NET_MAXPOOL : NET_CONV, n));
        help_shape(&net, "x", pool ? 3 : 4, walk(length, size, stride, pad, ceil),
                   walk(20, 1, stride, 0, ceil));
        ebb__net_fini(&net);
        checked++;
    }
    assert_true(checked > 1000);
}

/* Known from PyTorch itself. */
static void shapes_and_counts(void **state) {
    help_room *room = *state;
    net_model net;
    net_numbers usual = {0};
    start(room, &net, 3, 9, 12);
    help_ok(room->ctx,
            add(&net, "c", NET_CONV,
                (net_numbers){
                    .outputs = 6, .high = 1, .wide = 7, .stride = 2, .pad_x = 3, .groups = 3}));
    help_shape(&net, "c", 6, 5, 6);
    assert_int_equal(ebb__net_weights(&net, help_layer(&net, "c")), 6 * 1 * 7 + 6);
    assert_int_equal(ebb__net_madds(&net, help_layer(&net, "c")), 6 * 7 * 30);
    help_ok(room->ctx, add(&net, "b", NET_BN, ebb__net_usual(NET_BN)));
    assert_int_equal(ebb__net_weights(&net, help_layer(&net, "b")), 12);
    assert_int_equal(ebb__net_madds(&net, help_layer(&net, "b")), 0);
    help_ok(room->ctx, add(&net, "p", NET_AVGPOOL, (net_numbers){.high = 2, .wide = 2}));
    help_shape(&net, "p", 6, 2, 3);
    assert_int_equal(help_layer(&net, "p")->n.stride, 2);
    help_ok(room->ctx, ebb__net_add(&net, "j", NET_CONCAT, &usual, (int32_t[]){3, 3, 3}, 3));
    help_shape(&net, "j", 18, 2, 3);
    help_ok(room->ctx, ebb__net_add(&net, "a", NET_ADD, &usual, (int32_t[]){4, 4}, 2));
    help_shape(&net, "a", 18, 2, 3);
    help_ok(room->ctx, add(&net, "l", NET_LRN, ebb__net_usual(NET_LRN)));
    help_ok(room->ctx, add(&net, "f", NET_FLATTEN, usual));
    help_shape(&net, "f", 108, 1, 1);
    help_ok(room->ctx, add(&net, "o", NET_FC, (net_numbers){.outputs = 10, .no_bias = true}));
    assert_int_equal(ebb__net_weights(&net, help_layer(&net, "o")), 1080);
    help_ok(room->ctx, ebb__net_finish(&net));
    assert_int_equal(net_classes(&net), 10);
    assert_int_equal(net_elements(&help_layer(&net, "c")->out), 180);
    ebb__net_fini(&net);
}

static void parameters(void **state) {
    help_room *room = *state;
    net_model net;
    net_param p[NET_MOST_PARAMS];
    start(room, &net, 4, 5, 5);
    help_ok(room->ctx,
            add(&net, "c", NET_CONV,
                (net_numbers){.outputs = 6, .high = 2, .wide = 3, .stride = 1, .groups = 2}));
    assert_int_equal(ebb__net_params(&net, &net.layers[1], p), 2);
    assert_string_equal(p[0].suffix, "weight");
    assert_int_equal(p[0].rank, 4);
    assert_memory_equal(p[0].dim, ((int32_t[]){6, 2, 2, 3}), sizeof p[0].dim);
    assert_string_equal(p[1].suffix, "bias");
    assert_int_equal(ebb__net_param_elements(&p[1]), 6);
    help_ok(room->ctx, add(&net, "b", NET_BN, ebb__net_usual(NET_BN)));
    assert_int_equal(ebb__net_params(&net, &net.layers[2], p), 4);
    assert_string_equal(p[3].suffix, "running_var");
    assert_true(p[1].trained && !p[2].trained && !p[3].trained);
    assert_int_equal(ebb__net_params(&net, &net.layers[0], p), 0);
    ebb__net_fini(&net);
}

/* ---- what does not meet ---- */

static void wrong_layers(void **state) {
    help_room *room = *state;
    static const struct {
        net_op op;
        net_numbers n;
        int32_t n_from, from[3];
        const char *says;
    } cases[] = {
        {NET_MAXPOOL,
         {.high = 7, .wide = 7},
         0,
         {0},
         "'x': a window of 7x7 is larger than its map of 6x6"},
        {NET_CONV,
         {.outputs = 4, .high = 9, .wide = 1, .stride = 1, .pad_y = 1, .groups = 1},
         0,
         {0},
         "9x1 is larger"},
        {NET_CONV,
         {.outputs = 4, .high = 1, .wide = 1, .stride = 1, .groups = 3},
         0,
         {0},
         "'x': 3 groups do not divide its 4 input"},
        {NET_CONV,
         {.outputs = 3, .high = 1, .wide = 1, .stride = 1, .groups = 2},
         0,
         {0},
         "and 3 output channels"},
        {NET_CONV,
         {.outputs = 4, .high = 1, .wide = 1, .groups = 1},
         0,
         {0},
         "'x': stride 0 is not in 1..1024"},
        {NET_CONV,
         {.outputs = 4, .high = 1, .wide = 1, .stride = 1, .groups = 1},
         1,
         {3},
         "conv needs a map, but 'flat' gives 144 numbers"},
        {NET_BN, {.eps = 0.1, .momentum = 0.1}, 1, {3}, "bn needs a map"},
        {NET_BN, {.eps = -1}, 0, {0}, "eps -1 is not in"},
        {NET_MAXPOOL,
         {.high = 3, .wide = 3, .pad_y = 2, .pad_x = 2},
         0,
         {0},
         "more than half of its window"},
        {NET_MAXPOOL, {.high = 3, .wide = 2}, 0, {0}, "give a stride"},
        {NET_ADD, {0}, 2, {1, 2}, "'x': add of 4x6x6 ('body') and 2x6x6 ('side'), which differ"},
        {NET_ADD, {0}, 2, {1, 3}, "add of 4x6x6 ('body') and 144 numbers ('flat')"},
        {NET_ADD, {0}, 1, {1}, "add reads 2 to 1024 layers, not 1"},
        {NET_RELU, {0}, 2, {1, 1}, "relu reads 1 to 1 layers, not 2"},
        {NET_CONCAT,
         {0},
         2,
         {1, 0},
         "concat of 4x6x6 ('body') and 4x8x8 ('input'), which differ in rows or columns"},
        {NET_FC, {.outputs = 3}, 1, {1}, "'x': fc reads a map of 4x6x6; put flatten before it"},
        {NET_FC, {.outputs = 0}, 1, {3}, "outputs 0 is not in"},
        {NET_FLATTEN, {0}, 1, {3}, "flatten needs a map, but 'flat' gives 144 numbers"},
        {NET_DROPOUT, {.rate = 1}, 0, {0}, "rate 1 is not in 0..0.99"},
        {NET_CONV,
         {.outputs = 1 << 24,
          .high = 1,
          .wide = 1,
          .stride = 1,
          .pad_y = 1000,
          .pad_x = 1000,
          .groups = 1},
         1,
         {1},
         "more than 2147483648 elements"},
    };
    net_model net;
    start(room, &net, 4, 8, 8);
    net_numbers three = {.outputs = 4, .high = 3, .wide = 3, .stride = 1, .groups = 1};
    net_numbers two = {.outputs = 2, .high = 3, .wide = 3, .stride = 1, .groups = 1};
    help_ok(room->ctx, add(&net, "body", NET_CONV, three));
    help_ok(room->ctx, ebb__net_add(&net, "side", NET_CONV, &two, (int32_t[]){0}, 1));
    help_ok(room->ctx,
            ebb__net_add(&net, "flat", NET_FLATTEN, &(net_numbers){0}, (int32_t[]){1}, 1));
    help_ok(room->ctx, ebb__net_add(&net, "last", NET_RELU, &(net_numbers){0}, (int32_t[]){1}, 1));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        help_expect(
            room->ctx,
            ebb__net_add(&net, "x", cases[i].op, &cases[i].n, cases[i].from, cases[i].n_from),
            EBB_USAGE, cases[i].says);
        assert_int_equal(net.n_layers, 5); /* and the net is as it was */
    }
    net.place = (net_place){"my.net", 12, EBB_DATA};
    help_expect(room->ctx, add(&net, "body", NET_RELU, (net_numbers){0}), EBB_DATA,
                "my.net:12: layer 'body': the name is used already");
    help_expect(room->ctx, add(&net, "a b", NET_RELU, (net_numbers){0}), EBB_DATA,
                "'a b' is no name");
    help_expect(room->ctx, add(&net, "", NET_RELU, (net_numbers){0}), EBB_DATA, "is no name");
    ebb__net_fini(&net);
}

static void wrong_ends(void **state) {
    help_room *room = *state;
    net_model net;
    ebb__net_init(&net, room->ctx);
    help_expect(room->ctx, ebb__net_finish(&net), EBB_USAGE, "no layers");
    help_expect(room->ctx, add(&net, "r", NET_RELU, (net_numbers){0}), EBB_USAGE, "no input");
    help_expect(room->ctx, ebb__net_input(&net, 3, 0, 1), EBB_USAGE, "an image of 3x0x1");
    help_expect(room->ctx, ebb__net_input(&net, 1 << 24, 1 << 24, 1 << 24), EBB_USAGE, "an image");
    help_ok(room->ctx, ebb__net_input(&net, 3, 4, 4));
    help_expect(room->ctx, ebb__net_finish(&net), EBB_USAGE, "no layers");
    help_ok(room->ctx, add(&net, "lost", NET_RELU, (net_numbers){0}));
    help_expect(room->ctx, ebb__net_finish(&net), EBB_USAGE, "ends with a map of 3x4x4 ('lost')");
    help_ok(room->ctx, ebb__net_add(&net, "f", NET_FLATTEN, &(net_numbers){0}, (int32_t[]){0}, 1));
    help_expect(room->ctx, ebb__net_finish(&net), EBB_USAGE, "no layer reads 'lost'");
    ebb__net_fini(&net);
}

static void weights_have_a_bound(void **state) {
    help_room *room = *state;
    net_model net;
    start(room, &net, 1, 1, 1);
    net_numbers wide = {.outputs = 1 << 24, .high = 1, .wide = 1, .stride = 1, .groups = 1};
    help_ok(room->ctx, add(&net, "a", NET_CONV, wide));
    help_expect(room->ctx, add(&net, "b", NET_CONV, wide), EBB_USAGE,
                "'b': more than 1099511627776 weights");
    ebb__net_fini(&net);
    start(room, &net, 1024, 1000, 1000);
    net_numbers slow = {
        .outputs = 1024, .high = 11, .wide = 11, .stride = 1, .pad_y = 5, .pad_x = 5, .groups = 1};
    help_expect(room->ctx, add(&net, "c", NET_CONV, slow), EBB_USAGE, "multiply-adds an image");
    ebb__net_fini(&net);
}

/* A million layers end at the bound, in bounded memory. */
static void a_million_layers(void **state) {
    help_room *room = *state;
    net_model net;
    ebb_status status = EBB_OK;
    int32_t added = 0;
    start(room, &net, 3, 4, 4);
    while (status == EBB_OK && added < 1000000) {
        char name[32];
        (void)snprintf(name, sizeof name, "relu%d", added);
        status = add(&net, name, NET_RELU, (net_numbers){0});
        added += status == EBB_OK;
    }
    assert_int_equal(added, NET_MOST_LAYERS - 1);
    help_expect(room->ctx, status, EBB_USAGE, "more than 65535 layers");
    assert_true(room->ctx->mem.peak_bytes < UINT64_C(64) << 20);
    ebb__net_fini(&net);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(windows_are_counted, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(shapes_and_counts, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(parameters, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(wrong_layers, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(wrong_ends, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(weights_have_a_bound, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(a_million_layers, help_setup, help_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
