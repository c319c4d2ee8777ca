/* tensors.c - see tensors.h. */
#include "run/tensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

_Static_assert((int)ST_MAX_RANK >= (int)IR_MAX_RANK, "any variable can be saved");
static const st_dtype file_dtypes[IR_DTYPES] = {
#define FILE_DTYPE(id, name, bytes) [IR_##id] = ST_##id,
    IR_DTYPE_LIST(FILE_DTYPE)
#undef FILE_DTYPE
};

/* st_source: variables by number. */
static ebb_status open_variable(void *user, uint64_t number, const void **data) {
    run_session *session = user;
    return ebb__run_map(session, run_at(&session->plan->variables[number]), DEVICE_READ, data);
}

static ebb_status close_variable(void *user, uint64_t number, const void *data) {
    run_session *session = user;
    return ebb__run_unmap(session, run_at(&session->plan->variables[number]), DEVICE_READ, data);
}

static int compare_entries(const void *a, const void *b) {
    return strcmp(((const st_entry *)a)->name, ((const st_entry *)b)->name);
}

ebb_status ebb__tensors_list(run_session *session, uint32_t roles, alloc_region *region,
                             st_entry **out, size_t *n) {
    const ebb_plan *plan = session->plan;
    st_entry *entries = NULL;
    st_source *source = NULL;
    TRY(ebb__region_alloc(region, (size_t)plan->n_variables + 1, sizeof *entries, &entries));
    TRY(ebb__region_alloc(region, 1, sizeof *source, &source));
    *source = (st_source){session, open_variable, close_variable};
    *n = 0;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        if (!tensors_is_stored(v, roles)) {
            continue;
        }
        st_entry *entry = &entries[(*n)++];
        *entry = (st_entry){.name = v->name,
                            .dtype = file_dtypes[v->type.dtype],
                            .rank = v->type.rank,
                            .source = source,
                            .number = (uint64_t)i};
        for (int32_t d = 0; d < v->type.rank; d++) {
            entry->dims[d] = v->type.dim[d];
        }
    }
    qsort(entries, *n, sizeof *entries, compare_entries);
    *out = entries;
    return EBB_OK;
}

ebb_status ebb__tensors_hash(run_session *session, uint64_t *out) {
    alloc_region region;
    st_entry *entries = NULL;
    size_t n = 0;
    XXH64_hash_t hash = 0;
    ebb__region_init(&region, session->ctx);
    ebb_status status = ebb__tensors_list(session, TENSORS_MODEL, &region, &entries, &n);
    for (size_t i = 0; status == EBB_OK && i < n; i++) {
        const plan_variable *v = &session->plan->variables[entries[i].number];
        const void *data = NULL;
        TRY_OUT(ebb__run_map(session, run_at(v), DEVICE_READ, &data));
        hash = XXH3_64bits_withSeed(v->name, strlen(v->name), hash);
        hash = XXH3_64bits_withSeed(data, (size_t)v->bytes, hash);
        TRY_OUT(ebb__run_unmap(session, run_at(v), DEVICE_READ, data));
    }
out:
    ebb__region_fini(&region);
    *out = hash;
    return status;
}

static bool same_shape(const plan_variable *v, const st_tensor *t) {
    bool same = t->dtype == file_dtypes[v->type.dtype] && t->rank == v->type.rank;
    for (int32_t d = 0; same && d < v->type.rank; d++) {
        same = t->dims[d] == v->type.dim[d];
    }
    return same;
}

static ebb_status load_variable(run_session *session, const plan_variable *v,
                                const st_reader *reader, const st_tensor *t) {
    void *data = NULL;
    TRY(ebb__run_map(session, run_at(v), DEVICE_WRITE, &data));
    ebb_status status = ebb__safetensors_read(reader, t, data, (size_t)v->bytes);
    ebb_status closed = ebb__run_unmap(session, run_at(v), DEVICE_WRITE, data);
    return status == EBB_OK ? closed : status;
}

static ebb_status load_roles(run_session *session, uint32_t roles, const st_reader *reader,
                             tensors_skip skip, void *user) {
    const ebb_plan *plan = session->plan;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        if (!tensors_is_stored(v, roles)) {
            continue;
        }
        const st_tensor *t = ebb__safetensors_find(reader, v->name);
        if (t == NULL) {
            return ebb__fail(session->ctx, EBB_MODEL, "%s: tensor %s is missing", reader->path,
                             v->name);
        }
        bool same = same_shape(v, t);
        if (!same && skip != NULL && skip(user, v, t)) {
            continue;
        }
        if (!same) {
            return ebb__fail(session->ctx, EBB_MODEL,
                             "%s: tensor %s has another type or shape than this model's",
                             reader->path, v->name);
        }
        TRY(load_variable(session, v, reader, t));
    }
    return EBB_OK;
}

ebb_status ebb__tensors_load(run_session *session, uint32_t roles, const st_reader *reader) {
    return load_roles(session, roles, reader, NULL, NULL);
}

ebb_status ebb__tensors_draw(run_session *session, uint64_t seed) {
    const ebb_plan *plan = session->plan;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        if (tensors_is_stored(v, TENSORS_MODEL)) {
            float *data = NULL;
            TRY(ebb__run_map(session, run_at(v), DEVICE_WRITE, &data));
            ebb__ir_draw(v->start, v->name, seed, data, v->bytes / sizeof *data);
            TRY(ebb__run_unmap(session, run_at(v), DEVICE_WRITE, data));
        }
    }
    return EBB_OK;
}

ebb_status ebb__tensors_not_finite(run_session *session, const char **name) {
    const ebb_plan *plan = session->plan;
    *name = NULL;
    for (int32_t i = 0; i < plan->n_variables && *name == NULL; i++) {
        const plan_variable *v = &plan->variables[i];
        const float *data = NULL;
        bool finite = true;
        if (!tensors_is_stored(v, TENSORS_MODEL)) {
            continue;
        }
        TRY(ebb__run_map(session, run_at(v), DEVICE_READ, &data));
        for (uint64_t k = 0; k < v->bytes / sizeof *data; k++) {
            finite = finite && isfinite(data[k]);
        }
        TRY(ebb__run_unmap(session, run_at(v), DEVICE_READ, data));
        *name = finite ? NULL : v->name;
    }
    return EBB_OK;
}

ebb_status ebb__tensors_load_weights(run_session *session, const st_reader *reader) {
    return ebb__tensors_load_most(session, reader, NULL, NULL);
}

ebb_status ebb__tensors_load_most(run_session *session, const st_reader *reader, tensors_skip skip,
                                  void *user) {
    const char *bad = NULL;
    TRY(load_roles(session, TENSORS_MODEL, reader, skip, user));
    TRY(ebb__tensors_not_finite(session, &bad));
    return bad == NULL
               ? EBB_OK
               : ebb__fail(session->ctx, EBB_MODEL,
                           "%s: tensor %s holds a value that is not finite (NaN or infinite); "
                           "use weights from before training diverged",
                           reader->path, bad);
}
