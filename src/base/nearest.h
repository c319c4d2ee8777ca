/* nearest.h - which of several names was meant by one that is none of them. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>
#include <stdint.h>

/* The candidate that takes the fewest edits to become `text`; NULL if there are no candidates. */
typedef const char *(*nearest_fn)(const void *user, size_t index); /* NULL: skip */
const char *ebb__nearest(const char *text, nearest_fn candidate, const void *user, size_t count);

#endif
