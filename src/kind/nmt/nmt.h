/* nmt.h - the parts of the translation model's kind: batches of pairs (nmt.c), settings
 * (options.c), scores of validation (validate.c), a trained one in use (use.c). */
#ifndef KIND_NMT_NMT_H
#define KIND_NMT_NMT_H

#include "kind/text/use.h"

extern const sentence_inputs ebb__nmt_inputs; /* of a batch of pairs */

/* ---- options.c ---- */

enum { NMT_COMMANDS = 5 };
extern const option_list ebb__nmt_options;
extern const kind_command ebb__nmt_commands[NMT_COMMANDS];
void ebb__nmt_describe(const train_settings *s, char *text, size_t bytes);
ebb_status ebb__nmt_resolve(ebb_ctx *ctx, train_settings *s) EBB_MUST_CHECK;
ebb_status ebb__nmt_check(ebb_ctx *ctx, const train_settings *s) EBB_MUST_CHECK;

/* ---- validate.c: how well a model in training translates ---- */

typedef struct nmt_validation {
    run_session *session;
    translate_options options;
    const sentence_batches *pairs;
    const data_vocab *vocabs[KIND_SIDES]; /* to show samples, or to score words made of pieces */
    text_mode tokens;                     /* what they are */
    uint64_t samples;                     /* to be shown, spread over all pairs */
    const job_observer *observer;         /* may be NULL */
} nmt_validation;

/* Greedy translations of the validation sources: *bleu of tokens as they are or, of pieces, of the
 * words that they make. An unknown word never matches. *stopped if the observer asked to. */
ebb_status ebb__nmt_validate(ebb_ctx *ctx, const nmt_validation *validation, double *bleu,
                             bool *stopped) EBB_MUST_CHECK;

/* ---- use.c ---- */

/* How well the best weights of the run in `dir` predict targets; `s` are its settings. */
ebb_status ebb__nmt_measure(ebb_ctx *ctx, const train_settings *s, const char *dir,
                            const char *source, const char *target, const job_observer *observer,
                            text_eval_result *out) EBB_MUST_CHECK;
ebb_status ebb__nmt_eval(ebb_ctx *ctx, const train_settings *s, const char *const *words,
                         const job_observer *observer, kind_facts *out) EBB_MUST_CHECK;
ebb_status ebb__nmt_decode_open(ebb_ctx *ctx, const train_settings *s, const char *dir,
                                const decode_options *options, kind_open **out) EBB_MUST_CHECK;
ebb_status ebb__nmt_decode(kind_open *open, const decode_io *io,
                           decode_summary *out) EBB_MUST_CHECK;

/* ---- score.c ---- */

ebb_status ebb__nmt_score_open(ebb_ctx *ctx, const train_settings *s, const char *dir,
                               kind_open **out) EBB_MUST_CHECK;
ebb_status ebb__nmt_score(kind_open *open, const score_request *request) EBB_MUST_CHECK;

#endif
