/* unicode.c - see unicode.h. Runs of equal class, searched by halves; ASCII is looked at directly,
 * since most text is. */
#include "data/unicode.h"

#include <stddef.h>

#define O(first) ((first) << 2 | UNICODE_OTHER)
#define L(first) ((first) << 2 | UNICODE_LETTER)
#define N(first) ((first) << 2 | UNICODE_NUMBER)
#define S(first) ((first) << 2 | UNICODE_SPACE)
static const uint32_t runs[] = {
#include "data/unicode.def"
};
#undef O
#undef L
#undef N
#undef S

static unicode_class ascii_class(uint32_t point) {
    uint32_t letter = (point | 0x20) - 'a';
    return letter < 26                                        ? UNICODE_LETTER
           : point - '0' < 10                                 ? UNICODE_NUMBER
           : point == ' ' || (point >= '\t' && point <= '\r') ? UNICODE_SPACE
                                                              : UNICODE_OTHER;
}

unicode_class ebb__unicode_class(uint32_t point) {
    if (point < 0x80) {
        return ascii_class(point);
    }
    size_t low = 0, high = sizeof runs / sizeof *runs; /* the run is in [low, high) */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (runs[middle] >> 2 <= point) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return (unicode_class)(runs[low] & 3);
}
