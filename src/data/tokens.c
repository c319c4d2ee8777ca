/* tokens.c - makes, checks and reads token files (form: tokens.h).
 *
 * Making streams the text through its tokeniser once and hashes its raw bytes on the way, so the
 * trailer describes precisely what was read. How many lines there are is known only after the last
 * id, so that lengths are counted in the ids just written, a chunk at a time. Checking reads all
 * ids once, and beside them the lengths, which must be those that the ids give: no id reaches an
 * embedding table unchecked, and no line begins elsewhere, not even from a file made to deceive. */
#include "data/tokens.h"

#include "base/alloc.h"
#include "base/file.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* the state's size, so that it can live on the stack */
#include <xxhash.h>

enum { CHUNK = 16384, CELL_BYTES = sizeof(uint32_t) }; /* a cell is an id, or a length */

/* Fields of 64 bits, in the order of the file. */
enum {
    FIELD_MAGIC,
    FIELD_VERSION_MODE, /* version, mode << 32 */
    FIELD_COUNT,
    FIELD_LINES,
    FIELD_WORDS,
    FIELD_TEXT_BYTES,
    FIELD_UNKNOWN,
    FIELD_VOCAB_COUNT,
    FIELD_VOCAB_HASH,
    FIELD_SOURCE_BYTES,
    FIELD_SOURCE_HASH,
    FIELD_IDS_HASH,
    FIELD_LENGTHS_HASH,
    FIELD_TRAILER_HASH, /* of the fields before */
    FIELDS
};
static const char magic[8] = "EBBTOKEN";
static const uint64_t version = 2;

typedef struct tokens_trailer {
    uint64_t field[FIELDS]; /* little-endian, as in the file */
} tokens_trailer;

static void set_field(tokens_trailer *trailer, int which, uint64_t value) {
    trailer->field[which] = htole64(value);
}

static uint64_t get_field(const tokens_trailer *trailer, int which) {
    return le64toh(trailer->field[which]);
}

static uint64_t trailer_hash(const tokens_trailer *trailer) {
    return XXH3_64bits(trailer->field, FIELD_TRAILER_HASH * sizeof trailer->field[0]);
}

/* A trailer with the fields that say what the file must be made of. */
static ebb_status describe(ebb_ctx *ctx, const char *text_path, text_mode mode,
                           const data_vocab *vocab, tokens_trailer *out) {
    uint64_t hash = 0, bytes = 0;
    TRY(ebb__source_hash(ctx, text_path, &hash, &bytes));
    *out = (tokens_trailer){{0}};
    memcpy(&out->field[FIELD_MAGIC], magic, sizeof magic);
    set_field(out, FIELD_VERSION_MODE, version | (uint64_t)mode << 32);
    set_field(out, FIELD_VOCAB_COUNT, vocab->count);
    set_field(out, FIELD_VOCAB_HASH, ebb__vocab_hash_with_codes(vocab));
    set_field(out, FIELD_SOURCE_BYTES, bytes);
    set_field(out, FIELD_SOURCE_HASH, hash);
    return EBB_OK;
}

/* ---- cells -------------------------------------------------------------------------------- */

/* Of a chunk that starts at cell `first` of `count`. */
static size_t chunk_at(uint64_t first, uint64_t count) {
    return count - first < CHUNK ? (size_t)(count - first) : CHUNK;
}

/* As they are in the file: lengths follow the ids. */
static ebb_status read_cells(const tokens_reader *reader, uint64_t first, size_t count,
                             uint32_t *cells) {
    return ebb__file_pread(reader->ctx, reader->fd, reader->path, cells, count * CELL_BYTES,
                           first * CELL_BYTES);
}

/* ---- making ------------------------------------------------------------------------------- */

/* Cells on their way into the file. */
typedef struct cell_writer {
    file_writer *file; /* NULL: only their hash is wanted */
    XXH3_state_t *hash;
    uint32_t *cells; /* [CHUNK], as in the file */
    size_t used;
} cell_writer;

static ebb_status flush_cells(cell_writer *writer) {
    size_t bytes = writer->used * CELL_BYTES;
    writer->used = 0;
    XXH3_64bits_update(writer->hash, writer->cells, bytes);
    return writer->file != NULL ? ebb__file_write(writer->file, writer->cells, bytes) : EBB_OK;
}

