/* test_net_text.c - nets as text: what is printed is read as the same net; names, repeats and
 * references; every mistake has its line. */
#include "net_help.h"

#include "model/net_named.h"
#include "model/net_text.h"

static void parse(help_room *room, net_model *net, const char *text) {
    ebb__net_init(net, room->ctx);
    help_ok(room->ctx, ebb__net_parse(net, "my.net", text));
}

static void expect_wrong(help_room *room, const char *text, const char *says) {
    net_model net;
    ebb__net_init(&net, room->ctx);
    help_expect(room->ctx, ebb__net_parse(&net, "my.net", text), EBB_DATA, says);
    ebb__net_fini(&net);
}

static bool same_numbers(const net_layer *a, const net_layer *b) {
    const net_field *field;
    bool same = a->op == b->op;
    for (int32_t i = 0; same && (field = ebb__net_field(a->op, i)) != NULL; i++) {
        for (int32_t part = 0; part < 2; part++) {
            same = same && ebb__net_value(&a->n, field, part) == ebb__net_value(&b->n, field, part);
        }
    }
    return same;
}

static void expect_same(const net_model *a, const net_model *b) {
    assert_int_equal(a->n_layers, b->n_layers);
    for (int32_t i = 0; i < a->n_layers; i++) {
        const net_layer *x = &a->layers[i], *y = &b->layers[i];
        assert_string_equal(x->name, y->name);
        assert_true(same_numbers(x, y));
        assert_int_equal(x->n_from, y->n_from);
        for (int32_t k = 0; k < x->n_from; k++) {
            assert_int_equal(net_in(a, x, k), net_in(b, y, k));
        }
        assert_true(x->out.channels == y->out.channels && x->out.high == y->out.high &&
                    x->out.wide == y->out.wide && x->out.flat == y->out.flat);
    }
}

static void named_nets_come_back(void **state) {
    help_room *room = *state;
    for (size_t i = 0; ebb__net_name_at(i) != NULL; i++) {
        net_model net, again;
        const char *name = ebb__net_name_at(i), *text = NULL;
        name = strcmp(name, "resnetN_cifar") == 0 ? "resnet20_cifar" : name;
        ebb__net_init(&net, room->ctx);
        help_ok(room->ctx, ebb__net_named(&net, &(net_wish){.name = name}));
        help_ok(room->ctx, ebb__net_print(&net, &text));
        parse(room, &again, text);
        expect_same(&net, &again);
        ebb__net_fini(&again);
        ebb__net_fini(&net);
    }
}

static void every_number_comes_back(void **state) {
    help_room *room = *state;
    static const char text[] = "input 4 20 30\n"
                               "a: conv 8 3x5 stride 2 pad 1x2 groups 4 nobias\n"
                               "b: bn eps 0.0012345678901234567 momentum 0\n"
                               "c: maxpool 3x2 1 pad 1 ceil\n"
                               "d: avgpool 2 2\n"
                               "e: lrn 3 alpha 1e-05 k 2\n"
                               "f: concat d e d\n"
                               "g: relu from=e\n"
                               "h: concat f g\n"
                               "i: gap\n"
                               "j: flatten\n"
                               "k: dropout 0.1\n"
                               "l: fc 7 nobias\n";
    const char *printed = NULL;
    net_model net;
    parse(room, &net, text);
    help_ok(room->ctx, ebb__net_print(&net, &printed));
    assert_string_equal(printed, "input 4 20 30\n"
                                 "a: conv 8 3x5 stride 2 pad 1x2 groups 4 nobias\n"
                                 "b: bn eps 0.0012345678901234567 momentum 0\n"
                                 "c: maxpool 3x2 1 pad 1 ceil\n"
                                 "d: avgpool 2 2\n"
                                 "e: lrn 3 alpha 1e-05 k 2\n"
                                 "f: concat d e d\n"
                                 "g: relu from=e\n"
                                 "h: concat f g\n"
                                 "i: gap\n"
                                 "j: flatten\n"
                                 "k: dropout 0.1\n"
                                 "l: fc 7 nobias\n");
    help_shape(&net, "c", 8, 10, 16);
    assert_true(help_layer(&net, "b")->n.eps == 0.0012345678901234567);
    ebb__net_fini(&net);
}

