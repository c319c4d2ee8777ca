/* ngram.c - see ngram.h.
 *
 * A run of k + 1 symbols is a run of k, which has a number already, and one more symbol: a key of
 * 64 bits, whatever k. So runs are compared exactly and in constant time. Numbers are given to the
 * runs of the references only; a run of the hypothesis that is not among them has none, and neither
 * has any longer one that starts with it. */
#include "score/ngram.h"

#include "base/alloc.h"

#include <string.h>

#define NO_RUN NGRAM_NEVER

typedef struct ngram_slot {
    uint64_t key;
    uint32_t run;  /* its number + 1; 0: the slot is free */
    uint32_t left; /* the most times it is in one reference, less those it was matched */
    uint32_t ref;  /* the reference that was seen to have it last, counted from 1 */
    uint32_t here; /* times it is in that one */
} ngram_slot;

typedef struct ngram_table {
    ngram_slot *slots;
    size_t mask;   /* slots - 1 */
    uint32_t runs; /* numbers given */
    uint32_t ref;  /* the reference that is read, counted from 1 */
} ngram_table;

/* The slot that holds the key, or the free one where it belongs. */
static ngram_slot *find(const ngram_table *table, uint64_t key) {
    uint64_t hash = (key ^ key >> 29) * 0x9e3779b97f4a7c15ULL;
    size_t at = (size_t)(hash ^ hash >> 32) & table->mask;
    while (table->slots[at].run != 0 && table->slots[at].key != key) {
        at = (at + 1) & table->mask;
    }
    return &table->slots[at];
}

static uint32_t add_run(ngram_table *table, uint64_t key) {
    ngram_slot *slot = find(table, key);
    if (slot->run == 0) {
        *slot = (ngram_slot){.key = key, .run = ++table->runs};
    }
    slot->here = slot->ref == table->ref ? slot->here + 1 : 1;
    slot->ref = table->ref;
    slot->left = slot->here > slot->left ? slot->here : slot->left;
    return slot->run - 1;
}

static uint32_t take_run(const ngram_table *table, uint64_t key, uint64_t *match) {
    ngram_slot *slot = find(table, key);
    if (slot->run == 0) {
        return NO_RUN;
    }
    *match += slot->left > 0;
    slot->left -= slot->left > 0;
    return slot->run - 1;
}

/* One order. heads[i] is the number of the run of k symbols that starts at i, and becomes that of
 * k + 1. In a reference (`match` NULL) runs are added, in the hypothesis looked up. */
static void extend(ngram_table *table, ngram_text text, int k, uint32_t *heads, uint64_t *match) {
    for (size_t i = 0; i + (size_t)k < text.n; i++) {
        uint32_t last = text.at[i + (size_t)k];
        if (heads[i] >= NO_RUN || last >= NGRAM_NEVER) {
            heads[i] = NO_RUN;
            continue;
        }
        uint64_t key = (uint64_t)heads[i] << 32 | last;
        heads[i] = match == NULL ? add_run(table, key) : take_run(table, key, match);
    }
}

ebb_status ebb__ngram_match(ebb_ctx *ctx, ngram_text hyp, const ngram_text *refs, size_t n_refs,
                            int orders, uint64_t *match) {
    ngram_table table = {0};
    uint32_t *heads = NULL;
    size_t m = 0, slots = 2;
    ebb_status status;
    for (size_t r = 0; r < n_refs && m < NO_RUN; r++) {
        m += refs[r].n < NO_RUN ? refs[r].n : NO_RUN;
    }
    if (hyp.n == 0 || m == 0) {
        return EBB_OK;
    }
    if (hyp.n >= NO_RUN || m >= NO_RUN || n_refs >= NO_RUN) {
        return ebb__fail(ctx, EBB_DATA,
                         "a line of 2^31 words or characters, with those of its references, is too "
                         "long to score");
    }
    while (slots < 2 * m) {
        slots *= 2;
    }
    table.mask = slots - 1;
    TRY_OUT(ebb__alloc(ctx, slots, sizeof *table.slots, &table.slots));
    /* Zeros: the empty run is number 0. */
    TRY_OUT(ebb__alloc(ctx, hyp.n + m, sizeof *heads, &heads));
    for (int k = 0; k < orders; k++) {
        uint32_t *ref_heads = heads + hyp.n;
        for (size_t r = 0; r < n_refs; r++) {
            table.ref = (uint32_t)r + 1;
            extend(&table, refs[r], k, ref_heads, NULL);
            ref_heads += refs[r].n;
        }
        extend(&table, hyp, k, heads, &match[k]);
        memset(table.slots, 0, slots * sizeof *table.slots);
        table.runs = 0;
    }
out:
    ebb__free(ctx, heads);
    ebb__free(ctx, table.slots);
    return status;
}
