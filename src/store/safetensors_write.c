/* safetensors_write.c - writes safetensors files, and sums files.
 *
 * Only the header is built in memory, in one canonical form; tensor bytes go from the caller's
 * memory to the file, hashed on the way. Equal entries give equal files, byte for byte. */
#include "store/safetensors.h"

#include "base/alloc.h"
#include "base/file.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define BLOCK_BYTES 65536u /* what a file is read by to sum it */

/* ---- sums --------------------------------------------------------------------------------- */

static void finish_sum(const XXH3_state_t *state, uint64_t bytes, st_sum *sum) {
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    sum->bytes = bytes;
    snprintf(sum->xxh3, sizeof sum->xxh3, "%016" PRIx64 "%016" PRIx64, (uint64_t)hash.high64,
             (uint64_t)hash.low64);
}

ebb_status ebb__safetensors_sum(ebb_ctx *ctx, const char *path, st_sum *sum) {
    ebb_status status = EBB_OK;
    XXH3_state_t state;
    int fd = -1;
    uint64_t bytes = 0;
    char *block = NULL;
    TRY_OUT(ebb__file_open(ctx, path, &fd, &bytes));
    TRY_OUT(ebb__alloc(ctx, 1, BLOCK_BYTES, &block));
    XXH3_128bits_reset(&state);
    for (uint64_t at = 0; at < bytes;) {
        size_t n = bytes - at < BLOCK_BYTES ? (size_t)(bytes - at) : BLOCK_BYTES;
        TRY_OUT(ebb__file_pread(ctx, fd, path, block, n, at));
        XXH3_128bits_update(&state, block, n);
        at += n;
    }
    finish_sum(&state, bytes, sum);
out:
    ebb__free(ctx, block);
    ebb__file_close(fd);
    return status;
}

/* ---- writing ------------------------------------------------------------------------------ */

typedef struct text_buffer {
    ebb_ctx *ctx;
    char *data;
    size_t used, room;
} text_buffer;

static ebb_status text_reserve(text_buffer *text, size_t more) {
    size_t need, room = text->room ? text->room : 1024;
    if (!ebb__add_size(text->used, more, &need) || need > ST_MAX_HEADER) {
        return ebb__fail(text->ctx, EBB_USAGE, "safetensors header: above %u bytes; fewer tensors",
                         ST_MAX_HEADER);
    }
    while (room < need) {
        room *= 2;
    }
    if (room > text->room) {
        TRY(ebb__realloc(text->ctx, text->data, room, 1, &text->data));
        text->room = room;
    }
    return EBB_OK;
}

static ebb_status text_add(text_buffer *text, const char *bytes) {
    size_t n = strlen(bytes);
    TRY(text_reserve(text, n));
    memcpy(text->data + text->used, bytes, n);
    text->used += n;
    return EBB_OK;
}

static ebb_status text_add_string(text_buffer *text, const char *value) {
    ebb_status status = EBB_OK;
    json_t *string = json_string_nocheck(value);
    if (!string) {
        return ebb__fail(text->ctx, EBB_NOMEM, "safetensors header: no memory for a name");
    }
    size_t n = json_dumpb(string, NULL, 0, JSON_ENCODE_ANY | JSON_COMPACT);
    if (n == 0) {
        status = ebb__fail(text->ctx, EBB_USAGE, "safetensors header: '%s': not UTF-8",
                           ebb__safetensors_show(value).text);
        goto out;
    }
    TRY_OUT(text_reserve(text, n));
    json_dumpb(string, text->data + text->used, n, JSON_ENCODE_ANY | JSON_COMPACT);
    text->used += n;
out:
    json_decref(string);
    return status;
}

static ebb_status text_add_notes(text_buffer *text, const st_note *notes, size_t n_notes) {
    TRY(text_add(text, "\"" ST_METADATA "\":{"));
    for (size_t i = 0; i < n_notes; i++) {
        if (i > 0 && strcmp(notes[i - 1].key, notes[i].key) >= 0) {
            return ebb__fail(text->ctx, EBB_USAGE, "safetensors metadata: '%s': keys not sorted",
                             ebb__safetensors_show(notes[i].key).text);
        }
        TRY(i > 0 ? text_add(text, ",") : EBB_OK);
        TRY(text_add_string(text, notes[i].key));
        TRY(text_add(text, ":"));
        TRY(text_add_string(text, notes[i].value));
    }
    return text_add(text, "}");
}

static ebb_status text_add_entry(text_buffer *text, const st_entry *entry, uint64_t begin,
                                 uint64_t end) {
    char part[256];
    int n = snprintf(part, sizeof part, ":{\"dtype\":\"%s\",\"shape\":[",
                     ebb__safetensors_dtype_name(entry->dtype));
    for (int d = 0; d < entry->rank; d++) {
        n +=
            snprintf(part + n, sizeof part - (size_t)n, "%s%" PRId64, d ? "," : "", entry->dims[d]);
    }
    snprintf(part + n, sizeof part - (size_t)n, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
             begin, end);
    TRY(text_add_string(text, entry->name));
    return text_add(text, part);
}

typedef struct st_slot { /* one place in the file */
    const st_entry *entry;
} st_slot;

static int by_entry_name(const void *a, const void *b) {
    return strcmp(((const st_slot *)a)->entry->name, ((const st_slot *)b)->entry->name);
}

