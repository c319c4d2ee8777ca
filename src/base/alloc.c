/* alloc.c - counted host memory: blocks from the heap, pages and regions from mmap.
 *
 * A block carries a header of 64 bytes in front, so that what callers get is aligned to 64 and its
 * size can be taken off the counters again:
 *
 *     raw            block - 64                block (aligned to 64)
 *     | padding ...  | raw, bytes, padding     | bytes, zeroed
 *
 * Every request, whatever its kind, is one call for the failure hook. Counters are not atomic: a
 * context belongs to one thread. */
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCK_ALIGN = 64, REGION_ALIGN = 16 };
#define CHUNK_LEAST ((size_t)256 << 10)
#define CHUNK_MOST ((size_t)16 << 20)

typedef struct block_header {
    void *raw;
    size_t bytes;
} block_header;

struct alloc_chunk {
    alloc_chunk *next;
    size_t bytes, used; /* whole mapping, and how much of it is taken, header included */
    size_t dirty;       /* up to here an earlier region has written */
};
_Static_assert(sizeof(alloc_chunk) <= 2 * REGION_ALIGN, "chunk header grew");
_Static_assert(sizeof(block_header) <= BLOCK_ALIGN, "block header grew");

/* ---- counters and the failure hook ------------------------------------------------------------
 */

static bool call_fails(ebb_ctx *ctx) {
    ctx->mem.calls++;
    if (ctx->mem.fail_at == 0) {
        return false;
    }
    if (ctx->mem.fail_at > 1) {
        ctx->mem.fail_at--;
        return false;
    }
    if (!ctx->mem.fail_sticky) {
        ctx->mem.fail_at = 0;
    }
    return true;
}

static void count_in(ebb_ctx *ctx, size_t bytes) {
    ctx->mem.live_blocks++;
    ctx->mem.live_bytes += bytes;
    if (ctx->mem.live_bytes > ctx->mem.peak_bytes) {
        ctx->mem.peak_bytes = ctx->mem.live_bytes;
    }
}

static void count_out(ebb_ctx *ctx, size_t bytes) {
    ctx->mem.live_blocks--;
    ctx->mem.live_bytes -= bytes;
}

static ebb_status refuse(ebb_ctx *ctx, size_t bytes) {
    return ebb__fail(ctx, EBB_NOMEM, "out of memory: the system refused %zu bytes", bytes);
}

static ebb_status refuse_product(ebb_ctx *ctx, size_t count, size_t size) {
    return ebb__fail(ctx, EBB_NOMEM,
                     "out of memory: %zu items of %zu bytes exceed any address space", count, size);
}

/* Callers pass the address of a pointer of their own type; its bytes are the same on every ABI we
 * build for, its type is not, hence memcpy. */
static void set_pointer(void *out, void *value) {
    memcpy(out, &value, sizeof value);
}
static void *get_pointer(const void *in) {
    void *value;
    memcpy(&value, in, sizeof value);
    return value;
}

/* ---- blocks -----------------------------------------------------------------------------------
 */

void *ebb__alloc_raw(size_t bytes) {
    return calloc(1, bytes);
}

void ebb__free_raw(void *block) {
    free(block);
}

static block_header *header_of(void *block) {
    return (block_header *)(void *)((char *)block - BLOCK_ALIGN);
}

ebb_status ebb__alloc(ebb_ctx *ctx, size_t count, size_t size, void *out) {
    set_pointer(out, NULL);
    size_t bytes, total;
    if (!ebb__mul_size(count, size, &bytes) ||
        !ebb__add_size(bytes, (size_t)2 * BLOCK_ALIGN, &total) || total > PTRDIFF_MAX) {
        return refuse_product(ctx, count, size);
    }
    /* calloc rather than memset: large blocks stay untouched until they are used. */
    char *raw = call_fails(ctx) ? NULL : calloc(1, total);
    if (raw == NULL) {
        return refuse(ctx, bytes);
    }
    char *block = raw + 2 * BLOCK_ALIGN - (uintptr_t)raw % BLOCK_ALIGN;
    *header_of(block) = (block_header){.raw = raw, .bytes = bytes};
    count_in(ctx, bytes);
    set_pointer(out, block);
    return EBB_OK;
}

