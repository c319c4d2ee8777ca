/* line_scores.c - see line_scores.h. Sentences of a shape come in the order of the text, so that
 * the lines, gone through once more, find theirs one after the other. */
#include "kind/text/line_scores.h"

#include "base/alloc.h"
#include "model/nmt.h"
#include "train/job_int.h"

#include <math.h>

enum { CHUNK = 4096 };

uint64_t ebb__line_scores_bytes(const sentence_set *set) {
    return (set->sentences > 0 ? set->sentences : 1) * sizeof(double);
}

/* Adds up the rows of a batch: its sentence i is entry `first` + i of the index. */
static ebb_status look(const job_reader *reader, uint64_t step) {
    const sentence_set *set = reader->batches;
    sentence_place at;
    const float *losses = NULL;
    TRY(ebb__sentence_place(&set->batches, step, &at));
    const data_shape *shape = &set->batches.shapes.at[at.shape];
    size_t rows = (size_t)shape->rows, steps = shape->target;
    uint64_t begin = at.batch * rows, n = shape->sentences - begin;
    double *to = set->line_sums + set->batches.first[at.shape] + begin;
    run_place place = ebb__run_find_output(set->session, set->programs[at.shape], NMT_LOSSES);
    TRY(ebb__run_map(set->session, place, DEVICE_READ, &losses));
    for (uint64_t b = 0; b < rows && b < n; b++) {
        to[b] = 0;
        for (size_t t = 0; t < steps; t++) {
            to[b] += (double)losses[(steps - 1 - t) * rows + b];
        }
    }
    return ebb__run_unmap(set->session, place, DEVICE_READ, losses);
}

void ebb__line_scores_begin(sentence_set *set, run_session *session, job_reader *reader) {
    set->line_sums = ebb__run_host(session, JOB_LINES, NULL);
    reader->look = look;
}

/* Lines from `line` on; next[shape] is the entry of the shape's next sentence. */
static ebb_status give_part(const sentence_set *set, const job_observer *observer, size_t n,
                            const uint32_t *source, const uint32_t *target, uint64_t *next) {
    for (size_t i = 0; i < n; i++) {
        double score = (double)NAN;
        if (ebb__lengths_usable(source[i], target[i], set->options.max_len)) {
            int32_t shape = ebb__shape_find(&set->batches.shapes, source[i], target[i]);
            score = shape >= 0 ? -set->line_sums[next[shape]++] : score;
        }
        TRY(observer->line(observer->user, score));
    }
    return EBB_OK;
}

ebb_status ebb__line_scores_give(const sentence_set *set, const job_observer *observer) {
    ebb_ctx *ctx = set->batches.ctx;
    const tokens_reader *texts = set->tokens;
    uint64_t lines = texts[KIND_TARGET].lines, next[DATA_MOST_SHAPES];
    uint32_t *lengths = NULL;
    ebb_status status;
    for (int32_t i = 0; i < set->batches.shapes.n; i++) {
        next[i] = set->batches.first[i];
    }
    TRY_OUT(ebb__alloc(ctx, 2 * (size_t)CHUNK, sizeof *lengths, &lengths));
    for (uint64_t line = 0; line < lines; line += CHUNK) {
        size_t n = lines - line < CHUNK ? (size_t)(lines - line) : CHUNK;
        TRY_OUT(ebb__tokens_lengths(&texts[KIND_SOURCE], line, n, lengths));
        TRY_OUT(ebb__tokens_lengths(&texts[KIND_TARGET], line, n, lengths + CHUNK));
        TRY_OUT(give_part(set, observer, n, lengths, lengths + CHUNK, next));
    }
out:
    ebb__free(ctx, lengths);
    return status;
}
