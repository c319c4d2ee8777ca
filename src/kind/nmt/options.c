/* options.c - the settings of a translation model: options, what follows from them, words for
 * people. */
#include "kind/nmt/nmt.h"

#include "kind/text/options.h"

#include <inttypes.h>
#include <stdio.h>

static const train_option options[] = {
    /* clang-format off */
    {"train", "Data", OPTION_TEXT, AT(train_path), "SRC TGT", "none", "none", {0}, ANY, RUN, OPTION_SHOWN | OPTION_PATH | OPTION_PAIR,
     "two texts to learn from, a sentence a line; line n of TGT is the translation of line n of SRC. Several files with commas between them, or a pattern ('part-*.en'), are one text; - is standard input"},
    {"train-target", "Data", OPTION_TEXT, AT(train_target), "FILE", "none", "none", {0}, ANY, RUN, OPTION_SHOWN | OPTION_PATH,
     "the second file of --train by itself, as in config files"},
    {"valid", "Data", OPTION_TEXT, AT(valid_path), "SRC TGT", "none", "none", {0}, ANY, RUN | FOR_DATA_BUILD, OPTION_SHOWN | OPTION_PATH | OPTION_PAIR,
     "two texts to measure perplexity on after every epoch; decides which weights are the best"},
    {"valid-target", "Data", OPTION_TEXT, AT(valid_target), "FILE", "none", "none", {0}, ANY, RUN | FOR_DATA_BUILD, OPTION_SHOWN | OPTION_PATH,
     "the second file of --valid by itself"},
    {"nmt", "Data", OPTION_TEXT, AT(train_path), "SRC TGT", "none", "none", {0}, ANY, TEXTS, OPTION_PAIR,
     "two texts of a translation model; line n of TGT is the translation of line n of SRC"},
    {"nmt-target", "Data", OPTION_TEXT, AT(train_target), "FILE", "none", "none", {0}, ANY, TEXTS, 0,
     "the second file of --nmt by itself"},
    {"max-len", "Data", OPTION_INT, AT(max_len), "N", "100", NULL, {0}, RANGE(1, 10000), RUN | TEXTS, MATH,
     "tokens of the longest sentence, source or target; pairs with a longer one are left out"},
    TEXT_TOKENS("word", "char", "bpe"),
    {"batch-tokens", "Data", OPTION_INT, AT(batch_tokens), "N", "none", "none", {0}, RANGE(1, 1e9), RUN | FOR_DATA_PLAN, MATH | OPTION_RARE,
     "padded tokens of a batch, on the longer side, in place of --batch: as many pairs of a shape as have no more"},
    TEXT_CODES,
    {"codes-apart", "Data", OPTION_SWITCH, AT(codes_apart), NULL, "false", NULL, {0}, ANY, RUN | TEXTS, MATH | OPTION_RARE | OPTION_BPE,
     "learn codes for sources and targets by themselves, --codes each; else both texts together have --codes"},
    {"codes-dropout", "Data", OPTION_REAL, AT(codes_dropout), "P", "none", "none", {0}, BETWEEN(0, 1), RUN, MATH | OPTION_RARE | OPTION_BPE,
     "share of pairs passed over whenever a word is cut for training, so that it comes in other pieces in every epoch; sentences are pooled then (--bucket)"},
    {"token-dropout", "Data", OPTION_REAL, AT(token_dropout), "P", "0", NULL, {0}, BELOW(0, 1), RUN, MATH | OPTION_RARE,
     "share of tokens that are read as <unk> while training, sources and inputs of the decoder, others in every epoch: what is asked for stays"},
    TEXT_VOCAB,
    {"src-vocab", "Data", OPTION_INT, AT(src_vocab), "N", "vocab", "vocab", {0}, RANGE(1, 1e8), MODEL | FOR_DATA_BUILD, MATH,
     "the same for sources only; vocab: that of --vocab"},
    {"tgt-vocab", "Data", OPTION_INT, AT(tgt_vocab), "N", "vocab", "vocab", {0}, RANGE(1, 1e8), MODEL | FOR_DATA_BUILD, MATH,
     "the same for targets only; vocab: that of --vocab"},
    OPTION_INIT,
    {"cell", "Model", OPTION_CHOICE, AT(cell), NULL, "lstm", NULL, {"lstm", "gru"}, ANY, MODEL, MATH,
     "recurrent cell"},
    {"enc-layers", "Model", OPTION_INT, AT(enc_layers), "N", "1", NULL, {0}, RANGE(1, 256), MODEL, MATH,
     "layers that read the source; the first reads both ways, half of the units each"},
    {"dec-layers", "Model", OPTION_INT, AT(dec_layers), "N", "1", NULL, {0}, RANGE(1, 256), MODEL, MATH,
     "layers that write the target"},
    {"hidden", "Model", OPTION_INT, AT(hidden), "N", "512", NULL, {0}, RANGE(2, 1e5), MODEL, MATH,
     "units of a layer and of the attention; an even number"},
    TEXT_EMBED,
    {"tie-src", "Model", OPTION_SWITCH, AT(tie_src), NULL, "false", NULL, {0}, ANY, MODEL | FOR_DATA_BUILD, MATH,
     "one vocabulary and one embedding for sources and targets"},
    {"attention", "Model", OPTION_CHOICE, AT(attention), NULL, "mlp", NULL, {"mlp", "dot"}, ANY, MODEL, MATH,
     "how a target step weighs source positions: v . tanh(key + query), or key . query"},
    {"feed", "Model", OPTION_SWITCH, AT(feed), NULL, "false", NULL, {0}, ANY, MODEL, MATH,
     "join the vector that a word was predicted from to the next step's input"},
    {"layer-norm", "Model", OPTION_SWITCH, AT(layer_norm), NULL, "false", NULL, {0}, ANY, MODEL, MATH,
     "normalise inside the attention"},
    {"bidirectional", "Model", OPTION_SWITCH, AT(bidirectional), NULL, "false", NULL, {0}, ANY, MODEL, MATH | OPTION_RARE,
     "all layers that read the source read both ways, half of the units each, not only the first"},
    {"residual", "Model", OPTION_SWITCH, AT(residual), NULL, "false", NULL, {0}, ANY, MODEL, MATH | OPTION_RARE,
     "every layer after the first, of encoder and decoder, adds its input to its output"},
    {"init-decoder", "Model", OPTION_SWITCH, AT(init_decoder), NULL, "false", NULL, {0}, ANY, MODEL, MATH | OPTION_RARE,
     "layers that write the target start from the final states of those that read the source, of the last one where these are fewer; else from zeros"},
    TEXT_DROPOUT,
    {"smoothing", "Model", OPTION_REAL, AT(smoothing), "P", "0", NULL, {0}, BELOW(0, 1), MODEL, MATH,
     "share of a label that is spread over the whole vocabulary"},
    {"batch", "Batch", OPTION_INT, AT(batch), "N", "64", "auto", {0}, RANGE(1, 1e6), MODEL | FOR_EVAL | FOR_DECODE, MATH,
     "pairs of sentences in a step, of decode sentences at once; auto: as many as fit in --memory (plan, bench, train, data plan), at most 4096; of a text more of the short ones, as with --batch-tokens; the time a step takes grows with them"},
    OPTION_SHARDS,
    OPTION_STASH,
    TEXT_BUCKETS(0),
    {"src-len", "Batch", OPTION_INT, AT(src_len), "N", "30", NULL, {0}, RANGE(1, 1e6), FOR_PLAN | FOR_BENCH | FOR_TUNE, 0,
     "positions of a source, where there is no text"},
    {"tgt-len", "Batch", OPTION_INT, AT(tgt_len), "N", "30", NULL, {0}, RANGE(1, 1e6), FOR_PLAN | FOR_BENCH | FOR_TUNE, 0,
     "positions of a target, likewise"},
    OPTIONS_OPTIMISER("adam", "0.001", "learning rate; 1 where the optimiser is sgd", "1"),
    OPTION_AVERAGE,
    OPTIONS_LENGTH,
    {"valid-metric", "Length", OPTION_CHOICE, AT(valid_metric), NULL, "perplexity", NULL, {"perplexity", "bleu"}, ANY, RUN, MATH,
     "what decides which weights are the best: perplexity, or BLEU of greedy translations of --valid"},
    OPTIONS_RUN("ebb-nmt"),
    {"samples", "Run", OPTION_INT, AT(samples), "N", "none", "none", {0}, RANGE(1, 100), RUN, OPTION_SHOWN,
     "translations of --valid to show after every validation"},
    {"per-line", "Scores", OPTION_SWITCH, AT(per_line), NULL, "false", NULL, {0}, ANY, FOR_EVAL, OPTION_RARE,
     "print the log probability of every line of TGT, <eos> included, nan where a line is empty or too long; with --json the list log_probs"},
    OPTIONS_RANKS,
    OPTIONS_END,
    /* clang-format on */
};
const option_list ebb__nmt_options = {options, sizeof options / sizeof *options};

