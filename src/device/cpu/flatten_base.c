/* flatten_base.c - maps from and to matrices, and from bytes, for the baseline instruction set. */
#define CPU_FN(name) ebb__cpu_##name##_base
#include "device/cpu/flatten_body.h"
