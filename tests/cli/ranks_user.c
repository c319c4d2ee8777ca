/* ranks_user.c - a program of somebody who has ebb.h, several processes of which train one model
 * together (test_ranks_api.py). Prints on the leader, as lines of JSON, what there is to compare.
 *
 *   ranks_user MODEL STEPS FILE [key=value ...]
 *
 * MODEL lm (4 layers over time, states, dropout) or rows (a net of rows, two graphs, gradients
 * shown). Keys: stages, reduce, shards, memory, clip, from (a file to go on from), odd (the number
 * of a process that compiles something else), die (of one that ends before it follows); adam. */
#include <ebb.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T = 6, B = 12, V = 40, E = 10, H = 14, IN = 9, HIDDEN = 16, OUT = 5 };

typedef struct job {
    const char *model, *file, *from;
    int steps, odd, die;
    ebb_options options;
    ebb_ctx *ctx;
    ebb_ranks *ranks;
    ebb_program *p[2];
    int n;
} job;

/* Whatever goes wrong ends the process with the status; the others are told. */
static void end(job *j, ebb_status status) {
    fprintf(stderr, "ranks_user: process %d: %s\n", ebb_ranks_number(j->ranks),
            ebb_last_error(j->ctx));
    for (int i = 0; i < j->n; i++) {
        ebb_program_free(j->p[i]);
    }
    ebb_ranks_close(j->ranks);
    exit((int)status);
}

static void must(job *j, ebb_status status) {
    if (status != EBB_OK) {
        end(j, status);
    }
}

/* Parameters stand before all layers, as many write them. */
static void build_lm(ebb_graph *g, double dropout) {
    static const char *const layers[] = {"first", "second"};
    ebb_value x[T], wx[2], wh[2], b[2], h[2], c[2], h0[2], c0[2];
    ebb_value table = ebb_param(g, "table", EBB_DIMS(V, E)),
              out = ebb_param(g, "out", EBB_DIMS(V, H));
    for (int l = 0; l < 2; l++) {
        char name[5][16];
        const char *parts[] = {"wx", "wh", "b", "h", "c"};
        for (int k = 0; k < 5; k++) {
            snprintf(name[k], sizeof name[k], "%s.%d", parts[k], l);
        }
        wx[l] = ebb_param(g, name[0], EBB_DIMS(4 * H, l == 0 ? E : H));
        wh[l] = ebb_param(g, name[1], EBB_DIMS(4 * H, H));
        b[l] = ebb_param(g, name[2], EBB_DIMS(4 * H));
        h[l] = h0[l] = ebb_state(g, name[3], EBB_DIMS(B, H));
        c[l] = c0[l] = ebb_state(g, name[4], EBB_DIMS(B, H));
    }
    ebb_value ids = ebb_input_i32(g, "ids", EBB_DIMS(T * B));
    ebb_value next = ebb_input_i32(g, "next", EBB_DIMS(T * B));
    for (int t = 0; t < T; t++) {
        ebb_time(g, t);
        ebb_layer(g, "embedding");
        x[t] = ebb_embed(g, table, ebb_slice(g, ids, 0, t * B, B));
        for (int l = 0; l < 2; l++) {
            ebb_layer(g, layers[l]);
            ebb_value z = ebb_linear(g, h[l], wh[l], ebb_linear(g, x[t], wx[l], b[l]));
            ebb_value y = ebb_lstm_cell(g, z, c[l], &h[l], &c[l]);
            x[t] = ebb_dropout(g, y, dropout, layers[l]);
        }
    }
    ebb_time(g, -1);
    ebb_layer(g, "output");
    ebb_value logits = ebb_linear(g, ebb_stack(g, x, T), out, EBB_NO_VALUE);
    ebb_loss(g, ebb_cross_entropy(g, logits, next));
    for (int l = 0; l < 2; l++) {
        ebb_carry(g, h0[l], h[l]);
        ebb_carry(g, c0[l], c[l]);
    }
}

