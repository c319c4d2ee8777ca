/* store.h - the table on disk: one JSON file for each kind of machine and build, so that products
 * are measured once. Nothing in it is trusted: a file that is torn, foreign or wrong in any way is
 * as good as none, and what it says only ever chooses among forms that the kernels offer.
 *
 * {"format": 2, "ebb": VERSION, "kernels": hash of what forms mean in this build, "device": WHAT
 *  THE DEVICE SAYS OF ITSELF, "entries": [
 * {"kernel": NAME, ...},     one line each (line.h), those of the last run that wrote first
 * ], "hash": of all lines above}
 *
 * It is read line by line and holds what was useful last: memory does not grow with it, nor does
 * it grow for ever.
 */
#ifndef COST_STORE_H
#define COST_STORE_H

#include "cost/table.h"

enum {
    COST_PATH_BYTES = 1024,
    COST_STORE_BYTES = 4 << 20 /* what a file may have; beyond that, its last entries are dropped */
};

/* The file of this machine in the folder: its name holds a hash of device and build. */
ebb_status ebb__cost_store_path(ebb_ctx *ctx, const device *dev, const char *folder,
                                char path[COST_PATH_BYTES]) EBB_MUST_CHECK;
/* Adds what the file knows of the products in `wanted` (NULL: of all), and the table does not. A
 * file that is not there adds nothing; one that cannot be used is named in one warning, and adds
 * nothing. *stale: some of it lies where it will be dropped before long; saving brings it to the
 * front. */
ebb_status ebb__cost_store_load(cost_table *table, const char *path, const cost_table *wanted,
                                bool *stale) EBB_MUST_CHECK;
/* Replaces the file, making its folder: first the table, then what else is stored, also by other
 * processes meanwhile, as far as there is room. Times become those that will be read again. EBB_IO
 * if it cannot be written, and then the old file is still there. */
ebb_status ebb__cost_store_save(cost_table *table, const char *path) EBB_MUST_CHECK;

#endif
