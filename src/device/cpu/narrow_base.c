/* narrow_base.c - narrow formats for the baseline instruction set, 4 lanes. */
#define CPU_FN(name) ebb__cpu_##name##_base
#include "device/cpu/narrow_body.h"
