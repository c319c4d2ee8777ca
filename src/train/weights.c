/* weights.c - see weights.h. */
#include "train/weights.h"

#include <stdio.h>
#include <string.h>

/* ---- writing ---- */

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

/* X.counter beside X.counted: one number of 64 bits without an axis, as PyTorch has it. */
static ebb_status put_count(const model_kind *kind, const char *counted, const int64_t *steps,
                            alloc_region *region, st_entry *out) {
    size_t stem = strlen(counted) - strlen(kind->counted), bytes = stem + strlen(kind->counter) + 1;
    char *name = NULL;
    TRY(ebb__region_alloc(region, bytes, 1, &name));
    (void)snprintf(name, bytes, "%.*s%s", (int)stem, counted, kind->counter);
    *out = (st_entry){.name = name, .dtype = ST_I64, .data = steps};
    return EBB_OK;
}

ebb_status ebb__weights_list(run_session *session, const model_kind *kind, int64_t steps,
                             alloc_region *region, st_entry **out, size_t *n) {
    st_entry *own = NULL, *all = NULL;
    int64_t *count = NULL;
    size_t n_own = 0;
    TRY(ebb__tensors_list(session, TENSORS_MODEL, region, &own, &n_own));
    *out = own;
    *n = n_own;
    if (kind->counted == NULL) {
        return EBB_OK;
    }
    TRY(ebb__region_alloc(region, 2 * n_own, sizeof *all, &all));
    TRY(ebb__region_alloc(region, 1, sizeof *count, &count));
    *count = steps;
    for (size_t i = 0; i < n_own; i++) {
        all[i] = own[i];
        if (ends_with(own[i].name, kind->counted)) {
            TRY(put_count(kind, own[i].name, count, region, &all[*n]));
            (*n)++;
        }
    }
    *out = all;
    return EBB_OK;
}

/* ---- reading ---- */

static bool is_known(run_session *session, const model_kind *kind, const char *name) {
    return ebb__run_find(session, name).bytes > 0 || kind->spares(name);
}

/* All variables were found in the file: what it has beside them is of another model, unless the
 * kind spares it. Numbers tell whether there is any; only then is it looked for. */
static ebb_status check_others(run_session *session, const model_kind *kind,
                               const st_reader *reader) {
    size_t others = reader->n_tensors;
    for (int32_t i = 0; i < session->plan->n_variables; i++) {
        others -= tensors_is_stored(&session->plan->variables[i], TENSORS_MODEL);
    }
    for (size_t i = 0; i < reader->n_tensors; i++) {
        others -= kind->spares(reader->tensors[i].name);
    }
    for (size_t i = 0; others > 0 && i < reader->n_tensors; i++) {
        const char *name = reader->tensors[i].name;
        if (!is_known(session, kind, name)) {
            return ebb__fail(session->ctx, EBB_MODEL,
                             "%s: tensor %s is none of this model's; is the file of another one?",
                             reader->path, ebb__safetensors_show(name).text);
        }
    }
    return EBB_OK;
}

ebb_status ebb__weights_load(run_session *session, const model_kind *kind, const char *path) {
    st_reader reader = {0};
    TRY(ebb__safetensors_open(session->ctx, path, &reader));
    ebb_status status = ebb__tensors_load_weights(session, &reader);
    if (status == EBB_OK && kind->spares != NULL) {
        status = check_others(session, kind, &reader);
    }
    ebb__safetensors_close(&reader);
    return status;
}
