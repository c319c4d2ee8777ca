/* call.h - an instruction as kernels of a device see it: a descriptor in the device's memory, in
 * front of all tensors. This text is part of the host's program and of every program of kernels, so
 * that both mean the same bytes. Kernels include nothing: there stands the dialect before it.
 *
 * A view whose `at` is 0 is absent: no tensor lies there.
 */
#ifndef DEVICE_GPU_CALL_H
#define DEVICE_GPU_CALL_H

#ifndef GPU_KERNELS
#include <stdint.h>
#endif

#define GPU_MAX_STAGES 2 /* launches of an instruction */
#define GPU_MAX_RANK 6
#define GPU_MAX_INTS 16
#define GPU_MAX_FLOATS 4

/* Element (r, c) lies (r * ld + c) elements behind byte `at` of the memory; rows are all axes but
 * the last. The groups of a map (op/map.h) lie `pitch` elements apart; of others it is 0. */
typedef struct gpu_view {
    uint64_t at;
    int64_t ld, pitch;
    int32_t rows, cols;
    int32_t dim[GPU_MAX_RANK];
    int16_t rank, dtype;
    int32_t element_bytes;
} gpu_view;

/* The operands, then the results, follow it as views. What the items of a launch are counted by,
 * its table says; kernels are told where the descriptor lies, plus the number of the launch. */
typedef struct gpu_call {
    int32_t n_in, n_out;
    int32_t rows, units;             /* of the last launch */
    int32_t span[GPU_MAX_STAGES][2]; /* rows and units of each */
    uint64_t workspace;              /* where scratch begins; 0: there is none */
    int32_t i[GPU_MAX_INTS];
    float f[GPU_MAX_FLOATS];
} gpu_call;

#endif
