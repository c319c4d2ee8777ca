/* The public interface when memory or the disk gives out: every n-th allocation from the first
 * builder to the saved file, every n-th file operation of a save. Each failure must be reported by
 * its status and sentence, leave nothing allocated and no handle half made. */
#include "base/ctx.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { T = 2, V = 3, H = 2 };
static const int32_t ids[T] = {0, 2}, next[T] = {2, -1};

static void file_name(char *path, size_t bytes) {
    const char *folder = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    (void)snprintf(path, bytes, "%s/fault_api_%d.safetensors", folder, (int)getpid());
}

static void build(ebb_graph *g) {
    ebb_value hs[T], h0 = ebb_state(g, "h", EBB_DIMS(1, H)), h = h0;
    ebb_value c0 = ebb_state(g, "c", EBB_DIMS(1, H)), c = c0;
    ebb_layer(g, "rnn");
    ebb_value x = ebb_input_i32(g, "ids", EBB_DIMS(T));
    ebb_value table = ebb_param(g, "table", EBB_DIMS(V, H));
    ebb_value wx = ebb_param(g, "wx", EBB_DIMS(4 * H, H));
    ebb_value wh = ebb_param(g, "wh", EBB_DIMS(4 * H, H));
    ebb_value bias = ebb_param(g, "bias", EBB_DIMS(4 * H));
    for (int t = 0; t < T; t++) {
        ebb_time(g, t);
        ebb_value e = ebb_embed(g, table, ebb_slice(g, x, 0, t, 1));
        ebb_value z = ebb_linear(g, h, wh, ebb_linear(g, e, wx, bias));
        hs[t] = ebb_dropout(g, ebb_lstm_cell(g, z, c, &h, &c), 0.2, "drop");
    }
    ebb_carry(g, h0, h);
    ebb_carry(g, c0, c);
    ebb_value logits = ebb_linear(g, ebb_stack(g, hs, T), table, EBB_NO_VALUE);
    ebb_output(g, "logits", logits);
    ebb_loss(g, ebb_cross_entropy(g, logits, ebb_input_i32(g, "next", EBB_DIMS(T))));
}

/* All of it, with one status; both handles freed. */
static ebb_status run_all(ebb_ctx *ctx, const char *path) {
    ebb_graph *g = (ebb_graph *)ctx;
    ebb_program *p = NULL;
    ebb_plan_info info;
    ebb_options options = ebb_options_default();
    options.optimizer = EBB_ADAM;
    options.threads = 2;
    options.clip = 1;
    ebb_status status = ebb_graph_new(ctx, &g);
    if (status != EBB_OK) {
        assert_null(g);
        return status;
    }
    build(g);
    TRY_OUT(ebb_graph_plan(g, &options, &info));
    p = (ebb_program *)ctx;
    status = ebb_compile(g, &options, &p);
    if (status != EBB_OK) {
        assert_null(p);
        goto out;
    }
    TRY_OUT(ebb_program_init(p, 1));
    TRY_OUT(ebb_program_set(p, "ids", ids, sizeof ids));
    TRY_OUT(ebb_program_set(p, "next", next, sizeof next));
    for (int i = 0; i < 2; i++) {
        TRY_OUT(ebb_program_run(p, 0.1));
    }
    TRY_OUT(ebb_program_save(p, path));
    TRY_OUT(ebb_program_load(p, path));
out:
    ebb_program_free(p);
    ebb_graph_free(g);
    return status;
}

static void every_allocation_may_fail(void **state) {
    bool sticky = *state != NULL;
    char path[512];
    ebb_status status = EBB_NOMEM;
    uint64_t n = 0;
    file_name(path, sizeof path);
    while (status != EBB_OK) {
        ebb_ctx *ctx;
        assert_int_equal(ebb_ctx_new(&ctx), EBB_OK);
        ctx->mem.fail_at = ++n;
        ctx->mem.fail_sticky = sticky;
        status = run_all(ctx, path);
        if (status != EBB_OK && (status != EBB_NOMEM || ebb_last_error(ctx)[0] == '\0')) {
            fail_msg("allocation %llu: %s: '%s'", (unsigned long long)n, ebb_status_text(status),
                     ebb_last_error(ctx));
        }
        if (ctx->mem.live_bytes != 0 || ctx->mem.live_blocks != 0) {
            fail_msg("allocation %llu: %llu bytes left", (unsigned long long)n,
                     (unsigned long long)ctx->mem.live_bytes);
        }
        ebb_ctx_free(ctx);
    }
    assert_true(n > 50); /* else the hook did not see them */
    assert_int_equal(unlink(path), 0);
}

/* A save that fails leaves a whole file: the one before, or the new one if only the sync of the
 * folder after renaming failed. */
static void every_write_may_fail(void **state) {
    (void)state;
    char path[512];
    float before[V * H], fresh[V * H], found[V * H];
    ebb_ctx *ctx;
    ebb_graph *g;
    ebb_program *p;
    ebb_status status = EBB_IO;
    uint64_t n = 0, kept = 0;
    file_name(path, sizeof path);
    assert_int_equal(ebb_ctx_new(&ctx), EBB_OK);
    assert_int_equal(ebb_graph_new(ctx, &g), EBB_OK);
    build(g);
    assert_int_equal(ebb_compile(g, NULL, &p), EBB_OK);
    ebb_graph_free(g);
    while (status != EBB_OK) {
        assert_int_equal(ebb_program_init(p, 1), EBB_OK);
        assert_int_equal(ebb_program_get(p, "table", before, sizeof before), EBB_OK);
        assert_int_equal(ebb_program_save(p, path), EBB_OK);
        assert_int_equal(ebb_program_init(p, 2), EBB_OK);
        assert_int_equal(ebb_program_get(p, "table", fresh, sizeof fresh), EBB_OK);
        ctx->file.fail_at = ++n;
        ctx->file.fail_errno = ENOSPC;
        status = ebb_program_save(p, path);
        ctx->file.fail_at = 0;
        assert_true(status == EBB_OK || status == EBB_IO);
        assert_true(status == EBB_OK || ebb_last_error(ctx)[0] != '\0');
        assert_int_equal(ebb_program_load(p, path), EBB_OK);
        assert_int_equal(ebb_program_get(p, "table", found, sizeof found), EBB_OK);
        bool old = memcmp(found, before, sizeof found) == 0;
        assert_true(old || memcmp(found, fresh, sizeof found) == 0);
        assert_true(status == EBB_IO || !old);
        kept += old;
    }
    assert_true(kept >= 3); /* open, write, sync, rename */
    assert_int_equal(unlink(path), 0);
    ebb_program_free(p);
    assert_int_equal(ctx->mem.live_bytes, 0);
    ebb_ctx_free(ctx);
}

int main(void) {
    static char sticky;
    const struct CMUnitTest tests[] = {
        {"every_allocation_may_fail", every_allocation_may_fail, NULL, NULL, NULL},
        {"every_allocation_may_fail_from_then_on", every_allocation_may_fail, NULL, NULL, &sticky},
        cmocka_unit_test(every_write_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
