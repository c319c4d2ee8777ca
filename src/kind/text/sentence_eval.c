/* sentence_eval.c - perplexity of a trained run on a text of sentences, or on pairs of them: how
 * well it predicts the targets, each word given the words before it and the source, if there is
 * one. */
#include "kind/text/line_scores.h"
#include "kind/text/sentence_set.h"
#include "kind/text/use.h"

#include "base/file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* What is in a line of text. */
typedef struct line_counts {
    uint64_t tokens, words, bytes, unknown; /* tokens and words with the line end */
    bool ended;                             /* there was none */
} line_counts;

static ebb_status count_line(text_reader *text, const data_vocab *vocab, line_counts *out) {
    uint64_t words = text->words, bytes = text->bytes;
    text_token token = {.kind = TEXT_TOKEN};
    *out = (line_counts){0};
    while (token.kind == TEXT_TOKEN) {
        TRY(ebb__text_next(text, &token));
        out->tokens += token.kind != TEXT_END;
        out->unknown += token.kind == TEXT_TOKEN &&
                        ebb__vocab_find(vocab, token.bytes, token.length) == VOCAB_UNK;
    }
    out->ended = token.kind == TEXT_END;
    out->words = text->words - words;
    out->bytes = text->bytes - bytes;
    return EBB_OK;
}

/* Of the lines that are used. */
static ebb_status count_lines(const model_use *u, bool pairs, text_reader texts[KIND_SIDES],
                              text_eval_result *out) {
    for (;;) {
        line_counts source = {0}, target;
        TRY(count_line(&texts[KIND_TARGET], ebb__use_vocab(u, KIND_TARGET), &target));
        if (pairs) {
            TRY(count_line(&texts[KIND_SOURCE], ebb__use_vocab(u, KIND_SOURCE), &source));
        }
        if (source.ended || target.ended) {
            return EBB_OK;
        }
        bool parted = u->s.split_long && !pairs && target.tokens > 1;
        if (parted || ebb__lengths_usable(pairs ? source.tokens : target.tokens, target.tokens,
                                          (uint32_t)u->s.max_len)) {
            out->source_unknown += source.unknown;
            out->unknown += target.unknown;
            out->words += target.words;
            out->bytes += target.bytes;
        }
    }
}

static ebb_status count_texts(const model_use *u, const char *const files[KIND_SIDES],
                              text_eval_result *out) {
    text_mode mode = u->s.tokens;
    bool pairs = files[KIND_SOURCE] != NULL;
    text_reader texts[KIND_SIDES];
    int first = pairs ? KIND_SOURCE : KIND_TARGET, opened = first;
    ebb_status status = EBB_OK;
    for (; opened < KIND_SIDES && status == EBB_OK; opened += status == EBB_OK) {
        status = ebb__text_open(u->ctx, files[opened], mode, "count", NULL, &texts[opened]);
    }
    for (int side = first; side < KIND_SIDES && status == EBB_OK; side++) {
        status = ebb__text_cut_with(&texts[side], ebb__use_vocab(u, (kind_side)side)->codes);
    }
    status = status == EBB_OK ? count_lines(u, pairs, texts, out) : status;
    for (int side = first; side < opened; side++) {
        ebb__text_close(&texts[side]);
    }
    return status;
}

/* Ids and index in files without a name; the paths are for messages. */
static ebb_status store_sentences(const model_use *u, const char *dir,
                                  const char *const files[KIND_SIDES], sentence_set *set) {
    static const char *const names[] = {"eval.src.tokens", "eval.tgt.tokens", "eval.index"};
    char text[KIND_SIDES + 1][JOB_PATH_BYTES];
    const char *const paths[KIND_SIDES + 1] = {text[0], text[1], text[2]};
    const data_vocab *vocabs[KIND_SIDES] = {ebb__use_vocab(u, KIND_SOURCE),
                                            ebb__use_vocab(u, KIND_TARGET)};
    for (int i = 0; i <= KIND_SIDES; i++) {
        TRY(ebb__job_path(u->ctx, dir, names[i], text[i]));
    }
    return ebb__sentence_set_store(u->ctx, &u->s, files, vocabs, paths, false, set);
}

