/* buffer.c - memory of the device: one allocation a buffer. The addresses that programs hold are a
 * range of pages without access, so that whoever follows one dies on the spot; the device is given
 * offsets. */
#include "device/opencl/opencl.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* ---- the door ----
 *
 * A step's inputs are mapped in host memory of the plan (stage), and what else is small (a loss, a
 * state) in memory that the buffer keeps for the places that were mapped last: writing it back
 * waits for nothing, and steps allocate nothing. What is large (weights, for a file) is allocated
 * for the time it is mapped. */
enum { SLOT_BYTES = 4 << 20 };

/* Lets go of a copy that has ended, or waits for its end. */
static bool is_done(cl_state *state, cl_handle *event, bool wait) {
    int32_t at = 1;
    if (*event == NULL) {
        return true;
    }
    if (wait) {
        cl_count_wait(state);
        (void)state->api.clWaitForEvents(1, event);
        at = 0;
    } else if (state->api.clGetEventInfo(*event, CL_EVENT_INFO_STATUS, sizeof at, &at, NULL) !=
               CL_OK) {
        at = 1;
    }
    if (at > 0) {
        return false; /* 0: complete; below: it failed, and what comes after will say so */
    }
    (void)state->api.clReleaseEvent(*event);
    *event = NULL;
    return true;
}

static void empty_slot(ebb_ctx *ctx, cl_state *state, cl_slot *slot) {
    for (int k = 0; k < 2; k++) {
        (void)is_done(state, &slot->written[k], true);
        ebb__free(ctx, slot->lent ? NULL : slot->data[k]);
    }
    *slot = (cl_slot){.bytes = 0};
}

/* ---- life ---- */

