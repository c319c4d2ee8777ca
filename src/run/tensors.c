/* tensors.c - see tensors.h. */
#include "run/tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* for the size of a state */
#include <xxhash.h>

_Static_assert((int)ST_MAX_RANK >= (int)IR_MAX_RANK, "any variable can be saved");
static const st_dtype file_dtypes[IR_DTYPES] = {
#define FILE_DTYPE(id, name, bytes) [IR_##id] = ST_##id,
    IR_DTYPE_LIST(FILE_DTYPE)
#undef FILE_DTYPE
};

/* What a list of entries is of. */
typedef struct tensors_source {
    st_source source;
    run_session *session;
    const ranks_tensor *list;
} tensors_source;

/* st_source: tensors by number. */
static ebb_status open_tensor(void *user, uint64_t number, uint64_t from, const void **data,
                              uint64_t *bytes) {
    const tensors_source *s = user;
    return ebb__ranks_open(s->session, &s->list[number], from, data, bytes);
}

static ebb_status close_tensor(void *user, uint64_t number, uint64_t from, const void *data) {
    const tensors_source *s = user;
    return ebb__ranks_close(s->session, &s->list[number], from, data);
}

static int compare_tensors(const void *a, const void *b) {
    return strcmp(((const ranks_tensor *)a)->name, ((const ranks_tensor *)b)->name);
}

static ebb_status sorted_tensors(run_session *session, uint32_t roles, alloc_region *region,
                                 ranks_tensor **out, int32_t *n) {
    TRY(ebb__ranks_tensors(session, roles, region, out, n));
    qsort(*out, (size_t)*n, sizeof **out, compare_tensors);
    return EBB_OK;
}

ebb_status ebb__tensors_list(run_session *session, uint32_t roles, alloc_region *region,
                             st_entry **out, size_t *n) {
    st_entry *entries = NULL;
    tensors_source *source = NULL;
    ranks_tensor *list = NULL;
    int32_t n_list = 0;
    TRY(sorted_tensors(session, roles, region, &list, &n_list));
    TRY(ebb__region_alloc(region, (size_t)n_list + 1, sizeof *entries, &entries));
    TRY(ebb__region_alloc(region, 1, sizeof *source, &source));
    *source = (tensors_source){{source, open_tensor, close_tensor}, session, list};
    for (int32_t i = 0; i < n_list; i++) {
        const ir_type *type = &list[i].type;
        entries[i] = (st_entry){.name = list[i].name,
                                .dtype = file_dtypes[type->dtype],
                                .rank = type->rank,
                                .source = &source->source,
                                .number = (uint64_t)i};
        for (int32_t d = 0; d < type->rank; d++) {
            entries[i].dims[d] = type->dim[d];
        }
    }
    *out = entries;
    *n = (size_t)n_list;
    return EBB_OK;
}

/* Calls `see` with all bytes of the tensor, stretch by stretch. */
static ebb_status look_through(run_session *session, const ranks_tensor *tensor,
                               void (*see)(void *user, const void *data, size_t bytes),
                               void *user) {
    for (uint64_t at = 0, bytes = 0; at < tensor->bytes; at += bytes) {
        const void *data = NULL;
        TRY(ebb__ranks_open(session, tensor, at, &data, &bytes));
        see(user, data, (size_t)bytes);
        TRY(ebb__ranks_close(session, tensor, at, data));
    }
    return EBB_OK;
}

static void hash_more(void *state, const void *data, size_t bytes) {
    (void)XXH3_64bits_update(state, data, bytes);
}

static ebb_status hash_tensors(run_session *session, alloc_region *region, XXH3_state_t *state,
                               uint64_t *out) {
    ranks_tensor *list = NULL;
    int32_t n = 0;
    XXH64_hash_t hash = 0;
    TRY(sorted_tensors(session, TENSORS_MODEL, region, &list, &n));
    for (int32_t i = 0; i < n; i++) {
        hash = XXH3_64bits_withSeed(list[i].name, strlen(list[i].name), hash);
        (void)XXH3_64bits_reset_withSeed(state, hash);
        TRY(look_through(session, &list[i], hash_more, state));
        hash = XXH3_64bits_digest(state);
    }
    *out = hash;
    return EBB_OK;
}

ebb_status ebb__tensors_hash(run_session *session, uint64_t *out) {
    alloc_region region;
    XXH3_state_t state;
    ebb__region_init(&region, session->ctx);
    ebb_status status = hash_tensors(session, &region, &state, out);
    ebb__region_fini(&region);
    return status;
}

static bool same_shape(const ranks_tensor *tensor, const st_tensor *t) {
    bool same = t->dtype == file_dtypes[tensor->type.dtype] && t->rank == tensor->type.rank;
    for (int32_t d = 0; same && d < tensor->type.rank; d++) {
        same = t->dims[d] == tensor->type.dim[d];
    }
    return same;
}

/* A tensor of a file. */
typedef struct tensors_file {
    const st_reader *reader;
    const st_tensor *tensor;
} tensors_file;

static ebb_status read_file(void *user, uint64_t from, void *data, size_t bytes) {
    const tensors_file *f = user;
    return ebb__safetensors_read_part(f->reader, f->tensor, from, data, bytes);
}

