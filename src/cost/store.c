/* store.c - see store.h. */
#include "cost/store.h"

#include "base/alloc.h"
#include "base/file.h"
#include "cost/line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* the state's size, so that it can live on the stack */
#include <xxhash.h>

enum {
    STORE_FORMAT = 2,
    READ_BYTES = 16 << 10, /* of the file at a time */
    MOST_READ = 64 << 20,  /* a longer file is none of ours */
    HEADER_BYTES = 1024,
    TRAILER_BYTES = 64
};

/* ---- whose it is ---- */

/* What the codes of forms mean: names of all forms of the op's samples. Codes are only ever given
 * to form_name when they come from the kernel itself. */
static ebb_status hash_sample(ebb_ctx *ctx, const device_kernel *kernel, const op_sample *sample,
                              XXH64_hash_t *hash) {
    ir_val in[COST_MAX_IN], out[IR_MAX_OUT];
    int32_t list[DEVICE_MAX_FORMS] = {0};
    char name[64] = "";
    ir_graph graph;
    ebb_status status = EBB_OK;
    ebb__op_graph_init(&graph, ctx);
    for (int32_t i = 0; i < sample->n_in && i < COST_MAX_IN; i++) {
        (void)snprintf(name, sizeof name, "in%d", i);
        in[i] = IR_NONE;
        if (sample->fill[i] != FILL_ABSENT) {
            TRY_OUT(ebb__ir_add_variable(&graph, IR_INPUT, name, &sample->in[i], &in[i]));
        }
    }
    TRY_OUT(ebb__op_emit(&graph, kernel->op, in, sample->n_in, &sample->attr, out));
    const ir_node_rec *node = &graph.nodes[graph.order[0]];
    int32_t n = kernel->accept != NULL && kernel->accept(&graph, node) != NULL
                    ? 0
                    : kernel->forms(&graph, node, 2, list);
    for (int32_t i = 0; i < n; i++) {
        kernel->form_name(list[i], name, sizeof name);
        *hash = XXH3_64bits_withSeed(&list[i], sizeof list[i], *hash);
        *hash = XXH3_64bits_withSeed(name, strlen(name), *hash);
    }
out:
    ebb__ir_fini(&graph);
    return status;
}

typedef struct store_origin {
    char machine[512], kernels[17];
} store_origin;

static ebb_status origin_of(ebb_ctx *ctx, const device *dev, store_origin *out) {
    XXH64_hash_t hash = 0;
    out->machine[0] = '\0';
    dev->describe(dev, out->machine, sizeof out->machine);
    for (int32_t i = 0; i < dev->n_kernels; i++) {
        const device_kernel *kernel = &dev->kernels[i];
        const op_def *op = ebb__op((int)kernel->op);
        for (int32_t k = 0; kernel->forms != NULL && k < op->n_samples; k++) {
            TRY(hash_sample(ctx, kernel, &op->samples[k], &hash));
        }
    }
    (void)snprintf(out->kernels, sizeof out->kernels, "%016" PRIx64, (uint64_t)hash);
    return EBB_OK;
}

ebb_status ebb__cost_store_path(ebb_ctx *ctx, const device *dev, const char *folder,
                                char path[COST_PATH_BYTES]) {
    store_origin origin;
    TRY(origin_of(ctx, dev, &origin));
    XXH64_hash_t hash = XXH3_64bits(origin.machine, strlen(origin.machine));
    hash = XXH3_64bits_withSeed(origin.kernels, strlen(origin.kernels), hash);
    hash = XXH3_64bits_withSeed(ebb_version(), strlen(ebb_version()), hash);
    int n = snprintf(path, COST_PATH_BYTES, "%s/%s-%016" PRIx64 ".json", folder, dev->name,
                     (uint64_t)hash);
    return n > 0 && n < COST_PATH_BYTES
               ? EBB_OK
               : ebb__fail(ctx, EBB_USAGE, "the folder for tuning has too long a name: %.60s...",
                           folder);
}

/* The first line, up to what says which machine it is, and the rest. Compared byte for byte. */
typedef struct store_header {
    char version[128], machine[HEADER_BYTES];
} store_header;

