/* options.h - options of the command: those of a kind of model, which its list has
 * (train/option.h), and those of the command itself. Parser, help, config files, suggestions and
 * dumps are all made from these lists, so that an option is added by one entry and nothing else.
 *
 * Values come from three places, later ones winning: the lists' defaults, the file named by
 * --config, the command line. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "kind/kinds.h"
#include "page/text.h"
#include "train/option_set.h"

typedef enum cli_tok { TOK_13A, TOK_NONE } cli_tok;

typedef struct cli_settings {
    train_settings run; /* first: options of kinds have offsets in it */
    const char *config, *prompt, *tune, *device, *svg, *attention, *attention_svg;
    char tune_folder[512]; /* what run.tune_folder points to */
    int64_t length, lines, codes, beam, nbest, top, top_k;
    double temperature, top_p, alpha, max_ratio;
    cli_tok tok;
    decode_unk unk;
    bool json, verbose, quiet, curve, program, stop_at_eos, ids;
    bool given[OPTION_MAX]; /* by option: not merely the default */
    alloc_region region;    /* strings that came from files */
    ebb_ctx *ctx;
} cli_settings;

/* The settings with all their options: those of the kind, then those of the command. */
option_set ebb__cli_set(cli_settings *settings);
/* The options alone. */
size_t ebb__cli_option_count(const model_kind *kind);
const train_option *ebb__cli_option(const model_kind *kind, size_t index);
const train_option *ebb__cli_find(const model_kind *kind,
                                  const char *name); /* NULL: there is none */
/* The same for one command, whose own entry goes before another command's of the same name. */
const train_option *ebb__cli_find_for(option_command command, const model_kind *kind,
                                      const char *name);
/* Whether an option was given, not merely its default. */
bool ebb__cli_given(const cli_settings *settings, const char *name);

/* Every option of the kind at its default. Free with ebb__cli_settings_fini, also after a failure.
 */
ebb_status ebb__cli_settings_init(ebb_ctx *ctx, const model_kind *kind,
                                  cli_settings *out) EBB_MUST_CHECK;
void ebb__cli_settings_fini(cli_settings *settings);
/* ebb__options_assign. */
ebb_status ebb__cli_assign(cli_settings *settings, const train_option *option, const char *text,
                           bool literal, const char *where) EBB_MUST_CHECK;

/* ---- config.c ---- */

/* Appends `key = value` lines of all options with every bit of `flags`; loading them gives the same
 * values to the last bit. */
ebb_status ebb__cli_dump(const cli_settings *settings, unsigned flags,
                         page_text *out) EBB_MUST_CHECK;
/* ebb__config_load. */
ebb_status ebb__cli_load(cli_settings *settings, const char *path,
                         ebb_status failure) EBB_MUST_CHECK;

/* ---- parse.c ---- */

/* Reads the arguments after the command's name: options into `settings` (with --config applied
 * below them), the rest into `words`, of which there must be `n_words` at most; *help is set if
 * --help was among them (and then nothing else is checked). `called` is the command as typed. */
ebb_status ebb__cli_parse(cli_settings *settings, option_command command, const char *called,
                          int argc, char **argv, const char **words, int n_words, int *got,
                          bool *help) EBB_MUST_CHECK;
/* ebb__options_resolve. */
ebb_status ebb__cli_resolve(cli_settings *settings) EBB_MUST_CHECK;
/* Of the commands whose texts are given by the kind's name (--lm FILE): that they are. `what` is to
 * be done with them. */
ebb_status ebb__cli_need_texts(const cli_settings *settings, const char *what) EBB_MUST_CHECK;

/* ---- help.c ---- */

void ebb__cli_help_options(option_command command, const model_kind *kind);

#endif
