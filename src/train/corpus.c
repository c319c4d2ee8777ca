/* corpus.c - what the texts of all kinds share: where their files lie, and whether they are those
 * that the run was started with. */
#include "train/job_int.h"

#include "base/file.h"
#include "data/tokens.h"

#include <inttypes.h>
#include <stdio.h>

const model_kind *ebb__kind(const train_settings *s) {
    return s->model == MODEL_NMT ? &ebb__kind_nmt : &ebb__kind_lm;
}

ebb_status ebb__job_path(ebb_ctx *ctx, const char *dir, const char *name, char *out) {
    return ebb__file_join(ctx, dir, name, out, JOB_PATH_BYTES);
}

ebb_status ebb__corpus_new(ebb_ctx *ctx, const train_settings *settings, const char *dir,
                           corpus **out) {
    const corpus_kind *kind = &ebb__kind(settings)->corpus;
    TRY(ebb__alloc(ctx, 1, kind->bytes, out));
    **out = (corpus){.ctx = ctx, .s = settings, .dir = dir};
    return EBB_OK;
}

void ebb__corpus_free(corpus *c) {
    if (c != NULL && c->kind != NULL) {
        c->kind->close(c);
    }
    if (c != NULL) {
        ebb__free(c->ctx, c);
    }
}

ebb_status ebb__corpus_measure(corpus *c, uint64_t most, job_request *request) {
    c->kind = &ebb__kind(c->s)->corpus; /* from here on there is something to close */
    TRY(c->kind->measure(c, most, request));
    return c->kind->choose(c, request);
}

ebb_status ebb__corpus_same(corpus *c, const char *path, uint64_t count, uint64_t hash,
                            const char *what) {
    if (c->resumed && (count != c->train_count || hash != c->train_hash)) {
        return ebb__fail(c->ctx, EBB_USAGE,
                         "%s: is not the text the run was started with (%" PRIu64
                         " %s, then %" PRIu64 "); use that text, another --out, or --fresh",
                         path, count, what, c->train_count);
    }
    c->train_count = count;
    c->train_hash = hash;
    return EBB_OK;
}

ebb_status ebb__corpus_same_valid(corpus *c, const char *path, uint64_t hash) {
    if (c->valid_hash != 0 && c->valid_hash != hash) {
        return ebb__fail(c->ctx, EBB_USAGE,
                         "%s: is not the text the run was validated on, so perplexities could "
                         "not be compared; use that text, another --out, or --fresh",
                         path);
    }
    c->valid_hash = hash;
    return EBB_OK;
}

/* What the texts are to a model, by the vocabularies of the folder; source NULL: one text. */
static ebb_status hash_texts(const corpus *c, const char *dir, const char *source,
                             const char *target, uint64_t *out) {
    const char *texts[KIND_SIDES] = {[KIND_SOURCE] = source, [KIND_TARGET] = target};
    uint64_t hash[KIND_SIDES] = {0, 0};
    for (int side = 0; side < KIND_SIDES; side++) {
        char path[JOB_PATH_BYTES];
        data_vocab vocab;
        if (texts[side] == NULL) {
            continue;
        }
        TRY(ebb__job_path(c->ctx, dir, ebb__kind(c->s)->vocab_file(c->s, (kind_side)side), path));
        TRY(ebb__vocab_load(c->ctx, path, &vocab));
        ebb_status status =
            ebb__tokens_hash(c->ctx, texts[side], c->s->tokens, &vocab, &hash[side]);
        ebb__vocab_free(&vocab);
        TRY(status);
    }
    *out = source == NULL ? hash[KIND_TARGET]
                          : ebb__kind_join_hashes(hash[KIND_SOURCE], hash[KIND_TARGET]);
    return EBB_OK;
}

ebb_status ebb__corpus_compare(const corpus *stored, const char *dir, bool *train, bool *valid) {
    const train_settings *s = stored->s;
    bool pairs = s->model == MODEL_NMT;
    uint64_t hash = 0;
    TRY(hash_texts(stored, dir, pairs ? s->train_path : NULL,
                   pairs ? s->train_target : s->train_path, &hash));
    *train = hash == stored->train_hash;
    *valid = true;
    if (s->valid_path != NULL && stored->valid_hash != 0) {
        TRY(hash_texts(stored, dir, pairs ? s->valid_path : NULL,
                       pairs ? s->valid_target : s->valid_path, &hash));
        *valid = hash == stored->valid_hash;
    }
    return EBB_OK;
}

ebb_status ebb__corpus_adopt(corpus *c, const char *from, const char *to) {
    char old[JOB_PATH_BYTES], fresh[JOB_PATH_BYTES];
    TRY(ebb__job_path(c->ctx, c->dir, from, old));
    TRY(ebb__job_path(c->ctx, c->dir, to, fresh));
    return ebb__file_rename(c->ctx, old, fresh);
}
