/* probe_avx2.c - chains of multiply-adds for AVX2 and FMA, 8 lanes. */
#define CPU_FN(name) ebb__cpu_##name##_avx2
#include "device/cpu/probe_body.h"