static ebb_status header_of(ebb_ctx *ctx, const device *dev, store_header *out) {
    store_origin origin;
    TRY(origin_of(ctx, dev, &origin));
    for (char *c = origin.machine; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ') {
            *c = '\''; /* so that it needs no escapes */
        }
    }
    (void)snprintf(out->version, sizeof out->version,
                   "{\"format\": %d, \"ebb\": \"%s\", \"kernels\": \"%s\", ", (int)STORE_FORMAT,
                   ebb_version(), origin.kernels);
    (void)snprintf(out->machine, sizeof out->machine, "\"device\": \"%s\", \"entries\": [",
                   origin.machine);
    return EBB_OK;
}

static void write_trailer(const XXH3_state_t *hash, char line[TRAILER_BYTES]) {
    (void)snprintf(line, TRAILER_BYTES, "], \"hash\": \"%016" PRIx64 "\"}",
                   (uint64_t)XXH3_64bits_digest(hash));
}

/* ---- reading ---- */

/* A file, line by line, in one small buffer. */
typedef struct store_reader {
    XXH3_state_t hash; /* of all bytes before the last line */
    ebb_ctx *ctx;
    const device *dev;
    const char *path;
    const char *why; /* NULL, or what is wrong with the file */
    char *buffer;
    size_t begin, end;     /* what of the buffer was read and not yet given out */
    uint64_t bytes, asked; /* of the file, and read from it so far */
    int fd;
} store_reader;

/* Moves what is left to the front and reads on; what does not end in one buffer is no line. */
static ebb_status read_more(store_reader *r) {
    memmove(r->buffer, r->buffer + r->begin, r->end - r->begin);
    r->end -= r->begin;
    r->begin = 0;
    uint64_t left = r->bytes - r->asked;
    size_t n = left < READ_BYTES - r->end ? (size_t)left : READ_BYTES - r->end;
    r->why = n == 0 ? "is damaged" : NULL;
    TRY(ebb__file_pread(r->ctx, r->fd, r->path, r->buffer + r->end, n, r->asked));
    r->end += n;
    r->asked += n;
    return EBB_OK;
}

/* The next line without its end, valid until the next call; NULL, with r->why set: there is none.
 */
static ebb_status next_line(store_reader *r, char **line) {
    char *end = NULL;
    *line = NULL;
    while ((end = memchr(r->buffer + r->begin, '\n', r->end - r->begin)) == NULL) {
        TRY(read_more(r));
        if (r->why != NULL) {
            return EBB_OK;
        }
    }
    *line = r->buffer + r->begin;
    *end = '\0';
    r->begin = (size_t)(end + 1 - r->buffer);
    return EBB_OK;
}

static void hash_line(XXH3_state_t *hash, const char *line) {
    (void)XXH3_64bits_update(hash, line, strlen(line));
    (void)XXH3_64bits_update(hash, "\n", 1);
}

/* To the first entry. r->why says what is wrong; then there is nothing to read. */
static ebb_status rewind_reader(store_reader *r) {
    store_header header;
    char *line = NULL;
    XXH3_64bits_reset(&r->hash);
    r->begin = r->end = 0;
    r->asked = 0;
    TRY(header_of(r->ctx, r->dev, &header));
    TRY(next_line(r, &line));
    if (line == NULL) {
        return EBB_OK;
    }
    size_t n = strlen(header.version);
    if (strncmp(line, header.version, n) != 0) {
        r->why = "is of another version";
    } else if (strcmp(line + n, header.machine) != 0) {
        r->why = "is of another machine";
    }
    hash_line(&r->hash, line);
    return EBB_OK;
}

static ebb_status open_reader(store_reader *r, ebb_ctx *ctx, const device *dev, const char *path) {
    *r = (store_reader){.ctx = ctx, .dev = dev, .path = path, .fd = -1};
    TRY(ebb__alloc(ctx, READ_BYTES, 1, &r->buffer));
    TRY(ebb__file_open(ctx, path, &r->fd, &r->bytes));
    r->why = r->bytes > MOST_READ ? "is too long" : NULL;
    return r->why == NULL ? rewind_reader(r) : EBB_OK;
}

