/* kind_nmt.c - translation with attention: pairs of sentences, on a few shapes
 * (data/pair_batches.h).
 *
 * Where there are several shapes, the inputs of a program are named after its lengths
 * ("data.src.32"), so that programs of other lengths have inputs of their own. */
#include "train/job.h"

#include "data/pair_batches.h"
#include "model/nmt.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

_Static_assert((int)PAIRS_MOST_SHAPES <= (int)JOB_MAX_SHAPES, "a program for every shape");

/* ---- the model ---- */

static int64_t vocab_of(int64_t side, const train_settings *s) {
    return side > 0 ? side : s->vocab;
}

static job_shape plain_shape(const train_settings *s) {
    return (job_shape){s->src_len, s->tgt_len};
}

static void sizes(const train_settings *s, job_request *request) {
    request->vocab = vocab_of(s->tgt_vocab, s);
    request->src_vocab = vocab_of(s->src_vocab, s);
}

static nmt_model model_of(const train_settings *s) {
    return (nmt_model){.cell = (lm_cell)s->cell,
                       .attention = (nmt_attention)s->attention,
                       .embed = s->embed > 0 ? s->embed : s->hidden,
                       .hidden = s->hidden,
                       .enc_layers = s->enc_layers,
                       .dec_layers = s->dec_layers,
                       .batch = s->batch,
                       .shards = s->shards,
                       .feed = s->feed,
                       .layer_norm = s->layer_norm,
                       .tie = s->tie,
                       .tie_src = s->tie_src,
                       .seed = s->seed};
}

typedef struct input_name {
    char text[48];
} input_name;

static input_name name_of(const char *input, int64_t length) {
    input_name name;
    (void)snprintf(name.text, sizeof name.text, "%s.%d", input, (int)length);
    return name;
}

static ebb_status rename_inputs(ir_graph *graph, job_shape shape) {
    const struct {
        const char *input;
        int64_t length;
    } inputs[] = {{NMT_SRC, shape.src}, {NMT_TGT_IN, shape.tgt}, {NMT_TGT_OUT, shape.tgt}};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        ir_val v = ebb__ir_find(graph, inputs[i].input);
        if (v != IR_NONE) {
            TRY(ebb__ir_name(graph, v, name_of(inputs[i].input, inputs[i].length).text));
        }
    }
    return EBB_OK;
}

static ebb_status build(ir_graph *graph, const train_settings *s, const job_request *request,
                        job_shape shape, job_use use) {
    nmt_model model = model_of(s);
    model.src_vocab = request->src_vocab;
    model.tgt_vocab = request->vocab;
    model.src_len = shape.src;
    model.tgt_len = shape.tgt;
    model.dropout = use == JOB_TRAIN ? s->dropout : 0;
    model.smoothing = use == JOB_TRAIN ? s->smoothing : 0;
    model.predict = use == JOB_PREDICT;
    TRY(ebb__nmt_build(graph, &model));
    return request->shapes.n > 0 ? rename_inputs(graph, shape) : EBB_OK;
}

static void init(const char *name, float *data, uint64_t count, const train_settings *s) {
    nmt_model model = model_of(s);
    ebb__nmt_init(name, data, count, &model, s->seed);
}

static int64_t longest(const job_shapes *shapes, int64_t most) {
    for (int32_t i = 0; i < shapes->n; i++) {
        most = shapes->at[i].src > most ? shapes->at[i].src : most;
        most = shapes->at[i].tgt > most ? shapes->at[i].tgt : most;
    }
    return most;
}

/* One sentence and an <eos> before it. */
static uint64_t staging(const train_settings *s, const job_request *request) {
    job_shapes one = {1, {plain_shape(s)}};
    int64_t most = request->shapes.n > 0
                       ? longest(&request->shapes, longest(&request->valid_shapes, 0))
                       : longest(&one, 0);
    return ((uint64_t)most + 1) * sizeof(uint32_t);
}

