/* heap_base.c - sparse values for any CPU. */
#define CPU_FN(name) ebb__cpu_##name##_base
#include "device/cpu/heap_body.h"
