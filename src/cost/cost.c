/* cost.c - see cost.h. */
#include "cost/cost.h"

#include <math.h>

/* What of the shorter of arithmetic and traffic does not hide behind the longer. */
static const double EXPOSED = 0.25;
/* What is not worth leaving a kernel's own order for: a product timed by itself, and cut, knows the
 * cache of a whole step only so well. */
static const double PACE = 1.08;

/* Members share one memory. */
static double memory_rate(const device *dev, int members, double bytes) {
    return dev->bytes_per_second * (members > 1 ? dev->bus_members : 1.0) *
           (bytes <= dev->cache_bytes ? dev->cache_speed : 1.0);
}

double ebb__cost_seconds(const device *dev, const ir_graph *graph, const ir_node_rec *node,
                         int32_t kernel, int members) {
    if (kernel == DEVICE_KERNEL_NONE) {
        return 0;
    }
    op_cost cost = ebb__op_cost(graph, node);
    if (ebb__op(node->op)->transfer != TRANSFER_NONE) { /* the stream waits for it */
        double bytes = (double)ebb__ir_type_bytes(op_in_type(graph, node, 0));
        return bytes / dev->away_bytes_per_second + dev->seconds_per_instr;
    }
    if (kernel == DEVICE_KERNEL_REFERENCE) { /* scalar and on one member */
        return cost.flops / (dev->flops_per_second * dev->scalar_share) +
               cost.bytes / dev->bytes_per_second + dev->seconds_per_instr;
    }
    const device_kernel *k = &dev->kernels[kernel];
    double pace = k->pace == NULL ? 1.0 : k->pace(graph, node);
    double arithmetic = pace * cost.flops / (dev->flops_per_second * members);
    double traffic = cost.bytes / memory_rate(dev, members, cost.bytes);
    double extra = k->extra_bytes == NULL ? 0.0 : k->extra_bytes(graph, node);
    return fmax(arithmetic, traffic) + EXPOSED * fmin(arithmetic, traffic) +
           extra / memory_rate(dev, members, HUGE_VAL) + dev->seconds_per_instr;
}

double ebb__cost_alone(const device *dev, const ir_graph *graph, const ir_node_rec *node,
                       int32_t kernel) {
    return ebb__cost_seconds(dev, graph, node, kernel, 1) - dev->seconds_per_instr;
}

int ebb__cost_members(const device *dev, double alone, int members) {
    return alone < dev->meeting_seconds ? 1 : members;
}

/* ---- what was measured ---- */

static double seconds_of(const cost_entry *entry, int32_t form) {
    int32_t i = ebb__cost_entry_find(entry, form);
    return i < 0 ? HUGE_VAL : entry->forms[i].seconds;
}

static const cost_entry *find_entry(const cost_table *table, const device *dev,
                                    const ir_graph *graph, const ir_node_rec *node, int32_t kernel,
                                    int members) {
    cost_key key;
    return table != NULL && ebb__cost_key(dev, graph, node, kernel, members, &key)
               ? ebb__cost_table_find(table, &key)
               : NULL;
}

int32_t ebb__cost_pick(const cost_entry *entry, const int32_t *list, int32_t n, double *seconds) {
    double fastest = HUGE_VAL;
    *seconds = -1;
    for (int32_t i = 0; entry != NULL && i < n; i++) {
        fastest = fmin(fastest, seconds_of(entry, list[i]));
    }
    for (int32_t i = 0; entry != NULL && fastest < HUGE_VAL && i < n; i++) {
        if (seconds_of(entry, list[i]) <= PACE * fastest) {
            *seconds = seconds_of(entry, list[i]);
            return list[i];
        }
    }
    return list[0];
}

int32_t ebb__cost_form(const cost_table *table, const device *dev, const ir_graph *graph,
                       const ir_node_rec *node, int32_t kernel, int members, double *seconds) {
    const device_kernel *k = &dev->kernels[kernel];
    int32_t list[DEVICE_MAX_FORMS] = {0};
    int32_t n = k->forms == NULL ? 1 : k->forms(graph, node, members, list);
    double taken;
    int32_t form =
        ebb__cost_pick(find_entry(table, dev, graph, node, kernel, members), list, n, &taken);
    if (seconds != NULL) {
        *seconds = taken;
    }
    return form;
}

double ebb__cost_expected(double pace, const device *dev, const ir_graph *graph,
                          const ir_node_rec *node, int32_t kernel, int members) {
    return ebb__cost_seconds(dev, graph, node, kernel, members) *
           (pace > 0 && (ebb__op(node->op)->flags & OPF_HEAVY) != 0 ? pace : 1);
}

double ebb__cost_measured(const cost_table *table, const device *dev, const ir_graph *graph,
                          const ir_node_rec *node, int32_t kernel, int members) {
    double measured = -1;
    const cost_entry *entry = find_entry(table, dev, graph, node, kernel, members);
    if (entry != NULL) {
        (void)ebb__cost_form(table, dev, graph, node, kernel, members, &measured);
    }
    if (measured >= 0) {
        return measured;
    }
    return entry != NULL && entry->estimate > 0
               ? entry->estimate
               : ebb__cost_seconds(dev, graph, node, kernel, members);
}
