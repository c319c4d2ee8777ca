/* sentence_batches.c - see sentence_batches.h.
 *
 *   index file: [ entries of class 0 | entries of class 1 | ... ], 24 bytes each
 *
 * It is written in one reading of the token files a class, by cursors that find line ends. */
#include "data/sentence_batches.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/rng.h"
#include "data/batcher.h"
#include "data/sink.h"

#include <stdio.h>

typedef struct sentence_entry {
    uint64_t source, target;         /* position of the first token */
    uint32_t source_len, target_len; /* with the line end */
} sentence_entry;

/* ---- making the index ---- */

enum { CURSOR_IDS = 16384 };

typedef struct line_cursor {
    const tokens_reader *tokens;
    uint64_t next;  /* position of the first token not read yet */
    uint64_t first; /* of the last line */
    uint32_t *ids;  /* [CURSOR_IDS], read ahead from `begin` */
    uint64_t begin, end;
} line_cursor;

/* The length of the next line, its end included; 0 after the last one. */
static ebb_status next_line(line_cursor *c, uint64_t *length) {
    c->first = c->next;
    while (c->next < c->tokens->count) {
        if (c->next >= c->end) {
            uint64_t left = c->tokens->count - c->next;
            size_t part = left < CURSOR_IDS ? (size_t)left : CURSOR_IDS;
            TRY(ebb__tokens_read(c->tokens, c->next, part, c->ids));
            c->begin = c->next;
            c->end = c->next + part;
        }
        if (c->ids[c->next++ - c->begin] == VOCAB_EOS) {
            break;
        }
    }
    *length = c->next - c->first;
    return EBB_OK;
}

/* The smallest shape that holds the sentence; n_shapes: none does. */
static int32_t class_of(const sentence_options *o, uint64_t source, uint64_t target) {
    int32_t class = o->n_shapes;
    uint64_t least = UINT64_MAX;
    for (int32_t i = 0; i < o->n_shapes; i++) {
        uint64_t size = (uint64_t)o->shapes[i].source + o->shapes[i].target;
        if (source <= o->shapes[i].source && target <= o->shapes[i].target && size < least) {
            class = i;
            least = size;
        }
    }
    return class;
}

/* The lengths of the next line, or of the next lines of both texts; 0 after the last. Of one text
 * the source is empty. */
static ebb_status next_lengths(const sentence_batches *b, line_cursor cursors[2], uint64_t *source,
                               uint64_t *target) {
    *source = 0;
    TRY(next_line(&cursors[1], target));
    if (b->source == NULL) {
        return EBB_OK;
    }
    TRY(next_line(&cursors[0], source));
    if ((*source == 0) != (*target == 0)) {
        return ebb__fail(b->ctx, EBB_DATA, "token files %s and %s: their lines do not match",
                         b->source->path, b->target->path);
    }
    return EBB_OK;
}

/* Writes the entries of one class. */
static ebb_status write_class(sentence_batches *b, const sentence_options *o, int32_t class,
                              line_cursor cursors[2], data_sink *sink) {
    sentence_class *to = &b->classes[class];
    uint64_t rows = o->shapes[class].rows;
    *to = (sentence_class){.shape = o->shapes[class], .first = b->sentences};
    for (;;) {
        uint64_t source = 0, target = 0;
        TRY(next_lengths(b, cursors, &source, &target));
        if (target == 0) {
            break;
        }
        if (!ebb__lengths_usable(b->source != NULL ? source : target, target, o->max_len) ||
            class_of(o, source, target) != class) {
            continue;
        }
        sentence_entry entry = {cursors[0].first, cursors[1].first, (uint32_t)source,
                                (uint32_t)target};
        TRY(ebb__sink_put(sink, &entry, sizeof entry));
        to->count++;
    }
    to->batches = to->count / rows + (to->count % rows != 0);
    b->sentences += to->count;
    b->windows += to->batches;
    return EBB_OK;
}

static ebb_status write_index(sentence_batches *b, const sentence_options *o) {
    data_sink sink = {.ctx = b->ctx};
    uint32_t *ids = NULL;
    ebb_status status;
    TRY_OUT(ebb__alloc(b->ctx, 2 * (size_t)CURSOR_IDS, sizeof *ids, &ids));
    TRY_OUT(ebb__sink_open(b->ctx, b->path, &sink));
    for (int32_t i = 0; i < o->n_shapes; i++) {
        line_cursor cursors[2] = {{.tokens = b->source, .ids = ids},
                                  {.tokens = b->target, .ids = ids + CURSOR_IDS}};
        TRY_OUT(write_class(b, o, i, cursors, &sink));
    }
    TRY_OUT(ebb__sink_commit(&sink));
out:
    ebb__sink_close(&sink);
    ebb__free(b->ctx, ids);
    return status;
}

ebb_status ebb__sentence_batches_open(ebb_ctx *ctx, const tokens_reader *source,
                                      const tokens_reader *target, const sentence_options *options,
                                      const char *path, sentence_batches *out) {
    *out = (sentence_batches){.ctx = ctx,
                              .source = source,
                              .target = target,
                              .index = -1,
                              .n_classes = options->n_shapes,
                              .seed = options->seed,
                              .shuffle = options->shuffle};
    int n = snprintf(out->path, sizeof out->path, "%s", path);
    if (n < 0 || (size_t)n >= sizeof out->path) {
        return ebb__fail(ctx, EBB_USAGE, "index %.64s...: the path is too long", path);
    }
    TRY(write_index(out, options));
    uint64_t bytes = 0;
    TRY(ebb__file_open(ctx, path, &out->index, &bytes));
    return ebb__file_remove(ctx, path); /* still open, and gone with this process */
}

