/* processes.c - a character LSTM of two layers learns one sentence by heart: alone, or on several
 * processes, each of which then has one or two of its four layers. The numbers are the same.
 *
 *   ./processes                     mpirun -n 2 ./processes                     mpirun -n 4 ... */
#include <ebb.h>
#include <stdio.h>
#include <stdlib.h>
static const char text[] = "the tide goes out and comes back with what the sea has kept.";
enum { T = sizeof text - 2, V = 128, H = 48 }; /* steps, characters, units */

static void must(ebb_ctx *ctx, ebb_status status) {
    if (status != EBB_OK) {
        fprintf(stderr, "processes: %s\n", ebb_last_error(ctx));
        exit(status); /* mpirun ends the others */
    }
}

typedef struct layer {
    ebb_value wx, wh, b, h, c;
} layer;

static layer new_layer(ebb_graph *g, const char *names[5]) {
    layer l = {ebb_param(g, names[0], EBB_DIMS(4 * H, H)),
               ebb_param(g, names[1], EBB_DIMS(4 * H, H)), ebb_param(g, names[2], EBB_DIMS(4 * H)),
               ebb_state(g, names[3], EBB_DIMS(1, H)), ebb_state(g, names[4], EBB_DIMS(1, H))};
    return l;
}

/* Processes share the layers that ebb_layer() names; ebb_time() lets them work at the same time, on
 * different steps. */
static void build(ebb_graph *g) {
    ebb_value hs[T], ids = ebb_input_i32(g, "ids", EBB_DIMS(T));
    ebb_value table = ebb_param(g, "embed", EBB_DIMS(V, H)),
              out = ebb_param(g, "out", EBB_DIMS(V, H));
    layer lower = new_layer(g, (const char *[]){"wx0", "wh0", "b0", "h0", "c0"});
    layer upper = new_layer(g, (const char *[]){"wx1", "wh1", "b1", "h1", "c1"});
    for (int t = 0; t < T; t++) {
        ebb_time(g, t);
        ebb_layer(g, "embedding");
        ebb_value x = ebb_embed(g, table, ebb_slice(g, ids, 0, t, 1));
        ebb_layer(g, "lower");
        ebb_value z = ebb_linear(g, lower.h, lower.wh, ebb_linear(g, x, lower.wx, lower.b));
        x = ebb_lstm_cell(g, z, lower.c, &lower.h, &lower.c);
        ebb_layer(g, "upper");
        z = ebb_linear(g, upper.h, upper.wh, ebb_linear(g, x, upper.wx, upper.b));
        hs[t] = ebb_lstm_cell(g, z, upper.c, &upper.h, &upper.c);
    }
    ebb_time(g, -1);
    ebb_layer(g, "output");
    ebb_value logits = ebb_linear(g, ebb_stack(g, hs, T), out, EBB_NO_VALUE);
    ebb_loss(g, ebb_cross_entropy(g, logits, ebb_input_i32(g, "next", EBB_DIMS(T))));
}

/* What one process would do. */
static void train(ebb_ctx *ctx, ebb_program *p) {
    int32_t ids[T + 1];
    for (int t = 0; t <= T; t++)
        ids[t] = text[t];
    must(ctx, ebb_program_init(p, 1));
    must(ctx, ebb_program_set(p, "ids", ids, sizeof ids - sizeof *ids));
    must(ctx, ebb_program_set(p, "next", ids + 1, sizeof ids - sizeof *ids));
    for (int step = 0; step <= 160; step++) {
        must(ctx, ebb_program_run(p, 0.03));
        if (step % 40 == 0)
            printf("step %3d: loss %.4f\n", step, ebb_program_loss(p));
    }
    must(ctx, ebb_program_save(p, "processes.safetensors")); /* all of it, by this process */
}

int main(void) {
    ebb_ctx *ctx;
    ebb_ranks *ranks;
    ebb_graph *graph;
    ebb_program *p;
    ebb_plan_info plan;
    ebb_options options = ebb_options_default();
    if (ebb_ctx_new(&ctx) != EBB_OK)
        return EBB_NOMEM;
    must(ctx, ebb_ranks_open(ctx, getenv, NULL, &ranks));
    options.optimizer = EBB_ADAM;
    options.ranks = ranks;
    options.stages = ebb_ranks_count(ranks);
    must(ctx, ebb_graph_new(ctx, &graph));
    build(graph);
    must(ctx, ebb_compile(graph, &options, &p)); /* each gets its part of the plan */
    must(ctx, ebb_program_plan(p, &plan));
    printf("process %d of %d: %llu bytes\n", ebb_ranks_number(ranks), ebb_ranks_count(ranks),
           (unsigned long long)plan.peak_bytes);
    if (ebb_ranks_number(ranks) == 0)
        train(ctx, p);
    else
        must(ctx, ebb_program_follow(p)); /* until the first process frees its program */
    ebb_program_free(p);
    ebb_ranks_close(ranks);
    ebb_graph_free(graph);
    ebb_ctx_free(ctx);
}
