/* manual.c - manual pages as man(1) reads them (macros of man(7)): one of the command, one of each
 * of its commands, from the same tables as help. */
#include "cli/entries.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 64, MOST_OPTIONS = 2 * OPTION_MAX };

/* The page's name: ebb-train-lm. */
typedef struct page_name {
    char text[NAME_BYTES];
} page_name;

static page_name name_of(const cli_entry *entry) {
    page_name name;
    (void)snprintf(name.text, sizeof name.text, "ebb-%s%s%s", entry->name,
                   entry->model != NULL ? "-" : "", entry->model != NULL ? entry->model : "");
    return name;
}

/* Text that is nothing but text: no request at the beginning of a line, hyphens that can be copied.
 */
static void put_text(const char *text, size_t n) {
    bool begins = true;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (begins && (c == '.' || c == '\'')) {
            (void)fputs("\\&", stdout);
        }
        begins = c == '\n';
        switch (c) {
        case '\\':
            (void)fputs("\\e", stdout);
            break;
        case '-':
            (void)fputs("\\-", stdout);
            break;
        case '`':
            (void)fputs("\\(ga", stdout);
            break;
        case '\'':
            (void)fputs("\\(aq", stdout);
            break;
        case '~':
            (void)fputs("\\(ti", stdout);
            break;
        case '^':
            (void)fputs("\\(ha", stdout);
            break;
        default:
            (void)putchar(c);
        }
    }
}

static void put(const char *text) {
    put_text(text, strlen(text));
}

/* Lines as they come; those that are indented keep their form, empty ones part paragraphs. */
static void put_details(const char *text) {
    bool example = false;
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        bool indented = text[0] == ' ';
        if (indented != example) {
            puts(indented ? ".PP\n.EX" : ".EE");
            example = indented;
        }
        if (n == 0) {
            (void)fputs(".PP", stdout);
        }
        put_text(text, n);
        (void)putchar('\n');
        text += n + (text[n] == '\n');
    }
    (void)fputs(example ? ".EE\n" : "", stdout);
}

static void put_head(const char *name, const char *summary) {
    (void)fputs(".TH \"", stdout);
    for (const char *c = name; *c != '\0'; c++) {
        (void)putchar(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    }
    printf("\" 1 \"\" \"ebb %s\" \"ebb\"\n.SH NAME\n", ebb_version());
    put(name);
    (void)fputs(" \\- ", stdout);
    put(summary);
    puts("\n.SH SYNOPSIS");
}

static void put_option(const train_option *option) {
    cli_option_text text = ebb__cli_option_text(option);
    (void)fputs(".TP\n\\fB\\-\\-", stdout);
    put(option->name);
    (void)fputs("\\fR", stdout);
    if (text.value[0] != '\0') {
        (void)fputs(" \\fI", stdout);
        put(text.value);
        (void)fputs("\\fR", stdout);
    }
    (void)putchar('\n');
    put(text.help);
    (void)putchar('\n');
}

static void put_tail(void) {
    puts(".SH EXIT STATUS");
    for (int code = EBB_OK; code <= EBB_LOST; code++) {
        printf(".TP\n%d\n", code);
        put(ebb_status_text((ebb_status)code));
        (void)putchar('\n');
    }
    printf(".TP\n%d\n", (int)EBB_STOPPED);
    put(ebb_status_text(EBB_STOPPED));
    puts("\n.SH SEE ALSO\n\\fBebb\\fR(1)");
}

static void put_entry(const cli_entry *entry) {
    const train_option *options[MOST_OPTIONS];
    size_t n = ebb__cli_entry_options(entry, options, MOST_OPTIONS);
    const char *group = "";
    put_head(name_of(entry).text, entry->summary);
    (void)fputs("\\fBebb\\fR ", stdout);
    put(entry->usage);
    puts("\n.SH DESCRIPTION");
    put_details(entry->details);
    puts(".SH OPTIONS\nA switch is turned off again by \\fB\\-\\-no\\-NAME\\fR.");
    for (size_t i = 0; i < n; i++) {
        if (strcmp(group, options[i]->group) != 0) {
            group = options[i]->group;
            printf(".SS %s\n", group);
        }
        put_option(options[i]);
    }
    put_tail();
}

static void put_overview(const cli_entries *list) {
    put_head("ebb", "trains models in the memory you have");
    puts("\\fBebb\\fR \\fICOMMAND\\fR [\\fIKIND\\fR] [\\fIoptions\\fR]\n.SH DESCRIPTION\n"
         "Trains recurrent language and translation models, and convolutional nets, within a\n"
         "number of bytes that is given. Every command has a page of its own.\n.SH COMMANDS");
    for (size_t i = 0; i < list->n; i++) {
        (void)fputs(".TP\n\\fB", stdout);
        put(name_of(&list->at[i]).text);
        (void)fputs("\\fR(1)\n", stdout);
        put(list->at[i].summary);
        (void)putchar('\n');
    }
    put_tail();
}

bool ebb__cli_manual(const cli_entries *list, const char *page) {
    bool found = page == NULL || strcmp(page, "ebb") == 0;
    if (page == NULL) {
        puts("ebb");
    } else if (found) {
        put_overview(list);
    }
    for (size_t i = 0; i < list->n; i++) {
        page_name name = name_of(&list->at[i]);
        if (page == NULL) {
            puts(name.text);
        } else if (strcmp(page, name.text) == 0) {
            put_entry(&list->at[i]);
            found = true;
        }
    }
    return found;
}
