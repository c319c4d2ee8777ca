/* test_safetensors.c - the safetensors reader and writer: round trips, canonical bytes, and every
 * way a file can lie: each truncation, each flipped byte, each rule of the format broken alone.
 *
 * Run as `test_safetensors copy IN OUT` it reads IN and writes its tensors and notes to OUT;
 * test_safetensors.py uses that to compare with Python's safetensors. */
#include "store/safetensors.h"

#include "base/alloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct fixture {
    ebb_ctx *ctx;
    char dir[64], path[96], other[96];
} fixture;

static int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    if (!f) {
        return -1;
    }
    /* in memory where that can be: the tests sync and rename thousands of times */
    snprintf(f->dir, sizeof f->dir, "%s/ebb-safetensors-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(f->dir) || ebb_ctx_new(&f->ctx) != EBB_OK) {
        return -1;
    }
    snprintf(f->path, sizeof f->path, "%s/a.safetensors", f->dir);
    snprintf(f->other, sizeof f->other, "%s/b.safetensors", f->dir);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    int leaked = f->ctx->mem.live_blocks != 0;
    unlink(f->path);
    unlink(f->other);
    rmdir(f->dir);
    ebb_ctx_free(f->ctx);
    free(f);
    return leaked ? -1 : 0;
}

static void put_file(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static char *get_file(const char *path, size_t *bytes) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    *bytes = (size_t)info.st_size;
    char *data = malloc(*bytes + 1);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *bytes, file), *bytes);
    fclose(file);
    return data;
}

static void assert_same_file(const char *a, const char *b) {
    size_t n_a, n_b;
    char *data_a = get_file(a, &n_a), *data_b = get_file(b, &n_b);
    assert_int_equal(n_a, n_b);
    assert_memory_equal(data_a, data_b, n_a);
    free(data_a);
    free(data_b);
}

/* A file of this header and `data` zero bytes; what open() says of it. */
static ebb_status open_text(fixture *f, const char *header, size_t data) {
    size_t n = strlen(header);
    uint64_t length = n;
    char *bytes = calloc(1, 8 + n + data);
    assert_non_null(bytes);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, n);
    put_file(f->path, bytes, 8 + n + data);
    free(bytes);
    st_reader reader;
    ebb__ctx_clear(f->ctx);
    ebb_status status = ebb__safetensors_open(f->ctx, f->path, &reader);
    ebb__safetensors_close(&reader);
    return status;
}

/* ---- writing and reading back ------------------------------------------------------------- */

static const float weights[6] = {1.5f, -2.0f, 3.25f, 0.0f, 1e-30f, 7.0f};
static const double scalar = 2.5;
static const int64_t steps[2] = {INT64_MIN, 42};
static const int32_t counts[3] = {-1, 0, 1};
static const uint8_t bytes_[4] = {0, 1, 254, 255};

static const st_entry entries[] = {
    {.name = "w", .dtype = ST_F32, .rank = 2, .dims = {2, 3}, .data = weights},
    {.name = "lr", .dtype = ST_F64, .rank = 0, .data = &scalar},
    {.name = "a \"b\"\n\xc3\xa9", .dtype = ST_I64, .rank = 1, .dims = {2}, .data = steps},
    {.name = "c", .dtype = ST_I32, .rank = 4, .dims = {1, 3, 1, 1}, .data = counts},
    {.name = "u", .dtype = ST_U8, .rank = 3, .dims = {2, 1, 2}, .data = bytes_},
    {.name = "none", .dtype = ST_F32, .rank = 2, .dims = {0, 5}},
};
enum { N_ENTRIES = sizeof entries / sizeof *entries };
static const st_note notes[] = {{"format", "pt"}, {"made by", "\"ebb\""}};

static void write_sample(fixture *f, const char *path) {
    st_sum sum, again;
    assert_int_equal(ebb__safetensors_write(f->ctx, path, entries, N_ENTRIES, notes, 2, &sum),
                     EBB_OK);
    assert_int_equal(ebb__safetensors_sum(f->ctx, path, &again), EBB_OK);
    assert_int_equal(sum.bytes, again.bytes);
    assert_string_equal(sum.xxh3, again.xxh3);
}

