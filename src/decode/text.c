/* text.c - hypotheses as text. */
#include "decode/words.h"

#include "data/codes.h"
#include "data/vocab.h"

void ebb__decode_text(const decode_result *result, const translate_hypothesis *one,
                      decode_put_fn put, void *user) {
    text_joint joint = codes_joint(result->mode, result->target->codes);
    for (int32_t i = 0; i < one->length; i++) {
        size_t n = 0;
        bool space = false;
        const char *token = ebb__decode_word(result, one, i, &n);
        n = ebb__text_join(&joint, token, n, &space);
        if (space) {
            put(user, " ", 1);
        }
        put(user, token, n);
    }
}
