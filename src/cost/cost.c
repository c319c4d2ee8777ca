/* cost.c - see cost.h. */
#include "cost/cost.h"

/* Members share one memory bus: two already saturate most of it. */
static double memory_rate(const device *dev, int members) {
    return dev->bytes_per_second * (members > 1 ? 1.5 : 1.0);
}

double ebb__cost_seconds(const device *dev, const ir_graph *graph, const ir_node_rec *node,
                         int32_t kernel, int members) {
    if (kernel == -2) {
        return 0;
    }
    op_cost cost = ebb__op(node->op)->cost(graph, node);
    double flop_rate = dev->flops_per_second * members;
    double seconds;
    if (kernel == -1) { /* scalar and on one member */
        seconds = cost.flops / (dev->flops_per_second / 32) + cost.bytes / dev->bytes_per_second;
    } else {
        double arithmetic = cost.flops / flop_rate, traffic = cost.bytes / memory_rate(dev, members);
        seconds = arithmetic > traffic ? arithmetic : traffic;
        if (dev->kernels[kernel].workspace != NULL) { /* packing: written once, read once */
            double scratch =
                (double)dev->kernels[kernel].workspace(graph, node, members) > 0
                    ? 2.0 * (double)ebb__ir_type_bytes(op_in_type(graph, node, node->n_in - 1))
                    : 0.0;
            seconds += scratch / memory_rate(dev, members);
        }
    }
    return seconds + dev->seconds_per_instr;
}
