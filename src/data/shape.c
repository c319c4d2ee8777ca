/* shape.c - see shape.h. */
#include "data/shape.h"

int32_t ebb__shape_find(const data_shapes *shapes, uint32_t source, uint32_t target) {
    int32_t found = -1;
    uint64_t least = UINT64_MAX;
    for (int32_t i = 0; i < shapes->n; i++) {
        const data_shape *shape = &shapes->at[i];
        uint64_t size = data_shape_size(shape);
        if (data_shape_holds(shape, source, target) && size < least) {
            found = i;
            least = size;
        }
    }
    return found;
}
