/* folder.h - the folder of a run before and while it is used: taken only if what is in it is ours
 * to write over. */
#ifndef STORE_FOLDER_H
#define STORE_FOLDER_H

#include "base/file.h"

/* Locks the folder, which is there. EBB_USAGE naming a file that a run would write over, where no
 * run of ours was ever there; nothing is changed then. */
ebb_status ebb__folder_lock(ebb_ctx *ctx, const char *dir, file_lock *out) EBB_MUST_CHECK;

#endif
