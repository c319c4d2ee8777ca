/* disc.c - a kind of model that only the tests have: is a point of the plane inside a disc? Its
 * points are drawn, there is no text; a network with one hidden layer learns to tell. It stands for
 * whatever kind comes next: this file and a line in kinds.def are all there is of it. */
#include "kind/kinds.h"
#include "model/cell.h"
#include "train/job_int.h"
#include "train/options.h"

#include "base/rng.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { ACCURACY, CONFIDENCE, N_METRICS, CLASSES = 2, PLANE = 2 };
#define DISC_POINTS "data.points" /* f32 [B, 2] */
#define DISC_LABELS "data.labels" /* i32 [B]: 1 inside */
#define DISC_LOGITS "logits"      /* output of validation, f32 [B, 2] */

/* ---- settings ---- */

typedef struct disc_settings {
    int64_t hidden, points;
    double radius;
} disc_settings;
_Static_assert(sizeof(disc_settings) <= SETTINGS_OWN_BYTES, "room for the kind's settings");

static const disc_settings *own(const train_settings *s) {
    return (const void *)s->own;
}

static const train_option options[] = {
    /* clang-format off */
    {"points", "Data", OPTION_INT, OWN(disc_settings, points), "N", "64", NULL, {0}, RANGE(1, 1e6), RUN, MATH,
     "points to learn from; a quarter as many to validate on"},
    {"radius", "Data", OPTION_REAL, OWN(disc_settings, radius), "X", "0.7", NULL, {0}, BETWEEN(0, 1), MODEL, MATH,
     "of the disc, in a square that reaches from -1 to 1"},
    {"hidden", "Model", OPTION_INT, OWN(disc_settings, hidden), "N", "8", NULL, {0}, RANGE(1, 1e5), MODEL, MATH,
     "units of the layer between points and answer"},
    {"batch", "Batch", OPTION_INT, AT(batch), "N", "16", "auto", {0}, RANGE(1, 1e6), MODEL, MATH,
     "points in a step"},
    OPTION_SHARDS,
    OPTIONS_OPTIMISER("sgd", "1", "learning rate; 0.001 where the optimiser is adam or adamw", "5"),
    OPTIONS_LENGTH,
    {"valid-metric", "Length", OPTION_CHOICE, AT(valid_metric), NULL, "accuracy", NULL, {"accuracy", "confidence"}, ANY, RUN, MATH,
     "what decides which weights are the best"},
    OPTIONS_RUN("ebb-disc"),
    OPTIONS_END,
    /* clang-format on */
};
static const option_list all_options = {options, sizeof options / sizeof *options};

static const kind_metric metrics[N_METRICS] = {
    [ACCURACY] = {"accuracy", "accuracy", "accuracy", .higher = true},
    [CONFIDENCE] = {"confidence", "confidence", "confidence", .higher = true}};

static const kind_command commands[] = {
    {FOR_TRAIN, 0, "train disc [options]", "learn to tell points of a disc",
     "Learns to tell points inside a disc from points outside.\n"},
    {FOR_PLAN, 0, "plan disc [options of train disc]", "the same for points", "Plans that.\n"},
    {FOR_BENCH, 0, "bench disc [options]", "the same for points", "Times that.\n"}};

static void describe(const train_settings *s, char *text, size_t bytes) {
    (void)snprintf(text, bytes, "disc, %" PRId64 " units, batch %" PRId64, own(s)->hidden,
                   s->batch);
}

/* ---- the model ---- */

/* The mean of the hidden layer is carried from step to step, over epochs too. */
static ebb_status add_mean(model_builder *b, ir_val hidden, int32_t units) {
    ir_val mean = IR_NONE, sum = IR_NONE, next = IR_NONE;
    ir_attr attr = {.f = {1.0F / (float)(b->batch + 1)}};
    TRY(ebb__model_variable(b, IR_BUFFER, "hidden.mean", IR_F32, 0, units, &mean));
    TRY(ebb__op_emit(b->g, OP_SUM_ROWS, (ir_val[]){mean, hidden}, 2, NULL, &sum));
    TRY(ebb__op_emit(b->g, OP_SCALE, &sum, 1, &attr, &next));
    b->g->values[mean].next = next;
    return EBB_OK;
}

