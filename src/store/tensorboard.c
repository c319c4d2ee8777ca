/* tensorboard.c - event files: records of protocol buffer messages, written by hand.
 *
 * record:  u64 length; u32 sum of those 8 bytes; data; u32 sum of the data   (little-endian)
 * data:    Event { 1 wall_time: double; 2 step: int64; 3 file_version: string; 5 summary; 7 session
 * } Summary { 1 value: { 1 tag: string; 2 simple_value: float }, repeated } SessionLog { 1 status:
 * START is 1 }
 *
 * A file begins with its version and a START. TensorBoard takes the first START it sees for the
 * beginning of the run, so the first file has one too. */
#include "store/tensorboard.h"

#include "base/alloc.h"
#include "base/file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAME_START "events.out.tfevents."
enum { EVENT_BYTES = 1024, RECORD_MORE = 16, HOST_BYTES = 64, LIST_MOST = 1 << 20 };

/* ---- records ---- */

uint32_t ebb__tensorboard_sum(const void *data, size_t bytes) {
    /* Of the reflected polynomial 82F63B78, four bits at a time. */
    static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
                                       0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
                                       0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                       0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    const uint8_t *byte = data;
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= byte[i];
        crc = (crc >> 4) ^ table[crc & 15];
        crc = (crc >> 4) ^ table[crc & 15];
    }
    crc = ~crc;
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

typedef struct event_bytes {
    uint8_t data[EVENT_BYTES];
    size_t used;
    bool full;
} event_bytes;

static void put(event_bytes *to, const void *data, size_t n) {
    if (n > sizeof to->data - to->used) {
        to->full = true;
        return;
    }
    memcpy(to->data + to->used, data, n);
    to->used += n;
}

static void put_little(event_bytes *to, uint64_t value, size_t n) {
    uint8_t bytes[8];
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
    put(to, bytes, n);
}

static void put_varint(event_bytes *to, uint64_t value) {
    for (; value >= 128; value >>= 7) {
        put_little(to, (value & 127) | 128, 1);
    }
    put_little(to, value, 1);
}

/* Wire types of a field: a varint, 8 bytes, a length and so many bytes, 4 bytes. */
enum { AS_VARINT = 0, AS_DOUBLE = 1, AS_BYTES = 2, AS_FLOAT = 5 };
static void put_field(event_bytes *to, unsigned number, unsigned type) {
    put_varint(to, (uint64_t)number << 3 | type);
}

static void put_bytes(event_bytes *to, unsigned number, const void *data, size_t n) {
    put_field(to, number, AS_BYTES);
    put_varint(to, n);
    put(to, data, n);
}

static event_bytes start_event(double seconds, int64_t step) {
    event_bytes event = {.used = 0};
    uint64_t bits;
    memcpy(&bits, &seconds, sizeof bits);
    put_field(&event, 1, AS_DOUBLE);
    put_little(&event, bits, 8);
    if (step != 0) {
        put_field(&event, 2, AS_VARINT);
        put_varint(&event, (uint64_t)step);
    }
    return event;
}

static void put_scalar(event_bytes *summary, const tensorboard_scalar *scalar) {
    event_bytes value = {.used = 0};
    float number = (float)scalar->value;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    put_bytes(&value, 1, scalar->tag, strlen(scalar->tag));
    put_field(&value, 2, AS_FLOAT);
    put_little(&value, bits, 4);
    summary->full |= value.full;
    put_bytes(summary, 1, value.data, value.used);
}

static void put_record(event_bytes *to, const event_bytes *event) {
    event_bytes length = {.used = 0};
    put_little(&length, event->used, 8);
    put(to, length.data, length.used);
    put_little(to, ebb__tensorboard_sum(length.data, length.used), 4);
    put(to, event->data, event->used);
    put_little(to, ebb__tensorboard_sum(event->data, event->used), 4);
    to->full |= event->full;
}

static double wall_seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static ebb_status write_records(tensorboard_log *log, const event_bytes *records) {
    if (records->full) {
        return ebb__fail(log->ctx, EBB_USAGE, "%s: an event is above %d bytes", log->path,
                         EVENT_BYTES - RECORD_MORE);
    }
    TRY(ebb__file_write_fd(log->ctx, log->fd, log->path, records->data, records->used));
    log->mark.bytes += records->used;
    return EBB_OK;
}

static ebb_status write_start(tensorboard_log *log, int64_t first_step) {
    static const char version[] = "brain.Event:2";
    static const uint8_t started[] = {1 << 3 | AS_VARINT, 1};
    event_bytes records = {.used = 0};
    event_bytes event = start_event(wall_seconds(), 0);
    put_bytes(&event, 3, version, sizeof version - 1);
    put_record(&records, &event);
    event = start_event(wall_seconds(), first_step);
    put_bytes(&event, 7, started, sizeof started);
    put_record(&records, &event);
    return write_records(log, &records);
}

