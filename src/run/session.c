/* session.c - see session.h. */
#include "run/session.h"

#include "base/host.h"
#include "op/heap.h"
#include "run/away.h"
#include "run/ranks.h"

#include <string.h>

uint64_t ebb__run_budget(double percent) {
    double bytes = (double)ebb__host_memory() * percent / 100.0 - (double)RUN_OVERHEAD_BYTES;
    return bytes > 0 ? (uint64_t)bytes : 0;
}

/* ---- what is handed out ---- */

static void note(run_session *s, uint64_t *high, uint64_t end) {
    if (end > *high) {
        *high = end;
        uint64_t both = s->device_high + (device_apart(s->plan->dev) ? 0 : s->host_high);
        s->measured_bytes = both > s->measured_bytes ? both : s->measured_bytes;
    }
}

static void note_device(run_session *s, const void *data, uint64_t bytes) {
    const char *base = s->plan->dev->buffer.address(s->buffer);
    note(s, &s->device_high, (uint64_t)((const char *)data - base) + bytes);
}

/* Rows of a view lie ld apart; those of maps are groups of images, where its op says so. */
static void note_view(run_session *s, const op_view *view, bool maps) {
    if (view->data != NULL) {
        int64_t rows = ebb__ir_rows(&view->type), cols = ir_cols(&view->type), apart = view->ld;
        if (maps && op_is_map(&view->type)) {
            rows = view->type.dim[0];
            cols = ebb__op_fold_cols(&view->type, 1);
            apart = op_map_pitch(view);
        }
        uint64_t elements = (uint64_t)((rows - 1) * apart + cols);
        note_device(s, view->data, elements * ebb__ir_dtype_bytes(view->type.dtype));
    }
}

static void note_instr(run_session *s, const device_instr *instr) {
    for (int32_t i = 0; i < instr->call.n_in && instr->transfer != TRANSFER_BACK; i++) {
        note_view(s, &instr->call.in[i], instr->call.maps);
    }
    for (int32_t i = 0; i < instr->call.n_out && instr->transfer != TRANSFER_OUT; i++) {
        note_view(s, &instr->call.out[i], instr->call.maps);
    }
    if (instr->call.workspace != NULL) {
        note_device(s, instr->call.workspace, instr->call.workspace_bytes);
    }
}

/* Also what a program that may give up does not come to. */
static void note_program(run_session *s, int32_t index) {
    for (int32_t i = 0; i < s->plan->programs[index].size.n_instrs; i++) {
        note_instr(s, s->programs[index][i]);
    }
}

/* ---- life ---- */

/* Where inputs are written, beside a device apart. */
static ebb_status lend_copies(run_session *s) {
    const ebb_plan *plan = s->plan;
    for (int32_t i = 0; i < plan->n_variables; i++) {
        const plan_variable *v = &plan->variables[i];
        if (v->staged && plan->dev->buffer.stage != NULL) {
            note(s, &s->host_high, v->copies + 2 * plan_align(v->bytes));
            TRY(plan->dev->buffer.stage(s->ctx, s->buffer, (size_t)v->offset,
                                        (size_t)plan_align(v->bytes), s->host + v->copies));
        }
    }
    return EBB_OK;
}

static ebb_status open_session(run_session *s) {
    ebb_plan *plan = s->plan;
    const device *dev = plan->dev;
    void *host = NULL;
    ebb__region_trim(s->ctx);
    TRY(ebb__map(s->ctx, (size_t)plan->host_bytes, &host));
    s->host = host;
    TRY(ebb__away_open(s));
    TRY(dev->buffer.create(dev, s->ctx, (size_t)plan->device_bytes, &s->buffer));
    TRY(lend_copies(s));
    TRY(dev->stream.create(dev, s->ctx, plan->members, &s->stream));
    TRY(ebb__plan_emit(plan, s->host, dev->buffer.address(s->buffer), s->programs));
    for (int32_t i = 0; i < plan->n_programs; i++) {
        const plan_program *program = &plan->programs[i];
        note(s, &s->host_high, program->offset + program->size.instr_bytes);
        if (dev->stream.load != NULL) {
            device_instr *const *list = (void *)(uintptr_t)s->programs[i];
            TRY(dev->stream.load(s->stream, s->buffer, program->descriptors, list,
                                 program->size.n_instrs));
            note(s, &s->device_high, program->descriptors + program->size.program_bytes);
        }
    }
    ebb__plan_release(plan);
    return EBB_OK;
}

