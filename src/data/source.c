/* source.c - plain and gzip files behind one read call.
 *
 * A gzip file may have several members (as `cat a.gz b.gz` makes); what follows the last must be
 * another member. The tap sees the raw bytes exactly once and in order, so a consumer that
 * reads to the end knows the hash of precisely the file it consumed, even if it was being
 * replaced at the time. */
#include "data/source.h"

#include "base/alloc.h"
#include "base/file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define XXH_STATIC_LINKING_ONLY /* the state's size, so that it can live on the stack */
#include <xxhash.h>

enum { PACKED_BYTES = 65536 };

static bool is_input(const char *path) {
    return strcmp(path, "-") == 0;
}

/* What messages call it. */
static const char *shown(const char *path) {
    return is_input(path) ? "standard input" : path;
}

/* The name that is opened: of standard input, that of its copy. */
static ebb_status name_of(ebb_ctx *ctx, const char *path, text_input *input, const char **out) {
    *out = path;
    if (is_input(path)) {
        TRY(ebb__text_input(ctx, input));
        *out = input->path;
    }
    return EBB_OK;
}

static ebb_status check_file(ebb_ctx *ctx, const char *path, uint64_t *bytes) {
    struct stat info;
    text_input input;
    const char *name = NULL;
    TRY(name_of(ctx, path, &input, &name));
    if (stat(name, &info) != 0) {
        return ebb__fail(ctx, EBB_DATA, "data file %s: %s", path, strerror(errno));
    }
    if (S_ISDIR(info.st_mode)) {
        return ebb__fail(ctx, EBB_DATA, "data file %s: is a folder; name a file", path);
    }
    if (!S_ISREG(info.st_mode)) {
        return ebb__fail(ctx, EBB_DATA,
                         "data file %s: is not a regular file; save it to one, since it is read "
                         "more than once",
                         path);
    }
    if (info.st_size == 0) {
        return ebb__fail(ctx, EBB_DATA, "data file %s: is empty", shown(path));
    }
    *bytes += (uint64_t)info.st_size;
    return EBB_OK;
}

static ebb_status check_files(ebb_ctx *ctx, const text_list *files, uint64_t *bytes) {
    *bytes = 0;
    for (size_t i = 0; i < files->n; i++) {
        TRY(check_file(ctx, files->at[i], bytes));
    }
    return EBB_OK;
}

ebb_status ebb__source_check(ebb_ctx *ctx, const char *path) {
    text_list files;
    uint64_t bytes = 0;
    TRY(ebb__text_list(ctx, path, &files));
    ebb_status status = check_files(ctx, &files, &bytes);
    ebb__text_list_free(ctx, &files);
    return status;
}

static voidpf zlib_alloc(voidpf ctx, uInt count, uInt size) {
    void *block = NULL;
    return ebb__alloc(ctx, count, size, &block) == EBB_OK ? block : Z_NULL;
}

static void zlib_free(voidpf ctx, voidpf block) {
    ebb__free(ctx, block);
}

static ebb_status start_inflater(data_source *source) {
    TRY(ebb__alloc(source->ctx, PACKED_BYTES, 1, &source->packed));
    source->inflater.zalloc = zlib_alloc;
    source->inflater.zfree = zlib_free;
    source->inflater.opaque = source->ctx;
    if (inflateInit2(&source->inflater, 15 + 16) != Z_OK) { /* 15: largest window, 16: gzip only */
        return ebb__fail(source->ctx, EBB_NOMEM, "data file %s: no memory to inflate it",
                         source->path);
    }
    source->gzip = true;
    source->member_open = true;
    return EBB_OK;
}

/* Opens the file whose turn it is; its descriptor stands at its beginning. */
static ebb_status open_raw(data_source *source) {
    text_input input;
    const char *name = NULL;
    uint64_t bytes = 0;
    TRY(name_of(source->ctx, source->files.at[source->file], &input, &name));
    return ebb__file_open(source->ctx, name, &source->fd, &bytes);
}

static ebb_status open_file(data_source *source) {
    unsigned char magic[2] = {0, 0};
    struct stat info;
    TRY(open_raw(source));
    if (fstat(source->fd, &info) == 0 && info.st_size >= (off_t)sizeof magic) {
        TRY(ebb__file_pread(source->ctx, source->fd, source->path, magic, sizeof magic, 0));
    }
    return magic[0] == 0x1f && magic[1] == 0x8b ? start_inflater(source) : EBB_OK;
}

static void close_file(data_source *source) {
    if (source->gzip) {
        inflateEnd(&source->inflater);
        source->gzip = false;
    }
    ebb__free(source->ctx, source->packed);
    source->packed = NULL;
    if (!source->stream) {
        ebb__file_close(source->fd);
    }
    source->fd = -1;
}

ebb_status ebb__source_open(ebb_ctx *ctx, const char *path, const char *phase,
                            struct XXH3_state_s *tap, data_source *out) {
    ebb_status status = EBB_OK;
    *out = (data_source){.ctx = ctx, .path = shown(path), .phase = phase, .fd = -1, .tap = tap};
    TRY_OUT(ebb__text_list(ctx, path, &out->files));
    TRY_OUT(check_files(ctx, &out->files, &out->raw_bytes));
    TRY_OUT(open_file(out));
out:
    if (status != EBB_OK) {
        ebb__source_close(out);
    }
    return status;
}

