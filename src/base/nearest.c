/* nearest.c - which name was meant: least number of inserted, removed, changed or swapped
 * neighbouring characters; a name that starts with what was typed counts as one edit. */
#include "base/nearest.h"

#include <string.h>

enum { LONGEST = 63 };

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t edits(const char *a, const char *b) {
    size_t n = strnlen(a, LONGEST), m = strnlen(b, LONGEST);
    size_t cost[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= n; i++) {
        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                cost[i][j] = i + j;
                continue;
            }
            size_t changed = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            cost[i][j] = least(changed, 1 + least(cost[i - 1][j], cost[i][j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                cost[i][j] = least(cost[i][j], cost[i - 2][j - 2] + 1);
            }
        }
    }
    return n > 1 && strncmp(a, b, n) == 0 ? least(cost[n][m], 1) : cost[n][m];
}

const char *ebb__nearest(const char *text, nearest_fn candidate, const void *user, size_t count) {
    const char *best = NULL;
    size_t fewest = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        const char *name = candidate(user, i);
        size_t needed = name != NULL ? edits(text, name) : SIZE_MAX;
        if (needed < fewest) {
            fewest = needed;
            best = name;
        }
    }
    return best;
}
