/* text.c - see text.h. */
#include "page/text.h"

#include "base/file.h"

#include <stdarg.h>
#include <stdio.h>

ebb_status ebb__page_put(page_text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int more = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (more < 0) {
        return ebb__fail(text->ctx, EBB_INTERNAL, "a value cannot be written as text");
    }
    size_t need = text->used + (size_t)more + 1;
    if (need > text->capacity) {
        TRY(ebb__realloc(text->ctx, text->bytes, 2 * need, 1, &text->bytes));
        text->capacity = 2 * need;
    }
    va_start(args, format);
    (void)vsnprintf(text->bytes + text->used, text->capacity - text->used, format, args);
    va_end(args);
    text->used += (size_t)more;
    return EBB_OK;
}

void ebb__page_text_fini(page_text *text) {
    ebb__free(text->ctx, text->bytes);
    *text = (page_text){.ctx = text->ctx};
}

ebb_status ebb__page_save(const page_text *text, const char *path) {
    file_writer writer;
    char real[1024];
    TRY(ebb__file_follow(text->ctx, path, real));
    TRY(ebb__file_create(text->ctx, real, &writer));
    ebb_status status = ebb__file_write(&writer, text->bytes, text->used);
    if (status == EBB_OK) {
        status = ebb__file_commit(&writer);
    }
    ebb__file_abandon(&writer);
    return status;
}

size_t ebb__page_cut(const char *text, int most, size_t room) {
    size_t end = 0;
    for (size_t at = 0; at < room; at++) {
        bool begins = ((unsigned char)text[at] & 0xC0) != 0x80; /* a character, or the end */
        end = begins ? at : end;
        if (text[at] == '\0' || (begins && most-- == 0)) {
            break;
        }
    }
    return end;
}
