/* codes_words.c - see codes_words.h.
 *
 * Invariant: bytes [cursor, end) of the buffer are unread; a word never straddles the buffer,
 * because what is unread moves to the front before more is read behind it. */
#include "data/codes_words.h"

#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { BUFFER_BYTES = 2 * TEXT_BUFFER_BYTES };

ebb_status ebb__words_open(ebb_ctx *ctx, const char *path, const char *phase, words_reader *out) {
    *out = (words_reader){.source = {.ctx = ctx, .fd = -1}, .line = 1};
    out->stream = strcmp(path, "-") == 0;
    if (out->stream) {
        ebb__source_of_stream(ctx, STDIN_FILENO, "standard input", phase, &out->source);
    } else {
        TRY(ebb__source_open(ctx, path, phase, NULL, &out->source));
    }
    ebb_status status = ebb__alloc(ctx, BUFFER_BYTES, 1, &out->buffer);
    if (status != EBB_OK) {
        ebb__words_close(out);
    }
    return status;
}

void ebb__words_close(words_reader *reader) {
    ebb__free(reader->source.ctx, reader->buffer);
    reader->buffer = NULL;
    ebb__source_close(&reader->source);
}

static ebb_status read_more(words_reader *r) {
    size_t kept = r->end - r->cursor, got = 0;
    memmove(r->buffer, r->buffer + r->cursor, kept);
    r->cursor = 0;
    r->end = kept;
    TRY(ebb__source_read(&r->source, r->buffer + kept, BUFFER_BYTES - kept, &got));
    r->end += got;
    r->ended = got == 0;
    return EBB_OK;
}

/* Bytes of the character that ends a line and belongs to its word; 0: there is none here. */
static size_t closing(const unsigned char *at, size_t available) {
    unsigned char c = at[0];
    if (c == 0x0b || c == 0x0c || (c >= 0x1c && c <= 0x1e)) {
        return 1;
    }
    if (c == 0xc2 && available >= 2 && at[1] == 0x85) {
        return 2;
    }
    return c == 0xe2 && available >= 3 && at[1] == 0x80 && (at[2] == 0xa8 || at[2] == 0xa9) ? 3 : 0;
}

/* Bytes of the word that starts at the cursor; *whole if it cannot go on behind what was read. */
static size_t word_length(const words_reader *r, bool *whole, bool *closes) {
    const unsigned char *start = (const unsigned char *)r->buffer + r->cursor;
    size_t available = r->end - r->cursor, n = 0;
    *whole = r->ended;
    *closes = false;
    while (n < available && start[n] != ' ' && start[n] != '\n' && start[n] != '\r') {
        size_t last = closing(start + n, available - n);
        if (last > 0) {
            *whole = *closes = true;
            return n + last;
        }
        n++;
    }
    *whole = *whole || n < available;
    return n;
}

static void give_spaces(words_reader *r, words_item *out) {
    size_t n = 0;
    while (r->cursor + n < r->end && r->buffer[r->cursor + n] == ' ') {
        n++;
    }
    r->cursor += n;
    *out = (words_item){.kind = WORDS_SPACES, .count = n};
}

static ebb_status give_word(words_reader *r, words_item *out) {
    bool whole = false, closes = false;
    size_t n = word_length(r, &whole, &closes);
    while (!whole && n <= TEXT_TOKEN_LIMIT) {
        TRY(read_more(r));
        n = word_length(r, &whole, &closes);
    }
    if (n > TEXT_TOKEN_LIMIT) {
        return ebb__fail(r->source.ctx, EBB_DATA,
                         "%s:%llu: a word of more than %d bytes; split it with spaces",
                         r->source.path, (unsigned long long)r->line, (int)TEXT_TOKEN_LIMIT);
    }
    *out = (words_item){.kind = WORDS_WORD,
                        .bytes = r->buffer + r->cursor,
                        .length = (uint32_t)n,
                        .closes = closes};
    r->cursor += n;
    return EBB_OK;
}

