/* names.h - finds records by the name that they begin with. */
#ifndef BASE_NAMES_H
#define BASE_NAMES_H

#include "base/alloc.h"

typedef struct names_table {
    int32_t *slots; /* 1 + record; 0: free */
    size_t n_slots; /* a power of 2, at least twice as many as records; 0: there are none */
    int32_t n;
} names_table;

/* records: n of `bytes` each that begin with a pointer to their name. -1: there is none. */
int32_t ebb__names_find(const names_table *names, const void *records, size_t bytes,
                        const char *name);
/* After record n, with a name of its own, was put behind the others. */
ebb_status ebb__names_add(ebb_ctx *ctx, names_table *names, const void *records,
                          size_t bytes) EBB_MUST_CHECK;
void ebb__names_free(ebb_ctx *ctx, names_table *names);

#endif
