/* reduce_avx2.c - sums, softmax and cross-entropy for AVX2 and FMA, 8 lanes. */
#define CPU_FN(name) ebb__cpu_##name##_avx2
#include "device/cpu/reduce_body.h"
