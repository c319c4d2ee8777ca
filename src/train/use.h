/* use.h - a trained run opened to be used: its vocabularies, its best weights and one plan that
 * holds both, programs and all. */
#ifndef TRAIN_USE_H
#define TRAIN_USE_H

#include "data/vocab.h"
#include "train/job_int.h"
#include "train/sentence_set.h"

typedef struct model_use {
    ebb_ctx *ctx;
    train_settings s;
    data_vocab vocabs[KIND_SIDES]; /* what one side shares with the other, and what is absent, is
                                      empty: see ebb__use_vocab */
    run_session *session;
} model_use;

/* Opens the run in `dir` as u->s says; what else to plan is in `request`. The vocabularies lie in
 * the plan. To be closed in any case. */
ebb_status ebb__use_open(model_use *u, const char *dir, job_request request) EBB_MUST_CHECK;
/* The two halves of that, for who needs to know the vocabularies before what to plan; the request
 * then has them. A plan that does not fit is EBB_BUDGET, and another can be tried. */
ebb_status ebb__use_open_vocabs(model_use *u, const char *dir, job_request *request) EBB_MUST_CHECK;
ebb_status ebb__use_open_model(model_use *u, const char *dir,
                               const job_request *request) EBB_MUST_CHECK;
void ebb__use_close(model_use *u);

/* Of sources or of targets; a language model has only the latter. */
const data_vocab *ebb__use_vocab(const model_use *u, kind_side side);

/* Of the weights that a new run starts from (settings->init_path): EBB_USAGE if the vocabulary that
 * lies beside them, as in the folder of a run, is not the one of the new run's texts, whose hash is
 * given: every embedding would stand for another token. Weights that lie alone can be anything. */
ebb_status ebb__use_check_init(ebb_ctx *ctx, const train_settings *settings,
                               uint64_t hash) EBB_MUST_CHECK;

/* sentence_eval.c: how well the run in `dir` predicts sentences; `texts` by side, of a language
 * model only the target's. Opens it as ebb__use_open does; the result's pairs are sentences. */
ebb_status ebb__sentence_eval(model_use *u, const char *dir, const char *const texts[KIND_SIDES],
                              const sentence_inputs *inputs, const job_observer *observer,
                              nmt_eval_result *out) EBB_MUST_CHECK;

#endif
