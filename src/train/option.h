/* option.h - an option: one setting as people name and write it, with its default, its limits and
 * what help says of it. Every kind of model has a list of them, from which its settings start; the
 * command makes its parser, help, config files, suggestions and dumps from the same list. */
#ifndef TRAIN_OPTION_H
#define TRAIN_OPTION_H

#include "base/ctx.h"

#include <stdbool.h>
#include <stddef.h>

/* Which commands take an option. */
typedef enum option_command {
    FOR_TRAIN = 1 << 0,
    FOR_PLAN = 1 << 1,
    FOR_BENCH = 1 << 2,
    FOR_EVAL = 1 << 3,
    FOR_GENERATE = 1 << 4,
    FOR_INSPECT = 1 << 5,
    FOR_DATA = 1 << 6,
    FOR_TUNE = 1 << 7,
    FOR_DECODE = 1 << 8,
    FOR_SCORE = 1 << 9, /* eval bleu: files, no model */
    FOR_REPORT = 1 << 10,
    FOR_CHRF = 1 << 11, /* eval chrf: likewise */
    FOR_DATA_PLAN = 1 << 12,
    FOR_DATA_BUILD = 1 << 13,
    FOR_PREDICT = 1 << 14,
    FOR_CODES = 1 << 15, /* data codes: texts, no model */
    FOR_AVERAGE = 1 << 16,
    FOR_DEVICES = 1 << 17
} option_command;

typedef enum option_kind {
    OPTION_SWITCH, /* bool; no value on the command line */
    OPTION_INT,    /* int64_t */
    OPTION_SEED,   /* uint64_t, any */
    OPTION_REAL,   /* double, finite */
    OPTION_CHOICE, /* an enum, one of `names` */
    OPTION_TEXT,   /* const char *; NULL is `zero` */
    OPTION_SIZE,   /* train_memory */
    OPTION_PASSES  /* uint32_t bit set of pass_id; repeatable */
} option_kind;

typedef enum option_flag {
    OPTION_MATH = 1 << 0,    /* changes the mathematics: must match on resume */
    OPTION_SHOWN = 1 << 1,   /* part of the dump: a setting of the run, not of this invocation */
    OPTION_LATER = 1 << 2,   /* its default depends on others: 0 until settings are resolved */
    OPTION_PAIR = 1 << 4,    /* on the command line a second value may follow: the next entry's */
    OPTION_OR_TEXT = 1 << 5, /* a number; other text in its place is the next entry's */
    OPTION_PART = 1 << 6,    /* has a meaning only in some runs of the kind (model_kind.lacks) */
    OPTION_RARE = 1 << 7,    /* part of the dump only where it is not off */
    OPTION_PATH = 1 << 8,    /* a path that a run stores */
    OPTION_EMPTY = 1 << 9,   /* a text that may be empty */
    OPTION_LIST = 1 << 10,   /* a text; given again, it is joined with a comma */
    OPTION_NO_NUMBER = 1 << 11, /* a choice; a number is what the next entry is for */
    OPTION_BPE = 1 << 12,       /* of texts that are cut by codes */
    OPTION_JOINT = 1 << 13      /* decides what several processes do together: the same for all */
} option_flag;

typedef struct option_range {
    double low, high;
    bool above, below; /* the bound itself is excluded */
} option_range;

enum { OPTION_MAX_CHOICES = 8, OPTION_MAX = 128 }; /* names of a choice; options of a kind */

typedef struct train_option {
    const char *name;
    const char *group;
    option_kind kind;
    size_t offset;        /* of the value: see ebb__option_assign */
    const char *value;    /* what help calls it: "N", "FILE" */
    const char *standard; /* default, as the user would write it */
    const char *zero;     /* word for 0 or NULL ("auto", "none"); NULL: there is none */
    const char *names[OPTION_MAX_CHOICES + 1];
    option_range range;
    unsigned commands, flags;
    const char *help;
} train_option;

typedef struct option_list {
    const train_option *at;
    size_t n;
} option_list;

/* ---- option_value.c: text to value ---- */

/* Puts the value that `text` stands for at the option's offset from `base`. `where` starts the
 * error message: "--lr" or "FILE:3: lr". `literal` text (quoted in a file) never means the zero
 * word. Text values are borrowed. */
ebb_status ebb__option_assign(ebb_ctx *ctx, const train_option *option, void *base,
                              const char *text, bool literal, const char *where) EBB_MUST_CHECK;

/* Of its value, where that lies in settings. */
size_t ebb__option_bytes(const train_option *option);

/* The entry that the text is a value of: the option itself, or the next (OPTION_OR_TEXT). */
const train_option *ebb__option_meant(const train_option *option, const char *text);

/* The names of a choice in one text. */
typedef struct option_choices {
    char text[96];
} option_choices;
option_choices ebb__option_choices(const train_option *option, const char *between);

#endif
