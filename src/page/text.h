/* text.h - a NUL-terminated text that grows: pages, pictures and config files are put together in
 * one, and then written to a file at once. */
#ifndef PAGE_TEXT_H
#define PAGE_TEXT_H

#include "base/alloc.h"

/* Starts as {.ctx = ctx}; free with ebb__page_text_fini. */
typedef struct page_text {
    ebb_ctx *ctx;
    char *bytes;
    size_t used, capacity;
} page_text;

ebb_status ebb__page_put(page_text *text, const char *format, ...) EBB_MUST_CHECK
    __attribute__((format(printf, 2, 3)));
void ebb__page_text_fini(page_text *text);
/* Bytes of the first `most` characters of a UTF-8 text, or fewer: below `room`, and whole ones. */
size_t ebb__page_cut(const char *text, int most, size_t room);
/* The text as the file `path`, replacing what is there. */
ebb_status ebb__page_save(const page_text *text, const char *path) EBB_MUST_CHECK;

#endif
