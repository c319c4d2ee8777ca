/* What the machine allows, read from made-up /proc and /sys trees, and sanity on the real one. */
#include "base/host.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct test_tree {
    char root[256];
} test_tree;

static int set_up(void **state) {
    static test_tree tree;
    const char *base = getenv("TMPDIR");
    (void)snprintf(tree.root, sizeof tree.root, "%s/ebb_hostXXXXXX", base != NULL ? base : "/tmp");
    *state = &tree;
    return mkdtemp(tree.root) != NULL ? 0 : -1;
}

static int tear_down(void **state) {
    const test_tree *tree = *state;
    char command[512];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", tree->root);
    return system(command);
}

/* Writes root + path, making its folders. */
static void put(const test_tree *tree, const char *path, const char *text) {
    char full[1024];
    (void)snprintf(full, sizeof full, "%s%s", tree->root, path);
    for (char *at = full + strlen(tree->root) + 1; *at != '\0'; at++) {
        if (*at == '/') {
            *at = '\0';
            assert_true(mkdir(full, 0777) == 0 || errno == EEXIST);
            *at = '/';
        }
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

#define MIB(n) ((uint64_t)(n) << 20)

static void nothing_readable_sets_no_limit(void **state) {
    const test_tree *tree = *state;
    struct rlimit space;
    assert_int_equal(getrlimit(RLIMIT_AS, &space), 0);
    if (space.rlim_cur == RLIM_INFINITY) {
        assert_true(ebb__host_memory_at(tree->root) == UINT64_MAX);
    }
    assert_true(ebb__host_cores_at(tree->root) >= 1);
}

static void meminfo_is_read(void **state) {
    put(*state, "/proc/meminfo",
        "MemTotal:       1000000 kB\nMemFree: 5 kB\nMemAvailable:     204800 kB\nBuffers: 1 kB\n");
    assert_int_equal(ebb__host_memory_at(((test_tree *)*state)->root), MIB(200));
}

static void v2_tightest_ancestor_decides(void **state) {
    const test_tree *tree = *state;
    put(tree, "/proc/meminfo", "MemAvailable: 99999999 kB\n");
    put(tree, "/proc/self/cgroup", "0::/user.slice/job/task\n");
    put(tree, "/sys/fs/cgroup/user.slice/job/task/memory.max", "max\n");
    put(tree, "/sys/fs/cgroup/user.slice/job/task/memory.current", "4096\n");
    put(tree, "/sys/fs/cgroup/user.slice/job/memory.max", "209715200\n");    /* 200 MiB */
    put(tree, "/sys/fs/cgroup/user.slice/job/memory.current", "83886080\n"); /* 80 MiB */
    put(tree, "/sys/fs/cgroup/user.slice/memory.max", "314572800\n");        /* 300 MiB */
    assert_int_equal(ebb__host_memory_at(tree->root), MIB(120));
    /* Cached pages that can be dropped are not use. */
    put(tree, "/sys/fs/cgroup/user.slice/job/memory.stat",
        "anon 1\nfile 62914560\ninactive_file 62914560\nactive_file 0\n");
    assert_int_equal(ebb__host_memory_at(tree->root), MIB(180));
    put(tree, "/sys/fs/cgroup/user.slice/memory.current", "272629760\n"); /* 260 MiB */
    assert_int_equal(ebb__host_memory_at(tree->root), MIB(40));
    /* More in use than allowed: nothing is left, and nothing wraps. */
    put(tree, "/sys/fs/cgroup/user.slice/memory.current", "9999999999\n");
    assert_int_equal(ebb__host_memory_at(tree->root), 0);
}

static void v2_root_of_a_container(void **state) {
    const test_tree *tree = *state;
    put(tree, "/proc/self/cgroup", "0::/\n");
    put(tree, "/sys/fs/cgroup/memory.max", "104857600\n");
    put(tree, "/sys/fs/cgroup/memory.current", "0\n");
    put(tree, "/sys/fs/cgroup/cpu.max", "50000 100000\n");
    assert_int_equal(ebb__host_memory_at(tree->root), MIB(100));
    assert_int_equal(ebb__host_cores_at(tree->root), 1);
}

static void v1_limits_are_read(void **state) {
    const test_tree *tree = *state;
    put(tree, "/proc/self/cgroup",
        "11:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n2:cpuset:/docker/abc\n");
    put(tree, "/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
    put(tree, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "73400320\n"); /* 70 MiB */
    put(tree, "/sys/fs/cgroup/memory/memory.usage_in_bytes", "20971520\n"); /* 20 MiB */
    put(tree, "/sys/fs/cgroup/memory/memory.stat", "cache 3\ntotal_inactive_file 10485760\n");
    assert_int_equal(ebb__host_memory_at(tree->root), MIB(60));
    put(tree, "/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1\n");
    put(tree, "/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
    int free_cores = ebb__host_cores_at(tree->root);
    put(tree, "/sys/fs/cgroup/cpu/docker/cpu.cfs_quota_us", "100000\n");
    put(tree, "/sys/fs/cgroup/cpu/docker/cpu.cfs_period_us", "100000\n");
    assert_true(free_cores >= 1);
    assert_int_equal(ebb__host_cores_at(tree->root), 1);
}

static void garbage_sets_no_limit(void **state) {
    const test_tree *tree = *state;
    char line[6000];
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    put(tree, "/proc/self/cgroup", line);
    put(tree, "/proc/meminfo", "MemAvailable: many\n");
    put(tree, "/sys/fs/cgroup/memory.max", "");
    put(tree, "/sys/fs/cgroup/cpu.max", "100000\n");
    assert_true(ebb__host_memory_at(tree->root) > MIB(1));
    assert_true(ebb__host_cores_at(tree->root) >= 1);
    put(tree, "/proc/self/cgroup", "0::/\n");
    put(tree, "/sys/fs/cgroup/memory.max", "99999999999999999999999999\n");
    put(tree, "/sys/fs/cgroup/cpu.max", "100000 0\n");
    assert_true(ebb__host_memory_at(tree->root) > MIB(1));
    assert_true(ebb__host_cores_at(tree->root) >= 1);
}

static void affinity_limits_cores(void **state) {
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    size_t first = 0;
    while (!CPU_ISSET(first, &before)) {
        first++;
    }
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(ebb__host_cores(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_true(ebb__host_cores() <= CPU_COUNT(&before));
}

/* Sanitizers map terabytes, which no address-space limit allows. */
static void address_space_limit_counts(void **state) {
    (void)state;
#if defined(EBB_SANITIZED)
    print_message("SKIP: an address-space limit cannot hold under a sanitizer\n");
    skip();
#else
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    struct rlimit tight = {.rlim_cur = MIB(512), .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    uint64_t left = ebb__host_memory();
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_true(left > 0 && left < MIB(512));
#endif
}

static void real_machine_is_sane(void **state) {
    (void)state;
    assert_true(ebb__host_memory() > MIB(1));
    assert_true(ebb__host_cores() >= 1);
    const host_cpu *cpu = ebb__host_cpu();
    assert_ptr_equal(cpu, ebb__host_cpu());
    assert_true(cpu->model[0] != '\0' && strlen(cpu->model) < sizeof cpu->model);
    double a = ebb__clock_seconds(), b = ebb__clock_seconds();
    assert_true(b >= a && a > 0.0);
    uint64_t peak = ebb__host_peak_resident();
    if (peak > 0) {
        size_t bytes = (size_t)MIB(32);
        volatile char *block = malloc(bytes);
        assert_non_null((void *)(uintptr_t)block);
        for (size_t i = 0; i < bytes; i += 1024) {
            block[i] = 1;
        }
        assert_true(ebb__host_peak_resident() >= MIB(32));
        free((void *)(uintptr_t)block);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(nothing_readable_sets_no_limit),
        TEST(meminfo_is_read),
        TEST(v2_tightest_ancestor_decides),
        TEST(v2_root_of_a_container),
        TEST(v1_limits_are_read),
        TEST(garbage_sets_no_limit),
        cmocka_unit_test(affinity_limits_cores),
        cmocka_unit_test(address_space_limit_counts),
        cmocka_unit_test(real_machine_is_sane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
