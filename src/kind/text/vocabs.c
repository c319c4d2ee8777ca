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

const data_vocab *ebb__vocabs_of(const text_vocabs *v, kind_side side) {
    return &v->at[ebb__vocabs_has(v->s, side) ? side : KIND_TARGET];
}

uint64_t ebb__vocabs_hash(const text_vocabs *v) {
    return ebb__kind_join_hashes(v->s, ebb__vocab_hash(ebb__vocabs_of(v, KIND_SOURCE)),
                                 ebb__vocab_hash(ebb__vocabs_of(v, KIND_TARGET)));
}

/* Its bytes, rounded so that another can follow. */
static uint64_t room_of(const data_vocab *vocab) {
    return ((uint64_t)vocab->bytes + 7) & ~(uint64_t)7;
}

uint64_t ebb__vocabs_room(const text_vocabs *v) {
    return room_of(&v->at[KIND_SOURCE]) + room_of(&v->at[KIND_TARGET]);
}

void ebb__vocabs_move(text_vocabs *v, char *to) {
    for (int side = 0; side < KIND_SIDES; side++) {
        if (ebb__vocabs_has(v->s, (kind_side)side)) {
            ebb__vocab_move(&v->at[side], to);
            to += room_of(&v->at[side]);
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
    }
    return EBB_OK;
}

ebb_status ebb__vocabs_save(ebb_ctx *ctx, const char *dir, const text_vocabs *v) {
    char path[JOB_PATH_BYTES];
    for (int side = 0; side < KIND_SIDES; side++) {
        if (ebb__vocabs_has(v->s, (kind_side)side)) {
            TRY(ebb__vocabs_path(ctx, v->s, (kind_side)side, dir, true, path));
            TRY(ebb__vocab_save(&v->at[side], path));
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
    }
    return EBB_OK;
}

void ebb__vocabs_free(text_vocabs *v) {
    ebb__vocab_free(&v->at[KIND_SOURCE]);
    ebb__vocab_free(&v->at[KIND_TARGET]);
}
