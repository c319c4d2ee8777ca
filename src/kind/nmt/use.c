/* use.c - using a trained translation model: how well it predicts targets; lines of text in,
 * translations out. */
#include "kind/text/use.h"

#include "base/host.h"
#include "kind/nmt/nmt.h"

typedef struct line_decoder {
    kind_open base;
    model_use u;
    const decode_io *io;
    decode_summary *sum;
    translate_options o;
    uint64_t *tokens; /* by sentence of the pool, as a ring: how many it had */
    uint64_t read, written;
} line_decoder;

/* Ids of as many tokens as there is room for; the others are only counted. */
static ebb_status line_ids(line_decoder *d, const decode_line *line, int32_t *ids, int32_t room,
                           int32_t *n, uint64_t *tokens) {
    use_line from = {.at = line->text, .end = line->text + line->bytes};
    use_token token;
    *tokens = 0;
    *n = 0;
    for (;;) {
        TRY(ebb__use_next_token(&d->u, KIND_SOURCE, &from, &token));
        if (token.bytes == 0) {
            return EBB_OK;
        }
        if (*n < room) {
            d->sum->unknown += token.id == VOCAB_UNK;
            ids[(*n)++] = (int32_t)token.id;
        }
        ++*tokens;
    }
}

static ebb_status read_line(void *user, int32_t *ids, int32_t room, int32_t *n,
                            translate_next *got) {
    line_decoder *d = user;
    decode_line line = {0};
    TRY(d->io->read(d->io->user, &line, got));
    if (*got != TRANSLATE_SENTENCE) {
        return EBB_OK;
    }
    uint64_t *tokens = &d->tokens[d->read++ % (uint64_t)ebb__translate_pool(&d->o)];
    TRY(line_ids(d, &line, ids, room, n, tokens));
    d->sum->lines++;
    d->sum->tokens += *tokens;
    if (*tokens > (uint64_t)room) {
        d->sum->first_cut = d->sum->cut++ == 0 ? d->sum->lines : d->sum->first_cut;
    }
    return EBB_OK;
}

static ebb_status write_line(void *user, const translate_result *found) {
    line_decoder *d = user;
    decode_result result = {.line = found->number + 1,
                            .tokens =
                                d->tokens[d->written++ % (uint64_t)ebb__translate_pool(&d->o)],
                            .found = found,
                            .source = ebb__use_vocab(&d->u, KIND_SOURCE),
                            .target = ebb__use_vocab(&d->u, KIND_TARGET),
                            .mode = d->u.s.tokens};
    return d->io->write(d->io->user, &result);
}

static bool should_stop(void *user) {
    const line_decoder *d = user;
    return d->io->stop != NULL && d->io->stop(d->io->user);
}

/* Fewer sentences at once take less memory and give the same translations. */
static ebb_status open_fitting(line_decoder *d, const char *dir, bool fixed) {
    job_request request = {0};
    TRY(ebb__use_open_vocabs(&d->u, dir, &request));
    for (;;) {
        request.decode = d->o;
        ebb_status status = ebb__use_open_model(&d->u, dir, &request);
        if (status != EBB_BUDGET || fixed || d->o.slots == 1) {
            return status;
        }
        ebb__ctx_clear(d->u.ctx);
        ebb__region_trim(d->u.ctx); /* a smaller budget is no reason to hold more */
        d->o.slots /= 2;
    }
}

static void close_decoder(kind_open *open) {
    line_decoder *d = (line_decoder *)open;
    ebb_ctx *ctx = d->u.ctx;
    ebb__free(ctx, d->tokens);
    ebb__use_close(&d->u);
    ebb__free(ctx, d);
}

ebb_status ebb__nmt_decode_open(ebb_ctx *ctx, const train_settings *settings, const char *dir,
                                const decode_options *options, kind_open **out) {
    line_decoder *d = NULL;
    ebb_status status;
    TRY(ebb__alloc(ctx, 1, sizeof *d, &d));
    *d = (line_decoder){.base = {.close = close_decoder},
                        .u = {.ctx = ctx, .s = *settings},
                        .o = {.slots = (int32_t)settings->batch,
                              .beam = (int32_t)options->beam,
                              .nbest = (int32_t)options->nbest,
                              .max_src = (int32_t)settings->max_len + 1,
                              .alpha = options->alpha,
                              .ratio = options->max_ratio,
                              .attention = options->attention}};
    TRY_OUT(open_fitting(d, dir, options->fixed_batch));
    TRY_OUT(ebb__alloc(ctx, (size_t)ebb__translate_pool(&d->o), sizeof *d->tokens, &d->tokens));
    d->base.session = d->u.session;
    *out = &d->base;
    return EBB_OK;
out:
    close_decoder(&d->base);
    return status;
}

ebb_status ebb__nmt_decode(kind_open *open, const decode_io *io, decode_summary *out) {
    line_decoder *d = (line_decoder *)open;
    translate_io lines = {d, read_line, write_line, should_stop};
    *out = (decode_summary){.batch = d->o.slots};
    d->io = io;
    d->sum = out;
    d->read = d->written = 0;
    double begin = ebb__clock_seconds();
    ebb_status status = ebb__translate(
        d->u.session, (translate_uses){JOB_DECODE_STEP, JOB_DECODE_READ}, &d->o, &lines);
    out->seconds = ebb__clock_seconds() - begin;
    out->planned_peak_bytes = d->u.session->plan->peak_bytes;
    out->measured_peak_bytes = d->u.session->measured_bytes;
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
