/* host.h - what this machine is and allows: clock, CPU features, cores, memory limits. */
#ifndef BASE_HOST_H
#define BASE_HOST_H

#include "base/ctx.h"

double ebb__clock_seconds(void);  /* monotonic */
double ebb__thread_seconds(void); /* that the calling thread was on a core */

typedef struct host_cpu {
    char model[128]; /* "AMD EPYC ..." or "unknown" */
    bool avx2_fma;   /* AVX2 and FMA usable (CPU and OS) */
    bool avx512f;
} host_cpu;
const host_cpu *ebb__host_cpu(void);

int ebb__host_cores(void); /* allowed by affinity and cgroup CPU quota; at least 1 */
uint64_t ebb__host_memory(
    void); /* bytes this process may still use: the least of MemAvailable, RLIMIT_AS
              less what is mapped, and cgroup (v1, v2, every ancestor) limit less use */
/* The same with /proc and /sys taken from below `root` ("" is the machine's own). */
int ebb__host_cores_at(const char *root);
uint64_t ebb__host_memory_at(const char *root);
uint64_t ebb__host_peak_resident(void); /* VmHWM in bytes; 0 if unreadable */

#endif
