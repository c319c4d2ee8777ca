/* matmul_avx2.c - matmul, transpose, pack and lists of products for AVX2 and FMA, 8 lanes. */
#define CPU_FN(name) ebb__cpu_##name##_avx2
#include "device/cpu/matmul_body.h"

#include "device/cpu/lists_body.h"
