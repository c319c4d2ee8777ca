/* vocabs.h - the vocabularies of a run, by side, and the codes whose pieces they hold. One text has
 * only that of the target. Two may share one: then it is the target's, and the source has none of
 * its own. Files have the names that the kind gives them (model_kind.vocab_file); until the run
 * takes its folder they are fresh ones, and their names end in .new instead of .txt. */
#ifndef KIND_TEXT_VOCABS_H
#define KIND_TEXT_VOCABS_H

#include "data/codes.h"
#include "data/vocab.h"
#include "train/job_int.h"

typedef struct text_vocabs {
    const train_settings *s;
    data_vocab at[KIND_SIDES];    /* empty where the side has none of its own */
    data_codes codes[KIND_SIDES]; /* of TEXT_BPE, likewise */
} text_vocabs;

/* Whether the side has codes of its own, and the name that they have in the run's folder. */
bool ebb__vocabs_has_codes(const train_settings *s, kind_side side);
ebb_status ebb__vocabs_codes_path(ebb_ctx *ctx, const train_settings *s, kind_side side,
                                  const char *dir, bool fresh,
                                  char out[JOB_PATH_BYTES]) EBB_MUST_CHECK;
/* Those of a side, its own or those of both; NULL: tokens are no pieces. */
const data_codes *ebb__vocabs_codes(const text_vocabs *v, kind_side side);
/* Vocabularies learn whose pieces they have: once both are there. */
void ebb__vocabs_join_codes(text_vocabs *v);

/* Whether the side has a vocabulary of its own. */
bool ebb__vocabs_has(const train_settings *s, kind_side side);
ebb_status ebb__vocabs_path(ebb_ctx *ctx, const train_settings *s, kind_side side, const char *dir,
                            bool fresh, char out[JOB_PATH_BYTES]) EBB_MUST_CHECK;
/* That of a side, its own or the shared one. */
const data_vocab *ebb__vocabs_of(const text_vocabs *v, kind_side side);
uint64_t ebb__vocabs_hash(const text_vocabs *v);

/* Bytes of all, and moving them there. */
uint64_t ebb__vocabs_room(const text_vocabs *v);
void ebb__vocabs_move(text_vocabs *v, char *to);

/* All of them, codes too. Free also after a failure. */
ebb_status ebb__vocabs_load(ebb_ctx *ctx, const char *dir, bool fresh,
                            text_vocabs *v) EBB_MUST_CHECK;
ebb_status ebb__vocabs_save(ebb_ctx *ctx, const char *dir, const text_vocabs *v) EBB_MUST_CHECK;
/* Fresh ones get their names. */
ebb_status ebb__vocabs_adopt(ebb_ctx *ctx, const char *dir, const text_vocabs *v) EBB_MUST_CHECK;
void ebb__vocabs_free(text_vocabs *v);

#endif
