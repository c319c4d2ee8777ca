/* buckets.c - see buckets.h. A strategy only says who belongs together: it makes a list of limits.
 * What shapes then are, and what they cost, is counted in one place for all. */
#include "data/buckets.h"

#include "base/alloc.h"
#include "base/num.h"
#include "data/shuffle.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char *ebb__bucket_name(bucket_strategy strategy) {
    static const char *const names[BUCKET_STRATEGIES] = {
        [BUCKET_NONE] = "none",   [BUCKET_STATIC] = "static",   [BUCKET_GREEDY] = "greedy",
        [BUCKET_WIDTH] = "width", [BUCKET_OPTIMAL] = "optimal", [BUCKET_PERCENTILE] = "percentile",
        [BUCKET_POOL] = "pool"};
    return names[strategy];
}

int64_t ebb__bucket_rows(const bucket_batch *batch, uint32_t source, uint32_t target) {
    int64_t longer = num_larger32(source, target), step = batch->multiple > 0 ? batch->multiple : 1;
    int64_t rows =
        batch->sentences > 0 ? batch->sentences : batch->tokens / (longer > 0 ? longer : 1);
    rows -= rows % step;
    return rows > step ? rows : step;
}

/* ---- lists ---- */

static ebb_status refuse_list(ebb_ctx *ctx, const char *text, bool pairs) {
    return ebb__fail(ctx, EBB_USAGE,
                     "'%.200s' is no list of 1 to %d lengths: write 8,16,24%s, lengths from 1 on",
                     text, BUCKETS_MOST_LISTED, pairs ? " or 8x10,16x20 (source x target)" : "");
}

static bool read_length(const char **at, uint32_t *out) {
    char *end = NULL;
    if (!isdigit((unsigned char)**at)) {
        return false;
    }
    unsigned long value = strtoul(*at, &end, 10);
    *at = end;
    *out = (uint32_t)value;
    return value >= 1 && value <= INT32_MAX;
}

static int compare_lengths(const void *a, const void *b) {
    const data_shape *x = a, *y = b;
    uint64_t left = data_shape_size(x), right = data_shape_size(y);
    return left != right ? (left > right) - (left < right)
                         : (x->target > y->target) - (x->target < y->target);
}

ebb_status ebb__buckets_list(ebb_ctx *ctx, const char *text, bool pairs, bucket_options *out) {
    out->n_listed = 0;
    for (const char *at = text;; at++) {
        data_shape bound = {0};
        bool good = out->n_listed < BUCKETS_MOST_LISTED && read_length(&at, &bound.target);
        if (good && pairs) {
            bound.source = bound.target;
            if (*at == 'x') {
                at++;
                good = read_length(&at, &bound.target);
            }
        }
        if (!good || (*at != ',' && *at != '\0')) {
            return refuse_list(ctx, text, pairs);
        }
        out->list[out->n_listed++] = bound;
        if (*at == '\0') {
            break;
        }
    }
    qsort(out->list, (size_t)out->n_listed, sizeof *out->list, compare_lengths);
    return EBB_OK;
}

/* ---- limits ---- */

typedef struct limits {
    bucket_limit *at;
    int32_t n;
} limits;

static void add_limit(limits *to, uint32_t longer, uint32_t band, uint32_t cut) {
    to->at[to->n++] = (bucket_limit){longer, band, cut};
}

/* Sentences by their longer side. */
typedef struct fold {
    uint64_t *counts; /* [n] */
    data_shape *longest;
    uint32_t n; /* the longest length, and 1 more */
} fold;

static ebb_status make_fold(alloc_region *region, const data_lengths *lengths, fold *out) {
    for (size_t i = 0; i < lengths->n_cells; i++) {
        out->n = num_larger32(out->n,
                              1 + num_larger32(lengths->cells[i].source, lengths->cells[i].target));
    }
    TRY(ebb__region_alloc(region, out->n, sizeof *out->counts, &out->counts));
    TRY(ebb__region_alloc(region, out->n, sizeof *out->longest, &out->longest));
    for (size_t i = 0; i < lengths->n_cells; i++) {
        const lengths_cell *cell = &lengths->cells[i];
        uint32_t at = num_larger32(cell->source, cell->target);
        out->counts[at] += cell->count;
        data_shape_widen(&out->longest[at], cell->source, cell->target);
    }
    return EBB_OK;
}

