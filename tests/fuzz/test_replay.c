/* test_replay.c - every kept input of every fuzz target once more, with any compiler. What is wrong
 * ends the process; the last line before says which input it was. */
#include "fuzz/fuzz.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>

enum { MOST_BYTES = 1 << 20, MOST_TARGETS = 64 };

static void replay_file(const fuzz_target *target, const char *path) {
    uint8_t *whole = malloc(MOST_BYTES);
    FILE *file = fopen(path, "rb");
    assert_non_null(whole);
    assert_non_null(file);
    size_t bytes = fread(whole, 1, MOST_BYTES, file);
    assert_int_equal(fclose(file), 0);
    /* A copy of the right size, so that a sanitizer sees what is read behind it. */
    uint8_t *data = malloc(bytes > 0 ? bytes : 1);
    assert_non_null(data);
    memcpy(data, whole, bytes);
    free(whole);
    fuzz_run(target, data, bytes);
    free(data);
}

static void replay(void **state) {
    const fuzz_target *target = *state;
    char folder[256], path[600];
    (void)snprintf(folder, sizeof folder, "%s/%s", FUZZ_CORPUS, target->name);
    DIR *list = opendir(folder);
    if (list == NULL) {
        fail_msg("%s: no corpus", folder);
    }
    int files = 0;
    for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        (void)printf("# %s\n", path);
        (void)fflush(stdout);
        replay_file(target, path);
        files++;
    }
    (void)closedir(list);
    fuzz_run(target, (const uint8_t *)"", 0);
    assert_true(files > 0);
}

int main(void) {
    struct CMUnitTest tests[MOST_TARGETS] = {{0}};
    size_t n = 0;
    for (; fuzz_at(n) != NULL && n < MOST_TARGETS; n++) {
        tests[n] = (struct CMUnitTest){fuzz_at(n)->name, replay, NULL, NULL,
                                       (void *)(uintptr_t)fuzz_at(n)};
    }
    return _cmocka_run_group_tests("replay", tests, n, NULL, NULL);
}