static ebb_status build(ir_graph *graph, const train_settings *s, const job_request *request,
                        data_shape shape, job_use use) {
    int32_t rows = (int32_t)s->batch, units = (int32_t)own(s)->hidden;
    model_builder b = {.g = graph, .batch = rows, .step = IR_NONE};
    ir_val x = IR_NONE, y = IR_NONE, w = IR_NONE, bias = IR_NONE, h = IR_NONE, z = IR_NONE, loss[2];
    (void)request, (void)shape;
    TRY(ebb__model_layer(&b, "data"));
    TRY(ebb__model_variable(&b, IR_INPUT, DISC_POINTS, IR_F32, rows, PLANE, &x));
    TRY(ebb__model_variable(&b, IR_INPUT, DISC_LABELS, IR_I32, 0, rows, &y));
    TRY(ebb__model_layer(&b, "hidden"));
    TRY(ebb__model_param(&b, "hidden.weight", units, PLANE, ebb__model_uniform(1), &w));
    TRY(ebb__model_param(&b, "hidden.bias", 0, units, ebb__model_uniform(1), &bias));
    TRY(ebb__op_linear(graph, bias, x, w, &z));
    TRY(ebb__op_emit(graph, OP_TANH, &z, 1, NULL, &h));
    if (use == JOB_TRAIN) {
        TRY(add_mean(&b, h, units));
    }
    TRY(ebb__model_layer(&b, "out"));
    TRY(ebb__model_param(&b, "out.weight", CLASSES, units, ebb__model_uniform(1), &w));
    TRY(ebb__op_linear(graph, IR_NONE, h, w, &z));
    if (use == JOB_VALID) {
        graph->values[z].output = true;
        TRY(ebb__ir_name(graph, z, DISC_LOGITS));
    }
    TRY(ebb__op_emit(graph, OP_XENT, (ir_val[]){z, y}, 2, NULL, loss));
    return ebb__model_loss(&b, loss[0], y, "loss");
}

static data_shape plain_shape(const train_settings *s) {
    (void)s;
    return (data_shape){.target = 1};
}

static void vocab_sizes(const train_settings *s, job_request *request) {
    (void)s;
    request->vocab = CLASSES;
}

static uint64_t staging(const train_settings *s, const job_request *request) {
    (void)s, (void)request;
    return sizeof(uint64_t);
}

/* ---- its points ---- */

typedef struct disc_points {
    const train_settings *s;
    run_session *session;
    const char *site;
    int64_t count;
    int32_t program;
    run_place places[2]; /* points, labels */
} disc_points;

typedef struct disc_corpus {
    corpus base;
    disc_points train, valid;
} disc_corpus;

static int32_t draw(const disc_points *d, int64_t number, float *to) {
    rng_block drawn = ebb__rng_block(ebb__rng_key(d->s->seed, d->site), (uint32_t)number, 0, 0, 0);
    for (int i = 0; i < PLANE; i++) {
        to[i] = 2 * (float)drawn.word[i] * 0x1p-32F - 1;
    }
    return sqrt((double)(to[0] * to[0] + to[1] * to[1])) < own(d->s)->radius;
}

static ebb_status fill(const job_reader *reader, uint64_t step, int32_t *program, uint64_t *words) {
    const disc_points *d = reader->batches;
    int64_t batch = d->s->batch, first = (int64_t)(step % reader->n_batches) * batch;
    void *to[2];
    *program = d->program;
    *words = 0;
    TRY(ebb__run_map_all(d->session, d->places, 2, DEVICE_WRITE, to));
    for (int64_t i = 0; i < batch; i++) {
        bool there = first + i < d->count; /* or beyond the last */
        int32_t inside = draw(d, first + i, (float *)to[0] + i * PLANE);
        ((int32_t *)to[1])[i] = there ? inside : -1;
        *words += there;
    }
    return ebb__run_unmap_all(d->session, d->places, 2, DEVICE_WRITE, to);
}

static job_reader reader_of(const train_settings *s, disc_points *d, run_session *session,
                            job_use use) {
    bool train = use == JOB_TRAIN;
    *d = (disc_points){
        .s = s,
        .session = session,
        .site = train ? "disc.train" : "disc.valid",
        .count = train ? own(s)->points : (own(s)->points + 3) / 4,
        .program = ebb__plan_program(session->plan, (int32_t)use, 0),
        .places = {ebb__run_find(session, DISC_POINTS), ebb__run_find(session, DISC_LABELS)}};
    uint64_t batches = (uint64_t)((d->count + s->batch - 1) / s->batch);
    return (job_reader){.n_batches = batches, .batches = d, .fill = fill};
}

