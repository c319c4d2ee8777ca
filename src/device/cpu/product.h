/* product.h - updates whose gradient is a product (op/optim.c): how many rows of it exist at once.
 */
#ifndef DEVICE_CPU_PRODUCT_H
#define DEVICE_CPU_PRODUCT_H

#include "device/cpu/cpu.h"

/* Workspace, and whether the kernel can do it. */
size_t ebb__product_bytes(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                          int members);
const char *ebb__product_accept(const ir_graph *graph, const ir_node_rec *node);

#endif
