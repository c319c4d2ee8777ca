/* stream.c - programs: descriptors are written to the device's memory once, when a program is
 * loaded; running it is a list of launches in one queue that works in order, and waits for nothing.
 */
#include "device/opencl/opencl.h"

#include <string.h>

/* What an instruction keeps: its launches. */
typedef struct cl_launch {
    int32_t entry; /* of its kernel */
    uint32_t groups[2];
    uint16_t items[2];
} cl_launch;

typedef struct cl_prepared {
    uint64_t at; /* of its descriptor */
    int32_t n;
    cl_launch launches[GPU_MAX_STAGES];
} cl_prepared;
_Static_assert(sizeof(cl_prepared) <= DEVICE_PREPARED_BYTES, "an instruction has room for it");

struct device_stream {
    ebb_ctx *ctx;
    cl_state *state;
    cl_handle memory; /* of the buffer that the loaded programs work on */
};

static ebb_status create(const device *dev, ebb_ctx *ctx, int members, device_stream **out) {
    device_stream *stream = NULL;
    (void)members;
    TRY(ebb__alloc(ctx, 1, sizeof *stream, &stream));
    *stream = (device_stream){.ctx = ctx, .state = cl_state_of(dev)};
    *out = stream;
    return EBB_OK;
}

static void destroy(device_stream *stream) {
    if (stream != NULL) {
        (void)stream->state->api.clFinish(stream->state->queue);
        ebb__free(stream->ctx, stream);
    }
}

/* ---- loading ---- */

static ebb_status set_launch(device_stream *stream, const gpu_stage *stage, gpu_extent extent,
                             int32_t entry, cl_launch *out) {
    size_t groups[2];
    out->entry = entry;
    ebb__gpu_groups(stage, extent, groups);
    if (groups[0] * (size_t)stage->wide > UINT32_MAX ||
        groups[1] * (size_t)stage->high > UINT32_MAX) {
        return ebb__fail(stream->ctx, EBB_USAGE, "opencl: %s: more than 2^32 items", stage->entry);
    }
    out->groups[0] = (uint32_t)groups[0];
    out->groups[1] = (uint32_t)groups[1];
    out->items[0] = (uint16_t)stage->wide;
    out->items[1] = (uint16_t)stage->high;
    return EBB_OK;
}

/* The descriptor of an instruction, and its launches. */
static ebb_status prepare(device_stream *stream, const char *base, uint64_t at, device_instr *instr,
                          char *image) {
    if (instr->transfer != TRANSFER_NONE) { /* whoever runs the list does it */
        return EBB_OK;
    }
    const gpu_form *form =
        &ebb__gpu_kernel_of(stream->state->kernels[instr->kernel].op)->forms[instr->call.form];
    cl_prepared prepared = {.at = at, .n = ebb__gpu_stages(form)};
    ebb__gpu_describe(&instr->call, form, base, image);
    for (int32_t s = 0; s < prepared.n; s++) {
        const gpu_stage *stage = &form->stages[s];
        int32_t entry = 0;
        TRY(ebb__cl_entry(stream->ctx, stream->state, stage->entry, &entry));
        TRY(set_launch(stream, stage, stage->extent(&instr->call), entry, &prepared.launches[s]));
    }
    memcpy(instr->prepared, &prepared, sizeof prepared);
    return EBB_OK;
}

/* What a program is loaded with. */
typedef struct cl_loading {
    device_instr *const *instrs;
    int32_t count;
} cl_loading;

static const device_instr *const *as_list(const cl_loading *l, int32_t at) {
    return (const device_instr *const *)(const void *)(l->instrs + at);
}

/* The run that begins with instruction i, if one does: its length, else 1. */
static int32_t run_at(const device_stream *stream, const cl_loading *l, int32_t i, gpu_run *run) {
    const device_kernel *kernels = stream->state->kernels;
    int32_t n = ebb__gpu_run_length(kernels, as_list(l, i), l->count - i);
    return n > 1 && ebb__gpu_run_text(kernels, as_list(l, i), n, run) ? n : 1;
}

/* The first launches for all of them; what it counts is the second span of its descriptor. */
static ebb_status join_run(device_stream *stream, const cl_loading *l, int32_t i, int32_t n,
                           const gpu_run *run, char *image) {
    cl_prepared prepared;
    gpu_call head;
    int32_t entry = 0;
    TRY(ebb__cl_add_run(stream->state, run, &entry));
    for (int32_t k = 0; k < n; k++) {
        memcpy(&prepared, l->instrs[i + k]->prepared, sizeof prepared);
        prepared.n = k == 0 ? 1 : 0;
        if (k == 0) {
            TRY(set_launch(stream, &run->launch, run->extent, entry, &prepared.launches[0]));
        }
        memcpy(l->instrs[i + k]->prepared, &prepared, sizeof prepared);
    }
    memcpy(&head, image, sizeof head);
    head.span[1][0] = (int32_t)run->extent.rows;
    head.span[1][1] = (int32_t)run->extent.units;
    memcpy(image, &head, sizeof head);
    return EBB_OK;
}

