/* tensors.h - a session's variables to and from safetensors files, wherever they lie (ranks.h). */
#ifndef RUN_TENSORS_H
#define RUN_TENSORS_H

#include "run/ranks.h"
#include "store/safetensors.h"

/* What a model is, and a file of weights holds: parameters, and what is measured beside them as it
 * learns (running means). */
#define TENSORS_MODEL (1U << IR_PARAM | 1U << IR_BUFFER)

static inline bool tensors_is_stored(const plan_variable *v, uint32_t roles) {
    return !v->extra && (roles & (1U << v->role)) != 0;
}

/* All variables with one of the roles in `roles` (bit per ir_role), sorted by name, as they are
 * written: through the session's door, one after the other. In memory of `region`. */
ebb_status ebb__tensors_list(run_session *session, uint32_t roles, alloc_region *region,
                             st_entry **out, size_t *n) EBB_MUST_CHECK;
/* Reads every such variable from a file; EBB_MODEL if one is missing or has another shape. */
ebb_status ebb__tensors_load(run_session *session, uint32_t roles,
                             const st_reader *reader) EBB_MUST_CHECK;
/* The same but for what `fit` says of a variable and the tensor of its name, whose types or shapes
 * differ: it is refused, or stays as it is, or takes what the file has, rows beyond that being the
 * file's first one. */
typedef enum tensors_fit { TENSORS_REFUSE, TENSORS_KEEP, TENSORS_REPEAT_FIRST } tensors_fit;
typedef tensors_fit (*tensors_fits)(void *user, const ranks_tensor *own, const st_tensor *tensor);
/* The same of the model; EBB_MODEL also if a tensor holds a value that is not finite: whatever such
 * a model predicts would be wrong and not seem so. */
ebb_status ebb__tensors_load_weights(run_session *session, const st_reader *reader) EBB_MUST_CHECK;
/* Those of a member of an ensemble: parameters whose names have its number in front. */
ebb_status ebb__tensors_load_member(run_session *session, const st_reader *reader,
                                    int32_t member) EBB_MUST_CHECK;
ebb_status ebb__tensors_load_most(run_session *session, const st_reader *reader, tensors_fits fits,
                                  void *user) EBB_MUST_CHECK;
/* Name of the model's first tensor that holds a value that is NaN or infinite; empty: none does. */
enum { TENSORS_NAME = 512 };
ebb_status ebb__tensors_not_finite(run_session *session, char name[TENSORS_NAME]) EBB_MUST_CHECK;
/* XXH3-64 over the names of all that a file of weights holds, sorted, each with its row-major fp32
 * bytes. */
ebb_status ebb__tensors_hash(run_session *session, uint64_t *out) EBB_MUST_CHECK;

#endif
