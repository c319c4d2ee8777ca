/* options.c - the table. The order is the order of --help and of a run's `config`.
 *
 * Ranges end where a size stops making sense, far below where products of sizes could overflow. */
#include "cli/options.h"

#include "plan/passes.h"

#include <string.h>

#define MODEL (STEP | CLI_TUNE | CLI_DATA_PLAN)
#define STEP (CLI_TRAIN | CLI_PLAN | CLI_BENCH)
#define RUN (CLI_TRAIN | CLI_PLAN)
#define TEXTS (CLI_DATA_PLAN | CLI_DATA_BUILD)
#define USE (CLI_EVAL | CLI_GENERATE | CLI_DECODE)
#define ALL (MODEL | USE | TEXTS | CLI_INSPECT | CLI_DATA | CLI_SCORE | CLI_CHRF | CLI_REPORT)
#define MATH (CLI_MATH | CLI_SHOWN)
#define AT(field) offsetof(cli_settings, field)
#define ANY                                                                                        \
    { 0, 0, false, false }
#define RANGE(low, high)                                                                           \
    { low, high, false, false }
#define ABOVE(low, high)                                                                           \
    { low, high, true, false }
#define BELOW(low, high)                                                                           \
    { low, high, false, true }
#define BETWEEN(low, high)                                                                         \
    { low, high, true, true }

