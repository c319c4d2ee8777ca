/* words.c - see words.h. Words of all sentences follow each other in the room, each after its
 * position and length; the room is empty again when all sentences are done, which a pool is before
 * the next is read. */
#include "decode/words.h"

#include "data/vocab.h"

#include <string.h>

enum { USUAL_BYTES = 64 }; /* of a sentence */

typedef struct word_head {
    int32_t position;
    uint32_t bytes;
} word_head;

static size_t longest_of(const translate_options *o) {
    return (size_t)o->max_src * (sizeof(word_head) + WORDS_MOST_BYTES);
}

static size_t ring_bytes(const translate_options *o) {
    return (size_t)ebb__translate_pool(o) * sizeof(size_t);
}

uint64_t ebb__words_bytes(const translate_options *o) {
    uint64_t usual = (uint64_t)ebb__translate_pool(o) * USUAL_BYTES;
    return ring_bytes(o) + usual + longest_of(o);
}

void ebb__words_init(const translate_options *o, void *room, decode_words *out) {
    *out = (decode_words){.room = (char *)room + ring_bytes(o),
                          .bytes = (size_t)ebb__words_bytes(o) - ring_bytes(o),
                          .longest = longest_of(o),
                          .first = room,
                          .pool = (uint64_t)ebb__translate_pool(o)};
}

bool ebb__words_fit(const decode_words *words) {
    return words->room == NULL || words->bytes - words->used >= words->longest;
}

void ebb__words_add_sentence(decode_words *words) {
    if (words->room != NULL) {
        words->first[words->added++ % words->pool] = words->used;
    }
}

void ebb__words_add(decode_words *words, int32_t position, const char *word, size_t bytes) {
    word_head head = {position, (uint32_t)bytes};
    if (words->room == NULL || bytes > WORDS_MOST_BYTES) {
        return;
    }
    memcpy(words->room + words->used, &head, sizeof head);
    memcpy(words->room + words->used + sizeof head, word, bytes);
    words->used += sizeof head + bytes;
}

void ebb__words_drop(decode_words *words) {
    words->dropped += words->room != NULL;
    if (words->dropped == words->added) {
        words->used = 0;
    }
}

/* The word at a position of the first sentence that is not done; NULL: it was not kept. */
static const char *find(const decode_words *words, int32_t position, size_t *bytes) {
    uint64_t next = words->dropped + 1;
    size_t at = words->first[words->dropped % words->pool];
    size_t end = next < words->added ? words->first[next % words->pool] : words->used;
    while (at < end) {
        word_head head;
        memcpy(&head, words->room + at, sizeof head);
        at += sizeof head;
        if (head.position == position) {
            *bytes = head.bytes;
            return words->room + at;
        }
        at += head.bytes;
    }
    return NULL;
}

const char *ebb__decode_word(const decode_result *result, const translate_hypothesis *of, int32_t i,
                             size_t *bytes) {
    const decode_words *words = result->words;
    if (of->tokens[i] == VOCAB_UNK && of->attended != NULL && words != NULL &&
        words->room != NULL) {
        int32_t position = of->attended[i], id = result->found->source[position];
        const char *word = id == VOCAB_UNK ? find(words, position, bytes)
                                           : ebb__vocab_token(result->source, (uint32_t)id, bytes);
        if (word != NULL) {
            return word;
        }
    }
    return ebb__vocab_token(result->target, (uint32_t)of->tokens[i], bytes);
}
