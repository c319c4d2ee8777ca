/* session.c - see session.h. */
#include "run/session.h"

#include "base/host.h"

uint64_t ebb__run_budget(double percent) {
    double bytes = (double)ebb__host_memory() * percent / 100.0 - (double)RUN_OVERHEAD_BYTES;
    return bytes > 0 ? (uint64_t)bytes : 0;
}

static void note_handed(run_session *s, const void *data, uint64_t bytes) {
    uint64_t end = (uint64_t)((const char *)data - s->arena) + bytes;
    s->measured_bytes = end > s->measured_bytes ? end : s->measured_bytes;
}

static void note_view(run_session *s, const op_view *view) {
    if (view->data != NULL) {
        uint64_t rows = (uint64_t)ebb__ir_rows(&view->type), cols = (uint64_t)ir_cols(&view->type);
        note_handed(s, view->data,
                    ((rows - 1) * (uint64_t)view->ld + cols) *
                        ebb__ir_dtype_bytes(view->type.dtype));
    }
}

static void note_instr(run_session *s, const device_instr *instr) {
    note_handed(s, instr, sizeof *instr);
    for (int32_t i = 0; i < instr->call.n_in; i++) {
        note_view(s, &instr->call.in[i]);
    }
    for (int32_t i = 0; i < instr->call.n_out; i++) {
        note_view(s, &instr->call.out[i]);
    }
    if (instr->call.workspace != NULL) {
        note_handed(s, instr->call.workspace, instr->call.workspace_bytes);
    }
}

ebb_status ebb__run_open(ebb_ctx *ctx, ebb_plan *plan, run_session **out) {
    run_session *s = NULL;
    void *arena = NULL;
    *out = NULL;
    ebb_status status = ebb__alloc(ctx, 1, sizeof *s, &s);
    if (status != EBB_OK) {
        ebb__plan_free(plan);
        return status;
    }
    s->ctx = ctx;
    s->plan = plan;
    ebb__region_trim(ctx);
    TRY_OUT(plan->dev->buffer.create(ctx, (size_t)plan->peak_bytes, &arena));
    s->arena = arena;
    TRY_OUT(plan->dev->stream.create(ctx, plan->members, &s->stream));
    TRY_OUT(ebb__plan_emit(plan, arena, s->programs));
    ebb__plan_release(plan);
    *out = s;
    return EBB_OK;
out:
    ebb__run_free(s);
    return status;
}

void ebb__run_touch(run_session *session) {
    session->plan->dev->buffer.touch(session->arena, (size_t)session->plan->peak_bytes);
}

ebb_status ebb__run_new(ebb_ctx *ctx, ebb_plan *plan, run_session **out) {
    TRY(ebb__run_open(ctx, plan, out));
    ebb__run_touch(*out);
    return EBB_OK;
}

void ebb__run_free(run_session *session) {
    if (session == NULL) {
        return;
    }
    ebb_ctx *ctx = session->ctx;
    const device *dev = session->plan->dev;
    if (session->stream != NULL) {
        dev->stream.destroy(session->stream);
    }
    if (session->arena != NULL) {
        dev->buffer.destroy(ctx, session->arena, (size_t)session->plan->peak_bytes);
    }
    ebb__plan_free(session->plan);
    ebb__free(ctx, session);
}

void ebb__run_step(run_session *session, int32_t index) {
    int32_t n = session->plan->programs[index].size.n_instrs;
    for (int32_t i = 0; i < n; i++) {
        note_instr(session, session->programs[index][i]);
    }
    session->plan->dev->stream.run(session->stream, session->programs[index], n, session->observe,
                                   session->observe_user);
}

void *ebb__run_variable(run_session *session, const char *name, uint64_t *bytes) {
    const plan_variable *v = ebb__plan_variable(session->plan, name);
    if (v == NULL) {
        return NULL;
    }
    note_handed(session, session->arena + v->offset, v->bytes);
    if (bytes != NULL) {
        *bytes = v->bytes;
    }
    return session->arena + v->offset;
}

const void *ebb__run_output(run_session *session, int32_t index, const char *name) {
    const plan_output *output = ebb__plan_output(session->plan, index, name);
    return output == NULL ? NULL : session->arena + output->offset;
}
