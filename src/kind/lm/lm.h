/* lm.h - what training and using a language model share: how batches of a text reach a program. */
#ifndef KIND_LM_LM_H
#define KIND_LM_LM_H

#include "data/batcher.h"
#include "kind/text/use.h"

extern const sentence_inputs ebb__lm_inputs; /* of a batch of sentences */

/* Windows of a text that is read as one stream, and the program and inputs that they are for. */
typedef struct lm_windows {
    data_batcher batches;
    run_session *session;
    int32_t program;
    run_place places[2]; /* inputs, targets */
} lm_windows;
/* `out` reads from *w, which it fills in. */
ebb_status ebb__lm_read_windows(const train_settings *s, const tokens_reader *tokens,
                                run_session *session, job_use use, lm_windows *w,
                                job_reader *out) EBB_MUST_CHECK;

/* ---- options.c ---- */

enum { LM_COMMANDS = 5 };
extern const option_list ebb__lm_options;
extern const kind_command ebb__lm_commands[LM_COMMANDS];
void ebb__lm_describe(const train_settings *s, char *text, size_t bytes);
const char *ebb__lm_lacks(const train_settings *s, const train_option *option);
ebb_status ebb__lm_resolve(ebb_ctx *ctx, train_settings *s) EBB_MUST_CHECK;
int32_t ebb__lm_usual(const train_settings *s, train_settings *models);

/* ---- use.c ---- */

/* How well the best weights of the run in `dir` predict a text; `s` are its settings. */
ebb_status ebb__lm_measure(ebb_ctx *ctx, const train_settings *s, const char *dir, const char *file,
                           const job_observer *observer, text_eval_result *out) EBB_MUST_CHECK;
ebb_status ebb__lm_eval(ebb_ctx *ctx, const train_settings *s, const char *const *words,
                        const job_observer *observer, kind_facts *out) EBB_MUST_CHECK;
ebb_status ebb__lm_generate_open(ebb_ctx *ctx, const train_settings *s, const char *dir,
                                 kind_open **out) EBB_MUST_CHECK;
ebb_status ebb__lm_generate(kind_open *open, const generate_options *options, generate_fn emit,
                            void *user) EBB_MUST_CHECK;

/* ---- score.c ---- */

ebb_status ebb__lm_score_open(ebb_ctx *ctx, const train_settings *s, const char *dir,
                              kind_open **out) EBB_MUST_CHECK;
ebb_status ebb__lm_score(kind_open *open, const score_request *request) EBB_MUST_CHECK;

#endif