static void randomise(run_session *session, const train_settings *s) {
    job_request request = {0};
    int32_t *lengths = ebb__run_variable(session, NMT_SRC_LEN, NULL);
    sizes(s, &request);
    ebb__job_random_ids(session, NMT_SRC, request.src_vocab, s->seed, "bench.src");
    ebb__job_random_ids(session, NMT_TGT_IN, request.vocab, s->seed, "bench.tgt_in");
    ebb__job_random_ids(session, NMT_TGT_OUT, request.vocab, s->seed, "bench.tgt_out");
    for (int64_t b = 0; b < s->batch; b++) {
        lengths[b] = (int32_t)s->src_len;
    }
}

static void planned(train_settings *s, const ebb_plan *plan) {
    s->src_len = ebb__kind_positions(plan, NMT_SRC) / s->batch;
    s->tgt_len = ebb__kind_positions(plan, NMT_TGT_OUT) / s->batch;
}

/* ---- its texts ---- */

enum { SIDE_SRC, SIDE_TGT, SIDES };

/* The pairs of one purpose. */
typedef struct nmt_set {
    tokens_reader tokens[SIDES];
    pair_batches batches;
    pair_options options;
    uint64_t pairs; /* that can be used */
} nmt_set;

typedef struct nmt_corpus {
    corpus base;
    data_vocab vocab[SIDES]; /* from measure() to store(); a joint one is the first */
    nmt_set train, valid;
} nmt_corpus;

static int32_t n_vocabs(const corpus *c) {
    return c->s->tie_src ? 1 : SIDES;
}

static const char *vocab_file(const corpus *c, int side, bool fresh) {
    static const char *const names[] = {"vocab.src.txt", "vocab.tgt.txt", "vocab.txt"};
    static const char *const fresh_names[] = {"vocab.src.new", "vocab.tgt.new", "vocab.new"};
    int which = c->s->tie_src ? SIDES : side;
    return fresh ? fresh_names[which] : names[which];
}

static uint64_t join_hashes(uint64_t a, uint64_t b) {
    uint64_t both[] = {a, b};
    return XXH3_64bits(both, sizeof both);
}

/* What is left out is said once a run, with where to look. */
static void report_left_out(const corpus *c, const pairs_texts *texts, const pairs_scan *scan) {
    if (c->silent) {
        return;
    }
    if (scan->over > 0) {
        ebb__log(c->ctx, EBB_LOG_WARN,
                 "%s, %s: %llu of %llu lines have more than %u tokens and are left out "
                 "(--max-len); the first is line %llu",
                 texts->source, texts->target, (unsigned long long)scan->over,
                 (unsigned long long)scan->lines, texts->max_len,
                 (unsigned long long)scan->first_over);
    }
    if (scan->empty > 0) {
        ebb__log(c->ctx, EBB_LOG_WARN,
                 "%s, %s: %llu of %llu lines are empty on a side and are left out; the first is "
                 "line %llu",
                 texts->source, texts->target, (unsigned long long)scan->empty,
                 (unsigned long long)scan->lines, (unsigned long long)scan->first_empty);
    }
}

static ebb_status scan_set(const corpus *c, const char *source, const char *target, nmt_set *set) {
    pairs_texts texts = {source, target, (text_mode)c->s->tokens, (uint32_t)c->s->max_len};
    pairs_scan scan;
    ebb_status status = ebb__pairs_scan(c->ctx, &texts, &scan);
    if (status == EBB_OK) {
        report_left_out(c, &texts, &scan);
        set->options = (pair_options){
            .max_len = texts.max_len, .rows = (uint32_t)c->s->batch, .seed = c->s->seed};
        set->pairs = scan.used;
        set->options.n_shapes = ebb__pairs_shapes(&scan, set->options.shapes);
    }
    ebb__pairs_scan_free(&scan);
    return status;
}

/* Validation runs on the shapes of training; only the largest may have to be larger. */
static void adapt_shapes(const pair_options *train, pair_options *valid) {
    pairs_shape most = valid->shapes[0];
    memcpy(valid->shapes, train->shapes, sizeof valid->shapes);
    valid->n_shapes = train->n_shapes;
    pairs_shape *first = &valid->shapes[0];
    first->source = most.source > first->source ? most.source : first->source;
    first->target = most.target > first->target ? most.target : first->target;
}

