/* access.h - how kernels reach operands, and the two shapes that most of them have.
 *
 * Every kernel is k_NAME(arena, at): the memory, and where its descriptor (gpu_call) lies in it,
 * plus the number of the launch where an instruction has several.
 * Inside, `arena` and `c` are in scope and the words below are short for them.
 */
#define ARGS GLOBAL char *arena, uint64_t at
#define CALL(at) ((GLOBAL const gpu_call *)(arena + ((at) / 8 * 8)))
#define SPAN(at) (CALL(at)->span[(at) % 8])
#define VIEWS(c) ((GLOBAL const gpu_view *)((c) + 1))
/* Operand and result i; whether an optional operand is there. */
#define IN(i) (&VIEWS(c)[i])
#define OUT(i) (&VIEWS(c)[c->n_in + (i)])
#define HAS(view) ((view)->at != 0)
/* Row r of a view, and all of one that has a single row. */
#define F32(view, r) ((GLOBAL float *)(arena + (view)->at) + (r) * (view)->ld)
#define F64(view) ((GLOBAL double *)(arena + (view)->at))
#define I32(view) ((GLOBAL int32_t *)(arena + (view)->at))
#define U8(view) ((GLOBAL uint8_t *)(arena + (view)->at))
#define U16(view) ((GLOBAL uint16_t *)(arena + (view)->at))
#define WORKSPACE(type) ((GLOBAL type *)(arena + c->workspace))
/* Of scores [S,B] the element that belongs to row r of a stack [S*B,H]. */
#define SCORE_AT(view, r) (F32(view, (r) / (view)->cols)[(r) % (view)->cols])

/* Shape 1: an item for each row r and unit u. ELEMENT(name) { ... } is the body for one of them; it
 * reads all that it needs before it writes, and touches only what belongs to (r, u), so that runs
 * of such bodies can be one launch. */
#ifdef GPU_BODIES /* of a program of runs, which starts none of them by itself */
#define ELEMENT(name)                                                                              \
    DEVICE void name##_at(GLOBAL char *arena, GLOBAL const gpu_call *c, int64_t r, int32_t u)
#else
#define ELEMENT(name)                                                                              \
    DEVICE void name##_at(GLOBAL char *arena, GLOBAL const gpu_call *c, int64_t r, int32_t u);     \
    KERNEL void WG(64, 4) k_##name(ARGS) {                                                         \
        GLOBAL const gpu_call *c = CALL(at);                                                       \
        int32_t r = GROUP(1) * 4 + ITEM(1);                                                        \
        if (r < SPAN(at)[0]) {                                                                     \
            EACH_UNIT(u, GROUP(0) * 64, 64, SPAN(at)[1]) {                                         \
                name##_at(arena, c, r, u);                                                         \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    DEVICE void name##_at(GLOBAL char *arena, GLOBAL const gpu_call *c, int64_t r, int32_t u)
#endif
/* Element u of row r of operand or result i. */
#define GET(i) (F32(IN(i), r)[u])
#define PUT(i) (F32(OUT(i), r)[u])
/* Of a row of several columns for each unit (the gates of a cell): column g. */
#define GET_GATE(i, g) (F32(IN(i), r)[(g)*c->units + u])
#define PUT_GATE(i, g) (F32(OUT(i), r)[(g)*c->units + u])

/* Shape 2: 16 items, the lanes, for each row; 16 rows a group (lanes.h). Beyond the last row items
 * go on with no columns, since all must come to the barriers. */
#define LANES_KERNEL(name) KERNEL void WG(16, 16) k_##name(ARGS)
#define LANES_BEGIN                                                                                \
    SHARED float lanes[256];                                                                       \
    GLOBAL const gpu_call *c = CALL(at);                                                           \
    int32_t lane = ITEM(0);                                                                        \
    int32_t r = GROUP(1) * 16 + ITEM(1);                                                           \
    bool inside = r < c->rows;                                                                     \
    int32_t n = inside ? c->units : 0;                                                             \
    r = inside ? r : 0;
