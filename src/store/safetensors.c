/* safetensors.c - reads safetensors files: u64 header length, JSON header, tensor bytes.
 *
 * The walk over the two levels that may be long (the header and its notes) is done here; only
 * single strings and single tensor entries go to jansson: a JSON tree of a whole hostile header
 * would take twenty times its bytes. Strings are decoded in place, over their own source text. Does
 * not convert element types and never maps a file. The writer is safetensors_write.c. */
#include "store/safetensors.h"

#include "base/alloc.h"
#include "base/file.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors files are little-endian and are read as they lie in memory"
#endif

#define MAX_ENTRY_BYTES 4096 /* one tensor's JSON; real ones take about 100 */

static const struct {
    const char *name;
    size_t bytes;
} dtypes[ST_DTYPES] = {
#define ST_DTYPE_ROW(name, bytes) {#name, bytes},
    ST_DTYPE_LIST(ST_DTYPE_ROW)
#undef ST_DTYPE_ROW
};

const char *ebb__safetensors_dtype_name(st_dtype dtype) {
    return dtypes[dtype].name;
}

size_t ebb__safetensors_dtype_bytes(st_dtype dtype) {
    return dtypes[dtype].bytes;
}

bool ebb__safetensors_size(st_dtype dtype, int rank, const int64_t *dims, int first,
                           uint64_t *out) {
    int64_t bytes = (int64_t)dtypes[dtype].bytes;
    for (int d = first; d < rank; d++) {
        if (dims[d] < 0 || __builtin_mul_overflow(bytes, dims[d], &bytes)) {
            return false;
        }
    }
    *out = (uint64_t)bytes;
    return true;
}

st_shown ebb__safetensors_show(const char *text) {
    st_shown out;
    size_t n = 0;
    for (; text[n] != '\0' && n + 4 < sizeof out.text; n++) {
        unsigned char c = (unsigned char)text[n];
        out.text[n] = c < 0x20 || c == 0x7f ? '?' : text[n];
    }
    memcpy(out.text + n, text[n] == '\0' ? "" : "...", text[n] == '\0' ? 1 : 4);
    return out;
}

typedef struct header_walk {
    st_reader *reader;
    char *text;
    size_t bytes, at;
    uint64_t data_bytes;
} header_walk;

static ebb_status bad_header(const header_walk *walk, const char *why) {
    return ebb__fail(walk->reader->ctx, EBB_MODEL, "%s: header: byte %zu: %s", walk->reader->path,
                     walk->at, why);
}

static ebb_status bad_tensor(const header_walk *walk, const char *name, const char *field,
                             const char *why) {
    return ebb__fail(walk->reader->ctx, EBB_MODEL, "%s: tensor '%s': %s: %s", walk->reader->path,
                     ebb__safetensors_show(name).text, field, why);
}

/* The next character that is not JSON white space; '\0' at the end. */
static char peek(header_walk *walk) {
    while (walk->at < walk->bytes && strchr(" \t\r\n", walk->text[walk->at]) &&
           walk->text[walk->at] != '\0') {
        walk->at++;
    }
    return walk->at < walk->bytes ? walk->text[walk->at] : '\0';
}

static ebb_status expect(header_walk *walk, char c, const char *why) {
    if (peek(walk) != c) {
        return bad_header(walk, why);
    }
    walk->at++;
    return EBB_OK;
}

static ebb_status parse_json(header_walk *walk, size_t limit, json_t **out) {
    size_t room = walk->bytes - walk->at;
    json_error_t error;
    *out = json_loadb(walk->text + walk->at, room < limit ? room : limit,
                      JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &error);
    if (!*out) {
        /* jansson leaves the text empty where an allocation failed */
        if (error.text[0] == '\0' || json_error_code(&error) == json_error_out_of_memory) {
            return ebb__fail(walk->reader->ctx, EBB_NOMEM, "%s: header: no memory to parse it",
                             walk->reader->path);
        }
        return bad_header(walk, ebb__safetensors_show(error.text).text);
    }
    walk->at += (size_t)error.position;
    return EBB_OK;
}

