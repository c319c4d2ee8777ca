/* test_api_device.c - graphs of ebb.h on a device that options name: the CPU's bits, the device's
 * bytes, and a sentence where there is no such device. Without a driver the first part is skipped,
 * loudly. */
#include "api_help.h"

enum { STEPS = 4 };

typedef struct listed {
    int n, usable;
    char first[32], second[32]; /* the CPU; the first other one that can be used */
} listed;

static void note(void *user, const ebb_device *found) {
    listed *all = user;
    bool usable = found->why_not[0] == '\0';
    assert_non_null(found->what);
    if (all->n++ == 0) {
        (void)snprintf(all->first, sizeof all->first, "%s", found->name);
    } else if (usable && all->usable++ == 0) {
        assert_true(found->memory_bytes >= found->largest_bytes && found->largest_bytes > 0);
        (void)snprintf(all->second, sizeof all->second, "%s", found->name);
    }
}

static listed list_devices(ebb_ctx *ctx) {
    listed all = {0};
    check(ctx, ebb_devices(ctx, NULL, note, &all));
    assert_string_equal(all.first, "cpu");
    return all;
}

typedef struct trained {
    double losses[STEPS];
    float table[V * E], out[V * H];
    uint64_t peak, least, measured;
} trained;

static void train_lm(ebb_ctx *ctx, const char *device, uint64_t memory, trained *end) {
    ebb_options options = ebb_options_default();
    ebb_plan_info info;
    options.threads = 1;
    options.optimizer = EBB_ADAM;
    options.clip = 0.5;
    options.device = device;
    options.memory = memory;
    ebb_program *p = compile(ctx, lm_graph(ctx, 0.3), &options);
    check(ctx, ebb_program_init(p, 7));
    for (int i = 0; i < STEPS; i++) {
        feed(ctx, p);
        check(ctx, ebb_program_run(p, 0.01));
        end->losses[i] = ebb_program_loss(p);
    }
    check(ctx, ebb_program_get(p, "table", end->table, sizeof end->table));
    check(ctx, ebb_program_get(p, "out", end->out, sizeof end->out));
    check(ctx, ebb_program_plan(p, &info));
    end->peak = info.peak_bytes;
    end->least = info.least_bytes;
    end->measured = ebb_program_measured(p);
    ebb_program_free(p);
}

static void the_same_bits(void **state) {
    ebb_ctx *ctx = *state;
    listed all = list_devices(ctx);
    static trained cpu, other;
    if (all.usable == 0) {
        print_message("SKIPPED: no device that can be used\n");
        return;
    }
    const char *const names[] = {"cpu", "opencl", all.second};
    train_lm(ctx, NULL, 0, &cpu);
    for (int i = 0; i < 3; i++) {
        for (int least = 0; least < 2; least++) {
            train_lm(ctx, names[i], least ? other.least : 0, &other);
            assert_memory_equal(other.losses, cpu.losses, sizeof cpu.losses);
            assert_memory_equal(other.table, cpu.table, sizeof cpu.table);
            assert_memory_equal(other.out, cpu.out, sizeof cpu.out);
            assert_int_equal(other.measured, other.peak);
            assert_true(!least || other.peak == other.least);
        }
    }
}

/* The budget is the device's, and its memory is out of the host's reach. */
static void a_memory_of_its_own(void **state) {
    ebb_ctx *ctx = *state;
    ebb_options options = ebb_options_default();
    ebb_plan_info info;
    ebb_program *p = NULL;
    void *data = NULL;
    if (list_devices(ctx).usable == 0) {
        print_message("SKIPPED: no device that can be used\n");
        return;
    }
    ebb_graph *g = lm_graph(ctx, 0);
    options.device = "opencl";
    check(ctx, ebb_graph_plan(g, &options, &info));
    options.memory = info.least_bytes - 1;
    assert_int_equal(ebb_compile(g, &options, &p), EBB_BUDGET);
    assert_null(p);
    assert_int_equal(ebb_least_bytes(ctx), info.least_bytes);
    options.memory = info.least_bytes;
    p = compile(ctx, g, &options);
    assert_int_equal(ebb_program_data(p, "table", &data, NULL), EBB_USAGE);
    ebb_program_free(p);
}

static void no_such_device(void **state) {
    ebb_ctx *ctx = *state;
    ebb_graph *g = lm_graph(ctx, 0);
    ebb_options options = ebb_options_default();
    ebb_plan_info info;
    ebb_program *p = NULL;
    options.device = "tpu";
    assert_int_equal(ebb_compile(g, &options, &p), EBB_USAGE);
    assert_true(says(ctx, "tpu") && p == NULL);
    assert_int_equal(ebb_graph_plan(g, &options, &info), EBB_USAGE);
    options.device = "opencl:99.99";
    assert_int_equal(ebb_compile(g, &options, &p), EBB_USAGE);
    assert_int_equal(ebb_devices(ctx, NULL, NULL, NULL), EBB_USAGE);
    ebb_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_bits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_memory_of_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_such_device, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