const kind_command ebb__nmt_commands[NMT_COMMANDS] = {
    {FOR_TRAIN, 0, "train nmt --train SRC TGT [options]", "train a translation model, or go on",
     "Trains a recurrent translation model with attention on two texts, line by line,\n"
     "in no more memory than --memory says. Otherwise like train lm; vocabularies are\n"
     "vocab.src.txt and vocab.tgt.txt, with --tie-src vocab.txt.\n"},
    {FOR_PLAN, 0, "plan nmt [options of train nmt]", "the same of a translation model",
     "Plans the run that the same options of train nmt would make, without training.\n"
     "Without --train the vocabularies have --vocab tokens, and all sentences the\n"
     "lengths --src-len and --tgt-len.\n"},
    {FOR_BENCH, 0, "bench nmt [options]", "the same of a translation model",
     "Runs 2 steps to warm up and --steps timed ones on random tokens, all sentences\n"
     "of full length. Words are those of targets.\n"},
    {FOR_TUNE, 0, "tune nmt [options of bench nmt]", "the same of a translation model",
     "Times every way to carry out the products of a model, and stores what it finds\n"
     "for runs to come.\n"},
    {FOR_EVAL, 3, "eval nmt DIR SRC TGT [options]", "the same of a translation model",
     "Measures how well the best weights of the run in the folder DIR predict the\n"
     "lines of TGT, the translations of those of SRC.\n"},
};

