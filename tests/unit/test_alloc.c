/* Counted memory: counters return to zero, sizes are checked, the n-th call can be made to fail,
 * guard pages really fault. */
#include "base/alloc.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int set_up(void **state) {
    ebb_ctx *ctx;
    if (ebb_ctx_new(&ctx) != EBB_OK) {
        return -1;
    }
    *state = ctx;
    return 0;
}

/* Whatever a test did, nothing may be left. */
static int tear_down(void **state) {
    ebb_ctx *ctx = *state;
    bool clean = ctx->mem.live_bytes == 0 && ctx->mem.live_blocks == 0;
    ebb_ctx_free(ctx);
    return clean ? 0 : -1;
}

static void all_zero(const void *block, size_t bytes) {
    const unsigned char *at = block;
    for (size_t i = 0; i < bytes; i++) {
        assert_int_equal(at[i], 0);
    }
}

static void blocks_are_counted_zeroed_aligned(void **state) {
    ebb_ctx *ctx = *state;
    char *block[64];
    uint64_t expected = 0;
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal(ebb__alloc(ctx, i, 3, &block[i]), EBB_OK);
        assert_non_null(block[i]);
        assert_int_equal((uintptr_t)block[i] % 64, 0);
        all_zero(block[i], i * 3);
        memset(block[i], 0xab, i * 3);
        expected += i * 3;
        assert_int_equal(ctx->mem.live_bytes, expected);
        assert_int_equal(ctx->mem.live_blocks, i + 1);
    }
    for (size_t i = 0; i < 64; i++) {
        ebb__free(ctx, block[i]);
    }
    ebb__free(ctx, NULL);
    assert_int_equal(ctx->mem.live_bytes, 0);
    assert_int_equal(ctx->mem.peak_bytes, expected);
    assert_int_equal(ctx->mem.calls, 64);
}

static void realloc_keeps_and_zeroes(void **state) {
    ebb_ctx *ctx = *state;
    uint32_t *items = NULL;
    assert_int_equal(ebb__realloc(ctx, items, 10, sizeof *items, &items), EBB_OK);
    for (uint32_t i = 0; i < 10; i++) {
        items[i] = i + 1;
    }
    assert_int_equal(ebb__realloc(ctx, items, 1000, sizeof *items, &items), EBB_OK);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(items[i], i + 1);
    }
    all_zero(items + 10, 990 * sizeof *items);
    assert_int_equal(ebb__realloc(ctx, items, 3, sizeof *items, &items), EBB_OK);
    assert_int_equal(items[2], 3);
    assert_int_equal(ctx->mem.live_bytes, 3 * sizeof *items);

    uint32_t *before = items;
    ctx->mem.fail_at = 1;
    assert_int_equal(ebb__realloc(ctx, items, 100, sizeof *items, &items), EBB_NOMEM);
    assert_ptr_equal(items, before);
    assert_int_equal(items[2], 3);
    ebb__free(ctx, items);
}

static void absurd_sizes_are_refused(void **state) {
    ebb_ctx *ctx = *state;
    void *block = ctx;
    alloc_region region;
    ebb__region_init(&region, ctx);
    const size_t counts[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 8 + 1, (size_t)PTRDIFF_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        assert_int_equal(ebb__alloc(ctx, counts[i], 8, &block), EBB_NOMEM);
        assert_null(block);
        assert_int_equal(ebb__alloc(ctx, 1, counts[i], &block), EBB_NOMEM);
        assert_int_equal(ebb__map(ctx, counts[i], &block), EBB_NOMEM);
        assert_null(block);
        assert_int_equal(ebb__region_alloc(&region, counts[i], 8, &block), EBB_NOMEM);
        assert_int_equal(ebb__region_alloc(&region, 1, counts[i], &block), EBB_NOMEM);
    }
    assert_string_not_equal(ebb_last_error(ctx), "");
    ebb__region_fini(&region);
}

