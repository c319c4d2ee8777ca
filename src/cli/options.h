/* options.h - the one table of options: parser, help, config files, suggestions and dumps are all
 * made from it, so that an option is added by one entry and nothing else.
 *
 * Values come from three places, later ones winning: the table's defaults, the file named by
 * --config, the command line. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "page/text.h"
#include "train/settings.h"

typedef enum cli_command {
    CLI_TRAIN = 1 << 0,
    CLI_PLAN = 1 << 1,
    CLI_BENCH = 1 << 2,
    CLI_EVAL = 1 << 3,
    CLI_GENERATE = 1 << 4,
    CLI_INSPECT = 1 << 5,
    CLI_DATA = 1 << 6,
    CLI_TUNE = 1 << 7,
    CLI_DECODE = 1 << 8,
    CLI_SCORE = 1 << 9, /* eval bleu: files, no model */
    CLI_REPORT = 1 << 10,
    CLI_CHRF = 1 << 11, /* eval chrf: likewise */
    CLI_DATA_PLAN = 1 << 12,
    CLI_DATA_BUILD = 1 << 13
} cli_command;

typedef enum cli_kind {
    CLI_SWITCH, /* bool; no value on the command line */
    CLI_INT,    /* int64_t */
    CLI_SEED,   /* uint64_t, any */
    CLI_REAL,   /* double, finite */
    CLI_CHOICE, /* an enum, one of `names` */
    CLI_TEXT,   /* const char *; NULL is `zero` */
    CLI_SIZE,   /* train_memory */
    CLI_PASSES  /* uint32_t bit set of pass_id; repeatable */
} cli_kind;

typedef enum cli_flag {
    CLI_MATH = 1 << 0,      /* changes the mathematics: must match on resume */
    CLI_SHOWN = 1 << 1,     /* part of the dump: a setting of the run, not of this invocation */
    CLI_LM = 1 << 2,        /* only of language models; without this or the next: of all kinds */
    CLI_NMT = 1 << 3,       /* only of translation; a name may have one entry for each kind */
    CLI_PAIR = 1 << 4,      /* on the command line a second value may follow: the next entry's */
    CLI_OR_NUMBER = 1 << 5, /* a choice; a number in its place is the next entry's */
    CLI_SENTENCES = 1 << 6, /* of language models: only by sentence, else refused */
    CLI_RARE = 1 << 7,      /* part of the dump only where it is not off */
    CLI_PATH = 1 << 8,      /* a path that a run stores; see paths.c */
    CLI_EMPTY = 1 << 9      /* a text that may be empty */
} cli_flag;

typedef struct cli_range {
    double low, high;
    bool above, below; /* the bound itself is excluded */
} cli_range;

enum { CLI_MAX_CHOICES = 8, CLI_MAX_OPTIONS = 128 };

typedef struct cli_option {
    const char *name;
    const char *group;
    cli_kind kind;
    size_t offset;        /* in cli_settings */
    const char *value;    /* what help calls it: "N", "FILE" */
    const char *standard; /* default, as the user would write it */
    const char *zero;     /* word for 0 or NULL ("auto", "none"); NULL: there is none */
    const char *names[CLI_MAX_CHOICES + 1];
    cli_range range;
    unsigned commands, flags;
    const char *help;
} cli_option;

typedef enum cli_tok { TOK_13A, TOK_NONE } cli_tok;

typedef struct cli_settings {
    train_settings run;
    const char *config, *prompt, *tune, *svg, *attention, *attention_svg;
    char tune_folder[512]; /* what run.tune_folder points to */
    int64_t length, lines, beam, nbest;
    double temperature, alpha, max_ratio;
    cli_tok tok;
    bool json, verbose, quiet, curve, program;
    bool given[CLI_MAX_OPTIONS]; /* by option: not merely the default */
    alloc_region region;         /* strings that came from files */
    ebb_ctx *ctx;
} cli_settings;