static void limit_static(const bucket_options *o, limits *to) {
    for (int32_t i = 0; i < o->n_listed; i++) {
        const data_shape *bound = &o->list[i];
        add_limit(to, UINT32_MAX, bound->target, bound->source > 0 ? bound->source : UINT32_MAX);
    }
    add_limit(to, UINT32_MAX, UINT32_MAX, UINT32_MAX); /* nothing is dropped */
}

/* What is left at the end is the last shape. */
static void limit_greedy(const fold *f, const bucket_options *o, limits *to) {
    uint64_t held = 0;
    data_shape most = {0};
    for (uint32_t length = 0; length < f->n; length++) {
        held += f->counts[length];
        data_shape_widen(&most, f->longest[length].source, f->longest[length].target);
        int64_t rows = ebb__bucket_rows(&o->batch, most.source, most.target);
        if (held > 0 && (held >= (uint64_t)rows || length == f->n - 1)) {
            add_limit(to, length, UINT32_MAX, UINT32_MAX);
            held = 0;
            most = (data_shape){0};
        }
    }
}

static void limit_percentile(const fold *f, const bucket_options *o, uint64_t all, limits *to) {
    uint64_t seen = 0, k = (uint64_t)o->shapes, next = 1;
    for (uint32_t length = 0; length < f->n; length++) {
        bool passed = false;
        seen += f->counts[length];
        /* next / k of all, without a product that may overflow */
        while (next <= k && seen >= all / k * next + (all % k * next + k - 1) / k) {
            passed = true;
            next++;
        }
        if (passed) {
            add_limit(to, length, UINT32_MAX, UINT32_MAX);
        }
    }
}

static void limit_width(const fold *f, const bucket_options *o, limits *to) {
    uint64_t most = f->n - 1, k = (uint64_t)o->shapes;
    for (uint64_t i = 1; i <= k; i++) {
        add_limit(to, (uint32_t)((most * i + k - 1) / k), UINT32_MAX, UINT32_MAX);
    }
}

static ebb_status make_limits(alloc_region *region, const data_lengths *lengths,
                              const bucket_options *o, limits *to) {
    fold f = {0};
    TRY(make_fold(region, lengths, &f));
    TRY(ebb__region_alloc(region, (size_t)f.n + DATA_MOST_SHAPES + BUCKETS_MOST_LISTED,
                          sizeof *to->at, &to->at));
    switch (o->strategy) {
    case BUCKET_STATIC:
        limit_static(o, to);
        return EBB_OK;
    case BUCKET_GREEDY:
        limit_greedy(&f, o, to);
        return EBB_OK;
    case BUCKET_PERCENTILE:
        limit_percentile(&f, o, lengths->used, to);
        return EBB_OK;
    case BUCKET_WIDTH:
        limit_width(&f, o, to);
        return EBB_OK;
    case BUCKET_OPTIMAL:
        return ebb__buckets_optimal(lengths, o->shapes, to->at, &to->n);
    case BUCKET_NONE:
    case BUCKET_POOL:
    case BUCKET_STRATEGIES:
        break;
    }
    add_limit(to, UINT32_MAX, UINT32_MAX, UINT32_MAX);
    return EBB_OK;
}

/* ---- shapes ---- */

static bool within(const bucket_limit *limit, uint32_t source, uint32_t target) {
    return num_larger32(source, target) <= limit->longer && target <= limit->band &&
           source <= limit->cut;
}

/* Members of every shape, and the longest of them; shapes without a member vanish. */
static ebb_status make_shapes(const data_lengths *lengths, const limits *from, bucket_plan *out) {
    int32_t kept = 0;
    TRY(ebb__alloc(out->ctx, (size_t)from->n, sizeof *out->shapes, &out->shapes));
    for (int32_t i = 0; i < from->n; i++) {
        out->shapes[i] = (bucket_shape){.limit = from->at[i]};
    }
    for (size_t i = 0; i < lengths->n_cells; i++) {
        const lengths_cell *cell = &lengths->cells[i];
        bucket_shape *shape = out->shapes;
        while (!within(&shape->limit, cell->source, cell->target)) {
            shape++; /* the last one holds all */
        }
        shape->as.sentences += cell->count;
        data_shape_widen(&shape->as, cell->source, cell->target);
    }
    for (int32_t i = 0; i < from->n; i++) {
        if (out->shapes[i].as.sentences > 0) {
            out->shapes[kept++] = out->shapes[i];
        }
    }
    out->n_shapes = kept;
    return EBB_OK;
}

/* ---- programs ---- */

