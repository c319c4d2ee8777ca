/* checkpoint.h - a run folder's generations: weights, state, and a manifest that is written last.
 *
 *   ckpt-<step>.safetensors         weights, under the names other tools know
 *   ckpt-<step>.state.safetensors   optimiser state, carried state, small scalars
 *   ckpt-<step>.json                manifest: sizes and hashes of both, the best step, `train`, and
 *                                   a hash of itself
 *   last.safetensors, best.safetensors   second names of the newest and the best weights
 *
 * A generation exists when its manifest does. The newest two and the ones that they name as best
 * are kept. Killed between any two system calls, the folder still holds an older or the newer
 * generation whole; find() then puts the two names right. Callers hold the folder's lock. */
#ifndef STORE_CHECKPOINT_H
#define STORE_CHECKPOINT_H

#include "base/ctx.h"
#include "store/safetensors.h"

#include <jansson.h>

typedef struct checkpoint_info {
    bool found;
    bool has_best;
    uint64_t step;
    uint64_t best_step; /* where has_best */
    json_t *train;      /* the object given to save(); owned */
} checkpoint_info;

void ebb__checkpoint_info_fini(checkpoint_info *info);

/* What is saved: two files, and what the first says of itself. */
typedef struct checkpoint_parts {
    const st_entry *weights, *state;
    size_t n_weights, n_state;
    const st_note *notes; /* of the weights, sorted by key */
    size_t n_notes;
} checkpoint_parts;

/* Adds generation `step`, makes it `last` and, if is_best, `best`, and drops what is too old, left
 * over or half written. EBB_USAGE if the folder holds a later step. On failure the generations
 * before it are still whole. Saving one step twice is safe at any moment if the tensors are the
 * same. */
ebb_status ebb__checkpoint_save(ebb_ctx *ctx, const char *dir, uint64_t step,
                                const checkpoint_parts *parts, const json_t *train,
                                bool is_best) EBB_MUST_CHECK;

/* The newest generation that is whole: manifest, sizes and hashes of its files and of its best's.
 * A damaged newer one is passed over with a warning. found = false in a folder without generations;
 * EBB_MODEL naming the damaged file if there are some but none is whole. Changes nothing. */
ebb_status ebb__checkpoint_peek(ebb_ctx *ctx, const char *dir,
                                checkpoint_info *info) EBB_MUST_CHECK;

/* peek() without the warning, and makes the folder what it was after that generation was saved:
 * newer, damaged generations and all left-overs are removed, and last and best name the right
 * weights. */
ebb_status ebb__checkpoint_find(ebb_ctx *ctx, const char *dir,
                                checkpoint_info *info) EBB_MUST_CHECK;

ebb_status ebb__checkpoint_open_weights(ebb_ctx *ctx, const char *dir, const checkpoint_info *info,
                                        st_reader *out) EBB_MUST_CHECK;
ebb_status ebb__checkpoint_open_state(ebb_ctx *ctx, const char *dir, const checkpoint_info *info,
                                      st_reader *out) EBB_MUST_CHECK;

/* Removes every generation, left-over and both names; other files stay. */
ebb_status ebb__checkpoint_clear(ebb_ctx *ctx, const char *dir) EBB_MUST_CHECK;

#endif
