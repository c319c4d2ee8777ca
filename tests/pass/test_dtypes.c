/* test_dtypes.c - every dtype of the list, whether an op computes with it or not, travels as f32
 * does: through graph text, slices, joins, regrouping and copies, plans, steps on both devices,
 * and files. */
#include "support/far.h"
#include "support/twin.h"

#include "run/tensors.h"

#include <ctype.h>
#include <stdio.h>
#include <unistd.h>

enum { CARRIED = 1U << IR_STATE, MOST_BYTES = 6 * 5 * 8, SEED = 5 };

/* A state that a step makes of itself and of an input, beside a parameter that is trained. Rows of
 * five elements of one byte lie at odd addresses. $ stands for the dtype. */
static const char moved[] = "param %30 f32[3,5] \"w\"\n"
                            "%31:f32[3,5] = mul %30 %30\n"
                            "%32:f32[1] = sum_all %31\n"
                            "loss %32\n"
                            "state %0 $[6,5] \"s\" next=%9\n"
                            "input %1 $[6,5] \"x\"\n"
                            "%2:$[6,3] = slice %0 {axis=1 begin=1 len=3}\n"
                            "%3:$[6,2] = slice %1 {axis=1 begin=0 len=2}\n"
                            "%4:$[6,5] = concat %3 %2 {axis=1}\n"
                            "%5:$[6,5] = regroup %4 {outer=2 inner=3}\n"
                            "%6:$[2,5] = slice %5 {axis=0 begin=4 len=2}\n"
                            "%7:$[4,5] = slice %1 {axis=0 begin=1 len=4}\n"
                            "%8:$[6,5] = stack %6 %7\n"
                            "%9:$[6,5] = copy %8\n"
                            "output %5 \"y\"\n";

static void make_graph(ebb_ctx *ctx, ir_dtype dtype, ir_graph *g) {
    char text[2 * sizeof moved];
    size_t n = 0;
    for (const char *p = moved; *p != '\0'; p++) {
        const char one[2] = {*p, '\0'}, *part = *p == '$' ? ebb__ir_dtype_name(dtype) : one;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s", part);
    }
    assert_true(n < sizeof text);
    test_parse(ctx, text, g);
    assert_int_equal(g->values[ebb__ir_find(g, "s")].type.dtype, dtype);
}

static void steps_have_the_bits_of_the_interpreter(void **state) {
    (void)state;
    static const grad_update_settings update = {.clip = 0.5F};
    for (int d = 0; d < IR_DTYPES; d++) {
        ebb_ctx *ctx = test_ctx_new();
        ir_graph g;
        make_graph(ctx, (ir_dtype)d, &g);
        pass_config config = {.members = 2, .update = update};
        plan_request request = {.name = "dtypes", .graph = &g, .training = true};
        test_run_equal(test_compile(ctx, &request, &config), &g, true, &update, SEED, 4);
        ebb__ir_fini(&g);
        test_ctx_free(ctx);
    }
}

/* ---- files, and from one device to the other ---- */

static run_session *session_on(ebb_ctx *ctx, const device *dev, ir_dtype dtype) {
    ir_graph g;
    ebb_plan *plan = NULL;
    run_session *session = NULL;
    make_graph(ctx, dtype, &g);
    plan_request request = {.name = "dtypes", .graph = &g, .training = false};
    plan_options options = {.dev = dev, .members = 2, .budget = UINT64_MAX};
    assert_ok(ctx, ebb__plan_make(ctx, &request, 1, NULL, 0, &options, &plan));
    assert_ok(ctx, ebb__run_new(ctx, plan, &session));
    ebb__ir_fini(&g);
    return session;
}

/* A step from an input of bytes of any kind; the state after it, and the output. */
static void step(ebb_ctx *ctx, run_session *session, unsigned char got[2][MOST_BYTES]) {
    unsigned char x[MOST_BYTES];
    test_dice dice = {SEED};
    for (size_t i = 0; i < sizeof x; i++) {
        x[i] = (unsigned char)test_roll(&dice);
    }
    memset(got, 0, (size_t)2 * MOST_BYTES);
    assert_ok(ctx, ebb__run_write(session, ebb__run_find(session, "x"), x));
    assert_ok(ctx, ebb__run_step(session, 0));
    assert_ok(ctx, ebb__run_read(session, ebb__run_find(session, "s"), got[0]));
    assert_ok(ctx, ebb__run_read(session, ebb__run_find_output(session, 0, "y"), got[1]));
}

static void save(ebb_ctx *ctx, run_session *session, const char *path) {
    alloc_region region;
    st_entry *entries = NULL;
    size_t n = 0;
    ebb__region_init(&region, ctx);
    assert_ok(ctx, ebb__tensors_list(session, CARRIED, &region, &entries, &n));
    assert_int_equal(n, 1);
    assert_ok(ctx, ebb__safetensors_write(ctx, path, entries, n, NULL, 0, NULL));
    ebb__region_fini(&region);
}

/* The file calls it by the name that the graph has for it, in capitals. */
static void expect_name(const st_reader *reader, ir_dtype dtype) {
    const char *here = ebb__ir_dtype_name(dtype);
    const char *there = ebb__safetensors_dtype_name(ebb__safetensors_find(reader, "s")->dtype);
    assert_int_equal(strlen(here), strlen(there));
    for (size_t i = 0; here[i] != '\0'; i++) {
        assert_int_equal(toupper((unsigned char)here[i]), there[i]);
    }
}

static void files_carry_it_to_another_device(void **state) {
    (void)state;
    const char *folder = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    char path[512];
    (void)snprintf(path, sizeof path, "%s/test_dtypes_%d.safetensors", folder, (int)getpid());
    for (int d = 0; d < IR_DTYPES; d++) {
        ebb_ctx *ctx = test_ctx_new();
        unsigned char near[2][MOST_BYTES], away[2][MOST_BYTES];
        st_reader reader;
        run_session *session = session_on(ctx, NULL, (ir_dtype)d);
        step(ctx, session, near);
        save(ctx, session, path);
        step(ctx, session, near);
        ebb__run_free(session);
        assert_ok(ctx, ebb__safetensors_open(ctx, path, &reader));
        expect_name(&reader, (ir_dtype)d);
        session = session_on(ctx, test_far_device(), (ir_dtype)d);
        assert_ok(ctx, ebb__tensors_load(session, CARRIED, &reader));
        step(ctx, session, away);
        assert_memory_equal(away, near, sizeof near);
        ebb__run_free(session);
        session = session_on(ctx, NULL, (ir_dtype)((d + 1) % IR_DTYPES));
        assert_refused(ctx, ebb__tensors_load(session, CARRIED, &reader), EBB_MODEL,
                       "another type");
        ebb__run_free(session);
        ebb__safetensors_close(&reader);
        test_ctx_free(ctx);
    }
    assert_int_equal(unlink(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_have_the_bits_of_the_interpreter),
                                       cmocka_unit_test(files_carry_it_to_another_device)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
