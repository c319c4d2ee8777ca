/* matmul_xsmm.c - matmul through kernels that libxsmm generates for the exact sizes of a call.
 *
 * libxsmm is column-major: our rows are its columns, so its A is a panel of our b (32 columns wide)
 * and its B a block of rows of our a, transposed for weight gradients. It cannot transpose its A:
 * panels of a transposed b are packed into the member's workspace, and so are those of a plain b
 * that many rows will read. Its kernels are serial fma chains over k starting from the output
 * (beta = 1), whatever the remainders: the reference, bit for bit. Code is generated when the graph
 * is compiled. Where none comes (no executable memory, say) the vector kernel runs instead.
 */
#ifndef EBB_NO_XSMM
#include "device/cpu/cpu.h"

#include "base/host.h"
#include "device/cpu/matmul.h"

#include <libxsmm.h>

/* A panel of b and a block of a transposed a share the first-level cache (hence half the depth
 * there); blocks of a that are read again for every panel, CACHED_FLOATS, the second. */
enum {
    PANEL = 32,
    DEPTH = CPU_PANEL_FLOATS / PANEL,
    ROWS = 24,
    MANY_ROWS = 48, /* worth packing a plain panel for */
    CACHED_FLOATS = 96 << 10
};

/* What prepare stores. An index is 1 where the last, smaller piece is meant. */
typedef struct xsmm_plan {
    libxsmm_smmfunction kernel[2][2][2]; /* columns, rows, depth */
    int32_t rows, deep;                  /* of a block */
    bool packed, ready;
} xsmm_plan;
_Static_assert(sizeof(xsmm_plan) <= DEVICE_PREPARED_BYTES, "plan does not fit");

const char *ebb__cpu_xsmm_version(void) {
    return LIBXSMM_VERSION;
}

const char *ebb__cpu_xsmm_accept(const ir_graph *graph, const ir_node_rec *node) {
    (void)graph;
    if (!ebb__host_cpu()->avx2_fma) {
        return "the CPU has no AVX2 and FMA";
    }
    return node->attr.i[0] != 0 && node->attr.i[1] != 0 ? "both operands are transposed" : NULL;
}

static libxsmm_smmfunction dispatch(const op_call *call, const matmul_shape *s, bool packed,
                                    int64_t wide, int64_t rows, int64_t deep) {
    const libxsmm_blasint lda = packed ? PANEL : (libxsmm_blasint)s->b_row;
    const libxsmm_blasint ldb = (libxsmm_blasint)(call->attr->i[0] ? s->a_col : s->a_row);
    const libxsmm_blasint ldc = (libxsmm_blasint)s->ldo;
    const float one = 1.0f;
    const int flags = call->attr->i[0] ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
    const int prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
    return libxsmm_smmdispatch((libxsmm_blasint)wide, (libxsmm_blasint)rows, (libxsmm_blasint)deep,
                               &lda, &ldb, &ldc, &one, &one, &flags, &prefetch);
}

ebb_status ebb__cpu_xsmm_prepare(ebb_ctx *ctx, const op_call *call, void *prepared) {
    (void)ctx;
    matmul_shape s = matmul_shape_of(call);
    xsmm_plan plan = {.ready = true};
    libxsmm_init(); /* does nothing but the first time; safe from any thread */
    if (libxsmm_get_target_archid() > LIBXSMM_X86_AVX2) {
        /* Kernels for wider vectors may split a chain. */
        libxsmm_set_target_archid(LIBXSMM_X86_AVX2);
    }
    int64_t rows = matmul_even_block(s.m, ROWS, 3); /* a tile of sums is 3 rows high */
    plan.rows = (int32_t)(rows < s.m ? rows : s.m);
    plan.deep = (int32_t)matmul_even_block(s.k, call->attr->i[0] ? DEPTH / 2 : DEPTH, 1);
    plan.packed = call->attr->i[1] != 0 || s.m >= MANY_ROWS;
    const int64_t size[3][2] = {
        {PANEL, s.n % PANEL}, {plan.rows, s.m % plan.rows}, {plan.deep, s.k % plan.deep}};
    for (int i = 0; i < 8; i++) {
        int w = i >> 2, r = i >> 1 & 1, d = i & 1;
        bool used = size[0][w] > 0 && size[0][w] <= s.n && size[1][r] > 0 && size[2][d] > 0;
        if (used) {
            plan.kernel[w][r][d] =
                dispatch(call, &s, plan.packed, size[0][w], size[1][r], size[2][d]);
            plan.ready = plan.ready && plan.kernel[w][r][d] != NULL;
        }
    }
    memcpy(prepared, &plan, sizeof plan);
    return EBB_OK;
}

