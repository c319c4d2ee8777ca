/* corpus.c - what the data of all kinds share: where their files lie, and whether they are those
 * that the run was started with. */
#include "train/job_int.h"

#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>

ebb_status ebb__job_path(ebb_ctx *ctx, const char *dir, const char *name, char *out) {
    return ebb__file_join(ctx, dir, name, out, JOB_PATH_BYTES);
}

ebb_status ebb__corpus_new(ebb_ctx *ctx, const train_settings *settings, const char *dir,
                           corpus **out) {
    TRY(ebb__alloc(ctx, 1, settings->kind->corpus.bytes, out));
    **out = (corpus){.ctx = ctx, .s = settings, .dir = dir};
    return EBB_OK;
}

void ebb__corpus_free(corpus *c) {
    if (c != NULL && c->calls != NULL) {
        c->calls->close(c);
    }
    if (c != NULL) {
        ebb__free(c->ctx, c);
    }
}

ebb_status ebb__corpus_measure(corpus *c, uint64_t most, job_request *request) {
    c->calls = &c->s->kind->corpus; /* from here on there is something to close */
    TRY(c->calls->measure(c, most, request));
    return c->calls->choose(c, request);
}

ebb_status ebb__corpus_same(corpus *c, const char *path, uint64_t count, uint64_t hash,
                            const char *what) {
    if (c->resumed && (count != c->train_count || hash != c->train_hash)) {
        return ebb__fail(c->ctx, EBB_USAGE,
                         "%s: is not the %s the run was started with (%" PRIu64 " %s, then %" PRIu64
                         "); use that, another --out, or --fresh",
                         path, kind_data(c->s), count, what, c->train_count);
    }
    c->train_count = count;
    c->train_hash = hash;
    return EBB_OK;
}

ebb_status ebb__corpus_same_valid(corpus *c, const char *path, uint64_t hash) {
    if (c->valid_hash != 0 && c->valid_hash != hash) {
        return ebb__fail(c->ctx, EBB_USAGE,
                         "%s: is not the %s the run was validated on, so scores could not be "
                         "compared; use that, another --out, or --fresh",
                         path, kind_data(c->s));
    }
    c->valid_hash = hash;
    return EBB_OK;
}
