/* stored.c - see stored.h. */
#include "kind/stored.h"

#include "base/file.h"
#include "model/nmt_decode.h"
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

/* ---- several runs ---- */

/* What the form of a model, and what its tokens are, follows from. */
static bool is_of_form(const train_option *option) {
    bool words = strcmp(option->name, "tokens") == 0 || strcmp(option->name, "codes-apart") == 0;
    return words || (strcmp(option->group, "Model") == 0 && option->kind != OPTION_REAL &&
                     option->kind != OPTION_TEXT);
}

static ebb_status check_form(ebb_ctx *ctx, const train_settings *first, const char *dir,
                             const train_settings *other, const char *other_dir) {
    const option_list *list = first->kind->options;
    for (size_t i = 0; i < list->n; i++) {
        const train_option *o = &list->at[i];
        if (is_of_form(o) && memcmp((const char *)first + o->offset,
                                    (const char *)other + o->offset, ebb__option_bytes(o)) != 0) {
            return ebb__fail(ctx, EBB_MODEL,
                             "%s: was trained with another --%s than %s: only models of the same "
                             "sizes and layers can be averaged",
                             other_dir, o->name, dir);
        }
    }
    return EBB_OK;
}

static ebb_status check_other(const option_set *set, const train_settings *first, const char *dir,
                              const char *other_dir) {
    const model_kind *kind = NULL;
    TRY(ebb__stored_kind(set->ctx, other_dir, &kind));
    if (kind != first->kind) {
        return ebb__fail(set->ctx, EBB_MODEL,
                         "%s: is %s, where %s is %s: only runs of one kind can be averaged",
                         other_dir, kind->what, dir, first->kind->what);
    }
    TRY(ebb__settings_init(set->ctx, kind, set->base));
    TRY(ebb__stored_load(set, other_dir));
    return check_form(set->ctx, first, dir, set->base, other_dir);
}

ebb_status ebb__stored_others(ebb_ctx *ctx, const train_settings *first, const char *dir,
                              const char *const *others, int32_t n) {
    const char *weights = first->weights != NULL ? first->weights : "best";
    ebb_status status = EBB_OK;
    if (n >= NMT_MOST_MEMBERS) {
        return ebb__fail(ctx, EBB_USAGE, "%d runs are more than %d: fewer can translate together",
                         n + 1, NMT_MOST_MEMBERS);
    }
    if (n > 0 && strcmp(weights, "best") != 0 && strcmp(weights, "last") != 0) {
        return ebb__fail(ctx, EBB_USAGE,
                         "--weights %s: is one file, for %d runs; say best or last, or decode with "
                         "one run",
                         weights, n + 1);
    }
    for (int32_t i = 0; i < n && status == EBB_OK; i++) {
        train_settings other;
        bool given[OPTION_MAX] = {false};
        alloc_region region;
        const option_set set = {ctx, first->kind, &ebb__options_machine, &other, given, &region};
        ebb__region_init(&region, ctx);
        status = check_other(&set, first, dir, others[i]);
        ebb__region_fini(&region);
    }
    return status;
}
