/* tally.c - counts tokens in one fixed block and merges the classes into the running best list.
 *
 *   block:  [ slots | entries ->            <- token bytes ]
 *
 * A class (modulus, residue) holds the tokens with hash % modulus == residue; a class that
 * overflows the block is split in two and counted again, so classes are disjoint and cover all
 * tokens, and each list merged is exact. qsort is not used: it may take memory nobody counts. */
#include "data/tally.h"

#include "base/alloc.h"

#include <string.h>
#include <xxhash.h>

enum { MODULUS_LIMIT = 4096, CLASS_STACK = 16 /* > log2(MODULUS_LIMIT) + 1 */ };

static const size_t table_bytes_limit = (size_t)1 << 30; /* offsets in the block are 32 bits */

typedef struct tally_class {
    uint32_t modulus, residue; /* modulus: a power of two */
} tally_class;

typedef struct tally_table {
    char *block;
    size_t bytes;
    uint32_t *slots; /* entry index + 1; 0 = free */
    uint32_t mask;
    size_t pool_start; /* token bytes lie in [pool_start, bytes) of the block */
    tally_list list;   /* its pool is the block */
} tally_table;

static void table_clear(tally_table *table) {
    if (table->list.count > 0) { /* a new table is zero, and its pages need not be touched */
        memset(table->slots, 0, ((size_t)table->mask + 1) * sizeof *table->slots);
    }
    table->pool_start = table->bytes;
    table->list.count = 0;
    table->list.pool_bytes = 0;
}

static ebb_status table_init(ebb_ctx *ctx, size_t bytes, tally_table *out) {
    bytes = bytes < TALLY_LEAST_BYTES ? TALLY_LEAST_BYTES : bytes;
    bytes = bytes > table_bytes_limit ? table_bytes_limit : bytes;
    size_t slots = 1;
    while (slots * 32 <= bytes) { /* a quarter of the block at most */
        slots *= 2;
    }
    TRY(ebb__map(ctx, bytes, &out->block));
    out->bytes = bytes;
    out->slots = (uint32_t *)(void *)out->block;
    out->mask = (uint32_t)(slots - 1);
    out->list.entries = (tally_entry *)(void *)(out->block + slots * sizeof *out->slots);
    out->list.pool = out->block;
    table_clear(out);
    return EBB_OK;
}

static void table_fini(ebb_ctx *ctx, tally_table *table) {
    if (table->block != NULL) {
        ebb__unmap(ctx, table->block, table->bytes);
        table->block = NULL;
    }
}

/* False if the block is full. */
static bool table_add(tally_table *table, const char *bytes, uint32_t length, uint64_t hash,
                      uint64_t amount) {
    tally_list *list = &table->list;
    uint32_t slot = (uint32_t)(hash >> 32) & table->mask; /* the low bits are those of the class */
    for (; table->slots[slot] != 0; slot = (slot + 1) & table->mask) {
        tally_entry *entry = &list->entries[table->slots[slot] - 1];
        if (entry->length == length && memcmp(list->pool + entry->offset, bytes, length) == 0) {
            entry->count += amount;
            return true;
        }
    }
    size_t entries_end = (size_t)((char *)(list->entries + list->count + 1) - table->block);
    if (entries_end + length > table->pool_start || list->count >= table->mask - table->mask / 8) {
        return false;
    }
    table->pool_start -= length;
    memcpy(table->block + table->pool_start, bytes, length);
    list->entries[list->count++] =
        (tally_entry){.count = amount, .offset = (uint32_t)table->pool_start, .length = length};
    list->pool_bytes += length;
    table->slots[slot] = (uint32_t)list->count;
    return true;
}

static bool add_in_class(tally_table *table, tally_class class, const char *bytes, uint32_t length,
                         uint64_t amount) {
    uint64_t hash = XXH3_64bits(bytes, length);
    return (hash & (class.modulus - 1)) != class.residue ||
           table_add(table, bytes, length, hash, amount);
}

static bool is_special(const text_token *token) {
    return token->length == 5 &&
           (memcmp(token->bytes, "<unk>", 5) == 0 || memcmp(token->bytes, "<eos>", 5) == 0);
}

/* Adds the tokens of one class of a text; *full if they did not fit. */
static ebb_status count_once(ebb_ctx *ctx, const char *path, const tally_options *options,
                             double drop, tally_class class, tally_table *table, bool *full) {
    ebb_status status = EBB_OK;
    text_reader reader;
    text_token token;
    TRY(ebb__text_open(ctx, path, options->mode, "count tokens", NULL, &reader));
    TRY_OUT(ebb__text_cut_with(&reader, options->codes));
    TRY_OUT(ebb__text_drop(&reader, drop, options->seed, "codes.count"));
    while (!*full) {
        TRY_OUT(ebb__text_next(&reader, &token));
        if (token.kind == TEXT_END) {
            break;
        }
        if (token.kind == TEXT_TOKEN && !is_special(&token)) {
            *full = !add_in_class(table, class, token.bytes, token.length, 1);
        }
    }
out:
    ebb__text_close(&reader);
    return status;
}

static ebb_status count_text(ebb_ctx *ctx, const char *path, const tally_options *options,
                             tally_class class, tally_table *table, bool *full) {
    TRY(count_once(ctx, path, options, 0, class, table, full));
    return options->drop > 0 && !*full
               ? count_once(ctx, path, options, options->drop, class, table, full)
               : EBB_OK;
}