ebb_status ebb__tensorboard_write(tensorboard_log *log, int64_t step,
                                  const tensorboard_scalar *scalars, size_t n) {
    event_bytes summary = {.used = 0}, records = {.used = 0};
    event_bytes event = start_event(wall_seconds(), step);
    for (size_t i = 0; i < n; i++) {
        put_scalar(&summary, &scalars[i]);
    }
    event.full |= summary.full;
    put_bytes(&event, 5, summary.data, summary.used);
    put_record(&records, &event);
    return write_records(log, &records);
}

ebb_status ebb__tensorboard_sync(tensorboard_log *log) {
    return ebb__file_sync(log->ctx, log->fd, log->path);
}

void ebb__tensorboard_close(tensorboard_log *log) {
    ebb__file_close(log->fd);
    log->fd = -1;
}

/* ---- names ---- */

/* Letters of a name that can be trusted in a path. */
static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

static bool is_ours(const char *name) {
    return strncmp(name, NAME_START, sizeof NAME_START - 1) == 0 &&
           strlen(name) < TENSORBOARD_NAME_BYTES && name[strspn(name, plain)] == '\0';
}

/* Names sort by age, also of files begun within a second: `last` is the youngest name, or "". */
static void make_name(char out[TENSORBOARD_NAME_BYTES], const char *last, int number) {
    char host[HOST_BYTES] = "";
    long long seconds = (long long)wall_seconds();
    if (last[0] != '\0') {
        long long before = strtoll(last + sizeof NAME_START - 1, NULL, 10);
        /* What no clock has shown is not a time: there is no second after the largest number. */
        seconds = seconds > before || before == LLONG_MAX ? seconds : before + 1;
    }
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') {
        (void)snprintf(host, sizeof host, "localhost");
    }
    for (char *c = host; *c != '\0'; c++) {
        *c = strchr(plain, *c) != NULL ? *c : '_';
    }
    (void)snprintf(out, TENSORBOARD_NAME_BYTES, NAME_START "%lld.%s.%lld.%d", seconds, host,
                   (long long)getpid(), number);
}

/* ---- the files of a run ---- */

/* Reads the list in place: names end with a line end. *text is the caller's to free. */
static ebb_status read_list(ebb_ctx *ctx, const char *list, char **text, size_t *bytes) {
    *text = NULL;
    *bytes = 0;
    if (!ebb__file_exists(list)) {
        return ebb__alloc(ctx, 1, 1, text);
    }
    return ebb__file_read_all(ctx, list, LIST_MOST, text, bytes);
}

/* The list's first `known` bytes, and the names after them that are not "". */
static ebb_status write_list(ebb_ctx *ctx, const char *list, const char *text, size_t known,
                             const char *const names[2]) {
    file_writer writer = {.ctx = ctx, .fd = -1};
    ebb_status status = EBB_OK;
    TRY_OUT(ebb__file_create(ctx, list, &writer));
    TRY_OUT(ebb__file_write(&writer, text, known));
    for (int i = 0; i < 2; i++) {
        TRY_OUT(ebb__file_write(&writer, names[i], strlen(names[i])));
        TRY_OUT(ebb__file_write(&writer, "\n", names[i][0] != '\0'));
    }
    TRY_OUT(ebb__file_commit(&writer));
out:
    ebb__file_abandon(&writer);
    return status;
}

/* Bytes of the list up to and with the checkpoint's file: of what comes later the checkpoint knows
 * nothing. All of it, where the list does not name that file. */
static size_t known_bytes(const char *text, size_t bytes, const char *name) {
    size_t length = strlen(name);
    if (length == 0) {
        return 0;
    }
    for (const char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        if ((size_t)(end - line) == length && memcmp(line, name, length) == 0) {
            return (size_t)(end + 1 - text);
        }
    }
    return bytes;
}

/* A viewer that is open waits at the end of the youngest file, and for ever if that is gone: it is
 * emptied. */
static ebb_status drop_file(ebb_ctx *ctx, const char *path, bool youngest) {
    uint64_t have = 0;
    int fd = -1;
    if (!youngest) {
        return ebb__file_remove(ctx, path);
    }
    if (!ebb__file_exists(path)) {
        return EBB_OK;
    }
    TRY(ebb__file_append(ctx, path, &fd, &have));
    ebb_status status = ebb__file_truncate(ctx, fd, path, 0);
    ebb__file_close(fd);
    return status;
}

/* Drops the files that the list names after its first `known` bytes and counts those before;
 * `last` gets the last name of the list. */
