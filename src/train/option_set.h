/* option_set.h - the options that settings have, with the settings themselves: those of a kind of
 * model, then those of who asks (the command's own; of the library what every run stores). Texts
 * become values through it, from a command line or from a config. */
#ifndef TRAIN_OPTION_SET_H
#define TRAIN_OPTION_SET_H

#include "train/kind.h"

typedef struct option_set {
    ebb_ctx *ctx;
    const model_kind *kind;
    const option_list *more; /* what follows the kind's */
    void *base;              /* a train_settings, or what begins with one: offsets count from it */
    bool *given;             /* [OPTION_MAX], by number: not merely the default */
    alloc_region *region;    /* for texts that come from files */
} option_set;

size_t ebb__options_count(const option_set *set);
const train_option *ebb__options_at(const option_set *set, size_t index);
const train_option *ebb__options_find(const option_set *set, const char *name); /* NULL: none */
bool ebb__options_given(const option_set *set, const char *name);
/* ebb__option_assign, and notes that it was given. */
ebb_status ebb__options_assign(const option_set *set, const train_option *option, const char *text,
                               bool literal, const char *where) EBB_MUST_CHECK;
/* Fills in what depends on other options (--embed, --lr, --epochs) and checks all together, also
 * that what was given means something here. */
ebb_status ebb__options_resolve(const option_set *set) EBB_MUST_CHECK;

/* What every run stores beside the options of its kind: which budget, how many threads. */
extern const option_list ebb__options_machine;

/* ---- config.c ---- */

/* Assigns what the file says, `key = value` a line; what is wrong with it is `failure` and names
 * file and line. */
ebb_status ebb__config_load(const option_set *set, const char *path,
                            ebb_status failure) EBB_MUST_CHECK;
/* The characters that a quoted value writes as a backslash and a letter, and these letters. */
#define CONFIG_ESCAPED "\"\\\n\t\r"
#define CONFIG_LETTERS "\"\\ntr"

/* ---- paths.c ---- */

/* Of settings that were just loaded from `config`: if that is the config of a run, relative paths
 * start where the run was started. */
ebb_status ebb__paths_of_run(const option_set *set, const char *config) EBB_MUST_CHECK;
/* Of a copy of settings that is to be stored as such a config: absolute paths where its place will
 * not tell. In memory of the set's region. */
ebb_status ebb__paths_to_store(const option_set *set) EBB_MUST_CHECK;

#endif