/* The same net, written by hand as short as it goes. */
static void a_residual_net_by_hand(void **state) {
    help_room *room = *state;
    static const char text[] =
        "\xef\xbb\xbf# resnet20_cifar\r\n"
        "input 3 32 32\r\n"
        "conv1: conv 16 3 pad=1 nobias; bn1: bn; relu1: relu\n"
        "layer1: repeat 3 {\n"
        "  conv1: conv 16 3 pad 1 nobias; bn1: bn; relu1: relu\n"
        "  conv2: conv 16 3 pad 1 nobias; bn2: bn\n"
        "  add: add from=in\n"
        "  relu: relu # out\n"
        "}\n"
        "layer2.0.conv1: conv 32 3 stride 2 pad 1 nobias; layer2.0.bn1: bn; layer2.0.relu1: relu\n"
        "layer2.0.conv2: conv 32 3 pad 1 nobias; layer2.0.bn2: bn\n"
        "layer2.0.downsample.0: conv 32 1 stride 2 nobias from layer1.2.relu\n"
        "layer2.0.add: add layer2.0.bn2 layer2.0.downsample.0; layer2.0.relu: relu\n"
        "gap; flatten; fc 10";
    net_model net, whole;
    parse(room, &net, text);
    ebb__net_init(&whole, room->ctx);
    help_ok(room->ctx, ebb__net_named(&whole, &(net_wish){.name = "resnet20_cifar"}));
    for (int32_t i = 0; i <= ebb__net_find(&net, "layer2.0.relu"); i++) {
        const net_layer *x = &net.layers[i], *y = &whole.layers[i];
        assert_string_equal(x->name, y->name);
        assert_true(same_numbers(x, y));
        for (int32_t k = 0; k < x->n_from; k++) {
            assert_int_equal(net_in(&net, x, k), net_in(&whole, y, k));
        }
    }
    help_shape(&net, "fc1", 10, 1, 1);
    ebb__net_fini(&whole);
    ebb__net_fini(&net);
}

static void names_and_scopes(void **state) {
    help_room *room = *state;
    net_model net;
    parse(room, &net,
          "input 1 8 8\n"
          "relu2: relu\n" /* automatic names go around it */
          "relu; relu\n"
          "a: repeat 2 { relu; repeat 2 { x: relu; add x relu1 in }\n x: relu; add x relu2 }\n"
          "repeat 1 { relu }\n flatten\n");
    static const char *const names[] = {"input",
                                        "relu2",
                                        "relu1",
                                        "relu3",
                                        "a.0.relu1",
                                        "a.0.repeat1.0.x",
                                        "a.0.repeat1.0.add1",
                                        "a.0.repeat1.1.x",
                                        "a.0.repeat1.1.add1",
                                        "a.0.x",
                                        "a.0.add1",
                                        "a.1.relu1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_string_equal(net.layers[i].name, names[i]);
    }
    /* Inside: the turn's own relu1, and what came in; outside: the first relu2. */
    const net_layer *inner = help_layer(&net, "a.1.repeat1.1.add1");
    assert_int_equal(net_in(&net, inner, 1), ebb__net_find(&net, "a.1.relu1"));
    assert_int_equal(net_in(&net, inner, 2), ebb__net_find(&net, "a.1.repeat1.0.add1"));
    const net_layer *outer = help_layer(&net, "a.1.add1");
    assert_int_equal(net_in(&net, outer, 0), ebb__net_find(&net, "a.1.x"));
    assert_int_equal(net_in(&net, outer, 1), ebb__net_find(&net, "relu2"));
    assert_int_equal(help_layer(&net, "repeat1.0.relu1")->line, 6);
    ebb__net_fini(&net);
}