static ebb_status drop_later(ebb_ctx *ctx, const char *folder, char *text, size_t known,
                             char last[TENSORBOARD_NAME_BYTES], int *kept) {
    char path[1024], *end;
    last[0] = '\0';
    *kept = 0;
    for (char *line = text; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        bool later = (size_t)(line - text) >= known, ours = is_ours(line);
        *kept += !later;
        if (ours) {
            memcpy(last, line, strlen(line) + 1);
        }
        if (ours && later) {
            TRY(ebb__file_join(ctx, folder, line, path, sizeof path));
            TRY(drop_file(ctx, path, end[1] == '\0'));
        }
        *end = '\n';
    }
    return EBB_OK;
}

/* The checkpoint's file is opened to go on if it is the run's last and ends where the checkpoint
 * says, else cut back to there; log->fd stays -1 where a new file is needed. */
static ebb_status reopen(ebb_ctx *ctx, const char *folder, const tensorboard_mark *from, bool last,
                         tensorboard_log *log) {
    ebb_status status = EBB_OK;
    uint64_t have = 0;
    if (!is_ours(from->name)) {
        return EBB_OK;
    }
    TRY(ebb__file_join(ctx, folder, from->name, log->path, sizeof log->path));
    if (!ebb__file_exists(log->path)) { /* another folder than before, or tidied away */
        return EBB_OK;
    }
    TRY(ebb__file_append(ctx, log->path, &log->fd, &have));
    if (have == from->bytes && last) {
        log->mark = *from;
        return EBB_OK;
    }
    if (have > from->bytes) {
        TRY_OUT(ebb__file_truncate(ctx, log->fd, log->path, from->bytes));
        TRY_OUT(ebb__file_sync(ctx, log->fd, log->path));
    }
out:
    ebb__tensorboard_close(log);
    return status;
}

static ebb_status begin_file(ebb_ctx *ctx, const char *folder, int64_t step, const char *name,
                             tensorboard_log *out) {
    uint64_t have = 0;
    out->mark = (tensorboard_mark){.bytes = 0};
    memcpy(out->mark.name, name, strlen(name) + 1);
    TRY(ebb__file_join(ctx, folder, name, out->path, sizeof out->path));
    TRY(ebb__file_append(ctx, out->path, &out->fd, &have));
    return write_start(out, step + 1);
}

ebb_status ebb__tensorboard_open(ebb_ctx *ctx, const char *folder, const char *list,
                                 const tensorboard_mark *from, int64_t step, tensorboard_log *out) {
    char last[TENSORBOARD_NAME_BYTES], name[TENSORBOARD_NAME_BYTES], *text = NULL;
    size_t bytes = 0;
    int kept = 0;
    ebb_status status = EBB_OK;
    *out = (tensorboard_log){.ctx = ctx, .fd = -1};
    TRY_OUT(ebb__file_make_dir(ctx, folder));
    TRY_OUT(read_list(ctx, list, &text, &bytes));
    size_t known = known_bytes(text, bytes, from->name);
    TRY_OUT(drop_later(ctx, folder, text, known, last, &kept));
    TRY_OUT(reopen(ctx, folder, from, known == bytes, out));
    if (out->fd < 0) {
        const char *const names[] = {known < bytes ? last : "", name};
        make_name(name, last, kept);
        TRY_OUT(write_list(ctx, list, text, known, names)); /* before there is such a file */
        TRY_OUT(begin_file(ctx, folder, step, name, out));
    }
out:
    ebb__free(ctx, text);
    if (status != EBB_OK) {
        ebb__tensorboard_close(out);
    }
    return status;
}

/* ---- before a run ---- */

static bool is_usable(const char *folder) {
    struct stat info;
    return stat(folder, &info) == 0 && S_ISDIR(info.st_mode) && access(folder, W_OK | X_OK) == 0;
}

ebb_status ebb__tensorboard_check(ebb_ctx *ctx, const char *folder) {
    char parent[1024];
    int n = snprintf(parent, sizeof parent, "%s", folder);
    if (n <= 0 || (size_t)n >= sizeof parent - TENSORBOARD_NAME_BYTES) {
        return ebb__fail(ctx, EBB_USAGE, "--tensorboard: the path is empty or too long");
    }
    if (ebb__file_exists(folder)) {
        return is_usable(folder)
                   ? EBB_OK
                   : ebb__fail(ctx, EBB_USAGE, "--tensorboard: %s is not a folder to write in",
                               folder);
    }
    while (n > 1 && parent[n - 1] == '/') {
        parent[--n] = '\0';
    }
    char *slash = strrchr(parent, '/');
    if (slash == NULL) {
        (void)snprintf(parent, sizeof parent, ".");
    } else {
        slash[slash == parent] = '\0'; /* keep the slash of "/name" */
    }
    return is_usable(parent) ? EBB_OK
                             : ebb__fail(ctx, EBB_USAGE,
                                         "--tensorboard: %s cannot be made: %s is not a folder to "
                                         "write in",
                                         folder, parent);
}
