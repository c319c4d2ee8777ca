/* store.h - the table on disk: one JSON file for each kind of machine and build, so that products
 * are measured once. Nothing in it is trusted: a file that is torn, foreign or wrong in any way is
 * as good as none, and what it says only ever chooses among forms that the kernels offer.
 *
 * {"format": 1, "ebb": VERSION, "device": WHAT THE DEVICE SAYS OF ITSELF, "kernels": hash of what
 *  forms mean in this build, "hash": of the entries,
 *  "entries": [{"kernel": NAME, "m": M, "n": N, "k": K, "attr": [8 integers], "members": THREADS,
 *               "estimate": SECONDS, "forms": [[CODE, SECONDS], ...]}, ...]}
 */
#ifndef COST_STORE_H
#define COST_STORE_H

#include "cost/table.h"

enum { COST_PATH_BYTES = 1024 };

/* The file of this machine in the folder: its name holds a hash of device and build. */
ebb_status ebb__cost_store_path(ebb_ctx *ctx, const device *dev, const char *folder,
                                char path[COST_PATH_BYTES]) EBB_MUST_CHECK;
/* Adds what the file knows and the table does not. A file that is not there adds nothing; one that
 * cannot be used is named in one warning, and adds nothing. */
ebb_status ebb__cost_store_load(cost_table *table, const char *path) EBB_MUST_CHECK;
/* Replaces the file, making its folder; what another process has stored meanwhile is kept. EBB_IO
 * if it cannot be written, and then the old file is still there. */
ebb_status ebb__cost_store_save(cost_table *table, const char *path) EBB_MUST_CHECK;

#endif
