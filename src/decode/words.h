/* words.h - words of sources that the vocabulary does not have, kept as they were typed while their
 * sentences are translated; and the words of a translation, where such a one may stand for <unk>.
 *
 * Memory is the caller's, of ebb__words_bytes. A word of more than WORDS_MOST_BYTES is not kept. */
#ifndef DECODE_WORDS_H
#define DECODE_WORDS_H

#include "decode/translate.h"

enum { WORDS_MOST_BYTES = 1000 };

typedef struct decode_words {
    char *room;     /* NULL: nothing is kept */
    size_t bytes;   /* of it */
    size_t used;    /* of these */
    size_t longest; /* that the words of one sentence can take */
    size_t *first;  /* [pool], as a ring: where those of a sentence begin */
    uint64_t pool;
    uint64_t added, dropped; /* sentences */
} decode_words;

/* For the sentences of a pool, and one more of the longest words. */
uint64_t ebb__words_bytes(const translate_options *options);
void ebb__words_init(const translate_options *options, void *room, decode_words *out);
/* Whether another sentence has room, whatever it says. There is, once all are dropped. */
bool ebb__words_fit(const decode_words *words);
/* A sentence follows; then a word of it, which stands at `position`. */
void ebb__words_add_sentence(decode_words *words);
void ebb__words_add(decode_words *words, int32_t position, const char *word, size_t bytes);
/* The first sentence is done. */
void ebb__words_drop(decode_words *words);

/* Word i of a translation: the token's or, of <unk> where the source's words were kept, the source
 * word that it attended to most. */
const char *ebb__decode_word(const decode_result *result, const translate_hypothesis *of, int32_t i,
                             size_t *bytes);

#endif
