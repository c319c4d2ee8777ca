/* help.c - what --help says of options, from the table: grouped, with values and defaults. */
#include "cli/entries.h"

#include "plan/passes.h"

#include <stdio.h>
#include <string.h>

enum { HELP_COLUMN = 26, HELP_WIDTH = 80 };

/* Prints `text` from HELP_COLUMN on, broken between words. */
static void print_wrapped(const char *text, int column) {
    while (*text != '\0') {
        int n = (int)strcspn(text, " ");
        if (column > HELP_COLUMN && column + 1 + n > HELP_WIDTH) {
            printf("\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        } else if (column > HELP_COLUMN) {
            putchar(' ');
            column++;
        }
        printf("%.*s", n, text);
        column += n;
        text += n;
        text += strspn(text, " ");
    }
    putchar('\n');
}

/* "; one of a, b, c": the passes that the option can name. */
static void list_passes(const train_option *option, char *text, size_t bytes) {
    bool all = strcmp(option->name, "disable") != 0;
    size_t used = 0;
    for (int id = 0; option->kind == OPTION_PASSES && id < PASS_COUNT; id++) {
        if (all || ebb__pass_optional((pass_id)id)) {
            int n = snprintf(text + used, bytes - used, "%s%s", used == 0 ? "; one of " : ", ",
                             ebb__pass_name((pass_id)id));
            used += n > 0 && (size_t)n < bytes - used ? (size_t)n : 0;
        }
    }
}

cli_option_text ebb__cli_option_text(const train_option *option) {
    cli_option_text text = {.value = ""};
    char passes[256] = "";
    option_choices choices = ebb__option_choices(option, "|");
    const char *value = option->kind == OPTION_CHOICE ? choices.text : option->value;
    list_passes(option, passes, sizeof passes);
    bool plain = option->kind == OPTION_SWITCH || option->standard[0] == '\0' ||
                 (option->zero != NULL && strcmp(option->zero, "none") == 0 &&
                  strcmp(option->standard, "none") == 0);
    (void)snprintf(text.value, sizeof text.value, "%s", value != NULL ? value : "");
    (void)snprintf(text.help, sizeof text.help, "%s%s%s%s%s", option->help, passes,
                   plain ? "" : " (default ", plain ? "" : option->standard, plain ? "" : ")");
    return text;
}

static void print_option(const train_option *option) {
    cli_option_text text = ebb__cli_option_text(option);
    char left[160];
    (void)snprintf(left, sizeof left, "  --%s%s%s", option->name, text.value[0] != '\0' ? " " : "",
                   text.value);
    if ((int)strlen(left) > HELP_COLUMN - 1) {
        printf("%s\n%*s", left, HELP_COLUMN, "");
    } else {
        printf("%-*s", HELP_COLUMN, left);
    }
    print_wrapped(text.help, HELP_COLUMN);
}

void ebb__cli_help_options(option_command command, const model_kind *kind) {
    const char *group = "";
    for (size_t i = 0; i < ebb__cli_option_count(kind); i++) {
        const train_option *option = ebb__cli_option(kind, i);
        if ((option->commands & (unsigned)command) == 0) {
            continue;
        }
        if (strcmp(group, option->group) != 0) {
            group = option->group;
            printf("\n%s:\n", group);
        }
        print_option(option);
    }
    printf("  %-*s%s\n", HELP_COLUMN - 2, "--help", "this text");
}
