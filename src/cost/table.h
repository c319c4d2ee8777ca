/* table.h - what products take on this machine: for each product the measured seconds of every form
 * of its kernel. Pure data: filled before planning starts (tune.h, store.h), only looked up while
 * planning, so that the same command gives the same plan.
 */
#ifndef COST_TABLE_H
#define COST_TABLE_H

#include "device/device.h"

/* What makes two nodes take the same time. Compared byte for byte: there is no padding. */
typedef struct cost_key {
    int64_t m, n;              /* rows and columns of the first result */
    int64_t k;                 /* fused multiply-adds an element; 0: bytes are only moved */
    int32_t attr[IR_MAX_INTS]; /* the op's integers, but not the number of the first row */
    int32_t kernel;            /* index in the device's list */
    int32_t members;
} cost_key;

typedef struct cost_form {
    int32_t form;
    double seconds; /* of one run by all members */
} cost_form;

typedef struct cost_entry {
    cost_key key;
    int32_t n_forms; /* 0: no time was left to measure it */
    int32_t loaded;  /* how often it was measured on a busy machine only; 0: on a quiet one */
    double estimate; /* seconds for the cost model where nothing was measured; else 0 */
    cost_form forms[DEVICE_MAX_FORMS];
} cost_entry;

typedef struct cost_table {
    ebb_ctx *ctx;
    const device *dev;
    cost_entry *entries; /* in the order they were added */
    int32_t n_entries, cap_entries;
    int32_t *slots; /* hash table of 1 + index; 0: free */
    int32_t n_slots;
    double pace; /* seconds of products on this machine in units of the built-in ones */
} cost_table;

enum {
    COST_MOST_ENTRIES = 1 << 16,
    COST_MAX_IN = 6,
    COST_MOST_LOADED = 3 /* so often, and then it is left alone: the machine may always be busy */
};

void ebb__cost_table_init(cost_table *table, ebb_ctx *ctx, const device *dev);
void ebb__cost_table_fini(cost_table *table); /* leaves it empty */

/* The key of a node; false for nodes that are not worth a measurement: those that are neither heavy
 * nor offered in several forms nor a plain move of bytes, and those with operands or a result that
 * are not f32, which nobody could make up to measure them. */
bool ebb__cost_key(const device *dev, const ir_graph *graph, const ir_node_rec *node,
                   int32_t kernel, int members, cost_key *out);
const cost_entry *ebb__cost_table_find(const cost_table *table, const cost_key *key); /* or NULL */
/* The entry of the key, new and empty if there was none; valid until the next one is added. */
ebb_status ebb__cost_table_add(cost_table *table, const cost_key *key,
                               cost_entry **out) EBB_MUST_CHECK;

/* Measured on a busy machine, and to be measured once more. */
static inline bool cost_entry_doubtful(const cost_entry *entry) {
    return entry->loaded > 0 && entry->loaded < COST_MOST_LOADED;
}
/* Of all its forms; HUGE_VAL if none was measured. */
double ebb__cost_entry_fastest(const cost_entry *entry);
/* Where the entry has the form; -1: it was not measured. */
int32_t ebb__cost_entry_find(const cost_entry *entry, int32_t form);

#endif
