/* cost.c - see cost.h. */
#include "cost/cost.h"

enum {
    CACHE_BYTES = 4 << 20
}; /* traffic of smaller nodes stays in cache: about four times as fast */

/* Members share one memory bus: two already saturate most of it. */
static double memory_rate(const device *dev, int members, double bytes) {
    return dev->bytes_per_second * (members > 1 ? 1.5 : 1.0) * (bytes <= CACHE_BYTES ? 4.0 : 1.0);
}

double ebb__cost_seconds(const device *dev, const ir_graph *graph, const ir_node_rec *node,
                         int32_t kernel, int members) {
    if (kernel == -2) {
        return 0;
    }
    op_cost cost = ebb__op(node->op)->cost(graph, node);
    if (kernel == -1) { /* scalar and on one member */
        return cost.flops / (dev->flops_per_second / 32) + cost.bytes / dev->bytes_per_second +
               dev->seconds_per_instr;
    }
    double arithmetic = cost.flops / (dev->flops_per_second * members);
    double traffic = cost.bytes / memory_rate(dev, members, cost.bytes);
    double extra = dev->kernels[kernel].extra_bytes == NULL
                       ? 0.0
                       : dev->kernels[kernel].extra_bytes(graph, node);
    return (arithmetic > traffic ? arithmetic : traffic) +
           extra / memory_rate(dev, members, extra) + dev->seconds_per_instr;
}