static ebb_status put_cell(cell_writer *writer, uint32_t cell) {
    writer->cells[writer->used++] = htole32(cell);
    return writer->used == CHUNK ? flush_cells(writer) : EBB_OK;
}

static ebb_status write_ids(text_reader *text, const data_vocab *vocab, cell_writer *writer,
                            tokens_trailer *trailer) {
    uint64_t unknown = 0;
    XXH3_64bits_reset(writer->hash);
    for (;;) {
        text_token token;
        TRY(ebb__text_next(text, &token));
        if (token.kind == TEXT_END) {
            break;
        }
        uint32_t id =
            token.kind == TEXT_EOS ? VOCAB_EOS : ebb__vocab_find(vocab, token.bytes, token.length);
        unknown += id == VOCAB_UNK;
        TRY(put_cell(writer, id));
    }
    TRY(flush_cells(writer));
    set_field(trailer, FIELD_COUNT, text->tokens);
    set_field(trailer, FIELD_WORDS, text->words);
    set_field(trailer, FIELD_TEXT_BYTES, text->bytes);
    set_field(trailer, FIELD_UNKNOWN, unknown);
    set_field(trailer, FIELD_IDS_HASH, XXH3_64bits_digest(writer->hash));
    return EBB_OK;
}

ebb_status ebb__tokens_hash(ebb_ctx *ctx, const char *text_path, text_mode mode,
                            const data_vocab *vocab, uint64_t *out) {
    ebb_status status;
    XXH3_state_t hash;
    text_reader text;
    tokens_trailer trailer = {{0}};
    cell_writer writer = {.hash = &hash};
    TRY(ebb__text_open(ctx, text_path, mode, "compare texts", NULL, &text));
    TRY_OUT(ebb__text_cut_with(&text, vocab->codes));
    TRY_OUT(ebb__alloc(ctx, CHUNK, sizeof *writer.cells, &writer.cells));
    TRY_OUT(write_ids(&text, vocab, &writer, &trailer));
    *out = get_field(&trailer, FIELD_IDS_HASH);
out:
    ebb__free(ctx, writer.cells);
    ebb__text_close(&text);
    return status;
}

/* Counted in the ids, which `from` reads. */
static ebb_status write_lengths(const tokens_reader *from, const char *text_path, uint32_t *ids,
                                cell_writer *writer, tokens_trailer *trailer) {
    uint64_t lines = 0;
    uint32_t length = 0;
    XXH3_64bits_reset(writer->hash);
    for (uint64_t first = 0; first < from->count; first += CHUNK) {
        size_t part = chunk_at(first, from->count);
        TRY(ebb__poll_stop(from->ctx, text_path));
        TRY(read_cells(from, first, part, ids));
        for (size_t i = 0; i < part; i++) {
            if (length == UINT32_MAX) {
                return ebb__fail(from->ctx, EBB_DATA, "%s:%llu: has more than %u tokens; split it",
                                 text_path, (unsigned long long)lines + 1, UINT32_MAX);
            }
            length++;
            if (le32toh(ids[i]) == VOCAB_EOS) {
                TRY(put_cell(writer, length));
                lines++;
                length = 0;
            }
        }
    }
    if (length > 0) {
        TRY(put_cell(writer, length));
        lines++;
    }
    TRY(flush_cells(writer));
    set_field(trailer, FIELD_LINES, lines);
    set_field(trailer, FIELD_LENGTHS_HASH, XXH3_64bits_digest(writer->hash));
    return EBB_OK;
}

/* Everything; `ids` is room for a chunk of them. */
static ebb_status write_file(text_reader *text, const data_vocab *vocab, uint32_t *ids,
                             cell_writer *writer, tokens_trailer *trailer) {
    TRY(write_ids(text, vocab, writer, trailer));
    tokens_reader written = {
        .ctx = text->source.ctx, .fd = writer->file->fd, .count = text->tokens};
    (void)snprintf(written.path, sizeof written.path, "%s", writer->file->path);
    TRY(write_lengths(&written, text->source.path, ids, writer, trailer));
    set_field(trailer, FIELD_TRAILER_HASH, trailer_hash(trailer));
    return ebb__file_write(writer->file, trailer, sizeof *trailer);
}

