/* batch_norm.h - what batch norm's ops and their kernels share: attributes, and the statistics of a
 * channel from its sums. */
#ifndef OP_BATCH_NORM_H
#define OP_BATCH_NORM_H

#include "op/map.h"

#include <math.h>

enum { BATCH_EPS = 0, BATCH_MOMENTUM = 0 }; /* float attributes, of different ops */
/* Int attribute of batch_grad: images of the whole batch, of which its operands may be a part. */
enum { BATCH_IMAGES };

/* Rows of stat: the mean, 1 / the deviation, and the variance without bias for running averages. */
enum { STAT_MEAN, STAT_SCALE, STAT_VARIANCE, STAT_ROWS };
/* Rows of sums: of dy, and of dy times the normalised x. */
enum { SUMS_PLAIN, SUMS_HAT, SUMS_ROWS };

typedef struct op_moments {
    double stat[STAT_ROWS];
} op_moments;

/* From the sums of `count` numbers and of their squares; a NaN stays. */
static inline op_moments op_batch_moments(double sum, double squares, double count, double eps) {
    double mean = sum / count, biased = squares / count - mean * mean;
    biased = biased < 0 ? 0 : biased;
    return (op_moments){
        {mean, 1 / sqrt(biased + eps), count > 1 ? biased * count / (count - 1) : biased}};
}

/* How many elements of a map are of one channel, if it has so many images. */
static inline double op_batch_count(const op_map *m, int64_t images) {
    return (double)images * (double)m->high * (double)m->wide;
}

#endif
