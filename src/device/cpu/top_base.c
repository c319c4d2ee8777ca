/* top_base.c - the largest logits of rows for the baseline instruction set, 4 lanes. */
#define CPU_FN(name) ebb__cpu_##name##_base
#include "device/cpu/top_body.h"
