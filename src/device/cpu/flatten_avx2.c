/* flatten_avx2.c - maps from and to matrices, and from bytes, for AVX2 and FMA. */
#define CPU_FN(name) ebb__cpu_##name##_avx2
#include "device/cpu/flatten_body.h"
