/* compare.c - whether texts are those that a run was started with. */
#include "kind/text/use.h"

#include "data/tokens.h"

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
        TRY(ebb__job_path(c->ctx, dir, c->s->kind->vocab_file(c->s, (kind_side)side), path));
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

ebb_status ebb__texts_compare(const corpus *stored, const char *dir, bool *train, bool *valid) {
    const train_settings *s = stored->s;
    bool pairs = kind_has_pairs(s);
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