static void close_reader(store_reader *r) {
    ebb__file_close(r->fd);
    ebb__free(r->ctx, r->buffer);
}

/* The next entry and its line; *line NULL: there was none, because the file is done and right, or
 * wrong as r->why says. */
static ebb_status next_entry(store_reader *r, cost_entry *entry, char **line) {
    char trailer[TRAILER_BYTES];
    TRY(next_line(r, line));
    if (*line == NULL) {
        return EBB_OK;
    }
    if (**line == ']') {
        write_trailer(&r->hash, trailer);
        r->why = strcmp(*line, trailer) == 0 ? NULL : "was changed or is damaged";
        *line = NULL;
        return EBB_OK;
    }
    hash_line(&r->hash, *line);
    size_t n = strlen(*line);
    if (n > 0 && (*line)[n - 1] == ',') {
        (*line)[n - 1] = '\0';
    }
    r->why = ebb__cost_line_read(r->dev, *line, entry);
    *line = r->why == NULL ? *line : NULL;
    return EBB_OK;
}

/* ---- loading ---- */

static ebb_status load_entries(store_reader *r, cost_table *table, const cost_table *wanted,
                               uint64_t *last) {
    cost_entry entry, *kept = NULL;
    char *line = NULL;
    TRY(next_entry(r, &entry, &line));
    while (line != NULL) {
        bool here = entry.key.kernel >= 0 &&
                    (wanted == NULL || ebb__cost_table_find(wanted, &entry.key) != NULL);
        if (here && ebb__cost_table_find(table, &entry.key) != NULL) {
            r->why = "has one product twice";
            return EBB_OK;
        }
        if (here) {
            TRY(ebb__cost_table_add(table, &entry.key, &kept));
            *kept = entry;
            *last = r->asked;
        }
        TRY(next_entry(r, &entry, &line));
    }
    return EBB_OK;
}

/* Adds to `table` what `stored` has and it has not. */
static ebb_status merge(cost_table *table, const cost_table *stored) {
    for (int32_t i = 0; i < stored->n_entries; i++) {
        cost_entry *kept = NULL;
        if (ebb__cost_table_find(table, &stored->entries[i].key) == NULL) {
            TRY(ebb__cost_table_add(table, &stored->entries[i].key, &kept));
            *kept = stored->entries[i];
        }
    }
    return EBB_OK;
}

ebb_status ebb__cost_store_load(cost_table *table, const char *path, const cost_table *wanted,
                                bool *stale) {
    store_reader reader;
    cost_table stored;
    uint64_t last = 0;
    *stale = false;
    if (!ebb__file_exists(path)) {
        return EBB_OK;
    }
    ebb__cost_table_init(&stored, table->ctx, table->dev);
    ebb_status status = open_reader(&reader, table->ctx, table->dev, path);
    if (status == EBB_OK && reader.why == NULL) {
        status = load_entries(&reader, &stored, wanted, &last);
    }
    if (status == EBB_IO) {
        reader.why = "cannot be read";
        ebb__ctx_clear(table->ctx);
        status = EBB_OK;
    }
    if (status == EBB_OK && reader.why == NULL) {
        *stale = last > COST_STORE_BYTES / 2;
        status = merge(table, &stored);
    } else if (status == EBB_OK) {
        ebb__log(table->ctx, EBB_LOG_WARN, "%s %s: not used", path, reader.why);
    }
    close_reader(&reader);
    ebb__cost_table_fini(&stored);
    return status;
}

/* ---- saving ---- */

typedef struct store_writer {
    XXH3_state_t hash;
    file_writer file;
    bool any; /* entry was written */
} store_writer;

static ebb_status put(store_writer *w, const char *text) {
    (void)XXH3_64bits_update(&w->hash, text, strlen(text));
    return ebb__file_write(&w->file, text, strlen(text));
}

