/* vocabs.c - see vocabs.h. */
#include "kind/text/vocabs.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>

bool ebb__vocabs_has(const train_settings *s, kind_side side) {
    const char *name = s->kind->vocab_file(s, side);
    return name != NULL &&
           (side == KIND_TARGET || strcmp(name, s->kind->vocab_file(s, KIND_TARGET)) != 0);
}

ebb_status ebb__vocabs_path(ebb_ctx *ctx, const train_settings *s, kind_side side, const char *dir,
                            bool fresh, char out[JOB_PATH_BYTES]) {
    const char *name = s->kind->vocab_file(s, side);
    char file[64];
    (void)snprintf(file, sizeof file, "%.*s%s", (int)(strlen(name) - strlen(".txt")), name,
                   fresh ? ".new" : ".txt");
    return ebb__job_path(ctx, dir, file, out);
}

/* ---- codes ---- */

bool ebb__vocabs_has_codes(const train_settings *s, kind_side side) {
    return s->tokens == TEXT_BPE && (side == KIND_TARGET || (s->codes_apart && kind_has_pairs(s)));
}

ebb_status ebb__vocabs_codes_path(ebb_ctx *ctx, const train_settings *s, kind_side side,
                                  const char *dir, bool fresh, char out[JOB_PATH_BYTES]) {
    static const char *const names[] = {"codes.src", "codes.tgt"};
    char file[64];
    bool apart = s->codes_apart && kind_has_pairs(s);
    (void)snprintf(file, sizeof file, "%s%s", apart ? names[side] : "codes",
                   fresh ? ".new" : ".txt");
    return ebb__job_path(ctx, dir, file, out);
}

const data_codes *ebb__vocabs_codes(const text_vocabs *v, kind_side side) {
    return v->s->tokens != TEXT_BPE
               ? NULL
               : &v->codes[ebb__vocabs_has_codes(v->s, side) ? side : KIND_TARGET];
}

void ebb__vocabs_join_codes(text_vocabs *v) {
    for (int side = 0; side < KIND_SIDES; side++) {
        v->at[side].codes = ebb__vocabs_codes(v, (kind_side)side);
    }
}

/* ---- all of them ---- */

const data_vocab *ebb__vocabs_of(const text_vocabs *v, kind_side side) {
    return &v->at[ebb__vocabs_has(v->s, side) ? side : KIND_TARGET];
}

uint64_t ebb__vocabs_hash(const text_vocabs *v) {
    return ebb__kind_join_hashes(v->s, ebb__vocab_hash_with_codes(ebb__vocabs_of(v, KIND_SOURCE)),
                                 ebb__vocab_hash_with_codes(ebb__vocabs_of(v, KIND_TARGET)));
}

/* Bytes, rounded so that others can follow. */
static uint64_t room_of(size_t bytes) {
    return ((uint64_t)bytes + 7) & ~(uint64_t)7;
}

uint64_t ebb__vocabs_room(const text_vocabs *v) {
    uint64_t room = 0;
    for (int side = 0; side < KIND_SIDES; side++) {
        room += room_of(v->at[side].bytes) + room_of(v->codes[side].bytes);
    }
    return room;
}

void ebb__vocabs_move(text_vocabs *v, char *to) {
    for (int side = 0; side < KIND_SIDES; side++) {
        if (ebb__vocabs_has(v->s, (kind_side)side)) {
            ebb__vocab_move(&v->at[side], to);
            to += room_of(v->at[side].bytes);
        }
        if (ebb__vocabs_has_codes(v->s, (kind_side)side)) {
            ebb__codes_move(&v->codes[side], to);
            to += room_of(v->codes[side].bytes);
        }
    }
}

ebb_status ebb__vocabs_load(ebb_ctx *ctx, const char *dir, bool fresh, text_vocabs *v) {
    char path[JOB_PATH_BYTES];
    for (int side = 0; side < KIND_SIDES; side++) {
        if (ebb__vocabs_has(v->s, (kind_side)side)) {
            TRY(ebb__vocabs_path(ctx, v->s, (kind_side)side, dir, fresh, path));
            TRY(ebb__vocab_load(ctx, path, &v->at[side]));
        }
        if (ebb__vocabs_has_codes(v->s, (kind_side)side)) {
            TRY(ebb__vocabs_codes_path(ctx, v->s, (kind_side)side, dir, fresh, path));
            TRY(ebb__codes_load(ctx, path, EBB_MODEL, &v->codes[side]));
        }
    }
    ebb__vocabs_join_codes(v);
    return EBB_OK;
}

ebb_status ebb__vocabs_save(ebb_ctx *ctx, const char *dir, const text_vocabs *v) {
    char path[JOB_PATH_BYTES];
    for (int side = 0; side < KIND_SIDES; side++) {
        if (ebb__vocabs_has(v->s, (kind_side)side)) {
            TRY(ebb__vocabs_path(ctx, v->s, (kind_side)side, dir, true, path));
            TRY(ebb__vocab_save(&v->at[side], path));
        }
        if (ebb__vocabs_has_codes(v->s, (kind_side)side)) {
            TRY(ebb__vocabs_codes_path(ctx, v->s, (kind_side)side, dir, true, path));
            TRY(ebb__codes_save(&v->codes[side], path));
        }
    }
    return EBB_OK;
}

ebb_status ebb__vocabs_adopt(ebb_ctx *ctx, const char *dir, const text_vocabs *v) {
    char from[JOB_PATH_BYTES], to[JOB_PATH_BYTES];
    for (int side = 0; side < KIND_SIDES; side++) {
        if (ebb__vocabs_has(v->s, (kind_side)side)) {
            TRY(ebb__vocabs_path(ctx, v->s, (kind_side)side, dir, true, from));
            TRY(ebb__vocabs_path(ctx, v->s, (kind_side)side, dir, false, to));
            TRY(ebb__file_rename(ctx, from, to));
        }
        if (ebb__vocabs_has_codes(v->s, (kind_side)side)) {
            TRY(ebb__vocabs_codes_path(ctx, v->s, (kind_side)side, dir, true, from));
            TRY(ebb__vocabs_codes_path(ctx, v->s, (kind_side)side, dir, false, to));
            TRY(ebb__file_rename(ctx, from, to));
        }
    }
    return EBB_OK;
}

void ebb__vocabs_free(text_vocabs *v) {
    for (int side = 0; side < KIND_SIDES; side++) {
        ebb__vocab_free(&v->at[side]);
        ebb__codes_free(&v->codes[side]);
    }
}