static job_shapes shapes_of(const pair_options *options) {
    job_shapes shapes = {.n = options->n_shapes};
    for (int32_t i = 0; i < shapes.n; i++) {
        shapes.at[i] = (job_shape){options->shapes[i].source, options->shapes[i].target};
    }
    return shapes;
}

static ebb_status open_vocab(nmt_corpus *nmt, int side, uint64_t most) {
    const corpus *c = &nmt->base;
    const train_settings *s = c->s;
    char path[JOB_PATH_BYTES];
    if (c->resumed) {
        TRY(ebb__job_path(c->ctx, c->dir, vocab_file(c, side, false), path));
        return ebb__vocab_load(c->ctx, path, &nmt->vocab[side]);
    }
    vocab_options options = {
        .mode = (text_mode)s->tokens,
        .also = s->tie_src ? s->train_target : NULL,
        .limit = (size_t)vocab_of(side == SIDE_SRC ? s->src_vocab : s->tgt_vocab, s),
        .max_bytes = most};
    return ebb__vocab_build(c->ctx, side == SIDE_SRC ? s->train_path : s->train_target, &options,
                            &nmt->vocab[side]);
}

static const data_vocab *vocab_at(const nmt_corpus *nmt, int side) {
    return &nmt->vocab[nmt->base.s->tie_src ? 0 : side];
}

static ebb_status measure(corpus *c, uint64_t most, job_request *request) {
    nmt_corpus *nmt = (nmt_corpus *)c;
    const train_settings *s = c->s;
    nmt_set *sets[] = {&nmt->train, &nmt->valid};
    for (int i = 0; i < 2; i++) {
        sets[i]->tokens[SIDE_SRC].fd = sets[i]->tokens[SIDE_TGT].fd = -1;
        sets[i]->batches.index = -1;
    }
    TRY(scan_set(c, s->train_path, s->train_target, &nmt->train));
    nmt->train.options.shuffle = true;
    if (s->valid_path != NULL) {
        TRY(scan_set(c, s->valid_path, s->valid_target, &nmt->valid));
        adapt_shapes(&nmt->train.options, &nmt->valid.options);
    }
    for (int side = 0; side < n_vocabs(c); side++) {
        TRY(open_vocab(nmt, side, most));
    }
    uint64_t hash = join_hashes(ebb__vocab_hash(vocab_at(nmt, SIDE_SRC)),
                                ebb__vocab_hash(vocab_at(nmt, SIDE_TGT)));
    if (c->resumed && hash != c->vocab_hash) {
        return ebb__fail(c->ctx, EBB_MODEL,
                         "%s: its vocabularies are not those the run was started with", c->dir);
    }
    c->vocab_hash = hash;
    request->src_vocab = vocab_at(nmt, SIDE_SRC)->count;
    request->vocab = vocab_at(nmt, SIDE_TGT)->count;
    request->most_batch = s->batch == 0 ? nmt->train.pairs : 0;
    request->shapes = shapes_of(&nmt->train.options);
    request->valid_shapes = shapes_of(&nmt->valid.options);
    return EBB_OK;
}

/* Both sides as ids, and the index of their pairs. */
static ebb_status store_set(const nmt_corpus *nmt, const char *name, const char *const texts[SIDES],
                            nmt_set *set) {
    static const char *const sides[] = {"src", "tgt"};
    const corpus *c = &nmt->base;
    char file[64], path[JOB_PATH_BYTES];
    for (int side = 0; side < SIDES; side++) {
        (void)snprintf(file, sizeof file, "%s.%s.tokens", name, sides[side]);
        TRY(ebb__job_path(c->ctx, c->dir, file, path));
        TRY(ebb__tokens_ensure(c->ctx, texts[side], (text_mode)c->s->tokens, vocab_at(nmt, side),
                               path, &set->tokens[side]));
    }
    (void)snprintf(file, sizeof file, "%s.index", name);
    TRY(ebb__job_path(c->ctx, c->dir, file, path));
    return ebb__pair_batches_open(c->ctx, &set->tokens[SIDE_SRC], &set->tokens[SIDE_TGT],
                                  &set->options, path, &set->batches);
}

