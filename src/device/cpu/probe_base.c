/* probe_base.c - chains of multiply-adds for any machine, 4 lanes. */
#define CPU_FN(name) ebb__cpu_##name##_base
#include "device/cpu/probe_body.h"
