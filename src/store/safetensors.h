/* safetensors.h - read and write safetensors files: named, typed, row-major, little-endian tensors.
 *
 * Knows nothing of graphs or models. Files are hostile until open() has checked them whole: after
 * EBB_OK every tensor's bytes lie inside the file, shapes and bytes agree, and nothing overlaps,
 * is left over or is named twice. What is written depends on nothing but the entries given. */
#ifndef STORE_SAFETENSORS_H
#define STORE_SAFETENSORS_H

#include "base/ctx.h"

#define ST_MAX_RANK 6
#define ST_MAX_HEADER 100000000u /* the format's own limit, in bytes */

/* One list: name in the file, bytes an element. */
#define ST_DTYPE_LIST(X)                                                                           \
    X(F64, 8)                                                                                      \
    X(F32, 4)                                                                                      \
    X(F16, 2)                                                                                      \
    X(BF16, 2)                                                                                     \
    X(I64, 8)                                                                                      \
    X(I32, 4)                                                                                      \
    X(I16, 2)                                                                                      \
    X(I8, 1)                                                                                       \
    X(U16, 2)                                                                                      \
    X(U8, 1)                                                                                       \
    X(BOOL, 1)

typedef enum st_dtype {
#define ST_DTYPE_ENUM(name, bytes) ST_##name,
    ST_DTYPE_LIST(ST_DTYPE_ENUM)
#undef ST_DTYPE_ENUM
        ST_DTYPES
} st_dtype;

const char *ebb__safetensors_dtype_name(st_dtype dtype);
size_t ebb__safetensors_dtype_bytes(st_dtype dtype);

/* Bytes of dims[first..rank) elements; false if a size is negative or the product overflows. */
bool ebb__safetensors_size(st_dtype dtype, int rank, const int64_t *dims, int first, uint64_t *out);

/* Text of a file made fit for a one-line message: cut, control characters replaced. */
typedef struct st_shown {
    char text[96];
} st_shown;
st_shown ebb__safetensors_show(const char *text);

#define ST_METADATA "__metadata__" /* the one name that is no tensor */

/* ---- writing ------------------------------------------------------------------------------ */

/* Where tensors are that do not lie in memory all the time: each is opened, written and closed, one
 * after the other, and stretch by stretch: open() gives the bytes from `from` on, as many as it
 * likes. */
typedef struct st_source {
    void *user;
    ebb_status (*open)(void *user, uint64_t number, uint64_t from, const void **data,
                       uint64_t *bytes);
    ebb_status (*close)(void *user, uint64_t number, uint64_t from, const void *data);
} st_source;

typedef struct st_entry {
    const char *name;
    st_dtype dtype;
    int rank;
    int64_t dims[ST_MAX_RANK];
    const void *data;        /* the whole tensor, contiguous; or NULL, and then: */
    const st_source *source; /* has it under this number */
    uint64_t number;
} st_entry;

typedef struct st_note { /* one string of the file's `__metadata__` */
    const char *key, *value;
} st_note;

/* Size and hash of a whole file. */
typedef struct st_sum {
    uint64_t bytes;
    char xxh3[33]; /* XXH3-128, 32 hex digits */
} st_sum;

/* Replaces `path` by a file of these tensors, laid out by descending element size, then name. Data
 * is written from where it lies. `notes` must be sorted by key; `sum` may be NULL. EBB_USAGE for
 * entries that cannot be written (two of one name, sizes that overflow, names that are not UTF-8).
 */
ebb_status ebb__safetensors_write(ebb_ctx *ctx, const char *path, const st_entry *entries,
                                  size_t n_entries, const st_note *notes, size_t n_notes,
                                  st_sum *sum) EBB_MUST_CHECK;
/* Sums any file, as write() would have. */
ebb_status ebb__safetensors_sum(ebb_ctx *ctx, const char *path, st_sum *sum) EBB_MUST_CHECK;

/* ---- reading ------------------------------------------------------------------------------ */

typedef struct st_tensor {
    const char *name;    /* owned by the reader */
    uint64_t begin, end; /* bytes from the start of the data */
    int64_t dims[ST_MAX_RANK];
    st_dtype dtype;
    int rank;
} st_tensor;

typedef struct st_reader {
    ebb_ctx *ctx;
    int fd;
    char *path;
    char *header;       /* names and notes are decoded in place */
    uint64_t data_at;   /* file offset of the data */
    st_tensor *tensors; /* sorted by name */
    size_t n_tensors;
    st_note *notes; /* sorted by key */
    size_t n_notes;
} st_reader;

/* EBB_MODEL with path, tensor, field and reason if the file breaks any rule of the format. Holds at
 * most about five times the header's bytes while it works. */
ebb_status ebb__safetensors_open(ebb_ctx *ctx, const char *path, st_reader *out) EBB_MUST_CHECK;
void ebb__safetensors_close(st_reader *reader); /* safe after a failed open */

const st_tensor *ebb__safetensors_find(const st_reader *reader, const char *name); /* or NULL */
const char *ebb__safetensors_note(const st_reader *reader, const char *key);       /* or NULL */

/* The whole tensor; `bytes` is what `data` has room for and must be the tensor's size. */
/* Bytes of the tensor from `from` on. */
ebb_status ebb__safetensors_read_part(const st_reader *reader, const st_tensor *tensor,
                                      uint64_t from, void *data, size_t bytes) EBB_MUST_CHECK;
ebb_status ebb__safetensors_read(const st_reader *reader, const st_tensor *tensor, void *data,
                                 size_t bytes) EBB_MUST_CHECK;

#endif
