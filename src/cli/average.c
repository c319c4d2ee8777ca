/* average.c - `ebb average WEIGHTS... OUT`: the mean of weights that belong to one model. */
#include "cli/command.h"

#include "base/file.h"
#include "store/average.h"
#include "train/weights.h"

#include <string.h>

/* Of several weights the last is easily taken for the file to write; a run needs its own. */
static ebb_status check_output(ebb_ctx *ctx, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    bool own = strcmp(name, "best.safetensors") == 0 || strcmp(name, "last.safetensors") == 0 ||
               strncmp(name, "step-", 5) == 0 || strncmp(name, "ckpt-", 5) == 0;
    return !own || !ebb__file_exists(path)
               ? EBB_OK
               : ebb__fail(ctx, EBB_USAGE,
                           "average: %s is there and is a run's own; the last word is the file to "
                           "write: name a new one",
                           path);
}

ebb_status ebb__cli_average(cli_call *call) {
    size_t n = (size_t)call->n_words - 1;
    const char **paths = NULL;
    char out[1024];
    TRY(ebb__region_alloc(&call->settings.region, n, sizeof *paths, &paths));
    for (size_t i = 0; i < n; i++) {
        char file[JOB_PATH_BYTES], *kept = NULL;
        TRY(ebb__weights_file(call->ctx, call->words[i], file));
        TRY(ebb__region_strdup(&call->settings.region, file, &kept));
        paths[i] = kept;
    }
    TRY(ebb__file_follow(call->ctx, call->words[n], out));
    TRY(check_output(call->ctx, out));
    TRY(ebb__average(call->ctx, paths, n, out));
    if (!call->settings.quiet) {
        (void)fprintf(stderr, "%s: the mean of %zu file%s\n", call->words[n], n, n == 1 ? "" : "s");
    }
    return EBB_OK;
}
