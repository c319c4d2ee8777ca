/* nmt.h - translation with attention: an encoder whose first layer reads both ways, a decoder that
 * attends to it at every step, cross-entropy. Built step by step from small ops with shared
 * weights; knows nothing of memory. Letters: B sentences, S and T positions of source and target,
 * E embed, H hidden, V vocabularies.
 *
 * Rows of `data.src` ([S*B]), `data.tgt_in` and `data.tgt_out` ([T*B]) come with time descending by
 * blocks of B: block j is position S-1-j of the source, step T-1-j of the target. Source cells at
 * and after a sentence's length are padding, and target cells after its last label (the others are
 * -1). Which words of the vocabulary stand in padding changes no bit of the loss or of a gradient.
 * An empty source (length 0) gives a context of zeros.
 *
 * Parameters, with PyTorch's names, shapes and gate order (G gates: 4, 3 or 1), start as its
 * modules do: embeddings normal (uniform within 1/sqrt(H) if tied to the projection), the norm's
 * gain 1 and bias 0, recurrent weights uniform within 1/sqrt(own hidden size), all else within
 * 1/sqrt(its inputs):
 *
 *   src_embed.weight        [Vs, E]      not with tie_src: then the other serves both
 *   tgt_embed.weight        [Vt, E]
 *   enc.weight_ih_l0        [G*H/2, E]   and weight_hh, bias_ih, bias_hh; each also with _reverse:
 *                                        a bidirectional nn.LSTM(E, H/2)
 *   enc.weight_ih_l1 ..     [G*H, H]     nn.LSTM(H, H, enc_layers - 1), its l0 being our l1
 *                                        with bidirectional: nn.LSTM(E, H/2, enc_layers, both
 * ways), [G*H/2, H] and _reverse in every layer dec.weight_ih_l0        [G*H, E+H]   nn.LSTMCell;
 * columns: embedding, then fed vector (if fed) dec.weight_ih_l1 ..     [G*H, H] attn.key.weight [H,
 * H] attn.query.weight .bias [H, H] [H]   MLP only attn.score.weight       [H]          MLP only
 *   attn.norm.weight .bias  [H]          layer_norm only: of key + query (MLP), the query (dot)
 *   mix.weight .bias        [H, 2H] [H]  columns: decoder's output, then context
 *   out.weight .bias        [Vt, H] [Vt] weight not with tie
 */
#ifndef MODEL_NMT_H
#define MODEL_NMT_H

#include "model/cell.h"

typedef enum nmt_attention { NMT_MLP, NMT_DOT } nmt_attention;

typedef struct nmt_model {
    lm_cell cell;
    nmt_attention attention;
    int64_t src_vocab, tgt_vocab, embed, hidden; /* hidden even: half for each way of layer 0 */
    int64_t enc_layers, dec_layers;
    int64_t batch, src_len, tgt_len; /* B, S, T */
    bool feed;                       /* the mixed vector joins the next step's input */
    bool layer_norm;                 /* of the attention */
    bool bidirectional;              /* every encoder layer reads both ways, not only the first */
    bool residual;                   /* every layer after the first adds its input to its output */
    bool init_decoder; /* decoder layers start from the final states of the encoder's */
    bool tie;          /* out.weight is tgt_embed.weight: needs embed == hidden */
    bool tie_src;      /* src_embed.weight is tgt_embed.weight: needs one vocabulary for both */
    double dropout;    /* on embeddings, between layers, before the projection; training only */
    double smoothing;  /* of the labels: the share that goes to all classes alike */
    uint64_t seed;     /* of the dropout masks */
    bool predict;      /* output "logits" [T*B, Vt] instead of a loss */
    bool losses;       /* output "losses" [T*B] beside it */
} nmt_model;

#define NMT_SRC "data.src"         /* i32 [S*B] */
#define NMT_SRC_LEN "data.src_len" /* i32 [B]: tokens of each source, 0..S */
#define NMT_TGT_IN "data.tgt_in"   /* i32 [T*B] */
#define NMT_TGT_OUT "data.tgt_out" /* i32 [T*B], -1: ignored; absent with predict */
#define NMT_STEP "train.step"      /* i32 [1]: number of the step, for dropout; only with dropout */
#define NMT_LOGITS "logits"        /* f32 [T*B, Vt] */
#define NMT_LOSSES "losses"        /* f32 [T*B]: of each label, 0 where it is ignored */
#define NMT_LOSS "loss"            /* f32 [1]: mean over labels that are not ignored */

/* Builds into an empty graph made by ebb__op_graph_init. EBB_USAGE for sizes that make no sense. */
ebb_status ebb__nmt_build(ir_graph *graph, const nmt_model *model) EBB_MUST_CHECK;

#endif
