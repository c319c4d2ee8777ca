/* options.c - the settings of a language model: options, what follows from them, words for people.
 */
#include "kind/lm/lm.h"

#include "kind/text/options.h"

#include <inttypes.h>
#include <stdio.h>

static const train_option options[] = {
    /* clang-format off */
    {"train", "Data", OPTION_TEXT, AT(train_path), "FILE", "none", "none", {0}, ANY, RUN, OPTION_SHOWN | OPTION_PATH,
     "text to learn from; a line end is the token <eos>. Several files with commas between them, or a pattern ('part-*.gz'), are one text; - is standard input"},
    {"valid", "Data", OPTION_TEXT, AT(valid_path), "FILE", "none", "none", {0}, ANY, RUN | FOR_DATA_BUILD, OPTION_SHOWN | OPTION_PATH,
     "text to measure perplexity on after every epoch; decides which weights are the best"},
    {"lm", "Data", OPTION_TEXT, AT(train_path), "FILE", "none", "none", {0}, ANY, TEXTS, 0,
     "text of a language model, a sentence a line"},
    {"by-sentence", "Data", OPTION_SWITCH, AT(by_sentence), NULL, "false", NULL, {0}, ANY, RUN, MATH | OPTION_RARE,
     "a line is a sentence that starts from a state of zeros; lines of like length share batches, as --bucket says"},
    {"max-len", "Data", OPTION_INT, AT(max_len), "N", "100", NULL, {0}, RANGE(1, 10000), RUN | FOR_DATA_PLAN, MATH | OPTION_PART,
     "tokens of the longest sentence; longer ones are left out, or split with --split-long"},
    {"split-long", "Data", OPTION_SWITCH, AT(split_long), NULL, "false", NULL, {0}, ANY, RUN | FOR_DATA_PLAN, MATH | OPTION_PART | OPTION_RARE,
     "split lines of more than --max-len tokens in equal parts, each a sentence of its own that goes on after the last token of the part before"},
    TEXT_TOKENS("word", "char", "bpe", "byte"),
    {"batch-tokens", "Data", OPTION_INT, AT(batch_tokens), "N", "none", "none", {0}, RANGE(1, 1e9), RUN | FOR_DATA_PLAN, MATH | OPTION_PART | OPTION_RARE,
     "padded tokens of a batch, in place of --batch: as many sentences of a shape as have no more"},
    TEXT_CODES,
    TEXT_VOCAB,
    OPTION_INIT,
    {"cell", "Model", OPTION_CHOICE, AT(cell), NULL, "lstm", NULL, {"lstm", "gru", "rnn"}, ANY, MODEL, MATH,
     "recurrent cell"},
    {"layers", "Model", OPTION_INT, AT(layers), "N", "2", NULL, {0}, RANGE(1, 256), MODEL, MATH,
     "recurrent layers"},
    {"hidden", "Model", OPTION_INT, AT(hidden), "N", "200", NULL, {0}, RANGE(1, 1e5), MODEL, MATH,
     "units of a layer"},
    TEXT_EMBED,
    TEXT_DROPOUT,
    {"batch", "Batch", OPTION_INT, AT(batch), "N", "20", "auto", {0}, RANGE(1, 1e6), MODEL | FOR_EVAL, MATH,
     "columns of text read side by side, or sentences in a step with --by-sentence; auto: as many as fit in --memory (plan, bench, train, data plan), at most 4096; of sentences of a text more of the short ones, as with --batch-tokens; the time a step takes grows with them"},
    OPTION_SHARDS,
    OPTION_STASH,
    TEXT_BUCKETS(OPTION_PART),
    {"bptt", "Batch", OPTION_INT, AT(bptt), "N", "35", NULL, {0}, RANGE(1, 65536), MODEL, MATH,
     "time steps unrolled; state is carried from one window to the next; with --by-sentence positions of a sentence, where there is no text"},
    OPTIONS_OPTIMISER("sgd", "1", "learning rate; 0.001 where the optimiser is adam or adamw", "5"),
    OPTION_AVERAGE,
    OPTIONS_LENGTH,
    OPTIONS_RUN("ebb-lm"),
    OPTIONS_RANKS,
    OPTIONS_END,
    /* clang-format on */
};
const option_list ebb__lm_options = {options, sizeof options / sizeof *options};

