/* codes_apply.c - a text with its words cut, as a filter: in one pass, through a buffer of one
 * word. Spaces at the beginning and the end of a line stay; between words there is one. */
#include "data/codes_words.h"

#include "data/sink.h"

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

ebb_status ebb__codes_apply(const data_codes *codes, const char *from, const char *to,
                            codes_applied *out) {
    ebb_ctx *ctx = codes->ctx;
    codes_filter f = {.codes = codes, .cutter = {.ctx = ctx}, .done = out};
    words_reader reader;
    words_item item = {.kind = WORDS_BREAK};
    *out = (codes_applied){0};
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
