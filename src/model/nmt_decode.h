/* nmt_decode.h - the translation model as it is used: a graph that reads sources, and one that
 * moves hypotheses on by one token. Names and weights are those of nmt.h.
 *
 * Letters as there; beside them B slots, a sentence each, of K hypotheses: row k*B + b is
 * hypothesis k of slot b. The memory of all slots is [Smax*B, H], time descending from position
 * Smax-1 on; a step for sources of at most S positions reads its last S blocks. Who runs a step
 * writes memory and keys of a new sentence there, row by row, and zeros the rows of its state, or
 * writes there what was read (NMT_READ_START). Of an ensemble every member has memory, keys and
 * states of its own; sources and tokens are the same.
 */
#ifndef MODEL_NMT_DECODE_H
#define MODEL_NMT_DECODE_H

#include "model/nmt.h"

typedef struct nmt_decode {
    nmt_model model; /* batch: B; src_len: S; no dropout; tgt_len does not matter */
    int64_t most;    /* Smax */
    int64_t beam;    /* K */
    int64_t offers;  /* likeliest tokens given for every row */
    bool attention;  /* weights are wanted */
    int32_t members; /* models of these sizes, each with weights of its own, whose probabilities and
                      * attention weights are averaged; 0 is 1 */
} nmt_decode;
enum { NMT_MOST_MEMBERS = 16 };

/* The name that a member has for a value below: that of the first is the name itself. */
typedef struct nmt_name {
    char text[64];
} nmt_name;
nmt_name ebb__nmt_member(const char *name, int32_t member);

/* Reads `rows` sentences of at most S positions. */
#define NMT_READ_SRC "decode.src" /* i32 [S*rows], time descending */
#define NMT_READ_LEN "decode.len" /* i32 [rows] */
#define NMT_READ_MEMORY "memory"  /* output, f32 [S*rows, H], time descending */
#define NMT_READ_KEYS "keys"      /* output, f32 [S*rows, H] */
/* Of init_decoder also what decoder layers start from, f32 [rows, H]: names begin so, and go on as
 * those of the states that steps carry. */
#define NMT_READ_START "decode.start"
ebb_status ebb__nmt_decode_read(ir_graph *graph, const nmt_decode *decode,
                                int64_t rows) EBB_MUST_CHECK;

/* One token for every row: of the state of row parent[r], after token[r]. */
#define NMT_STEP_MEMORY "decode.memory" /* f32 [Smax*B, H] */
#define NMT_STEP_KEYS "decode.keys"     /* f32 [Smax*B, H] */
#define NMT_STEP_LEN "decode.src_len"   /* i32 [B]: 0 for an empty slot */
#define NMT_STEP_TOKEN "decode.token"   /* i32 [K*B] */
#define NMT_STEP_PARENT "decode.parent" /* i32 [K*B] */
#define NMT_STEP_STATE "decode.state"   /* names of states begin so; IR_SCRATCH, f32 [K*B, H] */
#define NMT_STEP_LOGS "logs"            /* output, f32 [K*B, offers]: log probabilities */
#define NMT_STEP_IDS "ids"              /* output, i32 [K*B, offers]: their tokens */
#define NMT_STEP_ATTENTION "attention"  /* output, f32 [K*S, B]; only where wanted */
ebb_status ebb__nmt_decode_step(ir_graph *graph, const nmt_decode *decode) EBB_MUST_CHECK;

#endif
