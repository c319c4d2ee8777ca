/* validate.c - greedy translations of validation sources, their BLEU against the targets, and some
 * of them to look at: see nmt.h. */
#include "kind/nmt/nmt.h"

#include "data/codes.h"
#include "decode/deal.h"
#include "score/bleu.h"

#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* the state's size, so that it can live on the stack */
#include <xxhash.h>

/* A translation has at most ratio * source + 10 tokens (translate.h). */
enum { MORE_TOKENS = 12 };

typedef struct validator {
    ebb_ctx *ctx;
    const nmt_validation *v;
    bleu_counts counts;
    uint64_t next; /* pair to read */
    uint32_t *ids; /* [most]: a target, then a translation's symbols */
    uint32_t most;
    uint64_t *hashes; /* of words that pieces make, of a translation and a target; so: */
    uint32_t *symbols;
    size_t room; /* words of both: a piece hardly ever holds two */
    bool stopped;
} validator;

static ebb_status read_source(void *user, int32_t *ids, int32_t room, int32_t *n,
                              translate_next *got) {
    validator *r = user;
    uint32_t length = 0;
    *got = r->next < r->v->pairs->sentences ? TRANSLATE_SENTENCE : TRANSLATE_END;
    if (*got == TRANSLATE_END) {
        return EBB_OK;
    }
    /* With its line end it is one longer than the room for it. */
    TRY(ebb__sentence_read(r->v->pairs, r->next++, false, (uint32_t *)ids, (uint32_t)room + 1,
                           &length));
    *n = (int32_t)length - 1;
    return EBB_OK;
}

/* Words as a text of its own; the caller's to free. */
static ebb_status text_of(const validator *r, kind_side side, const int32_t *ids, int32_t n,
                          char **out) {
    const data_vocab *vocab = r->v->vocabs[side];
    text_joint joint = codes_joint(r->v->tokens, vocab->codes);
    size_t bytes = 1, length = 0;
    for (int32_t i = 0; i < n; i++) {
        (void)ebb__vocab_token(vocab, (uint32_t)ids[i], &length);
        bytes += length + 1;
    }
    TRY(ebb__alloc(r->ctx, bytes, 1, out));
    char *to = *out;
    for (int32_t i = 0; i < n; i++) {
        const char *token = ebb__vocab_token(vocab, (uint32_t)ids[i], &length);
        bool space = false;
        length = ebb__text_join(&joint, token, length, &space);
        if (space) {
            *to++ = ' ';
        }
        memcpy(to, token, length);
        to += length;
    }
    *to = '\0';
    return EBB_OK;
}

static ebb_status show(const validator *r, const translate_result *result, const uint32_t *target,
                       uint32_t n) {
    char *source = NULL, *reference = NULL, *translation = NULL;
    const translate_hypothesis *best = &result->best[0];
    ebb_status status;
    TRY_OUT(text_of(r, KIND_SOURCE, result->source, result->source_length - 1, &source));
    TRY_OUT(text_of(r, KIND_TARGET, (const int32_t *)target, (int32_t)n, &reference));
    TRY_OUT(text_of(r, KIND_TARGET, best->tokens, best->length, &translation));
    r->v->observer->sample(r->v->observer->user, &(job_sample){source, reference, translation});
out:
    ebb__free(r->ctx, source);
    ebb__free(r->ctx, reference);
    ebb__free(r->ctx, translation);
    return status;
}

/* Samples are spread evenly. */
static bool is_sample(const nmt_validation *v, uint64_t number) {
    uint64_t every = v->samples > 0 ? (v->pairs->sentences + v->samples - 1) / v->samples : 0;
    return every > 0 && number % every == every / 2 && v->vocabs[KIND_TARGET] != NULL &&
           v->observer != NULL && v->observer->sample != NULL;
}

/* A word whose pieces come one after the other. */
typedef struct word_hash {
    XXH3_state_t state;
    bool open, unknown;
} word_hash;

/* The word ends: it is the symbol behind the `words` there are. */
static size_t end_word(validator *r, word_hash *word, size_t words) {
    if (!word->open || words == r->room) {
        return words;
    }
    word->open = false;
    r->hashes[words] = XXH3_64bits_digest(&word->state);
    size_t same = 0;
    while (r->hashes[same] != r->hashes[words]) {
        same++;
    }
    r->symbols[words] = word->unknown ? BLEU_NEVER : (uint32_t)same;
    return words + 1;
}

