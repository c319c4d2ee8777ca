/* trained.h - the weights of a trained run, for who uses it. */
#ifndef TRAIN_TRAINED_H
#define TRAIN_TRAINED_H

#include "store/safetensors.h"
#include "train/job_int.h"

/* Opens the weights of the run in `dir` that settings->weights asks for: the best (the last ones
 * where none was validated yet) or the last, which must be those that the newest whole generation
 * names, with `lore`, the file of the folder that belongs to them (a vocabulary), of the hash that
 * was noted then; or a file, which can be from anywhere. EBB_MODEL otherwise. */
ebb_status ebb__trained_open(ebb_ctx *ctx, const train_settings *settings, const char *dir,
                             const char *lore, uint64_t hash, st_reader *out) EBB_MUST_CHECK;

#endif
