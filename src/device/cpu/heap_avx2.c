/* heap_avx2.c - sparse values for AVX2 and FMA, 8 lanes. */
#define CPU_FN(name) ebb__cpu_##name##_avx2
#include "device/cpu/heap_body.h"
