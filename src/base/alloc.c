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
#define SHARED_BYTES ((size_t)256 << 10) /* of a chunk for small requests */
#define SPARE_BYTES ((size_t)1 << 20)    /* of what was given back, kept at most */
#define LARGE_BYTES ((size_t)64 << 10)   /* a request from here on has a chunk of its own */

typedef struct block_header {
    void *raw;
    size_t bytes;
} block_header;

struct alloc_chunk {
    alloc_chunk *next;
    size_t bytes, used; /* whole mapping, and how much of it is taken, header included */
    size_t dirty;       /* up to here an earlier region has written */
    bool sole;          /* it holds one large array */
};
#define CHUNK_HEADER ((size_t)3 * REGION_ALIGN)
_Static_assert(sizeof(alloc_chunk) <= CHUNK_HEADER, "chunk header grew");
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

void ebb__map_touch(void *block, size_t bytes) {
    volatile unsigned char *byte = block;
    size_t page = page_bytes();
    for (size_t i = 0; i < bytes; i += page) {
        unsigned char kept = byte[i];
        byte[i] = kept; /* written, so that the page is ours and not the shared zero page */
    }
}

/* ---- regions ----------------------------------------------------------------------------------
 *
 * Small requests share chunks of SHARED_BYTES; a large one has a chunk of its own, so that an array
 * grows where it is, by mremap, and leaves no copy behind. Of what regions give back, SPARE_BYTES
 * at most are kept for the next ones.
 */

void ebb__region_init(alloc_region *region, ebb_ctx *ctx) {
    *region = (alloc_region){.ctx = ctx};
}

static void keep_or_unmap(ebb_ctx *ctx, alloc_chunk *chunk) {
    if (chunk->bytes > SPARE_BYTES - ctx->mem.spare_bytes) {
        (void)munmap(chunk, chunk->bytes);
        return;
    }
    chunk->dirty = chunk->used > chunk->dirty ? chunk->used : chunk->dirty;
    chunk->next = ctx->mem.spare;
    ctx->mem.spare = chunk;
    ctx->mem.spare_bytes += chunk->bytes;
}

void ebb__region_fini(alloc_region *region) {
    alloc_chunk *chunk = region->chunks;
    while (chunk != NULL) {
        alloc_chunk *next = chunk->next;
        count_out(region->ctx, chunk->bytes);
        keep_or_unmap(region->ctx, chunk);
        chunk = next;
    }
    region->chunks = NULL;
}

/* Takes the chunk that *link points to out of the spare ones. */
static alloc_chunk *unlink_spare(ebb_ctx *ctx, alloc_chunk **link) {
    alloc_chunk *chunk = *link;
    *link = chunk->next;
    ctx->mem.spare_bytes -= chunk->bytes;
    return chunk;
}

void ebb__region_trim(ebb_ctx *ctx) {
    while (ctx->mem.spare != NULL) {
        alloc_chunk *chunk = unlink_spare(ctx, &ctx->mem.spare);
        (void)munmap(chunk, chunk->bytes);
    }
}

/* The spare chunk nearest in size, neither twice nor half as large; NULL: none. */
static alloc_chunk **find_spare(ebb_ctx *ctx, size_t bytes) {
    alloc_chunk **best = NULL;
    size_t least = bytes;
    for (alloc_chunk **link = &ctx->mem.spare; *link != NULL; link = &(*link)->next) {
        size_t other = (*link)->bytes, apart = other > bytes ? other - bytes : bytes - other;
        if (apart < least && apart <= bytes / 2) {
            least = apart;
            best = link;
        }
    }
    return best;
}

static alloc_chunk *resize_chunk(alloc_chunk *chunk, size_t bytes) {
    if (chunk->bytes == bytes) {
        return chunk;
    }
    void *moved = mremap(chunk, chunk->bytes, bytes, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) {
        return NULL;
    }
    chunk = moved;
    chunk->bytes = bytes;
    chunk->dirty = chunk->dirty < bytes ? chunk->dirty : bytes;
    return chunk;
}

static bool is_over(ebb_ctx *ctx, size_t more) {
    bool over = ctx->mem.most > 0 && ctx->mem.live_bytes + more > ctx->mem.most;
    ctx->mem.over = ctx->mem.over || over;
    return over;
}

/* A chunk of so many bytes; NULL: refused. */
static alloc_chunk *take_chunk(ebb_ctx *ctx, size_t bytes) {
    alloc_chunk **link = find_spare(ctx, bytes), *spare, *chunk;
    if (is_over(ctx, bytes)) {
        return NULL;
    }
    if (link == NULL) {
        chunk = map_pages(ctx, bytes, PROT_READ | PROT_WRITE);
        if (chunk != NULL) {
            *chunk = (alloc_chunk){.bytes = bytes};
        }
        return chunk;
    }
    if (call_fails(ctx)) {
        return NULL;
    }
    spare = unlink_spare(ctx, link);
    chunk = resize_chunk(spare, bytes);
    if (chunk == NULL) {
        (void)munmap(spare, spare->bytes);
    }
    return chunk;
}

static bool is_large(size_t bytes) {
    return bytes >= LARGE_BYTES;
}

/* A chunk with room for `need` bytes: its own if that is large, behind the one that small requests
 * share, else a new one to share. */
