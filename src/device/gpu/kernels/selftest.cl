/* selftest.cl - what a device is asked when it is opened (opencl/selftest.c): 64 numbers at the
 * offset, then 9 x 64 results. 16 x 16 items, of which the first 64 have a number each. */

KERNEL void WG(16, 16) k_selftest(ARGS) {
    SHARED float lanes[256];
    GLOBAL const float *x = (GLOBAL const float *)(arena + at);
    GLOBAL float *out = (GLOBAL float *)(arena + at) + 64;
    int32_t i = ITEM(1) * 16 + ITEM(0);
    float sum = row_sum(lanes, x, 64);
    if (i < 64) {
        float a = x[i], b = x[(i + 7) % 64], d = x[(i + 13) % 64];
        float product = a * b, small = a * 0x1p-140f;
        out[i] = FMA(a, b, -product);
        out[64 + i] = product + d;
        out[128 + i] = small * 3.0f;
        out[192 + i] = a / b;
        out[256 + i] = SQRT(a * a);
        out[320 + i] = math_exp(d);
        out[384 + i] = math_log(a * a) + math_tanh(b) * math_sigmoid(d);
        out[448 + i] = sum;
        double wide = (double)a * (double)a;
        out[512 + i] = (float)(wide + (double)b);
    }
}
