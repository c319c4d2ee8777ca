/* pairs.c - see pairs.h. */
#include "data/pairs.h"

#include "base/alloc.h"

#include <string.h>

typedef struct line_reader {
    text_reader text;
    const char *path;
    uint64_t lines;  /* read so far */
    uint64_t length; /* of the last one, its end included */
    bool ended;
} line_reader;

static ebb_status refuse_eos(line_reader *reader) {
    return ebb__fail(reader->text.source.ctx, EBB_DATA,
                     "%s:%llu: holds the word <eos>, which stands for the end of a line: leave it "
                     "out",
                     reader->path, (unsigned long long)reader->lines + 1);
}

/* The next line's length, or that there is none. */
static ebb_status next_line(line_reader *reader) {
    text_token token;
    reader->length = 0;
    for (;;) {
        TRY(ebb__text_next(&reader->text, &token));
        if (token.kind == TEXT_END) {
            reader->ended = true;
            return EBB_OK;
        }
        reader->length++;
        if (token.kind == TEXT_EOS) {
            reader->lines++;
            return EBB_OK;
        }
        if (token.length == 5 && memcmp(token.bytes, "<eos>", 5) == 0) {
            return refuse_eos(reader);
        }
    }
}

/* One text has ended before the other, whose lines are counted to its end. */
static ebb_status refuse_counts(const line_reader *shorter, line_reader *longer) {
    while (!longer->ended) {
        TRY(next_line(longer));
    }
    return ebb__fail(longer->text.source.ctx, EBB_DATA,
                     "%s has %llu lines and %s has %llu, but line by line they must belong "
                     "together: %s:%llu is its last",
                     shorter->path, (unsigned long long)shorter->lines, longer->path,
                     (unsigned long long)longer->lines, shorter->path,
                     (unsigned long long)shorter->lines);
}

static void note_pair(pairs_scan *scan, uint64_t source, uint64_t target) {
    scan->lines++;
    if (source < 2 || target < 2) {
        scan->first_empty = scan->empty++ == 0 ? scan->lines : scan->first_empty;
    } else if (source > scan->most || target > scan->most) {
        scan->first_over = scan->over++ == 0 ? scan->lines : scan->first_over;
    } else {
        pairs_length *at = &scan->lengths[source > target ? source : target];
        at->count++;
        at->source = source > at->source ? (uint32_t)source : at->source;
        at->target = target > at->target ? (uint32_t)target : at->target;
        scan->used++;
    }
}

static ebb_status scan_lines(line_reader *source, line_reader *target, pairs_scan *out) {
    for (;;) {
        TRY(next_line(source));
        TRY(next_line(target));
        if (source->ended != target->ended) {
            return source->ended ? refuse_counts(source, target) : refuse_counts(target, source);
        }
        if (source->ended) {
            break;
        }
        note_pair(out, source->length, target->length);
    }
    if (out->used == 0) {
        return ebb__fail(out->ctx, EBB_DATA,
                         "%s and %s: none of the %llu pairs can be used: %llu have an empty line, "
                         "%llu one of more than %u tokens",
                         source->path, target->path, (unsigned long long)out->lines,
                         (unsigned long long)out->empty, (unsigned long long)out->over,
                         out->most - 1);
    }
    return EBB_OK;
}

ebb_status ebb__pairs_scan(ebb_ctx *ctx, const pairs_texts *texts, pairs_scan *out) {
    line_reader source = {.path = texts->source}, target = {.path = texts->target};
    ebb_status status = EBB_OK;
    *out = (pairs_scan){.ctx = ctx, .most = texts->max_len + 1};
    TRY(ebb__alloc(ctx, (size_t)out->most + 1, sizeof *out->lengths, &out->lengths));
    TRY(ebb__text_open(ctx, texts->source, texts->mode, "read pairs", NULL, &source.text));
    status = ebb__text_open(ctx, texts->target, texts->mode, "read pairs", NULL, &target.text);
    if (status == EBB_OK) {
        status = scan_lines(&source, &target, out);
        ebb__text_close(&target.text);
    }
    ebb__text_close(&source.text);
    return status;
}

void ebb__pairs_scan_free(pairs_scan *scan) {
    ebb__free(scan->ctx, scan->lengths);
    scan->lengths = NULL;
}

int32_t ebb__pairs_shapes(const pairs_scan *scan, pairs_shape out[PAIRS_MOST_SHAPES]) {
    /* Percent of the pairs that are at most so long. Long sentences are few: equal shares would
     * pad the last one most. */
    static const uint64_t shares[PAIRS_MOST_SHAPES] = {50, 80, 95, 100};
    pairs_shape found[PAIRS_MOST_SHAPES];
    pairs_shape now = {0, 0};
    uint64_t seen = 0;
    int32_t n = 0, next = 0;
    for (uint32_t length = 0; length <= scan->most && next < PAIRS_MOST_SHAPES; length++) {
        const pairs_length *at = &scan->lengths[length];
        seen += at->count;
        now.source = at->source > now.source ? at->source : now.source;
        now.target = at->target > now.target ? at->target : now.target;
        if (seen * 100 < scan->used * shares[next]) {
            continue;
        }
        while (next < PAIRS_MOST_SHAPES && seen * 100 >= scan->used * shares[next]) {
            next++;
        }
        found[n++] = now;
    }
    for (int32_t i = 0; i < n; i++) {
        out[i] = found[n - 1 - i];
    }
    return n;
}
