/* api_help.h - what the tests of the public interface share: contexts that must end empty, and one
 * small language model. */
#ifndef TESTS_API_HELP_H
#define TESTS_API_HELP_H

#include "base/ctx.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline int set_up(void **state) {
    ebb_ctx *ctx;
    if (ebb_ctx_new(&ctx) != EBB_OK) {
        return -1;
    }
    *state = ctx;
    return 0;
}

/* Whatever a test did, nothing may be left. */
static inline int tear_down(void **state) {
    ebb_ctx *ctx = *state;
    bool clean = ctx->mem.live_bytes == 0 && ctx->mem.live_blocks == 0;
    ebb_ctx_free(ctx);
    return clean ? 0 : -1;
}

static inline ebb_graph *new_graph(ebb_ctx *ctx) {
    ebb_graph *g;
    assert_int_equal(ebb_graph_new(ctx, &g), EBB_OK);
    return g;
}

static inline void check(ebb_ctx *ctx, ebb_status status) {
    if (status != EBB_OK) {
        fail_msg("%s: %s", ebb_status_text(status), ebb_last_error(ctx));
    }
}

static inline ebb_options forward_options(void) {
    ebb_options options = ebb_options_default();
    options.optimizer = EBB_FORWARD;
    options.threads = 1;
    return options;
}

/* Compiles and frees the graph. */
static inline ebb_program *compile(ebb_ctx *ctx, ebb_graph *g, const ebb_options *options) {
    ebb_program *p;
    check(ctx, ebb_compile(g, options, &p));
    ebb_graph_free(g);
    return p;
}

static inline bool says(ebb_ctx *ctx, const char *part) {
    bool found = strstr(ebb_last_error(ctx), part) != NULL;
    if (!found) {
        print_message("'%s' is not in '%s'\n", part, ebb_last_error(ctx));
    }
    return found;
}

enum { T = 3, B = 2, V = 5, E = 3, H = 4 };

/* An LSTM language model; inputs "ids" and "next" [T*B]. */
static inline ebb_graph *lm_graph(ebb_ctx *ctx, double dropout) {
    ebb_graph *g = new_graph(ctx);
    ebb_value hs[T];
    ebb_layer(g, "data");
    ebb_value ids = ebb_input_i32(g, "ids", EBB_DIMS(T * B));
    ebb_value next = ebb_input_i32(g, "next", EBB_DIMS(T * B));
    ebb_layer(g, "rnn");
    ebb_value table = ebb_param(g, "table", EBB_DIMS(V, E));
    ebb_value wx = ebb_param(g, "wx", EBB_DIMS(4 * H, E));
    ebb_value wh = ebb_param(g, "wh", EBB_DIMS(4 * H, H));
    ebb_value bias = ebb_param(g, "bias", EBB_DIMS(4 * H));
    ebb_value h0 = ebb_state(g, "h", EBB_DIMS(B, H)), h = h0;
    ebb_value c0 = ebb_state(g, "c", EBB_DIMS(B, H)), c = c0;
    for (int t = 0; t < T; t++) {
        ebb_time(g, t);
        ebb_value x = ebb_embed(g, table, ebb_slice(g, ids, 0, t * B, B));
        ebb_value z = ebb_linear(g, h, wh, ebb_linear(g, x, wx, bias));
        hs[t] = ebb_dropout(g, ebb_lstm_cell(g, z, c, &h, &c), dropout, "rnn.drop");
    }
    ebb_time(g, -1);
    ebb_carry(g, h0, h);
    ebb_carry(g, c0, c);
    ebb_layer(g, "out");
    ebb_value out = ebb_param(g, "out", EBB_DIMS(V, H));
    ebb_value logits = ebb_linear(g, ebb_stack(g, hs, T), out, EBB_NO_VALUE);
    ebb_output(g, "logits", logits);
    ebb_loss(g, ebb_cross_entropy(g, logits, next));
    check(ctx, ebb_graph_status(g));
    return g;
}

static const int32_t some_ids[T * B] = {0, 4, 1, 3, 2, 2}, some_next[T * B] = {1, 3, 2, -1, 4, 0};

static inline void feed(ebb_ctx *ctx, ebb_program *p) {
    check(ctx, ebb_program_set(p, "ids", some_ids, sizeof some_ids));
    check(ctx, ebb_program_set(p, "next", some_next, sizeof some_next));
}

#endif
