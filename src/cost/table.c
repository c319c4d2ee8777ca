/* table.c - see table.h. */
#include "cost/table.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

_Static_assert(sizeof(cost_key) == 3 * sizeof(int64_t) + (IR_MAX_INTS + 2) * sizeof(int32_t),
               "keys are compared byte for byte");

void ebb__cost_table_init(cost_table *table, ebb_ctx *ctx, const device *dev) {
    *table = (cost_table){.ctx = ctx, .dev = dev};
}

void ebb__cost_table_fini(cost_table *table) {
    ebb__free(table->ctx, table->entries);
    ebb__free(table->ctx, table->slots);
    ebb__cost_table_init(table, table->ctx, table->dev);
}

/* ---- keys ---- */

static bool is_of_floats(const ir_graph *graph, const ir_node_rec *node) {
    for (int32_t i = 0; i < node->n_in; i++) {
        ir_val v = ir_in(graph, node, i);
        if (v != IR_NONE && graph->values[v].type.dtype != IR_F32) {
            return false;
        }
    }
    return graph->values[node->out].type.dtype == IR_F32;
}

bool ebb__cost_key(const device *dev, const ir_graph *graph, const ir_node_rec *node,
                   int32_t kernel, int members, cost_key *out) {
    const op_def *op = ebb__op(node->op);
    if (kernel < 0 || node->n_in > COST_MAX_IN || !is_of_floats(graph, node)) {
        return false;
    }
    op_cost cost = ebb__op_cost(graph, node);
    bool moves = cost.flops <= 0 && node->n_in == 1;
    if ((op->flags & OPF_HEAVY) == 0 && dev->kernels[kernel].forms == NULL && !moves) {
        return false;
    }
    const ir_type *type = &graph->values[node->out].type;
    memset(out, 0, sizeof *out);
    out->m = ebb__ir_rows(type);
    out->n = ir_cols(type);
    out->k = (int64_t)llround(cost.flops / (2.0 * (double)out->m * (double)out->n));
    memcpy(out->attr, node->attr.i, sizeof out->attr);
    if (op->first_row_attr > 0) {
        out->attr[op->first_row_attr - 1] = 0;
    }
    out->kernel = kernel;
    out->members = members;
    return true;
}

/* ---- entries ---- */

/* The slot that holds the key, or the free one where it belongs. */
static int32_t *find_slot(const cost_table *table, const cost_key *key) {
    uint64_t mask = (uint64_t)table->n_slots - 1;
    uint64_t at = XXH3_64bits(key, sizeof *key) & mask;
    while (table->slots[at] != 0 &&
           memcmp(&table->entries[table->slots[at] - 1].key, key, sizeof *key) != 0) {
        at = (at + 1) & mask;
    }
    return &table->slots[at];
}

const cost_entry *ebb__cost_table_find(const cost_table *table, const cost_key *key) {
    int32_t slot = table->n_slots > 0 ? *find_slot(table, key) : 0;
    return slot > 0 ? &table->entries[slot - 1] : NULL;
}

/* Room for one more entry, with at most half of the slots taken. */
static ebb_status grow(cost_table *table) {
    if (table->n_entries < table->cap_entries) {
        return EBB_OK;
    }
    if (table->n_entries >= COST_MOST_ENTRIES) {
        return ebb__fail(table->ctx, EBB_USAGE, "tuning: more than %d different products",
                         (int)COST_MOST_ENTRIES);
    }
    int32_t capacity = table->cap_entries > 0 ? 2 * table->cap_entries : 32;
    int32_t *slots = NULL;
    TRY(ebb__realloc(table->ctx, table->entries, (size_t)capacity, sizeof *table->entries,
                     &table->entries));
    TRY(ebb__alloc(table->ctx, 2 * (size_t)capacity, sizeof *slots, &slots));
    ebb__free(table->ctx, table->slots);
    table->slots = slots;
    table->n_slots = 2 * capacity;
    table->cap_entries = capacity;
    for (int32_t i = 0; i < table->n_entries; i++) {
        *find_slot(table, &table->entries[i].key) = i + 1;
    }
    return EBB_OK;
}

ebb_status ebb__cost_table_add(cost_table *table, const cost_key *key, cost_entry **out) {
    *out = NULL;
    TRY(grow(table));
    int32_t *slot = find_slot(table, key);
    if (*slot == 0) {
        table->entries[table->n_entries] = (cost_entry){.key = *key};
        *slot = ++table->n_entries;
    }
    *out = &table->entries[*slot - 1];
    return EBB_OK;
}

int32_t ebb__cost_entry_find(const cost_entry *entry, int32_t form) {
    for (int32_t i = 0; i < entry->n_forms; i++) {
        if (entry->forms[i].form == form) {
            return i;
        }
    }
    return -1;
}

double ebb__cost_entry_fastest(const cost_entry *entry) {
    double fastest = HUGE_VAL;
    for (int32_t i = 0; i < entry->n_forms; i++) {
        fastest = fmin(fastest, entry->forms[i].seconds);
    }
    return fastest;
}
