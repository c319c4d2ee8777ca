/* grammar.c - recursive descent the other way round: one function a rule, each throwing dice and
 * putting words.
 *
 *   sentence  clause | conjunction clause , clause
 *   clause    noun_phrase verb_phrase [adverb] [place]
 *   noun_phrase  determiner [adjective] noun [that verb_phrase]     (no clause inside a clause)
 *   verb_phrase  [will | does not | do not] verb [noun_phrase]
 *
 * All nouns take a plain -s, all verbs too, and all nouns and adjectives start with a consonant, so
 * that no rule needs exceptions ("a", never "an"). */
#include "data/grammar.h"

#include "data/dice.h"
#include "data/sink.h"

#include <string.h>

#define COUNT(list) ((uint32_t)(sizeof(list) / sizeof(list)[0]))
#define PICK(dice, list) ((list)[throw_die(dice, COUNT(list))])

static const char *const nouns[] = {
    "dog",      "cat",    "king",    "queen",   "sailor", "farmer", "teacher", "painter", "doctor",
    "singer",   "friend", "robot",   "dragon",  "horse",  "bird",   "tiger",   "monkey",  "river",
    "mountain", "garden", "forest",  "village", "town",   "castle", "bridge",  "road",    "letter",
    "book",     "song",   "picture", "story",   "poem",   "map",    "lamp",    "mirror",  "door",
    "window",   "table",  "chair",   "clock",   "coin",   "ring",   "sword",   "crown",   "ship",
    "train",    "wagon",  "boat",    "wheel",   "cloud",  "star",   "planet",  "stone"};
static const char *const adjectives[] = {
    "small",  "big",    "red",    "green",  "blue",    "white",  "black",  "young",
    "tall",   "short",  "quick",  "slow",   "clever",  "brave",  "kind",   "proud",
    "quiet",  "loud",   "happy",  "sad",    "rich",    "poor",   "strong", "weak",
    "bright", "dark",   "cold",   "warm",   "strange", "famous", "hungry", "gentle",
    "lazy",   "lonely", "modern", "pretty", "rusty",   "golden", "silver", "wooden"};
static const char *const acts[] = {"see",   "like",   "find",   "follow",   "hear",   "help",
                                   "know",  "love",   "need",   "remember", "visit",  "want",
                                   "paint", "cover",  "forget", "admire",   "ignore", "bring",
                                   "build", "choose", "clean",  "count",    "draw",   "greet",
                                   "hide",  "keep",   "lift",   "move",     "praise", "serve"};
static const char *const states[] = {"sleep", "run",  "walk", "sing",  "dance", "laugh", "wait",
                                     "smile", "fall", "rest", "dream", "swim",  "jump",  "shine"};
static const char *const adverbs[] = {"slowly", "quickly", "often",  "today",  "again",
                                      "now",    "gladly",  "always", "rarely", "together",
                                      "alone",  "here",    "there",  "soon",   "quietly"};
static const char *const one[] = {"the", "a", "this", "that", "every", "one", "my", "your"};
static const char *const many[] = {"the",   "some", "these", "those", "many",
                                   "three", "few",  "two",   "my",    "your"};
static const char *const places[] = {"near", "behind", "under", "above", "beside", "with"};
static const char *const joints[] = {"when", "because", "if", "while", "although", "before"};

typedef struct grammar_dice {
    data_sink *sink;
    data_dice throws;
    bool started; /* a word was put: the next one needs a space */
} grammar_dice;

static uint32_t throw_die(grammar_dice *dice, uint32_t sides) {
    return ebb__dice_throw(&dice->throws, sides);
}

static bool chance(grammar_dice *dice, uint32_t percent) {
    return throw_die(dice, 100) < percent;
}

static ebb_status put_word(grammar_dice *dice, const char *word, const char *ending) {
    if (dice->started) {
        TRY(ebb__sink_put(dice->sink, " ", 1));
    }
    dice->started = true;
    TRY(ebb__sink_put(dice->sink, word, strlen(word)));
    return ebb__sink_put(dice->sink, ending, strlen(ending));
}

static ebb_status put_verb(grammar_dice *dice, const char *verb, bool plural) {
    uint32_t form = throw_die(dice, 10);
    if (form == 0) {
        TRY(put_word(dice, "will", ""));
        return put_word(dice, verb, "");
    }
    if (form == 1) {
        TRY(put_word(dice, plural ? "do" : "does", ""));
        TRY(put_word(dice, "not", ""));
        return put_word(dice, verb, "");
    }
    return put_word(dice, verb, plural ? "" : "s");
}

static ebb_status put_plain_noun_phrase(grammar_dice *dice, bool plural) {
    TRY(put_word(dice, plural ? PICK(dice, many) : PICK(dice, one), ""));
    if (chance(dice, 40)) {
        TRY(put_word(dice, PICK(dice, adjectives), ""));
    }
    return put_word(dice, PICK(dice, nouns), plural ? "s" : "");
}

static ebb_status put_verb_phrase(grammar_dice *dice, bool plural) {
    if (chance(dice, 35)) {
        return put_verb(dice, PICK(dice, states), plural);
    }
    TRY(put_verb(dice, PICK(dice, acts), plural));
    return put_plain_noun_phrase(dice, chance(dice, 50));
}

static ebb_status put_clause(grammar_dice *dice) {
    bool plural = chance(dice, 50);
    TRY(put_plain_noun_phrase(dice, plural));
    if (chance(dice, 25)) {
        TRY(put_word(dice, "that", ""));
        TRY(put_verb_phrase(dice, plural));
    }
    TRY(put_verb_phrase(dice, plural));
    if (chance(dice, 25)) {
        TRY(put_word(dice, PICK(dice, adverbs), ""));
    }
    if (chance(dice, 20)) {
        TRY(put_word(dice, PICK(dice, places), ""));
        TRY(put_plain_noun_phrase(dice, chance(dice, 50)));
    }
    return EBB_OK;
}

static ebb_status put_sentence(grammar_dice *dice) {
    if (chance(dice, 20)) {
        TRY(put_word(dice, PICK(dice, joints), ""));
        TRY(put_clause(dice));
        TRY(put_word(dice, ",", ""));
    }
    TRY(put_clause(dice));
    return put_word(dice, ".", "\n");
}

ebb_status ebb__grammar_write(ebb_ctx *ctx, const char *path, uint64_t sentences, uint64_t seed) {
    ebb_status status = EBB_OK;
    data_sink sink;
    rng_key key = ebb__rng_key(seed, "data.grammar");
    TRY(ebb__sink_open(ctx, path, &sink));
    for (uint64_t i = 0; i < sentences; i++) {
        grammar_dice dice = {.sink = &sink, .throws = {.key = key, .line = i}};
        TRY_OUT(put_sentence(&dice));
    }
    TRY_OUT(ebb__sink_commit(&sink));
out:
    ebb__sink_close(&sink);
    return status;
}