ebb_status ebb__realloc(ebb_ctx *ctx, void *block, size_t count, size_t size, void *out) {
    void *grown;
    TRY(ebb__alloc(ctx, count, size, &grown));
    if (block != NULL) {
        size_t old_bytes = header_of(block)->bytes, new_bytes = header_of(grown)->bytes;
        memcpy(grown, block, old_bytes < new_bytes ? old_bytes : new_bytes);
        ebb__free(ctx, block);
    }
    set_pointer(out, grown);
    return EBB_OK;
}

void ebb__free(ebb_ctx *ctx, void *block) {
    if (block != NULL) {
        count_out(ctx, header_of(block)->bytes);
        free(header_of(block)->raw);
    }
}

ebb_status ebb__strdup(ebb_ctx *ctx, const char *text, char **out) {
    size_t bytes = strlen(text) + 1;
    TRY(ebb__alloc(ctx, bytes, 1, out));
    memcpy(*out, text, bytes);
    return EBB_OK;
}

/* ---- guarded mappings -------------------------------------------------------------------------
 */

static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Whole pages for `bytes` (at least one), with `guards` more; false on overflow. */
static bool whole_pages(size_t bytes, size_t guards, size_t *out) {
    size_t page = page_bytes(), rounded;
    if (!ebb__add_size(bytes > 0 ? bytes : 1, page - 1, &rounded)) {
        return false;
    }
    return ebb__add_size(rounded / page * page, guards * page, out) && *out <= PTRDIFF_MAX;
}

