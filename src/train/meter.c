/* meter.c - see meter.h. A counter of energy wraps at its file max_energy_range_uj, every few
 * minutes under load; what is measured must be shorter than that. */
#include "train/meter.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static bool read_number(const char *root, int package, const char *name, uint64_t *out) {
    char path[512], text[32];
    (void)snprintf(path, sizeof path, "%s/sys/class/powercap/intel-rapl:%d/%s", root, package,
                   name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (n <= 0) {
        return false;
    }
    char *end = text;
    text[n] = '\0';
    errno = 0;
    *out = strtoull(text, &end, 10);
    return end != text && errno == 0;
}

void ebb__meter_read_at(const char *root, meter *out) {
    struct timespec now = {0};
    *out = (meter){0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    out->cpu_seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    while (out->packages < METER_MOST_PACKAGES &&
           read_number(root, out->packages, "energy_uj", &out->microjoules[out->packages])) {
        out->packages++;
    }
}

void ebb__meter_read(meter *out) {
    ebb__meter_read_at("", out);
}

double ebb__meter_cpu_seconds(const meter *from, const meter *to) {
    return to->cpu_seconds - from->cpu_seconds;
}

double ebb__meter_joules_at(const char *root, const meter *from, const meter *to) {
    double joules = 0;
    if (from->packages == 0 || to->packages != from->packages) {
        return -1;
    }
    for (int i = 0; i < from->packages; i++) {
        uint64_t begin = from->microjoules[i], end = to->microjoules[i], most = 0;
        if (end < begin && !read_number(root, i, "max_energy_range_uj", &most)) {
            return -1;
        }
        joules += 1e-6 * (double)(end < begin ? end + (most - begin) : end - begin);
    }
    return joules;
}

double ebb__meter_joules(const meter *from, const meter *to) {
    return ebb__meter_joules_at("", from, to);
}
