/* test_net_named.c - the named nets: numbers of parameters and multiply-adds known from outside,
 * shapes, defaults, names that are none. Layer by layer is tests/golden/test_nets.c. */
#include "net_help.h"

#include "model/net_named.h"

#include <inttypes.h>

/* Parameters: torchvision's documentation of its weights; alexnet and googlenet: Caffe's
 * models; lenet: the well-known 61,706; resnetN_cifar: 269,722, 1,727,962 and 19,421,274 of
 * widely used option A nets, which have no shortcut weights, and 16*32 + 32*64 of those. The others
 * are sums over the layers of their papers, done elsewhere. */
static const struct {
    const char *name;
    int64_t weights;
    int32_t classes;
    const char *last_map; /* and its shape */
    int32_t channels, side;
} known[] = {
    {"alexnet", 60965224, 1000, "features.14", 256, 6},
    {"alexnet_tv", 61100840, 1000, "features.12", 256, 6},
    {"nin", 7595176, 1000, "features.27", 1000, 6},
    {"overfeat", 145920872, 1000, "features.12", 1024, 6},
    {"vgg16", 138357544, 1000, "features.30", 512, 7},
    {"vgg16_bn", 138365992, 1000, "features.43", 512, 7},
    {"googlenet", 6998552, 1000, "inception5b.concat", 1024, 7},
    {"googlenet_bn", 6624904, 1000, "inception5b.concat", 1024, 7},
    {"inception_v3", 23834568, 1000, "Mixed_7c.concat", 2048, 8},
    {"resnet18", 11689512, 1000, "layer4.1.relu", 512, 7},
    {"resnet34", 21797672, 1000, "layer4.2.relu", 512, 7},
    {"resnet50", 25557032, 1000, "layer4.2.relu", 2048, 7},
    {"resnet101", 44549160, 1000, "layer4.2.relu", 2048, 7},
    {"resnet152", 60192808, 1000, "layer4.2.relu", 2048, 7},
    {"resnet20_cifar", 269722 + 2560, 10, "layer3.2.relu", 64, 8},
    {"resnet110_cifar", 1727962 + 2560, 10, "layer3.17.relu", 64, 8},
    {"resnet1202_cifar", 19421274 + 2560, 10, "layer3.199.relu", 64, 8},
    {"lenet", 61706, 10, "features.5", 16, 5},
};

static void sizes_are_known(void **state) {
    help_room *room = *state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        net_model net;
        ebb__net_init(&net, room->ctx);
        help_ok(room->ctx, ebb__net_named(&net, &(net_wish){.name = known[i].name}));
        if (help_weights(&net) != known[i].weights) {
            fail_msg("%s: %" PRId64 " parameters", known[i].name, help_weights(&net));
        }
        assert_int_equal(net_classes(&net), known[i].classes);
        help_shape(&net, known[i].last_map, known[i].channels, known[i].side, known[i].side);
        assert_true(ebb__net_is_named(known[i].name));
        ebb__net_fini(&net);
    }
}

/* Multiply-adds of an image at the usual size, from the layer lists of the byte simulator that the
 * bars of memory come from. */
static void products_are_known(void **state) {
    help_room *room = *state;
    static const struct {
        const char *name;
        int64_t madds;
    } list[] = {{"alexnet", 724406816},       {"nin", 1100188800},
                {"overfeat", 2801403904},     {"vgg16", 15470264320},
                {"googlenet", 1582671872},    {"googlenet_bn", 1498376192},
                {"inception_v3", 5713216096}, {"resnet50", 4089184256},
                {"resnet152", 11513626624},   {"resnet110_cifar", 253149824}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        net_model net;
        ebb__net_init(&net, room->ctx);
        help_ok(room->ctx, ebb__net_named(&net, &(net_wish){.name = list[i].name}));
        if (help_madds(&net) != list[i].madds) {
            fail_msg("%s: %" PRId64 " multiply-adds", list[i].name, help_madds(&net));
        }
        ebb__net_fini(&net);
    }
}