/* Large elements first keeps every tensor aligned without holes, which the format forbids. */
static int by_entry_place(const void *a, const void *b) {
    size_t size_a = ebb__safetensors_dtype_bytes(((const st_slot *)a)->entry->dtype);
    size_t size_b = ebb__safetensors_dtype_bytes(((const st_slot *)b)->entry->dtype);
    return size_a != size_b ? (size_a < size_b ? 1 : -1) : by_entry_name(a, b);
}

static ebb_status sort_entries(ebb_ctx *ctx, const st_entry *entries, size_t n, st_slot *order) {
    for (size_t i = 0; i < n; i++) {
        const st_entry *e = &entries[i];
        if (!e->name || (unsigned)e->dtype >= ST_DTYPES || e->rank < 0 || e->rank > ST_MAX_RANK ||
            strcmp(e->name, ST_METADATA) == 0) {
            return ebb__fail(ctx, EBB_USAGE, "tensor '%s': name, type or rank cannot be written",
                             ebb__safetensors_show(e->name ? e->name : "").text);
        }
        order[i].entry = e;
    }
    qsort(order, n, sizeof *order, by_entry_name);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(order[i - 1].entry->name, order[i].entry->name) == 0) {
            return ebb__fail(ctx, EBB_USAGE, "tensor '%s': given twice",
                             ebb__safetensors_show(order[i].entry->name).text);
        }
    }
    qsort(order, n, sizeof *order, by_entry_place);
    return EBB_OK;
}

static ebb_status build_header(text_buffer *text, st_slot *order, size_t n, const st_note *notes,
                               size_t n_notes) {
    uint64_t at = 0;
    TRY(text_add(text, "{"));
    if (n_notes > 0) {
        TRY(text_add_notes(text, notes, n_notes));
        TRY(n > 0 ? text_add(text, ",") : EBB_OK);
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t bytes;
        if (!ebb__safetensors_size(order[i].entry->dtype, order[i].entry->rank,
                                   order[i].entry->dims, 0, &bytes) ||
            bytes > INT64_MAX - at) {
            return ebb__fail(text->ctx, EBB_USAGE, "tensor '%s': shape: sizes overflow",
                             ebb__safetensors_show(order[i].entry->name).text);
        }
        TRY(i > 0 ? text_add(text, ",") : EBB_OK);
        TRY(text_add_entry(text, order[i].entry, at, at + bytes));
        at += bytes;
    }
    TRY(text_add(text, "}"));
    while (text->used % 8 != 0) {
        TRY(text_add(text, " "));
    }
    return EBB_OK;
}

/* The file being written and its running hash. */
typedef struct st_sink {
    file_writer file;
    XXH3_state_t hash;
} st_sink;

static ebb_status sink_write(st_sink *sink, const void *data, size_t bytes) {
    XXH3_128bits_update(&sink->hash, data, bytes);
    return ebb__file_write(&sink->file, data, bytes);
}

static ebb_status write_entry(st_sink *sink, const st_entry *entry) {
    uint64_t bytes = 0;
    if (!ebb__safetensors_size(entry->dtype, entry->rank, entry->dims, 0, &bytes) || bytes == 0) {
        return EBB_OK;
    }
    if (entry->data) {
        return sink_write(sink, entry->data, (size_t)bytes);
    }
    if (entry->source) {
        const st_source *source = entry->source;
        for (uint64_t at = 0, some = 0; at < bytes; at += some) {
            const void *data = NULL;
            TRY(source->open(source->user, entry->number, at, &data, &some));
            ebb_status status = sink_write(sink, data, (size_t)some);
            ebb_status closed = source->close(source->user, entry->number, at, data);
            TRY(status == EBB_OK ? closed : status);
        }
        return EBB_OK;
    }
    return ebb__fail(sink->file.ctx, EBB_USAGE, "tensor '%s': has no data",
                     ebb__safetensors_show(entry->name).text);
}

ebb_status ebb__safetensors_write(ebb_ctx *ctx, const char *path, const st_entry *entries,
                                  size_t n_entries, const st_note *notes, size_t n_notes,
                                  st_sum *sum) {
    ebb_status status = EBB_OK;
    text_buffer text = {.ctx = ctx};
    st_slot *order = NULL;
    st_sink sink = {.file = {.ctx = ctx, .fd = -1}};
    XXH3_128bits_reset(&sink.hash);
    TRY_OUT(ebb__alloc(ctx, n_entries, sizeof *order, &order));
    TRY_OUT(sort_entries(ctx, entries, n_entries, order));
    TRY_OUT(build_header(&text, order, n_entries, notes, n_notes));
    TRY_OUT(ebb__file_create(ctx, path, &sink.file));
    uint64_t header_bytes = text.used;
    TRY_OUT(sink_write(&sink, &header_bytes, sizeof header_bytes));
    TRY_OUT(sink_write(&sink, text.data, text.used));
    for (size_t i = 0; i < n_entries; i++) {
        TRY_OUT(write_entry(&sink, order[i].entry));
    }
    if (sum) {
        finish_sum(&sink.hash, sink.file.written, sum);
    }
    TRY_OUT(ebb__file_commit(&sink.file));
out:
    ebb__file_abandon(&sink.file);
    ebb__free(ctx, text.data);
    ebb__free(ctx, order);
    return status;
}