static void nth_call_fails_once_or_for_good(void **state) {
    ebb_ctx *ctx = *state;
    for (int sticky = 0; sticky < 2; sticky++) {
        ctx->mem.fail_at = 3;
        ctx->mem.fail_sticky = sticky == 1;
        for (int call = 1; call <= 5; call++) {
            void *block;
            bool fails = call == 3 || (call > 3 && sticky == 1);
            assert_int_equal(ebb__alloc(ctx, 1, 8, &block), fails ? EBB_NOMEM : EBB_OK);
            ebb__free(ctx, block);
        }
        ctx->mem.fail_at = 0;
    }
}

static void strings_are_copied(void **state) {
    ebb_ctx *ctx = *state;
    char *copy;
    assert_int_equal(ebb__strdup(ctx, "rnn.l0", &copy), EBB_OK);
    assert_string_equal(copy, "rnn.l0");
    assert_int_equal(ctx->mem.live_bytes, 7);
    ebb__free(ctx, copy);
}

/* Whether touching `at` kills a child with a memory fault. */
static bool faults(volatile char *at) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL); /* not a sanitizer's handler */
        (void)signal(SIGBUS, SIG_DFL);
        *at = 1;
        _exit(0);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFSIGNALED(how);
}

static void mappings_have_guards(void **state) {
    ebb_ctx *ctx = *state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 2 * page + 1;
    char *block;
    assert_int_equal(ebb__map(ctx, bytes, &block), EBB_OK);
    assert_int_equal((uintptr_t)block % page, 0);
    all_zero(block, bytes);
    assert_int_equal(ctx->mem.live_bytes, bytes);
    assert_false(faults(block));
    assert_false(faults(block + bytes - 1));
    assert_true(faults(block - 1));
    assert_true(faults(block + 3 * page));
    ebb__unmap(ctx, block, bytes);
    ebb__unmap(ctx, NULL, bytes);
    assert_int_equal(ebb__map(ctx, 0, &block), EBB_OK);
    assert_non_null(block);
    ebb__unmap(ctx, block, 0);
}

static void regions_hold_many_sizes(void **state) {
    ebb_ctx *ctx = *state;
    enum { COUNT = 2000 };
    static unsigned char *block[COUNT];
    static size_t bytes[COUNT];
    alloc_region region;
    ebb__region_init(&region, ctx);
    uint32_t random = 1;
    size_t total = 0;
    for (size_t i = 0; i < COUNT; i++) {
        random = random * 1664525u + 1013904223u;
        bytes[i] = random >> 28 == 0 ? random >> 12 : random >> 22; /* now and then up to 64 KiB */
        if (i == 777) {
            bytes[i] = 5 << 20; /* more than a chunk */
        }
        total += bytes[i];
        assert_int_equal(ebb__region_alloc(&region, bytes[i], 1, &block[i]), EBB_OK);
        assert_int_equal((uintptr_t)block[i] % 16, 0);
        all_zero(block[i], bytes[i]);
        memset(block[i], (int)(i % 251) + 1, bytes[i]);
    }
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t k = 0; k < bytes[i]; k++) {
            assert_int_equal(block[i][k], i % 251 + 1);
        }
    }
    assert_true(ctx->mem.live_bytes < total + total / 4); /* chunks are full */
    assert_true(ctx->mem.live_blocks < 500);
    ebb__region_fini(&region);
    assert_int_equal(ctx->mem.live_bytes, 0);
    ebb__region_fini(&region);
}

static void region_chunk_failure_is_clean(void **state) {
    ebb_ctx *ctx = *state;
    alloc_region region;
    void *block;
    ebb__region_init(&region, ctx);
    ctx->mem.fail_at = 1;
    assert_int_equal(ebb__region_alloc(&region, 1, 1, &block), EBB_NOMEM);
    assert_int_equal(ebb__region_alloc(&region, 1, 1, &block), EBB_OK);
    ctx->mem.fail_at = 1;
    assert_int_equal(ebb__region_alloc(&region, 1, 1 << 20, &block), EBB_NOMEM);
    assert_int_equal(ebb__region_alloc(&region, 1, 1 << 20, &block), EBB_OK);
    ebb__region_fini(&region);
}

