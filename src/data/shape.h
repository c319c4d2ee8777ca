/* shape.h - the shape of a batch of sentences: how long they are padded to be, and how many there
 * are. A program is compiled for each shape that training runs. */
#ifndef DATA_SHAPE_H
#define DATA_SHAPE_H

#include "base/num.h"

#include <stdbool.h>

typedef struct data_shape {
    uint32_t source, target;     /* positions, ends included; source 0: one text, the target */
    int64_t rows;                /* of a batch; 0: not said */
    uint64_t sentences, batches; /* of an epoch; 0: not known */
} data_shape;

enum { DATA_MOST_SHAPES = 32 };
typedef struct data_shapes {
    int32_t n;
    data_shape at[DATA_MOST_SHAPES];
} data_shapes;

static inline void data_shape_widen(data_shape *shape, uint32_t source, uint32_t target) {
    shape->source = num_larger32(shape->source, source);
    shape->target = num_larger32(shape->target, target);
}
static inline bool data_shape_holds(const data_shape *shape, uint32_t source, uint32_t target) {
    return source <= shape->source && target <= shape->target;
}
/* Positions of one row. */
static inline uint64_t data_shape_size(const data_shape *shape) {
    return (uint64_t)shape->source + shape->target;
}
/* The smallest that holds so many positions, the first of equals; -1: none does. */
int32_t ebb__shape_find(const data_shapes *shapes, uint32_t source, uint32_t target);

#endif