static ebb_status begin(corpus *c, run_session *session) {
    disc_corpus *disc = (disc_corpus *)c;
    c->train = reader_of(c->s, &disc->train, session, JOB_TRAIN);
    c->valid = reader_of(c->s, &disc->valid, session, JOB_VALID);
    return EBB_OK;
}

static ebb_status measure(corpus *c, uint64_t most, job_request *request) {
    (void)most;
    c->vocab_hash = 1;
    request->vocab = CLASSES;
    request->most_batch = (uint64_t)own(c->s)->points;
    return EBB_OK;
}

static ebb_status choose(corpus *c, job_request *request) {
    (void)c, (void)request;
    return EBB_OK;
}

static ebb_status nothing(corpus *c) {
    (void)c;
    return EBB_OK;
}

static ebb_status store(corpus *c) {
    TRY(ebb__corpus_same(c, "points", (uint64_t)own(c->s)->points, 1, "points"));
    return ebb__corpus_same_valid(c, "points", 1);
}

static ebb_status count_right(const disc_points *d, uint64_t first, uint64_t n, uint64_t *right) {
    run_place place = ebb__run_find_output(d->session, d->program, DISC_LOGITS);
    const float *logits = NULL;
    TRY(ebb__run_map(d->session, place, DEVICE_READ, &logits));
    for (uint64_t i = 0; i < n; i++) {
        float point[PLANE];
        int32_t said = logits[i * CLASSES + 1] > logits[i * CLASSES];
        *right += said == draw(d, (int64_t)(first + i), point);
    }
    return ebb__run_unmap(d->session, place, DEVICE_READ, logits);
}

/* The share of points that are told right, and how sure it is of the right answer in the mean. */
static ebb_status score(corpus *c, run_session *session, const job_observer *observer, double loss,
                        kind_scores *out, bool *stopped) {
    const disc_points *d = &((disc_corpus *)c)->valid;
    uint64_t right = 0, all = 0;
    (void)observer, (void)stopped;
    for (uint64_t w = 0; w < c->valid.n_batches; w++) {
        int32_t program = 0;
        uint64_t words = 0;
        TRY(c->valid.fill(&c->valid, w, &program, &words));
        TRY(ebb__run_step(session, program));
        TRY(count_right(d, all, words, &right));
        all += words;
    }
    out->at[ACCURACY] = (double)right / (double)all;
    out->at[CONFIDENCE] = exp(-loss);
    return EBB_OK;
}

static ebb_status compare(const corpus *c, const char *dir, bool *train, bool *valid) {
    (void)c, (void)dir;
    *train = *valid = true;
    return EBB_OK;
}

static void close_corpus(corpus *c) {
    (void)c;
}

static ebb_status randomise(run_session *session, const train_settings *s) {
    disc_points d;
    int32_t program = 0;
    uint64_t words = 0;
    job_reader reader = reader_of(s, &d, session, JOB_TRAIN);
    return fill(&reader, 0, &program, &words);
}

const model_kind ebb__kind_disc = {.name = "disc",
                                   .title = "Disc",
                                   .what = "a disc",
                                   .used_by = "report",
                                   .unit = "points",
                                   .commands = commands,
                                   .n_commands = sizeof commands / sizeof *commands,
                                   .describe = describe,
                                   .options = &all_options,
                                   .metrics = metrics,
                                   .n_metrics = N_METRICS,
                                   .nats = true,
                                   .validates_always = true,
                                   .corpus = {.bytes = sizeof(disc_corpus),
                                              .measure = measure,
                                              .choose = choose,
                                              .save = nothing,
                                              .store = store,
                                              .begin = begin,
                                              .adopt = nothing,
                                              .score = score,
                                              .compare = compare,
                                              .close = close_corpus},
                                   .labels = DISC_LABELS,
                                   .shape = plain_shape,
                                   .vocab_sizes = vocab_sizes,
                                   .staging = staging,
                                   .build = build,
                                   .randomise = randomise};