/* Rows that the file has not are its first one. */
static ebb_status read_rows(void *user, uint64_t from, void *data, size_t bytes) {
    const tensors_file *f = user;
    uint64_t all = f->tensor->end - f->tensor->begin, row = all / (uint64_t)f->tensor->dims[0];
    char *to = data;
    while (bytes > 0) {
        uint64_t at = from < all ? from : (from - all) % row;
        uint64_t left = (from < all ? all : row) - at;
        size_t part = left < bytes ? (size_t)left : bytes;
        TRY(ebb__safetensors_read_part(f->reader, f->tensor, at, to, part));
        from += part;
        to += part;
        bytes -= part;
    }
    return EBB_OK;
}

/* The name that a tensor has in the file of its member: a number and a colon before it tell which
 * that is, none the first. NULL: it is another member's. */
static const char *name_in_file(const char *name, int32_t member) {
    const char *colon = strchr(name, ':');
    int32_t whose = colon != NULL ? (int32_t)strtol(name, NULL, 10) : 0;
    return whose != member ? NULL : colon != NULL ? colon + 1 : name;
}

static ebb_status load_roles(run_session *session, uint32_t roles, const st_reader *reader,
                             int32_t member, alloc_region *region, tensors_fits fits, void *user) {
    ranks_tensor *list = NULL;
    int32_t n = 0;
    TRY(ebb__ranks_tensors(session, roles, region, &list, &n));
    for (int32_t i = 0; i < n; i++) {
        const ranks_tensor *tensor = &list[i];
        const char *name = name_in_file(tensor->name, member);
        if (name == NULL) {
            continue;
        }
        const st_tensor *t = ebb__safetensors_find(reader, name);
        if (t == NULL) {
            return ebb__fail(session->ctx, EBB_MODEL, "%s: tensor %s is missing", reader->path,
                             name);
        }
        bool same = same_shape(tensor, t);
        tensors_fit fit = same || fits == NULL ? TENSORS_REFUSE : fits(user, tensor, t);
        if (fit == TENSORS_KEEP) {
            continue;
        }
        if (!same && fit != TENSORS_REPEAT_FIRST) {
            return ebb__fail(session->ctx, EBB_MODEL,
                             "%s: tensor %s has another type or shape than this model's",
                             reader->path, tensor->name);
        }
        TRY(ebb__ranks_write(session, tensor, same ? read_file : read_rows,
                             &(tensors_file){reader, t}));
    }
    return EBB_OK;
}

ebb_status ebb__tensors_load(run_session *session, uint32_t roles, const st_reader *reader) {
    alloc_region region;
    ebb__region_init(&region, session->ctx);
    ebb_status status = load_roles(session, roles, reader, 0, &region, NULL, NULL);
    ebb__region_fini(&region);
    return status;
}

static void look_for_bad(void *user, const void *data, size_t bytes) {
    bool *finite = user;
    const float *numbers = data;
    for (size_t k = 0; k < bytes / sizeof *numbers; k++) {
        *finite = *finite && isfinite(numbers[k]);
    }
}

static ebb_status find_bad(run_session *session, alloc_region *region, char *name, size_t bytes) {
    ranks_tensor *list = NULL;
    int32_t n = 0;
    TRY(ebb__ranks_tensors(session, TENSORS_MODEL, region, &list, &n));
    name[0] = '\0';
    for (int32_t i = 0; i < n && name[0] == '\0'; i++) {
        bool finite = true;
        TRY(look_through(session, &list[i], look_for_bad, &finite));
        if (!finite) {
            (void)snprintf(name, bytes, "%s", list[i].name);
        }
    }
    return EBB_OK;
}

ebb_status ebb__tensors_not_finite(run_session *session, char name[TENSORS_NAME]) {
    alloc_region region;
    ebb__region_init(&region, session->ctx);
    ebb_status status = find_bad(session, &region, name, TENSORS_NAME);
    ebb__region_fini(&region);
    return status;
}

static ebb_status load_finite(run_session *session, const st_reader *reader, int32_t member,
                              tensors_fits fits, void *user) {
    char bad[TENSORS_NAME];
    alloc_region region;
    ebb__region_init(&region, session->ctx);
    ebb_status status = load_roles(session, TENSORS_MODEL, reader, member, &region, fits, user);
    ebb__region_fini(&region);
    TRY(status);
    TRY(ebb__tensors_not_finite(session, bad));
    return bad[0] == '\0'
               ? EBB_OK
               : ebb__fail(session->ctx, EBB_MODEL,
                           "%s: tensor %s holds a value that is not finite (NaN or infinite); "
                           "use weights from before training diverged",
                           reader->path, bad);
}

ebb_status ebb__tensors_load_weights(run_session *session, const st_reader *reader) {
    return load_finite(session, reader, 0, NULL, NULL);
}

ebb_status ebb__tensors_load_member(run_session *session, const st_reader *reader, int32_t member) {
    return load_finite(session, reader, member, NULL, NULL);
}

ebb_status ebb__tensors_load_most(run_session *session, const st_reader *reader, tensors_fits fits,
                                  void *user) {
    return load_finite(session, reader, 0, fits, user);
}