/* Counts one class of the texts. */
static ebb_status count_class(ebb_ctx *ctx, const char *path, const tally_options *options,
                              tally_class class, tally_table *table, bool *full) {
    table_clear(table);
    *full = false;
    for (int byte = 0; byte < 256 && options->mode == TEXT_BYTE && !*full; byte++) {
        char c = (char)(unsigned char)byte;
        *full = byte != '\n' && !add_in_class(table, class, &c, 1, 0);
    }
    TRY(count_text(ctx, path, options, class, table, full));
    return options->also == NULL || *full
               ? EBB_OK
               : count_text(ctx, options->also, options, class, table, full);
}

/* < 0 if a comes first. */
static int compare(const char *a_pool, const tally_entry *a, const char *b_pool,
                   const tally_entry *b) {
    if (a->count != b->count) {
        return a->count > b->count ? -1 : 1;
    }
    uint32_t common = a->length < b->length ? a->length : b->length;
    int order = memcmp(a_pool + a->offset, b_pool + b->offset, common);
    return order != 0 ? order : (a->length > b->length) - (a->length < b->length);
}

static void sift_down(tally_list *list, size_t root, size_t count) {
    tally_entry moved = list->entries[root];
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        tally_entry *e = list->entries;
        if (child + 1 < count && compare(list->pool, &e[child], list->pool, &e[child + 1]) < 0) {
            child++;
        }
        if (compare(list->pool, &moved, list->pool, &e[child]) >= 0) {
            break;
        }
        e[root] = e[child];
    }
    list->entries[root] = moved;
}

static void heap_sort(tally_list *list) {
    for (size_t i = list->count / 2; i-- > 0;) {
        sift_down(list, i, list->count);
    }
    for (size_t end = list->count; end-- > 1;) {
        tally_entry last = list->entries[0];
        list->entries[0] = list->entries[end];
        list->entries[end] = last;
        sift_down(list, 0, end);
    }
}

/* Merges the first `keep` of both; counts only while out->entries is NULL. */
static void merge_walk(const tally_list *a, const tally_list *b, size_t keep, tally_list *out) {
    size_t i = 0, j = 0;
    out->count = 0;
    out->pool_bytes = 0;
    while (out->count < keep && (i < a->count || j < b->count)) {
        bool from_a = i < a->count && (j == b->count || compare(a->pool, &a->entries[i], b->pool,
                                                                &b->entries[j]) < 0);
        const tally_entry *entry = from_a ? &a->entries[i++] : &b->entries[j++];
        if (out->entries != NULL) {
            const char *bytes = (from_a ? a->pool : b->pool) + entry->offset;
            memcpy(out->pool + out->pool_bytes, bytes, entry->length);
            out->entries[out->count] = *entry;
            out->entries[out->count].offset = (uint32_t)out->pool_bytes;
        }
        out->count++;
        out->pool_bytes += entry->length;
    }
}

/* Replaces `best` by the best of itself and of the sorted `other`. */
static ebb_status merge(ebb_ctx *ctx, const char *path, const tally_options *options,
                        const tally_list *other, tally_list *best) {
    ebb_status status = EBB_OK;
    tally_list merged = {0};
    size_t keep = options->keep == 0 ? SIZE_MAX : options->keep;
    merge_walk(best, other, keep, &merged);
    uint64_t bytes = (uint64_t)merged.count * sizeof *merged.entries + merged.pool_bytes;
    uint64_t allowed = options->list_bytes == 0 ? UINT32_MAX : options->list_bytes;
    allowed = allowed > UINT32_MAX ? UINT32_MAX : allowed; /* offsets are 32 bits */
    if (bytes > allowed) {
        return ebb__fail(ctx, EBB_BUDGET,
                         "vocabulary: %s: %zu distinct tokens take %llu bytes to list, more than "
                         "the %llu allowed; limit the vocabulary or give more memory",
                         path, merged.count, (unsigned long long)bytes,
                         (unsigned long long)allowed);
    }
    TRY_OUT(ebb__alloc(ctx, merged.count, sizeof *merged.entries, &merged.entries));
    TRY_OUT(ebb__alloc(ctx, merged.pool_bytes, 1, &merged.pool));
    merge_walk(best, other, keep, &merged);
    ebb__tally_free(ctx, best);
    *best = merged;
    merged = (tally_list){0};
out:
    ebb__tally_free(ctx, &merged);
    return status;
}

ebb_status ebb__tally_text(ebb_ctx *ctx, const char *path, const tally_options *options,
                           tally_list *out, uint32_t *passes) {
    ebb_status status = EBB_OK;
    tally_table table = {0};
    tally_class waiting[CLASS_STACK] = {{.modulus = 1, .residue = 0}};
    int count = 1;
    *out = (tally_list){0};
    *passes = 0;
    TRY_OUT(table_init(ctx, options->table_bytes, &table));
    while (count > 0) {
        tally_class class = waiting[--count];
        bool full = false;
        TRY_OUT(count_class(ctx, path, options, class, &table, &full));
        ++*passes;
        if (!full) {
            heap_sort(&table.list);
            TRY_OUT(merge(ctx, path, options, &table.list, out));
        } else if (class.modulus < MODULUS_LIMIT) {
            uint32_t half = class.modulus, modulus = 2 * half;
            waiting[count++] = (tally_class){.modulus = modulus, .residue = class.residue};
            waiting[count++] = (tally_class){.modulus = modulus, .residue = class.residue + half};
        } else {
            TRY_OUT(ebb__fail(ctx, EBB_BUDGET,
                              "vocabulary: %s: too many distinct tokens to count in %zu bytes; "
                              "give more memory",
                              path, table.bytes));
        }
    }
out:
    table_fini(ctx, &table);
    if (status != EBB_OK) {
        ebb__tally_free(ctx, out);
    }
    return status;
}

void ebb__tally_free(ebb_ctx *ctx, tally_list *list) {
    ebb__free(ctx, list->entries);
    ebb__free(ctx, list->pool);
    *list = (tally_list){0};
}
