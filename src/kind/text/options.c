/* options.c - what settings of models of text must be, and how they are said in a few words. */
#include "kind/text/options.h"

#include "data/source.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const ebb__text_cells[] = {"lstm", "gru", "rnn"};

double ebb__text_perplexity(double loss) {
    return fmin(exp(loss), DBL_MAX);
}

const char *ebb__text_lacks(const train_settings *s, const train_option *option) {
    return (option->flags & OPTION_BPE) == 0 || s->tokens == TEXT_BPE
               ? NULL
               : "is about pieces of words: it needs --tokens bpe";
}

ebb_status ebb__text_resolve(ebb_ctx *ctx, train_settings *s) {
    if (s->tie_src && s->codes_apart) {
        return ebb__fail(ctx, EBB_USAGE,
                         "--tie-src makes one vocabulary of both texts, --codes-apart has pieces "
                         "that only one of them knows: only one can hold");
    }
    const char *given = s->vocab_from != NULL ? s->vocab_from : s->codes_from;
    if (given != NULL && s->train_path == NULL) {
        return ebb__fail(ctx, EBB_USAGE,
                         "--%s %s: is not a whole number, and a file or folder has a meaning only "
                         "with a text: --train",
                         s->vocab_from != NULL ? "vocab" : "codes", given);
    }
    s->embed = s->embed == 0 ? s->hidden : s->embed;
    return !s->tie || s->embed == s->hidden
               ? EBB_OK
               : ebb__fail(ctx, EBB_USAGE,
                           "--tie needs an embedding as large as a layer: --embed %lld is not "
                           "--hidden %lld",
                           (long long)s->embed, (long long)s->hidden);
}

ebb_status ebb__text_check(ebb_ctx *ctx, const train_settings *s, const char *more) {
    const char *const texts[] = {s->train_path, s->train_target, s->valid_path, s->valid_target};
    const char *looks = s->schedule == SCHEDULE_PLATEAU ? "--schedule plateau"
                        : s->patience > 0               ? "--patience"
                                                        : more;
    if (s->train_path == NULL) {
        return ebb__fail(ctx, EBB_USAGE, "train needs a text: --train FILE");
    }
    if (looks != NULL && s->valid_path == NULL) {
        return ebb__fail(ctx, EBB_USAGE, "%s needs a text to look at: --valid", looks);
    }
    int inputs = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        inputs += texts[i] != NULL && strcmp(texts[i], "-") == 0;
    }
    if (inputs > 1) {
        return ebb__fail(ctx, EBB_USAGE, "only one text can be standard input (-)");
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (texts[i] != NULL) {
            TRY(ebb__source_check(ctx, texts[i]));
        }
    }
    return EBB_OK;
}
