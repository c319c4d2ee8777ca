/* reduce_base.c - sums, softmax and cross-entropy for the baseline instruction set, 4 lanes. */
#define CPU_FN(name) ebb__cpu_##name##_base
#include "device/cpu/reduce_body.h"
