/* sentence_set.c - see sentence_set.h. */
#include "kind/text/sentence_set.h"

#include "kind/text/epoch_cost.h"
#include "train/job_int.h"

#include <stdlib.h>

/* ---- programs ---- */

data_shape ebb__sentence_shape(const train_settings *s, int64_t source, int64_t target) {
    bucket_batch batch = {.tokens = s->batch_tokens, .multiple = s->shards};
    data_shape shape = {.source = (uint32_t)source, .target = (uint32_t)target};
    shape.rows = batch.tokens > 0 ? ebb__bucket_rows(&batch, shape.source, shape.target) : 0;
    return shape;
}

static uint32_t longest_of(const data_shapes *shapes, uint32_t most) {
    for (int32_t i = 0; i < shapes->n; i++) {
        most = num_larger32(most, num_larger32(shapes->at[i].source, shapes->at[i].target));
    }
    return most;
}

uint64_t ebb__sentence_staging(const job_request *request) {
    uint32_t most = longest_of(&request->shapes, longest_of(&request->valid_shapes, 0));
    uint64_t ids = ((uint64_t)most + 1) * sizeof(uint32_t);
    return (ids + 7) / 8 * 8 + request->pool_bytes;
}

/* ---- lengths ---- */

void ebb__sentence_set_init(sentence_set *set) {
    *set = (sentence_set){.batches = {.index = -1}};
    for (int side = 0; side < KIND_SIDES; side++) {
        set->tokens[side].fd = -1;
    }
}

static void report_left_out(ebb_ctx *ctx, const lengths_texts *texts, const data_lengths *scan) {
    const char *source = scan->pairs ? texts->source : "", *and = scan->pairs ? ", " : "";
    if (scan->over > 0) {
        ebb__log(ctx, EBB_LOG_WARN,
                 "%s%s%s: %llu of %llu lines have more than %u tokens and are left out "
                 "(--max-len); the first is line %llu%s",
                 source, and, texts->target, (unsigned long long)scan->over,
                 (unsigned long long)scan->lines, texts->max_len,
                 (unsigned long long)scan->first_over,
                 scan->pairs ? "" : "; --split-long splits them");
    }
    if (scan->parted > 0) {
        ebb__log(ctx, EBB_LOG_INFO, "%s: %llu of %llu lines have more than %u tokens and are split",
                 texts->target, (unsigned long long)scan->parted, (unsigned long long)scan->lines,
                 texts->max_len);
    }
    if (scan->empty > 0) {
        ebb__log(ctx, EBB_LOG_WARN,
                 "%s%s%s: %llu of %llu lines are empty%s and are left out; the first is line %llu",
                 source, and, texts->target, (unsigned long long)scan->empty,
                 (unsigned long long)scan->lines, scan->pairs ? " on a side" : "",
                 (unsigned long long)scan->first_empty);
    }
}

ebb_status ebb__sentence_set_scan(ebb_ctx *ctx, const train_settings *s,
                                  const char *const texts[KIND_SIDES],
                                  const data_codes *const codes[KIND_SIDES], bool silent,
                                  double drop, sentence_set *set) {
    lengths_texts scanned = {.source = texts[KIND_SOURCE],
                             .target = texts[KIND_TARGET],
                             .mode = s->tokens,
                             .max_len = (uint32_t)s->max_len,
                             .split = s->split_long,
                             .source_codes = codes[KIND_SOURCE],
                             .target_codes = codes[KIND_TARGET],
                             .drop = drop,
                             .seed = s->seed};
    TRY(ebb__lengths_scan(ctx, &scanned, &set->lengths));
    if (!silent) {
        report_left_out(ctx, &scanned, &set->lengths);
    }
    set->options = (sentence_options){
        .max_len = scanned.max_len, .split = set->lengths.split, .drop = drop, .seed = s->seed};
    set->sentences = set->lengths.used;
    set->left_out = set->lengths.over + set->lengths.empty;
    return EBB_OK;
}

/* ---- shapes ---- */

static int longer_first(const void *a, const void *b) {
    const data_shape *x = a, *y = b;
    uint64_t left = data_shape_size(x), right = data_shape_size(y);
    return left != right ? (left < right ? 1 : -1)
                         : (x->target > y->target) - (x->target < y->target);
}

