/* narrow.h - formats of few bits that f32 values are rounded to and kept in.
 *
 * A code is sign, exponent, mantissa, from the highest bit down. Exponents and subnormals are
 * IEEE's; nothing is infinite: magnitudes above the largest number are NaN, of which only the one
 * with all bits set is made.
 *
 *   format      sign-exponent-mantissa  bias  largest  smallest normal, subnormal
 *   16 (fp16)   1-5-10                  15    65504    2^-14, 2^-24
 *   10 (fp10)   1-5-4                   15    63488    2^-14, 2^-18
 *    8 (fp8)    1-4-3                   7     448      2^-6, 2^-9
 *
 * fp16 is IEEE's binary16; fp8 uses its highest exponent for numbers but for one code, as E4M3 of
 * the Open Compute Project (PyTorch's float8_e4m3fn) does; fp10 has its highest exponent to spare,
 * as fp16. A row of fp16 is u16 and one of fp8 u8, a code an element. fp10 has three codes in 4
 * bytes, little-endian, the two highest bits 0: elements are taken by 24, and of the w words of r
 * of them (8 of 24; of the last, r / 3 rounded up), word i has i, w + i and 2 w + i, lowest first.
 */
#ifndef OP_NARROW_H
#define OP_NARROW_H

#include "op/code.h"

/* Attributes of narrow, round_to and widen; the last has the sizes of its result too, but for the
 * first, which is that of the codes: rank and the other axes. */
enum { NARROW_FORMAT, WIDEN_RANK, WIDEN_DIM };
/* Of narrow too: what is above 0 and rounded to 0 has the code of -0. Of numbers that are not below
 * 0, codes then tell which are above it (relu_grad_codes), and relu makes their numbers. */
enum { NARROW_MARK = 1 };

typedef struct op_format {
    int32_t bits, mantissa, bias;
    uint32_t largest; /* code of the largest number */
} op_format;

/* bits 0: there is no such format. */
static inline op_format op_format_of(int32_t bits) {
    return bits == 16   ? (op_format){16, 10, 15, 0x7bff}
           : bits == 10 ? (op_format){10, 4, 15, 0x1ef}
           : bits == 8  ? (op_format){8, 3, 7, 0x7e}
                        : (op_format){0, 0, 0, 0};
}

static inline uint32_t op_format_sign(const op_format *f) {
    return 1u << (f->bits - 1);
}

/* The number of element e of a row of n that narrow has made. */
double ebb__op_code_value(const op_format *f, const void *row, int64_t e, int64_t n);
/* Writes the code of what x is rounded to there; of fp10, into a row that was zeros. */
void ebb__op_code_put(const op_format *f, void *row, int64_t e, int64_t n, double x);

/* How codes are stored. */
enum { NARROW_BLOCK = 24, NARROW_WORDS = 8 }; /* of fp10: elements, and words of theirs */
static inline ir_dtype op_format_dtype(const op_format *f) {
    return f->bits == 16 ? IR_U16 : IR_U8;
}
static inline int64_t op_format_wide(const op_format *f, int64_t elements) {
    return f->bits == 10 ? (elements + 2) / 3 * 4 : elements;
}
/* Words of a block of r elements. */
static inline int64_t op_format_words(int64_t r) {
    return (r + 2) / 3;
}

#endif
