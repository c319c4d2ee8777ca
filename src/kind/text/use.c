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

ebb_status ebb__use_find_vocabs(ebb_ctx *ctx, const train_settings *s, const char *dir, bool *out) {
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

/* Of weights without a note, by the vocabulary beside them. */
static ebb_status hash_beside(const corpus *c, const char *file, uint64_t *hash, bool *known) {
    text_vocabs vocabs = {.s = c->s};
    char dir[JOB_PATH_BYTES];
    TRY(folder_of(c->ctx, file, dir));
    TRY(ebb__use_find_vocabs(c->ctx, c->s, dir, known));
    if (!*known) {
        return EBB_OK;
    }
    ebb_status status = ebb__vocabs_load(c->ctx, dir, false, &vocabs);
    *hash = status == EBB_OK ? ebb__vocabs_hash(&vocabs) : 0;
    ebb__vocabs_free(&vocabs);
    return status;
}

ebb_status ebb__use_check_init(const corpus *c, uint64_t own) {
    const train_settings *s = c->s;
    char file[JOB_PATH_BYTES];
    uint64_t hash = 0;
    bool known = false;
    if (s->init_path == NULL || c->resumed || c->dir == NULL) {
        return EBB_OK;
    }
    TRY(ebb__weights_file(c->ctx, s->init_path, file));
    TRY(ebb__weights_vocab(c->ctx, file, &hash, &known));
    TRY(known ? EBB_OK : hash_beside(c, file, &hash, &known));
    return !known || hash == own
               ? EBB_OK
               : ebb__fail(
                     c->ctx, EBB_USAGE,
                     "--init %s: these weights were trained with another vocabulary or other "
                     "codes than this run has, so that words would be mixed up; take theirs: "
                     "--init DIR of the run that they are of, or --vocab DIR beside; or start "
                     "without --init",
                     s->init_path);
}

/* ---- all of it ---- */

/* That another member of the ensemble has the same words: what is averaged is about one and the
 * same token. */
static ebb_status check_member(const model_use *u, const char *first, const char *dir,
                               uint64_t hash) {
    text_vocabs vocabs = {.s = &u->s};
    ebb_status status = ebb__vocabs_load(u->ctx, dir, false, &vocabs);
    if (status == EBB_OK && ebb__vocabs_hash(&vocabs) != hash) {
        status = ebb__fail(u->ctx, EBB_MODEL,
                           "%s: has another vocabulary or other codes than %s: only models of one "
                           "vocabulary can be averaged; train with --vocab and --codes of one run",
                           dir, first);
    }
    ebb__vocabs_free(&vocabs);
    return status;
}

static ebb_status load_member(model_use *u, const char *dir, uint64_t hash, int32_t member) {
    st_reader reader = {0};
    TRY(ebb__trained_open(u->ctx, &u->s, dir, u->s.kind->vocab_file(&u->s, KIND_TARGET), hash,
                          &reader));
    ebb_status status = ebb__tensors_load_member(u->session, &reader, member);
    ebb__safetensors_close(&reader);
    return status;
}

/* The vocabularies move into the arena before that is touched, so that they never count twice. */
ebb_status ebb__use_open_model(model_use *u, const char *dir, const job_request *request) {
    ebb_plan *plan = NULL;
    uint64_t hash = ebb__vocabs_hash(&u->vocabs);
    for (int32_t i = 0; i < u->n_more; i++) {
        TRY(check_member(u, dir, u->more[i], hash));
    }
    ebb_status status = ebb__job_compile_run(u->ctx, &u->s, request, &plan);
    if (status != EBB_OK) {
        ebb__plan_free(plan);
        return status;
    }
    TRY(ebb__run_open(u->ctx, plan, &u->session));
    ebb__vocabs_move(&u->vocabs, ebb__run_host(u->session, JOB_VOCAB, NULL));
    ebb__run_touch(u->session);
    for (int32_t i = 0; i <= u->n_more; i++) {
        TRY(load_member(u, i == 0 ? dir : u->more[i - 1], hash, i));
    }
    return EBB_OK;
}

ebb_status ebb__use_open_fitting(model_use *u, const char *dir, const job_request *request) {
    for (;;) {
        ebb_status status = ebb__use_open_model(u, dir, request);
        if (status != EBB_BUDGET || u->s.batch == 1) {
            return status;
        }
        ebb__ctx_clear(u->ctx);
        ebb__region_trim(u->ctx);
        u->s.batch /= 2;
    }
}

ebb_status ebb__use_open(model_use *u, const char *dir, job_request request) {
    TRY(ebb__use_open_vocabs(u, dir, &request));
    return ebb__use_open_model(u, dir, &request);
}

/* ---- lines in memory ---- */

/* Takes the next word, if it is one that can be cut; a longer one is a token as it is. */
static ebb_status next_word(model_use *u, kind_side side, use_line *line, use_token *out) {
    const data_vocab *vocab = ebb__use_vocab(u, side);
    size_t n = codes_of_bytes(vocab->codes)
                   ? ebb__codes_split(&line->at, line->end, &out->text)
                   : ebb__text_split(u->s.tokens, &line->at, line->end, &out->text);
    out->bytes = n;
    if (n == 0 || vocab->codes == NULL || n > TEXT_TOKEN_LIMIT) {
        out->id = n > 0 ? ebb__vocab_find(vocab, out->text, n) : VOCAB_EOS;
        return EBB_OK;
    }
    line->word = out->text;
    line->piece = 0;
    u->cutter.ctx = u->ctx;
    return ebb__codes_cut(vocab->codes, &u->cutter, out->text, n);
}

ebb_status ebb__use_next_token(model_use *u, kind_side side, use_line *line, use_token *out) {
    if (line->word == NULL) {
        TRY(next_word(u, side, line, out));
    }
    if (line->word != NULL) {
        out->text = ebb__codes_token(&u->cutter, line->word, line->piece++, &out->bytes);
        out->id = ebb__vocab_find(ebb__use_vocab(u, side), out->text, out->bytes);
        line->word = line->piece < u->cutter.n_ends ? line->word : NULL;
    }
    return EBB_OK;
}

void ebb__use_close(model_use *u) {
    u->cutter.ctx = u->ctx;
    ebb__codes_cutter_free(&u->cutter);
    ebb__vocabs_free(&u->vocabs);
    ebb__run_free(u->session);
}
