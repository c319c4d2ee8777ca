/* cell_base.c - LSTM and GRU cells for the baseline instruction set, 4 lanes. */
#define CPU_FN(name) ebb__cpu_##name##_base
#include "device/cpu/cell_body.h"
