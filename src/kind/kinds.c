/* kinds.c - see kinds.h. EBB_MORE_KINDS names a file with more of them: that of a build for tests.
 */
#include "kind/kinds.h"

#include <string.h>

#ifdef EBB_MORE_KINDS
#define KIND(name) extern const model_kind ebb__kind_##name;
#include EBB_MORE_KINDS
#undef KIND
#endif

static const model_kind *const kinds[] = {
#define KIND(name) &ebb__kind_##name,
#include "kind/kinds.def"
#ifdef EBB_MORE_KINDS
#include EBB_MORE_KINDS
#endif
#undef KIND
};

size_t ebb__kind_count(void) {
    return sizeof kinds / sizeof kinds[0];
}

const model_kind *ebb__kind_at(size_t index) {
    return kinds[index];
}

const model_kind *ebb__kind_find(const char *name) {
    for (size_t i = 0; i < ebb__kind_count(); i++) {
        if (strcmp(kinds[i]->name, name) == 0) {
            return kinds[i];
        }
    }
    return NULL;
}
