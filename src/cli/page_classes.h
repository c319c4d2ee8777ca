/* page_classes.h - what an evaluation found class by class, as pages show it. */
#ifndef CLI_PAGE_CLASSES_H
#define CLI_PAGE_CLASSES_H

#include "page/html.h"
#include "train/kind.h"

typedef struct cli_classes {
    const kind_facts *facts;
    char about[512];
    html_wrong wrong[KIND_MOST_WRONG];
    char numbers[KIND_MOST_WRONG][2][16]; /* in place of names */
} cli_classes;

/* Puts it into the page, which reads from both until it is written; `whose` images they are. */
void ebb__cli_page_classes(cli_classes *c, const kind_facts *facts, const char *whose,
                           html_page *page);

#endif
