/* use.c - see use.h. The weights are the best of the folder's generations. */
#include "kind/text/use.h"

#include "base/file.h"
#include "store/checkpoint.h"

#include <stdio.h>
#include <string.h>

/* ---- vocabularies ---- */

static const char *file_of(const model_use *u, kind_side side) {
    return u->s.kind->vocab_file(&u->s, side);
}

/* Whether the side has a vocabulary of its own. */
static bool has_own(const model_use *u, kind_side side) {
    const char *name = file_of(u, side);
    const char *other = file_of(u, KIND_TARGET);
    return name != NULL && (side == KIND_TARGET || strcmp(name, other) != 0);
}

const data_vocab *ebb__use_vocab(const model_use *u, kind_side side) {
    return &u->vocabs[has_own(u, side) ? side : KIND_TARGET];
}

static uint64_t vocab_hash(const model_use *u) {
    uint64_t target = ebb__vocab_hash(ebb__use_vocab(u, KIND_TARGET));
    if (file_of(u, KIND_SOURCE) == NULL) {
        return target;
    }
    return ebb__kind_join_hashes(ebb__vocab_hash(ebb__use_vocab(u, KIND_SOURCE)), target);
}

ebb_status ebb__use_open_vocabs(model_use *u, const char *dir, job_request *request) {
    char path[JOB_PATH_BYTES];
    for (int side = 0; side < KIND_SIDES; side++) {
        if (has_own(u, (kind_side)side)) {
            TRY(ebb__job_path(u->ctx, dir, file_of(u, (kind_side)side), path));
            TRY(ebb__vocab_load(u->ctx, path, &u->vocabs[side]));
            request->vocab_bytes += ebb__vocab_room(&u->vocabs[side]);
        }
    }
    request->vocab = ebb__use_vocab(u, KIND_TARGET)->count;
    request->src_vocab = ebb__use_vocab(u, KIND_SOURCE)->count;
    return EBB_OK;
}

static void move_vocabs(model_use *u) {
    char *to = ebb__run_host(u->session, JOB_VOCAB, NULL);
    for (int side = 0; side < KIND_SIDES; side++) {
        if (has_own(u, (kind_side)side)) {
            ebb__vocab_move(&u->vocabs[side], to);
            to += ebb__vocab_room(&u->vocabs[side]);
        }
    }
}

/* The folder that a file lies in. */
static ebb_status folder_of(ebb_ctx *ctx, const char *path, char out[JOB_PATH_BYTES]) {
    const char *slash = strrchr(path, '/');
    int n = slash != NULL ? snprintf(out, JOB_PATH_BYTES, "%.*s", (int)(slash + 1 - path), path)
                          : snprintf(out, JOB_PATH_BYTES, ".");
    return n < JOB_PATH_BYTES ? EBB_OK
                              : ebb__fail(ctx, EBB_USAGE, "the path is too long: %.60s...", path);
}

static ebb_status has_vocabs(const model_use *u, const char *dir, bool *out) {
    char path[JOB_PATH_BYTES];
    *out = true;
    for (int side = 0; side < KIND_SIDES; side++) {
        if (has_own(u, (kind_side)side)) {
            TRY(ebb__job_path(u->ctx, dir, file_of(u, (kind_side)side), path));
            *out = *out && ebb__file_exists(path);
        }
    }
    return EBB_OK;
}

ebb_status ebb__use_check_init(const corpus *c) {
    ebb_ctx *ctx = c->ctx;
    const train_settings *settings = c->s;
    model_use u = {.ctx = ctx, .s = *settings};
    job_request unused = {0};
    char dir[JOB_PATH_BYTES];
    bool known = false;
    ebb_status status = EBB_OK;
    if (settings->init_path == NULL || c->resumed || c->dir == NULL) {
        return EBB_OK;
    }
    TRY_OUT(folder_of(ctx, settings->init_path, dir));
    TRY_OUT(has_vocabs(&u, dir, &known));
    if (!known) {
        goto out;
    }
    TRY_OUT(ebb__use_open_vocabs(&u, dir, &unused));
    if (vocab_hash(&u) != c->vocab_hash) {
        status = ebb__fail(ctx, EBB_USAGE,
                           "--init %s: these weights know the tokens of the %s beside them, and "
                           "this text has others or in another order; train on the text they "
                           "come from, or start without --init",
                           settings->init_path, file_of(&u, KIND_TARGET));
    }
out:
    ebb__use_close(&u);
    return status;
}

/* ---- weights ---- */

/* The weights must be those that the newest whole generation names, and the vocabulary theirs. */
static ebb_status check_weights(const model_use *u, const char *dir, const char *path, bool best) {
    checkpoint_info info = {0};
    st_reader named = {0};
    st_sum expected, found;
    json_int_t hash = 0;
    ebb_status status;
    TRY_OUT(ebb__checkpoint_peek(u->ctx, dir, &info));
    if (!info.found) {
        goto out; /* weights from elsewhere */
    }
    info.step = best ? info.best_step : info.step;
    TRY_OUT(ebb__checkpoint_open_weights(u->ctx, dir, &info, &named));
    TRY_OUT(ebb__safetensors_sum(u->ctx, named.path, &expected));
    TRY_OUT(ebb__safetensors_sum(u->ctx, path, &found));
    if (strcmp(expected.xxh3, found.xxh3) != 0) {
        status = ebb__fail(u->ctx, EBB_MODEL, "not the weights that the checkpoint names");
    } else if (json_unpack(info.train, "{s:I}", "vocab_hash", &hash) != 0 ||
               (uint64_t)hash != vocab_hash(u)) {
        status = ebb__fail(u->ctx, EBB_MODEL, "%s is not the vocabulary of these weights",
                           file_of(u, KIND_TARGET));
    }
out:
    ebb__safetensors_close(&named);
    ebb__checkpoint_info_fini(&info);
    return status;
}

/* The best weights; the last ones where none was validated yet. */
static ebb_status open_weights(const model_use *u, const char *dir, st_reader *reader) {
    char path[JOB_PATH_BYTES], why[256];
    TRY(ebb__job_path(u->ctx, dir, "best.safetensors", path));
    bool best = ebb__file_exists(path);
    if (!best) {
        TRY(ebb__job_path(u->ctx, dir, "last.safetensors", path));
    }
    if (!ebb__file_exists(path)) {
        return ebb__fail(u->ctx, EBB_MODEL,
                         "%s: holds no weights: neither best nor last.safetensors", dir);
    }
    TRY(ebb__safetensors_open(u->ctx, path, reader));
    ebb_status status = check_weights(u, dir, path, best);
    if (status == EBB_MODEL) {
        (void)snprintf(why, sizeof why, "%s", ebb_last_error(u->ctx));
        ebb__ctx_clear(u->ctx);
        status = ebb__fail(u->ctx, EBB_MODEL, "%s: cannot be trusted: %s", path, why);
    }
    if (status != EBB_OK) {
        ebb__safetensors_close(reader);
    }
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
    move_vocabs(u);
    ebb__run_touch(u->session);
    TRY(open_weights(u, dir, &reader));
    status = ebb__tensors_load_weights(u->session, &reader);
    ebb__safetensors_close(&reader);
    return status;
}

ebb_status ebb__use_open(model_use *u, const char *dir, job_request request) {
    TRY(ebb__use_open_vocabs(u, dir, &request));
    return ebb__use_open_model(u, dir, &request);
}

void ebb__use_close(model_use *u) {
    for (int side = 0; side < KIND_SIDES; side++) {
        ebb__vocab_free(&u->vocabs[side]);
    }
    ebb__run_free(u->session);
}
