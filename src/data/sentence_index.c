/* sentence_index.c - see sentence_index.h.
 *
 * It is written in one reading of the token files' lengths a shape: no memory grows with the text,
 * and no id is looked at. */
#include "data/sentence_index.h"

#include "base/alloc.h"
#include "data/buckets.h"
#include "data/sink.h"

enum { CHUNK = 8192 };

/* The index while it is written. */
typedef struct index_writer {
    const sentence_lists *lists;
    data_shapes *shapes;
    data_sink sink;
    uint32_t *lengths[2]; /* [CHUNK] of sources, of targets; sources of one text are all 0 */
} index_writer;

/* Adds the sentence if it belongs to the shape. */
static ebb_status put_sentence(index_writer *w, int32_t shape, const sentence_entry *at) {
    if (ebb__shape_find(w->shapes, at->source_len, at->target_len) != shape) {
        return EBB_OK;
    }
    w->shapes->at[shape].sentences++;
    return ebb__sink_put(&w->sink, at, sizeof *at);
}

static ebb_status put_parts(index_writer *w, int32_t shape, sentence_entry at) {
    uint32_t length = at.target_len;
    uint64_t parts = ebb__lengths_parts(length, w->lists->max_len);
    for (uint64_t i = 0; i < parts; i++) {
        at.target_len = (uint32_t)ebb__lengths_part(length, parts, i);
        TRY(put_sentence(w, shape, &at));
        at.target += at.target_len;
    }
    return EBB_OK;
}

/* What a line, or a pair, has in the shape. */
static ebb_status put_line(index_writer *w, int32_t shape, const sentence_entry *at) {
    const sentence_lists *l = w->lists;
    uint32_t source = l->source != NULL ? at->source_len : at->target_len;
    if (ebb__lengths_usable(source, at->target_len, l->max_len)) {
        return put_sentence(w, shape, at);
    }
    return l->split && l->source == NULL && at->target_len > 1 ? put_parts(w, shape, *at) : EBB_OK;
}

static ebb_status read_lengths(const index_writer *w, uint64_t line, size_t count) {
    const sentence_lists *l = w->lists;
    if (l->source != NULL) {
        TRY(ebb__tokens_lengths(l->source, line, count, w->lengths[0]));
    }
    return ebb__tokens_lengths(l->target, line, count, w->lengths[1]);
}

/* Writes the entries of one shape. */
static ebb_status write_shape(index_writer *w, int32_t shape) {
    const sentence_lists *l = w->lists;
    data_shape *to = &w->shapes->at[shape];
    uint64_t lines = l->target->lines, rows = (uint64_t)to->rows;
    sentence_entry at = {0, 0, 0, 0};
    for (uint64_t line = 0; line < lines; line += CHUNK) {
        size_t part = lines - line < CHUNK ? (size_t)(lines - line) : CHUNK;
        TRY(ebb__poll_stop(w->sink.ctx, l->target->path));
        TRY(read_lengths(w, line, part));
        for (size_t i = 0; i < part; i++) {
            at.source_len = w->lengths[0][i];
            at.target_len = w->lengths[1][i];
            TRY(put_line(w, shape, &at));
            at.source += at.source_len;
            at.target += at.target_len;
        }
    }
    if (l->source != NULL && at.source != l->source->count) {
        return ebb__tokens_changed(l->source);
    }
    to->batches = to->sentences / rows + (to->sentences % rows != 0);
    return at.target == l->target->count ? EBB_OK : ebb__tokens_changed(l->target);
}

static ebb_status write_index(ebb_ctx *ctx, const sentence_lists *l, const char *path,
                              data_shapes *shapes, uint64_t *first, int *fd) {
    index_writer w = {.lists = l, .shapes = shapes, .sink = {.ctx = ctx}};
    uint64_t written = 0;
    ebb_status status;
    TRY_OUT(ebb__alloc(ctx, 2 * (size_t)CHUNK, sizeof *w.lengths[0], &w.lengths[0]));
    w.lengths[1] = w.lengths[0] + CHUNK;
    TRY_OUT(ebb__sink_open_unnamed(ctx, path, &w.sink));
    for (int32_t i = 0; i < shapes->n; i++) {
        first[i] = written;
        shapes->at[i].sentences = 0;
        TRY_OUT(write_shape(&w, i));
        written += shapes->at[i].sentences;
    }
    TRY_OUT(ebb__sink_take(&w.sink, fd));
out:
    ebb__sink_close(&w.sink);
    ebb__free(ctx, w.lengths[0]);
    return status;
}

ebb_status ebb__sentence_index_open(ebb_ctx *ctx, const sentence_lists *lists, const char *path,
                                    data_shapes *shapes, uint64_t first[DATA_MOST_SHAPES],
                                    int *fd) {
    *fd = -1;
    if (lists->source != NULL && lists->source->lines != lists->target->lines) {
        return ebb__fail(ctx, EBB_DATA, "token files %s and %s: their lines do not match",
                         lists->source->path, lists->target->path);
    }
    return write_index(ctx, lists, path, shapes, first, fd);
}