void ebb__source_of_stream(ebb_ctx *ctx, int fd, const char *name, const char *phase,
                           data_source *out) {
    *out = (data_source){.ctx = ctx, .path = name, .phase = phase, .fd = fd, .stream = true};
}

static ebb_status read_raw(data_source *source, void *data, size_t bytes, size_t *got) {
    *got = 0;
    TRY(ebb__poll_stop(source->ctx, source->path));
    while (*got < bytes) {
        size_t part = 0;
        TRY(ebb__file_read(source->ctx, source->fd, source->path, (char *)data + *got, bytes - *got,
                           &part));
        if (part == 0) {
            break;
        }
        *got += part;
        if (source->stream) {
            break;
        }
    }
    if (source->tap != NULL && *got > 0) {
        XXH3_64bits_update(source->tap, data, *got);
    }
    source->raw_done += *got;
    ebb__progress(source->ctx, source->phase, source->raw_done, source->raw_bytes);
    return EBB_OK;
}

/* Inflates until the output is full or a step needs more input; tells whether the file ended. */
static ebb_status inflate_some(data_source *source, bool *ended) {
    z_stream *z = &source->inflater;
    *ended = false;
    if (z->avail_in == 0) {
        size_t got = 0;
        TRY(read_raw(source, source->packed, PACKED_BYTES, &got));
        if (got == 0) {
            *ended = true;
            return source->member_open
                       ? ebb__fail(
                             source->ctx, EBB_DATA,
                             "data file %s: ends in the middle of its gzip data; copy it again",
                             source->path)
                       : EBB_OK;
        }
        z->next_in = source->packed;
        z->avail_in = (uInt)got;
    }
    if (!source->member_open) {
        if (inflateReset(z) != Z_OK) {
            return ebb__fail(source->ctx, EBB_INTERNAL, "data file %s: inflateReset failed",
                             source->path);
        }
        source->member_open = true;
    }
    int code = inflate(z, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
        source->member_open = false;
    } else if (code == Z_MEM_ERROR) {
        return ebb__fail(source->ctx, EBB_NOMEM, "data file %s: no memory to inflate it",
                         source->path);
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
        return ebb__fail(source->ctx, EBB_DATA,
                         "data file %s: damaged gzip data (%s); copy it again", source->path,
                         z->msg != NULL ? z->msg : "unknown");
    }
    return EBB_OK;
}

/* As much of the file as there is room for. */
static ebb_status read_file(data_source *source, void *data, size_t bytes, size_t *got) {
    if (!source->gzip) {
        return read_raw(source, data, bytes, got);
    }
    z_stream *z = &source->inflater;
    *got = 0;
    bool ended = false;
    while (*got < bytes && !ended) {
        size_t want = bytes - *got < PACKED_BYTES ? bytes - *got : PACKED_BYTES;
        z->next_out = (unsigned char *)data + *got;
        z->avail_out = (uInt)want;
        TRY(inflate_some(source, &ended));
        *got += want - z->avail_out;
    }
    return EBB_OK;
}

ebb_status ebb__source_read(data_source *source, void *data, size_t bytes, size_t *got) {
    char *to = data;
    *got = 0;
    for (;;) {
        size_t part = 0;
        TRY(read_file(source, to + *got, bytes - *got, &part));
        *got += part;
        source->open_line = part > 0 ? to[*got - 1] != '\n' : source->open_line;
        if (*got == bytes || source->file + 1 >= source->files.n) {
            return EBB_OK;
        }
        if (source->open_line) {
            to[(*got)++] = '\n';
            source->open_line = false;
        }
        close_file(source);
        source->file++;
        TRY(open_file(source));
    }
}

void ebb__source_close(data_source *source) {
    close_file(source);
    ebb__text_list_free(source->ctx, &source->files);
}

static ebb_status hash_file(data_source *raw, void *buffer) {
    size_t got = 0;
    TRY(open_raw(raw));
    do {
        TRY(read_raw(raw, buffer, PACKED_BYTES, &got));
    } while (got > 0);
    close_file(raw);
    return EBB_OK;
}

ebb_status ebb__source_hash(ebb_ctx *ctx, const char *path, uint64_t *hash, uint64_t *bytes) {
    ebb_status status = EBB_OK;
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    data_source raw = {.ctx = ctx, .path = path, .phase = "check text", .fd = -1, .tap = &state};
    void *buffer = NULL;
    TRY_OUT(ebb__text_list(ctx, path, &raw.files));
    TRY_OUT(check_files(ctx, &raw.files, &raw.raw_bytes));
    TRY_OUT(ebb__alloc(ctx, PACKED_BYTES, 1, &buffer));
    for (; raw.file < raw.files.n; raw.file++) {
        TRY_OUT(hash_file(&raw, buffer));
    }
    *hash = XXH3_64bits_digest(&state);
    *bytes = raw.raw_done;
out:
    ebb__free(ctx, buffer);
    ebb__source_close(&raw);
    return status;
}
