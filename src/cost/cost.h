/* cost.h - predicted seconds of nodes, and which form of its kernel a node takes. Bytes are exact
 * and live elsewhere (plan). Time is what was measured on this machine where the table knows the
 * node; else a model: the larger of arithmetic and traffic at the device's rates, plus a fixed
 * price an instruction. */
#ifndef COST_COST_H
#define COST_COST_H

#include "cost/table.h"
#include "device/device.h"

/* Kernels are indices in dev->kernels, or DEVICE_KERNEL_*. Tables may be NULL. */

/* The model alone: seconds of one node run by `members` threads. */
double ebb__cost_seconds(const device *dev, const ir_graph *graph, const ir_node_rec *node,
                         int32_t kernel, int members);
/* The same on one member, without the price of an instruction; and how many of `members` take part
 * in work that is worth so many seconds alone. */
double ebb__cost_alone(const device *dev, const ir_graph *graph, const ir_node_rec *node,
                       int32_t kernel);
int ebb__cost_members(const device *dev, double alone, int members);
/* What plans are compared by: the model, products scaled by a table's pace (0: none was measured).
 * A single measurement on a busy machine is too rough to choose a plan by; the median of all is
 * not. */
double ebb__cost_expected(double pace, const device *dev, const ir_graph *graph,
                          const ir_node_rec *node, int32_t kernel, int members);
/* Measured seconds of one node in the form that ebb__cost_form gives, else the model's. */
double ebb__cost_measured(const cost_table *table, const device *dev, const ir_graph *graph,
                          const ir_node_rec *node, int32_t kernel, int members);
/* Of the `n` forms that a kernel offers, best guess first: the first that was measured to be within
 * 8% of the fastest, else the best guess. *seconds: measured, or < 0. Only what is offered counts,
 * whatever the entry (may be NULL) holds. */
int32_t ebb__cost_pick(const cost_entry *entry, const int32_t *list, int32_t n, double *seconds);
/* The same for a node; seconds may be NULL. */
int32_t ebb__cost_form(const cost_table *table, const device *dev, const ir_graph *graph,
                       const ir_node_rec *node, int32_t kernel, int members, double *seconds);

#endif
