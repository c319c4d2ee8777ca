/* update.h - the optimiser as part of the graph: gradient norm, clipping, and one update node a
 * parameter whose results are the next values of the parameter and its slots. */
#ifndef GRAD_UPDATE_H
#define GRAD_UPDATE_H

#include "op/op.h"

typedef enum grad_optimizer { UPDATE_SGD, UPDATE_ADAM, UPDATE_ADAMW } grad_optimizer;

typedef struct grad_update_settings {
    grad_optimizer optimizer;
    float momentum; /* sgd */
    float beta1, beta2, eps;
    float weight_decay;
    float clip;   /* global norm; 0: off */
    bool average; /* every parameter has an exponential average beside it */
} grad_update_settings;

/* Variables the caller writes before each step. */
#define UPDATE_HYPER                                                                               \
    "train.hyper" /* f32 [4]: lr, lr/(1-beta1^t), sqrt(1-beta2^t), and by                          \
                     which share an average moves towards its parameter */
/* Outputs the caller may read after each step. */
#define UPDATE_NORM "train.grad_norm" /* f64 [1] */
#define UPDATE_BAD                                                                                 \
    "train.bad" /* i32 [1]: index of the first parameter (in order of variables)                   \
                   with a non-finite gradient; -1: none */
/* A parameter's gradient before clipping, where ir_value.show_grad asks for it: this, and its name.
 */
#define UPDATE_SHOWN "grad."
/* Slots are named "<slot>.<parameter>": "momentum.", "exp_avg.", "exp_avg_sq.", and with averages:
 */
#define UPDATE_AVERAGE "average"

/* grads[v]: gradient of variable v, from ebb__grad_build. */
ebb_status ebb__update_build(ir_graph *graph, const ir_val *grads, int32_t n_grads,
                             const grad_update_settings *settings) EBB_MUST_CHECK;

#endif
