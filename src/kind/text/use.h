/* use.h - a trained run opened to be used: its vocabularies, its best weights and one plan that
 * holds both, programs and all. */
#ifndef KIND_TEXT_USE_H
#define KIND_TEXT_USE_H

#include "kind/text/text_corpus.h"

/* How well a trained run predicts a text, or targets of pairs. */
typedef struct text_eval_result {
    uint64_t tokens, words, bytes, unknown; /* predicted tokens; words and bytes of the text */
    double loss;                            /* mean negative log likelihood a token, nats */
    double token_perplexity, word_perplexity, bits_per_byte;
    uint64_t sentences, left_out; /* lines used; empty or too long; not by sentence 0 */
    uint64_t source_unknown;      /* of pairs */
    uint64_t planned_peak_bytes, measured_peak_bytes;
} text_eval_result;
/* The same as facts; `sentences`: what those are called ("pairs"). */
void ebb__text_facts(const text_eval_result *r, const char *sentences, kind_facts *out);

typedef struct model_use {
    ebb_ctx *ctx;
    train_settings s;
    text_vocabs vocabs;
    codes_cutter cutter; /* of TEXT_BPE */
    run_session *session;
    const char *const *more; /* folders of the other members of an ensemble; NULL: there are none */
    int32_t n_more;
} model_use;

/* Opens the run in `dir` as u->s says; what else to plan is in `request`. The vocabularies lie in
 * the plan. To be closed in any case. */
ebb_status ebb__use_open(model_use *u, const char *dir, job_request request) EBB_MUST_CHECK;
/* The two halves of that, for who needs to know the vocabularies before what to plan; the request
 * then has them. A plan that does not fit is EBB_BUDGET, and another can be tried. */
ebb_status ebb__use_open_vocabs(model_use *u, const char *dir, job_request *request) EBB_MUST_CHECK;
ebb_status ebb__use_open_model(model_use *u, const char *dir,
                               const job_request *request) EBB_MUST_CHECK;
/* The same with a smaller batch, half as large each time, until it fits: fewer lines at once take
 * less memory. */
ebb_status ebb__use_open_fitting(model_use *u, const char *dir,
                                 const job_request *request) EBB_MUST_CHECK;
void ebb__use_close(model_use *u);

/* Of sources or of targets; a language model has only the latter. */
const data_vocab *ebb__use_vocab(const model_use *u, kind_side side);

/* Lines that users type, token by token: at a line end, and at the end of all, a token has no bytes
 * and `at` stays there. */
typedef struct use_line {
    const char *at, *end;
    const char *word; /* whose pieces are being given; NULL: none */
    size_t piece;
} use_line;
typedef struct use_token {
    uint32_t id;
    const char *text; /* the token as vocabularies have it, or as typed; until the next call */
    size_t bytes;
} use_token;
ebb_status ebb__use_next_token(model_use *u, kind_side side, use_line *line,
                               use_token *out) EBB_MUST_CHECK;

/* Of the weights that a new run in a folder starts from (settings->init_path): EBB_USAGE if the
 * vocabulary and codes that they were trained with are not those of the new run, whose hash is
 * `own` (before new words): every embedding would stand for another token. They are told by the
 * weights' note, else by what lies beside them; weights without either can be anything. */
ebb_status ebb__use_check_init(const corpus *c, uint64_t own) EBB_MUST_CHECK;
/* Whether all vocabularies of a run lie in the folder. */
ebb_status ebb__use_find_vocabs(ebb_ctx *ctx, const train_settings *s, const char *dir,
                                bool *out) EBB_MUST_CHECK;

/* sentence_eval.c: how well the run in `dir` predicts sentences; `texts` by side, of a language
 * model only the target's. Opens it as ebb__use_open does. */
ebb_status ebb__sentence_eval(model_use *u, const char *dir, const char *const texts[KIND_SIDES],
                              const sentence_inputs *inputs, const job_observer *observer,
                              text_eval_result *out) EBB_MUST_CHECK;

#endif