static ebb_status evaluate(model_use *u, sentence_set *set, const sentence_inputs *inputs,
                           const job_observer *observer, text_eval_result *out) {
    job_score score;
    job_reader reader;
    TRY(ebb__sentence_set_reader(set, u->session, JOB_VALID, inputs, &reader));
    if (observer != NULL && observer->line != NULL) {
        ebb__line_scores_begin(set, u->session, &reader);
    }
    TRY(ebb__job_score(u->session, &reader, observer, &score));
    if (score.stopped) {
        return ebb__fail(u->ctx, EBB_STOPPED, "stopped before all sentences were read");
    }
    text_eval_result *r = out;
    r->sentences = set->sentences;
    r->left_out = set->left_out;
    r->tokens = score.tokens;
    r->loss = score.loss_sum / (double)score.tokens;
    r->token_perplexity = exp(r->loss);
    r->word_perplexity = exp(score.loss_sum / (double)r->words);
    r->bits_per_byte = score.loss_sum / log(2.0) / (double)r->bytes;
    r->planned_peak_bytes = u->session->plan->peak_bytes;
    r->measured_peak_bytes = u->session->measured_bytes;
    return EBB_OK;
}

ebb_status ebb__sentence_eval(model_use *u, const char *dir, const char *const texts[KIND_SIDES],
                              const sentence_inputs *inputs, const job_observer *observer,
                              text_eval_result *out) {
    job_request request = {.valid = true};
    sentence_set set;
    ebb_status status;
    *out = (text_eval_result){0};
    ebb__sentence_set_init(&set);
    TRY_OUT(ebb__use_open_vocabs(u, dir, &request));
    const data_codes *codes[KIND_SIDES] = {ebb__vocabs_codes(&u->vocabs, KIND_SOURCE),
                                           ebb__vocabs_codes(&u->vocabs, KIND_TARGET)};
    TRY_OUT(ebb__sentence_set_scan(u->ctx, &u->s, texts, codes, false, 0, &set));
    TRY_OUT(ebb__sentence_set_choose_few(&u->s, &set));
    request.shapes = request.valid_shapes = ebb__sentence_set_shapes(&set);
    if (observer != NULL && observer->line != NULL) {
        request.line_bytes = ebb__line_scores_bytes(&set);
    }
    TRY_OUT(ebb__use_open_model(u, dir, &request));
    TRY_OUT(count_texts(u, texts, out));
    TRY_OUT(store_sentences(u, dir, texts, &set));
    TRY_OUT(evaluate(u, &set, inputs, observer, out));
    if (observer != NULL && observer->line != NULL) {
        TRY_OUT(ebb__line_scores_give(&set, observer));
    }
out:
    ebb__sentence_set_close(&set);
    return status;
}

void ebb__text_facts(const text_eval_result *r, const char *sentences, kind_facts *out) {
    int n = 0;
    *out = (kind_facts){0};
    ebb__facts_count(out, "tokens", r->tokens);
    ebb__facts_count(out, "words", r->words);
    ebb__facts_count(out, "bytes", r->bytes);
    ebb__facts_count(out, "unknown", r->unknown);
    ebb__facts_real(out, "loss", r->loss);
    ebb__facts_real(out, "token_perplexity", r->token_perplexity);
    ebb__facts_real(out, "word_perplexity", r->word_perplexity);
    ebb__facts_real(out, "bits_per_byte", r->bits_per_byte);
    ebb__facts_count(out, "planned_peak_bytes", r->planned_peak_bytes);
    ebb__facts_count(out, "measured_peak_bytes", r->measured_peak_bytes);
    if (r->sentences > 0) {
        ebb__facts_count(out, sentences, r->sentences);
        ebb__facts_count(out, "left_out", r->left_out);
        n = snprintf(out->text, sizeof out->text, "%-17s %" PRIu64 " (%" PRIu64 " more left out)\n",
                     sentences, r->sentences, r->left_out);
    }
    (void)snprintf(out->text + n, sizeof out->text - (size_t)n,
                   "tokens            %" PRIu64 " (%" PRIu64 " unknown)\n"
                   "words             %" PRIu64 "\n"
                   "bytes             %" PRIu64 "\n"
                   "loss              %.6f nats a token\n"
                   "token perplexity  %.4f\n"
                   "word perplexity   %.4f\n"
                   "bits per byte     %.4f\n",
                   r->tokens, r->unknown, r->words, r->bytes, r->loss, r->token_perplexity,
                   r->word_perplexity, r->bits_per_byte);
}