static uint64_t set_hash(const nmt_set *set) {
    return join_hashes(set->tokens[SIDE_SRC].ids_hash, set->tokens[SIDE_TGT].ids_hash);
}

static ebb_status store(corpus *c) {
    nmt_corpus *nmt = (nmt_corpus *)c;
    const train_settings *s = c->s;
    const char *train[] = {s->train_path, s->train_target};
    const char *valid[] = {s->valid_path, s->valid_target};
    char path[JOB_PATH_BYTES];
    TRY(store_set(nmt, "train", train, &nmt->train));
    TRY(ebb__corpus_same(c, s->train_path, nmt->train.batches.pairs, set_hash(&nmt->train),
                         "pairs"));
    if (s->valid_path != NULL) {
        TRY(store_set(nmt, "valid", valid, &nmt->valid));
        TRY(ebb__corpus_same_valid(c, s->valid_path, set_hash(&nmt->valid)));
    }
    for (int side = 0; side < n_vocabs(c); side++) {
        if (!c->resumed) {
            TRY(ebb__job_path(c->ctx, c->dir, vocab_file(c, side, true), path));
            TRY(ebb__vocab_save(&nmt->vocab[side], path));
        }
        ebb__vocab_free(&nmt->vocab[side]);
    }
    return EBB_OK;
}

static ebb_status adopt(corpus *c) {
    for (int side = 0; side < n_vocabs(c); side++) {
        TRY(ebb__corpus_adopt(c, vocab_file(c, side, true), vocab_file(c, side, false)));
    }
    return EBB_OK;
}

static ebb_status fill(const job_reader *reader, run_session *session, uint64_t step,
                       int32_t *program, uint64_t *words) {
    const pair_batches *batches = reader->batches;
    pair_place place = ebb__pair_place(batches, step);
    pairs_shape shape = batches->classes[place.class].shape;
    pair_target to = {
        .source = ebb__run_variable(session, name_of(NMT_SRC, shape.source).text, NULL),
        .lengths = ebb__run_variable(session, NMT_SRC_LEN, NULL),
        .inputs = ebb__run_variable(session, name_of(NMT_TGT_IN, shape.target).text, NULL),
        .labels = ebb__run_variable(session, name_of(NMT_TGT_OUT, shape.target).text, NULL)};
    *program = reader->program + place.class;
    return ebb__pair_fill(batches, &place, &to, words);
}

static ebb_status begin(corpus *c, run_session *session) {
    nmt_corpus *nmt = (nmt_corpus *)c;
    pair_batches *train = &nmt->train.batches, *valid = &nmt->valid.batches;
    train->staging = valid->staging = ebb__run_variable(session, JOB_STAGING, NULL);
    c->train = (job_reader){train->windows, 0, train, fill};
    c->valid = (job_reader){valid->windows, train->n_classes, valid, fill};
    return EBB_OK;
}

static void close_set(nmt_set *set) {
    ebb__pair_batches_close(&set->batches);
    ebb__tokens_close(&set->tokens[SIDE_SRC]);
    ebb__tokens_close(&set->tokens[SIDE_TGT]);
}

static void close_corpus(corpus *c) {
    nmt_corpus *nmt = (nmt_corpus *)c;
    ebb__vocab_free(&nmt->vocab[SIDE_SRC]);
    ebb__vocab_free(&nmt->vocab[SIDE_TGT]);
    close_set(&nmt->train);
    close_set(&nmt->valid);
}

const model_kind ebb__kind_nmt = {
    .name = "nmt",
    .labels = NMT_TGT_OUT,
    .corpus = {sizeof(nmt_corpus), measure, store, adopt, begin, close_corpus},
    .shape = plain_shape,
    .sizes = sizes,
    .build = build,
    .init = init,
    .staging = staging,
    .randomise = randomise,
    .planned = planned};