/* Fills `file`, which the caller commits or abandons. */
static ebb_status fill(ebb_ctx *ctx, const char *text_path, text_mode mode, const data_vocab *vocab,
                       file_writer *file, tokens_trailer *trailer) {
    ebb_status status = EBB_OK;
    XXH3_state_t source_hash, cells_hash;
    XXH3_64bits_reset(&source_hash);
    text_reader text;
    cell_writer writer = {.file = file, .hash = &cells_hash};
    TRY(ebb__text_open(ctx, text_path, mode, "make tokens", &source_hash, &text));
    TRY_OUT(ebb__text_cut_with(&text, vocab->codes));
    TRY_OUT(ebb__alloc(ctx, 2 * (size_t)CHUNK, sizeof *writer.cells, &writer.cells));
    TRY_OUT(write_file(&text, vocab, writer.cells + CHUNK, &writer, trailer));
    if (XXH3_64bits_digest(&source_hash) != get_field(trailer, FIELD_SOURCE_HASH)) {
        TRY_OUT(ebb__fail(ctx, EBB_DATA, "data file %s: changed while it was read; run again",
                          text_path));
    }
out:
    ebb__free(ctx, writer.cells);
    ebb__text_close(&text);
    return status;
}

static ebb_status make(ebb_ctx *ctx, const char *text_path, text_mode mode, const data_vocab *vocab,
                       const char *tokens_path, tokens_trailer *trailer) {
    ebb_status status = EBB_OK;
    file_writer file = {.ctx = ctx, .fd = -1};
    TRY_OUT(ebb__file_create(ctx, tokens_path, &file));
    TRY_OUT(fill(ctx, text_path, mode, vocab, &file, trailer));
    TRY_OUT(ebb__file_commit(&file));
out:
    ebb__file_abandon(&file);
    return status;
}

/* ---- checking ----------------------------------------------------------------------------- */

/* Why the trailer is not the one wanted; NULL if it is. */
static const char *trailer_trouble(const tokens_trailer *found, const tokens_trailer *want,
                                   uint64_t file_bytes) {
    if (found->field[FIELD_MAGIC] != want->field[FIELD_MAGIC]) {
        return "is not a token file";
    }
    if (get_field(found, FIELD_TRAILER_HASH) != trailer_hash(found)) {
        return "is damaged";
    }
    if (found->field[FIELD_VERSION_MODE] != want->field[FIELD_VERSION_MODE]) {
        return "has another version or kind of token";
    }
    if (found->field[FIELD_VOCAB_COUNT] != want->field[FIELD_VOCAB_COUNT] ||
        found->field[FIELD_VOCAB_HASH] != want->field[FIELD_VOCAB_HASH]) {
        return "was made with another vocabulary";
    }
    if (found->field[FIELD_SOURCE_BYTES] != want->field[FIELD_SOURCE_BYTES] ||
        found->field[FIELD_SOURCE_HASH] != want->field[FIELD_SOURCE_HASH]) {
        return "was made of another text";
    }
    uint64_t bytes = file_bytes - sizeof *found, cells = bytes / CELL_BYTES;
    uint64_t count = get_field(found, FIELD_COUNT);
    if (bytes % CELL_BYTES != 0 || count > cells ||
        get_field(found, FIELD_LINES) != cells - count) {
        return "has not the size it tells";
    }
    /* A token has a byte of its own, but for the end that a last line may get. */
    if (get_field(found, FIELD_WORDS) > count ||
        (count > 0 && get_field(found, FIELD_TEXT_BYTES) < count - 1)) {
        return "is damaged";
    }
    return NULL;
}

/* The lengths of a file, in order. */
typedef struct length_cursor {
    const tokens_reader *reader;
    XXH3_state_t *hash;
    uint32_t *cells;      /* [CHUNK] */
    uint64_t line, ahead; /* the next one; that what was read ends before */
} length_cursor;

/* Whether the next line has this length. */
static ebb_status next_is(length_cursor *c, uint32_t length, bool *same) {
    uint64_t lines = c->reader->lines;
    if (c->line >= lines) {
        *same = false;
        return EBB_OK;
    }
    if (c->line == c->ahead) {
        size_t part = chunk_at(c->line, lines);
        TRY(read_cells(c->reader, c->reader->count + c->line, part, c->cells));
        XXH3_64bits_update(c->hash, c->cells, part * CELL_BYTES);
        c->ahead += part;
    }
    *same = *same && le32toh(c->cells[c->line++ % CHUNK]) == length;
    return EBB_OK;
}

