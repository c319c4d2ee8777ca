/* score_base.c - scores of attention for the baseline instruction set, 4 lanes. */
#define CPU_FN(name) ebb__cpu_##name##_base
#include "device/cpu/score_body.h"
