/* tokens.c - makes, checks and reads token files (form: tokens.h).
 *
 * Making streams the text through its tokeniser once and hashes its raw bytes on the way, so the
 * trailer describes precisely what was read. Checking reads all ids once: no id reaches an
 * embedding table unchecked, not even from a file made to deceive. */
#include "data/tokens.h"

#include "base/alloc.h"
#include "base/file.h"
#include "data/sink.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* the state's size, so that it can live on the stack */
#include <xxhash.h>

enum { CHUNK_IDS = 16384, ID_BYTES = sizeof(uint32_t) };

/* Fields of 64 bits, in the order of the file. */
enum {
    FIELD_MAGIC,
    FIELD_VERSION_MODE, /* version, mode << 32 */
    FIELD_COUNT,
    FIELD_WORDS,
    FIELD_TEXT_BYTES,
    FIELD_UNKNOWN,
    FIELD_VOCAB_COUNT,
    FIELD_VOCAB_HASH,
    FIELD_SOURCE_BYTES,
    FIELD_SOURCE_HASH,
    FIELD_IDS_HASH,
    FIELD_TRAILER_HASH, /* of the fields before */
    FIELDS
};
static const char magic[8] = "EBBTOKEN";
static const uint64_t version = 1;

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
    set_field(out, FIELD_VOCAB_HASH, ebb__vocab_hash(vocab));
    set_field(out, FIELD_SOURCE_BYTES, bytes);
    set_field(out, FIELD_SOURCE_HASH, hash);
    return EBB_OK;
}

/* ---- making ------------------------------------------------------------------------------- */

static ebb_status write_ids(text_reader *text, const data_vocab *vocab, data_sink *sink,
                            tokens_trailer *trailer) {
    XXH3_state_t ids_hash;
    XXH3_64bits_reset(&ids_hash);
    uint64_t unknown = 0;
    for (;;) {
        text_token token;
        TRY(ebb__text_next(text, &token));
        if (token.kind == TEXT_END) {
            break;
        }
        uint32_t id =
            token.kind == TEXT_EOS ? VOCAB_EOS : ebb__vocab_find(vocab, token.bytes, token.length);
        unknown += id == VOCAB_UNK;
        id = htole32(id);
        XXH3_64bits_update(&ids_hash, &id, sizeof id);
        TRY(ebb__sink_put(sink, &id, sizeof id));
    }
    set_field(trailer, FIELD_COUNT, text->tokens);
    set_field(trailer, FIELD_WORDS, text->words);
    set_field(trailer, FIELD_TEXT_BYTES, text->bytes);
    set_field(trailer, FIELD_UNKNOWN, unknown);
    set_field(trailer, FIELD_IDS_HASH, XXH3_64bits_digest(&ids_hash));
    return EBB_OK;
}

static ebb_status make(ebb_ctx *ctx, const char *text_path, text_mode mode, const data_vocab *vocab,
                       const char *tokens_path, tokens_trailer *trailer) {
    ebb_status status = EBB_OK;
    XXH3_state_t source_hash;
    XXH3_64bits_reset(&source_hash);
    text_reader text;
    data_sink sink = {.ctx = ctx};
    TRY(ebb__text_open(ctx, text_path, mode, "make tokens", &source_hash, &text));
    TRY_OUT(ebb__sink_open(ctx, tokens_path, &sink));
    TRY_OUT(write_ids(&text, vocab, &sink, trailer));
    if (XXH3_64bits_digest(&source_hash) != get_field(trailer, FIELD_SOURCE_HASH)) {
        TRY_OUT(ebb__fail(ctx, EBB_DATA, "data file %s: changed while it was read; run again",
                          text_path));
    }
    set_field(trailer, FIELD_TRAILER_HASH, trailer_hash(trailer));
    TRY_OUT(ebb__sink_put(&sink, trailer, sizeof *trailer));
    TRY_OUT(ebb__sink_commit(&sink));
out:
    ebb__sink_close(&sink);
    ebb__text_close(&text);
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
    uint64_t ids_bytes = file_bytes - sizeof *found;
    if (ids_bytes % ID_BYTES != 0 || get_field(found, FIELD_COUNT) != ids_bytes / ID_BYTES) {
        return "has not the size it tells";
    }
    return NULL;
}

