/* sentence_index.c - see sentence_index.h.
 *
 * It is written in one reading of the token files' lengths a class: no memory grows with the text,
 * and no id is looked at. */
#include "data/sentence_index.h"

#include "base/alloc.h"
#include "data/buckets.h"
#include "data/sink.h"

enum { CHUNK = 8192 };

static bool holds(const sentence_shape *shape, uint32_t source, uint32_t target) {
    return source <= shape->source && target <= shape->target;
}

/* The shapes that go before one of them: smaller ones, and of equal ones the first. */
static int32_t shapes_before(const sentence_lists *l, int32_t class, sentence_shape *out) {
    const sentence_shape *own = &l->shapes[class];
    int32_t n = 0;
    for (int32_t i = 0; i < l->n_shapes; i++) {
        uint64_t size = (uint64_t)l->shapes[i].source + l->shapes[i].target;
        uint64_t own_size = (uint64_t)own->source + own->target;
        if (size < own_size || (size == own_size && i < class)) {
            out[n++] = l->shapes[i];
        }
    }
    return n;
}

/* Where a class takes its sentences from. */
typedef struct class_source {
    const sentence_lists *lists;
    const sentence_shape *own;
    sentence_shape before[BUCKETS_MOST_SHAPES];
    int32_t n_before;
    uint32_t *lengths[2]; /* [CHUNK] of sources, of targets; sources of one text are all 0 */
} class_source;

static bool is_member(const class_source *from, uint32_t source, uint32_t target) {
    const sentence_lists *l = from->lists;
    if (!holds(from->own, source, target) ||
        !ebb__lengths_usable(l->source != NULL ? source : target, target, l->max_len)) {
        return false;
    }
    for (int32_t i = 0; i < from->n_before; i++) {
        if (holds(&from->before[i], source, target)) {
            return false;
        }
    }
    return true;
}

static ebb_status read_lengths(const class_source *from, uint64_t line, size_t count) {
    const sentence_lists *l = from->lists;
    if (l->source != NULL) {
        TRY(ebb__tokens_lengths(l->source, line, count, from->lengths[0]));
    }
    return ebb__tokens_lengths(l->target, line, count, from->lengths[1]);
}

/* Writes the entries of one class. */
static ebb_status write_class(const class_source *from, data_sink *sink, sentence_class *to) {
    const sentence_lists *l = from->lists;
    uint64_t lines = l->target->lines, rows = to->shape.rows;
    sentence_entry at = {0, 0, 0, 0};
    for (uint64_t line = 0; line < lines; line += CHUNK) {
        size_t part = lines - line < CHUNK ? (size_t)(lines - line) : CHUNK;
        TRY(read_lengths(from, line, part));
        for (size_t i = 0; i < part; i++) {
            at.source_len = from->lengths[0][i];
            at.target_len = from->lengths[1][i];
            if (is_member(from, at.source_len, at.target_len)) {
                TRY(ebb__sink_put(sink, &at, sizeof at));
                to->count++;
            }
            at.source += at.source_len;
            at.target += at.target_len;
        }
    }
    if (l->source != NULL && at.source != l->source->count) {
        return ebb__tokens_changed(l->source);
    }
    to->batches = to->count / rows + (to->count % rows != 0);
    return at.target == l->target->count ? EBB_OK : ebb__tokens_changed(l->target);
}

static ebb_status write_index(ebb_ctx *ctx, const sentence_lists *l, const char *path,
                              sentence_class *classes) {
    data_sink sink = {.ctx = ctx};
    uint32_t *lengths = NULL;
    uint64_t written = 0;
    ebb_status status;
    TRY_OUT(ebb__alloc(ctx, 2 * (size_t)CHUNK, sizeof *lengths, &lengths));
    TRY_OUT(ebb__sink_open(ctx, path, &sink));
    for (int32_t i = 0; i < l->n_shapes; i++) {
        class_source from = {
            .lists = l, .own = &l->shapes[i], .lengths = {lengths, lengths + CHUNK}};
        from.n_before = shapes_before(l, i, from.before);
        classes[i] = (sentence_class){.shape = l->shapes[i], .first = written};
        TRY_OUT(write_class(&from, &sink, &classes[i]));
        written += classes[i].count;
    }
    TRY_OUT(ebb__sink_commit(&sink));
out:
    ebb__sink_close(&sink);
    ebb__free(ctx, lengths);
    return status;
}

ebb_status ebb__sentence_index_open(ebb_ctx *ctx, const sentence_lists *lists, const char *path,
                                    sentence_class *classes, int *fd) {
    uint64_t bytes = 0;
    *fd = -1;
    if (lists->source != NULL && lists->source->lines != lists->target->lines) {
        return ebb__fail(ctx, EBB_DATA, "token files %s and %s: their lines do not match",
                         lists->source->path, lists->target->path);
    }
    TRY(write_index(ctx, lists, path, classes));
    TRY(ebb__file_open(ctx, path, fd, &bytes));
    ebb_status status = ebb__file_remove(ctx, path); /* still open, and gone with this process */
    if (status != EBB_OK) {
        ebb__file_close(*fd);
        *fd = -1;
    }
    return status;
}
