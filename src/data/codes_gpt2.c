/* codes_gpt2.c - see codes_gpt2.h. vocab.json is one object of names and whole numbers; it is read
 * by a parser of its own, so that a file of any size takes memory of the order of the file and no
 * more. */
#include "data/codes_gpt2.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096 };

/* Of a folder's file. */
static bool path_of(const char *folder, const char *name, char out[PATH_BYTES]) {
    return snprintf(out, PATH_BYTES, "%s/%s", folder, name) < PATH_BYTES;
}

bool ebb__gpt2_is_folder(const char *path) {
    char file[PATH_BYTES];
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode) && path_of(path, "merges.txt", file) &&
           ebb__file_exists(file) && path_of(path, "vocab.json", file) && ebb__file_exists(file);
}

/* ---- vocab.json ---- */

typedef struct json_entry {
    char *name; /* in the text itself, once unescaped */
    uint32_t length, number;
} json_entry;

typedef struct json_walk {
    char *at;
    const char *end;
    uint64_t line;
    const char *why; /* NULL: nothing is wrong so far */
    alloc_region region;
    json_entry *entries;
    size_t room, n, pool;
} json_walk;

static void skip_blank(json_walk *w) {
    while (w->at < w->end &&
           (*w->at == ' ' || *w->at == '\n' || *w->at == '\r' || *w->at == '\t')) {
        w->line += *w->at++ == '\n';
    }
}

/* Takes the character if it comes next. */
static bool take(json_walk *w, char wanted) {
    skip_blank(w);
    bool is_there = w->at < w->end && *w->at == wanted;
    w->at += is_there;
    return is_there;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Four digits behind \u; -1: there are none. */
static int64_t take_unit(json_walk *w) {
    int64_t unit = 0;
    for (int i = 0; i < 4; i++) {
        int digit = w->at < w->end ? hex_digit(*w->at++) : -1;
        if (digit < 0) {
            return -1;
        }
        unit = unit * 16 + digit;
    }
    return unit;
}

static size_t put_point(uint32_t point, char *to) {
    size_t n = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; point >>= 6) {
        to[i] = (char)(0x80 | (point & 0x3f));
    }
    to[0] = (char)(lead[n] | point);
    return n;
}

/* What a backslash starts, as UTF-8: never longer than how it is written. */
static size_t take_escape(json_walk *w, char *to) {
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    char kind = w->at < w->end ? *w->at++ : '\0';
    const char *found = kind != '\0' ? strchr(from, kind) : NULL;
    if (found != NULL) {
        *to = into[found - from];
        return 1;
    }
    int64_t point = kind == 'u' ? take_unit(w) : -1;
    if (point >= 0xd800 && point < 0xdc00 && w->end - w->at >= 6 && w->at[0] == '\\' &&
        w->at[1] == 'u') {
        w->at += 2;
        int64_t low = take_unit(w);
        point = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00)
                                              : -1;
    }
    if (point < 0 || (point >= 0xd800 && point < 0xe000)) {
        w->why = "an unknown escape";
        return 0;
    }
    return put_point((uint32_t)point, to);
}

/* A name in quotes, unescaped where it stands. */
static void take_name(json_walk *w, json_entry *out) {
    if (!take(w, '"')) {
        w->why = "a name in quotes is missing";
        return;
    }
    char *to = w->at;
    out->name = w->at;
    while (w->why == NULL && w->at < w->end && *w->at != '"') {
        if ((unsigned char)*w->at < ' ') {
            w->why = "a control byte in a name";
        } else if (*w->at != '\\') {
            *to++ = *w->at++;
        } else {
            char escaped[4];
            w->at++;
            size_t n = take_escape(w, escaped);
            memcpy(to, escaped, n);
            to += n;
        }
    }
    if (w->why == NULL && w->at == w->end) {
        w->why = "the file ends inside a name";
    }
    if (w->why == NULL && (to == out->name || to - out->name > TEXT_TOKEN_LIMIT)) {
        w->why = to == out->name ? "an empty name" : "a name of more than 65535 bytes";
    }
    w->at += w->why == NULL;
    out->length = (uint32_t)(to - out->name);
}