/* A string, decoded over its own source: it never grows, and the quotes leave room for the NUL. */
static ebb_status take_string(header_walk *walk, const char *why, const char **out) {
    json_t *string = NULL;
    if (peek(walk) != '"') {
        return bad_header(walk, why);
    }
    size_t start = walk->at;
    TRY(parse_json(walk, SIZE_MAX, &string));
    memcpy(walk->text + start, json_string_value(string), json_string_length(string) + 1);
    *out = walk->text + start;
    json_decref(string);
    return EBB_OK;
}

/* At a comma or the closing brace of an object that has had `members` members. */
static ebb_status next_member(header_walk *walk, size_t members, bool *more) {
    char c = peek(walk);
    *more = c != '}';
    if (c == '}' || (members > 0 && c == ',')) {
        walk->at++;
        return EBB_OK;
    }
    return members > 0 ? bad_header(walk, "expected ',' or '}'") : EBB_OK;
}

static ebb_status read_notes(header_walk *walk) {
    st_reader *reader = walk->reader;
    bool more = true;
    size_t members = 0;
    TRY(expect(walk, '{', "metadata is not an object"));
    for (;; members++) {
        TRY(next_member(walk, members, &more));
        if (!more) {
            return EBB_OK;
        }
        st_note *note = &reader->notes[reader->n_notes];
        TRY(take_string(walk, "metadata key is not a string", &note->key));
        TRY(expect(walk, ':', "expected ':'"));
        TRY(take_string(walk, "metadata value is not a string", &note->value));
        reader->n_notes++;
    }
}

static ebb_status read_shape(const header_walk *walk, const json_t *shape, st_tensor *tensor) {
    if (!json_is_array(shape)) {
        return bad_tensor(walk, tensor->name, "shape", "missing or not an array");
    }
    if (json_array_size(shape) > ST_MAX_RANK) {
        return bad_tensor(walk, tensor->name, "shape", "more than 6 dimensions");
    }
    tensor->rank = (int)json_array_size(shape);
    for (int d = 0; d < tensor->rank; d++) {
        const json_t *dim = json_array_get(shape, (size_t)d);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0) {
            return bad_tensor(walk, tensor->name, "shape", "a size is not a whole number >= 0");
        }
        tensor->dims[d] = json_integer_value(dim);
    }
    return EBB_OK;
}

static ebb_status read_offsets(const header_walk *walk, const json_t *offsets, st_tensor *tensor) {
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    uint64_t bytes = 0;
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin)) {
        return bad_tensor(walk, tensor->name, "data_offsets", "not two ascending whole numbers");
    }
    tensor->begin = (uint64_t)json_integer_value(begin);
    tensor->end = (uint64_t)json_integer_value(end);
    if (tensor->end > walk->data_bytes) {
        return bad_tensor(walk, tensor->name, "data_offsets", "beyond the end of the file");
    }
    if (!ebb__safetensors_size(tensor->dtype, tensor->rank, tensor->dims, 0, &bytes)) {
        return bad_tensor(walk, tensor->name, "shape", "sizes overflow");
    }
    if (bytes != tensor->end - tensor->begin) {
        return bad_tensor(walk, tensor->name, "data_offsets", "do not match the shape and dtype");
    }
    return EBB_OK;
}

static ebb_status fill_tensor(const header_walk *walk, const json_t *entry, st_tensor *tensor) {
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    int known = 0;
    if (!json_is_object(entry)) {
        return bad_tensor(walk, tensor->name, "entry", "not an object");
    }
    while (dtype && known < ST_DTYPES && strcmp(dtype, dtypes[known].name) != 0) {
        known++;
    }
    if (!dtype || known == ST_DTYPES) {
        return bad_tensor(walk, tensor->name, "dtype", dtype ? "unknown type" : "missing");
    }
    tensor->dtype = (st_dtype)known;
    TRY(read_shape(walk, json_object_get(entry, "shape"), tensor));
    TRY(read_offsets(walk, json_object_get(entry, "data_offsets"), tensor));
    if (json_object_size(entry) != 3) {
        return bad_tensor(walk, tensor->name, "entry", "has an unknown field");
    }
    return EBB_OK;
}

