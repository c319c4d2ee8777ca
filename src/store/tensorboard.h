/* tensorboard.h - metrics as TensorBoard event files: scalars by step, in a folder that the user
 * names and that TensorBoard watches.
 *
 * No step is in the folder twice, whatever a reader makes of restarts. A run notes the names of its
 * event files in a list in its own folder, and a checkpoint says how far they belong to it: on
 * resume later files are dropped and the file of the checkpoint is cut back to it. What was cut is
 * not written on, since a viewer that is open has read beyond that place; a new file is begun, with
 * a START at the first step to come, at which viewers drop what they know from there on. */
#ifndef STORE_TENSORBOARD_H
#define STORE_TENSORBOARD_H

#include "base/ctx.h"

enum { TENSORBOARD_NAME_BYTES = 160 };

/* How far the event files belong to a checkpoint: up to these bytes of this file. */
typedef struct tensorboard_mark {
    char name[TENSORBOARD_NAME_BYTES]; /* without its folder; "": no file */
    uint64_t bytes;
} tensorboard_mark;

typedef struct tensorboard_log {
    ebb_ctx *ctx;
    int fd;
    tensorboard_mark mark; /* what a checkpoint stores, after sync() */
    char path[1024];
} tensorboard_log;

typedef struct tensorboard_scalar {
    const char *tag;
    double value; /* stored as fp32 */
} tensorboard_scalar;

/* EBB_USAGE if `folder` is neither one to write in nor could be made in one; makes nothing. */
ebb_status ebb__tensorboard_check(ebb_ctx *ctx, const char *folder) EBB_MUST_CHECK;
/* Opens an event file of a run to go on at `step` (steps done) from `from`, a checkpoint's mark
 * (empty: a run without one). `list` is the path of the file with the names of the run's event
 * files. */
ebb_status ebb__tensorboard_open(ebb_ctx *ctx, const char *folder, const char *list,
                                 const tensorboard_mark *from, int64_t step,
                                 tensorboard_log *out) EBB_MUST_CHECK;
/* Appends one event in one write; allocates nothing. EBB_USAGE if it would pass 1024 bytes. */
ebb_status ebb__tensorboard_write(tensorboard_log *log, int64_t step,
                                  const tensorboard_scalar *scalars, size_t n) EBB_MUST_CHECK;
ebb_status ebb__tensorboard_sync(tensorboard_log *log) EBB_MUST_CHECK;
void ebb__tensorboard_close(tensorboard_log *log); /* safe after a failed open */

/* What the files' records are checked by: CRC-32C, turned and shifted. */
uint32_t ebb__tensorboard_sum(const void *data, size_t bytes);

#endif
