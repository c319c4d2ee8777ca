/* dialect.h - the language that kernels are written in: C99 without recursion, over the words
 * below, which OpenCL C 1.2 and CUDA C both know how to say. It is the first text of every program.
 *
 * What makes the bits those of the CPU: no a * b + c is contracted, fma stands where it is written;
 * division and square root are rounded correctly; no atomics, no subgroups, no
 * shapes in the text. A group has at most 256 items and 32 KiB of SHARED memory, and all its items
 * come to every BARRIER. Products of rows and pitches have 64 bits. The memory is not `restrict`:
 * results may lie where operands do. `wide` is WIDE floats that go together, for CPUs, whose
 * compilers do not find them by themselves: a vector where the language has one, as wide as the
 * CPU's own.
 */
#define GPU_KERNELS
#ifdef __OPENCL_VERSION__
#pragma OPENCL FP_CONTRACT OFF
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef char int8_t;
typedef uchar uint8_t;
typedef short int16_t;
typedef ushort uint16_t;
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;
#define KERNEL __kernel
#define GLOBAL __global /* what a pointer into the memory points to */
#define SHARED __local  /* a variable of the group, declared in a KERNEL only */
#define LOCAL __local   /* what a pointer to such a variable points to */
#define DEVICE static inline
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define GROUP(d) ((int32_t)get_group_id(d))
#define ITEM(d) ((int32_t)get_local_id(d))
#define WG(x, y) __attribute__((reqd_work_group_size(x, y, 1)))
#ifdef __FMA__ /* a CPU, by clang: its builtins are seen through where loops are made vectors */
#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#define SQRT(x) __builtin_sqrtf(x)
#define TOGETHER _Pragma("clang loop vectorize(assume_safety)")
#pragma clang diagnostic ignored "-Wpass-failed" /* some bodies cannot be made vectors */
#else
#define FMA(a, b, c) fma(a, b, c)
#define SQRT(x) sqrt(x)
#endif
#define FMA64(a, b, c) fma(a, b, c)
#define SQRT64(x) sqrt(x)
#define BITS(x) as_int(x)
#define FLOAT(n) as_float(n)
#define MULHI(a, b) ((uint32_t)((uint64_t)(a) * (uint64_t)(b) >> 32))
#ifdef __AVX512F__
#define WIDE 16
#define wide float16
#define WIDE_SET(x) ((float16)(x))
#define WIDE_LOAD(p) vload16(0, p)
#define WIDE_STORE(v, p) vstore16(v, 0, p)
#else
#define WIDE 8
#define wide float8
#define WIDE_SET(x) ((float8)(x))
#define WIDE_LOAD(p) vload8(0, p)
#define WIDE_STORE(v, p) vstore8(v, 0, p)
#endif
#define WIDE_FMA(a, b, c) fma(a, b, c)
#define INF INFINITY
#else
#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#endif
#define KERNEL extern "C" __global__
#define GLOBAL
#define SHARED __shared__
#define LOCAL
#define DEVICE static __device__ __forceinline__
#define BARRIER() __syncthreads()
#define GROUP(d) ((int32_t)((d) == 0 ? blockIdx.x : blockIdx.y))
#define ITEM(d) ((int32_t)((d) == 0 ? threadIdx.x : threadIdx.y))
#define WG(x, y) __launch_bounds__((x) * (y))
#define FMA(a, b, c) __fmaf_rn(a, b, c)
#define SQRT(x) __fsqrt_rn(x)
#define FMA64(a, b, c) __fma_rn(a, b, c)
#define SQRT64(x) __dsqrt_rn(x)
#define BITS(x) __float_as_int(x)
#define FLOAT(n) __int_as_float(n)
#define MULHI(a, b) __umulhi(a, b)
#define WIDE 8
typedef struct wide {
    float at[WIDE];
} wide;
DEVICE wide WIDE_SET(float x) {
    wide v;
    for (int i = 0; i < WIDE; i++) {
        v.at[i] = x;
    }
    return v;
}
DEVICE wide WIDE_LOAD(const float *p) {
    wide v;
    for (int i = 0; i < WIDE; i++) {
        v.at[i] = p[i];
    }
    return v;
}
DEVICE void WIDE_STORE(wide v, float *p) {
    for (int i = 0; i < WIDE; i++) {
        p[i] = v.at[i];
    }
}
DEVICE wide WIDE_FMA(wide a, wide b, wide c) {
    for (int i = 0; i < WIDE; i++) {
        a.at[i] = FMA(a.at[i], b.at[i], c.at[i]);
    }
    return a;
}
#define INF __int_as_float(0x7f800000)
#endif
/* The units of [first, first + count) that there are: on GPUs an item has one of them; on CPUs the
 * first item of each row has all, in a loop that becomes vectors, since no turn of it may touch
 * what belongs to another (TOGETHER says so). The items of a group by themselves never do. */
#ifdef TOGETHER
#define EACH_UNIT(u, first, count, units)                                                          \
    int32_t end_##u = (first) + (count) < (units) ? (first) + (count) : (units);                   \
    TOGETHER for (int32_t u = ITEM(0) == 0 ? (first) : end_##u; u < end_##u; u++)
#else
#define EACH_UNIT(u, first, count, units)                                                          \
    for (int32_t u = (first) + ITEM(0); u < (units); u = (units))
#endif
#define UNROLL _Pragma("unroll") /* before a loop with a constant number of turns */
#define INT32_MAX 0x7fffffff
#define INT32_MIN (-0x7fffffff - 1)

DEVICE float max_of(float a, float b) {
    return a > b ? a : b;
}
DEVICE float min_of(float a, float b) {
    return a < b ? a : b;
}

/* exp, log, sigmoid and tanh: op/math_body.h follows, over single numbers. */
#define MATH_DEFINE DEVICE
#define MATH_INF INF
#define MATH_FN(name) math_##name
#define V float
#define VI int32_t
#define V_SET(x) (x)
#define VI_SET(n) (n)
#define V_FMA(a, b, c) FMA(a, b, c)
#define V_MAX(a, b) max_of(a, b)
#define V_MIN(a, b) min_of(a, b)
#define V_LESS(a, b) (-(int32_t)((a) < (b)))
#define V_SELECT(m, a, b) ((m) ? (a) : (b))
#define V_BITS(v) BITS(v)
#define V_FLOAT(n) FLOAT(n)
#define V_POWER(n) FLOAT((int32_t)((uint32_t)(n) << 23))
