/* complete.c - scripts that complete the command in bash, zsh and fish: its commands, kinds,
 * options and the values of those that are a choice; everything else is completed as a file. */
#include "cli/entries.h"

#include <stdio.h>
#include <string.h>

enum { MOST_OPTIONS = 2 * OPTION_MAX, MOST_HELP = 72 };

/* What `ebb help` takes beside a command. */
#define OF_HELP "bash zsh fish man"

typedef struct entry_options {
    const train_option *at[MOST_OPTIONS];
    size_t n;
} entry_options;

static entry_options options_of(const cli_entry *entry) {
    entry_options list;
    list.n = ebb__cli_entry_options(entry, list.at, MOST_OPTIONS);
    return list;
}

/* "train lm" */
static void put_called(const cli_entry *entry) {
    printf("%s%s%s", entry->name, entry->model != NULL ? " " : "",
           entry->model != NULL ? entry->model : "");
}

/* The first entry of every name, in turn. */
static bool is_first(const cli_entries *list, size_t i) {
    return i == 0 || ebb__cli_entry_find(list, list->at[i].name, NULL) == &list->at[i];
}

static void put_names(const cli_entries *list) {
    for (size_t i = 0; i < list->n; i++) {
        if (is_first(list, i)) {
            printf("%s ", list->at[i].name);
        }
    }
    (void)fputs("help", stdout);
}

static void put_kinds(const cli_entries *list, const char *name) {
    const char *between = "";
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->at[i].name, name) == 0) {
            printf("%s%s", between, list->at[i].model);
            between = " ";
        }
    }
}

/* What its first argument is one of, as its usage has it: "data codes learn ... | apply ...". */
typedef struct entry_words {
    char text[64]; /* "learn apply"; empty: anything */
} entry_words;

static entry_words words_of(const cli_entry *entry) {
    entry_words list = {""};
    size_t used = 0, called = strlen(entry->name) + 1;
    const char *at = entry->usage + called + (entry->model ? strlen(entry->model) + 1 : 0);
    while (at != NULL) {
        size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz");
        if (n > 0 && at[n] == ' ' && used + n + 2 < sizeof list.text) {
            used += (size_t)snprintf(list.text + used, sizeof list.text - used, "%s%.*s",
                                     used > 0 ? " " : "", (int)n, at);
        }
        at = strstr(at, " | ");
        at = at != NULL ? at + 3 : NULL;
    }
    return list;
}

static bool takes_file(const train_option *option) {
    return option->kind == OPTION_TEXT ||
           (option->value != NULL &&
            (strstr(option->value, "FILE") != NULL || strstr(option->value, "DIR") != NULL));
}

/* What is said of an option in a line: the first part of its help. `special` is escaped by a
 * backslash; a quote ends the shell's string, stands by itself, and begins it again. */
static void put_brief(const char *help, const char *special, const char *quote) {
    size_t n = strcspn(help, ";:(");
    n = n > MOST_HELP ? MOST_HELP : n;
    while (n > 0 && (help[n - 1] == ' ' || help[n - 1] == ',')) {
        n--;
    }
    for (size_t i = 0; i < n; i++) {
        if (help[i] == '\'') {
            (void)fputs(quote, stdout);
        } else {
            printf("%s%c", strchr(special, help[i]) != NULL ? "\\" : "", help[i]);
        }
    }
}

/* Cases of bash and zsh alike: which kinds a command has. */
static void put_kind_cases(const cli_entries *list) {
    for (size_t i = 0; i < list->n; i++) {
        if (is_first(list, i) && list->at[i].model != NULL) {
            printf("    %s) kinds='", list->at[i].name);
            put_kinds(list, list->at[i].name);
            puts("' ;;");
        }
    }
}

/* ---- bash ---- */

