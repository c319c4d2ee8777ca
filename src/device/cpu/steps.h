/* steps.h - a member's share of a tensor and of its code (op/code.h): stretches of elements of one
 * step of the first axis. They begin at multiples of STEPS_GRAIN elements, which are whole blocks
 * of any code, in bytes of their own: so no two members write one byte. */
#ifndef DEVICE_CPU_STEPS_H
#define DEVICE_CPU_STEPS_H

#include "base/team.h"
#include "op/code.h"

enum { STEPS_BLOCK = 24, STEPS_GRAIN = 64 * STEPS_BLOCK };

typedef struct cpu_steps {
    int64_t step, first, len;          /* the current stretch */
    int64_t next, end, pieces, length; /* still to come; of a step, its pieces and elements */
} cpu_steps;

static inline cpu_steps cpu_steps_start(const op_call *call, const ir_type *type) {
    cpu_steps it = {.length = op_step_elements(type)};
    it.pieces = (it.length + STEPS_GRAIN - 1) / STEPS_GRAIN;
    ebb__team_share(it.pieces * type->dim[0], 1, call->member, call->members, &it.next, &it.end);
    return it;
}

static inline bool cpu_steps_next(cpu_steps *it) {
    if (it->next >= it->end) {
        return false;
    }
    it->step = it->next / it->pieces;
    int64_t first = it->step * it->pieces, stop = first + it->pieces;
    stop = stop < it->end ? stop : it->end;
    it->first = (it->next - first) * STEPS_GRAIN;
    int64_t limit = (stop - first) * STEPS_GRAIN;
    it->len = (limit < it->length ? limit : it->length) - it->first;
    it->next = stop;
    return true;
}

/* Where the stretch begins in the tensor, and in a code with so many bytes for STEPS_BLOCK
 * elements. */
static inline float *cpu_step(const cpu_steps *it, const op_view *view) {
    return (float *)view->data + it->step * op_step_pitch(view) + it->first;
}
static inline uint8_t *cpu_step_code(const cpu_steps *it, const op_view *code, int64_t bytes) {
    int64_t row = code->type.dim[1] * (int64_t)ebb__ir_dtype_bytes(code->type.dtype);
    return (uint8_t *)code->data + it->step * row + it->first / STEPS_BLOCK * bytes;
}

#endif