static void every_listed_name_is_made(void **state) {
    help_room *room = *state;
    size_t n = 0;
    for (const char *name; (name = ebb__net_name_at(n)) != NULL; n++) {
        net_model net;
        const char *wanted = strcmp(name, "resnetN_cifar") == 0 ? "resnet8_cifar" : name;
        ebb__net_init(&net, room->ctx);
        help_ok(room->ctx, ebb__net_named(&net, &(net_wish){wanted, 2, 299, 7}));
        assert_int_equal(net_classes(&net), 7);
        help_shape(&net, "input", 2, 299, 299);
        ebb__net_fini(&net);
    }
    assert_int_equal(n, 16);
}

/* Fully connected layers of 512 below 64 px, and as many inputs as pixels are left. */
static void vgg_of_other_sizes(void **state) {
    help_room *room = *state;
    static const struct {
        int32_t size;
        int64_t weights;
    } list[] = {{32, 15245130},
                {63, 15245130},
                {64, 14714688 + 2048 * 4096 + 4096 + 4096 * 4096 + 4096 + 40970}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        net_model net;
        ebb__net_init(&net, room->ctx);
        help_ok(room->ctx, ebb__net_named(&net, &(net_wish){"vgg16", 3, list[i].size, 10}));
        assert_int_equal(help_weights(&net), list[i].weights);
        ebb__net_fini(&net);
    }
}

static void wrong_wishes(void **state) {
    help_room *room = *state;
    static const struct {
        net_wish wish;
        const char *says;
    } cases[] = {{{"resnet51", 0, 0, 0}, "no net 'resnet51'; did you mean 'resnet50'?"},
                 {{"vgg", 0, 0, 0}, "did you mean 'vgg16'?"},
                 {{"", 0, 0, 0}, "no net ''"},
                 {{"resnet21_cifar", 0, 0, 0}, "N of resnetN_cifar is 6n + 2: 20, 32, 110"},
                 {{"resnet2_cifar", 0, 0, 0}, "6n + 2"},
                 {{"resnetN_cifar", 0, 0, 0}, "6n + 2"},
                 {{"resnet99999999999999999999_cifar", 0, 0, 0}, "6n + 2"},
                 {{"resnet6000002_cifar", 0, 0, 0}, "more than 65535 layers"},
                 {{"resnet20_cifarx", 0, 0, 0}, "no net"},
                 {{"alexnet", 0, 32, 0},
                  "layer 'features.14': a window of 3x3 is larger than its map of 1x1"},
                 {{"vgg16", 0, 31, 0}, "larger than its map of 1x1"},
                 {{"vgg16", 0, -1, 0}, "size -1 is not in"},
                 {{"vgg16", -3, 0, 0}, "channels -3 is not in"},
                 {{"vgg16", 0, 0, 1 << 25}, "classes 33554432 is not in"},
                 {{"vgg16", 0, 1 << 20, 0}, "an image of"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        net_model net;
        ebb__net_init(&net, room->ctx);
        help_expect(room->ctx, ebb__net_named(&net, &cases[i].wish), EBB_USAGE, cases[i].says);
        ebb__net_fini(&net);
    }
    assert_false(ebb__net_is_named("my.net"));
}

static ebb_status make_one(help_room *room) {
    net_model net;
    ebb__net_init(&net, room->ctx);
    ebb_status status = ebb__net_named(&net, &(net_wish){.name = "resnet110_cifar"});
    ebb__net_fini(&net);
    return status;
}

static void memory_may_give_out(void **state) {
    help_room *room = *state;
    ebb_status status = EBB_NOMEM;
    uint64_t n = 0;
    while (status != EBB_OK) {
        ebb__region_trim(room->ctx);
        ebb__ctx_clear(room->ctx);
        room->ctx->mem.fail_at = ++n;
        status = make_one(room);
        assert_true(status == EBB_OK || status == EBB_NOMEM);
        assert_true(status == EBB_OK || ebb_last_error(room->ctx)[0] != '\0');
        assert_int_equal(room->ctx->mem.live_blocks, 0);
    }
    assert_true(n > 4);
    room->ctx->mem.fail_at = 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sizes_are_known, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(products_are_known, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(every_listed_name_is_made, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(vgg_of_other_sizes, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(wrong_wishes, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(memory_may_give_out, help_setup, help_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