static void put_bash_entry(const cli_entry *entry) {
    entry_options options = options_of(entry);
    (void)fputs("    '", stdout);
    put_called(entry);
    (void)fputs("')\n        options='--help", stdout);
    for (size_t i = 0; i < options.n; i++) {
        printf(" --%s", options.at[i]->name);
    }
    printf("' words='%s'\n        case $previous in\n", words_of(entry).text);
    for (size_t i = 0; i < options.n; i++) {
        if (options.at[i]->kind == OPTION_CHOICE) {
            printf("        --%s) values='%s' ;;\n", options.at[i]->name,
                   ebb__option_choices(options.at[i], " ").text);
        }
    }
    puts("        esac\n        ;;");
}

static void put_bash(const cli_entries *list) {
    puts("# Completes ebb in bash. Written by `ebb help bash`.\n"
         "_ebb() {\n"
         "    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
         "    local at=1 first called more='--help --version' options='' values='' kinds='' "
         "words=''\n"
         "    COMPREPLY=()\n"
         "    if [ \"$COMP_CWORD\" -gt 1 ] && [ \"${COMP_WORDS[1]}\" = help ]; then\n"
         "        at=2 more='" OF_HELP "'\n"
         "    fi\n"
         "    first=${COMP_WORDS[at]}\n"
         "    if [ \"$COMP_CWORD\" -eq \"$at\" ]; then");
    (void)fputs("        mapfile -t COMPREPLY < <(compgen -W \"", stdout);
    put_names(list);
    puts(" $more\" -- \"$word\")\n        return\n    fi\n    called=$first\n"
         "    case $first in");
    put_kind_cases(list);
    puts("    esac\n"
         "    if [ -n \"$kinds\" ]; then\n"
         "        at=$((at + 1))\n"
         "        if [ \"$COMP_CWORD\" -eq \"$at\" ]; then\n"
         "            mapfile -t COMPREPLY < <(compgen -W \"$kinds\" -- \"$word\")\n"
         "            return\n"
         "        fi\n"
         "        called=\"$first ${COMP_WORDS[at]}\"\n"
         "    fi\n"
         "    case $called in");
    for (size_t i = 0; i < list->n; i++) {
        put_bash_entry(&list->at[i]);
    }
    puts("    esac\n"
         "    if [ -n \"$values\" ]; then\n"
         "        mapfile -t COMPREPLY < <(compgen -W \"$values\" -- \"$word\")\n"
         "    elif [ \"${word:0:1}\" = - ]; then\n"
         "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
         "    elif [ \"$COMP_CWORD\" -eq $((at + 1)) ]; then\n"
         "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
         "    fi\n"
         "}\n"
         "complete -o default -F _ebb ebb");
}

/* ---- zsh ---- */

static void put_zsh_entry(const cli_entry *entry) {
    entry_options options = options_of(entry);
    (void)fputs("    '", stdout);
    put_called(entry);
    (void)fputs("')\n        _arguments '--help[this text]'", stdout);
    for (size_t i = 0; i < options.n; i++) {
        const train_option *option = options.at[i];
        printf(" \\\n            '--%s[", option->name);
        put_brief(option->help, ":[]\\", "'\\''");
        (void)putchar(']');
        if (option->kind == OPTION_CHOICE) {
            printf(":value:(%s)", ebb__option_choices(option, " ").text);
        } else if (option->kind != OPTION_SWITCH) {
            (void)fputs(takes_file(option) ? ":file:_files" : ":value:", stdout);
        }
        (void)putchar('\'');
    }
    if (words_of(entry).text[0] != '\0') {
        printf(" \\\n            '1:what:(%s)'", words_of(entry).text);
    }
    puts(" \\\n            '*:file:_files'\n        ;;");
}

