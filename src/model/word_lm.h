/* word_lm.h - recurrent language model: embedding, L recurrent layers, projection, cross-entropy.
 * Built step by step, T times the same cell with shared weights; knows nothing of memory.
 * Parameters carry PyTorch's names, shapes and gate order (i f g o; r z n) and start as its modules
 * do: the embedding normal, all else uniform within 1/sqrt(H), a tied embedding too.
 *
 * Rows of `data.inputs` and `data.targets` ([T*B]) come with time descending by blocks of B (see
 * data/batcher.h): weight gradients are summed in this order. What stands in inputs after the last
 * target of a row that is not ignored changes no bit of the loss or of a gradient. */
#ifndef MODEL_WORD_LM_H
#define MODEL_WORD_LM_H

#include "model/cell.h"

typedef struct word_lm {
    lm_cell cell;
    int64_t layers, hidden, embed, vocab; /* L, H, E, V */
    int64_t batch, steps;                 /* B, T */
    bool tie;
    double dropout;    /* on the embedding, between layers, before the projection; training only */
    uint64_t seed;     /* of the dropout masks */
    const char *state; /* prefix of the carried state's names, e.g. "state"; NULL: every row is a
                          sentence, which starts from zeros, and nothing is carried */
    bool scratch;      /* the state is no part of a run: that of validation */
    bool predict;      /* output "logits" [T*B, V] instead of a loss */
    bool losses;       /* output "losses" [T*B] beside it */
} word_lm;

#define LM_INPUTS "data.inputs"   /* i32 [T*B] */
#define LM_TARGETS "data.targets" /* i32 [T*B], -1: ignored */
#define LM_STEP "train.step"      /* i32 [1]: number of the step, for dropout; only with dropout */
#define LM_LOSS "loss"            /* f32 [1]: mean over targets that are not ignored */
#define LM_LOGITS "logits"        /* f32 [T*B, V] */
#define LM_LOSSES "losses"        /* f32 [T*B]: of each target */

/* Builds into an empty graph made by ebb__op_graph_init. EBB_USAGE for sizes that make no sense. */
ebb_status ebb__word_lm_build(ir_graph *graph, const word_lm *model) EBB_MUST_CHECK;

#endif
