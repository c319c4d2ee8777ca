/* lrn.h - the numbers of local response normalisation, for its ops and their kernels. */
#ifndef OP_LRN_H
#define OP_LRN_H

#include "op/map.h"

enum { LRN_SIZE };         /* int attribute: channels of a window */
enum { LRN_ALPHA, LRN_K }; /* float attributes */
/* Twice the exponent: the factor in the derivative of s^-0.75, s a sum of squares. */
#define LRN_GRADIENT (-1.5)

/* The window of channel c is [c - behind, c + ahead], as PyTorch's padding has it; so c is in the
 * windows of the channels [c - ahead, c + behind]. */
static inline int64_t op_lrn_behind(const ir_attr *attr) {
    return attr->i[LRN_SIZE] / 2;
}
static inline int64_t op_lrn_ahead(const ir_attr *attr) {
    return (attr->i[LRN_SIZE] - 1) / 2;
}

#endif