static ebb_status read_header(header_walk *walk) {
    st_reader *reader = walk->reader;
    bool more = true, noted = false;
    TRY(walk->text[0] == '{' ? EBB_OK : bad_header(walk, "does not start with '{'"));
    walk->at = 1;
    for (size_t members = 0;; members++) {
        const char *name = NULL;
        TRY(next_member(walk, members, &more));
        if (!more) {
            break;
        }
        TRY(take_string(walk, "name is not a string", &name));
        TRY(expect(walk, ':', "expected ':'"));
        if (strcmp(name, ST_METADATA) == 0) {
            TRY(noted ? bad_header(walk, "a second " ST_METADATA) : read_notes(walk));
            noted = true;
            continue;
        }
        json_t *entry = NULL;
        st_tensor *tensor = &reader->tensors[reader->n_tensors];
        tensor->name = name;
        TRY(parse_json(walk, MAX_ENTRY_BYTES, &entry));
        ebb_status status = fill_tensor(walk, entry, tensor);
        json_decref(entry);
        TRY(status);
        reader->n_tensors++;
    }
    for (; walk->at < walk->bytes; walk->at++) {
        TRY(walk->text[walk->at] == ' ' ? EBB_OK : bad_header(walk, "text after the object"));
    }
    return EBB_OK;
}

static int by_begin(const void *a, const void *b) {
    const st_tensor *x = a, *y = b;
    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    return x->end != y->end ? (x->end < y->end ? -1 : 1) : 0;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const st_tensor *)a)->name, ((const st_tensor *)b)->name);
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const st_note *)a)->key, ((const st_note *)b)->key);
}

static ebb_status check_layout(header_walk *walk) {
    st_reader *reader = walk->reader;
    st_tensor *tensors = reader->tensors;
    uint64_t at = 0;
    qsort(tensors, reader->n_tensors, sizeof *tensors, by_begin);
    for (size_t i = 0; i < reader->n_tensors; at = tensors[i].end, i++) {
        if (tensors[i].begin != at) {
            return bad_tensor(walk, tensors[i].name, "data_offsets",
                              tensors[i].begin < at ? "overlap another tensor"
                                                    : "leave a hole before the tensor");
        }
    }
    if (at != walk->data_bytes) {
        return ebb__fail(reader->ctx, EBB_MODEL,
                         "%s: data: %" PRIu64 " bytes belong to no tensor at the end", reader->path,
                         walk->data_bytes - at);
    }
    qsort(tensors, reader->n_tensors, sizeof *tensors, by_name);
    for (size_t i = 1; i < reader->n_tensors; i++) {
        if (strcmp(tensors[i - 1].name, tensors[i].name) == 0) {
            return bad_tensor(walk, tensors[i].name, "name", "given twice");
        }
    }
    qsort(reader->notes, reader->n_notes, sizeof *reader->notes, by_key);
    for (size_t i = 1; i < reader->n_notes; i++) {
        if (by_key(&reader->notes[i - 1], &reader->notes[i]) == 0) {
            return bad_header(walk, "a key of " ST_METADATA " is given twice");
        }
    }
    return EBB_OK;
}

/* Room for all tensors and notes at once: no more than there are colons to separate them, and no
 * more than fit at their shortest, so that the tables stay near twice the header's bytes. */
static ebb_status make_tables(header_walk *walk) {
    static const char shortest[] = "\"\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,0]},";
    st_reader *reader = walk->reader;
    size_t colons = 0;
    for (size_t i = 0; i < walk->bytes; i++) {
        colons += walk->text[i] == ':';
    }
    size_t tensors = walk->bytes / (sizeof shortest - 1), notes = walk->bytes / 6; /* "":"", */
    tensors = tensors < colons / 4 ? tensors : colons / 4;
    notes = notes < colons ? notes : colons;
    TRY(ebb__alloc(reader->ctx, tensors + 1, sizeof *reader->tensors, &reader->tensors));
    return ebb__alloc(reader->ctx, notes + 1, sizeof *reader->notes, &reader->notes);
}

