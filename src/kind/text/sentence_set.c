/* sentence_set.c - see sentence_set.h. */
#include "kind/text/sentence_set.h"

#include "kind/text/epoch_cost.h"
#include "train/job_int.h"

#include <stdlib.h>

/* ---- programs ---- */

job_shape ebb__sentence_shape(const train_settings *s, int64_t source, int64_t target) {
    bucket_batch batch = {.tokens = s->batch_tokens, .multiple = s->shards};
    int64_t rows =
        batch.tokens > 0 ? ebb__bucket_rows(&batch, (uint32_t)source, (uint32_t)target) : 0;
    return (job_shape){.src = source, .tgt = target, .rows = rows};
}

static int64_t longest_of(const job_shapes *shapes, int64_t most) {
    for (int32_t i = 0; i < shapes->n; i++) {
        most = shapes->at[i].src > most ? shapes->at[i].src : most;
        most = shapes->at[i].tgt > most ? shapes->at[i].tgt : most;
    }
    return most;
}

uint64_t ebb__sentence_staging(const job_request *request) {
    int64_t most = longest_of(&request->shapes, longest_of(&request->valid_shapes, 0));
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
                                  const char *const texts[KIND_SIDES], bool silent,
                                  sentence_set *set) {
    lengths_texts scanned = {texts[KIND_SOURCE], texts[KIND_TARGET], s->tokens,
                             (uint32_t)s->max_len, s->split_long};
    TRY(ebb__lengths_scan(ctx, &scanned, &set->lengths));
    if (!silent) {
        report_left_out(ctx, &scanned, &set->lengths);
    }
    set->options = (sentence_options){
        .max_len = scanned.max_len, .split = set->lengths.split, .seed = s->seed};
    set->sentences = set->lengths.used;
    set->left_out = set->lengths.over + set->lengths.empty;
    return EBB_OK;
}

/* ---- shapes ---- */

static int longer_first(const void *a, const void *b) {
    const sentence_shape *x = a, *y = b;
    uint64_t left = (uint64_t)x->source + x->target, right = (uint64_t)y->source + y->target;
    return left != right ? (left < right ? 1 : -1)
                         : (x->target > y->target) - (x->target < y->target);
}

static void take_shapes(const train_settings *s, const bucket_plan *plan, sentence_set *set) {
    sentence_options *o = &set->options;
    uint64_t shards = s->shards > 0 ? (uint64_t)s->shards : 1;
    set->own_rows = s->batch_tokens > 0;
    set->most_tokens = 0;
    o->n_shapes = plan->n_programs;
    for (int32_t i = 0; i < plan->n_programs; i++) {
        const bucket_program *p = &plan->programs[i];
        uint64_t all = p->sentences + (shards - p->sentences % shards) % shards;
        uint64_t tokens = all * (p->source > p->target ? p->source : p->target);
        set->most_tokens = tokens > set->most_tokens ? tokens : set->most_tokens;
        o->shapes[i] = (sentence_shape){p->source, p->target, (uint32_t)p->rows};
    }
    qsort(o->shapes, (size_t)o->n_shapes, sizeof *o->shapes, longer_first);
    set->buckets = (job_buckets){.strategy = plan->strategy,
                                 .padded_share = ebb__bucket_computed_share(plan),
                                 .shapes = {.n = o->n_shapes}};
    for (int32_t i = 0; i < o->n_shapes; i++) {
        const sentence_shape *shape = &o->shapes[i];
        set->buckets.shapes.at[i] =
            (job_shape){.src = shape->source, .tgt = shape->target, .rows = shape->rows};
    }
}

/* Whether the settings can give such a shape: lengths, and rows. */
static bool can_be(const train_settings *s, const job_shape *shape) {
    int64_t longest = s->max_len + 1, shards = s->shards > 0 ? s->shards : 1;
    bool source = kind_has_pairs(s) ? shape->src >= 1 && shape->src <= longest : shape->src == 0;
    if (!source || shape->tgt < 1 || shape->tgt > longest) {
        return false;
    }
    int64_t most = ebb__sentence_rows(s, ebb__sentence_shape(s, shape->src, shape->tgt));
    return shape->rows >= 1 && shape->rows % shards == 0 && shape->rows <= most &&
           (s->batch_tokens > 0 || shape->rows == most);
}

