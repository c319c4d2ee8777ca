/* embed_avx2.c - embedding gradients by rows for AVX2 and FMA, 8 lanes. */
#define CPU_FN(name) ebb__cpu_##name##_avx2
#include "device/cpu/embed_body.h"
