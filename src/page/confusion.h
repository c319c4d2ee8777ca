/* confusion.h - what a classifier takes for what, as a picture: a row for each class, a column for
 * each that was said. */
#ifndef PAGE_CONFUSION_H
#define PAGE_CONFUSION_H

#include "page/text.h"

enum { CONFUSION_MOST = 128 }; /* classes of a picture */

typedef struct confusion_matrix {
    uint32_t n;
    const char *const *names; /* [n]; NULL where one has no name: its number is shown */
    const uint64_t *counts;   /* [n, n]: of the row's class, said to be of the column's */
} confusion_matrix;

/* At most CONFUSION_MOST classes. */
ebb_status ebb__confusion_draw(ebb_ctx *ctx, const confusion_matrix *matrix,
                               page_text *into) EBB_MUST_CHECK;

#endif
