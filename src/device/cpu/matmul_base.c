/* matmul_base.c - matmul, transpose and pack for the baseline instruction set, 4 lanes. */
#define CPU_FN(name) ebb__cpu_##name##_base
#include "device/cpu/matmul_body.h"