/* Batches of another size where nothing is trained. */
static void build_rows(ebb_graph *g, int training) {
    int64_t rows = training ? B : 2 * B;
    ebb_value x = ebb_input_f32(g, training ? "x" : "xs", EBB_DIMS(rows, IN));
    ebb_layer(g, "low");
    ebb_value w1 = ebb_param(g, "w1", EBB_DIMS(HIDDEN, IN)),
              b1 = ebb_param(g, "b1", EBB_DIMS(HIDDEN));
    ebb_value h = ebb_relu(g, ebb_linear(g, x, w1, b1));
    ebb_layer(g, "high");
    ebb_value w2 = ebb_param(g, "w2", EBB_DIMS(OUT, HIDDEN));
    ebb_value logits = ebb_linear(g, h, w2, EBB_NO_VALUE);
    if (training) {
        ebb_loss(g, ebb_cross_entropy(g, logits, ebb_input_i32(g, "y", EBB_DIMS(rows))));
        ebb_output(g, "logits", logits);
        ebb_gradient(g, w2);
    } else {
        ebb_output(g, "likely", ebb_softmax(g, logits));
    }
}

static void compile(job *j) {
    ebb_graph *g[2];
    int lm = strcmp(j->model, "lm") == 0;
    j->n = lm ? 1 : 2;
    for (int i = 0; i < j->n; i++) {
        must(j, ebb_graph_new(j->ctx, &g[i]));
        ebb_graph_seed(g[i], 7);
        if (lm) {
            build_lm(g[i], j->odd == ebb_ranks_number(j->ranks) ? 0.4 : 0.3);
        } else {
            build_rows(g[i], i == 0);
        }
    }
    ebb_status status = ebb_compile_all((const ebb_graph *const *)g, j->n, 1, &j->options, j->p);
    for (int i = 0; i < j->n; i++) {
        ebb_graph_free(g[i]);
    }
    must(j, status);
}

static unsigned hash_of(const void *data, size_t bytes) {
    unsigned hash = 2166136261U;
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ ((const unsigned char *)data)[i]) * 16777619U;
    }
    return hash;
}

/* Every value by its name, as it is read. */
static void tell_values(job *j, int index) {
    ebb_program *p = j->p[index];
    for (int i = 0; ebb_program_name(p, i) != NULL; i++) {
        const char *name = ebb_program_name(p, i);
        ebb_shape shape;
        must(j, ebb_program_shape(p, name, &shape));
        void *data = malloc((size_t)shape.bytes);
        must(j, data != NULL ? ebb_program_get(p, name, data, (size_t)shape.bytes) : EBB_NOMEM);
        printf("{\"program\": %d, \"name\": \"%s\", \"role\": %d, \"bytes\": %llu, \"hash\": %u}\n",
               index, name, (int)shape.role, (unsigned long long)shape.bytes,
               hash_of(data, (size_t)shape.bytes));
        if (shape.role == EBB_ROLE_PARAM) { /* and back again: the same */
            must(j, ebb_program_set(p, name, data, (size_t)shape.bytes));
        }
        free(data);
    }
}

static void feed(job *j, int step) {
    static int32_t ids[T * B], next[T * B];
    static float x[B * IN];
    if (strcmp(j->model, "lm") == 0) {
        for (int i = 0; i < T * B; i++) {
            ids[i] = (i * 7 + step * 11) % V;
            next[i] = (i * 5 + step * 3) % V;
        }
        must(j, ebb_program_set(j->p[0], "ids", ids, sizeof ids));
        must(j, ebb_program_set(j->p[0], "next", next, sizeof next));
        return;
    }
    for (int i = 0; i < B * IN; i++) {
        x[i] = (float)((i * 13 + step * 29) % 17) / 8 - 1;
    }
    for (int i = 0; i < B; i++) {
        next[i] = (i + step) % OUT;
    }
    must(j, ebb_program_set(j->p[0], "x", x, sizeof x));
    must(j, ebb_program_set(j->p[0], "y", next, B * sizeof *next));
}

