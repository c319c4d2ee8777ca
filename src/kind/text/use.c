/* use.c - see use.h. */
#include "kind/text/use.h"

#include "base/file.h"
#include "train/trained.h"
#include "train/weights.h"

#include <stdio.h>
#include <string.h>

/* ---- vocabularies ---- */

const data_vocab *ebb__use_vocab(const model_use *u, kind_side side) {
    return ebb__vocabs_of(&u->vocabs, side);
}

ebb_status ebb__use_open_vocabs(model_use *u, const char *dir, job_request *request) {
    u->vocabs.s = &u->s;
    TRY(ebb__vocabs_load(u->ctx, dir, false, &u->vocabs));
    request->vocab_bytes += ebb__vocabs_room(&u->vocabs);
    request->vocab = ebb__use_vocab(u, KIND_TARGET)->count;
    request->src_vocab = ebb__use_vocab(u, KIND_SOURCE)->count;
    return EBB_OK;
}

/* The folder that a file lies in. */
static ebb_status folder_of(ebb_ctx *ctx, const char *path, char out[JOB_PATH_BYTES]) {
    const char *slash = strrchr(path, '/');
    int n = slash != NULL ? snprintf(out, JOB_PATH_BYTES, "%.*s", (int)(slash + 1 - path), path)
                          : snprintf(out, JOB_PATH_BYTES, ".");
    return n < JOB_PATH_BYTES ? EBB_OK
                              : ebb__fail(ctx, EBB_USAGE, "the path is too long: %.60s...", path);
}

/* Whether all vocabularies lie in the folder. */
static ebb_status find_vocabs(ebb_ctx *ctx, const train_settings *s, const char *dir, bool *out) {
    char path[JOB_PATH_BYTES];
    *out = true;
    for (int side = 0; side < KIND_SIDES; side++) {
        if (ebb__vocabs_has(s, (kind_side)side)) {
            TRY(ebb__vocabs_path(ctx, s, (kind_side)side, dir, false, path));
            *out = *out && ebb__file_exists(path);
        }
    }
    return EBB_OK;
}

ebb_status ebb__use_check_init(const corpus *c) {
    const train_settings *s = c->s;
    text_vocabs vocabs = {.s = s};
    char file[JOB_PATH_BYTES], dir[JOB_PATH_BYTES];
    bool known = false;
    if (s->init_path == NULL || c->resumed || c->dir == NULL) {
        return EBB_OK;
    }
    TRY(ebb__weights_file(c->ctx, s->init_path, file));
    TRY(folder_of(c->ctx, file, dir));
    TRY(find_vocabs(c->ctx, s, dir, &known));
    if (!known) {
        return EBB_OK;
    }
    ebb_status status = ebb__vocabs_load(c->ctx, dir, false, &vocabs);
    if (status == EBB_OK && ebb__vocabs_hash(&vocabs) != c->vocab_hash) {
        status = ebb__fail(c->ctx, EBB_USAGE,
                           "--init %s: these weights know the tokens of the %s beside them, and "
                           "this text has others or in another order; train on the text they "
                           "come from, or start without --init",
                           s->init_path, s->kind->vocab_file(s, KIND_TARGET));
    }
    ebb__vocabs_free(&vocabs);
    return status;
}

/* ---- all of it ---- */

/* The vocabularies move into the arena before that is touched, so that they never count twice. */
ebb_status ebb__use_open_model(model_use *u, const char *dir, const job_request *request) {
    ebb_plan *plan = NULL;
    st_reader reader = {0};
    ebb_status status = ebb__job_compile_run(u->ctx, &u->s, request, &plan);
    if (status != EBB_OK) {
        ebb__plan_free(plan);
        return status;
    }
    TRY(ebb__run_open(u->ctx, plan, &u->session));
    ebb__vocabs_move(&u->vocabs, ebb__run_host(u->session, JOB_VOCAB, NULL));
    ebb__run_touch(u->session);
    TRY(ebb__trained_open(u->ctx, &u->s, dir, u->s.kind->vocab_file(&u->s, KIND_TARGET),
                          ebb__vocabs_hash(&u->vocabs), &reader));
    status = ebb__tensors_load_weights(u->session, &reader);
    ebb__safetensors_close(&reader);
    return status;
}

ebb_status ebb__use_open(model_use *u, const char *dir, job_request request) {
    TRY(ebb__use_open_vocabs(u, dir, &request));
    return ebb__use_open_model(u, dir, &request);
}

void ebb__use_close(model_use *u) {
    ebb__vocabs_free(&u->vocabs);
    ebb__run_free(u->session);
}
