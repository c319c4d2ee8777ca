/* pointwise_base.c - pointwise kernels for the baseline instruction set, 4 lanes. */
#define CPU_FN(name) ebb__cpu_##name##_base
#include "device/cpu/pointwise_body.h"
