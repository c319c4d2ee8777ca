/* text.c - hypotheses as text. */
#include "decode/translate.h"

#include "data/vocab.h"

void ebb__decode_text(const decode_result *result, const translate_hypothesis *one,
                      decode_put_fn put, void *user) {
    for (int32_t i = 0; i < one->length; i++) {
        size_t n = 0;
        const char *token = ebb__vocab_token(result->target, (uint32_t)one->tokens[i], &n);
        if (i > 0 && !result->characters) {
            put(user, " ", 1);
        }
        put(user, token, n);
    }
}