static void take_number(json_walk *w, json_entry *out) {
    uint64_t number = 0;
    skip_blank(w);
    const char *first = w->at;
    while (w->at < w->end && *w->at >= '0' && *w->at <= '9' && number < GPT2_MOST_ENTRIES) {
        number = number * 10 + (uint64_t)(*w->at++ - '0');
    }
    if (w->at == first) {
        w->why = "a name without a whole number";
    } else if (number >= GPT2_MOST_ENTRIES) {
        w->why = "a number above 2097151";
    }
    out->number = (uint32_t)number;
}

/* Names are letters for bytes; one that is not is taken as it is: a mark such as <|endoftext|>. */
static void to_bytes(json_entry *entry) {
    if (ebb__codes_from_letters(entry->name, entry->length, NULL) > 0) {
        entry->length = (uint32_t)ebb__codes_from_letters(entry->name, entry->length, entry->name);
    }
}

static ebb_status take_entries(json_walk *w) {
    if (!take(w, '{')) {
        w->why = "no JSON object starts here";
        return EBB_OK;
    }
    for (bool more = !take(w, '}'); more && w->why == NULL;) {
        json_entry entry = {0};
        take_name(w, &entry);
        if (w->why == NULL && !take(w, ':')) {
            w->why = "a name without a number";
        }
        if (w->why == NULL) {
            take_number(w, &entry);
        }
        if (w->why != NULL) {
            break;
        }
        if (w->n == GPT2_MOST_ENTRIES) {
            w->why = "more than 2097152 entries";
            break;
        }
        to_bytes(&entry);
        TRY(ebb__region_grow(&w->region, &w->entries, &w->room, w->n + 1, sizeof *w->entries));
        w->entries[w->n++] = entry;
        w->pool += entry.length;
        more = take(w, ',');
        if (!more && !take(w, '}')) {
            w->why = "neither a comma nor the end of the object";
        }
    }
    skip_blank(w);
    if (w->why == NULL && w->at < w->end) {
        w->why = "something behind the object";
    }
    if (w->why == NULL && w->n == 0) {
        w->why = "holds no entry";
    }
    return EBB_OK;
}

/* Entries in the order of their numbers: which must be all from 0 on. */
static ebb_status add_pieces(json_walk *w, gpt2_ids *out) {
    static const char *const specials[VOCAB_SPECIALS] = {"<unk>", "<eos>"};
    uint32_t *order = NULL; /* by number: entry + 1 */
    TRY(ebb__region_alloc(&w->region, w->n, sizeof *order, &order));
    memset(order, 0, w->n * sizeof *order);
    for (size_t i = 0; i < w->n; i++) {
        uint32_t number = w->entries[i].number;
        if (number >= w->n || order[number] != 0) {
            w->why = number >= w->n ? "numbers have a gap: some are not below that of entries"
                                    : "two entries have one number";
            return EBB_OK;
        }
        order[number] = (uint32_t)i + 1;
    }
    for (int i = 0; i < VOCAB_SPECIALS; i++) {
        (void)ebb__vocab_add(&out->pieces, specials[i], strlen(specials[i]));
    }
    for (size_t number = 0; number < w->n; number++) {
        const json_entry *entry = &w->entries[order[number] - 1];
        if (ebb__vocab_add(&out->pieces, entry->name, entry->length)) {
            continue;
        }
        bool special = entry->length == 5 && (memcmp(entry->name, specials[0], 5) == 0 ||
                                              memcmp(entry->name, specials[1], 5) == 0);
        if (!special || out->n_own == VOCAB_SPECIALS) {
            w->why = "two entries are one piece";
            return EBB_OK;
        }
        out->own[out->n_own++] = (uint32_t)number;
    }
    return EBB_OK;
}

