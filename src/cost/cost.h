/* cost.h - predicted seconds of nodes. Bytes are exact and live elsewhere (plan); time is a model:
 * the larger of arithmetic and traffic at the device's rates, plus a fixed price an instruction. */
#ifndef COST_COST_H
#define COST_COST_H

#include "device/device.h"

/* Seconds of one node run by `members` threads with the given kernel (index in dev->kernels, -1:
 * reference, -2: nothing to run). */
double ebb__cost_seconds(const device *dev, const ir_graph *graph, const ir_node_rec *node,
                         int32_t kernel, int members);

#endif
