/* beam.h - the search for one sentence: which hypotheses live on, which are done, when to stop.
 * Knows scores and token ids only; all memory is the caller's.
 *
 * A step: every living hypothesis k offers its `2 beam` likeliest next tokens. The 2 beam best
 * of all offers, by summed log probability (ties: the lower hypothesis, then the lower token id),
 * are looked at in order: <eos> among the first `beam` ends a hypothesis, which goes to the list of
 * the done ones; the others live on until `beam` do. The search ends when `beam` hypotheses have
 * ended, when none lives, or at the length limit, where the living ones count as they are, not
 * ended. So a beam of 1 takes the likeliest token until that is <eos>.
 *
 * Done hypotheses are ordered by score; of equal ones the earlier comes first. A log probability
 * that is NaN counts as -inf. A banned token is offered to nobody; the probabilities of the others
 * stay as they are.
 */
#ifndef DECODE_BEAM_H
#define DECODE_BEAM_H

#include "ebb.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct beam_options {
    int32_t beam, nbest; /* nbest at most beam; 2 beam * limit fits in int32 */
    double alpha;        /* score = log_prob / length^alpha, length counting <eos> */
    int32_t limit;       /* tokens of a hypothesis, <eos> included */
    int32_t eos;         /* its id */
    bool bans;           /* no hypothesis has the token `banned` */
    int32_t banned;
} beam_options;

/* A token of the tree of hypotheses; all of a sentence share it. */
typedef struct beam_node {
    int32_t token;
    int32_t parent; /* index of the node before, -1: none */
} beam_node;

typedef struct beam_live {
    double log_prob;
    int32_t node; /* of its last token, -1: none yet */
} beam_live;

typedef struct beam_done {
    double log_prob, score;
    int32_t node; /* of its last token, <eos> if it ended */
    int32_t length;
    bool ended;
} beam_done;

typedef struct beam_offer {
    double log_prob; /* summed */
    int32_t parent;  /* which living hypothesis */
    int32_t token;
} beam_offer;

typedef struct beam_search {
    beam_options o;
    beam_node *nodes; /* [ebb__beam_nodes] */
    int32_t n_nodes;
    beam_live *live; /* [beam] */
    int32_t n_live;  /* 1 before the first step, then at most beam */
    beam_done *done; /* [beam]: the best so far, best first */
    int32_t n_done;
    beam_offer *offers; /* [2 beam]: the best of a step, best first */
    int32_t n_ended;    /* all that ended, also those no longer in the list */
    int32_t length;     /* steps so far */
    bool finished;
} beam_search;

/* Memory of one search, aligned to 8. */
size_t ebb__beam_bytes(const beam_options *options);
/* Most nodes: each step `beam` that live on and as many that end, but in the first one end. Those
 * of a step follow those before; who ends without getting on the list has none. */
int32_t ebb__beam_nodes(const beam_options *options);
void ebb__beam_start(beam_search *search, const beam_options *options, void *memory);

/* One step, of a search that is not finished. ids[k * width + i], log_probs[k * width + i]: the
 * i-th likeliest token of living hypothesis k and the natural logarithm of its probability, best
 * first; width >= min(2 beam, vocabulary), with a banned token one more. parents[j], tokens[j] for
 * j < n_live: from which hypothesis the new j-th one comes, and its last token. Sets finished. */
void ebb__beam_step(beam_search *search, const float *log_probs, const int32_t *ids, int32_t width,
                    int32_t *parents, int32_t *tokens);
/* Tokens of a done hypothesis, without <eos>: fills out[0 .. count), gives count; `nodes`, if not
 * NULL, gets the index of each token's node, that of <eos>, if it ended, last. */
int32_t ebb__beam_tokens(const beam_search *search, const beam_done *done, int32_t *out,
                         int32_t *nodes);

#endif