ebb_status ebb__run_open(ebb_ctx *ctx, ebb_plan *plan, run_session **out) {
    run_session *s = NULL;
    *out = NULL;
    ebb_status status = ebb__alloc(ctx, 1, sizeof *s, &s);
    if (status != EBB_OK) {
        ebb__plan_free(plan);
        return status;
    }
    s->ctx = ctx;
    s->plan = plan;
    s->away.fd = -1;
    status = open_session(s);
    if (status != EBB_OK) {
        ebb__run_free(s);
        return status;
    }
    *out = s;
    return EBB_OK;
}

void ebb__run_touch(run_session *session) {
    const ebb_plan *plan = session->plan;
    plan->dev->buffer.touch(session->buffer, (size_t)plan->device_bytes);
    ebb__map_touch(session->host, (size_t)plan->host_bytes);
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
    const ebb_plan *plan = session->plan;
    ebb__ranks_free(session);
    ebb__away_close(session);
    if (session->stream != NULL) {
        plan->dev->stream.destroy(session->stream);
    }
    if (session->buffer != NULL) {
        plan->dev->buffer.destroy(ctx, session->buffer, (size_t)plan->device_bytes);
    }
    if (session->host != NULL) {
        ebb__unmap(ctx, session->host, (size_t)plan->host_bytes);
    }
    ebb__plan_free(session->plan);
    ebb__free(ctx, session);
}

/* ---- steps ---- */

enum { MOST_FAILED_TRIES = 7 }; /* that count: at most 63 steps go by without one */

static ebb_status run_list(run_session *s, const device_instr *const *list, int32_t n) {
    bool nothing = n == 0 || s->no_compute;
    return nothing ? EBB_OK
                   : s->plan->dev->stream.run(s->stream, list, n, s->observe, s->observe_user);
}

/* Looks at what an instruction that may end the program says; *used: bytes of heaps so far. */
static ebb_status look_at_stop(run_session *s, const device_instr *instr, uint64_t *used,
                               bool *stopped) {
    const char *base = s->plan->dev->buffer.address(s->buffer), *data = instr->call.out[0].data;
    const int32_t *attr = instr->call.attr->i;
    int32_t state[GIVE_UP_WORDS];
    TRY(ebb__run_read(s, (run_place){(uint64_t)(data - base), sizeof state}, state));
    if (attr[GIVE_UP_HEAPS] > 0) {
        ir_dtype dtype = instr->call.in[attr[GIVE_UP_HEAPS]].type.dtype;
        *used += (uint64_t)state[GIVE_UP_USED] * ebb__ir_dtype_bytes(dtype);
        s->sparse_bytes = *used > s->sparse_bytes ? *used : s->sparse_bytes;
    }
    /* Of messages alone, or work alone, nothing is to be told of others. */
    bool whole = !s->no_messages && !s->no_compute;
    *stopped = state[GIVE_UP_FULL] != 0 && attr[GIVE_UP_LATER] == 0 && whole;
    return EBB_OK;
}

enum { FIRST_TAG = COMM_FIRST_TAG + RANKS_TAGS };

static uint64_t message_bytes(const op_view *view) {
    return ebb__ir_type_bytes(&view->type);
}

/* Waits for the ticket that is operand i. */
static ebb_status wait_for(run_session *s, const op_call *call, int32_t i) {
    double start = ebb__clock_seconds();
    ebb_status status =
        ebb__comm_wait(s->link, *(const int32_t *)call->in[i].data, s->lost_seconds);
    s->waiting_seconds += ebb__clock_seconds() - start;
    return status;
}

static ebb_status do_message(run_session *s, const device_instr *instr) {
    const op_call *call = &instr->call;
    op_post post = ebb__op_post(instr->message, call->attr);
    if (instr->message == MESSAGE_SEND) {
        s->messages++;
        s->sent_bytes += message_bytes(&call->in[0]);
        return ebb__comm_send(s->link, post.peer, FIRST_TAG + post.tag, call->in[0].data,
                              message_bytes(&call->in[0]), call->out[0].data);
    }
    if (instr->message == MESSAGE_RECV) {
        return ebb__comm_recv(s->link, post.peer, FIRST_TAG + post.tag, call->out[0].data,
                              message_bytes(&call->out[0]), call->out[1].data);
    }
    if (instr->message == MESSAGE_SENT) {
        return wait_for(s, call, 0);
    }
    TRY(wait_for(s, call, 1));
    if (call->out[0].data != call->in[0].data) {
        memcpy(call->out[0].data, call->in[0].data, message_bytes(&call->out[0]));
    }
    return EBB_OK;
}

