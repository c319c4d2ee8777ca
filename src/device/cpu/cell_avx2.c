/* cell_avx2.c - LSTM and GRU cells for AVX2 and FMA, 8 lanes. */
#define CPU_FN(name) ebb__cpu_##name##_avx2
#include "device/cpu/cell_body.h"