static void add_byte(word_hash *word, const char *byte, bool unknown) {
    if (!word->open) {
        XXH3_64bits_reset(&word->state);
        word->unknown = false;
    }
    word->open = true;
    word->unknown = word->unknown || unknown;
    XXH3_64bits_update(&word->state, byte, 1);
}

/* Words that the pieces make, as symbols behind the first `first`, equal where the words are; gives
 * their number. One with a piece that the vocabulary has not never matches. White space is between
 * pieces or, of codes of bytes, in them. */
static size_t join_words(validator *r, const uint32_t *ids, uint32_t n, size_t first) {
    const data_vocab *vocab = r->v->vocabs[KIND_TARGET];
    text_joint joint = codes_joint(TEXT_BPE, vocab->codes);
    size_t words = first;
    word_hash word = {.open = false};
    for (uint32_t i = 0; i < n; i++) {
        size_t length = 0;
        bool space = false;
        const char *piece = ebb__vocab_token(vocab, ids[i], &length);
        length = ebb__text_join(&joint, piece, length, &space);
        words = space ? end_word(r, &word, words) : words;
        for (size_t at = 0; at < length; at++) {
            if (text_is_space((unsigned char)piece[at])) {
                words = end_word(r, &word, words);
            } else {
                add_byte(&word, piece + at, ids[i] == VOCAB_UNK);
            }
        }
    }
    return end_word(r, &word, words) - first;
}

static ebb_status score_translation(void *user, const translate_result *result) {
    validator *r = user;
    const translate_hypothesis *best = &result->best[0];
    uint32_t n = 0;
    TRY(ebb__sentence_read(r->v->pairs, result->number, true, r->ids, r->most, &n));
    n--; /* its line end */
    if (is_sample(r->v, result->number)) {
        TRY(show(r, result, r->ids, n));
    }
    if (r->v->tokens == TEXT_BPE) {
        size_t found = join_words(r, (const uint32_t *)best->tokens, (uint32_t)best->length, 0);
        size_t wanted = join_words(r, r->ids, n, found);
        ngram_text own = {r->symbols, found}, ref = {r->symbols + found, wanted};
        return ebb__bleu_add(r->ctx, &r->counts, own, &ref, 1);
    }
    /* Every word that the vocabulary has not is another one: none matches. */
    for (uint32_t i = 0; i < n; i++) {
        r->ids[i] = r->ids[i] == VOCAB_UNK ? BLEU_NEVER : r->ids[i];
    }
    ngram_text hyp = {(const uint32_t *)best->tokens, (size_t)best->length};
    return ebb__bleu_add(r->ctx, &r->counts, hyp, &(ngram_text){r->ids, n}, 1);
}

static bool should_stop(void *user) {
    validator *r = user;
    const job_observer *observer = r->v->observer;
    r->stopped = observer != NULL && observer->stop != NULL && observer->stop(observer->user);
    return r->stopped;
}

ebb_status ebb__nmt_validate(ebb_ctx *ctx, const nmt_validation *v, double *bleu, bool *stopped) {
    validator r = {.ctx = ctx, .v = v};
    translate_io io = {&r, read_source, score_translation, should_stop};
    for (int32_t i = 0; i < v->pairs->shapes.n; i++) {
        r.most = num_larger32(r.most, v->pairs->shapes.at[i].target);
    }
    size_t words = (size_t)(v->options.ratio * v->options.max_src) + MORE_TOKENS + r.most;
    r.room = words;
    ebb_status status;
    TRY_OUT(ebb__alloc(ctx, r.most, sizeof *r.ids, &r.ids));
    TRY_OUT(ebb__alloc(ctx, v->tokens == TEXT_BPE ? words : 0, sizeof *r.hashes, &r.hashes));
    TRY_OUT(ebb__alloc(ctx, v->tokens == TEXT_BPE ? words : 0, sizeof *r.symbols, &r.symbols));
    status = ebb__deal_translate(v->session, (translate_uses){JOB_DECODE_STEP, JOB_DECODE_READ},
                                 &v->options, &io);
    if (r.stopped && status == EBB_STOPPED) {
        ebb__ctx_clear(ctx);
        status = EBB_OK;
    }
    *bleu = ebb__bleu_score(&r.counts);
    *stopped = r.stopped;
out:
    ebb__free(ctx, r.hashes);
    ebb__free(ctx, r.symbols);
    ebb__free(ctx, r.ids);
    return status;
}
