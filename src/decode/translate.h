/* translate.h - beam search over the programs of a session: sentences in, hypotheses out, in order.
 *
 * The programs are pairs, one pair for each of a few source lengths S, the longest first: "read"
 * reads some sentences at once, "step" moves all hypotheses of all slots on by one token
 * (model/nmt_decode.h). There are B slots, each one sentence with K hypotheses. Sentences are read
 * ahead into a pool and taken from it longest first; when a sentence is done its slot is given to
 * the next, so that no slot waits for the longest. Results leave in the order of the sentences.
 *
 * A sentence's result depends on nothing but the sentence and the weights: not on its neighbours,
 * the number of slots, the pool or the threads. */
#ifndef DECODE_TRANSLATE_H
#define DECODE_TRANSLATE_H

#include "data/text.h"
#include "run/session.h"

enum { TRANSLATE_MOST_BEAM = 64, TRANSLATE_MOST_LENGTHS = 6 };

typedef struct translate_options {
    int32_t slots;   /* B: sentences at once */
    int32_t beam;    /* K: hypotheses of each */
    int32_t nbest;   /* of them wanted, 1..K */
    int32_t max_src; /* tokens of the longest source, its <eos> included */
    double alpha;    /* score = log probability / length^alpha, <eos> included */
    double ratio;    /* a hypothesis has at most ratio * source + 10 tokens */
    bool attention;
    bool attended;   /* what every token attended to most is wanted */
    bool ban_unk;    /* no hypothesis has <unk> */
    int32_t members; /* models of an ensemble; 0 is 1 (model/nmt_decode.h) */
} translate_options;

typedef struct translate_hypothesis {
    const int32_t *tokens;
    int32_t length;         /* without <eos> */
    bool ended;             /* by <eos>, not by its length */
    double log_prob, score; /* natural */
    const float
        *attention; /* [length + ended][source], NULL if not asked for, or the source is empty */
    const int32_t
        *attended; /* [length]: the source's position, not that of its <eos>; NULL likewise */
} translate_hypothesis;

typedef struct translate_result {
    uint64_t number;       /* of the sentence, from 0 */
    const int32_t *source; /* as it was read, <eos> last */
    int32_t source_length;
    int32_t n; /* best first; 1..nbest; an empty source has one empty hypothesis */
    translate_hypothesis best[TRANSLATE_MOST_BEAM];
} translate_result;

typedef enum translate_next {
    TRANSLATE_SENTENCE, /* one more */
    TRANSLATE_PAUSE,    /* none at the moment: translate what there is first */
    TRANSLATE_END
} translate_next;

typedef struct translate_io {
    void *user;
    /* Puts at most `room` ids of the next sentence, without <eos>, into `ids`. Called again after a
     * pause it waits. */
    ebb_status (*read)(void *user, int32_t *ids, int32_t room, int32_t *n, translate_next *got);
    ebb_status (*write)(void *user, const translate_result *result);
    bool (*stop)(void *user); /* NULL: never */
} translate_io;

/* Source lengths of the programs, the longest first; gives their number. */
int32_t ebb__translate_lengths(int32_t max_src, int32_t lengths[TRANSLATE_MOST_LENGTHS]);
/* Bytes of the plan's TRANSLATE_ROOM: pool, hypotheses, results. */
uint64_t ebb__translate_bytes(const translate_options *options);
#define TRANSLATE_ROOM "data.translate"
/* Sentences read ahead; sentences that are encoded at once; tokens that every hypothesis offers. */
int64_t ebb__translate_pool(const translate_options *options);
int32_t ebb__translate_read_rows(const translate_options *options);
int32_t ebb__translate_offers(const translate_options *options, int64_t vocab);

/* Tokens of a translation, <eos> included, of a source of so many, likewise. */
int32_t ebb__translate_limit(const translate_options *options, int32_t source);

/* By which use the programs were requested; each has an item a length (plan_request). */
typedef struct translate_uses {
    int32_t step, read;
} translate_uses;

/* The plan must have TRANSLATE_ROOM of ebb__translate_bytes(options), and both programs of every
 * ebb__translate_lengths, built with these options. EBB_STOPPED if stop() said so. Allocates
 * nothing. */
ebb_status ebb__translate(run_session *session, translate_uses uses,
                          const translate_options *options, const translate_io *io) EBB_MUST_CHECK;

/* A translation as it is handed out: with the words that its ids stand for. */
typedef struct decode_result {
    uint64_t line;                 /* from 1 */
    uint64_t tokens;               /* of the source; of a long one only the first were read */
    const translate_result *found; /* ids, scores, attention */
    const struct data_vocab *source, *target; /* ids to words */
    text_mode mode;                           /* what a token is: see ebb__text_join */
    const struct decode_words *words; /* of sources, to replace <unk>; NULL: it stays (words.h) */
} decode_result;
/* One of its hypotheses as text, in pieces. */
typedef void (*decode_put_fn)(void *user, const char *bytes, size_t n);
void ebb__decode_text(const decode_result *result, const translate_hypothesis *one,
                      decode_put_fn put, void *user);

#endif
