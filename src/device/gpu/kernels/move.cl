/* move.cl - ops that only move elements of any dtype (op/ref/move.inc, pack.inc). */

#define BYTES_AT(view, r, j) (arena + (view)->at + ((r) * (view)->ld + (j)) * (view)->element_bytes)

DEVICE void move_element(GLOBAL const char *from, GLOBAL char *to, int32_t bytes) {
    if (bytes == 4) {
        *(GLOBAL int32_t *)to = *(GLOBAL const int32_t *)from;
    } else if (bytes == 8) {
        *(GLOBAL int64_t *)to = *(GLOBAL const int64_t *)from;
    } else if (bytes == 2) {
        *(GLOBAL int16_t *)to = *(GLOBAL const int16_t *)from;
    } else {
        *to = *from;
    }
}

ELEMENT(copy) {
    move_element(BYTES_AT(IN(0), r, u), BYTES_AT(OUT(0), r, u), OUT(0)->element_bytes);
}

/* Row (i * outer + o) * n + k of the result is row (o * inner + i) * n + k of the operand; of a
 * list it is columns. */
ELEMENT(regroup) {
    bool list = IN(0)->rank == 1;
    int64_t outer = c->i[0], inner = c->i[1], to = list ? u : r;
    int64_t n = (list ? c->units : c->rows) / (outer * inner);
    int64_t block = to / n, from = (block % outer * inner + block / outer) * n + to % n;
    move_element(BYTES_AT(IN(0), list ? 0 : from, list ? from : u), BYTES_AT(OUT(0), r, u),
                 OUT(0)->element_bytes);
}

ELEMENT(fill) {
    GLOBAL char *to = BYTES_AT(OUT(0), r, u);
    float value = c->f[0];
    if (OUT(0)->dtype == 0) {
        *(GLOBAL float *)to = value;
    } else if (OUT(0)->dtype == 2) {
        *(GLOBAL double *)to = (double)value;
    } else {
        *(GLOBAL int32_t *)to = (int32_t)value;
    }
}

ELEMENT(transpose) {
    PUT(0) = F32(IN(0), u)[r];
}

/* The columns of b in panels (op/pack.h): row r of the result is a panel. An item has the lanes of
 * one k and one group. */
KERNEL void WG(16, 4) k_pack(ARGS) {
    GLOBAL const gpu_call *c = CALL(at);
    int32_t x = GROUP(0) * 16 + ITEM(0), r = GROUP(1) * 4 + ITEM(1);
    if (x >= c->units || r >= c->rows) {
        return;
    }
    bool trans = c->i[0] != 0;
    int32_t groups = c->i[1] > 1 ? c->i[1] : 1, lanes = c->i[2] > 1 ? c->i[2] : 1;
    int32_t units = (trans ? IN(0)->rows : IN(0)->cols) / groups, first = r * lanes;
    int32_t k = x / groups, n = x % groups * units + first;
    int64_t step = trans ? IN(0)->ld : 1;
    GLOBAL const float *from = trans ? F32(IN(0), n) + k : F32(IN(0), k) + n;
    GLOBAL float *to = F32(OUT(0), r) + (int64_t)x * lanes;
    for (int32_t j = 0; j < lanes; j++) {
        to[j] = first + j < units ? from[j * step] : 0.0f;
    }
}
