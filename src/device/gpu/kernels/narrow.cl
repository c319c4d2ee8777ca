/* narrow.cl - numbers rounded to a format, and rows of their codes (op/ref/narrow.inc). */

ELEMENT(round_to) {
    format f = format_of(c->i[0]);
    float x = GET(0);
    PUT(0) = x != x ? x : format_value(&f, format_code(&f, x));
}

DEVICE int32_t narrow_code(GLOBAL const gpu_call *c, const format *f, float x) {
    int32_t code = format_code(f, x);
    return c->i[1] != 0 && x > 0.0f && code == 0 ? format_sign(f) : code;
}

/* An item for each code u of the row of step r or, of 10 bits, for each word of three. */
ELEMENT(narrow) {
    format f = format_of(c->i[0]);
    GLOBAL const float *from = STEP(IN(0), r);
    GLOBAL uint8_t *row = CODES(OUT(0), r);
    if (f.bits == 16) {
        ((GLOBAL uint16_t *)row)[u] = (uint16_t)narrow_code(c, &f, from[u]);
    } else if (f.bits == 8) {
        row[u] = (uint8_t)narrow_code(c, &f, from[u]);
    } else {
        int64_t n = step_elements(IN(0)), block = u / CODE_WORDS;
        int32_t words = code_words(block, n), word = 0;
        for (int32_t i = 0; i < 3; i++) {
            int64_t in_block = u % CODE_WORDS + i * words, e = block * CODE_BLOCK + in_block;
            word |= (in_block < CODE_BLOCK && e < n ? narrow_code(c, &f, from[e]) : 0) << 10 * i;
        }
        for (int32_t i = 0; i < 4; i++) {
            row[4 * (int64_t)u + i] = (uint8_t)(word >> 8 * i);
        }
    }
}

ELEMENT(widen) {
    format f = format_of(c->i[0]);
    STEP(OUT(0), r)[u] = format_value(&f, code_at(&f, CODES(IN(0), r), u, c->units));
}

/* dy, codes. */
ELEMENT(relu_grad_codes) {
    format f = format_of(c->i[0]);
    int32_t code = code_at(&f, CODES(IN(1), r), u, c->units);
    bool above = code != 0 && (code & (format_sign(&f) - 1)) <= f.largest;
    float dy = STEP(IN(0), r)[u];
    STEP(OUT(0), r)[u] = above ? dy : 0.0f;
}
