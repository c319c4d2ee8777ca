/* use.c - using a trained translation model: how well it predicts targets; lines of text in,
 * translations out. */
#include "kind/text/use.h"

#include "base/host.h"
#include "decode/words.h"
#include "kind/nmt/nmt.h"

#include <string.h>

/* A longer source is cut: what is compiled grows with the longest one. */
enum { MOST_SOURCE = 2048 };

typedef struct line_decoder {
    kind_open base;
    model_use u;
    char *dir;
    const decode_io *io;
    decode_summary *sum;
    translate_options o;
    bool replaces; /* <unk> by words of the source */
    decode_words words;
    uint64_t *tokens; /* by sentence of the pool, as a ring: how many it had */
    uint64_t read, written;
    bool holds; /* a line that was too long waits for a plan that has room */
    decode_line held;
    uint64_t wanted;  /* its tokens */
    int32_t most_src; /* no plan has room for longer sources */
} line_decoder;

/* Ids of as many tokens as there is room for; the others are only counted. */
static ebb_status line_ids(line_decoder *d, const decode_line *line, int32_t *ids, int32_t room,
                           int32_t *n, uint64_t *tokens) {
    use_line from = {.at = line->text, .end = line->text + line->bytes};
    use_token token;
    *tokens = 0;
    *n = 0;
    ebb__words_add_sentence(&d->words);
    for (;;) {
        TRY(ebb__use_next_token(&d->u, KIND_SOURCE, &from, &token));
        if (token.bytes == 0) {
            return EBB_OK;
        }
        if (*n < room) {
            if (token.id == VOCAB_UNK) {
                d->sum->unknown++;
                ebb__words_add(&d->words, *n, token.text, token.bytes);
            }
            ids[(*n)++] = (int32_t)token.id;
        }
        ++*tokens;
    }
}

/* Whether the line has more tokens than there is room for, but a plan could have it. */
static ebb_status wants_room(line_decoder *d, const decode_line *line, int32_t room, bool *out) {
    use_line from = {.at = line->text, .end = line->text + line->bytes};
    use_token token = {.bytes = 1};
    *out = false;
    d->wanted = 0;
    if (line->bytes <= (size_t)room || d->o.max_src >= d->most_src) {
        return EBB_OK; /* a token has a byte at least */
    }
    while (token.bytes > 0) {
        TRY(ebb__use_next_token(&d->u, KIND_SOURCE, &from, &token));
        d->wanted += token.bytes > 0;
    }
    *out = d->wanted > (uint64_t)room;
    return EBB_OK;
}

static ebb_status next_line(line_decoder *d, decode_line *line, translate_next *got) {
    if (d->holds) {
        *line = d->held;
        *got = TRANSLATE_SENTENCE;
        d->holds = false;
        return EBB_OK;
    }
    return d->io->read(d->io->user, line, got);
}

static ebb_status read_line(void *user, int32_t *ids, int32_t room, int32_t *n,
                            translate_next *got) {
    line_decoder *d = user;
    decode_line line = {0};
    *got = TRANSLATE_PAUSE;
    if (!ebb__words_fit(&d->words)) {
        return EBB_OK;
    }
    TRY(next_line(d, &line, got));
    if (*got != TRANSLATE_SENTENCE) {
        return EBB_OK;
    }
    TRY(wants_room(d, &line, room, &d->holds));
    if (d->holds) {
        d->held = line;
        *got = TRANSLATE_END; /* of this plan */
        return EBB_OK;
    }
    uint64_t *tokens = &d->tokens[d->read++ % (uint64_t)ebb__translate_pool(&d->o)];
    TRY(line_ids(d, &line, ids, room, n, tokens));
    d->sum->lines++;
    d->sum->tokens += *tokens;
    if (*tokens > (uint64_t)room) {
        d->sum->first_cut = d->sum->cut++ == 0 ? d->sum->lines : d->sum->first_cut;
        d->sum->most_tokens = (uint64_t)room;
    }
    return EBB_OK;
}