/* All ids and all lengths, *sound if they are right; what they hash to, and <unk>s, go to *found.
 * `cells`: room for two chunks. */
static ebb_status check_cells(const tokens_reader *reader, uint32_t *cells, tokens_trailer *found,
                              bool *sound) {
    XXH3_state_t ids_hash, lengths_hash;
    length_cursor lengths = {.reader = reader, .hash = &lengths_hash, .cells = cells + CHUNK};
    uint64_t unknown = 0;
    uint32_t length = 0;
    XXH3_64bits_reset(&ids_hash);
    XXH3_64bits_reset(&lengths_hash);
    for (uint64_t first = 0; first < reader->count; first += CHUNK) {
        size_t part = chunk_at(first, reader->count);
        TRY(ebb__poll_stop(reader->ctx, reader->path));
        TRY(read_cells(reader, first, part, cells));
        XXH3_64bits_update(&ids_hash, cells, part * CELL_BYTES);
        for (size_t i = 0; i < part; i++) {
            uint32_t id = le32toh(cells[i]);
            *sound = *sound && id < reader->vocab_count;
            unknown += id == VOCAB_UNK;
            length++;
            if (id == VOCAB_EOS) {
                TRY(next_is(&lengths, length, sound));
                length = 0;
            }
        }
        ebb__progress(reader->ctx, "check tokens", first + part, reader->count);
    }
    if (length > 0) {
        TRY(next_is(&lengths, length, sound));
    }
    *sound = *sound && lengths.line == reader->lines;
    set_field(found, FIELD_UNKNOWN, unknown);
    set_field(found, FIELD_IDS_HASH, XXH3_64bits_digest(&ids_hash));
    set_field(found, FIELD_LENGTHS_HASH, XXH3_64bits_digest(&lengths_hash));
    return EBB_OK;
}

/* Whether the file holds what its trailer tells. */
static ebb_status check_content(const tokens_reader *reader, const tokens_trailer *told,
                                const char **why) {
    tokens_trailer found = *told;
    uint32_t *cells = NULL;
    bool sound = true;
    TRY(ebb__alloc(reader->ctx, 2 * (size_t)CHUNK, sizeof *cells, &cells));
    ebb_status status = check_cells(reader, cells, &found, &sound);
    if (!sound || memcmp(&found, told, sizeof found) != 0) {
        *why = "is damaged";
    }
    ebb__free(reader->ctx, cells);
    return status;
}

/* Believes the open file of `bytes` if it is the one wanted; *why says otherwise why not, and it is
 * closed. */
static ebb_status check_opened(tokens_reader *out, uint64_t bytes, const tokens_trailer *want,
                               const char **why) {
    ebb_status status = EBB_OK;
    tokens_trailer found;
    *why = NULL;
    if (bytes < sizeof found) {
        *why = "is not a token file";
        goto out;
    }
    TRY_OUT(
        ebb__file_pread(out->ctx, out->fd, out->path, &found, sizeof found, bytes - sizeof found));
    *why = trailer_trouble(&found, want, bytes);
    if (*why != NULL) {
        goto out;
    }
    out->file_bytes = bytes;
    out->count = get_field(&found, FIELD_COUNT);
    out->lines = get_field(&found, FIELD_LINES);
    out->words = get_field(&found, FIELD_WORDS);
    out->text_bytes = get_field(&found, FIELD_TEXT_BYTES);
    out->unknown = get_field(&found, FIELD_UNKNOWN);
    out->vocab_count = (uint32_t)get_field(&found, FIELD_VOCAB_COUNT);
    out->ids_hash = get_field(&found, FIELD_IDS_HASH);
    TRY_OUT(check_content(out, &found, why));
out:
    if (status != EBB_OK || *why != NULL) {
        ebb__tokens_close(out);
    }
    return status;
}

static ebb_status open_checked(tokens_reader *out, const tokens_trailer *want, const char **why) {
    uint64_t bytes = 0;
    if (!ebb__file_exists(out->path)) {
        *why = "does not exist yet";
        return EBB_OK;
    }
    TRY(ebb__file_open(out->ctx, out->path, &out->fd, &bytes));
    return check_opened(out, bytes, want, why);
}

