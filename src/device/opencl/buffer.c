/* buffer.c - memory of the device: one allocation a buffer. The addresses that programs hold are a
 * range of pages without access, so that whoever follows one dies on the spot; the device is given
 * offsets. */
#include "device/opencl/opencl.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static void destroy(ebb_ctx *ctx, void *memory, size_t bytes) {
    cl_buffer *buffer = memory;
    cl_state *state = buffer->state;
    (void)state->api.clFinish(state->queue);
    if (buffer->memory != NULL) {
        (void)state->api.clReleaseMemObject(buffer->memory);
        state->counts.allocations--;
        state->counts.allocated_bytes -= bytes;
    }
    if (buffer->base != NULL) {
        (void)munmap(buffer->base, buffer->bytes);
    }
    ebb__free(ctx, buffer);
}

static ebb_status fill(ebb_ctx *ctx, cl_buffer *buffer) {
    const uint32_t zero = 0;
    const unsigned char none = 0;
    cl_state *state = buffer->state;
    size_t whole = buffer->bytes / sizeof zero * sizeof zero;
    int32_t code = CL_OK;
    if (whole > 0) {
        code = state->api.clEnqueueFillBuffer(state->queue, buffer->memory, &zero, sizeof zero, 0,
                                              whole, 0, NULL, NULL);
    }
    if (code == CL_OK && whole < buffer->bytes) {
        code = state->api.clEnqueueFillBuffer(state->queue, buffer->memory, &none, 1, whole,
                                              buffer->bytes - whole, 0, NULL, NULL);
    }
    return ebb__cl_check(ctx, code, "clearing the memory");
}

static ebb_status create(const device *dev, ebb_ctx *ctx, size_t bytes, void **out) {
    cl_state *state = cl_state_of(dev);
    cl_buffer *buffer = NULL;
    int32_t code = CL_OK;
    TRY(ebb__alloc(ctx, 1, sizeof *buffer, &buffer));
    *buffer = (cl_buffer){.state = state, .bytes = bytes > 0 ? bytes : 1};
    ebb_status status = EBB_OK;
    void *pages =
        mmap(NULL, buffer->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) {
        TRY_OUT(ebb__fail(ctx, EBB_NOMEM, "opencl: no addresses for %zu bytes", bytes));
    }
    buffer->base = pages;
    buffer->memory =
        state->api.clCreateBuffer(state->context, CL_MEMORY_READ_WRITE, buffer->bytes, NULL, &code);
    if (code != CL_OK) {
        buffer->memory = NULL;
        char what[64];
        (void)snprintf(what, sizeof what, "a buffer of %zu bytes", bytes);
        TRY_OUT(ebb__cl_check(ctx, code, what));
    }
    state->counts.allocations++;
    state->counts.allocated_bytes += bytes;
    TRY_OUT(fill(ctx, buffer));
    *out = buffer;
    return EBB_OK;
out:
    destroy(ctx, buffer, bytes);
    return status;
}

static void touch(void *memory, size_t bytes) {
    (void)memory, (void)bytes; /* it is filled with zeros already */
}

static void *address(void *memory) {
    return ((const cl_buffer *)memory)->base;
}

/* The host's copy of some bytes, until they are given back. */
static ebb_status map(ebb_ctx *ctx, void *memory, size_t offset, size_t bytes, unsigned access,
                      void **out) {
    cl_buffer *buffer = memory;
    cl_state *state = buffer->state;
    TRY(ebb__alloc(ctx, 1, bytes, out));
    if ((access & DEVICE_READ) == 0) {
        return EBB_OK;
    }
    state->counts.copies++;
    state->counts.waits++;
    ebb_status status =
        ebb__cl_check(ctx,
                      state->api.clEnqueueReadBuffer(state->queue, buffer->memory, 1, offset, bytes,
                                                     *out, 0, NULL, NULL),
                      "reading the device's memory");
    if (status != EBB_OK) {
        ebb__free(ctx, *out);
    }
    return status;
}

static ebb_status unmap(ebb_ctx *ctx, void *memory, size_t offset, size_t bytes, unsigned access,
                        void *data) {
    cl_buffer *buffer = memory;
    cl_state *state = buffer->state;
    ebb_status status = EBB_OK;
    if ((access & DEVICE_WRITE) != 0) {
        state->counts.copies++;
        state->counts.waits++;
        status = ebb__cl_check(ctx,
                               state->api.clEnqueueWriteBuffer(state->queue, buffer->memory, 1,
                                                               offset, bytes, data, 0, NULL, NULL),
                               "writing the device's memory");
    }
    ebb__free(ctx, data);
    return status;
}

const device_buffer_table ebb__cl_buffer_table = {create, touch, destroy, address, map, unmap};
