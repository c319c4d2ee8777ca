/* cell.h - what the models share: products, dropout, a recurrent layer's parameters and one step of
 * it, the loss, starting weights. A model_builder is the graph and what every step needs; models
 * keep their own sizes beside it.
 *
 * A batch of B rows is V shards of B/V rows each, rows i*B/V and on being shard i. A model is built
 * V times, once a shard, on those rows. Parameters are read through views that form a binary tree,
 * a leaf a shard: so the gradient of a parameter is one chain for each shard, and those are added
 * up by that tree, whoever computes them and when. */
#ifndef MODEL_CELL_H
#define MODEL_CELL_H

#include "op/op.h"

typedef enum lm_cell { LM_LSTM, LM_GRU, LM_RNN } lm_cell;

/* A variable that several shards read. */
typedef struct model_shared {
    ir_val variable;
    ir_val all;    /* itself, or its rows by shards */
    ir_val *views; /* by shard; NULL but for parameters */
} model_shared;

typedef struct model_builder {
    ir_graph *g;
    lm_cell cell;
    int32_t batch;         /* B */
    int32_t shards, shard; /* V; the one being built */
    double dropout;        /* 0: none */
    uint64_t seed;         /* of the dropout masks */
    ir_val step;           /* i32 [1]; only with dropout */
    model_shared *shared;  /* with shards: what the first one made */
    int32_t n_shared;
    size_t cap_shared;
    ir_val *losses; /* by shard */
} model_builder;

/* Weights of one recurrent layer of width H, with G gates. */
typedef struct cell_params {
    ir_val w_ih, w_hh, b_ih, b_hh; /* [G*H, in], [G*H, H], [G*H], [G*H] */
    ir_val bias;                   /* b_ih + b_hh; the GRU keeps them apart */
    int32_t hidden;
} cell_params;

typedef struct cell_state {
    ir_val h, c; /* [B, H]; c only of the LSTM */
} cell_state;

/* A usage error unless V (0 counts as 1) divides B and the cells that V shards unroll are not too
 * many. */
ebb_status ebb__model_check_shards(const ir_graph *g, int64_t shards, int64_t batch,
                                   int64_t cells) EBB_MUST_CHECK;
/* Nodes that follow belong to this shard; B/V, the rows it has, is the B of what is said below. */
int32_t ebb__model_begin_shard(model_builder *b, int32_t shard);
/* A variable [rows, cols], or [cols] if rows is 0; what stands for it in this shard. */
ebb_status ebb__model_variable(model_builder *b, ir_role role, const char *name, ir_dtype dtype,
                               int32_t rows, int32_t cols, ir_val *out) EBB_MUST_CHECK;
/* The shard's rows of x, a variable whose first axis is the whole batch. */
ebb_status ebb__model_rows(const model_builder *b, ir_val x, ir_val *out) EBB_MUST_CHECK;
/* An i32 input of n blocks, each a row of the whole batch: the shard's rows of all blocks, [n*B];
 * *all: those of all shards one after the other. */
ebb_status ebb__model_blocks(model_builder *b, const char *name, int32_t n, ir_val *out,
                             ir_val *all) EBB_MUST_CHECK;
/* Nodes that follow belong to this layer, and to no time step yet. */
ebb_status ebb__model_layer(model_builder *b, const char *name) EBB_MUST_CHECK;
/* y = c + x w^T; x [B, K], w [N, K], c a bias [N], a sum so far [B, N], or absent. */
ebb_status ebb__model_linear(model_builder *b, ir_val c, ir_val x, ir_val w,
                             ir_val *y) EBB_MUST_CHECK;
/* *x [B, N] becomes its dropout at this site and time; without dropout it stays. */
ebb_status ebb__model_dropout(model_builder *b, const char *site, int32_t time,
                              ir_val *x) EBB_MUST_CHECK;
/* Takes the losses of the shard's rows; with the last shard's the graph's loss, named `name`, is
 * the mean over all labels (of all shards) that count. */
ebb_status ebb__model_loss(model_builder *b, ir_val rows, ir_val labels,
                           const char *name) EBB_MUST_CHECK;
/* Reverses a list of n values: stacks have time descending. */
void ebb__model_reverse(ir_val *xs, int32_t n);

/* [rows, cols] of zeros; a state of them. */
ebb_status ebb__model_zeros(model_builder *b, int32_t rows, int32_t cols,
                            ir_val *out) EBB_MUST_CHECK;
ebb_status ebb__cell_zeros(model_builder *b, int32_t rows, int32_t hidden,
                           cell_state *out) EBB_MUST_CHECK;
/* Adds the variables <prefix>.weight_ih_l<layer><suffix> and so on, as nn.LSTM names them. */
ebb_status ebb__cell_params(model_builder *b, const char *prefix, int32_t layer, const char *suffix,
                            int32_t inputs, int32_t hidden, cell_params *out) EBB_MUST_CHECK;
/* What x [B, in] brings to the gates, bias and all: z [B, G*H]. */
ebb_status ebb__cell_input(model_builder *b, const cell_params *p, ir_val x,
                           ir_val *z) EBB_MUST_CHECK;
/* One step from the state *s to the next, given the input's part of the gates. */
ebb_status ebb__cell_step(model_builder *b, const cell_params *p, ir_val z,
                          cell_state *s) EBB_MUST_CHECK;

/* Starting values, pure functions of seed and name: uniform in (-bound, bound), or normal. */
void ebb__model_uniform(const char *name, float bound, uint64_t seed, float *data, uint64_t count);
void ebb__model_normal(const char *name, uint64_t seed, float *data, uint64_t count);

#endif