ebb_status ebb__gpt2_load_ids(ebb_ctx *ctx, const char *folder, ebb_status failure, gpt2_ids *out) {
    char path[PATH_BYTES];
    char *text = NULL;
    size_t bytes = 0;
    json_walk w = {.line = 1};
    ebb__region_init(&w.region, ctx);
    *out = (gpt2_ids){.pieces = {.ctx = ctx}};
    (void)path_of(folder, "vocab.json", path);
    ebb_status status = ebb__file_read_all(ctx, path, CODES_FILE_LIMIT, &text, &bytes);
    if (status == EBB_DATA) {
        ebb__ctx_clear(ctx);
        status = ebb__fail(ctx, failure, "%s: more than %d bytes are no vocabulary", path,
                           (int)CODES_FILE_LIMIT);
    }
    TRY_OUT(status);
    w.at = text;
    w.end = text + bytes;
    TRY_OUT(take_entries(&w));
    if (w.why == NULL) {
        TRY_OUT(ebb__vocab_init(ctx, w.n + VOCAB_SPECIALS, w.pool + 10, &out->pieces));
        TRY_OUT(add_pieces(&w, out));
    }
    if (w.why != NULL) {
        TRY_OUT(ebb__fail(ctx, failure,
                          "%s:%llu: %s; give GPT-2's file: one JSON object of pieces and numbers "
                          "from 0 on",
                          path, (unsigned long long)w.line, w.why));
    }
out:
    ebb__region_fini(&w.region);
    ebb__free(ctx, text);
    if (status != EBB_OK) {
        ebb__vocab_free(&out->pieces);
    }
    return status;
}

/* ---- both ---- */

int64_t ebb__gpt2_id(const gpt2_ids *ids, const char *bytes, size_t length) {
    uint32_t place = ebb__vocab_find(&ids->pieces, bytes, length);
    if (place < VOCAB_SPECIALS) {
        return CODES_NONE;
    }
    uint32_t number = place - VOCAB_SPECIALS;
    for (uint32_t i = 0; i < ids->n_own; i++) {
        number += number >= ids->own[i];
    }
    return number;
}

static ebb_status compare(ebb_ctx *ctx, const char *folder, ebb_status failure,
                          const data_codes *codes, const gpt2_ids *ids) {
    for (unsigned byte = 0; byte < 256; byte++) {
        char bytes[1] = {(char)byte};
        if (ebb__gpt2_id(ids, bytes, 1) < 0) {
            return ebb__fail(ctx, failure,
                             "%s/vocab.json: lacks the piece of byte 0x%02x; give GPT-2's file, "
                             "which has all 256",
                             folder, byte);
        }
    }
    for (uint32_t i = 0; i < codes->n_pairs; i++) {
        size_t length = 0;
        const char *piece = ebb__codes_piece(codes, codes->pairs[i].joined, &length);
        if (ebb__gpt2_id(ids, piece, length) < 0) {
            return ebb__fail(ctx, failure,
                             "%s/merges.txt: pair %u makes a piece that vocab.json lacks; give "
                             "two files that were published together",
                             folder, i + 1);
        }
    }
    return EBB_OK;
}

ebb_status ebb__gpt2_load(ebb_ctx *ctx, const char *folder, ebb_status failure, data_codes *codes,
                          gpt2_ids *ids) {
    char path[PATH_BYTES];
    *codes = (data_codes){.ctx = ctx};
    TRY(ebb__gpt2_load_ids(ctx, folder, failure, ids));
    (void)path_of(folder, "merges.txt", path);
    ebb_status status = ebb__codes_load_merges(ctx, path, failure, codes);
    if (status == EBB_OK) {
        status = compare(ctx, folder, failure, codes, ids);
    }
    if (status != EBB_OK) {
        ebb__codes_free(codes);
        ebb__vocab_free(&ids->pieces);
    }
    return status;
}
