/* lines.c - see lines.h. */
#include "kind/text/lines.h"

/* Ids of a line to `ids`, if that is not NULL; gives their number. */
static size_t encode(const model_use *u, kind_side side, const decode_line *line, int32_t *ids) {
    const data_vocab *vocab = ebb__use_vocab(u, side);
    const char *at = line->text, *end = at + line->bytes, *token = NULL;
    size_t n = 0, length;
    while ((length = ebb__text_split(u->s.tokens, &at, end, &token)) > 0) {
        if (ids != NULL) {
            ids[n] = (int32_t)ebb__vocab_find(vocab, token, length);
        }
        n++;
    }
    if (ids != NULL) {
        ids[n] = VOCAB_EOS;
    }
    return n + 1;
}

ebb_status ebb__lines_encode(const model_use *u, kind_side side, const decode_line *lines, size_t n,
                             text_lines *out) {
    *out = (text_lines){.ctx = u->ctx};
    TRY(ebb__alloc(u->ctx, n + 1, sizeof *out->begin, &out->begin));
    for (size_t i = 0; i < n; i++) {
        out->begin[i + 1] = out->begin[i] + encode(u, side, &lines[i], NULL);
    }
    TRY(ebb__alloc(u->ctx, out->begin[n] + 1, sizeof *out->ids, &out->ids));
    for (size_t i = 0; i < n; i++) {
        (void)encode(u, side, &lines[i], out->ids + out->begin[i]);
    }
    return EBB_OK;
}

void ebb__lines_free(text_lines *lines) {
    ebb__free(lines->ctx, lines->ids);
    ebb__free(lines->ctx, lines->begin);
}
