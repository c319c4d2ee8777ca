/* lrn_base.c - local response normalisation for the baseline instruction set, 4 lanes. */
#define CPU_FN(name) ebb__cpu_##name##_base
#include "device/cpu/lrn_body.h"