static void make_programs(const bucket_shape *shapes, int32_t n, const bucket_options *o,
                          bucket_plan *out) {
    for (int32_t i = 0; i < n; i++) {
        uint32_t source = shapes[i].as.source, target = shapes[i].as.target;
        out->programs.at[i] = (data_shape){.source = source,
                                           .target = target,
                                           .rows = ebb__bucket_rows(&o->batch, source, target)};
    }
    out->programs.n = n;
    qsort(out->programs.at, (size_t)n, sizeof *out->programs.at, compare_lengths);
}

static ebb_status optimal_programs(const data_lengths *lengths, const bucket_options *o,
                                   bucket_plan *out) {
    bucket_limit found[DATA_MOST_SHAPES];
    limits all = {found, 0};
    bucket_plan other = {.ctx = out->ctx};
    TRY(ebb__buckets_optimal(lengths, o->shapes, all.at, &all.n));
    ebb_status status = make_shapes(lengths, &all, &other);
    if (status == EBB_OK) {
        make_programs(other.shapes, other.n_shapes, o, out);
    }
    ebb__buckets_free(&other);
    return status;
}

static uint64_t batches_of(uint64_t sentences, int64_t rows) {
    return sentences / (uint64_t)rows + (sentences % (uint64_t)rows > 0);
}

/* Counted in tokens, a batch has no rows that no sentence would ever fill. */
static int64_t rows_filled(const bucket_batch *by, int64_t rows, uint64_t sentences) {
    int64_t step = by->multiple > 0 ? by->multiple : 1;
    if (by->sentences > 0 || sentences >= (uint64_t)rows) {
        return rows;
    }
    int64_t used = sentences > 0 ? (int64_t)sentences : 1;
    return used + (step - used % step) % step;
}

/* Batches of members that are all padded alike. */
static void count_batches(const bucket_options *o, bucket_plan *out) {
    for (int32_t i = 0; i < out->n_shapes; i++) {
        data_shape *shape = &out->shapes[i].as;
        int64_t rows = ebb__bucket_rows(&o->batch, shape->source, shape->target);
        shape->rows = rows_filled(&o->batch, rows, shape->sentences);
        shape->batches = batches_of(shape->sentences, shape->rows);
        out->shapes[i].empty_rows = shape->batches * (uint64_t)shape->rows - shape->sentences;
        out->padded_tokens += shape->sentences * data_shape_size(shape);
    }
}

/* Every sentence on the smallest program that holds it. */
static void count_steps(const data_lengths *lengths, const bucket_batch *by, bucket_plan *out) {
    for (size_t i = 0; i < lengths->n_cells; i++) {
        const lengths_cell *cell = &lengths->cells[i];
        int32_t program = ebb__shape_find(&out->programs, cell->source, cell->target);
        out->programs.at[program].sentences += cell->count;
    }
    for (int32_t i = 0; i < out->programs.n; i++) {
        data_shape *program = &out->programs.at[i];
        program->rows = rows_filled(by, program->rows, program->sentences);
        program->batches = batches_of(program->sentences, program->rows);
    }
}

/* ---- pool ---- */

/* Rows of a batch as long as the mean sentence. */
static uint64_t mean_rows(const data_lengths *lengths, const bucket_batch *batch) {
    uint64_t sum = 0;
    for (size_t i = 0; i < lengths->n_cells; i++) {
        const lengths_cell *cell = &lengths->cells[i];
        sum += cell->count * num_larger32(cell->source, cell->target);
    }
    uint32_t mean = lengths->used > 0 ? (uint32_t)(sum / lengths->used) : 1;
    return (uint64_t)ebb__bucket_rows(batch, mean, mean);
}

/* Numbers below n, ascending: by 11 bits at a time, from the lowest. */
static void sort_places(uint64_t *places, uint64_t *scratch, size_t count, uint64_t n) {
    enum { BITS = 11, DIGITS = 1 << BITS };
    uint64_t *from = places, *to = scratch;
    for (unsigned shift = 0; shift < 64 && (n - 1) >> shift != 0; shift += BITS) {
        size_t ends[DIGITS + 1] = {0};
        for (size_t i = 0; i < count; i++) {
            ends[1 + (from[i] >> shift) % DIGITS]++;
        }
        for (int digit = 1; digit < DIGITS; digit++) {
            ends[digit] += ends[digit - 1];
        }
        for (size_t i = 0; i < count; i++) {
            to[ends[(from[i] >> shift) % DIGITS]++] = from[i];
        }
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != places) {
        memcpy(places, from, count * sizeof *places);
    }
}