/* packed[k][PANEL] = b(k0 + k, n0 + n) for `wide` columns. */
static void pack(const matmul_shape *s, bool trans_b, int64_t k0, int64_t deep, int64_t n0,
                 int64_t wide, float *packed) {
    if (trans_b) {
        ebb__cpu_transpose_block_avx2(packed, PANEL, s->b + n0 * s->b_col + k0, s->b_col, wide,
                                      deep);
        return;
    }
    for (int64_t k = 0; k < deep; k++) {
        memcpy(packed + k * PANEL, s->b + (k0 + k) * s->b_row + n0, (size_t)wide * sizeof(float));
    }
}

/* One panel of columns, one block of k: rows of the part, a block at a time. */
static void run_panel(const xsmm_plan *plan, const matmul_shape *s, matmul_part part, int64_t k,
                      int64_t deep, const float *b) {
    const libxsmm_smmfunction *kernel[2] = {
        &plan->kernel[part.n1 - part.n0 < PANEL][0][deep < plan->deep],
        &plan->kernel[part.n1 - part.n0 < PANEL][1][deep < plan->deep]};
    for (int64_t m = part.m0; m < part.m1; m += plan->rows) {
        (*kernel[part.m1 - m < plan->rows])(b, s->a + m * s->a_row + k * s->a_col,
                                            s->out + m * s->ldo + part.n0);
    }
}

/* Rows as far as a block of a stays in the second-level cache while all panels pass by. */
static void run_rows(const op_call *call, const xsmm_plan *plan, const matmul_shape *s,
                     matmul_part part) {
    float *packed = (float *)call->workspace + (int64_t)call->member * CPU_PANEL_FLOATS;
    for (int64_t k = 0; k < s->k; k += plan->deep) {
        int64_t deep = s->k - k < plan->deep ? s->k - k : plan->deep;
        for (int64_t n = part.n0; n < part.n1; n += PANEL) {
            int64_t wide = part.n1 - n < PANEL ? part.n1 - n : PANEL;
            matmul_part panel = {part.m0, part.m1, n, n + wide};
            if (k == 0) {
                matmul_start(call, s, panel);
            }
            if (plan->packed) {
                pack(s, call->attr->i[1] != 0, k, deep, n, wide, packed);
            }
            run_panel(plan, s, panel, k, deep, plan->packed ? packed : s->b + k * s->b_row + n);
        }
    }
}

void ebb__cpu_matmul_xsmm(const op_call *call) {
    const xsmm_plan *plan = call->prepared;
    if (!plan->ready) {
        ebb__cpu_matmul_avx2(call);
        return;
    }
    matmul_shape s = matmul_shape_of(call);
    matmul_part part = matmul_part_of(&s, PANEL, plan->rows, call->member, call->members);
    int64_t blocks = CACHED_FLOATS / ((int64_t)plan->rows * plan->deep);
    int64_t step = plan->rows * (blocks > 1 ? blocks : 1);
    for (int64_t m = part.m0; m < part.m1 && part.n0 < part.n1; m += step) {
        int64_t end = part.m1 - m < step ? part.m1 : m + step;
        run_rows(call, plan, &s, (matmul_part){m, end, part.n0, part.n1});
    }
}
#else
/* An empty translation unit is not C. */
typedef int matmul_xsmm_is_not_built;
#endif
