/* stream.c - programs: descriptors are written to the device's memory once, when a program is
 * loaded; running it is a list of launches in one queue that works in order, and waits for nothing.
 */
#include "device/opencl/opencl.h"

#include <string.h>

/* What an instruction keeps: its launches. */
typedef struct cl_launch {
    cl_handle kernel;
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

static ebb_status prepare(device_stream *stream, const char *base, uint64_t at, device_instr *instr,
                          char *image) {
    const gpu_form *form =
        &ebb__gpu_kernel_of(stream->state->kernels[instr->kernel].op)->forms[instr->call.form];
    cl_prepared prepared = {.at = at, .n = ebb__gpu_stages(form)};
    ebb__gpu_describe(&instr->call, form, base, image);
    for (int32_t s = 0; s < prepared.n; s++) {
        const gpu_stage *stage = &form->stages[s];
        cl_launch *launch = &prepared.launches[s];
        size_t groups[2];
        TRY(ebb__cl_kernel(stream->ctx, stream->state, stage->entry, &launch->kernel));
        ebb__gpu_groups(stage, &instr->call, groups);
        if (groups[0] * (size_t)stage->wide > UINT32_MAX ||
            groups[1] * (size_t)stage->high > UINT32_MAX) {
            return ebb__fail(stream->ctx, EBB_USAGE, "opencl: %s: more than 2^32 items",
                             stage->entry);
        }
        launch->groups[0] = (uint32_t)groups[0];
        launch->groups[1] = (uint32_t)groups[1];
        launch->items[0] = (uint16_t)stage->wide;
        launch->items[1] = (uint16_t)stage->high;
    }
    memcpy(instr->prepared, &prepared, sizeof prepared);
    return EBB_OK;
}

static ebb_status load(device_stream *stream, void *memory, uint64_t at,
                       device_instr *const *instrs, int32_t count) {
    cl_buffer *buffer = memory;
    cl_state *state = stream->state;
    size_t bytes = 0, done = 0;
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
    for (int32_t i = 0; i < count; i++) {
        TRY_OUT(prepare(stream, buffer->base, at + done, instrs[i], image + done));
        done += gpu_call_bytes(&instrs[i]->call);
    }
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
    int32_t code =
        state->api.clSetKernelArg(launch->kernel, 0, sizeof stream->memory, &stream->memory);
    if (code == CL_OK) {
        code = state->api.clSetKernelArg(launch->kernel, 1, sizeof at, &at);
    }
    if (code == CL_OK) {
        code = state->api.clEnqueueNDRangeKernel(state->queue, launch->kernel, 2, NULL, global,
                                                 local, 0, NULL, event);
    }
    state->counts.launches++;
    return ebb__cl_check(stream->ctx, code, "starting a kernel");
}

/* The time of one instruction, for who observes: it is waited for. */
static ebb_status tell(device_stream *stream, const device_instr *instr, const cl_handle *events,
                       int32_t n, device_observe_fn observe, void *user) {
    cl_state *state = stream->state;
    uint64_t start = 0, end = 0;
    state->counts.waits++;
    state->counts.syncs++;
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
    if (observe != NULL && status == EBB_OK && s > 0) {
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
    for (int32_t i = 0; i < count; i++) {
        TRY(run_instr(stream, instrs[i], observe, user));
    }
    return ebb__cl_check(stream->ctx, stream->state->api.clFlush(stream->state->queue),
                         "starting a program");
}

const device_stream_table ebb__cl_stream_table = {create, destroy, load, run};