ebb_status ebb__safetensors_open(ebb_ctx *ctx, const char *path, st_reader *out) {
    ebb_status status = EBB_OK;
    uint64_t file_bytes = 0, header_bytes = 0;
    memset(out, 0, sizeof *out);
    out->ctx = ctx;
    out->fd = -1;
    TRY_OUT(ebb__strdup(ctx, path, &out->path));
    TRY_OUT(ebb__file_open(ctx, path, &out->fd, &file_bytes));
    if (file_bytes < sizeof header_bytes + 2) {
        TRY_OUT(ebb__fail(ctx, EBB_MODEL, "%s: header length: the file has only %" PRIu64 " bytes",
                          path, file_bytes));
    }
    TRY_OUT(ebb__file_pread(ctx, out->fd, path, &header_bytes, sizeof header_bytes, 0));
    if (header_bytes < 2 || header_bytes > ST_MAX_HEADER ||
        header_bytes > file_bytes - sizeof header_bytes) {
        TRY_OUT(ebb__fail(ctx, EBB_MODEL,
                          "%s: header length: %" PRIu64 " is outside 2..%" PRIu64
                          "; not a safetensors file, or cut short",
                          path, header_bytes, file_bytes - sizeof header_bytes));
    }
    out->data_at = sizeof header_bytes + header_bytes;
    TRY_OUT(ebb__alloc(ctx, (size_t)header_bytes + 1, 1, &out->header));
    TRY_OUT(ebb__file_pread(ctx, out->fd, path, out->header, (size_t)header_bytes,
                            sizeof header_bytes));
    header_walk walk = {.reader = out,
                        .text = out->header,
                        .bytes = (size_t)header_bytes,
                        .data_bytes = file_bytes - out->data_at};
    TRY_OUT(make_tables(&walk));
    TRY_OUT(read_header(&walk));
    TRY_OUT(check_layout(&walk));
out:
    if (status != EBB_OK) {
        ebb__safetensors_close(out);
    }
    return status;
}

void ebb__safetensors_close(st_reader *reader) {
    if (!reader->ctx) {
        return;
    }
    ebb__file_close(reader->fd);
    ebb__free(reader->ctx, reader->notes);
    ebb__free(reader->ctx, reader->tensors);
    ebb__free(reader->ctx, reader->header);
    ebb__free(reader->ctx, reader->path);
    memset(reader, 0, sizeof *reader);
    reader->fd = -1;
}

const st_tensor *ebb__safetensors_find(const st_reader *reader, const char *name) {
    st_tensor key = {.name = name};
    return bsearch(&key, reader->tensors, reader->n_tensors, sizeof key, by_name);
}

const char *ebb__safetensors_note(const st_reader *reader, const char *key) {
    st_note want = {.key = key};
    const st_note *note = bsearch(&want, reader->notes, reader->n_notes, sizeof want, by_key);
    return note ? note->value : NULL;
}

ebb_status ebb__safetensors_read_part(const st_reader *reader, const st_tensor *tensor,
                                      uint64_t from, void *data, size_t bytes) {
    uint64_t all = tensor->end - tensor->begin;
    if (from > all || bytes > all - from) {
        return ebb__fail(reader->ctx, EBB_MODEL,
                         "%s: tensor '%s': shape: holds %" PRIu64 " bytes, %zu from %" PRIu64
                         " on are wanted",
                         reader->path, ebb__safetensors_show(tensor->name).text, all, bytes, from);
    }
    return ebb__file_pread(reader->ctx, reader->fd, reader->path, data, bytes,
                           reader->data_at + tensor->begin + from);
}

ebb_status ebb__safetensors_read(const st_reader *reader, const st_tensor *tensor, void *data,
                                 size_t bytes) {
    if (bytes != tensor->end - tensor->begin) {
        return ebb__fail(reader->ctx, EBB_MODEL,
                         "%s: tensor '%s': shape: holds %" PRIu64 " bytes, %zu are wanted",
                         reader->path, ebb__safetensors_show(tensor->name).text,
                         tensor->end - tensor->begin, bytes);
    }
    return ebb__file_pread(reader->ctx, reader->fd, reader->path, data, bytes,
                           reader->data_at + tensor->begin);
}
