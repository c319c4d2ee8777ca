/* codes_apply.c - a text with its words cut, as a filter: in one pass, through a buffer of one
 * word. Spaces at the beginning and the end of a line stay; between words there is one. */
#include "data/codes_words.h"

#include "data/codes_gpt2.h"
#include "data/sink.h"

#include <stdio.h>

typedef struct codes_filter {
    const data_codes *codes;
    codes_cutter cutter;
    data_sink sink;
    uint64_t spaces; /* since the last word or line end, not written yet */
    bool inside;     /* the line had a word */
    codes_applied *done;
} codes_filter;

static ebb_status put_spaces(codes_filter *f, uint64_t n) {
    static const char spaces[] = "                                ";
    f->spaces = 0;
    while (n > 0) {
        size_t part = n < sizeof spaces - 1 ? (size_t)n : sizeof spaces - 1;
        TRY(ebb__sink_put(&f->sink, spaces, part));
        n -= part;
    }
    return EBB_OK;
}

static ebb_status put_word(codes_filter *f, const words_item *word) {
    TRY(put_spaces(f, f->inside && f->spaces > 0 ? 1 : f->spaces));
    TRY(ebb__codes_cut(f->codes, &f->cutter, word->bytes, word->length));
    for (size_t i = 0, begin = 0; i < f->cutter.n_ends; begin = f->cutter.ends[i++]) {
        if (i > 0) {
            TRY(ebb__sink_put(&f->sink, CODES_JOINER " ", CODES_JOINER_BYTES + 1));
        }
        TRY(ebb__sink_put(&f->sink, word->bytes + begin, f->cutter.ends[i] - begin));
    }
    f->done->words++;
    f->done->pieces += f->cutter.n_ends;
    f->done->bytes += word->length;
    f->inside = !word->closes;
    return EBB_OK;
}

static ebb_status put_item(codes_filter *f, const words_item *item) {
    switch (item->kind) {
    case WORDS_WORD:
        return put_word(f, item);
    case WORDS_SPACES:
        f->spaces += item->count;
        return EBB_OK;
    case WORDS_PAUSE:
        return ebb__sink_flush(&f->sink);
    case WORDS_BREAK:
        TRY(put_spaces(f, f->spaces));
        f->inside = false;
        return ebb__sink_put(&f->sink, &item->byte, 1);
    case WORDS_END:
        break;
    }
    return put_spaces(f, f->spaces);
}

/* ---- codes of bytes ---- */

static ebb_status put_number(data_sink *sink, int64_t number) {
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%lld", (long long)number);
    return ebb__sink_put(sink, digits, (size_t)n);
}

/* A token of the text: a piece, or a line end. */
static ebb_status put_token(codes_filter *f, const gpt2_ids *ids, const text_token *token) {
    if (token->kind == TEXT_EOS) {
        f->inside = false;
        return ebb__sink_put(&f->sink, "\n", 1);
    }
    TRY(ebb__sink_put(&f->sink, " ", f->inside));
    f->inside = true;
    f->done->pieces++;
    return ids != NULL ? put_number(&f->sink, ebb__gpt2_id(ids, token->bytes, token->length))
                       : ebb__codes_put_piece(&f->sink, CODES_BYTES, token->bytes, token->length);
}

static ebb_status apply_to_bytes(const data_codes *codes, const gpt2_ids *ids, const char *from,
                                 const char *to, codes_applied *out) {
    codes_filter f = {.done = out};
    text_reader reader;
    text_token token = {.kind = TEXT_EOS};
    TRY(ebb__text_open(codes->ctx, from, TEXT_BPE, "apply codes", NULL, &reader));
    ebb_status status = ebb__sink_open_any(codes->ctx, to, &f.sink);
    if (status == EBB_OK) {
        status = ebb__text_cut_with(&reader, codes);
    }
    while (status == EBB_OK && token.kind != TEXT_END) {
        status = ebb__text_next(&reader, &token);
        if (status == EBB_OK && token.kind != TEXT_END) {
            status = put_token(&f, ids, &token);
        }
    }
    out->words = reader.words - (reader.line - 1);
    out->bytes = reader.bytes;
    if (status == EBB_OK) {
        status = ebb__sink_commit(&f.sink);
    }
    ebb__sink_close(&f.sink);
    ebb__text_close(&reader);
    return status;
}

ebb_status ebb__codes_apply(const data_codes *codes, const gpt2_ids *ids, const char *from,
                            const char *to, codes_applied *out) {
    ebb_ctx *ctx = codes->ctx;
    codes_filter f = {.codes = codes, .cutter = {.ctx = ctx}, .done = out};
    words_reader reader;
    words_item item = {.kind = WORDS_BREAK};
    *out = (codes_applied){0};
    if (codes_of_bytes(codes)) {
        return apply_to_bytes(codes, ids, from, to, out);
    }
    TRY(ebb__words_open(ctx, from, "apply codes", &reader));
    ebb_status status = ebb__sink_open_any(ctx, to, &f.sink);
    if (status == EBB_OK) {
        status = ebb__codes_cutter_remember(&f.cutter);
    }
    while (status == EBB_OK && item.kind != WORDS_END) {
        status = ebb__words_next(&reader, &item);
        if (status == EBB_OK) {
            status = put_item(&f, &item);
        }
    }
    if (status == EBB_OK) {
        status = ebb__sink_commit(&f.sink);
    }
    ebb__sink_close(&f.sink);
    ebb__codes_cutter_free(&f.cutter);
    ebb__words_close(&reader);
    return status;
}
