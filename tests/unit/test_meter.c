/* test_meter.c - processor seconds grow with work; joules from a tree of files that looks like the
 * system's, also where counters wrap, vanish or hold nonsense. */
#include "data_help.h"

#include "train/meter.h"

#include <sys/stat.h>

static void put(const char *root, int package, const char *name, const char *text) {
    char path[512];
    static const char *const folders[] = {"/sys", "/sys/class", "/sys/class/powercap"};
    for (int i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s%s", root, folders[i]);
        (void)mkdir(path, 0777);
    }
    (void)snprintf(path, sizeof path, "%s/sys/class/powercap/intel-rapl:%d", root, package);
    (void)mkdir(path, 0777);
    (void)snprintf(path, sizeof path, "%s/sys/class/powercap/intel-rapl:%d/%s", root, package,
                   name);
    help_write_text(path, text);
}

static void remove_tree(const char *root) {
    static const char *const names[] = {"intel-rapl:0/energy_uj", "intel-rapl:1/energy_uj",
                                        "intel-rapl:0/max_energy_range_uj"};
    char path[512];
    for (int i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/sys/class/powercap/%s", root, names[i]);
        (void)unlink(path);
    }
    static const char *const folders[] = {"/sys/class/powercap/intel-rapl:0",
                                          "/sys/class/powercap/intel-rapl:1", "/sys/class/powercap",
                                          "/sys/class", "/sys"};
    for (int i = 0; i < 5; i++) {
        (void)snprintf(path, sizeof path, "%s%s", root, folders[i]);
        (void)rmdir(path);
    }
}

static void packages_are_summed(void **state) {
    const help_room *room = *state;
    meter from, to;
    put(room->folder, 0, "energy_uj", "1000000\n");
    put(room->folder, 1, "energy_uj", "5\n");
    ebb__meter_read_at(room->folder, &from);
    assert_int_equal(from.packages, 2);
    put(room->folder, 0, "energy_uj", "3500000\n");
    put(room->folder, 1, "energy_uj", "1000005\n");
    ebb__meter_read_at(room->folder, &to);
    assert_true(ebb__meter_joules_at(room->folder, &from, &to) == 2.5 + 1);
    put(room->folder, 0, "max_energy_range_uj", "4000000\n");
    put(room->folder, 0, "energy_uj", "500000\n"); /* wrapped: 3 J up to the end, half from there */
    ebb__meter_read_at(room->folder, &to);
    assert_true(ebb__meter_joules_at(room->folder, &from, &to) == 3.5 + 1);
    remove_tree(room->folder);
}

static void what_cannot_be_read_is_not_known(void **state) {
    const help_room *room = *state;
    meter from, to;
    ebb__meter_read_at(room->folder, &from);
    assert_int_equal(from.packages, 0);
    assert_true(ebb__meter_joules_at(room->folder, &from, &from) < 0);
    put(room->folder, 0, "energy_uj", "many\n");
    ebb__meter_read_at(room->folder, &to);
    assert_int_equal(to.packages, 0);
    put(room->folder, 0, "energy_uj", "7\n");
    ebb__meter_read_at(room->folder, &to);
    assert_int_equal(to.packages, 1);
    assert_true(ebb__meter_joules_at(room->folder, &from, &to) < 0); /* came in between */
    from = to;
    from.microjoules[0] = 8; /* wrapped, and nobody says where */
    assert_true(ebb__meter_joules_at(room->folder, &from, &to) < 0);
    remove_tree(room->folder);
}

static void seconds_are_those_of_the_process(void **state) {
    (void)state;
    meter from, to;
    volatile uint64_t sum = 0;
    ebb__meter_read(&from);
    do {
        for (uint64_t i = 0; i < 100000; i++) {
            sum += i;
        }
        ebb__meter_read(&to);
    } while (ebb__meter_cpu_seconds(&from, &to) < 0.01);
    assert_true(sum > 0);
    assert_true(ebb__meter_cpu_seconds(&from, &from) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(packages_are_summed, help_setup, help_teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_is_not_known, help_setup,
                                        help_teardown),
        cmocka_unit_test(seconds_are_those_of_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
