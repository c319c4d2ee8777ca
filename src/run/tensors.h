/* tensors.h - a session's variables to and from safetensors files. */
#ifndef RUN_TENSORS_H
#define RUN_TENSORS_H

#include "run/session.h"
#include "store/safetensors.h"

/* All variables with one of the roles in `roles` (bit per ir_role), sorted by name, as they are
 * written: through the session's door, one after the other. In memory of `region`. */
ebb_status ebb__tensors_list(run_session *session, uint32_t roles, alloc_region *region,
                             st_entry **out, size_t *n) EBB_MUST_CHECK;
/* Reads every such variable from a file; EBB_MODEL if one is missing or has another shape. */
ebb_status ebb__tensors_load(run_session *session, uint32_t roles,
                             const st_reader *reader) EBB_MUST_CHECK;
/* The same of the weights; EBB_MODEL also if one holds a value that is not finite: whatever such a
 * model predicts would be wrong and not seem so. */
ebb_status ebb__tensors_load_weights(run_session *session, const st_reader *reader) EBB_MUST_CHECK;
/* Gives every weight the values that its builder said it starts from. */
ebb_status ebb__tensors_draw(run_session *session, uint64_t seed) EBB_MUST_CHECK;
/* Name of the first weight that holds a value that is NaN or infinite; NULL: none does. */
ebb_status ebb__tensors_not_finite(run_session *session, const char **name) EBB_MUST_CHECK;
/* XXH3-64 over the weights' names sorted, each with its row-major fp32 bytes. */
ebb_status ebb__tensors_hash(run_session *session, uint64_t *out) EBB_MUST_CHECK;

#endif
