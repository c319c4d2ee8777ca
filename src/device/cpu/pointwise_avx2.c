/* pointwise_avx2.c - pointwise kernels for AVX2 and FMA, 8 lanes. */
#define CPU_FN(name) ebb__cpu_##name##_avx2
#include "device/cpu/pointwise_body.h"
