/* lines.c - see lines.h. */
#include "kind/text/lines.h"

/* Ids of a line to `ids`, if that is not NULL; *n: how many. */
static ebb_status encode(model_use *u, kind_side side, const decode_line *line, int32_t *ids,
                         size_t *n) {
    use_line from = {.at = line->text, .end = line->text + line->bytes};
    use_token token;
    for (*n = 0;; ++*n) {
        TRY(ebb__use_next_token(u, side, &from, &token));
        if (ids != NULL) {
            ids[*n] = token.bytes > 0 ? (int32_t)token.id : VOCAB_EOS;
        }
        if (token.bytes == 0) {
            ++*n;
            return EBB_OK;
        }
    }
}

ebb_status ebb__lines_encode(model_use *u, kind_side side, const decode_line *lines, size_t n,
                             text_lines *out) {
    size_t each = 0;
    *out = (text_lines){.ctx = u->ctx};
    TRY(ebb__alloc(u->ctx, n + 1, sizeof *out->begin, &out->begin));
    for (size_t i = 0; i < n; i++) {
        TRY(encode(u, side, &lines[i], NULL, &each));
        out->begin[i + 1] = out->begin[i] + each;
    }
    TRY(ebb__alloc(u->ctx, out->begin[n] + 1, sizeof *out->ids, &out->ids));
    for (size_t i = 0; i < n; i++) {
        TRY(encode(u, side, &lines[i], out->ids + out->begin[i], &each));
    }
    return EBB_OK;
}

void ebb__lines_free(text_lines *lines) {
    ebb__free(lines->ctx, lines->ids);
    ebb__free(lines->ctx, lines->begin);
}
