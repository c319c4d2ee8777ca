/* conv.c - the convolution kernels of the CPU: the loops with one engine each, and libxsmm's code
 * made ready for them. */
#include "device/cpu/conv.h"

static void loops_conv(const op_call *call, conv_codes *codes) {
    ebb__conv_gather(call, codes, false);
}
static void loops_conv_data(const op_call *call, conv_codes *codes) {
    ebb__conv_gather(call, codes, true);
}
static void loops_conv_weights(const op_call *call, conv_codes *codes) {
    ebb__conv_weights(call, codes);
}

#define RUN_BASE(upper, lower)                                                                     \
    void ebb__cpu_##lower##_base(const op_call *call) {                                            \
        loops_##lower(call, &(conv_codes){.engine = &ebb__conv_base});                             \
    }
CPU_CONVS(RUN_BASE)

#ifndef EBB_NO_AVX2
#define RUN_AVX2(upper, lower)                                                                     \
    void ebb__cpu_##lower##_avx2(const op_call *call) {                                            \
        loops_##lower(call, &(conv_codes){.engine = &ebb__conv_avx2});                             \
    }
CPU_CONVS(RUN_AVX2)
#endif

#ifndef EBB_NO_XSMM

/* Images do not differ in the tiles that they need, but a chain may meet the ends of groups of 8 of
 * them in several groups of a map. */
static void few_groups(op_view *view) {
    if (op_is_map(&view->type) && view->type.dim[0] > OP_MAP_IMAGES) {
        view->type.dim[0] = OP_MAP_IMAGES;
    }
}

/* Goes through the loops for all members as one. What prepare stores is whether all code is there;
 * where executable memory is forbidden, say, our own kernel does the work. */
static ebb_status prepare(ebb_ctx *ctx, const op_call *call, void *prepared,
                          void (*loops)(const op_call *, conv_codes *)) {
    op_view in[CONV_MOST_IN], out = call->out[0];
    op_call dry = {.in = in,
                   .out = &out,
                   .n_in = call->n_in,
                   .n_out = 1,
                   .attr = call->attr,
                   .workspace = out.data, /* an address: nothing is read or written */
                   .members = 1};
    conv_codes codes = {.engine = &ebb__conv_xsmm_prepare};
    TRY(ebb__cpu_xsmm_start(ctx));
    for (int32_t i = 0; i < call->n_in; i++) {
        in[i] = call->in[i];
        few_groups(&in[i]);
    }
    few_groups(&out);
    loops(&dry, &codes);
    if (codes.failed) {
        TRY(ebb__cpu_xsmm_no_code(ctx));
    }
    *(bool *)prepared = !codes.failed;
    return EBB_OK;
}

#define RUN_XSMM(upper, lower)                                                                     \
    ebb_status ebb__cpu_##lower##_prepare(ebb_ctx *ctx, const op_call *call, void *prepared) {     \
        return prepare(ctx, call, prepared, loops_##lower);                                        \
    }                                                                                              \
    void ebb__cpu_##lower##_xsmm(const op_call *call) {                                            \
        bool ready = *(const bool *)call->prepared;                                                \
        loops_##lower(call, &(conv_codes){.engine = ready ? &ebb__conv_xsmm : &ebb__conv_avx2});   \
    }
CPU_CONVS(RUN_XSMM)
#endif
