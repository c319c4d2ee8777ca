/* file_pairs.h - two lists of files, line by line translations of each other: that every file of
 * one has as many lines as the file of its place in the other. Lists of other numbers of files are
 * only compared as a whole, by who reads them. */
#ifndef DATA_FILE_PAIRS_H
#define DATA_FILE_PAIRS_H

#include "base/ctx.h"

/* EBB_DATA if two files differ, with both names and numbers; reads nothing if either list has only
 * one. */
ebb_status ebb__file_pairs_check(ebb_ctx *ctx, const char *source,
                                 const char *target) EBB_MUST_CHECK;

#endif