size_t ebb__cli_option_count(void);
const cli_option *ebb__cli_option(size_t index);
/* Whether models of this kind have the option. */
bool ebb__cli_applies(const cli_option *option, train_model model);
const cli_option *ebb__cli_find(train_model model, const char *name); /* NULL if there is none */
/* The same for one command, whose own entry goes before another command's of the same name. */
const cli_option *ebb__cli_find_for(cli_command command, train_model model, const char *name);
bool ebb__cli_given(const cli_settings *settings, const char *name);

/* Every option of the kind at its default. Free with ebb__cli_settings_fini, also after a failure.
 */
ebb_status ebb__cli_settings_init(ebb_ctx *ctx, train_model model,
                                  cli_settings *out) EBB_MUST_CHECK;
void ebb__cli_settings_fini(cli_settings *settings);

/* ---- value.c: text to value and back ---- */

/* `where` starts the error message: "--lr" or "FILE:3: lr". `literal` text (quoted in a file) never
 * means the zero word. Text values are borrowed. */
ebb_status ebb__cli_assign(cli_settings *settings, const cli_option *option, const char *text,
                           bool literal, const char *where) EBB_MUST_CHECK;

/* The entry that the text is a value of: the option itself, or the next (CLI_OR_NUMBER). */
const cli_option *ebb__cli_meant(const cli_option *option, const char *text);

/* The names of a choice in one text. */
typedef struct cli_choices {
    char text[96];
} cli_choices;
cli_choices ebb__cli_choices(const cli_option *option, const char *between);

/* ---- config.c ---- */

/* Appends `key = value` lines of all options with every bit of `flags`; loading them gives the same
 * values to the last bit. */
ebb_status ebb__cli_dump(const cli_settings *settings, unsigned flags,
                         page_text *out) EBB_MUST_CHECK;
/* Assigns what the file says; what is wrong with it is `failure` and names file and line. */
ebb_status ebb__cli_load(cli_settings *settings, const char *path,
                         ebb_status failure) EBB_MUST_CHECK;

/* ---- paths.c ---- */

/* Of settings that were just loaded from `config`: if that is the config of a run, relative paths
 * start where the run was started. */
ebb_status ebb__cli_paths_of_run(cli_settings *settings, const char *config) EBB_MUST_CHECK;
/* Of a copy of settings that is to be stored as such a config: absolute paths where its place will
 * not tell. In memory of `region`. */
ebb_status ebb__cli_paths_to_store(cli_settings *settings, alloc_region *region) EBB_MUST_CHECK;

/* ---- parse.c ---- */

/* Reads the arguments after the command's name: options into `settings` (with --config applied
 * below them), the rest into `words`, of which there must be `n_words` at most; *help is set if
 * --help was among them (and then nothing else is checked). `called` is the command as typed. */
ebb_status ebb__cli_parse(cli_settings *settings, cli_command command, const char *called, int argc,
                          char **argv, const char **words, int n_words, int *got,
                          bool *help) EBB_MUST_CHECK;
/* Fills in what depends on other options (--embed, --lr, --epochs) and checks sizes together. */
ebb_status ebb__cli_resolve(cli_settings *settings) EBB_MUST_CHECK;
/* Of the commands with --lm and --nmt: that there is a text, or two. `what` is to be done with it.
 */
ebb_status ebb__cli_need_texts(const cli_settings *settings, const char *what) EBB_MUST_CHECK;

/* ---- help.c ---- */

void ebb__cli_help_options(cli_command command, train_model model);

/* ---- nearest.c ---- */

/* The candidate that takes the fewest edits to become `text`; NULL if there are no candidates. */
typedef const char *(*cli_candidate_fn)(const void *user, size_t index); /* NULL: skip */
const char *ebb__cli_nearest(const char *text, cli_candidate_fn candidate, const void *user,
                             size_t count);

#endif
