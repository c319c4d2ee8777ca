/* unicode.h - classes of code points: what patterns call \p{L}, \p{N} and \s, of Unicode 16. */
#ifndef DATA_UNICODE_H
#define DATA_UNICODE_H

#include <stdint.h>

typedef enum unicode_class {
    UNICODE_OTHER,
    UNICODE_LETTER,
    UNICODE_NUMBER,
    UNICODE_SPACE
} unicode_class;

unicode_class ebb__unicode_class(uint32_t point);

#endif
