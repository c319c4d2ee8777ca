/* loss_part.h - a row of the sums that go from part to part of the classes (loss_part.c): lanes of
 * exponentials, the label's logit, and for smoothing lanes of all logits. */
#ifndef OP_LOSS_PART_H
#define OP_LOSS_PART_H

#include <stdint.h>

enum {
    LOSS_PART_LANES = 16,
    LOSS_PART_LABEL = LOSS_PART_LANES, /* column of the label's logit */
    LOSS_PART_PLAIN,                   /* and where the lanes of all logits begin */
};

static inline int32_t loss_part_wide(float smooth) {
    return (int32_t)LOSS_PART_PLAIN + (smooth > 0.0f ? (int32_t)LOSS_PART_LANES : 0);
}

#endif
