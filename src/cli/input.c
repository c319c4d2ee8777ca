/* input.c - lines from a stream as they come: what is there is given at once, and a reader that has
 * lines to work on is told instead of kept waiting. Memory is bounded by the longest line kept. */
#include "cli/input.h"

#include "base/file.h"
#include "data/text.h"

#include <poll.h>
#include <string.h>

enum { PART = 65536, LOOK_MILLISECONDS = 200 };

ebb_status ebb__input_open(ebb_ctx *ctx, int fd, const char *name, bool (*stop)(void),
                           cli_input *out) {
    *out = (cli_input){.ctx = ctx, .fd = fd, .name = name, .stop = stop};
    return ebb__alloc(ctx, INPUT_MOST_LINE + PART, 1, &out->buffer);
}

void ebb__input_close(cli_input *input) {
    ebb__free(input->ctx, input->buffer);
    input->buffer = NULL;
}

/* Waits for bytes, or asks whether there are some; an end or an error is something to read too. */
static bool is_ready(const cli_input *input, int milliseconds) {
    struct pollfd in = {.fd = input->fd, .events = POLLIN};
    return poll(&in, 1, milliseconds) > 0;
}

static ebb_status read_part(cli_input *input) {
    size_t got = 0;
    if (input->begin > 0) {
        memmove(input->buffer, input->buffer + input->begin, input->end - input->begin);
        input->end -= input->begin;
        input->begin = 0;
    }
    TRY(ebb__file_read(input->ctx, input->fd, input->name, input->buffer + input->end, PART, &got));
    input->end += got;
    input->ended = got == 0;
    return EBB_OK;
}

static bool is_text(const char *bytes, size_t n) {
    const unsigned char *at = (const unsigned char *)bytes;
    for (size_t i = 0, step; i < n; i += step) {
        step = at[i] == 0 ? 0 : ebb__utf8_length(at + i, n - i);
        if (step == 0) {
            return false;
        }
    }
    return true;
}

static void count(uint64_t *n, uint64_t *first, uint64_t line) {
    *first = *n == 0 ? line : *first;
    (*n)++;
}

static void give(cli_input *input, size_t bytes, decode_line *line) {
    const char *text = input->buffer + input->begin;
    size_t mark = input->lines++ == 0 ? ebb__utf8_mark(text, bytes) : 0;
    text += mark;
    bytes -= mark;
    if (bytes > 0 && text[bytes - 1] == '\r') {
        bytes--;
    }
    if (!is_text(text, bytes)) {
        count(&input->odd, &input->first_odd, input->lines);
    }
    *line = (decode_line){text, bytes};
}

/* A line that is whole, or all that can be kept of it. */
static bool take_line(cli_input *input, decode_line *line) {
    for (;;) {
        size_t left = input->end - input->begin;
        const char *from = input->buffer + input->begin;
        const char *end = left > input->searched
                              ? memchr(from + input->searched, '\n', left - input->searched)
                              : NULL;
        bool skipping = input->skipping;
        size_t bytes = end != NULL ? (size_t)(end - from) : left;
        size_t used = bytes + (end != NULL);
        if (end == NULL && !skipping && bytes < INPUT_MOST_LINE && !(input->ended && bytes > 0)) {
            input->searched = left;
            return false;
        }
        bool whole = end != NULL || input->ended;
        if (!skipping) {
            give(input, bytes < INPUT_MOST_LINE ? bytes : INPUT_MOST_LINE, line);
        }
        if (!skipping && (!whole || bytes > INPUT_MOST_LINE)) {
            count(&input->too_long, &input->first_too_long, input->lines);
        }
        input->skipping = !whole;
        input->begin += used;
        input->searched = 0;
        if (!skipping || used == 0) {
            return !skipping;
        }
    }
}

ebb_status ebb__input_next(cli_input *input, decode_line *line, translate_next *got) {
    while (!take_line(input, line)) {
        if (input->ended || input->stop()) {
            *got = TRANSLATE_END;
            return EBB_OK;
        }
        if (input->pending && !is_ready(input, 0)) {
            input->pending = false;
            *got = TRANSLATE_PAUSE;
            return EBB_OK;
        }
        if (is_ready(input, LOOK_MILLISECONDS)) {
            TRY(read_part(input));
        }
    }
    input->pending = true;
    *got = TRANSLATE_SENTENCE;
    return EBB_OK;
}
