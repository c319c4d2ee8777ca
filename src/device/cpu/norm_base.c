/* norm_base.c - layer norm for the baseline instruction set, 4 lanes. */
#define CPU_FN(name) ebb__cpu_##name##_base
#include "device/cpu/norm_body.h"
