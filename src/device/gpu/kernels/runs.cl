/* runs.cl - the words that kernels of runs are written in (src/device/gpu/runs.c writes them): the
 * bodies of several instructions one after the other, for rows and units that one group has. An
 * item reads only what it wrote itself, so that elements need no barrier between them; a product
 * is done by one item for the group, whose device is a CPU. */
#define NEXT(c)                                                                                    \
    ((GLOBAL const gpu_call *)((GLOBAL const gpu_view *)((c) + 1) + (c)->n_in + (c)->n_out))
/* Of a run, the second span of its first descriptor holds rows and units of all. */
#define RUN_BEGIN(wide_of, high_of)                                                                \
    GLOBAL const gpu_call *c = CALL(at);                                                           \
    int32_t rows = c->span[1][0], units = c->span[1][1];                                           \
    int32_t first_unit = GROUP(0) * (wide_of), count = (wide_of);                                  \
    int32_t first_row = GROUP(1) * (high_of);                                                      \
    int32_t end_row = first_row + (high_of) < rows ? first_row + (high_of) : rows;
#define RUN_ELEMENT(name, step)                                                                    \
    for (int32_t r = first_row + ITEM(1); r < end_row; r += (step)) {                              \
        EACH_UNIT(u, first_unit, count, units) {                                                   \
            name##_at(arena, c, r, u);                                                             \
        }                                                                                          \
    }                                                                                              \
    c = NEXT(c);
#define RUN_PRODUCT                                                                                \
    BARRIER();                                                                                     \
    if (ITEM(0) == 0 && ITEM(1) == 0) {                                                            \
        panel_units(arena, c, first_unit, first_row, end_row);                                     \
    }                                                                                              \
    BARRIER();                                                                                     \
    c = NEXT(c);
