/* file_pairs.c - see file_pairs.h. */
#include "data/file_pairs.h"

#include "base/alloc.h"
#include "data/source.h"

#include <string.h>

enum { PART_BYTES = 65536 };

/* Lines of a file; an unfinished last one counts. */
static ebb_status count_lines(ebb_ctx *ctx, const char *path, char *part, uint64_t *out) {
    data_source source;
    ebb_status status;
    size_t got = 1;
    char last = '\n';
    *out = 0;
    TRY(ebb__source_open(ctx, path, "compare files", NULL, &source));
    do {
        status = ebb__source_read(&source, part, PART_BYTES, &got);
        const char *at = part, *end = part + (status == EBB_OK ? got : 0);
        last = at < end ? end[-1] : last;
        while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
            at++;
            ++*out;
        }
    } while (status == EBB_OK && got > 0);
    *out += last != '\n';
    ebb__source_close(&source);
    return status;
}

static ebb_status compare(ebb_ctx *ctx, const text_list *source, const text_list *target) {
    char *part = NULL;
    ebb_status status = ebb__alloc(ctx, PART_BYTES, 1, &part);
    for (size_t i = 0; status == EBB_OK && i < source->n; i++) {
        uint64_t lines[2] = {0, 0};
        TRY_OUT(count_lines(ctx, source->at[i], part, &lines[0]));
        TRY_OUT(count_lines(ctx, target->at[i], part, &lines[1]));
        if (lines[0] != lines[1]) {
            status = ebb__fail(ctx, EBB_DATA,
                               "%s has %llu lines, %s has %llu: files number %zu of the two lists "
                               "are no pairs of lines; are both in the same order?",
                               source->at[i], (unsigned long long)lines[0], target->at[i],
                               (unsigned long long)lines[1], i + 1);
        }
    }
out:
    ebb__free(ctx, part);
    return status;
}

ebb_status ebb__file_pairs_check(ebb_ctx *ctx, const char *source, const char *target) {
    text_list lists[2] = {{0}, {0}};
    ebb_status status;
    TRY_OUT(ebb__text_list(ctx, source, &lists[0]));
    TRY_OUT(ebb__text_list(ctx, target, &lists[1]));
    if (lists[0].n == lists[1].n && lists[0].n > 1) {
        status = compare(ctx, &lists[0], &lists[1]);
    }
out:
    ebb__text_list_free(ctx, &lists[0]);
    ebb__text_list_free(ctx, &lists[1]);
    return status;
}
