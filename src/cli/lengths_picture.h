/* lengths_picture.h - what `ebb data plan` draws: how often lengths occur, and shapes. */
#ifndef CLI_LENGTHS_PICTURE_H
#define CLI_LENGTHS_PICTURE_H

#include "cli/command.h"
#include "train/epoch_cost.h"

/* Of the chosen strategy: bars by length with the bounds between them; of pairs a map, source by
 * target, with the shapes as rectangles. Into the file `path`. */
ebb_status ebb__cli_draw_lengths(const data_lengths *lengths, const bucket_report *report,
                                 const char *path) EBB_MUST_CHECK;

#endif