static ebb_status load_all(device_stream *stream, cl_loading *l, const char *base, uint64_t at,
                           char *image) {
    gpu_run run;
    size_t done = 0;
    for (int32_t i = 0, n; i < l->count; i += n) {
        char *first = image + done;
        n = run_at(stream, l, i, &run);
        for (int32_t k = 0; k < n; k++) {
            TRY(prepare(stream, base, at + done, l->instrs[i + k], image + done));
            done += gpu_call_bytes(&l->instrs[i + k]->call);
        }
        TRY(n > 1 ? join_run(stream, l, i, n, &run, first) : EBB_OK);
    }
    return EBB_OK;
}

static ebb_status load(device_stream *stream, void *memory, uint64_t at,
                       device_instr *const *instrs, int32_t count) {
    cl_buffer *buffer = memory;
    cl_state *state = stream->state;
    cl_loading l = {.instrs = instrs, .count = count};
    size_t bytes = 0;
    char *image = NULL;
    stream->memory = buffer->memory;
    for (int32_t i = 0; i < count; i++) {
        bytes += gpu_call_bytes(&instrs[i]->call);
    }
    if (bytes == 0) {
        return EBB_OK;
    }
    ebb_status status = EBB_OK;
    TRY(ebb__alloc(stream->ctx, 1, bytes, &image));
    TRY_OUT(load_all(stream, &l, buffer->base, at, image));
    state->counts.copies++;
    status = ebb__cl_check(stream->ctx,
                           state->api.clEnqueueWriteBuffer(state->queue, buffer->memory, 1, at,
                                                           bytes, image, 0, NULL, NULL),
                           "writing a program");
out:
    ebb__free(stream->ctx, image);
    return status;
}

/* ---- running ---- */

static ebb_status launch_one(device_stream *stream, const cl_launch *launch, uint64_t at,
                             cl_handle *event) {
    cl_state *state = stream->state;
    const size_t local[2] = {launch->items[0], launch->items[1]};
    const size_t global[2] = {local[0] * launch->groups[0], local[1] * launch->groups[1]};
    cl_handle kernel = state->entries[launch->entry].kernel;
    int32_t code = state->api.clSetKernelArg(kernel, 0, sizeof stream->memory, &stream->memory);
    if (code == CL_OK) {
        code = state->api.clSetKernelArg(kernel, 1, sizeof at, &at);
    }
    if (code == CL_OK) {
        code = state->api.clEnqueueNDRangeKernel(state->queue, kernel, 2, NULL, global, local, 0,
                                                 NULL, event);
    }
    state->counts.launches++;
    state->counts.syncs += state->waits_since;
    state->waits_since = 0;
    return ebb__cl_check(stream->ctx, code, "starting a kernel");
}

/* The time of one instruction, for who observes: it is waited for. */
static ebb_status tell(device_stream *stream, const device_instr *instr, const cl_handle *events,
                       int32_t n, device_observe_fn observe, void *user) {
    cl_state *state = stream->state;
    uint64_t start = 0, end = 0;
    cl_count_wait(state);
    int32_t code = state->api.clWaitForEvents(1, &events[n - 1]);
    if (code == CL_OK) {
        code = state->api.clGetEventProfilingInfo(events[0], CL_EVENT_START, sizeof start, &start,
                                                  NULL);
    }
    if (code == CL_OK) {
        code =
            state->api.clGetEventProfilingInfo(events[n - 1], CL_EVENT_END, sizeof end, &end, NULL);
    }
    TRY(ebb__cl_check(stream->ctx, code, "asking for the time of a kernel"));
    observe(user, instr, (double)(end - start) * 1e-9);
    return EBB_OK;
}

static ebb_status run_instr(device_stream *stream, const device_instr *instr,
                            device_observe_fn observe, void *user) {
    const cl_prepared *prepared = (const void *)instr->prepared;
    cl_handle events[GPU_MAX_STAGES] = {NULL};
    ebb_status status = EBB_OK;
    int32_t s = 0;
    for (; s < prepared->n && status == EBB_OK; s++) {
        status = launch_one(stream, &prepared->launches[s], prepared->at + (uint64_t)s,
                            observe != NULL ? &events[s] : NULL);
    }
    if (observe != NULL && status == EBB_OK && s == 0) {
        observe(user, instr, 0.0); /* the first of its run has the time of all */
    } else if (observe != NULL && status == EBB_OK) {
        status = tell(stream, instr, events, s, observe, user);
    }
    for (int32_t i = 0; observe != NULL && i < s; i++) {
        if (events[i] != NULL) {
            (void)stream->state->api.clReleaseEvent(events[i]);
        }
    }
    return status;
}

static ebb_status run(device_stream *stream, const device_instr *const *instrs, int32_t count,
                      device_observe_fn observe, void *user) {
    /* When the first program runs, all are loaded: their runs are compiled together. */
    TRY(ebb__cl_build_runs(stream->ctx, stream->state));
    for (int32_t i = 0; i < count; i++) {
        TRY(run_instr(stream, instrs[i], observe, user));
    }
    return ebb__cl_check(stream->ctx, stream->state->api.clFlush(stream->state->queue),
                         "starting a program");
}

const device_stream_table ebb__cl_stream_table = {create, destroy, load, run};
