/* test_net_darknet.c - Darknet's .cfg files: small ones whose sizes Darknet's own formulas give,
 * and what is refused, with its line. */
#include "net_help.h"

#include "model/net_text.h"

#define NET(size) "[net]\nbatch=4 # of them\nheight=" #size "\nwidth = " #size "\nchannels=3\n"
#define CONV(filters, size, more)                                                                  \
    "[convolutional]\nfilters=" #filters "\nsize=" #size "\n" more "activation=relu\n"

static void load(help_room *room, net_model *net, const char *text) {
    help_write_text(room->path[0], text);
    ebb__net_init(net, room->ctx);
    help_ok(room->ctx, ebb__net_load(net, room->path[0]));
}

static void layers_of_every_kind(void **state) {
    help_room *room = *state;
    net_model net;
    load(room, &net,
         "# a net\n\n" NET(36) "learning_rate=.1\n; more\n"
                               "[crop]\ncrop_height=32\ncrop_width=30\nflip=1\n" /* 0 */
                               "[convolutional]\nbatch_normalize=1\nfilters=8\nsize=3\nstride="
                               "2\npad=1\nactivation=leaky\n" CONV(8, 1, "groups=2\n") /* 2 */
         "[shortcut]\nfrom=-2\nactivation=linear\n"                                    /* 3 */
         "[route]\nlayers=-1, 2\n"                                                     /* 4 */
         "[maxpool]\nsize=2\nstride=2\n"                                               /* 5 */
         "[route]\nlayers=3\n"                                                         /* 6 */
         "[maxpool]\nsize=3\nstride=2\n"                                               /* 7 */
         "[route]\nlayers=5,7\n"                                                       /* 8 */
         "[avgpool]\n[dropout]\nprobability=.25\n"
         "[connected]\noutput=10\nactivation=linear\n[softmax]\ngroups=1\n[cost]\ntype=sse\n");
    help_shape(&net, "input", 3, 32, 30);
    help_shape(&net, "1.conv", 8, 16, 15);
    assert_true(help_layer(&net, "1.conv")->n.no_bias);
    assert_true(help_layer(&net, "1.bn")->n.momentum == 0.01);
    assert_true(help_layer(&net, "1.relu")->n.slope == 0.1);
    assert_true(help_layer(&net, "2.relu")->n.slope == 0);
    assert_int_equal(help_layer(&net, "2.conv")->n.groups, 2);
    assert_int_equal(net_in(&net, help_layer(&net, "3.add"), 1), ebb__net_find(&net, "1.relu"));
    help_shape(&net, "4.concat", 16, 16, 15);
    help_shape(&net, "5.maxpool", 16, 8, 8); /* (15 + 1 - 2) / 2 + 1 */
    assert_int_equal(net_in(&net, help_layer(&net, "7.maxpool"), 0), ebb__net_find(&net, "3.add"));
    help_shape(&net, "7.maxpool", 8, 8, 8);
    assert_int_equal(help_layer(&net, "7.maxpool")->n.pad_y, 1);
    help_shape(&net, "8.concat", 24, 8, 8);
    help_shape(&net, "11.fc", 10, 1, 1);
    assert_int_equal(help_layer(&net, "5.maxpool")->line, 31);
    ebb__net_fini(&net);
}

