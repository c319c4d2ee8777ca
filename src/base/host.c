/* host.c - reads what the machine is and allows from /proc, /sys and the CPU itself.
 *
 * Nothing is allocated and nothing fails: what cannot be read sets no limit. Control groups are
 * looked up where distributions mount them (/sys/fs/cgroup), from the process's own group up to the
 * root, since the tightest ancestor decides. */
#include "base/host.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { PATH_MOST = 4096, LINE_MOST = 2048 };

static double seconds_of(clockid_t clock) {
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double ebb__clock_seconds(void) {
    return seconds_of(CLOCK_MONOTONIC);
}

double ebb__thread_seconds(void) {
    return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

/* ---- small files, line by line ----------------------------------------------------------------
 */

typedef struct line_reader {
    int fd;
    size_t at, end;
    char buffer[1024];
    char line[LINE_MOST]; /* longer lines are cut */
} line_reader;

static bool reader_open(line_reader *reader, const char *root, const char *path) {
    char full[PATH_MOST];
    int length = snprintf(full, sizeof full, "%s%s", root, path);
    reader->at = reader->end = 0;
    reader->fd = -1;
    if (length > 0 && (size_t)length < sizeof full) {
        reader->fd = open(full, O_RDONLY | O_CLOEXEC);
    }
    return reader->fd >= 0;
}

static void reader_close(line_reader *reader) {
    (void)close(reader->fd);
}

static int reader_byte(line_reader *reader) {
    if (reader->at == reader->end) {
        ssize_t got;
        do {
            got = read(reader->fd, reader->buffer, sizeof reader->buffer);
        } while (got < 0 && errno == EINTR);
        if (got <= 0) {
            return -1;
        }
        reader->at = 0;
        reader->end = (size_t)got;
    }
    return (unsigned char)reader->buffer[reader->at++];
}

static bool reader_next(line_reader *reader) {
    size_t length = 0;
    int byte = reader_byte(reader);
    if (byte < 0) {
        return false;
    }
    for (; byte >= 0 && byte != '\n'; byte = reader_byte(reader)) {
        if (length + 1 < sizeof reader->line) {
            reader->line[length++] = (char)byte;
        }
    }
    reader->line[length] = '\0';
    return true;
}

/* Digits after blanks; false if there are none ("max", "-1") or they overflow. */
static bool parse_number(const char *text, uint64_t *out) {
    text += strspn(text, " \t");
    if (*text < '0' || *text > '9') {
        return false;
    }
    errno = 0;
    *out = strtoull(text, NULL, 10);
    return errno == 0;
}

/* The number in the first line of a file that starts with `key` ("" takes the first line). */
static bool read_number(const char *root, const char *path, const char *key, uint64_t *out) {
    line_reader reader;
    if (!reader_open(&reader, root, path)) {
        return false;
    }
    bool found = false;
    while (!found && reader_next(&reader)) {
        if (strncmp(reader.line, key, strlen(key)) == 0) {
            found = parse_number(reader.line + strlen(key), out);
            break;
        }
    }
    reader_close(&reader);
    return found;
}

/* ---- CPU --------------------------------------------------------------------------------------
 */

static host_cpu cpu;
static pthread_once_t cpu_once = PTHREAD_ONCE_INIT;

static void detect_cpu(void) {
    line_reader reader;
    (void)snprintf(cpu.model, sizeof cpu.model, "unknown");
    if (reader_open(&reader, "", "/proc/cpuinfo")) {
        while (reader_next(&reader)) {
            const char *colon = strchr(reader.line, ':');
            if (strncmp(reader.line, "model name", 10) == 0 && colon != NULL && colon[1] == ' ') {
                (void)snprintf(cpu.model, sizeof cpu.model, "%.*s", (int)sizeof cpu.model - 1,
                               colon + 2);
                break;
            }
        }
        reader_close(&reader);
    }
#if defined(__x86_64__)
    /* These ask the operating system too: a feature whose registers it does not save is absent. */
    __builtin_cpu_init();
    cpu.avx2_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    cpu.avx512f = __builtin_cpu_supports("avx512f") != 0;
#endif
}

const host_cpu *ebb__host_cpu(void) {
    (void)pthread_once(&cpu_once, detect_cpu);
    return &cpu;
}

/* ---- control groups ---------------------------------------------------------------------------
 */

/* Looks at one group's folder and lowers *limit. */
typedef void (*group_fn)(const char *root, const char *folder, uint64_t *limit);

static void join(char path[PATH_MOST], const char *folder, const char *file) {
    int length = snprintf(path, PATH_MOST, "%s/%s", folder, file);
    if (length < 0 || length >= PATH_MOST) {
        path[0] = '\0'; /* a path that does not fit is one that is not there */
    }
}

/* Calls `look` for mount + group and for each of its ancestors down to mount itself. */
static void walk_ancestors(const char *root, const char *mount, const char *group, group_fn look,
                           uint64_t *limit) {
    char folder[PATH_MOST];
    int length = snprintf(folder, sizeof folder, "%s%s", mount, group);
    if (length < 0 || (size_t)length >= sizeof folder) {
        return;
    }
    size_t stop = strlen(mount);
    for (;;) {
        look(root, folder, limit);
        char *slash = strrchr(folder, '/');
        if (slash == NULL || (size_t)(slash - folder) < stop) {
            return;
        }
        *slash = '\0';
    }
}

static bool lists_controller(const char *list, const char *end, const char *controller) {
    size_t length = strlen(controller);
    while (list < end) {
        const char *comma = memchr(list, ',', (size_t)(end - list));
        const char *stop = comma != NULL ? comma : end;
        if ((size_t)(stop - list) == length && strncmp(list, controller, length) == 0) {
            return true;
        }
        list = stop + 1;
    }
    return false;
}

/* Lines of /proc/self/cgroup: "0::/group" for version 2, "4:cpu,cpuacct:/group" for version 1. */
static uint64_t least_over_groups(const char *root, const char *controller, group_fn look_v2,
                                  group_fn look_v1) {
    uint64_t limit = UINT64_MAX;
    char mount_v1[64];
    (void)snprintf(mount_v1, sizeof mount_v1, "/sys/fs/cgroup/%s", controller);
    line_reader reader;
    if (!reader_open(&reader, root, "/proc/self/cgroup")) {
        return limit;
    }
    while (reader_next(&reader)) {
        const char *list = strchr(reader.line, ':');
        const char *end = list != NULL ? strchr(list + 1, ':') : NULL;
        if (end == NULL) {
            continue;
        }
        const char *group = strcmp(end + 1, "/") == 0 ? "" : end + 1;
        if (end == list + 1) {
            walk_ancestors(root, "/sys/fs/cgroup", group, look_v2, &limit);
            walk_ancestors(root, "/sys/fs/cgroup/unified", group, look_v2, &limit);
        } else if (lists_controller(list + 1, end, controller)) {
            walk_ancestors(root, mount_v1, group, look_v1, &limit);
        }
    }
    reader_close(&reader);
    return limit;
}

static void lower(uint64_t *limit, uint64_t value) {
    if (value < *limit) {
        *limit = value;
    }
}

/* Limit less use, where cached file pages that the kernel would drop first are not use. */
static void lower_memory(const char *root, const char *folder, const char *limit_file,
                         const char *use_file, const char *cache_key, uint64_t *limit) {
    char path[PATH_MOST];
    uint64_t most, use, cache;
    join(path, folder, limit_file);
    if (!read_number(root, path, "", &most)) {
        return;
    }
    join(path, folder, use_file);
    if (!read_number(root, path, "", &use)) {
        use = 0;
    }
    join(path, folder, "memory.stat");
    if (read_number(root, path, cache_key, &cache)) {
        use = cache < use ? use - cache : 0;
    }
    lower(limit, use < most ? most - use : 0);
}

static void memory_v2(const char *root, const char *folder, uint64_t *limit) {
    lower_memory(root, folder, "memory.max", "memory.current", "inactive_file ", limit);
}

static void memory_v1(const char *root, const char *folder, uint64_t *limit) {
    lower_memory(root, folder, "memory.limit_in_bytes", "memory.usage_in_bytes",
                 "total_inactive_file ", limit);
}

/* A quota of part of a core still needs one thread, and 1.5 cores keep two threads busy. */
static void lower_quota(uint64_t quota, uint64_t period, uint64_t *limit) {
    if (period > 0) {
        uint64_t cores = quota / period + (quota % period != 0);
        lower(limit, cores > 0 ? cores : 1);
    }
}

static void cpu_v2(const char *root, const char *folder, uint64_t *limit) {
    char path[PATH_MOST];
    line_reader reader;
    uint64_t quota, period;
    join(path, folder, "cpu.max");
    if (!reader_open(&reader, root, path)) {
        return;
    }
    if (reader_next(&reader)) {
        const char *space = strchr(reader.line, ' ');
        if (space != NULL && parse_number(reader.line, &quota) && parse_number(space, &period)) {
            lower_quota(quota, period, limit);
        }
    }
    reader_close(&reader);
}

static void cpu_v1(const char *root, const char *folder, uint64_t *limit) {
    char path[PATH_MOST];
    uint64_t quota, period;
    join(path, folder, "cpu.cfs_quota_us");
    if (!read_number(root, path, "", &quota)) {
        return;
    }
    join(path, folder, "cpu.cfs_period_us");
    if (read_number(root, path, "", &period)) {
        lower_quota(quota, period, limit);
    }
}

/* ---- what this process may use ----------------------------------------------------------------
 */

static int affinity_cores(void) {
    cpu_set_t sets[8]; /* 8192 processors */
    memset(sets, 0, sizeof sets);
    if (sched_getaffinity(0, sizeof sets, sets) == 0) {
        return CPU_COUNT_S(sizeof sets, sets);
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 && online <= 8192 ? (int)online : 1;
}

int ebb__host_cores_at(const char *root) {
    int cores = affinity_cores();
    uint64_t quota = least_over_groups(root, "cpu", cpu_v2, cpu_v1);
    if (quota < (uint64_t)cores) {
        cores = (int)quota;
    }
    return cores > 0 ? cores : 1;
}

int ebb__host_cores(void) {
    return ebb__host_cores_at("");
}

uint64_t ebb__host_memory_at(const char *root) {
    uint64_t least = least_over_groups(root, "memory", memory_v2, memory_v1);
    uint64_t number;
    if (read_number(root, "/proc/meminfo", "MemAvailable:", &number) && number < UINT64_MAX >> 10) {
        lower(&least, number << 10);
    }
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
        uint64_t mapped = 0;
        if (read_number(root, "/proc/self/statm", "", &number)) {
            mapped = number * (uint64_t)sysconf(_SC_PAGESIZE);
        }
        lower(&least, mapped < space.rlim_cur ? space.rlim_cur - mapped : 0);
    }
    return least;
}

uint64_t ebb__host_memory(void) {
    return ebb__host_memory_at("");
}

uint64_t ebb__host_peak_resident(void) {
    uint64_t kilobytes;
    return read_number("", "/proc/self/status", "VmHWM:", &kilobytes) ? kilobytes << 10 : 0;
}
