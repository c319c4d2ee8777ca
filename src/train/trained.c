/* trained.c - see trained.h. */
#include "train/trained.h"

#include "base/file.h"
#include "store/checkpoint.h"
#include "train/weights.h"

#include <stdio.h>
#include <string.h>

/* Whether `path` holds what the newest whole generation names, and the lore is theirs. */
static ebb_status check_weights(ebb_ctx *ctx, const char *dir, const char *path, bool best,
                                const char *lore, uint64_t lore_hash) {
    checkpoint_info info = {0};
    st_reader named = {0};
    st_sum expected, found;
    json_int_t hash = 0;
    ebb_status status;
    TRY_OUT(ebb__checkpoint_peek(ctx, dir, &info));
    if (!info.found) {
        goto out; /* weights from elsewhere */
    }
    info.step = best ? info.best_step : info.step;
    TRY_OUT(ebb__checkpoint_open_weights(ctx, dir, &info, &named));
    TRY_OUT(ebb__safetensors_sum(ctx, named.path, &expected));
    TRY_OUT(ebb__safetensors_sum(ctx, path, &found));
    if (strcmp(expected.xxh3, found.xxh3) != 0) {
        status = ebb__fail(ctx, EBB_MODEL, "not the weights that the checkpoint names");
    } else if (json_unpack(info.train, "{s:I}", "vocab_hash", &hash) != 0 ||
               (uint64_t)hash != lore_hash) {
        status = ebb__fail(ctx, EBB_MODEL, "%s is not the one of these weights", lore);
    }
out:
    ebb__safetensors_close(&named);
    ebb__checkpoint_info_fini(&info);
    return status;
}

/* That weights from anywhere, if they say whose words they know, know those of the run. */
static ebb_status check_words(ebb_ctx *ctx, const char *file, const char *dir, uint64_t hash) {
    uint64_t theirs = 0;
    bool known = false;
    TRY(ebb__weights_vocab(ctx, file, &theirs, &known));
    return !known || theirs == hash
               ? EBB_OK
               : ebb__fail(ctx, EBB_MODEL,
                           "%s: these weights were trained with another vocabulary or other codes "
                           "than %s has, so that words would be mixed up",
                           file, dir);
}

ebb_status ebb__trained_open(ebb_ctx *ctx, const train_settings *settings, const char *dir,
                             const char *lore, uint64_t hash, st_reader *out) {
    const char *which = settings->weights != NULL ? settings->weights : "best";
    char path[JOB_PATH_BYTES], why[256];
    bool last = strcmp(which, "last") == 0;
    if (!last && strcmp(which, "best") != 0) {
        TRY(check_words(ctx, which, dir, hash));
        return ebb__safetensors_open(ctx, which, out);
    }
    TRY(ebb__job_path(ctx, dir, "best.safetensors", path));
    bool best = !last && ebb__file_exists(path);
    if (!best) {
        TRY(ebb__job_path(ctx, dir, "last.safetensors", path));
    }
    if (!ebb__file_exists(path)) {
        return ebb__fail(ctx, EBB_MODEL, "%s: holds no weights: neither best nor last.safetensors",
                         dir);
    }
    TRY(ebb__safetensors_open(ctx, path, out));
    ebb_status status = check_weights(ctx, dir, path, best, lore, hash);
    if (status == EBB_MODEL) {
        (void)snprintf(why, sizeof why, "%s", ebb_last_error(ctx));
        ebb__ctx_clear(ctx);
        status = ebb__fail(ctx, EBB_MODEL, "%s: cannot be trusted: %s", path, why);
    }
    if (status != EBB_OK) {
        ebb__safetensors_close(out);
    }
    return status;
}