static void *map_pages(ebb_ctx *ctx, size_t bytes, int protection) {
    if (call_fails(ctx)) {
        return NULL;
    }
    void *pages = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

ebb_status ebb__map(ebb_ctx *ctx, size_t bytes, void *out) {
    set_pointer(out, NULL);
    size_t page = page_bytes(), total;
    if (!whole_pages(bytes, 2, &total)) {
        return refuse(ctx, bytes);
    }
    char *pages = map_pages(ctx, total, PROT_NONE);
    if (pages == NULL) {
        return refuse(ctx, bytes);
    }
    if (mprotect(pages + page, total - 2 * page, PROT_READ | PROT_WRITE) != 0) {
        (void)munmap(pages, total);
        return refuse(ctx, bytes);
    }
    count_in(ctx, bytes);
    set_pointer(out, pages + page);
    return EBB_OK;
}

void ebb__unmap(ebb_ctx *ctx, void *block, size_t bytes) {
    size_t total;
    if (block != NULL && whole_pages(bytes, 2, &total)) {
        (void)munmap((char *)block - page_bytes(), total);
        count_out(ctx, bytes);
    }
}

/* ---- regions ----------------------------------------------------------------------------------
 */

void ebb__region_init(alloc_region *region, ebb_ctx *ctx) {
    *region = (alloc_region){.ctx = ctx};
}

void ebb__region_fini(alloc_region *region) {
    alloc_chunk *chunk = region->chunks;
    while (chunk != NULL) {
        alloc_chunk *next = chunk->next;
        count_out(region->ctx, chunk->bytes);
        chunk->dirty = chunk->used > chunk->dirty ? chunk->used : chunk->dirty;
        chunk->next = region->ctx->mem.spare;
        region->ctx->mem.spare = chunk;
        chunk = next;
    }
    region->chunks = NULL;
}

void ebb__region_trim(ebb_ctx *ctx) {
    alloc_chunk *chunk = ctx->mem.spare;
    ctx->mem.spare = NULL;
    while (chunk != NULL) {
        alloc_chunk *next = chunk->next;
        (void)munmap(chunk, chunk->bytes);
        chunk = next;
    }
}

/* A spare chunk of the wanted size or not much larger, else a fresh one; NULL: refused. */
static alloc_chunk *take_chunk(ebb_ctx *ctx, size_t bytes) {
    alloc_chunk *before = NULL, *chunk = ctx->mem.spare;
    while (chunk != NULL && (chunk->bytes < bytes || chunk->bytes - bytes > bytes / 2)) {
        before = chunk;
        chunk = chunk->next;
    }
    if (chunk == NULL) {
        chunk = map_pages(ctx, bytes, PROT_READ | PROT_WRITE);
        if (chunk != NULL) {
            *chunk = (alloc_chunk){.bytes = bytes};
        }
        return chunk;
    }
    if (call_fails(ctx)) {
        return NULL;
    }
    if (before == NULL) {
        ctx->mem.spare = chunk->next;
    } else {
        before->next = chunk->next;
    }
    return chunk;
}

/* A chunk with room for `need` bytes; becomes the head unless the old head still has more room. */
static ebb_status add_chunk(alloc_region *region, size_t need, alloc_chunk **out) {
    alloc_chunk *head = region->chunks;
    size_t bytes = CHUNK_LEAST, least;
    if (head != NULL) {
        bytes = head->bytes < CHUNK_MOST / 2 ? 2 * head->bytes : CHUNK_MOST;
    }
    if (!ebb__add_size(need, 2 * REGION_ALIGN, &least) || !whole_pages(least, 0, &least)) {
        return refuse(region->ctx, need);
    }
    bytes = least > bytes ? least : bytes;
    alloc_chunk *chunk = take_chunk(region->ctx, bytes);
    if (chunk == NULL) {
        return refuse(region->ctx, bytes);
    }
    bytes = chunk->bytes;
    chunk->used = 2 * REGION_ALIGN;
    count_in(region->ctx, bytes);
    if (head != NULL && head->bytes - head->used > bytes - chunk->used - need) {
        chunk->next = head->next;
        head->next = chunk;
    } else {
        chunk->next = head;
        region->chunks = chunk;
    }
    *out = chunk;
    return EBB_OK;
}

ebb_status ebb__region_alloc(alloc_region *region, size_t count, size_t size, void *out) {
    set_pointer(out, NULL);
    size_t bytes, need;
    if (!ebb__mul_size(count, size, &bytes) ||
        !ebb__add_size(bytes > 0 ? bytes : 1, REGION_ALIGN - 1, &need)) {
        return refuse_product(region->ctx, count, size);
    }
    need = need / REGION_ALIGN * REGION_ALIGN;
    alloc_chunk *chunk = region->chunks;
    if (chunk == NULL || chunk->bytes - chunk->used < need) {
        TRY(add_chunk(region, need, &chunk));
    }
    char *fresh = (char *)chunk + chunk->used;
    if (chunk->used < chunk->dirty) {
        size_t written = chunk->dirty - chunk->used;
        memset(fresh, 0, written < need ? written : need);
    }
    set_pointer(out, fresh);
    chunk->used += need;
    return EBB_OK;
}

ebb_status ebb__region_strdup(alloc_region *region, const char *text, char **out) {
    size_t bytes = strlen(text) + 1;
    TRY(ebb__region_alloc(region, bytes, 1, out));
    memcpy(*out, text, bytes);
    return EBB_OK;
}

ebb_status ebb__region_grow(alloc_region *region, void *items, size_t *capacity, size_t need,
                            size_t size) {
    if (need <= *capacity) {
        return EBB_OK;
    }
    size_t wanted = *capacity < 8 ? 8 : *capacity;
    if (!ebb__mul_size(wanted, 2, &wanted) || wanted < need) {
        wanted = need;
    }
    void *grown;
    TRY(ebb__region_alloc(region, wanted, size, &grown));
    if (*capacity > 0) {
        memcpy(grown, get_pointer(items), *capacity * size);
    }
    set_pointer(items, grown);
    *capacity = wanted;
    return EBB_OK;
}