static ebb_status add_chunk(alloc_region *region, size_t need, alloc_chunk **out) {
    size_t bytes;
    if (!ebb__add_size(need, CHUNK_HEADER, &bytes) || !whole_pages(bytes, 0, &bytes)) {
        return refuse(region->ctx, need);
    }
    bytes = is_large(need) ? bytes : SHARED_BYTES;
    alloc_chunk *chunk = take_chunk(region->ctx, bytes);
    if (chunk == NULL) {
        return refuse(region->ctx, bytes);
    }
    chunk->used = CHUNK_HEADER;
    chunk->sole = is_large(need);
    count_in(region->ctx, bytes);
    alloc_chunk **link =
        region->chunks != NULL && chunk->sole ? &region->chunks->next : &region->chunks;
    chunk->next = *link;
    *link = chunk;
    *out = chunk;
    return EBB_OK;
}

/* The next `need` bytes of a chunk, zeroed. */
static void *cut_chunk(alloc_chunk *chunk, size_t need) {
    char *fresh = (char *)chunk + chunk->used;
    if (chunk->used < chunk->dirty) {
        size_t written = chunk->dirty - chunk->used;
        memset(fresh, 0, written < need ? written : need);
    }
    chunk->used += need;
    return fresh;
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
    if (chunk == NULL || is_large(need) || chunk->bytes - chunk->used < need) {
        TRY(add_chunk(region, need, &chunk));
    }
    void *fresh = cut_chunk(chunk, need);
    chunk->used = chunk->sole ? chunk->bytes : chunk->used; /* the rest is nobody else's */
    set_pointer(out, fresh);
    return EBB_OK;
}

ebb_status ebb__region_arrays(alloc_region *region, const alloc_array *list) {
    for (; list->out != NULL; list++) {
        TRY(ebb__region_alloc(region, list->count, list->size, list->out));
        if (list->fill != 0) {
            memset(*(void **)list->out, list->fill, list->count * list->size);
        }
    }
    return EBB_OK;
}

ebb_status ebb__region_strdup(alloc_region *region, const char *text, char **out) {
    size_t bytes = strlen(text) + 1;
    TRY(ebb__region_alloc(region, bytes, 1, out));
    memcpy(*out, text, bytes);
    return EBB_OK;
}

/* Where the region holds a large array that starts there; NULL: it is a small one. */
static alloc_chunk **find_large(alloc_region *region, const void *items) {
    alloc_chunk **link = &region->chunks;
    while (*link != NULL &&
           !((*link)->sole && (const char *)*link + CHUNK_HEADER == (const char *)items)) {
        link = &(*link)->next;
    }
    return *link != NULL ? link : NULL;
}

/* Gives a large array so many bytes, where it is or moved as pages; new ones are zero. */
static ebb_status resize(alloc_region *region, alloc_chunk **link, size_t need, void *items) {
    ebb_ctx *ctx = region->ctx;
    size_t bytes, old = (*link)->bytes;
    if (!ebb__add_size(need, CHUNK_HEADER, &bytes) || !whole_pages(bytes, 0, &bytes)) {
        return refuse(ctx, need);
    }
    bool refused = call_fails(ctx) || (bytes > old && is_over(ctx, bytes - old));
    alloc_chunk *chunk = refused ? NULL : resize_chunk(*link, bytes);
    if (chunk == NULL) {
        return refuse(ctx, need);
    }
    *link = chunk;
    count_out(ctx, old);
    count_in(ctx, bytes);
    chunk->used = bytes;
    if (bytes < old) { /* should it grow again */
        memset((char *)chunk + CHUNK_HEADER + need, 0, bytes - CHUNK_HEADER - need);
    }
    set_pointer(items, (char *)chunk + CHUNK_HEADER);
    return EBB_OK;
}

ebb_status ebb__region_grow(alloc_region *region, void *items, size_t *capacity, size_t need,
                            size_t size) {
    if (need <= *capacity) {
        return EBB_OK;
    }
    alloc_chunk **link = find_large(region, get_pointer(items));
    size_t wanted = *capacity < 8 ? 8 : *capacity, more = link != NULL ? wanted / 4 : wanted, bytes;
    if (!ebb__add_size(wanted, more, &wanted) || wanted < need) {
        wanted = need;
    }
    if (link != NULL) {
        if (!ebb__mul_size(wanted, size, &bytes)) {
            return refuse_product(region->ctx, wanted, size);
        }
        TRY(resize(region, link, bytes, items));
    } else {
        void *grown;
        TRY(ebb__region_alloc(region, wanted, size, &grown));
        if (*capacity > 0) {
            memcpy(grown, get_pointer(items), *capacity * size);
        }
        set_pointer(items, grown);
    }
    *capacity = wanted;
    return EBB_OK;
}

ebb_status ebb__region_shrink(alloc_region *region, void *items, size_t *capacity, size_t need,
                              size_t size) {
    alloc_chunk **link = find_large(region, get_pointer(items));
    need = need * size < LARGE_BYTES ? LARGE_BYTES / size + 1 : need; /* it stays a large one */
    if (link != NULL && need < *capacity) {
        TRY(resize(region, link, need * size, items));
        *capacity = need;
    }
    return EBB_OK;
}
