/* host.c - the files of /proc and /sys that say how many cores and bytes there are. The first byte
 * says which one gets the bytes; the others are those of a small machine. */
#include "base/host.h"
#include "fuzz/fuzz.h"

#include <string.h>

static const struct {
    const char *name, *usual;
} files[] = {{"/proc/self/cgroup", "0::/job\n4:memory:/job\n5:cpu,cpuacct:/job\n"},
             {"/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 900 kB\n"},
             {"/proc/self/statm", "100 50 20 5 0 30 0\n"},
             {"/sys/fs/cgroup/job/memory.max", "1000000\n"},
             {"/sys/fs/cgroup/job/memory.current", "5000\n"},
             {"/sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 300\n"},
             {"/sys/fs/cgroup/job/cpu.max", "150000 100000\n"},
             {"/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "900000\n"},
             {"/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "200000\n"},
             {"/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n"}};
enum { FILES = sizeof files / sizeof *files };

void fuzz_host(fuzz_room *room, fuzz_input input) {
    size_t chosen = fuzz_byte(&input) % FILES;
    for (size_t i = 0; i < FILES; i++) {
        fuzz_path path = fuzz_file(room, files[i].name + 1);
        if (i == chosen) {
            fuzz_write(path, input.at, input.left);
        } else {
            fuzz_write(path, files[i].usual, strlen(files[i].usual));
        }
    }
    int cores = ebb__host_cores_at(room->folder);
    fuzz_require(cores >= 1 && cores <= 8192, "a machine has cores");
    uint64_t memory = ebb__host_memory_at(room->folder);
    bool bounded = chosen > 3; /* the limit of the group, or of all of memory, still stands */
    fuzz_require(!bounded || memory <= 900 << 10, "a limit was passed over");
}
