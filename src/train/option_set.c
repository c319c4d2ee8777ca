/* option_set.c - see option_set.h. */
#include "train/option_set.h"

#include "train/options.h"

#include <string.h>

/* The command lists the same, and says which of its commands take them. */
static const train_option machine[] = {OPTION_MEMORY(0), OPTION_THREADS(0), OPTION_DISABLE(0)};
const option_list ebb__options_machine = {machine, sizeof machine / sizeof *machine};

size_t ebb__options_count(const option_set *set) {
    return set->kind->options->n + set->more->n;
}

const train_option *ebb__options_at(const option_set *set, size_t index) {
    size_t own = set->kind->options->n;
    return index < own ? &set->kind->options->at[index] : &set->more->at[index - own];
}

const train_option *ebb__options_find(const option_set *set, const char *name) {
    for (size_t i = 0; i < ebb__options_count(set); i++) {
        if (strcmp(ebb__options_at(set, i)->name, name) == 0) {
            return ebb__options_at(set, i);
        }
    }
    return NULL;
}

bool ebb__options_given(const option_set *set, const char *name) {
    for (size_t i = 0; i < ebb__options_count(set); i++) {
        if (strcmp(ebb__options_at(set, i)->name, name) == 0) {
            return set->given[i];
        }
    }
    return false;
}

ebb_status ebb__options_assign(const option_set *set, const train_option *option, const char *text,
                               bool literal, const char *where) {
    size_t i = 0;
    option = ebb__option_meant(option, text);
    TRY(ebb__option_assign(set->ctx, option, set->base, text, literal, where));
    while (ebb__options_at(set, i) != option) {
        i++;
    }
    set->given[i] = true;
    return EBB_OK;
}

/* The name that it was most likely given by: --codes FILE is an entry of its own. */
static const char *name_given(const option_set *set, size_t i) {
    const train_option *before = i > 0 ? ebb__options_at(set, i - 1) : NULL;
    bool is_text = before != NULL && (before->flags & OPTION_OR_TEXT) != 0;
    return is_text ? before->name : ebb__options_at(set, i)->name;
}

/* Options without a meaning in this run. */
static ebb_status check_parts(const option_set *set) {
    for (size_t i = 0; set->kind->lacks != NULL && i < ebb__options_count(set); i++) {
        const train_option *option = ebb__options_at(set, i);
        const char *why = set->given[i] ? set->kind->lacks(set->base, option) : NULL;
        if (why != NULL) {
            return ebb__fail(set->ctx, EBB_USAGE, "--%s %s", name_given(set, i), why);
        }
    }
    return EBB_OK;
}

ebb_status ebb__options_resolve(const option_set *set) {
    train_settings *run = set->base;
    TRY(check_parts(set));
    if (run->batch_tokens > 0 && run->batch != 0 && ebb__options_given(set, "batch")) {
        return ebb__fail(
            set->ctx, EBB_USAGE,
            "--batch says sentences and --batch-tokens %lld says tokens of a batch: only "
            "one can hold",
            (long long)run->batch_tokens);
    }
    if (run->tokens == TEXT_BPE && !ebb__options_given(set, "vocab")) {
        run->vocab = 0; /* all pieces: codes bound their number */
    }
    return ebb__settings_resolve(set->ctx, run);
}
