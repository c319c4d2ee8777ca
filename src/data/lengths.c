/* lengths.c - see lengths.h. While lines are added, cells lie in a table with open addressing. */
#include "data/lengths.h"

#include "base/alloc.h"
#include "base/num.h"
#include "data/file_pairs.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 256 };

/* ---- the table ---- */

ebb_status ebb__lengths_init(ebb_ctx *ctx, bool pairs, uint32_t max_len, data_lengths *out) {
    *out = (data_lengths){.ctx = ctx, .pairs = pairs, .max_len = max_len};
    TRY(ebb__alloc(ctx, FIRST_CAPACITY, sizeof *out->cells, &out->cells));
    out->capacity = FIRST_CAPACITY;
    return EBB_OK;
}

void ebb__lengths_free(data_lengths *lengths) {
    ebb__free(lengths->ctx, lengths->cells);
    lengths->cells = NULL;
    lengths->n_cells = lengths->capacity = 0;
}

/* Where the cell is, or would be. */
static lengths_cell *find_cell(lengths_cell *cells, size_t capacity, uint32_t source,
                               uint32_t target) {
    uint64_t mixed = ((uint64_t)source << 32 | target) * 0x9E3779B97F4A7C15U;
    size_t at = (size_t)(mixed >> 32) & (capacity - 1);
    while (cells[at].count > 0 && (cells[at].source != source || cells[at].target != target)) {
        at = (at + 1) & (capacity - 1);
    }
    return &cells[at];
}

static ebb_status grow(data_lengths *lengths) {
    lengths_cell *larger = NULL;
    size_t capacity = 0;
    if (!ebb__mul_size(lengths->capacity, 2, &capacity)) {
        return ebb__fail(lengths->ctx, EBB_NOMEM, "too many different lengths");
    }
    TRY(ebb__alloc(lengths->ctx, capacity, sizeof *larger, &larger));
    for (size_t i = 0; i < lengths->capacity; i++) {
        const lengths_cell *cell = &lengths->cells[i];
        if (cell->count > 0) {
            *find_cell(larger, capacity, cell->source, cell->target) = *cell;
        }
    }
    ebb__free(lengths->ctx, lengths->cells);
    lengths->cells = larger;
    lengths->capacity = capacity;
    return EBB_OK;
}

/* `count` more sentences of these lengths. */
static ebb_status add_sentences(data_lengths *lengths, uint64_t source, uint64_t target,
                                uint64_t count) {
    if (count == 0) {
        return EBB_OK;
    }
    if (4 * lengths->n_cells >= 3 * lengths->capacity) {
        TRY(grow(lengths));
    }
    source = lengths->pairs ? source : 0;
    lengths_cell *cell =
        find_cell(lengths->cells, lengths->capacity, (uint32_t)source, (uint32_t)target);
    lengths->n_cells += cell->count == 0;
    *cell = (lengths_cell){(uint32_t)source, (uint32_t)target, cell->count + count};
    lengths->used += count;
    return EBB_OK;
}

static ebb_status add_parts(data_lengths *lengths, uint64_t length) {
    uint64_t parts = ebb__lengths_parts(length, lengths->max_len), longer = length % parts;
    lengths->parted++;
    TRY(add_sentences(lengths, 0, ebb__lengths_part(length, parts, 0), longer));
    return add_sentences(lengths, 0, length / parts, parts - longer);
}

ebb_status ebb__lengths_add(data_lengths *lengths, uint64_t source, uint64_t target) {
    lengths->lines++;
    source = lengths->pairs ? source : target;
    if (ebb__lengths_usable(source, target, lengths->max_len)) {
        return add_sentences(lengths, source, target, 1);
    }
    bool empty = source < 2 || target < 2;
    if (!empty && lengths->split) {
        return add_parts(lengths, target);
    }
    uint64_t *count = empty ? &lengths->empty : &lengths->over;
    uint64_t *first = empty ? &lengths->first_empty : &lengths->first_over;
    *first = (*count)++ == 0 ? lengths->lines : *first;
    return EBB_OK;
}

int ebb__lengths_compare(uint32_t source, uint32_t target, uint32_t other_source,
                         uint32_t other_target) {
    uint32_t left = source > target ? source : target;
    uint32_t right = other_source > other_target ? other_source : other_target;
    if (left != right) {
        return (left > right) - (left < right);
    }
    int64_t more = (int64_t)source - target, other = (int64_t)other_source - other_target;
    int ascending = (more > other) - (more < other);
    return left % 2 == 0 ? ascending : -ascending;
}

static int compare_cells(const void *a, const void *b) {
    const lengths_cell *x = a, *y = b;
    return ebb__lengths_compare(x->source, x->target, y->source, y->target);
}

