/* tiny_lm.c - a character LSTM learns one sentence by heart, under a budget of 1 MiB. */
#include <ebb.h>
#include <stdio.h>
#include <stdlib.h>
static const char text[] = "the tide goes out and comes back with what the sea has kept.";
enum { T = sizeof text - 2, V = 128, E = 16, H = 48 }; /* steps, characters, embedding, units */

static void must(ebb_ctx *ctx, ebb_status status) {
    if (status != EBB_OK) {
        fprintf(stderr, "tiny_lm: %s\n", ebb_last_error(ctx));
        exit(status);
    }
}

/* Embedding, LSTM over T characters, projection: the loss says how badly it tells the next one. */
static void build(ebb_graph *g) {
    ebb_value ids = ebb_input_i32(g, "ids", EBB_DIMS(T)), hs[T];
    ebb_value table = ebb_param(g, "embed", EBB_DIMS(V, E));
    ebb_value wx = ebb_param(g, "wx", EBB_DIMS(4 * H, E));
    ebb_value wh = ebb_param(g, "wh", EBB_DIMS(4 * H, H));
    ebb_value b = ebb_param(g, "b", EBB_DIMS(4 * H)), out = ebb_param(g, "out", EBB_DIMS(V, H));
    ebb_value h = ebb_state(g, "h", EBB_DIMS(1, H)), c = ebb_state(g, "c", EBB_DIMS(1, H));
    for (int t = 0; t < T; t++) {
        ebb_value x = ebb_embed(g, table, ebb_slice(g, ids, 0, t, 1));
        hs[t] = ebb_lstm_cell(g, ebb_linear(g, h, wh, ebb_linear(g, x, wx, b)), c, &h, &c);
    }
    ebb_value logits = ebb_linear(g, ebb_stack(g, hs, T), out, EBB_NO_VALUE); /* [T, V] */
    ebb_loss(g, ebb_cross_entropy(g, logits, ebb_input_i32(g, "next", EBB_DIMS(T))));
}

int main(void) {
    int32_t ids[T + 1];
    ebb_ctx *ctx;
    ebb_graph *graph;
    ebb_program *program;
    ebb_plan_info plan;
    ebb_options options = ebb_options_default();
    options.memory = 1 << 20;
    options.optimizer = EBB_ADAM;
    if (ebb_ctx_new(&ctx) != EBB_OK)
        return EBB_NOMEM;
    must(ctx, ebb_graph_new(ctx, &graph));
    build(graph);
    must(ctx, ebb_compile(graph, &options, &program));
    must(ctx, ebb_program_plan(program, &plan));
    printf("plan: %llu bytes\n", (unsigned long long)plan.peak_bytes);
    for (int t = 0; t <= T; t++)
        ids[t] = text[t];
    must(ctx, ebb_program_init(program, 1));
    must(ctx, ebb_program_set(program, "ids", ids, sizeof ids - sizeof *ids));
    must(ctx, ebb_program_set(program, "next", ids + 1, sizeof ids - sizeof *ids));
    for (int step = 0; step <= 200; step++) {
        must(ctx, ebb_program_run(program, 0.01));
        if (step % 40 == 0)
            printf("step %3d: loss %.4f\n", step, ebb_program_loss(program));
    }
    ebb_program_free(program);
    ebb_graph_free(graph);
    ebb_ctx_free(ctx);
}