static ebb_status put_entry(store_writer *w, const char *line) {
    char whole[COST_LINE_BYTES + 2];
    (void)snprintf(whole, sizeof whole, "%s%s", w->any ? ",\n" : "\n", line);
    w->any = true;
    return put(w, whole);
}

/* This run's own entries, all of them, with their times as they will be read. */
static ebb_status put_table(store_writer *w, cost_table *table) {
    char line[COST_LINE_BYTES];
    for (int32_t i = 0; i < table->n_entries; i++) {
        cost_entry *entry = &table->entries[i];
        entry->estimate = ebb__cost_line_seconds(entry->estimate);
        for (int32_t k = 0; k < entry->n_forms; k++) {
            entry->forms[k].seconds = ebb__cost_line_seconds(entry->forms[k].seconds);
        }
        ebb__cost_line_write(table->dev, entry, line);
        TRY(put_entry(w, line));
    }
    return EBB_OK;
}

/* What else the old file has, from its front, as far as there is room. */
static ebb_status put_others(store_writer *w, store_reader *old, const cost_table *table) {
    cost_entry entry;
    char *line = NULL;
    TRY(next_entry(old, &entry, &line));
    while (line != NULL && w->file.written + COST_LINE_BYTES < COST_STORE_BYTES) {
        if (entry.key.kernel >= 0 && ebb__cost_table_find(table, &entry.key) == NULL) {
            TRY(put_entry(w, line));
        }
        TRY(next_entry(old, &entry, &line));
    }
    return EBB_OK;
}

static ebb_status put_all(store_writer *w, cost_table *table, store_reader *old) {
    store_header header;
    char trailer[TRAILER_BYTES];
    TRY(header_of(table->ctx, table->dev, &header));
    TRY(put(w, header.version));
    TRY(put(w, header.machine));
    TRY(put_table(w, table));
    if (old->why == NULL) {
        TRY(put_others(w, old, table));
    }
    TRY(put(w, "\n"));
    write_trailer(&w->hash, trailer);
    TRY(put(w, trailer));
    return put(w, "\n");
}

/* Makes the folder of a file. */
static ebb_status make_folder(ebb_ctx *ctx, const char *path) {
    char folder[COST_PATH_BYTES];
    (void)snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash == NULL || slash == folder) {
        return EBB_OK;
    }
    *slash = '\0';
    return ebb__file_make_dir(ctx, folder);
}

/* Two processes may do this at once: each writes beside under a name of its own (base/beside.c),
 * the last one to rename wins, and no reader ever sees a part. */
static ebb_status replace_file(cost_table *table, const char *path, store_reader *old) {
    store_writer writer = {.file = {.ctx = table->ctx, .fd = -1}};
    ebb_status status;
    XXH3_64bits_reset(&writer.hash);
    TRY(make_folder(table->ctx, path));
    TRY_OUT(ebb__file_create(table->ctx, path, &writer.file));
    TRY_OUT(put_all(&writer, table, old));
    status = ebb__file_commit(&writer.file);
out:
    ebb__file_abandon(&writer.file);
    return status;
}

/* Opens the file if there is one, of this machine and whole, at its first entry; else old->why is
 * set: what is wrong with it is overwritten. */
static ebb_status open_old(store_reader *old, const cost_table *table, const char *path) {
    cost_entry entry;
    char *line = NULL;
    ebb_status status = open_reader(old, table->ctx, table->dev, path);
    do {
        if (status == EBB_OK && old->why == NULL) {
            status = next_entry(old, &entry, &line);
        }
    } while (status == EBB_OK && line != NULL);
    if (status == EBB_OK && old->why == NULL) {
        status = rewind_reader(old);
    }
    if (status == EBB_IO) {
        old->why = "cannot be read";
        ebb__ctx_clear(table->ctx);
        status = EBB_OK;
    }
    return status;
}

ebb_status ebb__cost_store_save(cost_table *table, const char *path) {
    store_reader old;
    ebb_status status = open_old(&old, table, path);
    if (status == EBB_OK) {
        status = replace_file(table, path, &old);
    }
    close_reader(&old);
    return status;
}
