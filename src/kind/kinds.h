/* kinds.h - the list of all kinds of models. */
#ifndef KIND_KINDS_H
#define KIND_KINDS_H

#include "train/kind.h"

#define KIND(name) extern const model_kind ebb__kind_##name;
#include "kind/kinds.def"
#undef KIND

size_t ebb__kind_count(void);
const model_kind *ebb__kind_at(size_t index);
const model_kind *ebb__kind_find(const char *name); /* NULL if there is none */

#endif