static void region_arrays_grow(void **state) {
    ebb_ctx *ctx = *state;
    alloc_region region;
    int *items = NULL;
    char *name;
    size_t capacity = 0;
    ebb__region_init(&region, ctx);
    for (int i = 0; i < 100000; i++) {
        assert_int_equal(ebb__region_grow(&region, &items, &capacity, (size_t)i + 1, sizeof *items),
                         EBB_OK);
        assert_true(capacity > (size_t)i);
        items[i] = i;
    }
    for (int i = 0; i < 100000; i++) {
        assert_int_equal(items[i], i);
    }
    int *before = items;
    size_t kept = capacity;
    assert_int_equal(ebb__region_grow(&region, &items, &capacity, SIZE_MAX, sizeof *items),
                     EBB_NOMEM);
    assert_ptr_equal(items, before);
    assert_int_equal(capacity, kept);
    assert_int_equal(ebb__region_strdup(&region, "label", &name), EBB_OK);
    assert_string_equal(name, "label");
    ebb__region_fini(&region);
}

/* An array grows by taking its pages along: no copy stays behind. */
static void large_arrays_grow_alone(void **state) {
    enum { MOST = 1 << 20 };
    ebb_ctx *ctx = *state;
    alloc_region region;
    uint32_t *items = NULL;
    size_t capacity = 0;
    ebb__region_init(&region, ctx);
    for (uint32_t i = 0; i < MOST; i++) {
        assert_int_equal(ebb__region_grow(&region, &items, &capacity, i + 1, sizeof *items),
                         EBB_OK);
        assert_int_equal(items[capacity - 1], 0);
        items[i] = i + 1;
    }
    assert_true(ctx->mem.live_bytes < MOST * sizeof *items * 5 / 4 + (512 << 10));
    assert_int_equal(ebb__region_shrink(&region, &items, &capacity, 50000, sizeof *items), EBB_OK);
    assert_int_equal(capacity, 50000);
    assert_true(ctx->mem.live_bytes < 50000 * sizeof *items + (512 << 10));
    for (uint32_t i = 0; i < 50000; i++) {
        assert_int_equal(items[i], i + 1);
    }
    assert_int_equal(ebb__region_grow(&region, &items, &capacity, 60000, sizeof *items), EBB_OK);
    all_zero((unsigned char *)(items + 50000), 10000 * sizeof *items);
    ctx->mem.fail_at = 1;
    size_t kept = capacity;
    assert_int_equal(ebb__region_grow(&region, &items, &capacity, MOST, sizeof *items), EBB_NOMEM);
    assert_int_equal(capacity, kept);
    assert_int_equal(items[49999], 50000);
    ebb__region_fini(&region);
}

/* Regions may be bounded: what goes beyond is refused like memory that is not there. */
static void bounded_regions(void **state) {
    ebb_ctx *ctx = *state;
    alloc_region region;
    unsigned char *block = NULL;
    size_t capacity = 0;
    ebb__region_init(&region, ctx);
    ctx->mem.most = 1 << 20;
    assert_int_equal(ebb__region_alloc(&region, 200 << 10, 1, &block), EBB_OK);
    assert_false(ctx->mem.over);
    assert_int_equal(ebb__region_alloc(&region, 900 << 10, 1, &block), EBB_NOMEM);
    assert_true(ctx->mem.over);
    ctx->mem.over = false;
    block = NULL;
    assert_int_equal(ebb__region_grow(&region, &block, &capacity, 300 << 10, 1), EBB_OK);
    assert_int_equal(ebb__region_grow(&region, &block, &capacity, 900 << 10, 1), EBB_NOMEM);
    assert_true(ctx->mem.over);
    ctx->mem.most = 0;
    assert_int_equal(ebb__region_grow(&region, &block, &capacity, 900 << 10, 1), EBB_OK);
    ebb__region_fini(&region);
}

