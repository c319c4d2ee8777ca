/* tagger.c - a sequence tagger: a GRU reads digits and says after each whether the sum so far is
 * even. Halfway the whole run goes to a file, and a new program goes on from it. */
#include <ebb.h>
#include <stdio.h>
#include <stdlib.h>
enum { T = 12, B = 32, E = 8, H = 32 }; /* positions, sequences, embedding, units */

static void must(ebb_ctx *ctx, ebb_status status) {
    if (status != EBB_OK) {
        fprintf(stderr, "tagger: %s\n", ebb_last_error(ctx));
        exit(status);
    }
}

/* Digits and tags [T*B], position after position; the state starts as zeros for every batch. */
static ebb_graph *build(ebb_ctx *ctx, int training) {
    ebb_graph *g;
    ebb_value hs[T];
    must(ctx, ebb_graph_new(ctx, &g));
    ebb_value ids = ebb_input_i32(g, "digits", EBB_DIMS(T * B));
    ebb_value table = ebb_param(g, "table", EBB_DIMS(10, E)),
              h = ebb_input_f32(g, "start", EBB_DIMS(B, H));
    ebb_value wx = ebb_param(g, "wx", EBB_DIMS(3 * H, E)), bx = ebb_param(g, "bx", EBB_DIMS(3 * H));
    ebb_value wh = ebb_param(g, "wh", EBB_DIMS(3 * H, H)), bh = ebb_param(g, "bh", EBB_DIMS(3 * H));
    for (int t = 0; t < T; t++) {
        ebb_value x = ebb_embed(g, table, ebb_slice(g, ids, 0, t * B, B));
        h = ebb_gru_cell(g, ebb_linear(g, x, wx, bx), ebb_linear(g, h, wh, bh), h);
        hs[t] = h;
    }
    ebb_value logits =
        ebb_linear(g, ebb_stack(g, hs, T), ebb_param(g, "out", EBB_DIMS(2, H)), EBB_NO_VALUE);
    if (training)
        ebb_loss(g, ebb_cross_entropy(g, logits, ebb_input_i32(g, "tags", EBB_DIMS(T * B))));
    else
        ebb_output(g, "scores", logits);
    return g;
}

static void draw(int32_t *digits, int32_t *tags) {
    for (int b = 0; b < B; b++)
        for (int t = 0, sum = 0; t < T; t++) {
            digits[t * B + b] = rand() % 10;
            sum += digits[t * B + b];
            tags[t * B + b] = sum % 2;
        }
}

static void compile(ebb_ctx *ctx, ebb_program **p) {
    ebb_options options = ebb_options_default();
    ebb_graph *graphs[] = {build(ctx, 1), build(ctx, 0)};
    options.optimizer = EBB_ADAM;
    options.clip = 1;
    must(ctx, ebb_compile_all((const ebb_graph *const *)graphs, 2, 1, &options, p));
    ebb_graph_free(graphs[0]);
    ebb_graph_free(graphs[1]);
}

int main(void) {
    int32_t digits[T * B], tags[T * B];
    float scores[T * B][2];
    int right = 0;
    ebb_ctx *ctx;
    ebb_program *p[2]; /* to train, to tag */
    if (ebb_ctx_new(&ctx) != EBB_OK)
        return EBB_NOMEM;
    compile(ctx, p);
    must(ctx, ebb_program_init(p[0], 1));
    for (int step = 0; step <= 2000; step++) {
        draw(digits, tags);
        must(ctx, ebb_program_set(p[0], "digits", digits, sizeof digits));
        must(ctx, ebb_program_set(p[0], "tags", tags, sizeof tags));
        must(ctx, ebb_program_run(p[0], 0.005));
        if (step % 500 == 0)
            printf("step %4d: loss %.5f\n", step, ebb_program_loss(p[0]));
        if (step == 1000) { /* as if the machine had been switched off */
            must(ctx, ebb_program_save_all(p[0], "tagger.safetensors"));
            ebb_program_free(p[0]);
            ebb_program_free(p[1]);
            compile(ctx, p);
            must(ctx, ebb_program_load_all(p[0], "tagger.safetensors"));
        }
    }
    draw(digits, tags);
    must(ctx, ebb_program_set(p[1], "digits", digits, sizeof digits));
    must(ctx, ebb_program_run(p[1], 0));
    must(ctx, ebb_program_get(p[1], "scores", scores, sizeof scores));
    for (int i = 0; i < T * B; i++)
        right += (scores[i][1] > scores[i][0]) == tags[i];
    printf("%d of %d tags are right\n", right, T * B);
    ebb_program_free(p[0]);
    ebb_program_free(p[1]);
    ebb_ctx_free(ctx);
}