static void take_shapes(const train_settings *s, const bucket_plan *plan, sentence_set *set) {
    sentence_options *o = &set->options;
    uint64_t shards = s->shards > 0 ? (uint64_t)s->shards : 1;
    set->own_rows = s->batch_tokens > 0;
    set->enough_tokens = 0;
    o->shapes.n = plan->programs.n;
    for (int32_t i = 0; i < plan->programs.n; i++) {
        const data_shape *p = &plan->programs.at[i];
        uint64_t all = p->sentences + (shards - p->sentences % shards) % shards;
        uint64_t tokens = all * (p->source > p->target ? p->source : p->target);
        set->enough_tokens = tokens > set->enough_tokens ? tokens : set->enough_tokens;
        o->shapes.at[i] = (data_shape){.source = p->source, .target = p->target, .rows = p->rows};
    }
    qsort(o->shapes.at, (size_t)o->shapes.n, sizeof *o->shapes.at, longer_first);
    set->buckets = (job_buckets){.strategy = plan->strategy,
                                 .padded_share = ebb__bucket_computed_share(plan),
                                 .shapes = o->shapes};
}

/* Whether the settings can give such a shape: lengths, and rows. */
static bool can_be(const train_settings *s, const data_shape *shape) {
    int64_t longest = s->max_len + 1, shards = s->shards > 0 ? s->shards : 1;
    bool source =
        kind_has_pairs(s) ? shape->source >= 1 && shape->source <= longest : shape->source == 0;
    if (!source || shape->target < 1 || shape->target > longest) {
        return false;
    }
    int64_t most = ebb__sentence_rows(s, ebb__sentence_shape(s, shape->source, shape->target));
    return shape->rows >= 1 && shape->rows % shards == 0 && shape->rows <= most &&
           (s->batch_tokens > 0 || shape->rows == most);
}

/* Shapes that were chosen when the run was started. */
static ebb_status take_stored(const train_settings *s, const char *dir, const job_buckets *chosen,
                              sentence_set *set) {
    bool good = (s->bucket == BUCKET_AUTO || s->bucket == chosen->strategy) &&
                (s->batch_tokens == 0 || chosen->strategy != BUCKET_POOL);
    for (int32_t i = 0; good && i < chosen->shapes.n; i++) {
        const data_shape *from = &chosen->shapes.at[i], *first = &chosen->shapes.at[0];
        bool held = data_shape_holds(first, from->source, from->target);
        /* Batches of a pool may be as long as the longest on both sides. */
        good = can_be(s, from) && (held || chosen->strategy != BUCKET_POOL);
    }
    if (!good) {
        return ebb__fail(set->lengths.ctx, EBB_MODEL,
                         "%s: the shapes stored with the run are none that its settings give; "
                         "restore an older checkpoint, or use --fresh",
                         dir);
    }
    set->options.shapes = chosen->shapes;
    set->own_rows = s->batch_tokens > 0;
    set->buckets = *chosen;
    return EBB_OK;
}

static ebb_status choose(const train_settings *s, const job_request *sizes, sentence_set *set) {
    bucket_plan plan = {.ctx = NULL};
    train_settings pooled = *s;
    if (set->options.drop > 0) { /* lengths change, and only pools do not mind */
        pooled.bucket = BUCKET_POOL;
        s = &pooled;
    }
    if (s->bucket == BUCKET_POOL && s->batch_tokens > 0) {
        return ebb__fail(set->lengths.ctx, EBB_USAGE,
                         "--bucket pool: with batches counted in tokens every epoch would have "
                         "another number of them; give a number of sentences with --batch, or use "
                         "--bucket auto");
    }
    ebb_status status = ebb__bucket_choose(s, sizes, &set->lengths, &plan);
    if (status == EBB_OK) {
        take_shapes(s, &plan, set);
        ebb__log(set->lengths.ctx, EBB_LOG_DEBUG,
                 "%llu %s on %d shapes (%s), %.1f%% of their positions are padding",
                 (unsigned long long)plan.sentences, plan.pairs ? "pairs" : "sentences",
                 (int)plan.programs.n, ebb__bucket_name(plan.strategy),
                 100 * ebb__bucket_computed_share(&plan));
    }
    ebb__buckets_free(&plan);
    return status;
}

