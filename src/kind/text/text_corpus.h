/* text_corpus.h - the texts of a run: one, or two whose lines are pairs. What a corpus_calls of
 * texts can have as it is; a kind adds how its batches reach a program, and its scores. */
#ifndef KIND_TEXT_TEXT_CORPUS_H
#define KIND_TEXT_TEXT_CORPUS_H

#include "kind/text/sentence_set.h"
#include "kind/text/vocabs.h"

typedef struct text_corpus {
    corpus base;
    text_vocabs vocabs;        /* from measure() to store() */
    uint64_t given_hash;       /* of the vocabularies before new words were added */
    sentence_set train, valid; /* where batches are not of sentences: only their tokens */
} text_corpus;

/* The codes that the settings ask for, of texts that are cut by codes: learnt from those to train
 * on, in at most `most` bytes (0: no bound), or given ones. Before the vocabularies. */
ebb_status ebb__texts_take_codes(ebb_ctx *ctx, uint64_t most, text_vocabs *v) EBB_MUST_CHECK;
/* The vocabularies of the texts to train on, in lists of at most `most` bytes (0: no bound), or
 * those that the settings name. *given: the hash of what was counted or loaded, before new words
 * were added. Free them also after a failure. */
ebb_status ebb__texts_take_words(ebb_ctx *ctx, uint64_t most, text_vocabs *v,
                                 uint64_t *given) EBB_MUST_CHECK;

/* ---- calls of a corpus_calls ---- */

ebb_status ebb__texts_measure(corpus *c, uint64_t most, job_request *request) EBB_MUST_CHECK;
ebb_status ebb__texts_save(corpus *c) EBB_MUST_CHECK;
ebb_status ebb__texts_store(corpus *c) EBB_MUST_CHECK;
ebb_status ebb__texts_adopt(corpus *c) EBB_MUST_CHECK;
/* Reads the texts whole. */
ebb_status ebb__texts_compare(const corpus *stored, const char *dir, bool *train,
                              bool *valid) EBB_MUST_CHECK;
void ebb__texts_close(corpus *c);

#endif
