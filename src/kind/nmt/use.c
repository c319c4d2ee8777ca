/* use.c - using a trained translation model: how well it predicts targets; lines of text in,
 * translations out. */
#include "kind/text/use.h"

#include "base/host.h"
#include "decode/words.h"
#include "kind/nmt/nmt.h"

/* A longer source is cut: what is compiled grows with the longest one. */
enum { MOST_SOURCE = 2048 };

typedef struct line_decoder {
    model_use u;
    const char *dir;
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
static int32_t line_ids(line_decoder *d, const decode_line *line, int32_t *ids, int32_t room,
                        uint64_t *tokens) {
    const data_vocab *vocab = ebb__use_vocab(&d->u, KIND_SOURCE);
    const char *at = line->text, *end = at + line->bytes, *token = NULL;
    int32_t n = 0;
    size_t length;
    *tokens = 0;
    ebb__words_add_sentence(&d->words);
    while ((length = ebb__text_split(d->u.s.tokens, &at, end, &token)) > 0) {
        if (n < room) {
            uint32_t id = ebb__vocab_find(vocab, token, length);
            if (id == VOCAB_UNK) {
                d->sum->unknown++;
                ebb__words_add(&d->words, n, token, length);
            }
            ids[n++] = (int32_t)id;
        }
        ++*tokens;
    }
    return n;
}

/* Whether the line has more tokens than there is room for, but a plan could have it. */
static bool wants_room(line_decoder *d, const decode_line *line, int32_t room) {
    const char *at = line->text, *end = at + line->bytes, *token = NULL;
    uint64_t n = 0;
    if (line->bytes <= (size_t)room || d->o.max_src >= d->most_src) {
        return false;
    }
    while (ebb__text_split(d->u.s.tokens, &at, end, &token) > 0) {
        n++;
    }
    d->wanted = n;
    return n > (uint64_t)room;
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
    if (wants_room(d, &line, room)) {
        d->held = line;
        d->holds = true;
        *got = TRANSLATE_END; /* of this plan */
        return EBB_OK;
    }
    uint64_t *tokens = &d->tokens[d->read++ % (uint64_t)ebb__translate_pool(&d->o)];
    *n = line_ids(d, &line, ids, room, tokens);
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
                            .characters = d->u.s.tokens == TEXT_CHAR,
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

/* Everything anew, for sources of so many tokens. */
static ebb_status reopen(line_decoder *d, int32_t max_src, int32_t slots) {
    ebb__use_close(&d->u);
    d->u.vocabs = (text_vocabs){0};
    d->u.session = NULL;
    ebb__region_trim(d->u.ctx);
    d->o.max_src = max_src;
    d->o.slots = slots;
    return open_fitting(d, false);
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
        status = reopen(d, tries[i], slots);
    }
    if (d->o.max_src < need || d->o.max_src == MOST_SOURCE) {
        d->most_src = d->o.max_src;
    }
    return status;
}

/* Translates lines until there are no more, or one is held. */
static ebb_status translate_lines(line_decoder *d) {
    const translate_io lines = {d, read_line, write_line, should_stop};
    const translate_uses uses = {JOB_DECODE_STEP, JOB_DECODE_READ};
    decode_summary *sum = d->sum;
    TRY(ebb__alloc(d->u.ctx, (size_t)ebb__translate_pool(&d->o), sizeof *d->tokens, &d->tokens));
    if (d->replaces) {
        ebb__words_init(&d->o, ebb__run_host(d->u.session, JOB_LINES, NULL), &d->words);
    }
    double begin = ebb__clock_seconds();
    ebb_status status = ebb__translate(d->u.session, uses, &d->o, &lines);
    const run_session *session = d->u.session;
    sum->seconds += ebb__clock_seconds() - begin;
    sum->batch = d->o.slots;
    if (session->plan->peak_bytes > sum->planned_peak_bytes) {
        sum->planned_peak_bytes = session->plan->peak_bytes;
    }
    if (session->measured_bytes > sum->measured_peak_bytes) {
        sum->measured_peak_bytes = session->measured_bytes;
    }
    ebb__free(d->u.ctx, d->tokens);
    d->tokens = NULL;
    return status;
}

ebb_status ebb__nmt_decode(ebb_ctx *ctx, const train_settings *settings, const char *dir,
                           const decode_options *options, const decode_io *io,
                           decode_summary *out) {
    line_decoder d = {.u = {.ctx = ctx, .s = *settings},
                      .dir = dir,
                      .io = io,
                      .sum = out,
                      .o = {.slots = (int32_t)settings->batch,
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
    *out = (decode_summary){0};
    ebb_status status = open_fitting(&d, options->fixed_batch);
    if (status == EBB_OK) {
        status = translate_lines(&d);
    }
    while (status == EBB_OK && d.holds) {
        status = make_room(&d);
        status = status == EBB_OK ? translate_lines(&d) : status;
    }
    ebb__use_close(&d.u);
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