ebb_status ebb__sentence_set_choose_few(const train_settings *s, sentence_set *set) {
    enum { FEW = 4 };
    train_settings few = *s;
    few.bucket = BUCKET_OPTIMAL;
    few.shapes = FEW;
    return choose(&few, NULL, set);
}

static bool is_pooled(const sentence_set *set) {
    return set->buckets.strategy == BUCKET_POOL;
}

static uint64_t pool_bytes(const sentence_set *set) {
    return is_pooled(set)
               ? ebb__sentence_pool_bytes(set->sentences, (uint64_t)set->options.shapes.at[0].rows)
               : 0;
}

/* Positions of the longest shape, of one side. */
static uint32_t longest_side(const data_shapes *shapes, kind_side side) {
    uint32_t most = 0;
    for (int32_t i = 0; i < shapes->n; i++) {
        const data_shape *shape = &shapes->at[i];
        most = num_larger32(most, side == KIND_SOURCE ? shape->source : shape->target);
    }
    return most;
}

/* To cut sentences anew: behind the pool. */
static uint64_t drop_bytes(const sentence_set *set) {
    const data_shapes *shapes = &set->options.shapes;
    return set->options.drop > 0
               ? ebb__codes_drop_bytes(longest_side(shapes, KIND_SOURCE)) +
                     ebb__codes_drop_bytes(longest_side(shapes, KIND_TARGET))
               : 0;
}

/* What an epoch has of each shape, every sentence on the smallest that holds it, and how many words
 * a batch has in the mean. (A pool puts some of them on a larger one.) */
static void count_batches(const sentence_set *set, job_request *request) {
    data_shapes shapes = set->options.shapes;
    uint64_t words = 0, batches = 0;
    for (size_t i = 0; i < set->lengths.n_cells; i++) {
        const lengths_cell *cell = &set->lengths.cells[i];
        int32_t at = ebb__shape_find(&shapes, cell->source, cell->target);
        if (at >= 0) {
            shapes.at[at].sentences += cell->count;
        }
        words += cell->count * cell->target;
    }
    for (int32_t i = 0; i < shapes.n; i++) {
        uint64_t rows = num_larger((uint64_t)shapes.at[i].rows, 1);
        request->shapes.at[i].batches = (shapes.at[i].sentences + rows - 1) / rows;
        batches += request->shapes.at[i].batches;
    }
    request->words = batches > 0 ? (double)words / (double)batches : 0;
}

ebb_status ebb__sentence_sets_choose(corpus *c, sentence_set *train, sentence_set *valid,
                                     job_request *request) {
    if (c->resumed && c->buckets.shapes.n > 0) {
        TRY(take_stored(c->s, c->dir, &c->buckets, train));
    } else {
        TRY(choose(c->s, request, train));
        c->buckets = train->buckets;
    }
    if (c->s->valid_path != NULL) {
        TRY(ebb__sentence_set_choose_few(c->s, valid));
    }
    request->shapes = ebb__sentence_set_shapes(train);
    count_batches(train, request);
    request->valid_shapes = ebb__sentence_set_shapes(valid);
    request->pool_bytes = pool_bytes(train) + drop_bytes(train);
    request->most_batch = train->own_rows ? train->enough_tokens : train->sentences;
    return EBB_OK;
}

data_shapes ebb__sentence_set_shapes(const sentence_set *set) {
    data_shapes shapes = set->options.shapes;
    for (int32_t i = 0; i < shapes.n; i++) {
        shapes.at[i].rows = set->own_rows ? shapes.at[i].rows : 0;
    }
    return shapes;
}

/* ---- batches ---- */

ebb_status ebb__sentence_set_store(ebb_ctx *ctx, const train_settings *s,
                                   const char *const texts[KIND_SIDES],
                                   const data_vocab *const vocabs[KIND_SIDES],
                                   const char *const paths[KIND_SIDES + 1], bool keep,
                                   sentence_set *set) {
    ebb__lengths_free(&set->lengths);
    for (int side = 0; side < KIND_SIDES; side++) {
        if (texts[side] != NULL) {
            TRY((keep ? ebb__tokens_ensure : ebb__tokens_unnamed)(
                ctx, texts[side], s->tokens, vocabs[side], paths[side], &set->tokens[side]));
        }
    }
    set->options.pooled = is_pooled(set);
    return ebb__sentence_batches_open(
        ctx, texts[KIND_SOURCE] != NULL ? &set->tokens[KIND_SOURCE] : NULL,
        &set->tokens[KIND_TARGET], &set->options, paths[KIND_SIDES], &set->batches);
}

