/* make_store.c - a store of measured times with many products, for tests of the command: written by
 * the library itself, so that it is what this build and this machine believe.
 * Usage: make_store FOLDER PRODUCTS */
#include "cost/store.h"

#include <stdio.h>
#include <stdlib.h>

enum { FORMS = 4 };

/* The first kernel of products that comes in several forms. */
static int32_t find_kernel(const device *dev) {
    for (int32_t i = 0; i < dev->n_kernels; i++) {
        if (dev->kernels[i].forms != NULL) {
            return i;
        }
    }
    return 0;
}

/* Sizes are those of no model, and no two products are the same. */
static ebb_status add_products(cost_table *table, int64_t products) {
    int32_t kernel = find_kernel(table->dev);
    for (int64_t i = 0; i < products; i++) {
        cost_key key = {.m = 100001 + i, .n = 7, .k = 3, .kernel = kernel, .members = 2};
        cost_entry *entry = NULL;
        TRY(ebb__cost_table_add(table, &key, &entry));
        for (int32_t k = 0; k < FORMS; k++) {
            entry->forms[entry->n_forms++] = (cost_form){k, 1e-6 * (double)(k + 1)};
        }
    }
    return EBB_OK;
}

static ebb_status make(ebb_ctx *ctx, const char *folder, int64_t products) {
    char path[COST_PATH_BYTES];
    cost_table table;
    ebb__cost_table_init(&table, ctx, ebb__device_default());
    ebb_status status = ebb__cost_store_path(ctx, table.dev, folder, path);
    TRY_OUT(status);
    TRY_OUT(add_products(&table, products));
    TRY_OUT(ebb__cost_store_save(&table, path));
out:
    ebb__cost_table_fini(&table);
    return status;
}

int main(int argc, char **argv) {
    ebb_ctx *ctx = NULL;
    if (argc != 3 || ebb_ctx_new(&ctx) != EBB_OK) {
        (void)fprintf(stderr, "usage: make_store FOLDER PRODUCTS\n");
        return 2;
    }
    ebb_status status = make(ctx, argv[1], strtoll(argv[2], NULL, 10));
    if (status != EBB_OK) {
        (void)fprintf(stderr, "make_store: %s\n", ebb_last_error(ctx));
    }
    ebb_ctx_free(ctx);
    return status == EBB_OK ? 0 : 1;
}
