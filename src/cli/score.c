/* score.c - `ebb eval bleu HYP REF...` and `ebb eval chrf HYP REF...`: how near translations come
 * to references, in sacreBLEU's words and numbers. */
#include "cli/command.h"

#include "score/corpus.h"

#include <inttypes.h>

_Static_assert((int)TOK_13A == (int)SCORE_13A && (int)TOK_NONE == (int)SCORE_NONE,
               "--tok names the tokenisers of the library");

typedef struct score_name {
    char text[96];
} score_name;

/* What sacreBLEU calls a signature: all that the number depends on. */
static score_name bleu_signature(cli_tok tok, int n_refs) {
    score_name name;
    (void)snprintf(name.text, sizeof name.text,
                   "nrefs:%d|case:mixed|eff:no|tok:%s|smooth:exp|version:%s", n_refs,
                   tok == TOK_13A ? "13a" : "none", ebb_version());
    return name;
}

static score_name chrf_signature(int n_refs) {
    score_name name;
    (void)snprintf(name.text, sizeof name.text,
                   "nrefs:%d|case:mixed|eff:yes|nc:6|nw:0|space:no|version:%s", n_refs,
                   ebb_version());
    return name;
}

static json_t *bleu_json(const bleu_counts *counts, const char *signature, uint64_t sentences) {
    bleu_parts parts = ebb__bleu_parts(counts);
    const double *p = parts.precision;
    return json_pack("{s:i, s:f, s:s, s:[ffff], s:f, s:o, s:o, s:f, s:o}", "schema", 1, "bleu",
                     parts.bleu, "signature", signature, "precisions", p[0], p[1], p[2], p[3],
                     "brevity_penalty", parts.brevity_penalty, "hyp_length",
                     ebb__cli_json_bytes(counts->hyp_len), "ref_length",
                     ebb__cli_json_bytes(counts->ref_len), "ratio", parts.ratio, "sentences",
                     ebb__cli_json_bytes(sentences));
}

static void print_bleu(const bleu_counts *counts, const char *signature) {
    bleu_parts parts = ebb__bleu_parts(counts);
    const double *p = parts.precision;
    printf("BLEU|%s = %.2f %.1f/%.1f/%.1f/%.1f (BP = %.3f ratio = %.3f hyp_len = %" PRIu64
           " ref_len = %" PRIu64 ")\n",
           signature, parts.bleu, p[0], p[1], p[2], p[3], parts.brevity_penalty, parts.ratio,
           counts->hyp_len, counts->ref_len);
}

ebb_status ebb__cli_bleu(cli_call *call) {
    const cli_settings *asked = &call->settings;
    score_name signature = bleu_signature(asked->tok, call->n_words - 1);
    bleu_counts counts;
    uint64_t sentences = 0;
    TRY(ebb__score_bleu(call->ctx, call->words, (size_t)call->n_words, (score_tok)asked->tok,
                        &counts, &sentences));
    if (asked->json) {
        return ebb__cli_print_json(call->ctx, bleu_json(&counts, signature.text, sentences));
    }
    print_bleu(&counts, signature.text);
    return EBB_OK;
}

ebb_status ebb__cli_chrf(cli_call *call) {
    score_name signature = chrf_signature(call->n_words - 1);
    chrf_counts counts;
    uint64_t sentences = 0;
    TRY(ebb__score_chrf(call->ctx, call->words, (size_t)call->n_words, &counts, &sentences));
    double chrf = ebb__chrf_score(&counts);
    if (call->settings.json) {
        json_t *object = json_pack("{s:i, s:f, s:s, s:o}", "schema", 1, "chrf", chrf, "signature",
                                   signature.text, "sentences", ebb__cli_json_bytes(sentences));
        return ebb__cli_print_json(call->ctx, object);
    }
    printf("chrF2|%s = %.2f\n", signature.text, chrf);
    return EBB_OK;
}