/* What is kept for later regions is little. */
static void spare_chunks_are_few(void **state) {
    ebb_ctx *ctx = *state;
    uint32_t random = 7;
    for (int round = 0; round < 200; round++) {
        alloc_region region;
        ebb__region_init(&region, ctx);
        for (int i = 0; i < 20; i++) {
            unsigned char *block;
            random = random * 1664525u + 1013904223u;
            size_t bytes = random >> 12;
            assert_int_equal(ebb__region_alloc(&region, bytes, 1, &block), EBB_OK);
            all_zero(block, bytes);
            memset(block, 0xa5, bytes);
            assert_true(ctx->mem.spare_bytes <= 1 << 20);
        }
        ebb__region_fini(&region);
    }
    assert_true(ctx->mem.spare_bytes > 0);
    ebb__region_trim(ctx);
    assert_int_equal(ctx->mem.spare_bytes, 0);
}

static void first_failure_is_the_one_told(void **state) {
    ebb_ctx *ctx = *state;
    assert_string_equal(ebb_last_error(ctx), "");
    assert_int_equal(ebb__fail(ctx, EBB_DATA, "first %d", 1), EBB_DATA);
    assert_int_equal(ebb__fail(ctx, EBB_IO, "second"), EBB_IO);
    assert_string_equal(ebb_last_error(ctx), "first 1");
    ebb__ctx_clear(ctx);
    assert_string_equal(ebb_last_error(ctx), "");
    assert_string_equal(ebb_status_text(EBB_BUDGET), "does not fit the memory budget");
    assert_int_equal(EBB_LOST, 9); /* also the command's exit code */
    assert_string_equal(ebb_status_text(EBB_LOST), "a process was lost");
    assert_string_equal(ebb_status_text((ebb_status)1234), "unknown status");
}

static void keep_line(void *user, ebb_log_level level, const char *line) {
    assert_int_equal(level, EBB_LOG_WARN);
    strcpy(user, line);
}

static void keep_progress(void *user, const char *what, uint64_t done, uint64_t total) {
    assert_string_equal(what, "train");
    *(uint64_t *)user = done * 100 + total;
}

static void callbacks_are_called(void **state) {
    ebb_ctx *ctx = *state;
    char line[64] = "";
    uint64_t seen = 0;
    ebb__log(ctx, EBB_LOG_WARN, "nobody listens");
    ebb__progress(ctx, "train", 1, 2);
    ebb_ctx_on_log(ctx, keep_line, line);
    ebb_ctx_on_progress(ctx, keep_progress, &seen);
    ebb__log(ctx, EBB_LOG_WARN, "step %d", 7);
    ebb__progress(ctx, "train", 3, 9);
    assert_string_equal(line, "step 7");
    assert_int_equal(seen, 309);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* Zeroed or filled with -1, and refused like any other. */
static void several_arrays(void **state) {
    ebb_ctx *ctx = *state;
    alloc_region region;
    int32_t *zeros = NULL, *nones = NULL;
    double *huge = NULL;
    ebb__region_init(&region, ctx);
    assert_int_equal(REGION_ARRAYS(&region, ARRAY(zeros, 1000), ARRAY_NONE(nones, 3)), EBB_OK);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(zeros[i], 0);
    }
    assert_true(nones[0] == -1 && nones[1] == -1 && nones[2] == -1);
    nones = NULL;
    assert_int_equal(REGION_ARRAYS(&region, ARRAY(huge, SIZE_MAX / 4), ARRAY_NONE(nones, 3)),
                     EBB_NOMEM);
    assert_null(nones); /* what comes behind is not asked for */
    ebb__region_fini(&region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(blocks_are_counted_zeroed_aligned),
        TEST(realloc_keeps_and_zeroes),
        TEST(absurd_sizes_are_refused),
        TEST(nth_call_fails_once_or_for_good),
        TEST(strings_are_copied),
        TEST(mappings_have_guards),
        TEST(regions_hold_many_sizes),
        TEST(region_chunk_failure_is_clean),
        TEST(region_arrays_grow),
        TEST(large_arrays_grow_alone),
        TEST(bounded_regions),
        TEST(several_arrays),
        TEST(spare_chunks_are_few),
        TEST(first_failure_is_the_one_told),
        TEST(callbacks_are_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
