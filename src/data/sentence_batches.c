/* sentence_batches.c - see sentence_batches.h. */
#include "data/sentence_batches.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/rng.h"
#include "data/batcher.h"
#include "data/shuffle.h"

#include <stdio.h>
#include <string.h>

/* Batches of an epoch, where they are pooled. */
static ebb_status count_pooled(sentence_batches *b) {
    data_shape longest = {0};
    uint64_t rows = (uint64_t)b->shapes.at[0].rows;
    for (int32_t i = 0; i < b->shapes.n; i++) {
        data_shape_widen(&longest, b->shapes.at[i].source, b->shapes.at[i].target);
    }
    if (ebb__shape_find(&b->shapes, longest.source, longest.target) < 0) {
        return ebb__fail(b->ctx, EBB_MODEL,
                         "index %s: no shape is as long as all others on both sides, so that a "
                         "batch may come that none holds",
                         b->path);
    }
    b->windows = b->sentences / rows + (b->sentences % rows > 0);
    return EBB_OK;
}

ebb_status ebb__sentence_batches_open(ebb_ctx *ctx, const tokens_reader *source,
                                      const tokens_reader *target, const sentence_options *options,
                                      const char *path, sentence_batches *out) {
    *out = (sentence_batches){.ctx = ctx,
                              .source = source,
                              .target = target,
                              .index = -1,
                              .shapes = options->shapes,
                              .seed = options->seed,
                              .shuffle = options->shuffle,
                              .pooled = options->pooled,
                              .blank = options->blank};
    int n = snprintf(out->path, sizeof out->path, "%s", path);
    if (n < 0 || (size_t)n >= sizeof out->path) {
        return ebb__fail(ctx, EBB_USAGE, "index %.64s...: the path is too long", path);
    }
    sentence_lists lists = {source, target, options->max_len, options->split};
    TRY(ebb__sentence_index_open(ctx, &lists, path, &out->shapes, out->first, &out->index));
    for (int32_t i = 0; i < out->shapes.n; i++) {
        out->sentences += out->shapes.at[i].sentences;
        out->windows += out->shapes.at[i].batches;
    }
    return out->pooled ? count_pooled(out) : EBB_OK;
}

void ebb__sentence_batches_close(sentence_batches *batches) {
    ebb__file_close(batches->index);
    batches->index = -1;
}

enum { SIDE_SOURCE, SIDE_TARGET };

/* ---- order ---- */

/* A list of n, as it is drawn in an epoch. */
static data_shuffle order_of(const sentence_batches *b, uint64_t epoch, uint64_t list, uint64_t n) {
    return ebb__shuffle_make(b->seed, "sentences", epoch, (uint32_t)list, n);
}

/* What stands at place i of it. */
static uint64_t in_turn(const sentence_batches *b, const data_shuffle *order, uint64_t i) {
    return b->shuffle ? ebb__shuffle_at(order, i) : i;
}

static ebb_status changed(const sentence_batches *b) {
    return ebb__fail(b->ctx, EBB_DATA, "index %s: was changed by somebody while in use", b->path);
}

static ebb_status read_entry(const sentence_batches *b, uint64_t number, sentence_entry *out) {
    return ebb__file_pread(b->ctx, b->index, b->path, out, sizeof *out, number * sizeof *out);
}

/* ---- pools ---- */

uint64_t ebb__sentence_pool_bytes(uint64_t sentences, uint64_t rows) {
    return sizeof(sentence_pool) + ebb__bucket_pool_size(sentences, rows) * sizeof(sentence_entry);
}

/* By length; of equals the one that comes first in the text. */
static bool is_before(const sentence_entry *a, const sentence_entry *b) {
    int order = ebb__lengths_compare(a->source_len, a->target_len, b->source_len, b->target_len);
    return order != 0 ? order < 0 : a->target < b->target;
}

/* A heap: in place, and nothing is allocated as qsort() may do. */
static void sift(sentence_entry *entries, size_t at, size_t n) {
    sentence_entry moved = entries[at];
    for (size_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        child += child + 1 < n && is_before(&entries[child], &entries[child + 1]);
        if (!is_before(&moved, &entries[child])) {
            break;
        }
        entries[at] = entries[child];
        at = child;
    }
    entries[at] = moved;
}

static void sort_entries(sentence_entry *entries, size_t n) {
    for (size_t i = n / 2; i-- > 0;) {
        sift(entries, i, n);
    }
    while (n-- > 1) {
        sentence_entry last = entries[n];
        entries[n] = entries[0];
        entries[0] = last;
        sift(entries, 0, n);
    }
}

/* ---- cutting anew ---- */


/* Cuts the sentence at a position of a side, up to its end, as the epoch has it. *ids and *n: what
 * it is then; those of a sentence that has to stay as it is are in the staging memory. */
