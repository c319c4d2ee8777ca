/* text_list.c - names of texts: several with commas, patterns. Every name that is given lies in the
 * room's folder, which has a few files; what comes back are names, and all exist where a pattern
 * found them. */
#include "data/text_list.h"
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Patterns of many stars take long, as the system's glob is made; slashes would leave the folder.
 */
static bool is_tame(const char *names) {
    size_t stars = 0;
    for (const char *c = names; *c != '\0'; c++) {
        stars += *c == '*' || *c == '[' || *c == '?';
    }
    return stars <= 4 && strchr(names, '/') == NULL && strlen(names) < 200;
}

void fuzz_text_list(fuzz_room *room, fuzz_input input) {
    static const char *const files[] = {"a", "b", "ab", "a,b", "x[1]", "*"};
    char *names = fuzz_string(input), given[8192] = "";
    size_t used = 0, n = 1;
    text_list list;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        fuzz_write(fuzz_file(room, files[i]), "x\n", 2);
    }
    for (const char *at = names; is_tame(names) && *at != '\0';) {
        size_t length = strcspn(at, ",");
        used += (size_t)snprintf(given + used, sizeof given - used, "%s%s/%.*s",
                                 used > 0 ? "," : "", room->folder, (int)length, at);
        fuzz_require(used < sizeof given, "the test has no room");
        at += length;
        n += *at == ',';
        at += *at == ',';
    }
    if (used > 0 && fuzz_fine(room, ebb__text_list(room->ctx, given, &list))) {
        fuzz_require(list.n >= 1, "no file");
        for (size_t i = 0; i < list.n; i++) {
            fuzz_require(list.at[i] != NULL && strstr(list.at[i], room->folder) != NULL,
                         "a file of another folder");
        }
        fuzz_require(strpbrk(names, "*?[") != NULL || list.n <= n, "more names than were given");
        ebb__text_list_free(room->ctx, &list);
    }
    free(names);
}
