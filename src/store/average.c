/* average.c - see average.h. A stretch of a tensor is read from file after file and written. */
#include "store/average.h"

#include "base/alloc.h"
#include "store/safetensors.h"

#include <string.h>

enum { STRETCH = 1 << 15 }; /* elements */

typedef struct averager {
    ebb_ctx *ctx;
    st_reader *files;
    size_t n;
    double *sums; /* [STRETCH] */
    float *part;  /* [STRETCH]: of one file, then the mean */
} averager;

static const st_tensor *same_as(const averager *a, size_t file, const st_tensor *t) {
    return ebb__safetensors_find(&a->files[file], t->name);
}

static ebb_status refuse(const averager *a, size_t file, const st_tensor *t, const char *why) {
    return ebb__fail(
        a->ctx, EBB_MODEL, "%s: tensor %s %s %s; only weights of one model have a mean",
        a->files[file].path, ebb__safetensors_show(t->name).text, why, a->files[0].path);
}

static ebb_status compare(const averager *a) {
    for (size_t f = 1; f < a->n; f++) {
        const st_reader *reader = &a->files[f];
        for (size_t i = 0; i < a->files[0].n_tensors; i++) {
            const st_tensor *t = &a->files[0].tensors[i], *other = same_as(a, f, t);
            if (other == NULL) {
                return refuse(a, f, t, "is missing, but is in");
            }
            if (other->dtype != t->dtype || other->rank != t->rank ||
                memcmp(other->dims, t->dims, (size_t)t->rank * sizeof *t->dims) != 0) {
                return refuse(a, f, t, "has another type or shape than in");
            }
        }
        for (size_t i = 0; i < reader->n_tensors; i++) {
            if (same_as(a, 0, &reader->tensors[i]) == NULL) {
                return refuse(a, f, &reader->tensors[i], "is not in");
            }
        }
    }
    return EBB_OK;
}

static bool is_real(st_dtype dtype) {
    return dtype == ST_F64 || dtype == ST_F32 || dtype == ST_F16 || dtype == ST_BF16;
}

static ebb_status check_types(const averager *a) {
    for (size_t i = 0; i < a->files[0].n_tensors; i++) {
        const st_tensor *t = &a->files[0].tensors[i];
        if (t->dtype != ST_F32 && is_real(t->dtype)) {
            return ebb__fail(a->ctx, EBB_MODEL, "%s: tensor %s is %s; only F32 is averaged",
                             a->files[0].path, ebb__safetensors_show(t->name).text,
                             ebb__safetensors_dtype_name(t->dtype));
        }
    }
    return EBB_OK;
}

/* ---- as a source of tensors ---- */

static ebb_status open_part(void *user, uint64_t number, uint64_t from, const void **data,
                            uint64_t *bytes) {
    const averager *a = user;
    const st_tensor *t = &a->files[0].tensors[number];
    uint64_t left = t->end - t->begin - from, most = STRETCH * sizeof *a->part;
    size_t n = (size_t)(left < most ? left : most), count = n / sizeof *a->part;
    *data = a->part;
    *bytes = n;
    if (t->dtype != ST_F32) {
        const st_reader *last = &a->files[a->n - 1];
        return ebb__safetensors_read_part(last, same_as(a, a->n - 1, t), from, a->part, n);
    }
    memset(a->sums, 0, count * sizeof *a->sums);
    for (size_t f = 0; f < a->n; f++) {
        TRY(ebb__safetensors_read_part(&a->files[f], same_as(a, f, t), from, a->part, n));
        for (size_t i = 0; i < count; i++) {
            a->sums[i] += (double)a->part[i];
        }
    }
    for (size_t i = 0; i < count; i++) {
        a->part[i] = (float)(a->sums[i] / (double)a->n);
    }
    return EBB_OK;
}

static ebb_status close_part(void *user, uint64_t number, uint64_t from, const void *data) {
    (void)user, (void)number, (void)from, (void)data;
    return EBB_OK;
}

/* Notes that all files have alike. */
static size_t common_notes(const averager *a, st_note *out) {
    size_t n = 0;
    for (size_t i = 0; i < a->files[0].n_notes; i++) {
        const st_note *note = &a->files[0].notes[i];
        bool all = true;
        for (size_t f = 1; all && f < a->n; f++) {
            const char *value = ebb__safetensors_note(&a->files[f], note->key);
            all = value != NULL && strcmp(value, note->value) == 0;
        }
        out[n] = *note;
        n += all;
    }
    return n;
}

static ebb_status write_mean(averager *a, const char *out) {
    const st_reader *first = &a->files[0];
    const st_source source = {a, open_part, close_part};
    st_entry *entries = NULL;
    st_note *notes = NULL;
    ebb_status status;
    TRY_OUT(ebb__alloc(a->ctx, first->n_tensors + 1, sizeof *entries, &entries));
    TRY_OUT(ebb__alloc(a->ctx, first->n_notes + 1, sizeof *notes, &notes));
    for (size_t i = 0; i < first->n_tensors; i++) {
        const st_tensor *t = &first->tensors[i];
        entries[i] = (st_entry){
            .name = t->name, .dtype = t->dtype, .rank = t->rank, .source = &source, .number = i};
        memcpy(entries[i].dims, t->dims, sizeof t->dims);
    }
    TRY_OUT(ebb__safetensors_write(a->ctx, out, entries, first->n_tensors, notes,
                                   common_notes(a, notes), NULL));
out:
    ebb__free(a->ctx, notes);
    ebb__free(a->ctx, entries);
    return status;
}

ebb_status ebb__average(ebb_ctx *ctx, const char *const *paths, size_t n, const char *out) {
    averager a = {.ctx = ctx};
    ebb_status status;
    TRY_OUT(ebb__alloc(ctx, n, sizeof *a.files, &a.files));
    TRY_OUT(ebb__alloc(ctx, STRETCH, sizeof *a.sums, &a.sums));
    TRY_OUT(ebb__alloc(ctx, STRETCH, sizeof *a.part, &a.part));
    for (; a.n < n; a.n++) {
        TRY_OUT(ebb__safetensors_open(ctx, paths[a.n], &a.files[a.n]));
    }
    TRY_OUT(compare(&a));
    TRY_OUT(check_types(&a));
    TRY_OUT(write_mean(&a, out));
out:
    for (size_t f = 0; f < a.n; f++) {
        ebb__safetensors_close(&a.files[f]);
    }
    ebb__free(ctx, a.part);
    ebb__free(ctx, a.sums);
    ebb__free(ctx, a.files);
    return status;
}