static void lead(job *j) {
    ebb_program *p = j->p[0];
    must(j, ebb_program_init(p, 3));
    if (j->from != NULL) {
        must(j, ebb_program_load_all(p, j->from));
    }
    for (int i = 0; i < j->steps; i++) {
        feed(j, (int)ebb_program_steps(p));
        must(j, ebb_program_run(p, 0.05));
        printf("{\"step\": %llu, \"loss\": %.17g, \"norm\": %.17g}\n",
               (unsigned long long)ebb_program_steps(p), ebb_program_loss(p),
               ebb_program_grad_norm(p));
        fflush(stdout);
        if (j->n == 2) { /* looks at the weights of this very step, with more rows */
            float x[2 * B * IN], likely[2 * B * OUT];
            for (int k = 0; k < 2 * B * IN; k++) {
                x[k] = (float)(k % 5);
            }
            must(j, ebb_program_set(j->p[1], "xs", x, sizeof x));
            must(j, ebb_program_run(j->p[1], 0));
            must(j, ebb_program_get(j->p[1], "likely", likely, sizeof likely));
            printf("{\"likely\": %u}\n", hash_of(likely, sizeof likely));
        }
    }
    must(j, ebb_program_save_all(p, j->file));
    feed(j, 0);
    must(j, ebb_program_run(p, 0.05)); /* for outputs, which hold until another program runs */
    tell_values(j, 0);
}

/* What follows key=; NULL: the text is another one. */
static const char *value_of(const char *text, const char *key) {
    size_t n = strlen(key);
    return strncmp(text, key, n) == 0 && text[n] == '=' ? text + n + 1 : NULL;
}

static void read_option(job *j, const char *text) {
    const char *value;
    if ((value = value_of(text, "stages")) != NULL) {
        j->options.stages = atoi(value);
    } else if ((value = value_of(text, "shards")) != NULL) {
        j->options.shards = atoi(value);
    } else if ((value = value_of(text, "reduce")) != NULL) {
        j->options.reduce = atoi(value);
    } else if ((value = value_of(text, "memory")) != NULL) {
        j->options.memory = strtoull(value, NULL, 10);
    } else if ((value = value_of(text, "clip")) != NULL) {
        j->options.clip = atof(value);
    } else if ((value = value_of(text, "from")) != NULL) {
        j->from = value;
    } else if ((value = value_of(text, "odd")) != NULL) {
        j->odd = atoi(value);
    } else if ((value = value_of(text, "die")) != NULL) {
        j->die = atoi(value);
    } else if (strcmp(text, "adam") == 0) {
        j->options.optimizer = EBB_ADAM;
    } else {
        fprintf(stderr, "ranks_user: what is %s?\n", text);
        exit(EBB_USAGE);
    }
}

int main(int argc, char **argv) {
    job j = {.model = argv[1], .steps = atoi(argv[2]), .file = argv[3], .odd = -1, .die = -1};
    ebb_plan_info plan;
    if (ebb_ctx_new(&j.ctx) != EBB_OK) {
        return EBB_NOMEM;
    }
    j.options = ebb_options_default();
    j.options.threads = 1;
    for (int i = 4; i < argc; i++) {
        read_option(&j, argv[i]);
    }
    must(&j, ebb_ranks_open(j.ctx, getenv, NULL, &j.ranks));
    j.options.ranks = j.ranks;
    compile(&j);
    if (j.die == ebb_ranks_number(j.ranks)) {
        return EBB_IO;
    }
    if (ebb_ranks_number(j.ranks) == 0) {
        lead(&j);
    } else {
        must(&j, ebb_program_follow(j.p[0]));
    }
    must(&j, ebb_program_plan(j.p[0], &plan));
    char line[200];
    int n = snprintf(
        line, sizeof line,
        "{\"process\": %d, \"of\": %d, \"reduce\": %d, \"planned\": %llu, \"measured\": %llu}\n",
        ebb_ranks_number(j.ranks), ebb_ranks_count(j.ranks), (int)plan.reduce,
        (unsigned long long)plan.peak_bytes, (unsigned long long)ebb_program_measured(j.p[0]));
    fwrite(line, 1, (size_t)n, stdout);
    fflush(stdout);
    for (int i = 0; i < j.n; i++) {
        ebb_program_free(j.p[i]);
    }
    ebb_ranks_close(j.ranks);
    ebb_ctx_free(j.ctx);
    return 0;
}