static const cli_option options[] = {
    /* clang-format off */
    {"train", "Data", CLI_TEXT, AT(run.train_path), "FILE", "none", "none", {0}, ANY, RUN, CLI_SHOWN | CLI_PATH | CLI_LM,
     "text to learn from; a line end is the token <eos>"},
    {"valid", "Data", CLI_TEXT, AT(run.valid_path), "FILE", "none", "none", {0}, ANY, RUN | CLI_DATA_BUILD, CLI_SHOWN | CLI_PATH | CLI_LM,
     "text to measure perplexity on after every epoch; decides which weights are the best"},
    {"train", "Data", CLI_TEXT, AT(run.train_path), "SRC TGT", "none", "none", {0}, ANY, RUN, CLI_SHOWN | CLI_PATH | CLI_NMT | CLI_PAIR,
     "two texts to learn from, a sentence a line; line n of TGT is the translation of line n of SRC"},
    {"train-target", "Data", CLI_TEXT, AT(run.train_target), "FILE", "none", "none", {0}, ANY, RUN, CLI_SHOWN | CLI_PATH | CLI_NMT,
     "the second file of --train by itself, as in config files"},
    {"valid", "Data", CLI_TEXT, AT(run.valid_path), "SRC TGT", "none", "none", {0}, ANY, RUN | CLI_DATA_BUILD, CLI_SHOWN | CLI_PATH | CLI_NMT | CLI_PAIR,
     "two texts to measure perplexity on after every epoch; decides which weights are the best"},
    {"valid-target", "Data", CLI_TEXT, AT(run.valid_target), "FILE", "none", "none", {0}, ANY, RUN | CLI_DATA_BUILD, CLI_SHOWN | CLI_PATH | CLI_NMT,
     "the second file of --valid by itself"},
    {"lm", "Data", CLI_TEXT, AT(run.train_path), "FILE", "none", "none", {0}, ANY, TEXTS, CLI_LM,
     "text of a language model, a sentence a line"},
    {"nmt", "Data", CLI_TEXT, AT(run.train_path), "SRC TGT", "none", "none", {0}, ANY, TEXTS, CLI_NMT | CLI_PAIR,
     "two texts of a translation model; line n of TGT is the translation of line n of SRC"},
    {"nmt-target", "Data", CLI_TEXT, AT(run.train_target), "FILE", "none", "none", {0}, ANY, TEXTS, CLI_NMT,
     "the second file of --nmt by itself"},
    {"by-sentence", "Data", CLI_SWITCH, AT(run.by_sentence), NULL, "false", NULL, {0}, ANY, RUN, MATH | CLI_LM | CLI_RARE,
     "a line is a sentence that starts from a state of zeros; lines of like length share batches, as --bucket says"},
    {"max-len", "Data", CLI_INT, AT(run.max_len), "N", "100", NULL, {0}, RANGE(1, 10000), RUN | CLI_DATA_PLAN, MATH | CLI_LM | CLI_SENTENCES,
     "tokens of the longest sentence; longer ones are left out, or split with --split-long"},
    {"split-long", "Data", CLI_SWITCH, AT(run.split_long), NULL, "false", NULL, {0}, ANY, RUN | CLI_DATA_PLAN, MATH | CLI_LM | CLI_SENTENCES | CLI_RARE,
     "split lines of more than --max-len tokens in equal parts, each a sentence of its own that goes on after the last token of the part before"},
    {"max-len", "Data", CLI_INT, AT(run.max_len), "N", "100", NULL, {0}, RANGE(1, 10000), RUN | TEXTS, MATH | CLI_NMT,
     "tokens of the longest sentence, source or target; pairs with a longer one are left out"},
    {"tokens", "Data", CLI_CHOICE, AT(run.tokens), NULL, "word", NULL, {"word", "char", "byte"}, ANY, RUN | TEXTS, MATH | CLI_LM | CLI_OR_NUMBER,
     "what one token is"},
    {"batch-tokens", "Data", CLI_INT, AT(run.batch_tokens), "N", "none", "none", {0}, RANGE(1, 1e9), RUN | CLI_DATA_PLAN, MATH | CLI_LM | CLI_SENTENCES | CLI_RARE,
     "padded tokens of a batch, in place of --batch: as many sentences of a shape as have no more; --tokens N is short for it"},
    {"tokens", "Data", CLI_CHOICE, AT(run.tokens), NULL, "word", NULL, {"word", "char"}, ANY, RUN | TEXTS, MATH | CLI_NMT | CLI_OR_NUMBER,
     "what one token is"},
    {"batch-tokens", "Data", CLI_INT, AT(run.batch_tokens), "N", "none", "none", {0}, RANGE(1, 1e9), RUN | CLI_DATA_PLAN, MATH | CLI_NMT | CLI_RARE,
     "padded tokens of a batch, on the longer side, in place of --batch: as many pairs of a shape as have no more; --tokens N is short for it"},
    {"vocab", "Data", CLI_INT, AT(run.vocab), "N", "10000", "all", {0}, RANGE(1, 1e8), MODEL | CLI_DATA_BUILD, MATH,
     "most frequent tokens kept, the others become <unk>; all: every token of the text"},
    {"src-vocab", "Data", CLI_INT, AT(run.src_vocab), "N", "vocab", "vocab", {0}, RANGE(1, 1e8), MODEL | CLI_DATA_BUILD, MATH | CLI_NMT,
     "the same for sources only; vocab: that of --vocab"},
    {"tgt-vocab", "Data", CLI_INT, AT(run.tgt_vocab), "N", "vocab", "vocab", {0}, RANGE(1, 1e8), MODEL | CLI_DATA_BUILD, MATH | CLI_NMT,
     "the same for targets only; vocab: that of --vocab"},
    {"init", "Model", CLI_TEXT, AT(run.init_path), "FILE", "none", "none", {0}, ANY, RUN, MATH,
     "safetensors file with the weights to start from, e.g. written by PyTorch; those of a run only with the same vocabulary; none: drawn from --seed"},
    {"cell", "Model", CLI_CHOICE, AT(run.cell), NULL, "lstm", NULL, {"lstm", "gru", "rnn"}, ANY, MODEL, MATH | CLI_LM,
     "recurrent cell"},
    {"cell", "Model", CLI_CHOICE, AT(run.cell), NULL, "lstm", NULL, {"lstm", "gru"}, ANY, MODEL, MATH | CLI_NMT,
     "recurrent cell"},
    {"layers", "Model", CLI_INT, AT(run.layers), "N", "2", NULL, {0}, RANGE(1, 256), MODEL, MATH | CLI_LM,
     "recurrent layers"},
    {"enc-layers", "Model", CLI_INT, AT(run.enc_layers), "N", "1", NULL, {0}, RANGE(1, 256), MODEL, MATH | CLI_NMT,
     "layers that read the source; the first reads both ways, half of the units each"},
    {"dec-layers", "Model", CLI_INT, AT(run.dec_layers), "N", "1", NULL, {0}, RANGE(1, 256), MODEL, MATH | CLI_NMT,
     "layers that write the target"},
    {"hidden", "Model", CLI_INT, AT(run.hidden), "N", "200", NULL, {0}, RANGE(1, 1e5), MODEL, MATH | CLI_LM,
     "units of a layer"},
    {"hidden", "Model", CLI_INT, AT(run.hidden), "N", "512", NULL, {0}, RANGE(2, 1e5), MODEL, MATH | CLI_NMT,
     "units of a layer and of the attention; an even number"},
    {"embed", "Model", CLI_INT, AT(run.embed), "N", "hidden", "hidden", {0}, RANGE(1, 1e5), MODEL, MATH,
     "size of a token's embedding; hidden: that of --hidden"},
    {"tie", "Model", CLI_SWITCH, AT(run.tie), NULL, "false", NULL, {0}, ANY, MODEL, MATH,
     "use the embedding as output weights too (needs --embed equal to --hidden)"},
    {"tie-src", "Model", CLI_SWITCH, AT(run.tie_src), NULL, "false", NULL, {0}, ANY, MODEL | CLI_DATA_BUILD, MATH | CLI_NMT,
     "one vocabulary and one embedding for sources and targets"},
    {"attention", "Model", CLI_CHOICE, AT(run.attention), NULL, "mlp", NULL, {"mlp", "dot"}, ANY, MODEL, MATH | CLI_NMT,
     "how a target step weighs source positions: v . tanh(key + query), or key . query"},
    {"feed", "Model", CLI_SWITCH, AT(run.feed), NULL, "false", NULL, {0}, ANY, MODEL, MATH | CLI_NMT,
     "join the vector that a word was predicted from to the next step's input"},
    {"layer-norm", "Model", CLI_SWITCH, AT(run.layer_norm), NULL, "false", NULL, {0}, ANY, MODEL, MATH | CLI_NMT,
     "normalise inside the attention"},
    {"dropout", "Model", CLI_REAL, AT(run.dropout), "P", "0", NULL, {0}, BELOW(0, 1), MODEL, MATH,
     "share of units dropped after the embedding, between layers and before the output"},
    {"smoothing", "Model", CLI_REAL, AT(run.smoothing), "P", "0", NULL, {0}, BELOW(0, 1), MODEL, MATH | CLI_NMT,
     "share of a label that is spread over the whole vocabulary"},
    {"batch", "Batch", CLI_INT, AT(run.batch), "N", "20", "auto", {0}, RANGE(1, 1e6), MODEL | CLI_EVAL, MATH | CLI_LM,
     "columns of text read side by side, or sentences in a step with --by-sentence; auto: as many as fit in --memory (plan, bench, train, data plan), at most 4096; of sentences of a text more of the short ones, as with --tokens; the time a step takes grows with them"},
    {"batch", "Batch", CLI_INT, AT(run.batch), "N", "64", "auto", {0}, RANGE(1, 1e6), MODEL | CLI_EVAL | CLI_DECODE, MATH | CLI_NMT,
     "pairs of sentences in a step, of decode sentences at once; auto: as many as fit in --memory (plan, bench, train, data plan), at most 4096; of a text more of the short ones, as with --tokens; the time a step takes grows with them"},
    {"shards", "Batch", CLI_INT, AT(run.shards), "N", "1", NULL, {0}, RANGE(1, 1024), MODEL | CLI_EVAL, MATH,
     "parts of a batch, done one after the other: less memory for activations, more for gradients; must divide --batch"},
    {"bucket", "Batch", CLI_CHOICE, AT(run.bucket), NULL, "auto", NULL, {"none", "static", "greedy", "percentile", "width", "optimal", "pool", "auto"}, ANY, CLI_DATA_PLAN | RUN, MATH | CLI_LM | CLI_SENTENCES,
     "how sentences are grouped: all padded to the longest; by --static; a shape as soon as a batch is full; as many sentences a shape; equal distances; the fewest padded tokens; sorted pools of 100 batches (not with --tokens); auto: the shortest epoch"},
    {"bucket", "Batch", CLI_CHOICE, AT(run.bucket), NULL, "auto", NULL, {"none", "static", "greedy", "percentile", "width", "optimal", "pool", "auto"}, ANY, CLI_DATA_PLAN | RUN, MATH | CLI_NMT,
     "how sentences are grouped: all padded to the longest; by --static; a shape as soon as a batch is full; as many sentences a shape; equal distances; the fewest padded tokens; sorted pools of 100 batches (not with --tokens); auto: the shortest epoch"},
    {"shapes", "Batch", CLI_INT, AT(run.shapes), "N", "8", NULL, {0}, RANGE(1, 32), CLI_DATA_PLAN | RUN, MATH | CLI_LM | CLI_SENTENCES,
     "most shapes that batches are padded to; each is a program"},
    {"shapes", "Batch", CLI_INT, AT(run.shapes), "N", "8", NULL, {0}, RANGE(1, 32), CLI_DATA_PLAN | RUN, MATH | CLI_NMT,
     "most shapes that batches are padded to; each is a program"},
    {"static", "Batch", CLI_TEXT, AT(run.shape_list), "LIST", TRAIN_SHAPE_LIST, NULL, {0}, ANY, CLI_DATA_PLAN | RUN, MATH | CLI_LM | CLI_SENTENCES,
     "shapes of --bucket static: lengths with the end mark, as 8,16,24; of pairs also 8x10,16x20 (source x target); one more is made for what is longer"},
    {"static", "Batch", CLI_TEXT, AT(run.shape_list), "LIST", TRAIN_SHAPE_LIST, NULL, {0}, ANY, CLI_DATA_PLAN | RUN, MATH | CLI_NMT,
     "shapes of --bucket static: lengths with the end mark, as 8,16,24; of pairs also 8x10,16x20 (source x target); one more is made for what is longer"},
    {"src-len", "Batch", CLI_INT, AT(run.src_len), "N", "30", NULL, {0}, RANGE(1, 1e6), CLI_PLAN | CLI_BENCH | CLI_TUNE, CLI_NMT,
     "positions of a source, where there is no text"},
    {"tgt-len", "Batch", CLI_INT, AT(run.tgt_len), "N", "30", NULL, {0}, RANGE(1, 1e6), CLI_PLAN | CLI_BENCH | CLI_TUNE, CLI_NMT,
     "positions of a target, likewise"},
    {"bptt", "Batch", CLI_INT, AT(run.bptt), "N", "35", NULL, {0}, RANGE(1, 65536), MODEL, MATH | CLI_LM,
     "time steps unrolled; state is carried from one window to the next; with --by-sentence positions of a sentence, where there is no text"},
    {"optimizer", "Optimiser", CLI_CHOICE, AT(run.optimizer), NULL, "sgd", NULL, {"sgd", "adam", "adamw"}, ANY, MODEL, MATH | CLI_LM,
     "rule that changes the weights"},
    {"optimizer", "Optimiser", CLI_CHOICE, AT(run.optimizer), NULL, "adam", NULL, {"sgd", "adam", "adamw"}, ANY, MODEL, MATH | CLI_NMT,
     "rule that changes the weights"},
    {"lr", "Optimiser", CLI_REAL, AT(run.lr), "X", "1", NULL, {0}, ABOVE(0, 1e9), MODEL, MATH | CLI_LM,
     "learning rate; 0.001 where the optimiser is adam or adamw"},
    {"lr", "Optimiser", CLI_REAL, AT(run.lr), "X", "0.001", NULL, {0}, ABOVE(0, 1e9), MODEL, MATH | CLI_NMT,
     "learning rate; 1 where the optimiser is sgd"},
    {"momentum", "Optimiser", CLI_REAL, AT(run.momentum), "X", "0", NULL, {0}, BELOW(0, 1), MODEL, MATH,
     "of sgd"},
    {"beta1", "Optimiser", CLI_REAL, AT(run.beta1), "X", "0.9", NULL, {0}, BELOW(0, 1), MODEL, MATH,
     "of adam and adamw: decay of the mean gradient"},
    {"beta2", "Optimiser", CLI_REAL, AT(run.beta2), "X", "0.999", NULL, {0}, BELOW(0, 1), MODEL, MATH,
     "of adam and adamw: decay of the mean squared gradient"},
    {"eps", "Optimiser", CLI_REAL, AT(run.eps), "X", "1e-08", NULL, {0}, ABOVE(0, 1), MODEL, MATH,
     "of adam and adamw: added to the divisor"},
    {"weight-decay", "Optimiser", CLI_REAL, AT(run.weight_decay), "X", "0", NULL, {0}, BELOW(0, 1), MODEL, MATH,
     "pull of the weights towards 0"},
    {"clip", "Optimiser", CLI_REAL, AT(run.clip), "X", "5", "none", {0}, ABOVE(0, 1e9), MODEL, MATH | CLI_LM,
     "longest gradient over all weights together; a longer one is scaled down"},
    {"clip", "Optimiser", CLI_REAL, AT(run.clip), "X", "1", "none", {0}, ABOVE(0, 1e9), MODEL, MATH | CLI_NMT,
     "longest gradient over all weights together; a longer one is scaled down"},
    {"schedule", "Optimiser", CLI_CHOICE, AT(run.schedule), NULL, "constant", NULL, {"constant", "plateau", "warmup", "cosine", "inverse"}, ANY, MODEL, MATH,
     "how the learning rate changes: not at all; by --lr-factor when validation stops improving; growing linearly over --warmup steps; falling to 0 along a cosine until the last step; with the inverse square root of the step after --warmup"},
    {"warmup", "Optimiser", CLI_INT, AT(run.warmup), "STEPS", "none", "none", {0}, RANGE(1, 1e12), MODEL, MATH,
     "steps over which the rate grows linearly, with any schedule; 1000 with --schedule warmup and inverse"},
    {"lr-patience", "Optimiser", CLI_INT, AT(run.lr_patience), "EPOCHS", "1", NULL, {0}, RANGE(1, 1e6), MODEL, MATH,
     "of --schedule plateau: epochs without improvement before the rate falls"},
    {"lr-factor", "Optimiser", CLI_REAL, AT(run.lr_factor), "X", "0.25", NULL, {0}, BETWEEN(0, 1), MODEL, MATH,
     "of --schedule plateau: what the rate is multiplied by"},
    {"epochs", "Length", CLI_INT, AT(run.epochs), "N", "10", "none", {0}, RANGE(1, 1e9), RUN, CLI_SHOWN,
     "times through the text; not a limit where only --steps is given"},
    {"steps", "Length", CLI_INT, AT(run.steps), "N", "none", "none", {0}, RANGE(1, 1e12), STEP, CLI_SHOWN,
     "steps in all, whichever ends first; for bench: steps timed, after 2 to warm up (10 if not given)"},
    {"patience", "Length", CLI_INT, AT(run.patience), "N", "none", "none", {0}, RANGE(1, 1e6), RUN, CLI_SHOWN,
     "end after so many validations in a row without improvement"},
    {"valid-metric", "Length", CLI_CHOICE, AT(run.valid_metric), NULL, "perplexity", NULL, {"perplexity", "bleu"}, ANY, RUN, MATH | CLI_NMT,
     "what decides which weights are the best: perplexity, or BLEU of greedy translations of --valid"},
    {"out", "Run", CLI_TEXT, AT(run.out_dir), "DIR", "ebb-lm", NULL, {0}, ANY, RUN | CLI_DATA_BUILD, CLI_SHOWN | CLI_PATH | CLI_LM,
     "folder for weights, metrics, vocabulary and state; a run that is in it already goes on"},
    {"out", "Run", CLI_TEXT, AT(run.out_dir), "DIR", "ebb-nmt", NULL, {0}, ANY, RUN | CLI_DATA_BUILD, CLI_SHOWN | CLI_PATH | CLI_NMT,
     "folder for weights, metrics, vocabulary and state; a run that is in it already goes on"},
    {"fresh", "Run", CLI_SWITCH, AT(run.fresh), NULL, "false", NULL, {0}, ANY, RUN | CLI_TUNE, 0,
     "start over, dropping the run that is in the folder; for tune: what was measured before"},
    {"save-every", "Run", CLI_INT, AT(run.save_every), "STEPS", "epoch", "epoch", {0}, RANGE(1, 1e12), RUN, CLI_SHOWN,
     "save the state every so many steps too; epoch: at the end of epochs only"},
    {"log-every", "Run", CLI_INT, AT(run.log_every), "STEPS", "100", NULL, {0}, RANGE(1, 1e12), RUN, CLI_SHOWN,
     "report and write metrics every so many steps"},
    {"samples", "Run", CLI_INT, AT(run.samples), "N", "none", "none", {0}, RANGE(1, 100), RUN, CLI_SHOWN | CLI_NMT,
     "translations of --valid to show after every validation"},
    {"tensorboard", "Run", CLI_TEXT, AT(run.tensorboard), "DIR", "none", "none", {0}, ANY, RUN, CLI_SHOWN | CLI_PATH,
     "write metrics for TensorBoard to a folder too"},
    {"seed", "Run", CLI_SEED, AT(run.seed), "N", "1", NULL, {0}, ANY, MODEL | CLI_GENERATE | CLI_DATA, MATH,
     "start of all random numbers: the same seed gives the same bits"},
    {"length", "Text", CLI_INT, AT(length), "N", "200", NULL, {0}, RANGE(1, 1e9), CLI_GENERATE, 0,
     "tokens to write"},
    {"temperature", "Text", CLI_REAL, AT(temperature), "X", "1", NULL, {0}, RANGE(0, 1e6), CLI_GENERATE, 0,
     "below 1 safer, above 1 wilder, 0 always the likeliest token"},
    {"prompt", "Text", CLI_TEXT, AT(prompt), "TEXT", "", NULL, {0}, ANY, CLI_GENERATE, CLI_EMPTY,
     "text to go on from; empty: a new line"},
    {"lines", "Text", CLI_INT, AT(lines), "N", "10000", NULL, {0}, RANGE(1, 1e12), CLI_DATA, 0,
     "sentences to write"},
    {"beam", "Translation", CLI_INT, AT(beam), "N", "5", NULL, {0}, RANGE(1, 64), CLI_DECODE, 0,
     "translations of a sentence followed side by side; 1: always the likeliest next word"},
    {"nbest", "Translation", CLI_INT, AT(nbest), "N", "1", NULL, {0}, RANGE(1, 64), CLI_DECODE, 0,
     "translations written for every sentence, at most --beam; above 1 as lines `number ||| text ||| log probability ||| score`"},
    {"length-penalty", "Translation", CLI_REAL, AT(alpha), "X", "1", NULL, {0}, RANGE(0, 10), CLI_DECODE, 0,
     "score of a translation of n words: its log probability divided by n to this power"},
    {"max-ratio", "Translation", CLI_REAL, AT(max_ratio), "X", "2", NULL, {0}, ABOVE(0, 100), CLI_DECODE, 0,
     "a translation ends at this many words for every source word, and 10 more"},
    {"attention", "Translation", CLI_TEXT, AT(attention), "FILE", "none", "none", {0}, ANY, CLI_DECODE, 0,
     "write what every word attended to, as JSON, a sentence a line"},
    {"attention-svg", "Translation", CLI_TEXT, AT(attention_svg), "FILE", "none", "none", {0}, ANY, CLI_DECODE, 0,
     "draw the same of the first sentences"},
    {"tok", "Scores", CLI_CHOICE, AT(tok), NULL, "13a", NULL, {"13a", "none"}, ANY, CLI_SCORE, 0,
     "how lines are split: as sacreBLEU does by default, or at white space only, for text that is tokenised already"},
    {"memory", "Machine", CLI_SIZE, AT(run.memory), "SIZE", "auto", NULL, {0}, ANY, MODEL | USE, CLI_SHOWN,
     "most bytes used: 512M, 2G, 1.5GiB (1024-based), 80% of what is free, a plain number of bytes; auto: 80%"},
    {"threads", "Machine", CLI_INT, AT(run.threads), "N", "auto", "auto", {0}, RANGE(1, 256), MODEL | USE, CLI_SHOWN,
     "auto: all cores the machine allows; never changes a result"},
    {"tune", "Machine", CLI_TEXT, AT(tune), "DIR", "auto", "auto", {0}, ANY, MODEL | USE, 0,
     "folder for times that products were measured to take on this machine; off: built-in ones; auto: $EBB_TUNE, else the user's cache folder; never changes a result"},
    {"seconds", "Machine", CLI_REAL, AT(run.tune_seconds), "X", "60", NULL, {0}, RANGE(0, 1e6), CLI_TUNE, 0,
     "most time spent on measuring"},
    {"disable", "Machine", CLI_PASSES, AT(run.disabled), "PASS", "none", "none", {0}, ANY, MODEL, CLI_SHOWN,
     "leave out an optional compiler pass (repeatable); never changes a result"},
    {"dump-after", "Machine", CLI_PASSES, AT(run.dump_after), "PASS", "none", "none", {0}, ANY, STEP, 0,
     "print the graph after a compiler pass (repeatable)"},
    {"explain", "Machine", CLI_SWITCH, AT(run.explain), NULL, "false", NULL, {0}, ANY, CLI_PLAN, 0,
     "list the products of a step: how each is carried out, what was measured, its share"},
    {"curve", "Machine", CLI_SWITCH, AT(curve), NULL, "false", NULL, {0}, ANY, CLI_PLAN, 0,
     "list every plan worth taking, from the fastest to the smallest: time against memory"},
    {"program", "Machine", CLI_SWITCH, AT(program), NULL, "false", NULL, {0}, ANY, CLI_PLAN, 0,
     "list every instruction of every program: kernel, addresses and bytes, run, members, label"},
    {"svg", "Machine", CLI_TEXT, AT(svg), "FILE", "none", "none", {0}, ANY, CLI_PLAN, 0,
     "draw the bytes over one step, by layer and kind; with --curve: time against memory"},
    {"svg", "Machine", CLI_TEXT, AT(svg), "FILE", "none", "none", {0}, ANY, CLI_DATA_PLAN, 0,
     "draw how often each length occurs, and the shapes of the chosen strategy"},
    {"profile", "Machine", CLI_SWITCH, AT(run.profile), NULL, "false", NULL, {0}, ANY, CLI_BENCH, 0,
     "observe as many steps again: where their time goes, and how near the machine's peak they come"},
    {"config", "General", CLI_TEXT, AT(config), "FILE", "none", "none", {0}, ANY, MODEL | CLI_DATA_BUILD, 0,
     "read options from a file, `key = value` a line, keys named as here; the command line wins"},
    {"json", "General", CLI_SWITCH, AT(json), NULL, "false", NULL, {0}, ANY, MODEL | CLI_DATA_BUILD | CLI_EVAL | CLI_INSPECT | CLI_SCORE | CLI_CHRF, 0,
     "results as one JSON object on standard output"},
    {"quiet", "General", CLI_SWITCH, AT(quiet), NULL, "false", NULL, {0}, ANY, ALL, 0,
     "no plan, no progress: only warnings and errors"},
    {"verbose", "General", CLI_SWITCH, AT(verbose), NULL, "false", NULL, {0}, ANY, ALL, 0,
     "more about what is going on"},
    /* clang-format on */
};

