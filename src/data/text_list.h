/* text_list.h - the files that a name of a text stands for: one, several with commas between them
 * ("a.txt,b.txt"), those that a pattern matches, in the order of their names ("part-*.gz"), or
 * standard input ("-"). A file that is called exactly so is meant before all that. */
#ifndef DATA_TEXT_LIST_H
#define DATA_TEXT_LIST_H

#include "base/ctx.h"

typedef struct text_list {
    char **at; /* [n] */
    size_t n;
} text_list;

/* EBB_DATA if a pattern matches nothing. On failure nothing is held. */
ebb_status ebb__text_list(ebb_ctx *ctx, const char *name, text_list *out) EBB_MUST_CHECK;
void ebb__text_list_free(ebb_ctx *ctx, text_list *list);

/* A path under which the bytes of standard input can be opened, again and again: they are copied to
 * a file without a name when this is first called. Reads to its end. */
typedef struct text_input {
    char path[64];
} text_input;
ebb_status ebb__text_input(ebb_ctx *ctx, text_input *out) EBB_MUST_CHECK;

#endif
