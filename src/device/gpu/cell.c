/* cell.c - the pointwise parts of cells: kernels/cell.cl. */
#include "device/gpu/family.h"

/* clang-format off */
static const gpu_kernel kernels[] = {
    GPU_ELEMENT(LSTM_GATES, lstm_gates, by_second)
    GPU_ELEMENT(LSTM_STATE, lstm_state, by_result)
    GPU_ELEMENT(LSTM_GATES_GRAD, lstm_gates_grad, by_second)
    GPU_ELEMENT(LSTM_OUT, lstm_out, by_result)
    GPU_ELEMENT(LSTM_OUT_GRAD, lstm_out_grad, by_result)
    GPU_ELEMENT(GRU_CELL, gru_cell, by_result)
    GPU_ELEMENT(GRU_CELL_GRAD, gru_cell_grad, by_third)
};
/* clang-format on */
GPU_FAMILY(cell, kernels);
