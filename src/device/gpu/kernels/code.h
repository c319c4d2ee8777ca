/* code.h - codes in kernels: rows that stand for steps along the first axis of a tensor
 * (op/code.h), and numbers of formats of few bits (op/narrow.h), which are exact in floats. */

DEVICE int64_t step_elements(GLOBAL const gpu_view *view) {
    int64_t n = 1;
    for (int32_t d = 1; d < view->rank; d++) {
        n *= view->dim[d];
    }
    return n;
}
/* Step d of a tensor of any rank: groups of a map and rows of a matrix may lie apart. */
DEVICE GLOBAL float *step_of(GLOBAL char *arena, GLOBAL const gpu_view *view, int64_t d) {
    int64_t pitch = view->pitch != 0  ? view->pitch
                    : view->rank == 2 ? view->ld
                                      : step_elements(view);
    return (GLOBAL float *)(arena + view->at) + d * pitch;
}
#define STEP(view, d) step_of(arena, view, d)
/* Row d of codes. */
#define CODES(view, d)                                                                             \
    ((GLOBAL uint8_t *)(arena + (view)->at) + (d) * (view)->dim[1] * (view)->element_bytes)

/* ---- formats ---- */

typedef struct format {
    int32_t bits, mantissa, bias, largest; /* code of the largest number */
} format;

DEVICE format format_of(int32_t bits) {
    format f;
    f.bits = bits;
    f.mantissa = bits == 16 ? 10 : bits == 10 ? 4 : 3;
    f.bias = bits == 8 ? 7 : 15;
    f.largest = bits == 16 ? 0x7bff : bits == 10 ? 0x1ef : 0x7e;
    return f;
}

DEVICE int32_t format_sign(const format *f) {
    return 1 << (f->bits - 1);
}

DEVICE float power_of_two(int32_t n) {
    return FLOAT((n + 127) << 23);
}

DEVICE float format_value(const format *f, int32_t code) {
    int32_t magnitude = code & (format_sign(f) - 1), one = 1 << f->mantissa;
    int32_t field = magnitude >> f->mantissa;
    int32_t whole = field == 0 ? magnitude : one + magnitude % one;
    float size = (float)whole * power_of_two((field == 0 ? 1 : field) - f->bias - f->mantissa);
    size = magnitude > f->largest ? FLOAT(0x7fc00000) : size;
    return (code & format_sign(f)) != 0 ? -size : size;
}

/* The code of the nearest number of the format, of two the even one; of the largest for all above.
 */
DEVICE int32_t format_code(const format *f, float x) {
    int32_t bits = BITS(x), sign = bits < 0 ? format_sign(f) : 0;
    float size = FLOAT(bits & 0x7fffffff);
    if (size != size) {
        return sign | (format_sign(f) - 1);
    }
    if (size > format_value(f, f->largest)) {
        return sign | f->largest;
    }
    /* size is in [1, 2) 2^exponent or, below all normal numbers of the format, less. */
    int32_t exponent = ((bits & 0x7fffffff) >> 23) - 127;
    exponent = exponent > 1 - f->bias ? exponent : 1 - f->bias;
    float steps = size * power_of_two(f->mantissa - exponent);
    int32_t whole = (int32_t)((steps + 8388608.0f) - 8388608.0f); /* rounded to even */
    return sign | (((exponent + f->bias - 1) << f->mantissa) + whole);
}

/* ---- where codes lie: of 10 bits, three in a word of 4 bytes, by blocks of 24 elements ---- */

#define CODE_BLOCK 24
#define CODE_WORDS 8

/* Words of the block that element e of n begins or is in. */
DEVICE int32_t code_words(int64_t block, int64_t n) {
    int64_t left = n - block * CODE_BLOCK;
    return left < CODE_BLOCK ? (int32_t)(left + 2) / 3 : CODE_WORDS;
}

DEVICE int32_t code_at(const format *f, GLOBAL const uint8_t *row, int64_t e, int64_t n) {
    if (f->bits == 16) {
        return ((GLOBAL const uint16_t *)row)[e];
    }
    if (f->bits == 8) {
        return row[e];
    }
    int64_t block = e / CODE_BLOCK;
    int32_t words = code_words(block, n), in_block = (int32_t)(e % CODE_BLOCK);
    int32_t shift = in_block / words * 10;
    GLOBAL const uint8_t *word = row + 4 * (block * CODE_WORDS + in_block % words);
    int32_t low = word[shift / 8], high = shift / 8 < 3 ? word[shift / 8 + 1] : 0;
    return (low | high << 8) >> shift % 8 & 0x3ff;
}
