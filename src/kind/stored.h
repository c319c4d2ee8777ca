/* stored.h - the settings of a run as they are stored in DIR/config, whose first line names the
 * kind of the model unless it is the first of the list. */
#ifndef KIND_STORED_H
#define KIND_STORED_H

#include "kind/kinds.h"
#include "train/option_set.h"

/* Which kind of model the run in the folder is. */
ebb_status ebb__stored_kind(ebb_ctx *ctx, const char *dir, const model_kind **out) EBB_MUST_CHECK;
/* Settings of the run, of the set's kind, into those of the set, resolved. What they say that
 * cannot be is EBB_MODEL. */
ebb_status ebb__stored_load(const option_set *set, const char *dir) EBB_MUST_CHECK;
/* That the runs in `others` have models of the sizes and layers of the first one's, whose settings
 * are those of the run in `dir`, so that all can translate together. EBB_MODEL. */
ebb_status ebb__stored_others(ebb_ctx *ctx, const train_settings *first, const char *dir,
                              const char *const *others, int32_t n) EBB_MUST_CHECK;

#endif