uint64_t ebb__bucket_pool(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t size, uint64_t pool,
                          uint64_t *out) {
    uint64_t first = pool * size, count = n - first < size ? n - first : size;
    data_shuffle list = ebb__shuffle_make(seed, "pools", epoch, 0, n);
    for (uint64_t i = 0; i < count; i++) {
        out[i] = ebb__shuffle_at(&list, first + i);
    }
    sort_places(out, out + size, (size_t)count, n);
    return count;
}

/* Gets the batches of a pool in turn: the longest of each on each side, and its sentences. */
typedef struct pool_user {
    ebb_status (*take)(struct pool_user *user, const data_shape *batch);
    data_lengths seen;
    bucket_plan *plan;
} pool_user;

/* The sentences of one pool, in order, as batches: one ends where another sentence would be too
 * many for the longest of them. */
static ebb_status cut_pool(const data_lengths *lengths, const bucket_batch *by,
                           const uint64_t *places, uint64_t n, pool_user *user) {
    const lengths_cell *cell = lengths->cells;
    uint64_t end = cell->count; /* of the list: where the cell's sentences end */
    data_shape batch = {0};
    for (uint64_t i = 0; i < n; i++) {
        while (places[i] >= end) {
            end += (++cell)->count;
        }
        data_shape more = batch;
        data_shape_widen(&more, cell->source, cell->target);
        if (batch.sentences >= (uint64_t)ebb__bucket_rows(by, more.source, more.target)) {
            TRY(user->take(user, &batch));
            more = (data_shape){.source = cell->source, .target = cell->target};
        }
        batch = more;
        batch.sentences++;
    }
    return user->take(user, &batch);
}

/* One epoch. */
static ebb_status cut_pools(const data_lengths *lengths, const bucket_options *o, pool_user *user) {
    uint64_t n = lengths->used, size = ebb__bucket_pool_size(n, mean_rows(lengths, &o->batch));
    uint64_t *places = NULL;
    ebb_status status = EBB_OK;
    TRY(ebb__alloc(lengths->ctx, (size_t)size, 2 * sizeof *places, &places));
    for (uint64_t pool = 0; status == EBB_OK && pool * size < n; pool++) {
        uint64_t count = ebb__bucket_pool(o->seed, 0, n, size, pool, places);
        status = cut_pool(lengths, &o->batch, places, count, user);
        ebb__progress(lengths->ctx, "fill pools", pool * size + count, n);
    }
    ebb__free(lengths->ctx, places);
    return status;
}

static ebb_status note_batch(pool_user *user, const data_shape *batch) {
    return ebb__lengths_add(&user->seen, batch->source, batch->target);
}

/* The best for the batches of an epoch, and for one of the longest on both sides, which may come in
 * another. */
static ebb_status pool_programs(const data_lengths *lengths, const bucket_options *o,
                                bucket_plan *out) {
    pool_user user = {.take = note_batch};
    data_shape longest = {0};
    ebb_status status;
    for (size_t i = 0; i < lengths->n_cells; i++) {
        data_shape_widen(&longest, lengths->cells[i].source, lengths->cells[i].target);
    }
    TRY_OUT(ebb__lengths_init(lengths->ctx, lengths->pairs, lengths->max_len, &user.seen));
    TRY_OUT(note_batch(&user, &longest));
    TRY_OUT(cut_pools(lengths, o, &user));
    TRY_OUT(ebb__lengths_finish(&user.seen));
    TRY_OUT(optimal_programs(&user.seen, o, out));
out:
    ebb__lengths_free(&user.seen);
    return status;
}

/* By tokens, a short batch may have more sentences than its program's length allows. */
static ebb_status run_batch(pool_user *user, const data_shape *batch) {
    bucket_plan *plan = user->plan;
    data_shape *program =
        &plan->programs.at[ebb__shape_find(&plan->programs, batch->source, batch->target)];
    program->sentences += batch->sentences;
    program->batches++;
    program->rows =
        program->rows > (int64_t)batch->sentences ? program->rows : (int64_t)batch->sentences;
    plan->padded_tokens += batch->sentences * data_shape_size(batch);
    return EBB_OK;
}

/* The shapes of a pool are its programs, smallest first. */
static ebb_status fill_pools(const data_lengths *lengths, const bucket_options *o,
                             bucket_plan *out) {
    pool_user user = {.take = run_batch, .plan = out};
    TRY(pool_programs(lengths, o, out));
    TRY(cut_pools(lengths, o, &user));
    TRY(ebb__alloc(out->ctx, (size_t)out->programs.n, sizeof *out->shapes, &out->shapes));
    out->n_shapes = out->programs.n;
    for (int32_t i = 0; i < out->programs.n; i++) {
        const data_shape *program = &out->programs.at[i];
        uint64_t rows = program->batches * (uint64_t)program->rows;
        out->shapes[i] = (bucket_shape){
            *program, {UINT32_MAX, UINT32_MAX, UINT32_MAX}, rows - program->sentences};
    }
    return EBB_OK;
}