/* In stretches that end where the program may, where ranks talk, and where values leave the
 * device's memory or come back. */
static ebb_status run_program(run_session *s, int32_t index, bool *stopped) {
    const device_instr *const *list = s->programs[index];
    int32_t n = s->plan->programs[index].size.n_instrs, from = 0;
    *stopped = false;
    s->ran = index;
    uint64_t used = 0;
    for (int32_t i = 0; i < n && !*stopped; i++) {
        used = list[i]->label.phase == IR_BACKWARD ? 0 : used; /* the way back empties them */
        if (list[i]->stops) {
            TRY(run_list(s, list + from, i + 1 - from));
            TRY(look_at_stop(s, list[i], &used, stopped));
            from = i + 1;
        } else if (list[i]->message != MESSAGE_NONE) {
            TRY(run_list(s, list + from, i - from));
            TRY(s->no_messages ? EBB_OK : do_message(s, list[i]));
            from = i + 1;
        } else if (list[i]->transfer != TRANSFER_NONE) {
            TRY(run_list(s, list + from, i - from));
            TRY(s->no_compute ? EBB_OK : ebb__away_move(s, list[i]));
            from = i + 1;
        }
    }
    return *stopped ? EBB_OK : run_list(s, list + from, n - from);
}

/* A step that was given up tells little of the next, several in a row tell much: after each but the
 * first, twice as many steps go by without a try. */
static void note_try(run_session *session, bool stopped) {
    int32_t in_row = stopped ? session->tries_failed + 1 : 0;
    session->tries_failed = in_row < MOST_FAILED_TRIES ? in_row : MOST_FAILED_TRIES;
    session->steps_untried = stopped ? (1 << (session->tries_failed - 1)) - 1 : 0;
}

ebb_status ebb__run_step(run_session *session, int32_t index) {
    const plan_program *program = &session->plan->programs[index];
    int32_t fallback = program->fallback;
    bool stopped = (fallback > 0 || program->agrees) && session->steps_untried > 0;
    session->asked = index;
    if (session->plan->programs[index].shared) {
        session->copies_fresh = false;
        TRY(ebb__ranks_step(session, index));
    } else {
        TRY(ebb__ranks_refresh(session));
    }
    note_program(session, index);
    if (fallback > 0) {
        note_program(session, fallback);
    }
    if (stopped) {
        session->steps_untried--;
    } else {
        session->sparse_bytes = 0;
        TRY(run_program(session, index, &stopped));
        note_try(session, stopped);
    }
    if (!stopped) {
        return EBB_OK;
    }
    session->fallback_steps++;
    /* Who has no heaps itself does it again as it is. */
    return run_program(session, fallback > 0 ? fallback : index, &stopped);
}

/* ---- the door ---- */

run_place ebb__run_find(const run_session *session, const char *name) {
    const plan_variable *v = ebb__plan_variable(session->plan, name);
    return v != NULL && !v->extra ? run_at(v) : (run_place){0};
}

run_place ebb__run_find_output(const run_session *session, int32_t index, const char *name) {
    int32_t ran = index == session->asked ? session->ran : index;
    const plan_output *output = ebb__plan_output(session->plan, ran, name);
    return output != NULL ? run_output_at(output) : (run_place){0};
}

ebb_status ebb__run_map(run_session *session, run_place place, unsigned access, void *out) {
    const device_buffer_table *buffer = &session->plan->dev->buffer;
    void *data = NULL;
    note(session, &session->device_high, place.offset + place.bytes);
    if (buffer->map == NULL) {
        data = (char *)buffer->address(session->buffer) + place.offset;
    } else {
        TRY(buffer->map(session->ctx, session->buffer, (size_t)place.offset, (size_t)place.bytes,
                        access, &data));
    }
    memcpy(out, &data, sizeof data);
    return EBB_OK;
}

