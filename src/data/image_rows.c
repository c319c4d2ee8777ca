/* image_rows.c - see image_rows.h. Who reads on from row to row, whatever the number of turns,
 * moves the rows in memory once for every `window` of them. */
#include "data/image_rows.h"

#include "base/alloc.h"

ebb_status ebb__image_rows_init(ebb_ctx *ctx, const char *path, uint32_t rows, size_t bytes,
                                uint32_t window, image_rows *out) {
    *out = (image_rows){.ctx = ctx,
                        .path = path,
                        .bytes = bytes,
                        .rows = rows,
                        .window = window < rows ? window : rows,
                        .file = {.ctx = ctx, .fd = -1}};
    TRY(ebb__alloc(ctx, out->window, bytes, &out->data));
    if (out->window == rows) {
        return EBB_OK;
    }
    TRY(ebb__file_create_unnamed(ctx, path, &out->file));
    return ebb__file_truncate(ctx, out->file.fd, path, (uint64_t)rows * bytes);
}

void ebb__image_rows_free(image_rows *rows) {
    if (rows->ctx != NULL) {
        ebb__free(rows->ctx, rows->data);
        ebb__file_abandon(&rows->file);
    }
    *rows = (image_rows){.ctx = NULL};
}

static ebb_status move(image_rows *r, uint32_t first) {
    size_t all = (size_t)r->window * r->bytes;
    if (r->changed) {
        TRY(ebb__file_pwrite(r->ctx, r->file.fd, r->path, r->data, all,
                             (uint64_t)r->first * r->bytes));
    }
    r->first = first < r->rows - r->window ? first : r->rows - r->window;
    r->changed = false;
    return ebb__file_pread(r->ctx, r->file.fd, r->path, r->data, all,
                           (uint64_t)r->first * r->bytes);
}

ebb_status ebb__image_rows_at(image_rows *r, uint32_t first, uint32_t n, bool change,
                              uint8_t **out) {
    if (n > r->window || first > r->rows - n) {
        return ebb__fail(r->ctx, EBB_INTERNAL, "image %s: rows %u to %u of %u", r->path, first,
                         first + n, r->rows);
    }
    if (first < r->first || first + n > r->first + r->window) {
        TRY(move(r, first));
    }
    r->changed = r->changed || change;
    *out = r->data + (size_t)(first - r->first) * r->bytes;
    return EBB_OK;
}
