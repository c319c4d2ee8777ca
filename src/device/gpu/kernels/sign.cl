/* sign.cl - which elements are above 0, a bit each (op/ref/sign.inc): bit j of byte b of a row is
 * element 8 b + j of that step of the first axis. */

/* An item for each byte u of the row of step r. */
ELEMENT(sign_bits) {
    GLOBAL const float *from = STEP(IN(0), r) + (int64_t)u * 8;
    int64_t left = step_elements(IN(0)) - (int64_t)u * 8;
    int32_t byte = 0;
    for (int32_t j = 0; j < 8 && j < left; j++) {
        byte |= (from[j] > 0.0f ? 1 : 0) << j;
    }
    U8(OUT(0))[r * OUT(0)->dim[1] + u] = (uint8_t)byte;
}

#define BIT_OF(view, d, e) (U8(view)[(d) * (view)->dim[1] + (e) / 8] >> (e) % 8 & 1)

/* dy, bits. */
ELEMENT(relu_grad_bits) {
    float dy = STEP(IN(0), r)[u];
    STEP(OUT(0), r)[u] = BIT_OF(IN(1), r, u) != 0 ? dy : 0.0f;
}
ELEMENT(leaky_relu_grad_bits) {
    float dy = STEP(IN(0), r)[u];
    STEP(OUT(0), r)[u] = BIT_OF(IN(1), r, u) != 0 ? dy : dy * c->f[0];
}