ebb_status ebb__lengths_finish(data_lengths *lengths) {
    size_t n = 0;
    for (size_t i = 0; i < lengths->capacity; i++) {
        if (lengths->cells[i].count > 0) {
            lengths->cells[n++] = lengths->cells[i];
        }
    }
    qsort(lengths->cells, n, sizeof *lengths->cells, compare_cells);
    TRY(ebb__realloc(lengths->ctx, lengths->cells, n + 1, sizeof *lengths->cells, &lengths->cells));
    lengths->capacity = n;
    return EBB_OK;
}

/* ---- texts ---- */

typedef struct line_reader {
    text_reader text;
    const char *path;
    uint32_t most;   /* length up to which throws of the codes may make a line longer */
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

/* Of a line whose pieces were `plain` without throws, and its end. */
static void take_longer(line_reader *reader, uint64_t plain) {
    uint64_t most = plain > reader->most ? plain : reader->most;
    reader->length = reader->length > most ? most : num_larger(reader->length, plain);
}

/* The next line's length, or that there is none. */
static ebb_status next_line(line_reader *reader) {
    text_token token;
    uint64_t before = reader->text.plain;
    reader->length = 0;
    for (;;) {
        TRY(ebb__text_next(&reader->text, &token));
        if (token.kind == TEXT_END && reader->length == 0) {
            reader->ended = true;
            return EBB_OK;
        }
        reader->length += token.kind != TEXT_END;
        if (token.kind != TEXT_TOKEN) { /* bytes that end without a line end are a line too */
            reader->lines++;
            if (reader->text.throws != NULL) {
                take_longer(reader, reader->text.plain - before + (token.kind == TEXT_EOS));
            }
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

static ebb_status scan_text(line_reader *text, data_lengths *out) {
    for (;;) {
        TRY(next_line(text));
        if (text->ended) {
            return EBB_OK;
        }
        TRY(ebb__lengths_add(out, 0, text->length));
    }
}

static ebb_status scan_pairs(line_reader *source, line_reader *target, data_lengths *out) {
    for (;;) {
        TRY(next_line(source));
        TRY(next_line(target));
        if (source->ended != target->ended) {
            return source->ended ? refuse_counts(source, target) : refuse_counts(target, source);
        }
        if (source->ended) {
            return EBB_OK;
        }
        TRY(ebb__lengths_add(out, source->length, target->length));
    }
}

static ebb_status refuse_all(const lengths_texts *texts, const data_lengths *found) {
    return ebb__fail(found->ctx, EBB_DATA,
                     "%s%s%s: none of the %llu %s can be used: %llu have %s, %llu %smore than %u "
                     "tokens",
                     found->pairs ? texts->source : "", found->pairs ? " and " : "", texts->target,
                     (unsigned long long)found->lines, found->pairs ? "pairs" : "lines",
                     (unsigned long long)found->empty, found->pairs ? "an empty line" : "no token",
                     (unsigned long long)found->over, found->pairs ? "one of " : "",
                     found->max_len);
}

ebb_status ebb__lengths_scan(ebb_ctx *ctx, const lengths_texts *texts, data_lengths *out) {
    bool pairs = texts->source != NULL;
    const char *phase = pairs ? "read pairs" : "read lengths";
    line_reader source = {.path = texts->source, .most = texts->max_len + 1};
    line_reader target = {.path = texts->target, .most = texts->max_len + 1};
    ebb_status status = EBB_OK;
    TRY(ebb__lengths_init(ctx, pairs, texts->max_len, out));
    out->split = texts->split && !pairs;
    if (pairs) {
        TRY(ebb__file_pairs_check(ctx, texts->source, texts->target));
        TRY(ebb__text_open(ctx, texts->source, texts->mode, phase, NULL, &source.text));
    }
    status = pairs ? ebb__text_cut_with(&source.text, texts->source_codes) : EBB_OK;
    if (status == EBB_OK && pairs) {
        status = ebb__text_drop(&source.text, texts->drop, texts->seed, "codes.source");
    }
    if (status == EBB_OK) {
        status = ebb__text_open(ctx, texts->target, texts->mode, phase, NULL, &target.text);
    }
    if (status == EBB_OK) {
        status = ebb__text_cut_with(&target.text, texts->target_codes);
        if (status == EBB_OK) {
            status = ebb__text_drop(&target.text, texts->drop, texts->seed, "codes.target");
        }
        if (status == EBB_OK) {
            status = pairs ? scan_pairs(&source, &target, out) : scan_text(&target, out);
        }
        ebb__text_close(&target.text);
    }
    if (pairs) {
        ebb__text_close(&source.text);
    }
    TRY(status);
    return out->used > 0 ? ebb__lengths_finish(out) : refuse_all(texts, out);
}
