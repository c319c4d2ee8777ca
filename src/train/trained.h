/* trained.h - the weights of a trained run, for who uses it. */
#ifndef TRAIN_TRAINED_H
#define TRAIN_TRAINED_H

#include "store/safetensors.h"
#include "train/job_int.h"

/* Opens the best weights of the run in `dir`, the last ones where none was validated yet. They must
 * be those that the newest whole generation names, and `lore`, the file of the folder that belongs
 * to them (a vocabulary), must have the hash that was noted then. EBB_MODEL otherwise. */
ebb_status ebb__trained_open(ebb_ctx *ctx, const char *dir, const char *lore, uint64_t hash,
                             st_reader *out) EBB_MUST_CHECK;

#endif
