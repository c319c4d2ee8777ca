/* entries.h - the commands as they are typed: their names, arguments and help. What is told of them
 * anywhere (help, manual pages, completion) is made from this list and the options' tables. */
#ifndef CLI_ENTRIES_H
#define CLI_ENTRIES_H

#include "cli/command.h"

/* A command as it is typed: `train lm`, `decode`. */
typedef struct cli_entry {
    const char *name, *model; /* "train", "lm"; model NULL: the command takes none */
    const model_kind *kind;   /* NULL: of no kind */
    option_command id;
    int n_words; /* arguments that are no options, all required; below 0: so many, or more */
    ebb_status (*run)(cli_call *call);
    const char *usage, *summary, *details;
} cli_entry;

enum { CLI_MOST_ENTRIES = 64 };

/* All commands, those with one name side by side. */
typedef struct cli_entries {
    cli_entry at[CLI_MOST_ENTRIES];
    size_t n;
} cli_entries;

cli_entries ebb__cli_entries(void);
/* The first of that name; with a model, the one of that kind; NULL: there is none. */
const cli_entry *ebb__cli_entry_find(const cli_entries *list, const char *name, const char *model);
/* The kind whose options the command has: its own, the one that is asked for, or that can do it. */
const model_kind *ebb__cli_entry_kind(const cli_entry *entry, int argc, char **argv);

/* The value that an option takes, and its help with the default, as help shows them (help.c). */
typedef struct cli_option_text {
    char value[128], help[768];
} cli_option_text;
cli_option_text ebb__cli_option_text(const train_option *option);

/* `ebb help man`: the names of all manual pages, or the page of that name; and `ebb help bash`, zsh
 * or fish: what completes the command in that shell (manual.c, complete.c). False: there is no such
 * page or shell. */
bool ebb__cli_manual(const cli_entries *list, const char *page);
bool ebb__cli_complete(const cli_entries *list, const char *shell);
/* Every option of a command once, whatever the kind; gives their number, at most `room`. */
size_t ebb__cli_entry_options(const cli_entry *entry, const train_option **out, size_t room);

#endif
