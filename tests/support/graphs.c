/* graphs.c - see graphs.h. */
#include "support/graphs.h"

#include <ctype.h>
#include <stdio.h>

ebb_ctx *test_ctx_new(void) {
    ebb_ctx *ctx = NULL;
    assert_int_equal(ebb_ctx_new(&ctx), EBB_OK);
    ctx->command = true; /* settings are named as they are typed */
    return ctx;
}

void test_ctx_free(ebb_ctx *ctx) {
    assert_int_equal(ctx->mem.live_blocks, 0);
    assert_int_equal(ctx->mem.live_bytes, 0);
    ebb_ctx_free(ctx);
}

uint64_t test_asked(const char *variable, uint64_t usual) {
    const char *text = getenv(variable);
    return text != NULL ? strtoull(text, NULL, 10) : usual;
}

uint64_t test_roll(test_dice *dice) { /* splitmix64 */
    uint64_t z = dice->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int32_t test_below(test_dice *dice, int32_t n) {
    return (int32_t)(test_roll(dice) % (uint64_t)n);
}

/* ---- graphs ---- */

void test_parse(ebb_ctx *ctx, const char *text, ir_graph *out) {
    ebb__op_graph_init(out, ctx);
    assert_ok(ctx, ebb__ir_parse(out, text));
    assert_ok(ctx, ebb__op_verify(out));
}

word_lm test_lm_small(lm_cell cell, int64_t steps) {
    return (word_lm){.cell = cell,
                     .layers = 2,
                     .hidden = 6,
                     .embed = 6,
                     .vocab = 11,
                     .batch = 3,
                     .steps = steps,
                     .dropout = 0.3,
                     .seed = 1,
                     .state = "state"};
}

void test_lm(ebb_ctx *ctx, const word_lm *model, ir_graph *out) {
    ebb__op_graph_init(out, ctx);
    assert_ok(ctx, ebb__word_lm_build(out, model));
    assert_ok(ctx, ebb__op_verify(out));
}

/* ---- text ---- */

enum { MOST_IDS = 1 << 18 };

static const char *line_end(const char *at) {
    const char *end = strchr(at, '\n');
    return end != NULL ? end : at + strlen(at);
}

static bool is_comment(const char *line) {
    return *line == '#' || *line == '\n' || *line == '\0';
}

/* Definitions stand before the "=" of a node, or first on a variable's line. */
static void name_definitions(const char *text, int32_t *names) {
    int32_t n = 0;
    for (const char *line = text; *line != '\0';) {
        const char *end = line_end(line);
        bool node = *line == '%', variable = strchr("psi", *line) != NULL;
        for (const char *at = line; !is_comment(line) && at < end; at++) {
            if (*at == '"' || (node && *at == '=')) {
                break;
            }
            if (*at == '%' && (node || variable)) {
                long id = strtol(at + 1, NULL, 10);
                assert_in_range(id, 0, MOST_IDS - 1);
                names[id] = n++;
            }
        }
        line = *end == '\n' ? end + 1 : end;
    }
}

char *test_canonical(const char *text) {
    int32_t *names = calloc(MOST_IDS, sizeof *names);
    char *out = malloc(2 * strlen(text) + 64), *to = out;
    assert_non_null(names);
    assert_non_null(out);
    name_definitions(text, names);
    for (const char *line = text; *line != '\0';) {
        const char *end = line_end(line);
        bool quoted = false;
        for (const char *at = line; !is_comment(line) && at < end;) {
            quoted = quoted != (*at == '"');
            if (*at == '%' && !quoted) {
                char *after = NULL;
                long id = strtol(at + 1, &after, 10);
                assert_in_range(id, 0, MOST_IDS - 1);
                to += sprintf(to, "%%%d", names[id]);
                at = after;
            } else {
                *to++ = *at++;
            }
        }
        if (!is_comment(line)) {
            *to++ = '\n';
        }
        line = *end == '\n' ? end + 1 : end;
    }
    *to = '\0';
    free(names);
    return out;
}

char *test_text(ir_graph *graph) {
    const char *text = NULL;
    assert_ok(graph->ctx, ebb__ir_print(graph, &text));
    return test_canonical(text);
}

void test_expect(ir_graph *graph, const char *text) {
    ir_graph wanted;
    test_parse(graph->ctx, text, &wanted);
    char *a = test_text(graph), *b = test_text(&wanted);
    assert_string_equal(a, b);
    free(a);
    free(b);
    ebb__ir_fini(&wanted);
}

int test_count(const ir_graph *graph, op_code op) {
    int n = 0;
    for (int32_t i = 0; i < graph->n_order; i++) {
        n += graph->nodes[graph->order[i]].op == op;
    }
    return n;
}

int test_place_of(const ir_graph *graph, ir_node node) {
    for (int32_t i = 0; i < graph->n_order; i++) {
        if (graph->order[i] == node) {
            return i;
        }
    }
    fail_msg("node %d is not in the order", node);
    return -1;
}

const ir_node_rec *test_node(const ir_graph *graph, op_code op, int nth) {
    for (int32_t i = 0; i < graph->n_order; i++) {
        const ir_node_rec *node = &graph->nodes[graph->order[i]];
        if (node->op == op && nth-- == 0) {
            return node;
        }
    }
    fail_msg("no such node of %s", ebb__op((int)op)->schema.name);
    return NULL;
}

const ir_node_rec *test_def(const ir_graph *graph, ir_val value) {
    assert_in_range(value, 0, graph->n_values - 1);
    assert_int_not_equal(graph->values[value].def, IR_NONE);
    return &graph->nodes[graph->values[value].def];
}

/* ---- passes ---- */

void test_unit_init(test_unit *t, const ir_graph *graph) {
    *t = (test_unit){.config = {.members = 1, .training = true}};
    t->unit = (pass_unit){.ctx = graph->ctx, .config = &t->config, .dev = ebb__device_default()};
    ebb__region_init(&t->unit.region, graph->ctx);
    ebb__region_init(&t->unit.scratch, graph->ctx);
    assert_ok(graph->ctx, ebb__ir_copy(graph, &t->unit.graph));
}

void test_unit_text(test_unit *t, ebb_ctx *ctx, const char *text) {
    ir_graph graph;
    test_parse(ctx, text, &graph);
    test_unit_init(t, &graph);
    ebb__ir_fini(&graph);
}

void test_unit_fini(test_unit *t) {
    ebb__ir_fini(&t->unit.graph);
    ebb__region_fini(&t->unit.region);
    ebb__region_fini(&t->unit.scratch);
}

void test_pass(test_unit *t, const pass_def *pass) {
    assert_ok(t->unit.ctx, pass->run(&t->unit));
    assert_ok(t->unit.ctx, ebb__op_verify(&t->unit.graph));
}

void test_shard(ir_graph *graph, int32_t shards) {
    test_unit t;
    test_unit_init(&t, graph);
    t.unit.shards = shards;
    test_pass(&t, &ebb__pass_shard);
    ebb__ir_fini(graph);
    assert_ok(t.unit.ctx, ebb__ir_copy(&t.unit.graph, graph));
    test_unit_fini(&t);
}
