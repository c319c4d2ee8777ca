/* pointwise.c - kernels of single elements: kernels/pointwise.cl. */
#include "device/gpu/family.h"

/* clang-format off */
static const gpu_kernel kernels[] = {
    GPU_ELEMENT(ADD, add, by_result)
    GPU_ELEMENT(SUB, sub, by_result)
    GPU_ELEMENT(MUL, mul, by_result)
    GPU_ELEMENT(SCALE, scale, by_result)
    GPU_ELEMENT(ADD_ROW, add_row, by_result)
    GPU_ELEMENT(LOG, log, by_result)
    GPU_ELEMENT(TANH, tanh, by_result)
    GPU_ELEMENT(TANH_GRAD, tanh_grad, by_result)
    GPU_ELEMENT(SIGMOID, sigmoid, by_result)
    GPU_ELEMENT(SIGMOID_GRAD, sigmoid_grad, by_result)
    GPU_ELEMENT(RELU, relu, by_result)
    GPU_ELEMENT(RELU_GRAD, relu_grad, by_result)
    GPU_ELEMENT(LEAKY_RELU, leaky_relu, by_result)
    GPU_ELEMENT(LEAKY_RELU_GRAD, leaky_relu_grad, by_result)
    GPU_ELEMENT(SPREAD, spread, by_result)
    GPU_ELEMENT(DROPOUT, dropout, by_result)
    GPU_ELEMENT(SGD, sgd, by_result)
    GPU_ELEMENT(SGD_MOMENTUM, sgd_momentum, by_result)
    GPU_ELEMENT(ADAM, adam, by_result)
    GPU_ELEMENT(AVERAGE, average, by_result)
};
/* clang-format on */
GPU_FAMILY(pointwise, kernels);
