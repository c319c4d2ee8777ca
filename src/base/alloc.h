/* alloc.h - the only door to host memory: counted, its peak kept, failable for tests.
 *
 * Small, long-lived things use ebb__alloc; whatever lives as long as a graph or a pass uses a
 * region, which is mapped in chunks and unmapped as one, so that planning leaves no heap behind
 * when the arena is touched. Sizes are checked for overflow here and nowhere else. */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include "base/ctx.h"

/* count * size bytes, zeroed; never NULL on EBB_OK, also for 0 bytes. */
ebb_status ebb__alloc(ebb_ctx *ctx, size_t count, size_t size, void *out) EBB_MUST_CHECK;
/* Grows or shrinks; on failure the old block stays valid. New bytes are zero. */
ebb_status ebb__realloc(ebb_ctx *ctx, void *block, size_t count, size_t size,
                        void *out) EBB_MUST_CHECK;
void ebb__free(ebb_ctx *ctx, void *block);
ebb_status ebb__strdup(ebb_ctx *ctx, const char *text, char **out) EBB_MUST_CHECK;

/* Zeroed and uncounted: only for the context itself, which holds the counters. NULL if refused. */
void *ebb__alloc_raw(size_t bytes);
void ebb__free_raw(void *block);

/* A page mapping of at least `bytes` with an unreadable guard page at both ends; zero-filled. */
ebb_status ebb__map(ebb_ctx *ctx, size_t bytes, void *out) EBB_MUST_CHECK;
void ebb__unmap(ebb_ctx *ctx, void *block, size_t bytes);
void ebb__map_touch(void *block, size_t bytes); /* makes every page resident */

typedef struct alloc_chunk alloc_chunk;
typedef struct alloc_region {
    ebb_ctx *ctx;
    alloc_chunk *chunks;
} alloc_region;

void ebb__region_init(alloc_region *region, ebb_ctx *ctx);
void ebb__region_fini(alloc_region *region);
/* A little of what regions gave back is kept for the next ones, since fresh pages cost time; this
 * unmaps it. */
void ebb__region_trim(ebb_ctx *ctx);
/* Zeroed, aligned to 16; lives until ebb__region_fini. */
ebb_status ebb__region_alloc(alloc_region *region, size_t count, size_t size,
                             void *out) EBB_MUST_CHECK;
/* Several arrays at once, in this order: REGION_ARRAYS(region, ARRAY(x, n), ARRAY_NONE(y, m)). */
typedef struct alloc_array {
    void *out; /* where the pointer goes; NULL: the list ends here */
    size_t count, size;
    int fill; /* every byte; -1 makes every number -1 */
} alloc_array;
#define ARRAY(pointer, n)                                                                          \
    { &(pointer), n, sizeof *(pointer), 0 }
#define ARRAY_NONE(pointer, n)                                                                     \
    { &(pointer), n, sizeof *(pointer), -1 }
#define REGION_ARRAYS(region, ...)                                                                 \
    ebb__region_arrays(region, (const alloc_array[]){__VA_ARGS__, {.out = NULL}})
ebb_status ebb__region_arrays(alloc_region *region, const alloc_array *list) EBB_MUST_CHECK;
ebb_status ebb__region_strdup(alloc_region *region, const char *text, char **out) EBB_MUST_CHECK;

/* Growable array inside a region: makes *items larger so that at least `need` elements of `size`
 * bytes fit; *capacity is updated. A large one takes its pages along, of a small one the old memory
 * stays in the region. */
ebb_status ebb__region_grow(alloc_region *region, void *items, size_t *capacity, size_t need,
                            size_t size) EBB_MUST_CHECK;

/* Gives back what a large array does not need for `need` elements; of a small one nothing. */
ebb_status ebb__region_shrink(alloc_region *region, void *items, size_t *capacity, size_t need,
                              size_t size) EBB_MUST_CHECK;

/* Checked arithmetic for every size that comes from a file or a user: false on overflow. */
static inline bool ebb__mul_size(size_t a, size_t b, size_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool ebb__add_size(size_t a, size_t b, size_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

#endif
