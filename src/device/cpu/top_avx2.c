/* top_avx2.c - the largest logits of rows for AVX2 and FMA, 8 lanes. */
#define CPU_FN(name) ebb__cpu_##name##_avx2
#include "device/cpu/top_body.h"
