/* names.c - see names.h. Open addressing, doubled where it is half full. */
#include "base/names.h"

#include <string.h>
#include <xxhash.h>

enum { LEAST_SLOTS = 64 };

static const char *name_of(const void *records, size_t bytes, int32_t record) {
    const char *name;
    memcpy(&name, (const char *)records + (size_t)record * bytes, sizeof name);
    return name;
}

/* The slot that holds the name, or the free one where it belongs. */
static int32_t *find(const names_table *names, const void *records, size_t bytes,
                     const char *name) {
    size_t at = (size_t)XXH3_64bits(name, strlen(name)) & (names->n_slots - 1);
    while (names->slots[at] != 0 &&
           strcmp(name_of(records, bytes, names->slots[at] - 1), name) != 0) {
        at = (at + 1) & (names->n_slots - 1);
    }
    return &names->slots[at];
}

int32_t ebb__names_find(const names_table *names, const void *records, size_t bytes,
                        const char *name) {
    return names->n_slots == 0 ? -1 : *find(names, records, bytes, name) - 1;
}

ebb_status ebb__names_add(ebb_ctx *ctx, names_table *names, const void *records, size_t bytes) {
    if (2 * ((size_t)names->n + 1) > names->n_slots) {
        names_table grown = {.n_slots = names->n_slots > 0 ? 2 * names->n_slots : LEAST_SLOTS,
                             .n = names->n};
        TRY(ebb__alloc(ctx, grown.n_slots, sizeof *grown.slots, &grown.slots));
        for (int32_t i = 0; i < names->n; i++) {
            *find(&grown, records, bytes, name_of(records, bytes, i)) = i + 1;
        }
        ebb__names_free(ctx, names);
        *names = grown;
    }
    int32_t *slot = find(names, records, bytes, name_of(records, bytes, names->n));
    names->n++;
    *slot = *slot == 0 ? names->n : *slot; /* of two with one name the first */
    return EBB_OK;
}

void ebb__names_free(ebb_ctx *ctx, names_table *names) {
    ebb__free(ctx, names->slots);
    *names = (names_table){0};
}
