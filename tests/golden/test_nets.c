/* test_nets.c - named nets against torchvision: every layer that has parameters, by its name, with
 * the shapes of what it makes, of its parameters and running statistics, and a norm's eps; and no
 * layer with parameters beside them. tools/golden/nets.py says what the file holds. */
#include "unit/net_help.h"

#include "model/net_named.h"

#include <inttypes.h>

typedef struct line_text {
    char text[1024];
} line_text;

static void put_sizes(line_text *to, const char *before, const int32_t *dim, int32_t rank) {
    size_t used = strlen(to->text);
    for (int32_t i = 0; i < rank; i++) {
        used += (size_t)snprintf(to->text + used, sizeof to->text - used, "%s%" PRId32,
                                 i == 0 ? before : "x", dim[i]);
    }
}

/* A layer as the file writes it. */
static line_text describe(const net_model *net, const net_layer *layer) {
    net_param params[NET_MOST_PARAMS];
    line_text out;
    int32_t sizes[3] = {layer->out.channels, layer->out.high, layer->out.wide};
    (void)snprintf(out.text, sizeof out.text, "%s", layer->name);
    put_sizes(&out, " ", sizes, layer->out.flat ? 1 : 3);
    size_t used = strlen(out.text);
    (void)(layer->op == NET_BN
               ? snprintf(out.text + used, sizeof out.text - used, " eps=%g", layer->n.eps)
               : snprintf(out.text + used, sizeof out.text - used, " eps=-"));
    for (int32_t i = 0, n = ebb__net_params(net, layer, params); i < n; i++) {
        char before[32];
        (void)snprintf(before, sizeof before, " %s=", params[i].suffix);
        put_sizes(&out, before, params[i].dim, params[i].rank);
    }
    return out;
}

static int32_t with_parameters(const net_model *net) {
    int32_t count = 0;
    for (int32_t i = 0; i < net->n_layers; i++) {
        count += ebb__net_weights(net, &net->layers[i]) > 0;
    }
    return count;
}

static void check_line(const net_model *net, const char *line) {
    char name[128];
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(line, " "), line);
    line_text ours = describe(net, help_layer(net, name));
    if (strcmp(ours.text, line) != 0) {
        fail_msg("'%s', where torchvision has '%s'", ours.text, line);
    }
}

static FILE *open_golden(void) {
    char path[512];
    const char *slash = strrchr(__FILE__, '/');
    int folder = slash == NULL ? 0 : (int)(slash + 1 - __FILE__);
    (void)snprintf(path, sizeof path, "%.*snets.txt", folder, __FILE__);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    return file;
}

static void as_torchvision(void **state) {
    help_room *room = *state;
    char line[1024];
    net_model net = {0};
    int32_t seen = 0, nets = 0;
    FILE *file = open_golden();
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "net ", 4) == 0) {
            if (nets++ > 0) {
                assert_int_equal(seen, with_parameters(&net));
                ebb__net_fini(&net);
            }
            ebb__net_init(&net, room->ctx);
            help_ok(room->ctx, ebb__net_named(&net, &(net_wish){.name = line + 4}));
            seen = 0;
        } else if (line[0] != '#') {
            check_line(&net, line);
            seen++;
        }
    }
    assert_int_equal(nets, 7);
    assert_int_equal(seen, with_parameters(&net));
    ebb__net_fini(&net);
    assert_int_equal(fclose(file), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(as_torchvision, help_setup, help_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