void ebb__nmt_describe(const train_settings *s, char *text, size_t bytes) {
    static const char *const attentions[] = {"mlp", "dot"};
    (void)snprintf(text, bytes,
                   "%s, %" PRId64 "+%" PRId64 " x %" PRId64 ", %s attention, batch %s x %" PRId64
                   "+%" PRId64 ", %s",
                   ebb__text_cells[s->cell], s->enc_layers, s->dec_layers, s->hidden,
                   attentions[s->attention], ebb__settings_batch(s).text, s->src_len, s->tgt_len,
                   ebb__settings_optimizers[s->optimizer]);
}

static ebb_status check_pairs(ebb_ctx *ctx, const train_settings *s) {
    return (s->train_path == NULL) == (s->train_target == NULL) &&
                   (s->valid_path == NULL) == (s->valid_target == NULL)
               ? EBB_OK
               : ebb__fail(ctx, EBB_USAGE,
                           "a translation model reads pairs of files: --train SRC TGT, "
                           "--valid SRC TGT");
}

/* Lengths of sentences are given here only where there is no text. */
static ebb_status check_sizes(ebb_ctx *ctx, const train_settings *run) {
    TRY(check_pairs(ctx, run));
    if (run->tie_src && run->src_vocab != run->tgt_vocab) {
        return ebb__fail(ctx, EBB_USAGE,
                         "--tie-src needs one vocabulary: --src-vocab %lld is not --tgt-vocab %lld",
                         (long long)run->src_vocab, (long long)run->tgt_vocab);
    }
    int64_t cells = run->enc_layers * run->src_len + run->dec_layers * run->tgt_len;
    int64_t longest = run->src_len > run->tgt_len ? run->src_len : run->tgt_len;
    int64_t rows = run->batch > 0 ? run->batch : 1; /* auto: at least */
    if (cells > TEXT_MOST_CELLS) {
        return ebb__fail(ctx, EBB_USAGE,
                         "--src-len %lld and --tgt-len %lld are too large: at most %d cells are "
                         "unrolled, these are %lld, whose outputs alone take %.0f bytes",
                         (long long)run->src_len, (long long)run->tgt_len, TEXT_MOST_CELLS,
                         (long long)cells,
                         (double)cells * (double)rows * (double)run->hidden * sizeof(float));
    }
    if (rows * longest > TEXT_MOST_POSITIONS) {
        return ebb__fail(ctx, EBB_USAGE,
                         "--batch %lld times %lld positions is too large: at most %lld a step",
                         (long long)run->batch, (long long)longest, (long long)TEXT_MOST_POSITIONS);
    }
    return EBB_OK;
}

/* Sentences that are cut anew have other lengths in every epoch: pools of them have as many batches
 * whatever these are. */
static ebb_status check_dropout(ebb_ctx *ctx, const train_settings *s) {
    bool pooled = s->bucket == BUCKET_POOL || s->bucket == BUCKET_AUTO;
    if (s->codes_dropout == 0 || (pooled && s->batch > 0 && s->batch_tokens == 0)) {
        return EBB_OK;
    }
    return ebb__fail(ctx, EBB_USAGE,
                     pooled ? "--codes-dropout changes lengths from epoch to epoch: it needs "
                              "batches of so many sentences, --batch N"
                            : "--codes-dropout changes lengths from epoch to epoch: it needs "
                              "--bucket pool or auto");
}

ebb_status ebb__nmt_resolve(ebb_ctx *ctx, train_settings *s) {
    s->src_vocab = s->src_vocab == 0 ? s->vocab : s->src_vocab;
    s->tgt_vocab = s->tgt_vocab == 0 ? s->vocab : s->tgt_vocab;
    TRY(ebb__text_resolve(ctx, s));
    TRY(check_dropout(ctx, s));
    return check_sizes(ctx, s);
}

ebb_status ebb__nmt_check(ebb_ctx *ctx, const train_settings *s) {
    const char *translates = s->valid_metric == METRIC_BLEU ? "--valid-metric bleu"
                             : s->samples > 0               ? "--samples"
                                                            : NULL;
    TRY(check_pairs(ctx, s));
    return ebb__text_check(ctx, s, translates);
}
