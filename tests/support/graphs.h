/* graphs.h - what the tests of graphs, passes and plans share: contexts that must end empty, graphs
 * from text or from the word model, one pass at a time, and text with ids renamed so that two
 * graphs can be compared. Every function asserts its own success. */
#ifndef TESTS_SUPPORT_GRAPHS_H
#define TESTS_SUPPORT_GRAPHS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/word_lm.h"
#include "pass/pass.h"

ebb_ctx *test_ctx_new(void);
/* Nothing allocated through the context may be left. */
void test_ctx_free(ebb_ctx *ctx);

#define assert_ok(ctx, expr)                                                                       \
    do {                                                                                           \
        ebb_status status_ = (expr);                                                               \
        if (status_ != EBB_OK) {                                                                   \
            fail_msg("%s: status %d: %s", #expr, (int)status_, ebb_last_error(ctx));               \
        }                                                                                          \
    } while (0)
/* Fails with this status, and the sentence contains `part`. */
#define assert_refused(ctx, expr, status, part)                                                    \
    do {                                                                                           \
        ebb_status status_ = (expr);                                                               \
        if (status_ != (status) || strstr(ebb_last_error(ctx), part) == NULL) {                    \
            fail_msg("%s: status %d: %s", #expr, (int)status_, ebb_last_error(ctx));               \
        }                                                                                          \
        ebb__ctx_clear(ctx);                                                                       \
    } while (0)

/* ---- numbers ---- */
typedef struct test_dice {
    uint64_t state;
} test_dice;
uint64_t test_roll(test_dice *dice);
int32_t test_below(test_dice *dice, int32_t n); /* [0, n) */
/* The number in the environment's variable, for longer or other runs than the usual one. */
uint64_t test_asked(const char *variable, uint64_t usual);

/* ---- graphs ---- */
/* Parses and verifies structure and types. Close with ebb__ir_fini. */
void test_parse(ebb_ctx *ctx, const char *text, ir_graph *out);
/* A model of the given cell: 2 layers, H = E = 6, V = 11, B = 3, T steps, dropout. */
word_lm test_lm_small(lm_cell cell, int64_t steps);
void test_lm(ebb_ctx *ctx, const word_lm *model, ir_graph *out);

/* The graph as text without comments, values renamed %0, %1, ... in the order of their definition.
 * Free with free(). */
char *test_text(ir_graph *graph);
char *test_canonical(const char *text);
/* The graph is the one that `text` describes, up to the numbering of values. */
void test_expect(ir_graph *graph, const char *text);

int test_count(const ir_graph *graph, op_code op);      /* nodes in the order */
int test_place_of(const ir_graph *graph, ir_node node); /* position in the order */
const ir_node_rec *test_node(const ir_graph *graph, op_code op, int nth); /* in order */
const ir_node_rec *test_def(const ir_graph *graph, ir_val value);

/* ---- one pass at a time ---- */
typedef struct test_unit {
    pass_unit unit;
    pass_config config;
} test_unit;
/* Copies the graph. Config: training, SGD, one member; change it before running a pass. */
void test_unit_init(test_unit *t, const ir_graph *graph);
void test_unit_text(test_unit *t, ebb_ctx *ctx, const char *text);
void test_unit_fini(test_unit *t);
/* Runs the pass and verifies structure and types of what it leaves. */
void test_pass(test_unit *t, const pass_def *pass);
/* Parts the batch of a forward graph, as a request with so many shards does. */
void test_shard(ir_graph *graph, int32_t shards);

#endif