ebb_status ebb__words_next(words_reader *r, words_item *out) {
    if (r->cursor == r->end && !r->ended) {
        if (r->stream && r->pending) {
            r->pending = false;
            *out = (words_item){.kind = WORDS_PAUSE};
            return EBB_OK;
        }
        TRY(read_more(r));
    }
    r->pending = true;
    if (r->cursor == r->end) {
        *out = (words_item){.kind = WORDS_END};
        return EBB_OK;
    }
    char c = r->buffer[r->cursor];
    if (c == '\n' || c == '\r') {
        r->cursor++;
        r->line += c == '\n';
        *out = (words_item){.kind = WORDS_BREAK, .byte = c};
        return EBB_OK;
    }
    if (c == ' ') {
        give_spaces(r, out);
        return EBB_OK;
    }
    return give_word(r, out);
}

/* ---- counting ---- */

enum { LEAST_SLOTS = 1 << 12 };

void ebb__words_list_init(ebb_ctx *ctx, uint64_t most, words_list *out) {
    *out = (words_list){.ctx = ctx, .most = most};
    ebb__region_init(&out->region, ctx);
}

void ebb__words_list_free(words_list *list) {
    ebb__region_fini(&list->region);
    *list = (words_list){.ctx = list->ctx};
}

static uint32_t *find_slot(const words_list *list, const char *word, size_t length) {
    uint32_t slot = (uint32_t)XXH3_64bits(word, length) & list->mask;
    for (; list->table[slot] != 0; slot = (slot + 1) & list->mask) {
        const words_count *w = &list->words[list->table[slot] - 1];
        if (w->length == length && memcmp(list->pool + w->offset, word, length) == 0) {
            break;
        }
    }
    return &list->table[slot];
}

/* Room for one more word of so many bytes. */
static ebb_status make_room(words_list *list, size_t length) {
    uint64_t slots = list->mask + (uint64_t)1;
    uint64_t bytes = (list->n + 1) * sizeof *list->words + list->pool_bytes + length +
                     slots * sizeof *list->table;
    if (list->pool_bytes + length > UINT32_MAX || list->n >= INT32_MAX / 2 ||
        (list->most > 0 && bytes > list->most)) {
        return ebb__fail(
            list->ctx, EBB_BUDGET,
            "codes: the %zu different words so far take %llu bytes to count, more "
            "than is allowed; give more memory, or learn codes from a part of the text "
            "(ebb data codes learn)",
            list->n, (unsigned long long)bytes);
    }
    TRY(ebb__region_grow(&list->region, &list->words, &list->words_room, list->n + 1,
                         sizeof *list->words));
    TRY(ebb__region_grow(&list->region, &list->pool, &list->pool_room, list->pool_bytes + length,
                         1));
    if (list->table != NULL && list->n + list->n / 2 < slots) {
        return EBB_OK;
    }
    slots = list->table == NULL ? LEAST_SLOTS : 2 * slots;
    TRY(ebb__region_grow(&list->region, &list->table, &list->table_room, slots,
                         sizeof *list->table));
    memset(list->table, 0, slots * sizeof *list->table);
    list->mask = (uint32_t)(slots - 1);
    for (size_t i = 0; i < list->n; i++) {
        *find_slot(list, list->pool + list->words[i].offset, list->words[i].length) =
            (uint32_t)i + 1;
    }
    return EBB_OK;
}

ebb_status ebb__words_list_add(words_list *list, const char *word, size_t length) {
    uint32_t *slot = list->table != NULL ? find_slot(list, word, length) : NULL;
    if (slot != NULL && *slot != 0) {
        list->words[*slot - 1].count++;
        return EBB_OK;
    }
    TRY(make_room(list, length));
    memcpy(list->pool + list->pool_bytes, word, length);
    list->words[list->n] = (words_count){1, (uint32_t)list->pool_bytes, (uint32_t)length};
    list->pool_bytes += length;
    *find_slot(list, word, length) = (uint32_t)++list->n;
    return EBB_OK;
}

ebb_status ebb__words_list_read(words_list *list, const char *path) {
    words_reader reader;
    words_item item = {.kind = WORDS_BREAK};
    ebb_status status = EBB_OK;
    TRY(ebb__words_open(list->ctx, path, "count words", &reader));
    while (status == EBB_OK && item.kind != WORDS_END) {
        status = ebb__words_next(&reader, &item);
        if (status == EBB_OK && item.kind == WORDS_WORD) {
            status = ebb__words_list_add(list, item.bytes, item.length);
        }
    }
    ebb__words_close(&reader);
    return status;
}
