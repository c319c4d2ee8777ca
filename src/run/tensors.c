/* tensors.c - see tensors.h. */
#include "run/tensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static bool is_stored(const plan_variable *v, uint32_t roles) {
    return !v->extra && (roles & (1U << v->role)) != 0;
}

static int compare_entries(const void *a, const void *b) {
    return strcmp(((const st_entry *)a)->name, ((const st_entry *)b)->name);
}

ebb_status ebb__tensors_list(run_session *session, uint32_t roles, alloc_region *region,
                             st_entry **out, size_t *n) {
    const ebb_plan *plan = session->plan;
    st_entry *entries = NULL;
    TRY(ebb__region_alloc(region, (size_t)plan->n_variables + 1, sizeof *entries, &entries));
    *n = 0;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        if (!is_stored(v, roles)) {
            continue;
        }
        st_entry *entry = &entries[(*n)++];
        *entry = (st_entry){.name = v->name,
                            .dtype = ST_F32,
                            .rank = v->type.rank,
                            .data = session->arena + v->offset};
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
    ebb_status status = ebb__tensors_list(session, 1U << IR_PARAM, &region, &entries, &n);
    for (size_t i = 0; status == EBB_OK && i < n; i++) {
        const plan_variable *v = ebb__plan_variable(session->plan, entries[i].name);
        hash = XXH3_64bits_withSeed(v->name, strlen(v->name), hash);
        hash = XXH3_64bits_withSeed(session->arena + v->offset, (size_t)v->bytes, hash);
    }
    ebb__region_fini(&region);
    *out = hash;
    return status;
}

static bool same_shape(const plan_variable *v, const st_tensor *t) {
    bool same = t->dtype == ST_F32 && t->rank == v->type.rank;
    for (int32_t d = 0; same && d < v->type.rank; d++) {
        same = t->dims[d] == v->type.dim[d];
    }
    return same;
}

bool ebb__tensors_finite(const float *data, uint64_t count) {
    bool finite = true;
    for (uint64_t i = 0; i < count; i++) {
        finite = finite && isfinite(data[i]);
    }
    return finite;
}

ebb_status ebb__tensors_load(run_session *session, uint32_t roles, const st_reader *reader) {
    const ebb_plan *plan = session->plan;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        if (!is_stored(v, roles)) {
            continue;
        }
        const st_tensor *t = ebb__safetensors_find(reader, v->name);
        if (t == NULL) {
            return ebb__fail(session->ctx, EBB_MODEL, "%s: tensor %s is missing", reader->path,
                             v->name);
        }
        if (!same_shape(v, t)) {
            return ebb__fail(session->ctx, EBB_MODEL,
                             "%s: tensor %s has another type or shape than this model's",
                             reader->path, v->name);
        }
        TRY(ebb__safetensors_read(reader, t, session->arena + v->offset, (size_t)v->bytes));
    }
    return EBB_OK;
}

ebb_status ebb__tensors_load_weights(run_session *session, const st_reader *reader) {
    const ebb_plan *plan = session->plan;
    TRY(ebb__tensors_load(session, 1U << IR_PARAM, reader));
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        const float *data = (const void *)(session->arena + v->offset);
        if (is_stored(v, 1U << IR_PARAM) && !ebb__tensors_finite(data, v->bytes / sizeof *data)) {
            return ebb__fail(session->ctx, EBB_MODEL,
                             "%s: tensor %s holds a value that is not finite (NaN or infinite); "
                             "use weights from before training diverged",
                             reader->path, v->name);
        }
    }
    return EBB_OK;
}