ebb_status ebb__sentence_set_held(const sentence_set *set, const char *dir) {
    return set->batches.sentences == set->sentences
               ? EBB_OK
               : ebb__fail(set->batches.ctx, EBB_MODEL,
                           "%s: the shapes stored with the run hold %llu of %llu sentences; "
                           "restore an older checkpoint, or use --fresh",
                           dir, (unsigned long long)set->batches.sentences,
                           (unsigned long long)set->sentences);
}

static ebb_status fill(const job_reader *reader, uint64_t step, int32_t *program, uint64_t *words) {
    const sentence_set *set = reader->batches;
    sentence_place place;
    void *to[4];
    TRY(ebb__sentence_place(&set->batches, step, &place));
    *program = set->programs[place.shape];
    TRY(ebb__run_map_all(set->session, set->places, 4, DEVICE_WRITE, to));
    sentence_target target = {.source = to[0], .lengths = to[1], .inputs = to[2], .labels = to[3]};
    ebb_status status = ebb__sentence_fill(&set->batches, &place, &target, words);
    ebb_status unmapped = ebb__run_unmap_all(set->session, set->places, 4, DEVICE_WRITE, to);
    return status == EBB_OK ? unmapped : status;
}

/* The programs and inputs of the set, found once. */
static ebb_status bind(sentence_set *set, run_session *session, job_use use,
                       const sentence_inputs *names) {
    const char *const inputs[] = {names->source, names->lengths, names->inputs, names->labels};
    bool whole = true;
    set->session = session;
    for (int32_t i = 0; i < set->batches.shapes.n; i++) {
        set->programs[i] = ebb__plan_program(session->plan, (int32_t)use, i);
        whole = whole && set->programs[i] >= 0;
    }
    for (int i = 0; i < 4; i++) {
        set->places[i] = inputs[i] != NULL ? ebb__run_find(session, inputs[i]) : (run_place){0};
        whole = whole && (inputs[i] == NULL) == (set->places[i].bytes == 0);
    }
    return whole ? EBB_OK
                 : ebb__fail(session->ctx, EBB_INTERNAL,
                             "the plan lacks a program for a shape of the sentences, or an input");
}

void ebb__sentence_set_words(sentence_set *set, const data_vocab *const vocabs[KIND_SIDES]) {
    for (int side = 0; side < KIND_SIDES; side++) {
        set->drop[side].vocab = vocabs[side];
    }
}

/* In the memory behind the pool. */
static void make_drops(sentence_set *set, uint8_t *memory) {
    static const char *const sites[KIND_SIDES] = {"codes.source", "codes.target"};
    const sentence_options *o = &set->options;
    for (int side = 0; side < KIND_SIDES; side++) {
        uint32_t room = longest_side(&o->shapes, (kind_side)side);
        ebb__codes_drop_make(set->drop[side].vocab, o->drop, o->seed, sites[side], room, memory,
                             &set->drop[side]);
        memory += ebb__codes_drop_bytes(room);
    }
    set->batches.drop = set->drop;
}

ebb_status ebb__sentence_set_reader(sentence_set *set, run_session *session, job_use use,
                                    const sentence_inputs *names, job_reader *out) {
    uint64_t bytes = 0;
    uint8_t *memory = ebb__run_host(session, JOB_STAGING, &bytes);
    TRY(bind(set, session, use, names));
    set->batches.staging = (uint32_t *)(void *)memory;
    if (is_pooled(set)) {
        memory += bytes - pool_bytes(set) - drop_bytes(set);
        set->batches.pool = (sentence_pool *)(void *)memory;
        set->batches.pool->epoch = UINT64_MAX;
    }
    if (set->options.drop > 0) {
        make_drops(set, memory + pool_bytes(set));
    }
    *out = (job_reader){.n_batches = set->batches.windows, .batches = set, .fill = fill};
    return EBB_OK;
}

void ebb__sentence_set_close(sentence_set *set) {
    ebb__lengths_free(&set->lengths);
    ebb__sentence_batches_close(&set->batches);
    for (int side = 0; side < KIND_SIDES; side++) {
        ebb__tokens_close(&set->tokens[side]);
    }
}