/* VGG16 as Darknet writes it has the parameters that it has everywhere. */
static void a_known_net(void **state) {
    help_room *room = *state;
    static const int widths[] = {64, 64,  0,   128, 128, 0,   256, 256, 256,
                                 0,  512, 512, 512, 0,   512, 512, 512, 0};
    char text[4096] = NET(256) "[crop]\ncrop_height=224\ncrop_width=224\nexposure=1\n";
    size_t used = strlen(text);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        used += (size_t)(widths[i] > 0
                             ? snprintf(text + used, sizeof text - used,
                                        "[convolutional]\nfilters=%d\nsize=3\nstride=1\npad=1\n"
                                        "activation=relu\n",
                                        widths[i])
                             : snprintf(text + used, sizeof text - used,
                                        "[maxpool]\nsize=2\nstride=2\n"));
    }
    (void)snprintf(text + used, sizeof text - used, "%s",
                   "[connected]\noutput=4096\nactivation=relu\n[dropout]\nprobability=.5\n"
                   "[connected]\noutput=4096\nactivation=relu\n[dropout]\nprobability=.5\n"
                   "[connected]\noutput=1000\nactivation=linear\n[softmax]\ngroups=1\n");
    net_model net;
    load(room, &net, text);
    assert_int_equal(help_weights(&net), 138357544);
    assert_int_equal(help_madds(&net), 15470264320);
    ebb__net_fini(&net);
}

/* Pools begin where Darknet's do: at -padding/2, (length + padding - size) / stride + 1 of them. */
static void pools_as_darknet(void **state) {
    help_room *room = *state;
    int checked = 0, refused = 0;
    for (int i = 0; i < 20 * 4 * 4 * 5; i++) {
        int length = 4 + i % 20, size = 1 + i / 20 % 4, stride = 1 + i / 80 % 4;
        int padding = i / 320 % 5 - 1; /* -1: not given */
        char text[300], key[32] = "";
        if (padding > size) {
            continue;
        }
        if (padding >= 0) {
            (void)snprintf(key, sizeof key, "padding=%d\n", padding);
        } else {
            padding = size - 1;
        }
        (void)snprintf(text, sizeof text,
                       "[net]\nheight=%d\nwidth=%d\nchannels=2\n[maxpool]\nsize=%d\nstride=%d\n%s"
                       "[softmax]",
                       length, length, size, stride, key);
        net_model net;
        ebb__net_init(&net, room->ctx);
        if (ebb__net_parse_darknet(&net, "x", text) == EBB_OK) {
            int32_t out = (length + padding - size) / stride + 1;
            help_shape(&net, "0.maxpool", 2, out, out);
            assert_int_equal(help_layer(&net, "0.maxpool")->n.pad_y, padding / 2);
            checked++;
        } else {
            assert_non_null(strstr(ebb_last_error(room->ctx), "pads one side"));
            assert_true(padding % 2 == 1);
            ebb__ctx_clear(room->ctx);
            refused++;
        }
        ebb__net_fini(&net);
    }
    assert_true(checked > 800 && refused > 50);
}