static void round_trip(void **state) {
    fixture *f = *state;
    st_reader reader;
    write_sample(f, f->path);
    assert_int_equal(ebb__safetensors_open(f->ctx, f->path, &reader), EBB_OK);
    assert_int_equal(reader.n_tensors, N_ENTRIES);
    assert_int_equal(reader.data_at % 8, 0);
    for (int i = 0; i < N_ENTRIES; i++) {
        const st_tensor *t = ebb__safetensors_find(&reader, entries[i].name);
        char data[64];
        uint64_t bytes = 0;
        assert_non_null(t);
        assert_int_equal(t->dtype, entries[i].dtype);
        assert_int_equal(t->rank, entries[i].rank);
        assert_memory_equal(t->dims, entries[i].dims, sizeof t->dims);
        assert_true(ebb__safetensors_size(t->dtype, t->rank, t->dims, 0, &bytes));
        assert_int_equal(t->begin % ebb__safetensors_dtype_bytes(t->dtype), 0);
        assert_int_equal(ebb__safetensors_read(&reader, t, data, (size_t)bytes), EBB_OK);
        if (bytes > 0) {
            assert_memory_equal(data, entries[i].data, bytes);
        }
        assert_int_equal(ebb__safetensors_read(&reader, t, data, (size_t)bytes + 1), EBB_MODEL);
        ebb__ctx_clear(f->ctx);
    }
    assert_null(ebb__safetensors_find(&reader, "absent"));
    assert_null(ebb__safetensors_find(&reader, ST_METADATA));
    assert_string_equal(ebb__safetensors_note(&reader, "format"), "pt");
    assert_string_equal(ebb__safetensors_note(&reader, "made by"), "\"ebb\"");
    assert_null(ebb__safetensors_note(&reader, "absent"));
    ebb__safetensors_close(&reader);
}

/* The canonical form, letter by letter. */
static void canonical_bytes(void **state) {
    fixture *f = *state;
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                                 "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                                 "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}";
    st_entry two[] = {{.name = "b", .dtype = ST_F32, .rank = 1, .dims = {2}, .data = weights + 1},
                      {.name = "a", .dtype = ST_F32, .rank = 1, .dims = {1}, .data = weights}};
    size_t bytes, length = sizeof header - 1, padded = (length + 7) / 8 * 8;
    uint64_t stored;
    assert_int_equal(ebb__safetensors_write(f->ctx, f->path, two, 2, notes, 1, NULL), EBB_OK);
    char *data = get_file(f->path, &bytes);
    memcpy(&stored, data, 8);
    assert_int_equal(stored, padded);
    assert_int_equal(bytes, 8 + padded + 12);
    assert_memory_equal(data + 8, header, length);
    for (size_t i = length; i < padded; i++) {
        assert_int_equal(data[8 + i], ' ');
    }
    assert_memory_equal(data + 8 + padded, weights, 12);
    free(data);
}

static void order_of_entries_is_nothing(void **state) {
    fixture *f = *state;
    st_entry turned[N_ENTRIES];
    for (int i = 0; i < N_ENTRIES; i++) {
        turned[i] = entries[(i * 5 + 2) % N_ENTRIES];
    }
    write_sample(f, f->path);
    assert_int_equal(ebb__safetensors_write(f->ctx, f->other, turned, N_ENTRIES, notes, 2, NULL),
                     EBB_OK);
    assert_same_file(f->path, f->other);
}

static void empty_file_of_no_tensors(void **state) {
    fixture *f = *state;
    st_reader reader;
    assert_int_equal(ebb__safetensors_write(f->ctx, f->path, NULL, 0, NULL, 0, NULL), EBB_OK);
    assert_int_equal(ebb__safetensors_open(f->ctx, f->path, &reader), EBB_OK);
    assert_int_equal(reader.n_tensors, 0);
    assert_null(ebb__safetensors_find(&reader, "x"));
    ebb__safetensors_close(&reader);
}

/* ---- sources ------------------------------------------------------------------------------ */

/* Tensors that are in memory only while they are open, one at a time. */
typedef struct lender {
    const void *const *data;
    int opened, closed;
    ebb_status refuses;
} lender;