static void mistakes_have_lines(void **state) {
    help_room *room = *state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "my.net:1: the net has no layers"},
        {"conv 3 3", "my.net:1: the image comes first"},
        {"\n\ninput 3 x 3", "my.net:3: input: 'x' is no number"},
        {"input 3 3", "nothing stands behind 'input'"},
        {"input 3 3 3 3", "'3': an image is"},
        {"a: input 3 3 3", "unnamed"},
        {"input 3 3 3\ninput 3 3 3", "my.net:2: the image is described once"},
        {"input 3 0 3", "my.net:1: an image of 3x0x3"},
        {"input 3 3 3\nconf 3 3", "my.net:2: no layer is called 'conf'; did you mean 'conv'?"},
        {"input 3 3 3\nx: repat 3 {", "did you mean 'repeat'?"},
        {"input 3 3 3\nconv 3", "my.net:2: conv needs its window"},
        {"input 3 3 3\nconv", "conv needs its outputs"},
        {"input 3 3 3\nconv 3 3 strid 2", "conv cannot be told 'strid'; did you mean 'stride'?"},
        {"input 3 3 3\nconv 3 3 2", "conv cannot be told '2'"},
        {"input 3 3 3\nrelu 2", "relu cannot be told '2'; did you mean 'from'?"},
        {"input 3 3 3\nconv 3 3 stride", "nothing stands behind 'stride'"},
        {"input 3 3 3\nconv 3 3 stride 1 stride 1", "stride is given twice"},
        {"input 3 3 3\nconv 3 3 stride 0", "my.net:2: layer 'conv1': stride 0 is not in 1..1024"},
        {"input 3 3 3\nconv 3 3x stride 1", "window: '3x' is no number"},
        {"input 3 3 3\nconv 3 3x3x3", "window: '3x3x3' is no number"},
        {"input 3 3 3\nconv 9999999999 1", "outputs: '9999999999' is no number"},
        {"input 3 3 3\nconv -1 1", "outputs: '-1' is no number"},
        {"input 3 3 3\nbn eps nan", "layer 'bn1': eps nan is not in"},
        {"input 3 3 3\nbn eps 1e", "eps: '1e' is no number"},
        {"input 3 3 3\nmaxpool 5",
         "my.net:2: layer 'maxpool1': a window of 5x5 is larger than its map of 3x3"},
        {"input 3 3 3\nconv 4 1 groups 2", "layer 'conv1': 2 groups do not divide its 3 input"},
        {"input 3 3 3\nb: conv 4 1\nadd from=in",
         "layer 'add1': add of 4x3x3 ('b') and 3x3x3 ('input'), which differ"},
        {"input 3 3 3\nblock1: relu\nadd from=blok1",
         "no layer 'blok1' before this one; did you mean 'block1'?"},
        {"input 3 3 3\nrelu from=later\nlater: relu", "my.net:2: no layer 'later' before"},
        {"input 3 3 3\nadd", "my.net:2: layer 'add1': add reads 2 to 1024 layers, not 1"},
        {"input 3 3 3\nrelu from=input from=input", "relu reads 1 to 1 layers, not 2"},
        {"input 3 3 3\na: relu\na: relu", "my.net:3: layer 'a': line 2 has that name already"},
        {"input 3 3 3\nin: relu", "not `in` or `from`"},
        {"input 3 3 3\na/b: relu", "'a/b' is no name"},
        {"input 3 3 3\na: b: relu", "no layer is called 'b'"},
        {"input 3 3 3\na:", "nothing stands behind 'a'"},
        {"input 3 3 3\n: relu", "a `:` stands only behind"},
        {"input 3 3 3\nrepeat 2", "a repeat is `repeat N { ... }`"},
        {"input 3 3 3\nrepeat 0 { relu }", "N at least 1"},
        {"repeat 2 { relu }", "behind the input"},
        {"input 3 3 3\nrepeat 2 {\nrelu", "my.net:3: the repeat of line 2 is not closed"},
        {"input 3 3 3\nrepeat 2 {\n}", "my.net:3: the repeat of line 2 holds no layer"},
        {"input 3 3 3\n}", "a `}` without a repeat"},
        {"input 3 3 3\nrelu {", "a `{` without a repeat"},
        {"input 3 3 3\nrelu", "my.net:2: the net ends with a map of 3x3x3 ('relu1')"},
        {"input 3 3 3\nx: relu\ny: relu from=in\nflatten", "my.net:2: no layer reads 'x'"},
        {"input 3 3 3\nrepeat 999999999 { repeat 999999999 { relu } }",
         "my.net:2: more than 65535 layers"},
        {"input 3 3 3\n1:repeat 1{1:repeat 1{1:repeat 1{1:repeat 1{1:repeat 1{1:repeat 1{1:repeat "
         "1{1:repeat 1{1:repeat 1{",
         "more than 8 repeats"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect_wrong(room, cases[i].text, cases[i].says);
    }
}

static void names_have_a_bound(void **state) {
    help_room *room = *state;
    char text[600], name[200];
    memset(name, 'n', sizeof name);
    (void)snprintf(text, sizeof text, "input 1 1 1\n%.121s: relu", name);
    expect_wrong(room, text, "is longer than any word here");
    (void)snprintf(text, sizeof text, "input 1 1 1\n%.100s: repeat 1 { %.100s: relu }", name, name);
    expect_wrong(room, text, "has more than 120 letters");
    (void)snprintf(text, sizeof text, "input 1 1 1\n%.118s: repeat 1 { relu }", name);
    expect_wrong(room, text, "names of repeats are longer than 120");
    (void)snprintf(text, sizeof text, "input 1 1 1\n%.120s: flatten", name);
    net_model net;
    parse(room, &net, text);
    ebb__net_fini(&net);
}