static void mistakes_have_lines(void **state) {
    help_room *room = *state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"[convolutional]\nfilters=3", "x.cfg:1: a file begins with [net]"},
        {NET(8) NET(8), "x.cfg:6: a file begins with [net], and has it once"},
        {"[net]\nheight=8\nwidth=8\n[avgpool]", "x.cfg:1: [net] needs channels="},
        {"[net]\nheight=8\nwidth=-8\nchannels=3", "width of [net] is '-8', not a number from 1 on"},
        {"height=3", "x.cfg:1: 'height=3': a line is `[section]` or, in one"},
        {NET(8) "[avgpool]\nsize", "x.cfg:7: 'size': a line is"},
        {NET(8) "[yolo]", "x.cfg:6: section '[yolo]' is not known"},
        {NET(8) "[convolutonal]", "did you mean '[convolutional]'?"},
        {NET(8) "[max", "'[max' is no section"},
        {NET(8) "[conv]\nfilter=3",
         "x.cfg:7: key 'filter' of [convolutional] is not known; did you mean 'filters'?"},
        {NET(8) "[conv]\nfilters=3\ndilation=2", "x.cfg:8: key 'dilation'"},
        {NET(8) "[avgpool]\nsize=2", "key 'size': [avgpool] has none"},
        {NET(8) "[conv]\nsize=3", "x.cfg:6: [convolutional] needs filters="},
        {NET(8) "[conv]\nfilters=3",
         "activation 'logistic' of [convolutional] is not known: use relu"},
        {NET(8) CONV(4, 9, ""), "x.cfg:6: layer '0.conv': a window of 9x9 is larger"},
        {NET(8) CONV(4, 3, "groups=2\n"), "2 groups do not divide"},
        {NET(8) CONV(4, 1, "") "[shortcut]\nfrom=-1\n" CONV(2, 1, "") "[shortcut]\nfrom=-2",
         "layer '3.add': add of 2x8x8"},
        {NET(8) "[shortcut]\nfrom=-1",
         "from of [shortcut] is '-1', not a list of earlier sections: this is number 0"},
        {NET(8) "[avg]\n[route]\nlayers=0,1", "is '0,1', not a list"},
        {NET(8) "[avg]\n[route]\nlayers=0x", "not a list"},
        {NET(8) "[avg]\n[route]", "[route] needs layers="},
        {NET(8) "[dropout]", "[dropout] needs probability="},
        {NET(8) "[dropout]\nprobability=2", "rate 2 is not in"},
        {NET(8) "[softmax]\ngroups=2", "[softmax] of 2 groups"},
        {NET(8) "[softmax]\n[avgpool]", "x.cfg:7: [avgpool] stands behind [softmax]"},
        {NET(8) "[cost]", "[cost] is known behind [softmax] only"},
        {NET(8) "[avgpool]\n[crop]\ncrop_height=2\ncrop_width=2", "[crop] stands behind [net]"},
        {NET(8) "[crop]\ncrop_height=9\ncrop_width=2", "makes the image smaller"},
        {NET(8) "[maxpool]\nsize=2\nstride=1",
         "of size 2, stride 1 and padding 1 pads one side of a map of 8x8 more"},
        {NET(8) "[maxpool]\nstride=0", "size and stride of [maxpool] are from 1"},
        {NET(8) "[avgpool]", "x.cfg:6: the net ends with a map of 3x1x1 ('0.gap')"},
        {NET(8), "x.cfg:1: the net has no layers"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        net_model net;
        ebb__net_init(&net, room->ctx);
        help_expect(room->ctx, ebb__net_parse_darknet(&net, "x.cfg", cases[i].text), EBB_DATA,
                    cases[i].says);
        ebb__net_fini(&net);
    }
}

static void a_million_sections(void **state) {
    help_room *room = *state;
    static const char *const lines[] = {"[dropout]\nprobability=0\n", "[route]\nlayers=-1\n"};
    static const char *const says[] = {"more than 65535 layers", "more than 65536 sections"};
    for (int k = 0; k < 2; k++) {
        FILE *file = fopen(room->path[0], "w");
        assert_non_null(file);
        (void)fputs(NET(8) "[avgpool]\n", file);
        for (int i = 0; i < 150000; i++) {
            (void)fputs(lines[k], file);
        }
        assert_int_equal(fclose(file), 0);
        net_model net;
        ebb__net_init(&net, room->ctx);
        ebb_status status = ebb__net_load(&net, room->path[0]);
        ebb__net_fini(&net);
        help_expect(room->ctx, status, EBB_DATA, says[k]);
    }
}

static ebb_status load_once(help_room *room) {
    net_model net;
    ebb__region_trim(room->ctx);
    ebb__net_init(&net, room->ctx);
    ebb_status status = ebb__net_load(&net, room->path[0]);
    ebb__net_fini(&net);
    return status;
}

static void memory_and_disk_may_give_out(void **state) {
    help_room *room = *state;
    help_write_text(room->path[0], NET(8) CONV(4, 1, "") "[shortcut]\nfrom=-1\n[softmax]\n");
    help_fail_each(room, load_once);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(layers_of_every_kind, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(a_known_net, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(pools_as_darknet, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(mistakes_have_lines, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(a_million_sections, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(memory_and_disk_may_give_out, help_setup, help_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