/* A few bytes at a time. */
static ebb_status lend(void *user, uint64_t number, uint64_t from, const void **data,
                       uint64_t *bytes) {
    enum { MOST = 5 };
    lender *l = user;
    const st_entry *e = &entries[number];
    uint64_t all;
    assert_true(ebb__safetensors_size(e->dtype, e->rank, e->dims, 0, &all));
    assert_true(from < all);
    assert_int_equal(l->opened, l->closed);
    l->opened++;
    *data = (const char *)l->data[number] + from;
    *bytes = all - from < MOST ? all - from : MOST;
    return EBB_OK;
}

static ebb_status take_back(void *user, uint64_t number, uint64_t from, const void *data) {
    lender *l = user;
    l->closed++;
    assert_ptr_equal(data, (const char *)l->data[number] + from);
    return l->refuses;
}

static void tensors_are_opened_one_by_one(void **state) {
    fixture *f = *state;
    st_entry list[N_ENTRIES];
    const void *data[N_ENTRIES];
    lender l = {data, 0, 0, EBB_OK};
    st_source source = {&l, lend, take_back};
    write_sample(f, f->other);
    for (size_t i = 0; i < N_ENTRIES; i++) {
        list[i] = entries[i];
        data[i] = entries[i].data;
        list[i].data = NULL;
        list[i].source = &source;
        list[i].number = i;
    }
    assert_int_equal(ebb__safetensors_write(f->ctx, f->path, list, N_ENTRIES, notes, 2, NULL),
                     EBB_OK);
    assert_same_file(f->path, f->other);
    assert_true(l.opened > 0);
    assert_int_equal(l.opened, l.closed);
    l.refuses = EBB_IO;
    assert_int_equal(ebb__safetensors_write(f->ctx, f->path, list, N_ENTRIES, notes, 2, NULL),
                     EBB_IO);
    assert_int_equal(l.opened, l.closed);
    assert_same_file(f->path, f->other); /* a failure leaves the old file */
}

static void what_cannot_be_written(void **state) {
    fixture *f = *state;
    st_entry a = {.name = "x", .dtype = ST_F32, .rank = 1, .dims = {1}, .data = weights};
    st_entry two[2] = {a, a};
    st_note unsorted[2] = {notes[1], notes[0]};
    write_sample(f, f->path);
    write_sample(f, f->other);
#define REFUSED(list, n, note, n_note)                                                             \
    assert_int_equal(ebb__safetensors_write(f->ctx, f->path, list, n, note, n_note, NULL),         \
                     EBB_USAGE)
    REFUSED(two, 2, NULL, 0);
    two[1].dtype = ST_U8; /* the same name at another place of the order */
    REFUSED(two, 2, NULL, 0);
    REFUSED(&a, 1, unsorted, 2);
    st_entry b = a;
    b.name = ST_METADATA;
    REFUSED(&b, 1, NULL, 0);
    b.name = "\xff";
    REFUSED(&b, 1, NULL, 0);
    b = a;
    b.rank = ST_MAX_RANK + 1;
    REFUSED(&b, 1, NULL, 0);
    b.rank = 1;
    b.dims[0] = -1;
    REFUSED(&b, 1, NULL, 0);
    b.rank = 2;
    b.dims[0] = b.dims[1] = INT64_C(1) << 31;
    REFUSED(&b, 1, NULL, 0);
    b = a;
    b.data = NULL;
    REFUSED(&b, 1, NULL, 0);
#undef REFUSED
    ebb__ctx_clear(f->ctx);
    assert_same_file(f->path, f->other); /* a refusal leaves the old file */
}

/* ---- hostile files ------------------------------------------------------------------------ */

