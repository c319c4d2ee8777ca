/* store.c - the file of measured times. If the first byte says so, the input is its entries, and
 * the line before and the hash behind them are put right; else it is the whole file. A wrong file
 * is as good as none, and what is loaded can be saved. */
#include "cost/store.h"
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { RIGHT_REST = 1, SAVE = 2, MOST_HEADER = 4096 };

/* The first line of a store of this machine and build. */
static size_t read_header(fuzz_room *room, fuzz_path path, char header[MOST_HEADER]) {
    cost_table table;
    ebb__cost_table_init(&table, room->ctx, ebb__device_default());
    fuzz_require(ebb__cost_store_save(&table, path.text) == EBB_OK, "an empty store is not saved");
    ebb__cost_table_fini(&table);
    FILE *file = fopen(path.text, "rb");
    fuzz_require(file != NULL && fgets(header, MOST_HEADER, file) != NULL, "no store was saved");
    (void)fclose(file);
    return strlen(header);
}

static void write_store(fuzz_room *room, fuzz_path path, fuzz_input input) {
    char header[MOST_HEADER];
    size_t first = read_header(room, path, header), entries = first + input.left;
    char *text = malloc(entries + 64);
    fuzz_require(text != NULL, "no memory");
    memcpy(text, header, first);
    if (input.left > 0) {
        memcpy(text + first, input.at, input.left);
    }
    int last = snprintf(text + entries, 64, "], \"hash\": \"%016llx\"}\n",
                        (unsigned long long)XXH3_64bits(text, entries));
    fuzz_write(path, text, entries + (size_t)last);
    free(text);
}

void fuzz_store(fuzz_room *room, fuzz_input input) {
    uint8_t what = fuzz_byte(&input);
    fuzz_path path = fuzz_file(room, "store.json");
    cost_table table;
    bool stale = false;
    if ((what & RIGHT_REST) != 0) {
        write_store(room, path, input);
    } else {
        fuzz_write(path, input.at, input.left);
    }
    ebb__cost_table_init(&table, room->ctx, ebb__device_default());
    fuzz_require(ebb__cost_store_load(&table, path.text, NULL, &stale) == EBB_OK,
                 "a wrong store stops who reads it");
    if ((what & SAVE) != 0) {
        fuzz_require(ebb__cost_store_save(&table, path.text) == EBB_OK, "it cannot be saved");
    }
    ebb__cost_table_fini(&table);
}