static ebb_status cut_anew(const sentence_batches *b, int side, uint64_t epoch, uint64_t at,
                           uint32_t **ids, uint32_t *n) {
    const tokens_reader *tokens = side == SIDE_SOURCE ? b->source : b->target;
    codes_drop *drop = &b->drop[side];
    uint64_t left = tokens->count - at, stored = 0;
    uint32_t *text = b->staging + 1;
    size_t most = left < drop->room ? (size_t)left : drop->room;
    TRY(ebb__tokens_read(tokens, at, most, text));
    while (stored < most && text[stored] != VOCAB_EOS) {
        stored++;
    }
    if (stored == most) {
        return changed(b);
    }
    TRY(ebb__codes_drop_cut(drop, epoch, at, text, (uint32_t)stored + 1, n));
    *ids = *n > 0 ? drop->ids : text;
    *n = *n > 0 ? *n : (uint32_t)stored + 1;
    return EBB_OK;
}

static ebb_status measure_anew(const sentence_batches *b, uint64_t epoch, sentence_entry *entry) {
    uint32_t *ids = NULL;
    TRY(cut_anew(b, SIDE_SOURCE, epoch, entry->source, &ids, &entry->source_len));
    return cut_anew(b, SIDE_TARGET, epoch, entry->target, &ids, &entry->target_len);
}

/* ---- pools, read ---- */

enum { POOL_SENTENCES, POOL_BATCHES }; /* lists; from the latter on one a pool */

static ebb_status load_pool(const sentence_batches *b, uint64_t epoch, uint64_t number) {
    sentence_pool *pool = b->pool;
    if (pool->epoch == epoch && pool->number == number) {
        return EBB_OK;
    }
    uint64_t size = ebb__bucket_pool_size(b->sentences, (uint64_t)b->shapes.at[0].rows);
    uint64_t first = number * size;
    *pool = (sentence_pool){.epoch = UINT64_MAX, .number = number};
    pool->count = b->sentences - first < size ? b->sentences - first : size;
    data_shuffle order = order_of(b, epoch, POOL_SENTENCES, b->sentences);
    for (uint64_t i = 0; i < pool->count; i++) {
        TRY(read_entry(b, in_turn(b, &order, first + i), &pool->entries[i]));
        if (b->drop != NULL) {
            TRY(measure_anew(b, epoch, &pool->entries[i]));
        }
    }
    sort_entries(pool->entries, (size_t)pool->count);
    pool->epoch = epoch;
    return EBB_OK;
}

/* Entries of a batch of the pool in memory; *n: how many. */
static const sentence_entry *pool_batch(const sentence_batches *b, const sentence_place *place,
                                        uint64_t *n) {
    uint64_t rows = (uint64_t)b->shapes.at[0].rows, first = place->batch % BUCKETS_POOL * rows;
    uint64_t left = first < b->pool->count ? b->pool->count - first : 0;
    *n = left < rows ? left : rows;
    return b->pool->entries + first;
}

static ebb_status place_in_pool(const sentence_batches *b, sentence_place *place) {
    uint64_t number = place->batch / BUCKETS_POOL, first = number * BUCKETS_POOL, n = 0;
    uint64_t batches = b->windows - first < BUCKETS_POOL ? b->windows - first : BUCKETS_POOL;
    data_shape longest = {0};
    TRY(load_pool(b, place->epoch, number));
    data_shuffle order = order_of(b, place->epoch, POOL_BATCHES + number, batches);
    place->batch = first + in_turn(b, &order, place->batch - first);
    const sentence_entry *entries = pool_batch(b, place, &n);
    for (uint64_t i = 0; i < n; i++) {
        data_shape_widen(&longest, entries[i].source_len, entries[i].target_len);
    }
    place->shape = ebb__shape_find(&b->shapes, longest.source, longest.target);
    return place->shape >= 0 ? EBB_OK : changed(b);
}

ebb_status ebb__sentence_place(const sentence_batches *b, uint64_t step, sentence_place *out) {
    *out = (sentence_place){.epoch = step / b->windows, .batch = step % b->windows};
    if (b->pooled) {
        return place_in_pool(b, out);
    }
    data_shuffle order = order_of(b, out->epoch, (uint64_t)b->shapes.n, b->windows);
    out->batch = in_turn(b, &order, out->batch);
    while (out->batch >= b->shapes.at[out->shape].batches) {
        out->batch -= b->shapes.at[out->shape].batches;
        out->shape++;
    }
    return EBB_OK;
}

/* ---- filling ---- */

/* The sentence of a row; of length 0 if it is empty. */
static ebb_status find_entry(const sentence_batches *b, const sentence_place *place, uint32_t row,
                             sentence_entry *out) {
    const data_shape *shape = &b->shapes.at[place->shape];
    uint64_t at = place->batch * (uint64_t)shape->rows + row, n = 0;
    *out = (sentence_entry){0};
    if (b->pooled) {
        const sentence_entry *entries = pool_batch(b, place, &n);
        *out = row < n ? entries[row] : *out;
    } else if (at < shape->sentences) {
        data_shuffle order = order_of(b, place->epoch, (uint64_t)place->shape, shape->sentences);
        TRY(read_entry(b, b->first[place->shape] + in_turn(b, &order, at), out));
    }
    return data_shape_holds(shape, out->source_len, out->target_len) ? EBB_OK : changed(b);
}

