/* embed_base.c - embedding gradients by rows for the baseline instruction set, 4 lanes. */
#define CPU_FN(name) ebb__cpu_##name##_base
#include "device/cpu/embed_body.h"
