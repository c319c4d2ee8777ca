/* cell.h - what the models share: products, dropout, a recurrent layer's parameters and one step of
 * it, the loss. A model_builder is the graph and what every step needs; models
 * keep their own sizes beside it. */
#ifndef MODEL_CELL_H
#define MODEL_CELL_H

#include "op/op.h"

typedef enum lm_cell { LM_LSTM, LM_GRU, LM_RNN } lm_cell;

/* What parameters of the others of an ensemble are called: "2:enc.weight_ih_l0". No name has a
 * colon by itself. */
#define MODEL_MEMBER "%d:"

typedef struct model_builder {
    ir_graph *g;
    lm_cell cell;
    int32_t batch;  /* B */
    double dropout; /* 0: none */
    uint64_t seed;  /* of the dropout masks */
    ir_val step;    /* i32 [1]; only with dropout */
    int32_t member; /* of an ensemble, whose number its parameters have in front; 0: none, or the
                     * first */
} model_builder;

/* Weights of one recurrent layer of width H, with G gates. */
typedef struct cell_params {
    ir_val w_ih, w_hh, b_ih, b_hh; /* [G*H, in], [G*H, H], [G*H], [G*H] */
    ir_val bias;                   /* b_ih + b_hh; the GRU keeps them apart */
} cell_params;

typedef struct cell_state {
    ir_val h, c; /* [B, H]; c only of the LSTM */
} cell_state;

/* A variable [rows, cols], or [cols] if rows is 0. */
ebb_status ebb__model_variable(model_builder *b, ir_role role, const char *name, ir_dtype dtype,
                               int32_t rows, int32_t cols, ir_val *out) EBB_MUST_CHECK;
/* How a layer with so many inputs starts, as PyTorch's: uniform within 1/sqrt(inputs). */
ir_start ebb__model_uniform(int64_t inputs);
/* A parameter [rows, cols], or [cols] if rows is 0. */
ebb_status ebb__model_param(model_builder *b, const char *name, int32_t rows, int32_t cols,
                            ir_start start, ir_val *out) EBB_MUST_CHECK;
/* Nodes that follow belong to this layer, and to no time step yet. */
ebb_status ebb__model_layer(model_builder *b, const char *name) EBB_MUST_CHECK;
/* *x [B, N] becomes its dropout at this site and time; without dropout it stays. */
ebb_status ebb__model_dropout(model_builder *b, const char *site, int32_t time,
                              ir_val *x) EBB_MUST_CHECK;
/* The graph's loss, named `name`: the mean of the rows' losses over all labels that count. */
ebb_status ebb__model_loss(model_builder *b, ir_val rows, ir_val labels,
                           const char *name) EBB_MUST_CHECK;
/* Reverses a list of n values: stacks have time descending. */
void ebb__model_reverse(ir_val *xs, int32_t n);

/* [rows, cols] of zeros; a state of them. */
ebb_status ebb__model_zeros(model_builder *b, int32_t rows, int32_t cols,
                            ir_val *out) EBB_MUST_CHECK;
ebb_status ebb__cell_zeros(model_builder *b, int32_t rows, int32_t hidden,
                           cell_state *out) EBB_MUST_CHECK;
/* Adds the variables <prefix>.weight_ih_l<layer><suffix> and so on, as nn.LSTM names them and
 * starts them: uniform within 1/sqrt(hidden). */
ebb_status ebb__cell_params(model_builder *b, const char *prefix, int32_t layer, const char *suffix,
                            int32_t inputs, int32_t hidden, cell_params *out) EBB_MUST_CHECK;
/* What x [B, in] brings to the gates, bias and all: z [B, G*H]. */
ebb_status ebb__cell_input(model_builder *b, const cell_params *p, ir_val x,
                           ir_val *z) EBB_MUST_CHECK;
/* One step from the state *s to the next, given the input's part of the gates. */
ebb_status ebb__cell_step(model_builder *b, const cell_params *p, ir_val z,
                          cell_state *s) EBB_MUST_CHECK;

#endif
