/* lengths.h - what `ebb data plan` draws: how often lengths occur, and shapes. */
#ifndef PAGE_LENGTHS_H
#define PAGE_LENGTHS_H

#include "data/buckets.h"

/* Draws the shapes of `plan` over the lengths: bars by length with the bounds between them, or for
 * pairs a map, source by target, with the shapes as rectangles; `one` is the plan with one shape
 * for all, to compare with. Into the file `path`. */
ebb_status ebb__draw_lengths(const data_lengths *lengths, const bucket_plan *plan,
                             const bucket_plan *one, const char *path) EBB_MUST_CHECK;

#endif