/* Shapes that were chosen when the run was started. */
static ebb_status take_stored(const train_settings *s, const char *dir, const job_buckets *chosen,
                              sentence_set *set) {
    sentence_options *o = &set->options;
    bool good = (s->bucket == BUCKET_AUTO || s->bucket == chosen->strategy) &&
                (s->batch_tokens == 0 || chosen->strategy != BUCKET_POOL);
    for (int32_t i = 0; good && i < chosen->shapes.n; i++) {
        const job_shape *from = &chosen->shapes.at[i], *first = &chosen->shapes.at[0];
        bool held = from->src <= first->src && from->tgt <= first->tgt;
        /* Batches of a pool may be as long as the longest on both sides. */
        good = can_be(s, from) && (held || chosen->strategy != BUCKET_POOL);
        o->shapes[i] =
            (sentence_shape){(uint32_t)from->src, (uint32_t)from->tgt, (uint32_t)from->rows};
    }
    if (!good) {
        return ebb__fail(set->lengths.ctx, EBB_MODEL,
                         "%s: the shapes stored with the run are none that its settings give; "
                         "restore an older checkpoint, or use --fresh",
                         dir);
    }
    o->n_shapes = chosen->shapes.n;
    set->own_rows = s->batch_tokens > 0;
    set->buckets = *chosen;
    return EBB_OK;
}

static ebb_status choose(const train_settings *s, const job_request *sizes, sentence_set *set) {
    bucket_plan plan = {.ctx = NULL};
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
                 "%llu %s on %d shapes (%s), %.1f%% of all positions padding",
                 (unsigned long long)plan.sentences, plan.pairs ? "pairs" : "sentences",
                 (int)plan.n_programs, ebb__bucket_name(plan.strategy),
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
    return is_pooled(set) ? ebb__sentence_pool_bytes(set->sentences, set->options.shapes[0].rows)
                          : 0;
}

/* What an epoch has of each shape, every sentence on the smallest that holds it, and how many words
 * a batch has in the mean. (A pool puts some of them on a larger one.) */
static void count_batches(const sentence_set *set, job_request *request) {
    sentence_class classes[BUCKETS_MOST_SHAPES] = {0};
    uint64_t sentences[BUCKETS_MOST_SHAPES + 1] = {0}, words = 0;
    int64_t batches = 0;
    const sentence_options *o = &set->options;
    for (int32_t i = 0; i < o->n_shapes; i++) {
        classes[i].shape = o->shapes[i];
    }
    for (size_t i = 0; i < set->lengths.n_cells; i++) {
        const lengths_cell *cell = &set->lengths.cells[i];
        sentences[ebb__sentence_class(classes, o->n_shapes, cell->source, cell->target)] +=
            cell->count;
        words += cell->count * cell->target;
    }
    for (int32_t i = 0; i < o->n_shapes; i++) {
        uint64_t rows = o->shapes[i].rows > 0 ? o->shapes[i].rows : 1;
        request->shapes.at[i].batches = (int64_t)((sentences[i] + rows - 1) / rows);
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
    request->pool_bytes = pool_bytes(train);
    request->most_batch = train->own_rows ? train->most_tokens : train->sentences;
    return EBB_OK;
}

job_shapes ebb__sentence_set_shapes(const sentence_set *set) {
    job_shapes shapes = {.n = set->options.n_shapes};
    for (int32_t i = 0; i < shapes.n; i++) {
        const sentence_shape *shape = &set->options.shapes[i];
        shapes.at[i] = (job_shape){
            .src = shape->source, .tgt = shape->target, .rows = set->own_rows ? shape->rows : 0};
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
    *program = set->programs[place.class];
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
    for (int32_t i = 0; i < set->batches.n_classes; i++) {
        set->programs[i] = ebb__plan_program(session->plan, (int32_t)use, i);
        whole = whole && set->programs[i] >= 0;
    }
    for (int i = 0; i < 4; i++) {
        set->places[i] = inputs[i] != NULL ? ebb__run_find(session, inputs[i]) : (run_place){0};
        whole = whole && (inputs[i] == NULL) == (set->places[i].bytes == 0);
    }
    return whole ? EBB_OK
                 : ebb__fail(session->ctx, EBB_INTERNAL,
                             "the plan has not a program for every shape of the sentences");
}

ebb_status ebb__sentence_set_reader(sentence_set *set, run_session *session, job_use use,
                                    const sentence_inputs *names, job_reader *out) {
    uint64_t bytes = 0;
    uint8_t *memory = ebb__run_host(session, JOB_STAGING, &bytes);
    TRY(bind(set, session, use, names));
    set->batches.staging = (uint32_t *)(void *)memory;
    if (is_pooled(set)) {
        set->batches.pool = (sentence_pool *)(void *)(memory + bytes - pool_bytes(set));
        set->batches.pool->epoch = UINT64_MAX;
    }
    *out = (job_reader){set->batches.windows, set, fill};
    return EBB_OK;
}

void ebb__sentence_set_close(sentence_set *set) {
    ebb__lengths_free(&set->lengths);
    ebb__sentence_batches_close(&set->batches);
    for (int side = 0; side < KIND_SIDES; side++) {
        ebb__tokens_close(&set->tokens[side]);
    }
}
