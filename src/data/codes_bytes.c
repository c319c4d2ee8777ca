/* codes_bytes.c - what codes of bytes (GPT-2's) have of their own: how a line is parted into runs
 * that are cut alone, and the letters that stand for bytes in files.
 *
 * A line is parted as by the pattern
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * so that no byte is left out: white space is a part of what follows it, or a run of its own. A
 * byte that is no UTF-8 counts as neither letter, number nor white space. */
#include "data/codes.h"

#include "data/unicode.h"

#include <string.h>

/* ---- parting a line ---- */

/* What stands at a place: a class, the end of the line, or more bytes must be seen to tell. */
typedef enum run_sight {
    SIGHT_OTHER,
    SIGHT_LETTER,
    SIGHT_NUMBER,
    SIGHT_SPACE,
    SIGHT_END,
    SIGHT_MORE
} run_sight;
_Static_assert((int)SIGHT_SPACE == (int)UNICODE_SPACE, "classes are sights");

static uint32_t point_of(const unsigned char *c, size_t n) {
    uint32_t point = n == 1 ? c[0] : c[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        point = point << 6 | (c[i] & 0x3fu);
    }
    return point;
}

static run_sight look(const char *at, const char *end, bool whole, size_t *bytes) {
    const unsigned char *c = (const unsigned char *)at;
    size_t n = (size_t)(end - at);
    *bytes = 1;
    if (n == 0) {
        return whole ? SIGHT_END : SIGHT_MORE;
    }
    if (c[0] == '\r' && n == 1) {
        return whole ? SIGHT_END : SIGHT_MORE;
    }
    if (c[0] == '\n' || (c[0] == '\r' && c[1] == '\n')) {
        return SIGHT_END;
    }
    if (c[0] < 0x80) {
        return (run_sight)ebb__unicode_class(c[0]);
    }
    if (n < 4 && !whole) {
        return SIGHT_MORE;
    }
    size_t length = ebb__utf8_length(c, n);
    if (length == 0) {
        return SIGHT_OTHER;
    }
    *bytes = length;
    return (run_sight)ebb__unicode_class(point_of(c, length));
}

/* Bytes of an English ending behind an apostrophe; 0: there is none. */
static size_t ending(const char *at, size_t n) {
    static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t length = strlen(endings[i]);
        if (n >= length && memcmp(at, endings[i], length) == 0) {
            return length;
        }
    }
    return 0;
}

/* A run of white space keeps its last character for what follows, unless it is all there is. */
static size_t spaces_at(const char *start, const char *end, bool whole) {
    const char *at = start, *last = start;
    size_t bytes = 0;
    run_sight sight;
    while ((sight = look(at, end, whole, &bytes)) == SIGHT_SPACE) {
        last = at;
        at += bytes;
    }
    return sight == SIGHT_MORE                   ? 0
           : sight == SIGHT_END || last == start ? (size_t)(at - start)
                                                 : (size_t)(last - start);
}

size_t ebb__codes_run(const char *start, size_t available, bool whole) {
    const char *end = start + available, *at = start + (available > 0 && start[0] == ' ');
    size_t bytes = 0, n = 0;
    if (available > 0 && start[0] == '\'') {
        n = ending(start, available);
        if (n > 0 || (available < 3 && !whole && memchr(start, '\n', available) == NULL)) {
            return n;
        }
    }
    run_sight first = look(at, end, whole, &bytes), next = first;
    if (first == SIGHT_MORE) {
        return 0;
    }
    if (first == SIGHT_SPACE || first == SIGHT_END) {
        return spaces_at(start, end, whole);
    }
    while (next == first) {
        at += bytes;
        next = look(at, end, whole, &bytes);
    }
    return next == SIGHT_MORE ? 0 : (size_t)(at - start);
}

size_t ebb__codes_split(const char **at, const char *end, const char **run) {
    size_t n = ebb__codes_run(*at, (size_t)(end - *at), true);
    *run = *at;
    *at += n;
    if (n == 0 && *at < end && **at == '\r') {
        ++*at;
    }
    return n;
}

/* ---- letters for bytes ---- */

/* Bytes that are printed stand for themselves; the others, in three ranges, are U+0100 and up. */
static const struct {
    uint32_t first, last, letter;
} hidden[] = {{0x00, 0x20, 0x100}, {0x7f, 0xa0, 0x121}, {0xad, 0xad, 0x143}};
enum { N_HIDDEN = sizeof hidden / sizeof *hidden };

static uint32_t letter_of(uint32_t byte) {
    for (int i = 0; i < N_HIDDEN; i++) {
        if (byte >= hidden[i].first && byte <= hidden[i].last) {
            return hidden[i].letter + (byte - hidden[i].first);
        }
    }
    return byte;
}

size_t ebb__codes_letter(unsigned char byte, char out[2]) {
    uint32_t letter = letter_of(byte);
    if (letter < 0x80) {
        out[0] = (char)letter;
        return 1;
    }
    out[0] = (char)(0xc0 | letter >> 6);
    out[1] = (char)(0x80 | (letter & 0x3f));
    return 2;
}

/* The byte that a letter stands for; CODES_NONE if it stands for none. */
static int byte_of(uint32_t letter) {
    for (int i = 0; i < N_HIDDEN; i++) {
        uint32_t byte = letter - hidden[i].letter + hidden[i].first;
        if (letter >= hidden[i].letter && byte <= hidden[i].last) {
            return (int)byte;
        }
    }
    return letter < 0x100 && letter_of(letter) == letter ? (int)letter : CODES_NONE;
}

int64_t ebb__codes_from_letters(const char *text, size_t length, char *out) {
    int64_t used = 0;
    for (size_t at = 0, n; at < length; at += n) {
        const unsigned char *c = (const unsigned char *)text + at;
        n = ebb__utf8_length(c, length - at);
        int byte = n > 0 ? byte_of(point_of(c, n)) : CODES_NONE;
        if (byte < 0) {
            return CODES_NONE;
        }
        if (out != NULL) {
            out[used] = (char)byte;
        }
        used++;
    }
    return used;
}