/* A file of a million lines is refused at the bound, and so is one that is too large to be read. */
static void a_million_lines(void **state) {
    help_room *room = *state;
    static const char *const lines[] = {"gap\n", "relu\n"};
    static const char *const says[] = {":65537: more than 65535 layers", "bytes, more than"};
    for (int k = 0; k < 2; k++) {
        FILE *file = fopen(room->path[0], "w");
        assert_non_null(file);
        (void)fputs("input 3 4 4\n", file);
        for (int i = 0; i < 1000000; i++) {
            (void)fputs(lines[k], file);
        }
        assert_int_equal(fclose(file), 0);
        net_model net;
        ebb__net_init(&net, room->ctx);
        ebb_status status = ebb__net_load(&net, room->path[0]);
        ebb__net_fini(&net);
        help_expect(room->ctx, status, EBB_DATA, says[k]);
    }
    assert_true(room->ctx->mem.peak_bytes < UINT64_C(64) << 20);
}

static void files(void **state) {
    help_room *room = *state;
    net_model net;
    ebb__net_init(&net, room->ctx);
    ebb_status status = ebb__net_load(&net, room->path[0]);
    help_expect(room->ctx, status, EBB_IO, room->path[0]);
    help_write(room->path[0], "input 3 4 4\n\0relu", 17);
    status = ebb__net_load(&net, room->path[0]);
    help_expect(room->ctx, status, EBB_DATA, "holds a zero byte");
    ebb__net_fini(&net);
}

/* docs/nets.md: its example is a net, and it has every name and every word. */
static void the_document_is_true(void **state) {
    help_room *room = *state;
    static char page[1 << 16];
    char path[512], word[64];
    const char *slash = strrchr(__FILE__, '/');
    int folder = slash == NULL ? 0 : (int)(slash + 1 - __FILE__);
    (void)snprintf(path, sizeof path, "%.*s../../docs/nets.md", folder, __FILE__);
    page[help_read(path, page, sizeof page - 1)] = '\0';
    for (size_t i = 0; ebb__net_name_at(i) != NULL; i++) {
        (void)snprintf(word, sizeof word, "`%s`", ebb__net_name_at(i));
        assert_non_null(strstr(page, word));
    }
    for (int op = 1; op < NET_OPS; op++) {
        const net_field *field;
        (void)snprintf(word, sizeof word, "`%s", ebb__net_op_name((net_op)op));
        assert_non_null(strstr(page, word));
        for (int32_t i = 0; (field = ebb__net_field((net_op)op, i)) != NULL; i++) {
            bool plain = i < ebb__net_fields((net_op)op).plain;
            (void)snprintf(word, sizeof word, "`%s", field->name);
            assert_true(plain || strstr(page, word) != NULL);
        }
    }
    char *example = strstr(page, "```\n"),
         *end = example != NULL ? strstr(example + 4, "```") : NULL;
    assert_non_null(end);
    *end = '\0';
    net_model net;
    parse(room, &net, example + 4);
    assert_int_equal(net_classes(&net), 10);
    help_shape(&net, "add1", 32, 16, 16);
    ebb__net_fini(&net);
}

static ebb_status load_and_print(help_room *room) {
    net_model net;
    const char *text = NULL;
    ebb__region_trim(room->ctx);
    ebb__net_init(&net, room->ctx);
    ebb_status status = ebb__net_load(&net, room->path[0]);
    status = status == EBB_OK ? ebb__net_print(&net, &text) : status;
    ebb__net_fini(&net);
    return status;
}

static void memory_and_disk_may_give_out(void **state) {
    help_room *room = *state;
    help_write_text(room->path[0], "input 3 8 8\nrepeat 900 { relu; add from=in }\nflatten\nfc 10");
    help_fail_each(room, load_and_print);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(named_nets_come_back, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(every_number_comes_back, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(a_residual_net_by_hand, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(names_and_scopes, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(mistakes_have_lines, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(names_have_a_bound, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(a_million_lines, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(files, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(the_document_is_true, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(memory_and_disk_may_give_out, help_setup, help_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