static void destroy(ebb_ctx *ctx, void *memory, size_t bytes) {
    cl_buffer *buffer = memory;
    cl_state *state = buffer->state;
    (void)state->api.clFinish(state->queue);
    for (int32_t i = 0; i < buffer->n_marks; i++) {
        (void)state->api.clReleaseEvent(buffer->marks[i]);
    }
    if (buffer->memory != NULL) {
        (void)state->api.clReleaseMemObject(buffer->memory);
        state->counts.allocations--;
        state->counts.allocated_bytes -= bytes;
    }
    for (int32_t i = 0; i < buffer->n_slots; i++) {
        empty_slot(ctx, state, &buffer->slots[i]);
    }
    ebb__free(ctx, buffer->slots);
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
    TRY_OUT(ebb__alloc(ctx, CL_SLOTS, sizeof *buffer->slots, &buffer->slots));
    buffer->n_slots = CL_SLOTS;
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

static ebb_status stage(ebb_ctx *ctx, void *memory, size_t offset, size_t bytes, void *host) {
    cl_buffer *buffer = memory;
    TRY(ebb__realloc(ctx, buffer->slots, (size_t)buffer->n_slots + 1, sizeof *buffer->slots,
                     &buffer->slots));
    buffer->slots[buffer->n_slots++] = (cl_slot){
        .offset = offset, .bytes = bytes, .data = {host, (char *)host + bytes}, .lent = true};
    return EBB_OK;
}

/* The slot of the place; else a new one, in the stead of the one that was not mapped for longest.
 * NULL: all are mapped, or it is too large. */
static ebb_status find_slot(ebb_ctx *ctx, cl_buffer *buffer, size_t offset, size_t bytes,
                            cl_slot **out) {
    cl_slot *oldest = NULL;
    *out = NULL;
    for (int32_t i = 0; i < buffer->n_slots; i++) {
        cl_slot *slot = &buffer->slots[i];
        if (slot->offset == offset && (slot->lent ? bytes <= slot->bytes : slot->bytes == bytes)) {
            *out = slot;
            return EBB_OK;
        }
        bool idle = !slot->lent && !slot->mapped[0] && !slot->mapped[1];
        oldest = idle && (oldest == NULL || slot->used < oldest->used) ? slot : oldest;
    }
    if (oldest == NULL || bytes > SLOT_BYTES) {
        return EBB_OK;
    }
    empty_slot(ctx, buffer->state, oldest);
    for (int k = 0; k < 2; k++) {
        TRY(ebb__alloc(ctx, 1, bytes, &oldest->data[k]));
    }
    oldest->offset = offset;
    oldest->bytes = bytes;
    *out = oldest;
    return EBB_OK;
}

/* Half of a slot that nobody has, or NULL. */
static void *take_half(cl_state *state, cl_slot *slot) {
    for (int turn = 0; turn < 2; turn++) {
        for (int k = 0; k < 2; k++) {
            if (!slot->mapped[k] && is_done(state, &slot->written[k], turn > 0)) {
                slot->mapped[k] = true;
                return slot->data[k];
            }
        }
    }
    return NULL;
}

static cl_slot *slot_of(cl_buffer *buffer, const void *data, int *half) {
    for (int32_t i = 0; i < 2 * buffer->n_slots; i++) {
        *half = i % 2;
        if (buffer->slots[i / 2].mapped[*half] && buffer->slots[i / 2].data[*half] == data) {
            return &buffer->slots[i / 2];
        }
    }
    return NULL;
}

static void give_back(ebb_ctx *ctx, cl_slot *slot, int half, void *data) {
    if (slot != NULL) {
        slot->mapped[half] = false;
    } else {
        ebb__free(ctx, data);
    }
}

static ebb_status map(ebb_ctx *ctx, void *memory, size_t offset, size_t bytes, unsigned access,
                      void **out) {
    cl_buffer *buffer = memory;
    cl_state *state = buffer->state;
    cl_slot *slot = NULL;
    int half = 0;
    *out = NULL;
    TRY(find_slot(ctx, buffer, offset, bytes, &slot));
    if (slot != NULL) {
        slot->used = ++buffer->maps;
        *out = take_half(state, slot);
    }
    if (*out == NULL) {
        TRY(ebb__alloc(ctx, 1, bytes, out));
    }
    if ((access & DEVICE_READ) == 0) {
        return EBB_OK;
    }
    state->counts.copies++;
    cl_count_wait(state);
    ebb_status status =
        ebb__cl_check(ctx,
                      state->api.clEnqueueReadBuffer(state->queue, buffer->memory, 1, offset, bytes,
                                                     *out, 0, NULL, NULL),
                      "reading the device's memory");
    if (status != EBB_OK) {
        slot = slot_of(buffer, *out, &half);
        give_back(ctx, slot, half, *out);
    }
    return status;
}

static ebb_status unmap(ebb_ctx *ctx, void *memory, size_t offset, size_t bytes, unsigned access,
                        void *data) {
    cl_buffer *buffer = memory;
    cl_state *state = buffer->state;
    int half = 0;
    cl_slot *slot = slot_of(buffer, data, &half);
    ebb_status status = EBB_OK;
    if ((access & DEVICE_WRITE) != 0) {
        bool waits = slot == NULL;
        state->counts.copies++;
        if (waits) {
            cl_count_wait(state);
        }
        status = ebb__cl_check(ctx,
                               state->api.clEnqueueWriteBuffer(state->queue, buffer->memory, waits,
                                                               offset, bytes, data, 0, NULL,
                                                               waits ? NULL : &slot->written[half]),
                               "writing the device's memory");
    }
    give_back(ctx, slot, half, data);
    return status;
}

/* ---- values that leave, and come back ---- */

static ebb_status fetch(ebb_ctx *ctx, void *memory, size_t offset, size_t bytes, void *host) {
    cl_buffer *buffer = memory;
    cl_state *state = buffer->state;
    state->counts.copies++;
    return ebb__cl_check(ctx,
                         state->api.clEnqueueReadBuffer(state->queue, buffer->memory, 0, offset,
                                                        bytes, host, 0, NULL, NULL),
                         "moving a value to the host");
}

static ebb_status put(ebb_ctx *ctx, void *memory, size_t offset, size_t bytes, const void *host) {
    cl_buffer *buffer = memory;
    cl_state *state = buffer->state;
    state->counts.copies++;
    return ebb__cl_check(ctx,
                         state->api.clEnqueueWriteBuffer(state->queue, buffer->memory, 0, offset,
                                                         bytes, host, 0, NULL, NULL),
                         "moving a value back from the host");
}

static ebb_status mark(ebb_ctx *ctx, void *memory) {
    cl_buffer *buffer = memory;
    cl_state *state = buffer->state;
    if (buffer->n_marks == DEVICE_MARKS) {
        return ebb__fail(ctx, EBB_INTERNAL, "opencl: more than %d marks", (int)DEVICE_MARKS);
    }
    TRY(ebb__cl_check(ctx,
                      state->api.clEnqueueMarkerWithWaitList(state->queue, 0, NULL,
                                                             &buffer->marks[buffer->n_marks]),
                      "marking the queue"));
    buffer->n_marks++;
    state->waits_since = 0;
    return ebb__cl_check(ctx, state->api.clFlush(state->queue), "marking the queue");
}

static ebb_status await(ebb_ctx *ctx, void *memory) {
    cl_buffer *buffer = memory;
    cl_state *state = buffer->state;
    if (buffer->n_marks == 0) {
        return EBB_OK;
    }
    cl_handle event = buffer->marks[0];
    buffer->n_marks--;
    memmove(buffer->marks, buffer->marks + 1, sizeof event * (size_t)buffer->n_marks);
    state->counts.waits++;
    ebb_status status =
        ebb__cl_check(ctx, state->api.clWaitForEvents(1, &event), "waiting for a step");
    (void)state->api.clReleaseEvent(event);
    return status;
}

const device_buffer_table ebb__cl_buffer_table = {create, touch, destroy, address, map,  unmap,
                                                  fetch,  put,   mark,    await,   stage};
