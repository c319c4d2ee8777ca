/* stored.c - see stored.h. */
#include "kind/stored.h"

#include "base/file.h"
#include "train/job_int.h"

#include <stdio.h>
#include <string.h>

enum { CONFIG_MOST_BYTES = 1 << 20 };

static ebb_status config_path(ebb_ctx *ctx, const char *dir, char path[JOB_PATH_BYTES]) {
    TRY(ebb__job_path(ctx, dir, "config", path));
    return ebb__file_exists(path)
               ? EBB_OK
               : ebb__fail(ctx, EBB_MODEL,
                           "%s: is not the folder of a run: it has no file 'config'", dir);
}

ebb_status ebb__stored_kind(ebb_ctx *ctx, const char *dir, const model_kind **out) {
    char path[JOB_PATH_BYTES], name[24] = "";
    char *text = NULL;
    size_t bytes = 0;
    TRY(config_path(ctx, dir, path));
    TRY(ebb__file_read_all(ctx, path, CONFIG_MOST_BYTES, &text, &bytes));
    *out = ebb__kind_at(0);
    if (sscanf(text, " model = %23s", name) == 1 && ebb__kind_find(name) != NULL) {
        *out = ebb__kind_find(name);
    }
    ebb__free(ctx, text);
    return EBB_OK;
}

/* What the stored settings say cannot be: the run is bad, not the usage. */
static ebb_status resolve(const option_set *set, const char *path) {
    char why[512];
    ebb_status status = ebb__options_resolve(set);
    if (status != EBB_USAGE) {
        return status;
    }
    (void)snprintf(why, sizeof why, "%s", ebb_last_error(set->ctx));
    ebb__ctx_clear(set->ctx);
    return ebb__fail(set->ctx, EBB_MODEL, "%s: %s", path, why);
}

ebb_status ebb__stored_load(const option_set *set, const char *dir) {
    char path[JOB_PATH_BYTES];
    TRY(config_path(set->ctx, dir, path));
    TRY(ebb__config_load(set, path, EBB_MODEL));
    TRY(ebb__paths_of_run(set, path));
    if (set->kind->at_home != NULL) {
        TRY(set->kind->at_home(set->ctx, set->base, dir, set->region));
    }
    return resolve(set, path);
}