_Static_assert(sizeof options / sizeof options[0] <= CLI_MAX_OPTIONS, "given[] is too short");

size_t ebb__cli_option_count(void) {
    return sizeof options / sizeof options[0];
}

const cli_option *ebb__cli_option(size_t index) {
    return &options[index];
}

bool ebb__cli_applies(const cli_option *option, train_model model) {
    unsigned of = option->flags & (CLI_LM | CLI_NMT);
    return of == 0 || (of & (model == MODEL_NMT ? CLI_NMT : CLI_LM)) != 0;
}

const cli_option *ebb__cli_find(train_model model, const char *name) {
    for (size_t i = 0; i < ebb__cli_option_count(); i++) {
        if (ebb__cli_applies(&options[i], model) && strcmp(options[i].name, name) == 0) {
            return &options[i];
        }
    }
    return NULL;
}

const cli_option *ebb__cli_find_for(cli_command command, train_model model, const char *name) {
    for (size_t i = 0; i < ebb__cli_option_count(); i++) {
        if ((options[i].commands & (unsigned)command) != 0 &&
            ebb__cli_applies(&options[i], model) && strcmp(options[i].name, name) == 0) {
            return &options[i];
        }
    }
    return ebb__cli_find(model, name);
}

bool ebb__cli_given(const cli_settings *settings, const char *name) {
    const cli_option *option = ebb__cli_find(settings->run.model, name);
    return option != NULL && settings->given[option - options];
}

ebb_status ebb__cli_settings_init(ebb_ctx *ctx, train_model model, cli_settings *out) {
    memset(out, 0, sizeof *out);
    out->ctx = ctx;
    out->run.model = model;
    ebb__region_init(&out->region, ctx);
    for (size_t i = 0; i < ebb__cli_option_count(); i++) {
        if (ebb__cli_applies(&options[i], model)) {
            TRY(ebb__cli_assign(out, &options[i], options[i].standard, false, options[i].name));
            out->given[i] = false;
        }
    }
    return EBB_OK;
}

void ebb__cli_settings_fini(cli_settings *settings) {
    ebb__region_fini(&settings->region);
}