/* ---- all of it ---- */

static ebb_status check(const data_lengths *lengths, const bucket_options *o) {
    const bucket_batch *b = &o->batch;
    if (lengths->used == 0) {
        return ebb__fail(lengths->ctx, EBB_DATA,
                         "no sentence to make batches of: of %llu, %llu are empty and %llu have "
                         "more than %u tokens",
                         (unsigned long long)lengths->lines, (unsigned long long)lengths->empty,
                         (unsigned long long)lengths->over, lengths->max_len);
    }
    if (b->sentences < 0 || b->tokens < 0 || b->multiple < 0 ||
        (b->sentences == 0) == (b->tokens == 0)) {
        return ebb__fail(lengths->ctx, EBB_USAGE,
                         "a batch needs a number of sentences or of tokens, at least 1");
    }
    if (o->shapes < 1 || o->shapes > DATA_MOST_SHAPES) {
        return ebb__fail(lengths->ctx, EBB_USAGE, "%d shapes: at least 1 and at most %d can be had",
                         (int)o->shapes, DATA_MOST_SHAPES);
    }
    return EBB_OK;
}

static ebb_status fill_plan(alloc_region *region, const data_lengths *lengths,
                            const bucket_options *o, bucket_plan *out) {
    limits found = {0};
    if (o->strategy == BUCKET_POOL) {
        return fill_pools(lengths, o, out);
    }
    TRY(make_limits(region, lengths, o, &found));
    TRY(make_shapes(lengths, &found, out));
    count_batches(o, out);
    /* A list is as long as the user wants it. */
    if (out->n_shapes > (o->strategy == BUCKET_STATIC ? DATA_MOST_SHAPES : o->shapes)) {
        TRY(optimal_programs(lengths, o, out));
    } else {
        make_programs(out->shapes, out->n_shapes, o, out);
    }
    count_steps(lengths, &o->batch, out);
    return EBB_OK;
}

/* Sums over what was made. */
static void sum_plan(const data_lengths *lengths, bucket_plan *out) {
    for (size_t i = 0; i < lengths->n_cells; i++) {
        const lengths_cell *cell = &lengths->cells[i];
        out->real_tokens += cell->count * ((uint64_t)cell->source + cell->target);
    }
    for (int32_t i = 0; i < out->n_shapes; i++) {
        out->batches += out->shapes[i].as.batches;
        out->empty_rows += out->shapes[i].empty_rows;
    }
    for (int32_t i = 0; i < out->programs.n; i++) {
        const data_shape *program = &out->programs.at[i];
        out->steps += program->batches;
        out->computed_tokens += program->sentences * data_shape_size(program);
    }
}

ebb_status ebb__buckets_make(const data_lengths *lengths, const bucket_options *options,
                             bucket_plan *out) {
    alloc_region region;
    *out = (bucket_plan){.ctx = lengths->ctx,
                         .strategy = options->strategy,
                         .pairs = lengths->pairs,
                         .sentences = lengths->used};
    TRY(check(lengths, options));
    ebb__region_init(&region, lengths->ctx);
    ebb_status status = fill_plan(&region, lengths, options, out);
    ebb__region_fini(&region);
    sum_plan(lengths, out);
    return status;
}

void ebb__buckets_free(bucket_plan *plan) {
    ebb__free(plan->ctx, plan->shapes);
    plan->shapes = NULL;
    plan->n_shapes = 0;
}

int32_t ebb__bucket_find(const bucket_plan *plan, uint32_t source, uint32_t target) {
    for (int32_t i = 0; i < plan->n_shapes; i++) {
        const bucket_shape *shape = &plan->shapes[i];
        if (within(&shape->limit, source, target) && data_shape_holds(&shape->as, source, target)) {
            return i;
        }
    }
    return -1;
}

double ebb__bucket_padded_share(const bucket_plan *plan) {
    return 1.0 - (double)plan->real_tokens / (double)plan->padded_tokens;
}

double ebb__bucket_computed_share(const bucket_plan *plan) {
    return 1.0 - (double)plan->real_tokens / (double)plan->computed_tokens;
}
