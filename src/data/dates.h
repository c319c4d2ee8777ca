/* dates.h - a translation task to try things on: dates as people write them, and as ISO 8601 does.
 *
 *   the third of march , nineteen ninety-four      1994 - 03 - 03
 *   tue , 5 oct 2004                               2004 - 10 - 05
 *   12 / 31 / 99                                   1999 - 12 - 31
 *   christmas eve 1987                             1987 - 12 - 24
 *
 * Days from 1950 to 2049, so that two digits name a year; with slashes the month comes first unless
 * the year does, with points the day does. Weekdays are right. Tokens are separated by spaces on
 * both sides: about 430 words become 134. Line i is a function of seed and i alone. */
#ifndef DATA_DATES_H
#define DATA_DATES_H

#include "base/ctx.h"

enum { DATES_FIRST_YEAR = 1950, DATES_LAST_YEAR = 2049 };

/* Replaces both files, by `lines` lines each; the old ones stay if one of them cannot be written in
 * full.
 */
ebb_status ebb__dates_write(ebb_ctx *ctx, const char *source, const char *target, uint64_t lines,
                            uint64_t seed) EBB_MUST_CHECK;

#endif
