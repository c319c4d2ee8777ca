/* words.c - a line of text as decode and generate split it; the first byte chooses the mode. Tokens
 * come in order, none is empty, and what lies between them is white space or ends a line. */
#include "data/text.h"
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

/* What may be left out: white space between words, a carriage return at the end of characters. */
static bool is_blank(text_mode mode, const char *from, const char *to) {
    const char *blank[] = {
        [TEXT_WORD] = " \t\v\f\r", [TEXT_CHAR] = "\r", [TEXT_BPE] = " \t\v\f\r", [TEXT_BYTE] = ""};
    size_t n = (size_t)(to - from);
    return strspn(from, blank[mode]) >= n && (mode == TEXT_WORD || mode == TEXT_BPE || n <= 1);
}

void fuzz_words(fuzz_room *room, fuzz_input input) {
    static const text_mode modes[] = {TEXT_WORD, TEXT_CHAR, TEXT_BYTE, TEXT_BPE};
    uint8_t chosen = fuzz_byte(&input);
    text_mode mode = modes[chosen == 3 ? 3 : chosen % 3];
    char *text = fuzz_string(input);
    const char *at = text, *last = text, *end = text + input.left, *token = NULL;
    (void)room;
    while (last < end) {
        size_t length = ebb__text_split(mode, &at, end, &token);
        fuzz_require(token >= last && token + length <= end && at == token + length,
                     "a token lies elsewhere");
        fuzz_require(is_blank(mode, last, token), "something was left out");
        fuzz_require(length > 0 || at == end || *at == '\n', "the end was left out");
        at += length == 0 && at < end;
        last = at;
    }
    free(text);
}