static void put_zsh(const cli_entries *list) {
    (void)fputs("#compdef ebb\n# Completes ebb in zsh. Written by `ebb help zsh`.\n"
                "_ebb() {\n"
                "    local called kinds='' more=''\n"
                "    if [[ $words[2] == help ]] && (( CURRENT > 2 )); then\n"
                "        shift words\n"
                "        (( CURRENT-- ))\n"
                "        more='" OF_HELP "'\n"
                "    fi\n"
                "    called=$words[2]\n"
                "    if (( CURRENT == 2 )); then\n"
                "        compadd -- ",
                stdout);
    put_names(list);
    puts(" ${=more}\n        return\n    fi\n    case $called in");
    put_kind_cases(list);
    puts("    esac\n"
         "    if [[ -n $kinds ]]; then\n"
         "        if (( CURRENT == 3 )); then\n"
         "            compadd -- ${=kinds}\n"
         "            return\n"
         "        fi\n"
         "        called=\"$called $words[3]\"\n"
         "        shift words\n"
         "        (( CURRENT-- ))\n"
         "    fi\n"
         "    shift words\n"
         "    (( CURRENT-- ))\n"
         "    case $called in");
    for (size_t i = 0; i < list->n; i++) {
        put_zsh_entry(&list->at[i]);
    }
    puts("    esac\n}\n_ebb \"$@\"");
}

/* ---- fish ---- */

static void put_fish_entry(const cli_entry *entry) {
    entry_options options = options_of(entry);
    if (words_of(entry).text[0] != '\0') {
        (void)fputs("complete -c ebb -f -n '__ebb_called ", stdout);
        put_called(entry);
        printf("; and __ebb_words %d' -a '%s'\n", entry->model != NULL ? 3 : 2,
               words_of(entry).text);
    }
    for (size_t i = 0; i < options.n; i++) {
        const train_option *option = options.at[i];
        (void)fputs("complete -c ebb -n '__ebb_called ", stdout);
        put_called(entry);
        printf("' -l %s -d '", option->name);
        put_brief(option->help, "\\", "\\'");
        (void)putchar('\'');
        if (option->kind == OPTION_CHOICE) {
            printf(" -x -a '%s'", ebb__option_choices(option, " ").text);
        } else if (option->kind != OPTION_SWITCH) {
            (void)fputs(takes_file(option) ? " -r -F" : " -x", stdout);
        }
        (void)putchar('\n');
    }
}

static void put_fish(const cli_entries *list) {
    puts("# Completes ebb in fish. Written by `ebb help fish`.\n"
         "function __ebb_line\n" /* words but the last, as if `help` were not there */
         "    set -l words (commandline -opc)\n"
         "    test (count $words) -gt 1; and test $words[2] = help; and set -e words[2]\n"
         "    printf '%s\\n' $words\n"
         "end\n"
         "function __ebb_called\n"
         "    set -l words (__ebb_line)\n"
         "    test (count $words) -gt (count $argv); or return 1\n"
         "    set -l last (math (count $argv) + 1)\n"
         "    test \"$words[2..$last]\" = \"$argv\"\n"
         "end\n"
         "function __ebb_words\n"
         "    test (count (__ebb_line)) -eq $argv[1]\n"
         "end\n"
         "function __ebb_helps\n"
         "    set -l words (commandline -opc)\n"
         "    test (count $words) -eq 2; and test $words[2] = help\n"
         "end\n"
         "complete -c ebb -f -n '__ebb_words 1' -a help -d 'every command and option'\n"
         "complete -c ebb -f -n __ebb_helps -a '" OF_HELP "'");
    for (size_t i = 0; i < list->n; i++) {
        const cli_entry *entry = &list->at[i];
        if (is_first(list, i)) {
            printf("complete -c ebb -f -n '__ebb_words 1' -a %s -d '", entry->name);
            put_brief(entry->summary, "\\", "\\'");
            puts("'");
        }
        if (entry->model != NULL) {
            printf("complete -c ebb -f -n '__ebb_called %s; and __ebb_words 2' -a %s -d '",
                   entry->name, entry->model);
            put_brief(entry->summary, "\\", "\\'");
            puts("'");
        }
    }
    for (size_t i = 0; i < list->n; i++) {
        put_fish_entry(&list->at[i]);
    }
}

bool ebb__cli_complete(const cli_entries *list, const char *shell) {
    static const struct {
        const char *shell;
        void (*put)(const cli_entries *list);
    } shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(shell, shells[i].shell) == 0) {
            shells[i].put(list);
            return true;
        }
    }
    return false;
}