static ebb_status check_ids(tokens_reader *reader, uint64_t want_hash, const char **why) {
    ebb_status status = EBB_OK;
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    uint32_t *ids = NULL;
    bool in_range = true;
    TRY_OUT(ebb__alloc(reader->ctx, CHUNK_IDS, sizeof *ids, &ids));
    for (uint64_t first = 0; first < reader->count; first += CHUNK_IDS) {
        uint64_t left = reader->count - first;
        size_t part = left < CHUNK_IDS ? (size_t)left : CHUNK_IDS;
        TRY_OUT(ebb__file_pread(reader->ctx, reader->fd, reader->path, ids, part * sizeof *ids,
                                first * sizeof *ids));
        XXH3_64bits_update(&state, ids, part * sizeof *ids);
        for (size_t i = 0; i < part; i++) {
            in_range &= le32toh(ids[i]) < reader->vocab_count;
        }
        ebb__progress(reader->ctx, "check tokens", first + part, reader->count);
    }
    if (!in_range || XXH3_64bits_digest(&state) != want_hash) {
        *why = "is damaged";
    }
out:
    ebb__free(reader->ctx, ids);
    return status;
}

/* Opens the file if it is the one wanted; *why says otherwise why not, and nothing is held. */
static ebb_status open_checked(ebb_ctx *ctx, const char *path, const tokens_trailer *want,
                               tokens_reader *out, const char **why) {
    ebb_status status = EBB_OK;
    tokens_trailer found;
    uint64_t bytes = 0;
    *why = NULL;
    if (!ebb__file_exists(path)) {
        *why = "does not exist yet";
        return EBB_OK;
    }
    TRY(ebb__file_open(ctx, path, &out->fd, &bytes));
    if (bytes < sizeof found) {
        *why = "is not a token file";
        goto out;
    }
    TRY_OUT(ebb__file_pread(ctx, out->fd, path, &found, sizeof found, bytes - sizeof found));
    *why = trailer_trouble(&found, want, bytes);
    if (*why != NULL) {
        goto out;
    }
    out->count = get_field(&found, FIELD_COUNT);
    out->words = get_field(&found, FIELD_WORDS);
    out->text_bytes = get_field(&found, FIELD_TEXT_BYTES);
    out->unknown = get_field(&found, FIELD_UNKNOWN);
    out->vocab_count = (uint32_t)get_field(&found, FIELD_VOCAB_COUNT);
    out->ids_hash = get_field(&found, FIELD_IDS_HASH);
    TRY_OUT(check_ids(out, out->ids_hash, why));
out:
    if (status != EBB_OK || *why != NULL) {
        ebb__tokens_close(out);
    }
    return status;
}

ebb_status ebb__tokens_ensure(ebb_ctx *ctx, const char *text_path, text_mode mode,
                              const data_vocab *vocab, const char *tokens_path,
                              tokens_reader *out) {
    *out = (tokens_reader){.ctx = ctx, .fd = -1};
    int length = snprintf(out->path, sizeof out->path, "%s", tokens_path);
    if (length < 0 || (size_t)length >= sizeof out->path) {
        return ebb__fail(ctx, EBB_USAGE, "token file %.64s...: the path is too long", tokens_path);
    }
    tokens_trailer trailer;
    const char *why = NULL;
    TRY(describe(ctx, text_path, mode, vocab, &trailer));
    TRY(open_checked(ctx, tokens_path, &trailer, out, &why));
    if (why == NULL) {
        return EBB_OK;
    }
    ebb__log(ctx, EBB_LOG_DEBUG, "token file %s: %s; making it from %s", tokens_path, why,
             text_path);
    TRY(make(ctx, text_path, mode, vocab, tokens_path, &trailer));
    TRY(open_checked(ctx, tokens_path, &trailer, out, &why));
    if (why != NULL) {
        return ebb__fail(ctx, EBB_IO, "token file %s: was just written but %s; check the disk",
                         tokens_path, why);
    }
    return EBB_OK;
}

/* ---- reading ------------------------------------------------------------------------------ */

ebb_status ebb__tokens_read(const tokens_reader *reader, uint64_t first, size_t count,
                            uint32_t *ids) {
    if (first > reader->count || count > reader->count - first) {
        return ebb__fail(reader->ctx, EBB_INTERNAL, "token file %s: %zu ids at %llu of %llu",
                         reader->path, count, (unsigned long long)first,
                         (unsigned long long)reader->count);
    }
    TRY(ebb__file_pread(reader->ctx, reader->fd, reader->path, ids, count * sizeof *ids,
                        first * sizeof *ids));
    bool in_range = true;
    for (size_t i = 0; i < count; i++) {
        ids[i] = le32toh(ids[i]);
        in_range &= ids[i] < reader->vocab_count;
    }
    if (!in_range) {
        return ebb__fail(reader->ctx, EBB_DATA,
                         "token file %s: was changed by somebody while in use; run again",
                         reader->path);
    }
    return EBB_OK;
}

void ebb__tokens_close(tokens_reader *reader) {
    ebb__file_close(reader->fd);
    reader->fd = -1;
}
