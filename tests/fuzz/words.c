/* words.c - a line of text as decode and generate split it; the first byte chooses the mode. Tokens
 * come in order, none is empty, and what lies between them is white space. */
#include "fuzz/fuzz.h"
#include "train/use.h"

#include <stdlib.h>
#include <string.h>

static bool is_blank(const char *from, const char *to) {
    return strspn(from, " \t\n\v\f\r") >= (size_t)(to - from);
}

void fuzz_words(fuzz_room *room, fuzz_input input) {
    train_tokens mode = (train_tokens)(fuzz_byte(&input) % 3);
    char *text = fuzz_string(input);
    const char *at = text, *last = text, *end = text + input.left, *token = NULL;
    size_t length = 0;
    (void)room;
    while ((length = ebb__use_token(mode, &at, end, &token)) > 0) {
        fuzz_require(token >= last && token + length <= end && at == token + length,
                     "a token lies elsewhere");
        fuzz_require(mode == TOKENS_WORD ? is_blank(last, token) : token == last,
                     "something was left out");
        last = at;
    }
    fuzz_require(mode == TOKENS_WORD ? is_blank(last, end) : last == end, "the end was left out");
    free(text);
}