ebb_status ebb__run_unmap(run_session *session, run_place place, unsigned access,
                          const void *data) {
    const device_buffer_table *buffer = &session->plan->dev->buffer;
    return buffer->unmap == NULL
               ? EBB_OK
               : buffer->unmap(session->ctx, session->buffer, (size_t)place.offset,
                               (size_t)place.bytes, access, (void *)(uintptr_t)data);
}

/* All of them, whatever fails; the first failure. */
ebb_status ebb__run_unmap_all(run_session *session, const run_place *places, int32_t n,
                              unsigned access, void *const *data) {
    ebb_status status = EBB_OK;
    for (int32_t i = 0; i < n; i++) {
        if (data[i] != NULL) {
            ebb_status one = ebb__run_unmap(session, places[i], access, data[i]);
            status = status == EBB_OK ? one : status;
        }
    }
    return status;
}

ebb_status ebb__run_map_all(run_session *session, const run_place *places, int32_t n,
                            unsigned access, void **out) {
    for (int32_t i = 0; i < n; i++) {
        out[i] = NULL;
        ebb_status status =
            places[i].bytes > 0 ? ebb__run_map(session, places[i], access, &out[i]) : EBB_OK;
        if (status != EBB_OK) {
            ebb_status undone = ebb__run_unmap_all(session, places, i, access, out);
            (void)undone; /* the first failure is told */
            return status;
        }
    }
    return EBB_OK;
}

ebb_status ebb__run_read(run_session *session, run_place place, void *data) {
    void *from = NULL;
    TRY(ebb__run_map(session, place, DEVICE_READ, &from));
    memcpy(data, from, (size_t)place.bytes);
    return ebb__run_unmap(session, place, DEVICE_READ, from);
}

ebb_status ebb__run_write(run_session *session, run_place place, const void *data) {
    void *to = NULL;
    TRY(ebb__run_map(session, place, DEVICE_WRITE, &to));
    memcpy(to, data, (size_t)place.bytes);
    return ebb__run_unmap(session, place, DEVICE_WRITE, to);
}

ebb_status ebb__run_zero(run_session *session, run_place place) {
    void *to = NULL;
    TRY(ebb__run_map(session, place, DEVICE_WRITE, &to));
    memset(to, 0, (size_t)place.bytes);
    return ebb__run_unmap(session, place, DEVICE_WRITE, to);
}

ebb_status ebb__run_ask(run_session *session, run_place place, void *data) {
    const device_buffer_table *buffer = &session->plan->dev->buffer;
    if (buffer->mark == NULL) {
        return ebb__run_read(session, place, data);
    }
    note(session, &session->device_high, place.offset + place.bytes);
    return buffer->fetch(session->ctx, session->buffer, (size_t)place.offset, (size_t)place.bytes,
                         data);
}

ebb_status ebb__run_mark(run_session *session) {
    const device_buffer_table *buffer = &session->plan->dev->buffer;
    return buffer->mark != NULL ? buffer->mark(session->ctx, session->buffer) : EBB_OK;
}

ebb_status ebb__run_await(run_session *session) {
    const device_buffer_table *buffer = &session->plan->dev->buffer;
    return buffer->await != NULL ? buffer->await(session->ctx, session->buffer) : EBB_OK;
}

void *ebb__run_host(run_session *session, const char *name, uint64_t *bytes) {
    const plan_variable *v = ebb__plan_variable(session->plan, name);
    if (v == NULL || !v->extra) {
        return NULL;
    }
    note(session, &session->host_high, v->offset + v->bytes);
    if (bytes != NULL) {
        *bytes = v->bytes;
    }
    return session->host + v->offset;
}

/* ---- addresses ---- */

void *ebb__run_address(run_session *session, run_place place) {
    void *data = NULL;
    bool shared = session->plan->dev->buffer.map == NULL;
    return shared && place.bytes > 0 && ebb__run_map(session, place, DEVICE_READ, &data) == EBB_OK
               ? data
               : NULL;
}

void *ebb__run_variable(run_session *session, const char *name, uint64_t *bytes) {
    run_place place = ebb__run_find(session, name);
    if (bytes != NULL) {
        *bytes = place.bytes;
    }
    return ebb__run_address(session, place);
}

const void *ebb__run_output(run_session *session, int32_t index, const char *name) {
    return ebb__run_address(session, ebb__run_find_output(session, index, name));
}