static ebb_status write_line(void *user, const translate_result *found) {
    line_decoder *d = user;
    uint64_t number = d->written++;
    decode_result result = {.line = number + 1,
                            .tokens = d->tokens[number % (uint64_t)ebb__translate_pool(&d->o)],
                            .found = found,
                            .source = ebb__use_vocab(&d->u, KIND_SOURCE),
                            .target = ebb__use_vocab(&d->u, KIND_TARGET),
                            .mode = d->u.s.tokens,
                            .words = d->replaces ? &d->words : NULL};
    TRY(d->io->write(d->io->user, &result));
    ebb__words_drop(&d->words);
    return EBB_OK;
}

static bool should_stop(void *user) {
    const line_decoder *d = user;
    return d->io->stop != NULL && d->io->stop(d->io->user);
}

/* Fewer sentences at once take less memory and give the same translations. */
static ebb_status open_fitting(line_decoder *d, bool fixed) {
    job_request request = {0};
    TRY(ebb__use_open_vocabs(&d->u, d->dir, &request));
    for (;;) {
        request.decode = d->o;
        request.line_bytes = d->replaces ? ebb__words_bytes(&d->o) : 0;
        ebb_status status = ebb__use_open_model(&d->u, d->dir, &request);
        if (status != EBB_BUDGET || fixed || d->o.slots == 1) {
            return status;
        }
        ebb__ctx_clear(d->u.ctx);
        ebb__region_trim(d->u.ctx); /* a smaller budget is no reason to hold more */
        d->o.slots /= 2;
    }
}

/* Run, plan and what goes with it, for sources of at most o.max_src tokens. */
static ebb_status open_plan(line_decoder *d, bool fixed) {
    TRY(open_fitting(d, fixed));
    TRY(ebb__alloc(d->u.ctx, (size_t)ebb__translate_pool(&d->o), sizeof *d->tokens, &d->tokens));
    if (d->replaces) {
        ebb__words_init(&d->o, ebb__run_host(d->u.session, JOB_LINES, NULL), &d->words);
    }
    d->base.session = d->u.session;
    return EBB_OK;
}

static void close_plan(line_decoder *d) {
    ebb__free(d->u.ctx, d->tokens);
    ebb__use_close(&d->u);
    d->tokens = NULL;
    d->u = (model_use){.ctx = d->u.ctx, .s = d->u.s, .more = d->u.more, .n_more = d->u.n_more};
    d->words = (decode_words){0};
    d->base.session = NULL;
}

/* A plan for the line that is held, and for others that are somewhat longer; if there is no memory
 * for that, for just this one; else the old one, and this one is cut. */
static ebb_status make_room(line_decoder *d) {
    int32_t before = d->o.max_src, slots = d->o.slots;
    int32_t need = d->wanted < MOST_SOURCE ? (int32_t)d->wanted + 1 : MOST_SOURCE;
    int32_t ample = need < MOST_SOURCE / 3 * 2 ? need / 2 * 3 : MOST_SOURCE;
    const int32_t tries[] = {ample, need, before};
    ebb_status status = EBB_BUDGET;
    for (int i = 0; status == EBB_BUDGET && i < 3; i++) {
        ebb__ctx_clear(d->u.ctx);
        close_plan(d);
        ebb__region_trim(d->u.ctx);
        d->o.max_src = tries[i];
        d->o.slots = slots;
        status = open_plan(d, false);
    }
    if (d->o.max_src < need || d->o.max_src == MOST_SOURCE) {
        d->most_src = d->o.max_src;
    }
    return status;
}

static void close_decoder(kind_open *open) {
    line_decoder *d = (line_decoder *)open;
    ebb_ctx *ctx = d->u.ctx;
    close_plan(d);
    ebb__free(ctx, d->dir);
    ebb__free(ctx, d);
}

