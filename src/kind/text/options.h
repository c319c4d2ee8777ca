/* options.h - options that kinds of models on texts share. PART: OPTION_PART where only some runs
 * of the kind have sentences, else 0. */
#ifndef KIND_TEXT_OPTIONS_H
#define KIND_TEXT_OPTIONS_H

#include "data/codes.h"
#include "train/kind.h"
#include "train/options.h"

/* Most cells that a step unrolls, and most positions of a batch. */
#define TEXT_MOST_CELLS (1 << 14)
#define TEXT_MOST_POSITIONS (INT64_C(1) << 30)

/* Metrics of models of text. */
enum { METRIC_PERPLEXITY, METRIC_BLEU };
/* Of a mean loss in nats; always finite, since JSON has no infinity. */
double ebb__text_perplexity(double loss);

/* embed 0 becomes hidden; EBB_USAGE if weights are tied that differ in size. */
ebb_status ebb__text_resolve(ebb_ctx *ctx, train_settings *s) EBB_MUST_CHECK;
/* EBB_USAGE if what looks at validation (`more`, or plateau, patience) has nothing to look at. */
ebb_status ebb__text_check(ebb_ctx *ctx, const train_settings *s, const char *more) EBB_MUST_CHECK;
/* model_kind.lacks of the options that all texts have. */
const char *ebb__text_lacks(const train_settings *s, const train_option *option);
extern const char *const ebb__text_cells[];

/* clang-format off */
/* MODES: as in text_mode, those that the kind has. */
#define TEXT_TOKENS(...) \
    {"tokens", "Data", OPTION_CHOICE, AT(tokens), NULL, "word", NULL, {__VA_ARGS__}, ANY, RUN | TEXTS, MATH | OPTION_NO_NUMBER, \
     "what one token is; bpe: a piece of a word, cut by --codes"}

#define TEXT_CODES \
    {"codes", "Data", OPTION_INT, AT(codes), "N|FILE|DIR", "8000", NULL, {0}, RANGE(1, CODES_MOST_PAIRS), RUN | TEXTS, MATH | OPTION_OR_TEXT | OPTION_BPE, \
     "of --tokens bpe: pairs of pieces to learn from the text, or a file of codes (ebb data codes, subword-nmt), or the folder of a run to take them from, or one with GPT-2's vocab.json and merges.txt"}, \
    {"codes-from", "Data", OPTION_TEXT, AT(codes_from), "FILE|DIR", "none", "none", {0}, ANY, RUN | TEXTS, MATH | OPTION_RARE | OPTION_BPE, \
     "the file or folder of --codes by itself, as in config files"}

#define TEXT_VOCAB \
    {"vocab", "Data", OPTION_INT, AT(vocab), "N|FILE|DIR", "10000", "all", {0}, RANGE(1, 1e8), MODEL | FOR_DATA_BUILD, MATH | OPTION_OR_TEXT, \
     "most frequent tokens kept, the others become <unk>; all: every token of the text, as with --tokens bpe by default; a file, or the folder of a run: those of its vocabulary; a folder with GPT-2's vocab.json: its pieces"}, \
    {"vocab-from", "Data", OPTION_TEXT, AT(vocab_from), "FILE|DIR", "none", "none", {0}, ANY, MODEL | FOR_DATA_BUILD, MATH | OPTION_RARE, \
     "the file or folder of --vocab by itself, as in config files"}, \
    {"new-words", "Data", OPTION_INT, AT(new_words), "N", "none", "none", {0}, RANGE(1, 1e8), RUN | FOR_DATA_BUILD, MATH | OPTION_RARE, \
     "with --init or --vocab of a run: so many tokens of the text that its vocabulary lacks, the most frequent, are added behind; in weights to start from they are like <unk>"}

#define TEXT_EMBED \
    {"embed", "Model", OPTION_INT, AT(embed), "N", "hidden", "hidden", {0}, RANGE(1, 1e5), MODEL, MATH, \
     "size of a token's embedding; hidden: that of --hidden"}, \
    {"tie", "Model", OPTION_SWITCH, AT(tie), NULL, "false", NULL, {0}, ANY, MODEL, MATH, \
     "use the embedding as output weights too (needs --embed equal to --hidden)"}

#define TEXT_DROPOUT \
    {"dropout", "Model", OPTION_REAL, AT(dropout), "P", "0", NULL, {0}, BELOW(0, 1), MODEL, MATH, \
     "share of units dropped after the embedding, between layers and before the output"}

#define TEXT_BUCKETS(PART) \
    {"bucket", "Batch", OPTION_CHOICE, AT(bucket), NULL, "auto", NULL, {"none", "static", "greedy", "percentile", "width", "optimal", "pool", "auto"}, ANY, FOR_DATA_PLAN | RUN, MATH | (PART), \
     "how sentences are grouped: all padded to the longest; by --static; a shape as soon as a batch is full; as many sentences a shape; equal distances; the fewest padded tokens; sorted pools of 100 batches (not with --batch-tokens); auto: the shortest epoch"}, \
    {"shapes", "Batch", OPTION_INT, AT(shapes), "N", "8", NULL, {0}, RANGE(1, 32), FOR_DATA_PLAN | RUN, MATH | (PART), \
     "most shapes that batches are padded to; each is a program"}, \
    {"static", "Batch", OPTION_TEXT, AT(shape_list), "LIST", TRAIN_SHAPE_LIST, NULL, {0}, ANY, FOR_DATA_PLAN | RUN, MATH | (PART), \
     "shapes of --bucket static: lengths with the end mark, as 8,16,24; of pairs also 8x10,16x20 (source x target); one more is made for what is longer"}
/* clang-format on */

#endif