/* What was just made; `bad` says what is wrong with it. */
static ebb_status take_made(tokens_reader *out, const char *bad) {
    if (bad != NULL) {
        return ebb__fail(out->ctx, EBB_IO, "token file %s: was just written but %s; check the disk",
                         out->path, bad);
    }
    out->made = true;
    return EBB_OK;
}

static ebb_status begin(ebb_ctx *ctx, const char *tokens_path, tokens_reader *out) {
    *out = (tokens_reader){.ctx = ctx, .fd = -1};
    int length = snprintf(out->path, sizeof out->path, "%s", tokens_path);
    return length >= 0 && (size_t)length < sizeof out->path
               ? EBB_OK
               : ebb__fail(ctx, EBB_USAGE, "token file %.64s...: the path is too long",
                           tokens_path);
}

ebb_status ebb__tokens_ensure(ebb_ctx *ctx, const char *text_path, text_mode mode,
                              const data_vocab *vocab, const char *tokens_path,
                              tokens_reader *out) {
    tokens_trailer trailer;
    const char *why = NULL;
    TRY(begin(ctx, tokens_path, out));
    TRY(describe(ctx, text_path, mode, vocab, &trailer));
    TRY(open_checked(out, &trailer, &why));
    if (why == NULL) {
        return EBB_OK;
    }
    ebb__log(ctx, EBB_LOG_DEBUG, "token file %s: %s; making it from %s", tokens_path, why,
             text_path);
    TRY(make(ctx, text_path, mode, vocab, tokens_path, &trailer));
    TRY(open_checked(out, &trailer, &why));
    return take_made(out, why);
}

ebb_status ebb__tokens_unnamed(ebb_ctx *ctx, const char *text_path, text_mode mode,
                               const data_vocab *vocab, const char *path, tokens_reader *out) {
    ebb_status status = EBB_OK;
    tokens_trailer trailer;
    file_writer file = {.ctx = ctx, .fd = -1};
    const char *why = NULL;
    TRY(begin(ctx, path, out));
    TRY_OUT(describe(ctx, text_path, mode, vocab, &trailer));
    TRY_OUT(ebb__file_create_unnamed(ctx, path, &file));
    TRY_OUT(fill(ctx, text_path, mode, vocab, &file, &trailer));
    out->fd = file.fd; /* the file's only hold */
    file.fd = -1;
    TRY_OUT(check_opened(out, file.written, &trailer, &why));
    status = take_made(out, why);
out:
    ebb__file_abandon(&file);
    return status;
}

/* ---- reading ------------------------------------------------------------------------------ */

ebb_status ebb__tokens_changed(const tokens_reader *reader) {
    return ebb__fail(reader->ctx, EBB_DATA,
                     "token file %s: was changed by somebody while in use; run again",
                     reader->path);
}

static ebb_status check_range(const tokens_reader *reader, uint64_t first, size_t count,
                              uint64_t all, const char *what) {
    if (first > all || count > all - first) {
        return ebb__fail(reader->ctx, EBB_INTERNAL, "token file %s: %zu %s at %llu of %llu",
                         reader->path, count, what, (unsigned long long)first,
                         (unsigned long long)all);
    }
    return EBB_OK;
}

ebb_status ebb__tokens_read(const tokens_reader *reader, uint64_t first, size_t count,
                            uint32_t *ids) {
    TRY(check_range(reader, first, count, reader->count, "ids"));
    TRY(read_cells(reader, first, count, ids));
    bool in_range = true;
    for (size_t i = 0; i < count; i++) {
        ids[i] = le32toh(ids[i]);
        in_range &= ids[i] < reader->vocab_count;
    }
    return in_range ? EBB_OK : ebb__tokens_changed(reader);
}

ebb_status ebb__tokens_lengths(const tokens_reader *reader, uint64_t first, size_t count,
                               uint32_t *lengths) {
    TRY(check_range(reader, first, count, reader->lines, "lengths"));
    TRY(read_cells(reader, reader->count + first, count, lengths));
    bool in_range = true;
    for (size_t i = 0; i < count; i++) {
        lengths[i] = le32toh(lengths[i]);
        in_range &= lengths[i] > 0 && lengths[i] <= reader->count;
    }
    return in_range ? EBB_OK : ebb__tokens_changed(reader);
}

void ebb__tokens_close(tokens_reader *reader) {
    ebb__file_close(reader->fd);
    reader->fd = -1;
}