ebb_status ebb__nmt_decode_open(ebb_ctx *ctx, const train_settings *settings, const char *dir,
                                const decode_options *options, kind_open **out) {
    line_decoder *d = NULL;
    ebb_status status;
    TRY(ebb__alloc(ctx, 1, sizeof *d, &d));
    *d = (line_decoder){
        .base = {.close = close_decoder},
        .u = {.ctx = ctx, .s = *settings, .more = options->more, .n_more = options->n_more},
        .o = {.members = options->n_more + 1,
              .slots = (int32_t)settings->batch,
              .beam = (int32_t)options->beam,
              .nbest = (int32_t)options->nbest,
              .max_src = (int32_t)settings->max_len + 1,
              .alpha = options->alpha,
              .ratio = options->max_ratio,
              .attention = options->attention,
              .attended = options->unk == DECODE_UNK_REPLACE,
              .ban_unk = options->unk == DECODE_UNK_BAN},
        .replaces = options->unk == DECODE_UNK_REPLACE,
        .most_src = MOST_SOURCE};
    TRY_OUT(ebb__alloc(ctx, strlen(dir) + 1, 1, &d->dir));
    memcpy(d->dir, dir, strlen(dir) + 1);
    TRY_OUT(open_plan(d, options->fixed_batch));
    *out = &d->base;
    return EBB_OK;
out:
    close_decoder(&d->base);
    return status;
}

/* Translates lines until there are no more, or one is held. */
static ebb_status translate_lines(line_decoder *d) {
    const translate_io lines = {d, read_line, write_line, should_stop};
    const run_session *session = d->u.session;
    decode_summary *sum = d->sum;
    double begin = ebb__clock_seconds();
    ebb_status status = ebb__translate(
        d->u.session, (translate_uses){JOB_DECODE_STEP, JOB_DECODE_READ}, &d->o, &lines);
    sum->seconds += ebb__clock_seconds() - begin;
    sum->batch = d->o.slots;
    if (session->plan->peak_bytes > sum->planned_peak_bytes) {
        sum->planned_peak_bytes = session->plan->peak_bytes;
    }
    if (session->measured_bytes > sum->measured_peak_bytes) {
        sum->measured_peak_bytes = session->measured_bytes;
    }
    return status;
}

ebb_status ebb__nmt_decode(kind_open *open, const decode_io *io, decode_summary *out) {
    line_decoder *d = (line_decoder *)open;
    *out = (decode_summary){0};
    d->io = io;
    d->sum = out;
    d->read = d->written = 0;
    d->words.added = d->words.dropped = d->words.used = 0; /* of a call that failed */
    d->holds = false;
    ebb_status status = EBB_OK;
    if (d->base.session == NULL) { /* a larger plan could not be made the last time */
        close_plan(d);
        status = open_plan(d, false);
    }
    status = status == EBB_OK ? translate_lines(d) : status;
    while (status == EBB_OK && d->holds) {
        status = make_room(d);
        status = status == EBB_OK ? translate_lines(d) : status;
    }
    return status;
}

ebb_status ebb__nmt_measure(ebb_ctx *ctx, const train_settings *settings, const char *dir,
                            const char *source, const char *target, const job_observer *observer,
                            text_eval_result *out) {
    const char *const texts[KIND_SIDES] = {source, target};
    model_use u = {.ctx = ctx, .s = *settings};
    ebb_status status = ebb__sentence_eval(&u, dir, texts, &ebb__nmt_inputs, observer, out);
    ebb__use_close(&u);
    return status;
}

ebb_status ebb__nmt_eval(ebb_ctx *ctx, const train_settings *s, const char *const *words,
                         const job_observer *observer, kind_facts *out) {
    text_eval_result found;
    TRY(ebb__nmt_measure(ctx, s, words[0], words[1], words[2], observer, &found));
    ebb__text_facts(&found, "pairs", out);
    ebb__facts_count(out, "source_unknown", found.source_unknown);
    return EBB_OK;
}