static void broken_rules(void **state) {
    fixture *f = *state;
#define X "\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"
#define TENSOR(dtype, shape, offsets)                                                              \
    "{\"x\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
    static const struct {
        const char *header;
        size_t data;
        const char *says; /* in the message; NULL: the file is right */
    } cases[] = {
        {"{" X "}", 8, NULL},
        {"{ " X "\n} ", 8, NULL},
        {"{}", 0, NULL},
        {"{\"__metadata__\":{}," X "}", 8, NULL},
        {TENSOR("\"F32\"", "[]", "[0,4]"), 4, NULL},
        {TENSOR("\"BF16\"", "[3,0]", "[0,0]"), 0, NULL},
        {"{" X ",\"y\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 8, NULL},
        {" {" X "}", 8, "start"},
        {"[" X "]", 8, "start"},
        {"{" X "}x", 8, "text after"},
        {"{" X "}\n", 8, "text after"},
        {"{" X ",}", 8, "string"},
        {"{," X "}", 8, "string"},
        {"{" X "", 8, "expected"},
        {"{" X " " X "}", 8, "expected"},
        {"{" X "," X "}", 8, "overlap"},
        {"{" X "}", 9, "no tensor"},
        {"{" X "}", 7, "beyond"},
        {"{}", 8, "no tensor"},
        {"{\"x\":[1]}", 0, "not an object"},
        {"{\"x\"}", 0, "expected ':'"},
        {"{x:1}", 0, "string"},
        {"{\"__metadata__\":[]}", 0, "metadata"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "metadata value"},
        {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "twice"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "second"},
        {TENSOR("\"F33\"", "[2]", "[0,8]"), 8, "dtype: unknown"},
        {TENSOR("4", "[2]", "[0,8]"), 8, "dtype: missing"},
        {TENSOR("\"F32\"", "[-2]", "[0,8]"), 8, "shape"},
        {TENSOR("\"F32\"", "[2.0]", "[0,8]"), 8, "shape"},
        {TENSOR("\"F32\"", "[\"2\"]", "[0,8]"), 8, "shape"},
        {TENSOR("\"F32\"", "2", "[0,8]"), 8, "shape"},
        {TENSOR("\"F32\"", "[1,1,1,1,1,1,2]", "[0,8]"), 8, "shape"},
        {TENSOR("\"F32\"", "[9223372036854775807,4]", "[0,8]"), 8, "shape: sizes overflow"},
        {TENSOR("\"F32\"", "[9223372036854775807,4,0]", "[0,0]"), 0, "shape: sizes overflow"},
        {TENSOR("\"F32\"", "[99999999999999999999]", "[0,8]"), 8, "too big"},
        {TENSOR("\"F32\"", "[3]", "[0,8]"), 8, "do not match"},
        {TENSOR("\"F64\"", "[2]", "[0,8]"), 8, "do not match"},
        {TENSOR("\"F32\"", "[2]", "[8,0]"), 8, "data_offsets"},
        {TENSOR("\"F32\"", "[2]", "[-8,0]"), 8, "data_offsets"},
        {TENSOR("\"F32\"", "[2]", "[0]"), 8, "data_offsets"},
        {TENSOR("\"F32\"", "[2]", "[0,8,8]"), 8, "data_offsets"},
        {TENSOR("\"F32\"", "[2]", "[4,12]"), 12, "hole"},
        {TENSOR("\"F32\"", "[2]", "[0,8],\"shape\":[2]"), 8, "duplicate"},
        {TENSOR("\"F32\"", "[2]", "[0,8],\"more\":1"), 8, "unknown field"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"y\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}",
         6, "overlap"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         8, "given twice"},
        {"{\"x\\u0000\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "header"},
        {"{\"\xff\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "decode"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ebb_status status = open_text(f, cases[i].header, cases[i].data);
        if (status != (cases[i].says ? EBB_MODEL : EBB_OK)) {
            fail_msg("%s: %d %s", cases[i].header, (int)status, ebb_last_error(f->ctx));
        }
        if (cases[i].says && (!strstr(ebb_last_error(f->ctx), cases[i].says) ||
                              !strstr(ebb_last_error(f->ctx), f->path))) {
            fail_msg("%s: says \"%s\", not \"%s\"", cases[i].header, ebb_last_error(f->ctx),
                     cases[i].says);
        }
    }
#undef TENSOR
#undef X
}

/* The message stays one line whatever the names hold. */
static void message_is_one_line(void **state) {
    fixture *f = *state;
    assert_int_equal(open_text(f, "{\"a\\n\\u001b[2J\":{}}", 0), EBB_MODEL);
    assert_null(strpbrk(ebb_last_error(f->ctx), "\n\x1b"));
}

static void lengths_that_lie(void **state) {
    fixture *f = *state;
    static const uint64_t lengths[] = {0,         1, 9, 100000000, 100000001, UINT64_C(1) << 63,
                                       UINT64_MAX};
    char bytes[16] = {0};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        st_reader reader;
        memcpy(bytes, &lengths[i], 8);
        memcpy(bytes + 8, "{}      ", 8);
        put_file(f->path, bytes, sizeof bytes);
        assert_int_equal(ebb__safetensors_open(f->ctx, f->path, &reader), EBB_MODEL);
        assert_non_null(strstr(ebb_last_error(f->ctx), "header length"));
        ebb__ctx_clear(f->ctx);
    }
    st_reader reader;
    assert_int_equal(ebb__safetensors_open(f->ctx, f->other, &reader), EBB_IO); /* absent */
    ebb__ctx_clear(f->ctx);
}

static void every_truncation(void **state) {
    fixture *f = *state;
    size_t bytes;
    write_sample(f, f->path);
    char *data = get_file(f->path, &bytes);
    for (size_t n = 0; n < bytes; n++) {
        st_reader reader;
        put_file(f->path, data, n);
        assert_int_equal(ebb__safetensors_open(f->ctx, f->path, &reader), EBB_MODEL);
        ebb__ctx_clear(f->ctx);
    }
    free(data);
}

/* Reads every tensor of a file that open() let through. */
static void read_all(fixture *f, st_reader *reader) {
    for (size_t i = 0; i < reader->n_tensors; i++) {
        const st_tensor *t = &reader->tensors[i];
        char data[256];
        size_t bytes = (size_t)(t->end - t->begin);
        assert_in_range(bytes, 0, sizeof data);
        assert_int_equal(ebb__safetensors_read(reader, t, data, bytes), EBB_OK);
    }
    assert_string_equal(ebb_last_error(f->ctx), "");
}

/* With one byte of the file changed: read whole or refused, nothing else. */
static bool survives(fixture *f, int fd, size_t at, unsigned value) {
    st_reader reader;
    unsigned char byte = (unsigned char)value;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    ebb_status status = ebb__safetensors_open(f->ctx, f->path, &reader);
    if (status == EBB_OK) {
        read_all(f, &reader);
        ebb__safetensors_close(&reader);
        return true;
    }
    assert_int_equal(status, EBB_MODEL);
    assert_true(strlen(ebb_last_error(f->ctx)) > strlen(f->path));
    ebb__ctx_clear(f->ctx);
    return false;
}

/* Every bit of header and length flipped; every value of each byte of the first entry. */
static void every_flipped_byte(void **state) {
    fixture *f = *state;
    size_t bytes, header;
    unsigned refused = 0;
    uint64_t length;
    write_sample(f, f->path);
    char *data = get_file(f->path, &bytes);
    memcpy(&length, data, 8);
    header = 8 + (size_t)length;
    int fd = open(f->path, O_RDWR);
    for (size_t i = 0; i < header; i++) {
        bool all = i < 20 || (i > 56 && i < 136);
        unsigned right = (unsigned char)data[i];
        for (unsigned v = 1; v < 256; v++) {
            if (all || (v & (v - 1)) == 0) {
                refused += !survives(f, fd, i, right ^ v);
            }
        }
        assert_true(survives(f, fd, i, right));
    }
    close(fd);
    assert_in_range(refused, 8 * header / 2, 256 * header);
    free(data);
}

/* A header of one huge entry must not grow into a tree of many times its bytes. */
static void memory_stays_near_the_header(void **state) {
    fixture *f = *state;
    enum { BYTES = 1 << 20 };
    char *header = malloc(BYTES + 1);
    static const char *const starts[] = {"{\"x\":[", "{\"__metadata__\":{", "{\""};
    static const char *const fills[] = {"0,", "\"\":\"\",", "::::"};
    assert_non_null(header);
    for (int c = 0; c < 3; c++) {
        size_t at = strlen(starts[c]), n = strlen(fills[c]);
        memset(header, ' ', BYTES);
        header[BYTES] = '\0';
        memcpy(header, starts[c], at);
        for (; at + n < BYTES; at += n) {
            memcpy(header + at, fills[c], n);
        }
        f->ctx->mem.peak_bytes = f->ctx->mem.live_bytes;
        assert_int_equal(open_text(f, header, 0), EBB_MODEL);
        assert_in_range(f->ctx->mem.peak_bytes, BYTES, 6 * BYTES);
    }
    free(header);
}

/* ---- failing calls ------------------------------------------------------------------------ */

/* Files that a failed writer left. */
static int names_beside(const char *dir) {
    int count = 0;
    DIR *stream = opendir(dir);
    assert_non_null(stream);
    for (struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
        count += strstr(entry->d_name, ".tmp") != NULL;
    }
    closedir(stream);
    return count;
}

static ebb_status write_and_read(fixture *f) {
    st_reader reader;
    float back[6];
    TRY(ebb__safetensors_write(f->ctx, f->path, entries, N_ENTRIES, notes, 2, NULL));
    TRY(ebb__safetensors_open(f->ctx, f->path, &reader));
    ebb_status status =
        ebb__safetensors_read(&reader, ebb__safetensors_find(&reader, "w"), back, sizeof back);
    ebb__safetensors_close(&reader);
    return status;
}

static void every_allocation_fails(void **state) {
    fixture *f = *state;
    uint64_t n = 1;
    write_sample(f, f->path);
    write_sample(f, f->other);
    for (;; n++) {
        f->ctx->mem.fail_at = n;
        ebb_status status = write_and_read(f);
        f->ctx->mem.fail_at = 0;
        assert_int_equal(f->ctx->mem.live_blocks, 0);
        assert_same_file(f->path, f->other);
        ebb__ctx_clear(f->ctx);
        if (status == EBB_OK) {
            break;
        }
        assert_int_equal(status, EBB_NOMEM);
    }
    assert_in_range(n, 6, 100);
}

static void every_file_call_fails(void **state) {
    fixture *f = *state;
    uint64_t n = 1;
    write_sample(f, f->path);
    write_sample(f, f->other);
    for (;; n++) {
        f->ctx->file.fail_at = n;
        f->ctx->file.fail_errno = ENOSPC;
        ebb_status status = write_and_read(f);
        f->ctx->file.fail_at = 0;
        assert_same_file(f->path, f->other);
        assert_int_equal(names_beside(f->dir), 0);
        ebb__ctx_clear(f->ctx);
        if (status == EBB_OK) {
            break;
        }
        assert_int_equal(status, EBB_IO);
    }
    assert_in_range(n, 10, 100);
}

/* ---- for test_safetensors.py -------------------------------------------------------------- */

static ebb_status copy(ebb_ctx *ctx, const char *from, const char *to) {
    ebb_status status;
    st_reader reader;
    st_entry *list = NULL;
    TRY(ebb__safetensors_open(ctx, from, &reader));
    TRY_OUT(ebb__alloc(ctx, reader.n_tensors, sizeof *list, &list));
    for (size_t i = 0; i < reader.n_tensors; i++) {
        const st_tensor *t = &reader.tensors[i];
        size_t bytes = (size_t)(t->end - t->begin);
        void *data = NULL;
        TRY_OUT(ebb__alloc(ctx, bytes, 1, &data));
        list[i] = (st_entry){.name = t->name, .dtype = t->dtype, .rank = t->rank, .data = data};
        memcpy(list[i].dims, t->dims, sizeof t->dims);
        TRY_OUT(ebb__safetensors_read(&reader, t, data, bytes));
    }
    TRY_OUT(ebb__safetensors_write(ctx, to, list, reader.n_tensors, reader.notes, reader.n_notes,
                                   NULL));
out:
    for (size_t i = 0; list && i < reader.n_tensors; i++) {
        ebb__free(ctx, (void *)(uintptr_t)list[i].data);
    }
    ebb__free(ctx, list);
    ebb__safetensors_close(&reader);
    return status;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        CASE(round_trip),
        CASE(canonical_bytes),
        CASE(order_of_entries_is_nothing),
        CASE(empty_file_of_no_tensors),
        CASE(tensors_are_opened_one_by_one),
        CASE(what_cannot_be_written),
        CASE(broken_rules),
        CASE(message_is_one_line),
        CASE(lengths_that_lie),
        CASE(every_truncation),
        CASE(every_flipped_byte),
        CASE(memory_stays_near_the_header),
        CASE(every_allocation_fails),
        CASE(every_file_call_fails),
#undef CASE
    };
    if (argc == 4 && strcmp(argv[1], "copy") == 0) {
        ebb_ctx *ctx;
        ebb_status status = ebb_ctx_new(&ctx);
        status = status == EBB_OK ? copy(ctx, argv[2], argv[3]) : status;
        fprintf(stderr, "%s\n", status == EBB_OK ? "copied" : ebb_last_error(ctx));
        ebb_ctx_free(ctx);
        return (int)status;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