const kind_command ebb__lm_commands[LM_COMMANDS] = {
    {FOR_TRAIN, 0, "train lm --train FILE [options]", "train a language model, or go on",
     "Trains a recurrent language model on a text, in no more memory than --memory\n"
     "says. Prints the plan first, then progress. The folder --out holds the weights\n"
     "(best.safetensors, last.safetensors), metrics.jsonl, vocab.txt and config. Run\n"
     "again after any interruption, the same command goes on where it stopped and\n"
     "ends with the same bits.\n"},
    {FOR_PLAN, 0, "plan lm [options of train lm]", "what that would take: bytes and seconds",
     "Plans the run that the same options of train lm would make, without training.\n"
     "Without --train the vocabulary has --vocab tokens.\n"},
    {FOR_BENCH, 0, "bench lm [options]", "time training steps on random tokens",
     "Runs 2 steps to warm up and --steps timed ones on random tokens.\n"},
    {FOR_TUNE, 0, "tune lm [options of bench lm]", "measure this machine ahead of time",
     "Times every way to carry out the products of a model, and stores what it finds\n"
     "for runs to come. train and bench do the same by themselves, for 5 seconds, the\n"
     "first time. Without a size the models of docs/results.md are tuned.\n"},
    {FOR_EVAL, 2, "eval lm DIR FILE [options]", "perplexity of a trained model on a text",
     "Measures the best weights of the run in the folder DIR on the text FILE.\n"},
};

void ebb__lm_describe(const train_settings *s, char *text, size_t bytes) {
    (void)snprintf(text, bytes, "%s, %" PRId64 " x %" PRId64 ", batch %s x %" PRId64 "%s, %s",
                   ebb__text_cells[s->cell], s->layers, s->hidden, ebb__settings_batch(s).text,
                   s->bptt, s->by_sentence ? " by sentence" : "",
                   ebb__settings_optimizers[s->optimizer]);
}

const char *ebb__lm_lacks(const train_settings *s, const train_option *option) {
    return (option->flags & OPTION_PART) == 0 || s->by_sentence
               ? ebb__text_lacks(s, option)
               : "is about sentences: a language model reads its text as one stream, unless it "
                 "reads by-sentence";
}

/* What the windows of a language model unroll to; how long sentences are the text says. */
static ebb_status check_sizes(ebb_ctx *ctx, const train_settings *run) {
    if (run->by_sentence && run->train_path != NULL) {
        return EBB_OK;
    }
    if (run->layers * run->bptt > TEXT_MOST_CELLS) {
        return ebb__fail(
            ctx, EBB_USAGE,
            "--layers %lld times --bptt %lld is too large: at most %d cells are unrolled",
            (long long)run->layers, (long long)run->bptt, TEXT_MOST_CELLS);
    }
    if (run->batch * run->bptt > TEXT_MOST_POSITIONS) {
        return ebb__fail(ctx, EBB_USAGE,
                         "--batch %lld times --bptt %lld is too large: at most %lld tokens a step",
                         (long long)run->batch, (long long)run->bptt,
                         (long long)TEXT_MOST_POSITIONS);
    }
    return EBB_OK;
}

ebb_status ebb__lm_resolve(ebb_ctx *ctx, train_settings *s) {
    TRY(ebb__text_resolve(ctx, s));
    return check_sizes(ctx, s);
}

/* The models of docs/results.md. */
int32_t ebb__lm_usual(const train_settings *s, train_settings *models) {
    static const struct {
        lm_cell cell;
        int64_t layers, hidden, batch, bptt;
    } usual[] = {{LM_LSTM, 2, 200, 20, 35}, {LM_LSTM, 2, 650, 20, 35},  {LM_GRU, 2, 650, 20, 35},
                 {LM_RNN, 2, 650, 20, 35},  {LM_LSTM, 2, 512, 128, 50}, {LM_LSTM, 2, 512, 64, 35},
                 {LM_LSTM, 1, 256, 4, 100}};
    enum { N = sizeof usual / sizeof *usual };
    _Static_assert((int)N <= (int)KIND_MOST_USUAL, "room for all");
    for (int32_t i = 0; i < N; i++) {
        models[i] = *s;
        models[i].cell = usual[i].cell;
        models[i].layers = usual[i].layers;
        models[i].hidden = models[i].embed = usual[i].hidden;
        models[i].batch = usual[i].batch;
        models[i].bptt = usual[i].bptt;
    }
    return N;
}