ebb_status ebb__sentence_read(const sentence_batches *b, uint64_t number, bool target,
                              uint32_t *ids, uint32_t room, uint32_t *n) {
    sentence_entry entry;
    TRY(read_entry(b, number, &entry));
    *n = target ? entry.target_len : entry.source_len;
    if (*n > room) {
        return changed(b);
    }
    return target ? ebb__tokens_read(b->target, entry.target, *n, ids)
                  : ebb__tokens_read(b->source, entry.source, *n, ids);
}

/* Puts <unk> in the place of some of n ids, which stand at a position of a side: what the model then
 * has to tell from the others (word dropout). Ends of lines stay. */
static void blank_some(const sentence_batches *b, int side, uint64_t epoch, uint64_t at,
                       uint32_t *ids, uint32_t n) {
    rng_key key = ebb__rng_key(b->seed, side == SIDE_SOURCE ? "blank.src" : "blank.tgt");
    rng_block block = {{0}};
    for (uint32_t i = 0; b->blank > 0 && i < n; i++) {
        if (i % 4 == 0) {
            block =
                ebb__rng_block(key, (uint32_t)epoch, (uint32_t)at, (uint32_t)(at >> 32), i / 4);
        }
        if (ids[i] != VOCAB_EOS && ebb__rng_unit(block.word[i % 4]) < (float)b->blank) {
            ids[i] = VOCAB_UNK;
        }
    }
}

/* Ids down column `row` of [steps*B], time descending; what is not there is `padding`. */
static void put_column(int64_t rows, uint32_t row, uint32_t steps, const uint32_t *ids,
                       uint32_t count, int32_t padding, int32_t *to) {
    for (uint32_t t = 0; t < steps; t++) {
        to[(steps - 1 - t) * (size_t)rows + row] = t < count ? (int32_t)ids[t] : padding;
    }
}

static ebb_status fill_source(const sentence_batches *b, const sentence_place *place,
                              const sentence_entry *entry, uint32_t row,
                              const sentence_target *to) {
    const data_shape *shape = &b->shapes.at[place->shape];
    uint32_t *ids = b->staging, n = entry->source_len;
    if (n > 0 && b->drop != NULL) {
        TRY(cut_anew(b, SIDE_SOURCE, place->epoch, entry->source, &ids, &n));
    } else if (n > 0) {
        TRY(ebb__tokens_read(b->source, entry->source, n, b->staging));
    }
    blank_some(b, SIDE_SOURCE, place->epoch, entry->source, ids, n);
    put_column(shape->rows, row, shape->source, ids, n, VOCAB_EOS, to->source);
    to->lengths[row] = (int32_t)n;
    return n == entry->source_len ? EBB_OK : changed(b);
}

/* Targets from staging[1] on. */
static ebb_status read_target(const sentence_batches *b, const sentence_place *place,
                              const sentence_entry *entry) {
    /* The token before a sentence is the end of the line before; before a later part of a line it
     * is the last one of the part before. */
    size_t before = entry->target > 0;
    uint32_t *ids = NULL, n = 0;
    b->staging[0] = VOCAB_EOS;
    if (entry->target_len == 0) {
        return EBB_OK;
    }
    if (b->drop == NULL) {
        return ebb__tokens_read(b->target, entry->target - before, entry->target_len + before,
                                b->staging + 1 - before);
    }
    TRY(cut_anew(b, SIDE_TARGET, place->epoch, entry->target, &ids, &n));
    if (n != entry->target_len) {
        return changed(b);
    }
    memmove(b->staging + 1, ids, n * sizeof *ids);
    return EBB_OK;
}

static ebb_status fill_row(const sentence_batches *b, const sentence_place *place, uint32_t row,
                           const sentence_target *to, uint64_t *words) {
    const data_shape *shape = &b->shapes.at[place->shape];
    sentence_entry entry;
    TRY(find_entry(b, place, row, &entry));
    if (b->source != NULL) {
        TRY(fill_source(b, place, &entry, row, to));
    }
    TRY(read_target(b, place, &entry));
    put_column(shape->rows, row, shape->target, b->staging + 1, entry.target_len, BATCH_IGNORED,
               to->labels);
    blank_some(b, SIDE_TARGET, place->epoch, entry.target, b->staging + 1, entry.target_len);
    put_column(shape->rows, row, shape->target, b->staging, entry.target_len, VOCAB_EOS,
               to->inputs);
    *words += entry.target_len;
    return EBB_OK;
}

ebb_status ebb__sentence_fill(const sentence_batches *batches, const sentence_place *place,
                              const sentence_target *to, uint64_t *words) {
    *words = 0;
    for (uint32_t row = 0; row < batches->shapes.at[place->shape].rows; row++) {
        TRY(fill_row(batches, place, row, to, words));
    }
    return EBB_OK;
}
