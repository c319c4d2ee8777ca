/* sentence_index.c - see sentence_index.h.
 *
 * It is written in one reading of the token files' lengths a class: no memory grows with the text,
 * and no id is looked at. */
#include "data/sentence_index.h"

#include "base/alloc.h"
#include "data/buckets.h"
#include "data/sink.h"

enum { CHUNK = 8192 };

int32_t ebb__sentence_class(const sentence_class *classes, int32_t n_classes, uint32_t source,
                            uint32_t target) {
    int32_t class = n_classes;
    uint64_t least = UINT64_MAX;
    for (int32_t i = 0; i < n_classes; i++) {
        const sentence_shape *shape = &classes[i].shape;
        uint64_t size = (uint64_t)shape->source + shape->target;
        if (source <= shape->source && target <= shape->target && size < least) {
            class = i;
            least = size;
        }
    }
    return class;
}

/* The index while it is written. */
typedef struct index_writer {
    const sentence_lists *lists;
    sentence_class *classes; /* a shape each */
    data_sink sink;
    uint32_t *lengths[2]; /* [CHUNK] of sources, of targets; sources of one text are all 0 */
} index_writer;

/* Adds the sentence if it belongs to the class. */
static ebb_status put_sentence(index_writer *w, int32_t class, const sentence_entry *at) {
    if (ebb__sentence_class(w->classes, w->lists->n_shapes, at->source_len, at->target_len) !=
        class) {
        return EBB_OK;
    }
    w->classes[class].count++;
    return ebb__sink_put(&w->sink, at, sizeof *at);
}

static ebb_status put_parts(index_writer *w, int32_t class, sentence_entry at) {
    uint32_t length = at.target_len;
    uint64_t parts = ebb__lengths_parts(length, w->lists->max_len);
    for (uint64_t i = 0; i < parts; i++) {
        at.target_len = (uint32_t)ebb__lengths_part(length, parts, i);
        TRY(put_sentence(w, class, &at));
        at.target += at.target_len;
    }
    return EBB_OK;
}

/* What a line, or a pair, has in the class. */
static ebb_status put_line(index_writer *w, int32_t class, const sentence_entry *at) {
    const sentence_lists *l = w->lists;
    uint32_t source = l->source != NULL ? at->source_len : at->target_len;
    if (ebb__lengths_usable(source, at->target_len, l->max_len)) {
        return put_sentence(w, class, at);
    }
    return l->split && l->source == NULL && at->target_len > 1 ? put_parts(w, class, *at) : EBB_OK;
}

static ebb_status read_lengths(const index_writer *w, uint64_t line, size_t count) {
    const sentence_lists *l = w->lists;
    if (l->source != NULL) {
        TRY(ebb__tokens_lengths(l->source, line, count, w->lengths[0]));
    }
    return ebb__tokens_lengths(l->target, line, count, w->lengths[1]);
}

/* Writes the entries of one class. */
static ebb_status write_class(index_writer *w, int32_t class) {
    const sentence_lists *l = w->lists;
    sentence_class *to = &w->classes[class];
    uint64_t lines = l->target->lines, rows = to->shape.rows;
    sentence_entry at = {0, 0, 0, 0};
    for (uint64_t line = 0; line < lines; line += CHUNK) {
        size_t part = lines - line < CHUNK ? (size_t)(lines - line) : CHUNK;
        TRY(ebb__poll_stop(w->sink.ctx, l->target->path));
        TRY(read_lengths(w, line, part));
        for (size_t i = 0; i < part; i++) {
            at.source_len = w->lengths[0][i];
            at.target_len = w->lengths[1][i];
            TRY(put_line(w, class, &at));
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
                              sentence_class *classes, int *fd) {
    index_writer w = {.lists = l, .classes = classes, .sink = {.ctx = ctx}};
    uint64_t written = 0;
    ebb_status status;
    TRY_OUT(ebb__alloc(ctx, 2 * (size_t)CHUNK, sizeof *w.lengths[0], &w.lengths[0]));
    w.lengths[1] = w.lengths[0] + CHUNK;
    TRY_OUT(ebb__sink_open_unnamed(ctx, path, &w.sink));
    for (int32_t i = 0; i < l->n_shapes; i++) {
        classes[i] = (sentence_class){.shape = l->shapes[i]};
    }
    for (int32_t i = 0; i < l->n_shapes; i++) {
        classes[i].first = written;
        TRY_OUT(write_class(&w, i));
        written += classes[i].count;
    }
    TRY_OUT(ebb__sink_take(&w.sink, fd));
out:
    ebb__sink_close(&w.sink);
    ebb__free(ctx, w.lengths[0]);
    return status;
}

ebb_status ebb__sentence_index_open(ebb_ctx *ctx, const sentence_lists *lists, const char *path,
                                    sentence_class *classes, int *fd) {
    *fd = -1;
    if (lists->source != NULL && lists->source->lines != lists->target->lines) {
        return ebb__fail(ctx, EBB_DATA, "token files %s and %s: their lines do not match",
                         lists->source->path, lists->target->path);
    }
    return write_index(ctx, lists, path, classes, fd);
}