void ebb__sentence_batches_close(sentence_batches *batches) {
    ebb__file_close(batches->index);
    batches->index = -1;
}

/* ---- order ---- */

/* A Feistel network over the next even number of bits; values from n on are walked through again,
 * so that the list is a permutation and needs no memory. */
uint64_t ebb__sentence_shuffle(uint64_t seed, uint64_t epoch, uint32_t list, uint64_t i,
                               uint64_t n) {
    enum { ROUNDS = 6 };
    rng_key key = ebb__rng_key(seed, "pairs");
    unsigned half = 1;
    while (half < 32 && (n - 1) >> (2 * half) != 0) {
        half++;
    }
    uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = i >> half, right = i & mask;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            uint32_t word = ebb__rng_block(key, (uint32_t)right, (uint32_t)epoch,
                                           (uint32_t)(epoch >> 32), list * ROUNDS + round)
                                .word[0];
            uint64_t mixed = left ^ (word & mask);
            left = right;
            right = mixed;
        }
        i = left << half | right;
    } while (i >= n);
    return i;
}

sentence_place ebb__sentence_place(const sentence_batches *b, uint64_t step) {
    sentence_place place = {.epoch = step / b->windows, .batch = step % b->windows};
    if (b->shuffle) {
        place.batch = ebb__sentence_shuffle(b->seed, place.epoch, (uint32_t)b->n_classes,
                                            place.batch, b->windows);
    }
    while (place.batch >= b->classes[place.class].batches) {
        place.batch -= b->classes[place.class].batches;
        place.class ++;
    }
    return place;
}

/* ---- filling ---- */

static ebb_status changed(const sentence_batches *b) {
    return ebb__fail(b->ctx, EBB_DATA, "index %s: was changed by somebody while in use", b->path);
}

static ebb_status read_entry(const sentence_batches *b, const sentence_place *place, uint64_t at,
                             sentence_entry *out) {
    const sentence_class *c = &b->classes[place->class];
    if (b->shuffle) {
        at = ebb__sentence_shuffle(b->seed, place->epoch, (uint32_t)place->class, at, c->count);
    }
    TRY(ebb__file_pread(b->ctx, b->index, b->path, out, sizeof *out,
                        (c->first + at) * sizeof *out));
    if (out->source_len > c->shape.source || out->target_len > c->shape.target) {
        return changed(b);
    }
    return EBB_OK;
}

ebb_status ebb__sentence_read(const sentence_batches *b, uint64_t number, bool target,
                              uint32_t *ids, uint32_t room, uint32_t *n) {
    sentence_entry entry;
    TRY(ebb__file_pread(b->ctx, b->index, b->path, &entry, sizeof entry, number * sizeof entry));
    *n = target ? entry.target_len : entry.source_len;
    if (*n > room) {
        return changed(b);
    }
    return target ? ebb__tokens_read(b->target, entry.target, *n, ids)
                  : ebb__tokens_read(b->source, entry.source, *n, ids);
}

/* Ids down column `row` of [steps*B], time descending; what is not there is `padding`. */
static void put_column(uint32_t rows, uint32_t row, uint32_t steps, const uint32_t *ids,
                       uint32_t count, int32_t padding, int32_t *to) {
    for (uint32_t t = 0; t < steps; t++) {
        to[(size_t)(steps - 1 - t) * rows + row] = t < count ? (int32_t)ids[t] : padding;
    }
}

static ebb_status fill_source(const sentence_batches *b, const sentence_shape *shape,
                              const sentence_entry *entry, uint32_t row,
                              const sentence_target *to) {
    if (entry->source_len > 0) {
        TRY(ebb__tokens_read(b->source, entry->source, entry->source_len, b->staging));
    }
    put_column(shape->rows, row, shape->source, b->staging, entry->source_len, VOCAB_EOS,
               to->source);
    to->lengths[row] = (int32_t)entry->source_len;
    return EBB_OK;
}

static ebb_status fill_row(const sentence_batches *b, const sentence_place *place, uint32_t row,
                           const sentence_target *to, uint64_t *words) {
    const sentence_class *c = &b->classes[place->class];
    const sentence_shape *shape = &c->shape;
    uint64_t at = place->batch * shape->rows + row;
    sentence_entry entry = {0};
    if (at < c->count) {
        TRY(read_entry(b, place, at, &entry));
    }
    if (b->source != NULL) {
        TRY(fill_source(b, shape, &entry, row, to));
    }
    b->staging[0] = VOCAB_EOS;
    if (entry.target_len > 0) {
        TRY(ebb__tokens_read(b->target, entry.target, entry.target_len, b->staging + 1));
    }
    put_column(shape->rows, row, shape->target, b->staging, entry.target_len, VOCAB_EOS,
               to->inputs);
    put_column(shape->rows, row, shape->target, b->staging + 1, entry.target_len, BATCH_IGNORED,
               to->labels);
    *words += entry.target_len;
    return EBB_OK;
}

ebb_status ebb__sentence_fill(const sentence_batches *batches, const sentence_place *place,
                              const sentence_target *to, uint64_t *words) {
    *words = 0;
    for (uint32_t row = 0; row < batches->classes[place->class].shape.rows; row++) {
        TRY(fill_row(batches, place, row, to, words));
    }
    return EBB_OK;
}
