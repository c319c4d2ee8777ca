/* selftest.c - a few numbers computed by the device when it is opened, compared with the host's:
 * fused and separate products, subnormals, division, square root, exp and the others, a sum in 16
 * lanes, doubles. Flags of drivers mislead in both directions; this takes about a millisecond. */
#include "device/opencl/opencl.h"

#include "op/math.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NUMBERS = 64, TESTS = 9 };
static const char *const names[TESTS] = {"fma",         "a product and a sum", "subnormal numbers",
                                         "division",    "square roots",        "exp",
                                         "log or tanh", "a sum in lanes",      "sums of 64 bits"};

/* As kernels/selftest.cl has them: test t of number i is at [t * NUMBERS + i]. */
static void compute(const float *x, float *out) {
    float lanes[16] = {0};
    for (int i = 0; i < NUMBERS; i++) {
        float a = x[i], b = x[(i + 7) % NUMBERS], c = x[(i + 13) % NUMBERS];
        volatile float product = a * b;
        volatile float small = a * 0x1p-140f;
        out[0 * NUMBERS + i] = fmaf(a, b, -product);
        out[1 * NUMBERS + i] = product + c;
        out[2 * NUMBERS + i] = small * 3.0f;
        out[3 * NUMBERS + i] = a / b;
        out[4 * NUMBERS + i] = sqrtf(a * a);
        out[5 * NUMBERS + i] = ebb__math_exp(c);
        out[6 * NUMBERS + i] = ebb__math_log(a * a) + ebb__math_tanh(b) * ebb__math_sigmoid(c);
        double wide = (double)a * (double)a;
        out[8 * NUMBERS + i] = (float)(wide + (double)b);
        lanes[i % 16] += a;
    }
    for (int half = 8; half > 0; half /= 2) {
        for (int l = 0; l < half; l++) {
            lanes[l] += lanes[l + half];
        }
    }
    for (int i = 0; i < NUMBERS; i++) {
        out[7 * NUMBERS + i] = lanes[0];
    }
}

static ebb_status run(ebb_ctx *ctx, cl_state *state, cl_handle memory, const float *x, float *got) {
    const uint64_t at = 0;
    const size_t items[2] = {16, 16};
    const size_t bytes = NUMBERS * sizeof *x;
    int32_t entry = 0;
    TRY(ebb__cl_entry(ctx, state, "selftest", &entry));
    cl_handle kernel = state->entries[entry].kernel;
    int32_t code =
        state->api.clEnqueueWriteBuffer(state->queue, memory, 1, 0, bytes, x, 0, NULL, NULL);
    code = code == CL_OK ? state->api.clSetKernelArg(kernel, 0, sizeof memory, &memory) : code;
    code = code == CL_OK ? state->api.clSetKernelArg(kernel, 1, sizeof at, &at) : code;
    code = code == CL_OK ? state->api.clEnqueueNDRangeKernel(state->queue, kernel, 2, NULL, items,
                                                             items, 0, NULL, NULL)
                         : code;
    code = code == CL_OK ? state->api.clEnqueueReadBuffer(state->queue, memory, 1, bytes,
                                                          TESTS * bytes, got, 0, NULL, NULL)
                         : code;
    return ebb__cl_check(ctx, code, "the self-test");
}

ebb_status ebb__cl_selftest(ebb_ctx *ctx, const device *dev) {
    cl_state *state = cl_state_of(dev);
    float x[NUMBERS], want[TESTS * NUMBERS], got[TESTS * NUMBERS];
    int32_t code = CL_OK;
    for (int i = 0; i < NUMBERS; i++) {
        x[i] = (float)(i % 2 == 0 ? 1 : -1) * (1.0f + (float)(i * 37 % 101) / 97.0f);
    }
    compute(x, want);
    cl_handle memory = state->api.clCreateBuffer(state->context, CL_MEMORY_READ_WRITE,
                                                 sizeof x + sizeof got, NULL, &code);
    TRY(ebb__cl_check(ctx, code, "the self-test"));
    ebb_status status = run(ctx, state, memory, x, got);
    (void)state->api.clReleaseMemObject(memory);
    TRY(status);
    for (int i = 0; i < TESTS * NUMBERS; i++) {
        if (memcmp(&want[i], &got[i], sizeof *got) != 0) {
            return ebb__fail(ctx, EBB_USAGE,
                             "opencl: %s does not compute as the CPU does: %s (%a, not %a); use "
                             "another device",
                             state->facts.name, names[i / NUMBERS], (double)got[i],
                             (double)want[i]);
        }
    }
    return EBB_OK;
}
