/* far.h - a device for tests, whose memory the host cannot touch: its pages are closed except while
 * one of its own functions is at work, so whoever follows an address of it, instead of going
 * through the session's door, dies on the spot. It has no kernels of its own and runs the
 * references, one thread, one after the other. docs/add-a-device.md walks through it. */
#ifndef TESTS_SUPPORT_FAR_H
#define TESTS_SUPPORT_FAR_H

#include "base/alloc.h"
#include "device/device.h"

#include <string.h>
#include <sys/mman.h>

/* What was asked for without waiting: taken at once, since programs run when they are given, and
 * handed over when it is awaited, so that whoever looks too early sees that he did. */
enum { FAR_ASKED = 8, FAR_ASKED_BYTES = 16 };
typedef struct far_asked {
    void *host;
    size_t bytes;
    char data[FAR_ASKED_BYTES];
} far_asked;

typedef struct far_buffer {
    char *pages;
    size_t bytes;
} far_buffer;

struct device_stream {
    ebb_ctx *ctx;
};

static struct {
    device table;
    far_buffer *open; /* the one that programs work on: there is one session at a time in a test */
    int maps, mapped;
    far_asked asked[FAR_ASKED];
    int n_asked, marks[DEVICE_MARKS], n_marks; /* a mark: how many were asked for before it */
    int most_marks;                            /* at a time, so far */
    int fail_run, fail_door;
} far;

/* Makes the n-th run from now on fail with EBB_IO, or the n-th map or unmap; 0: none. */
static inline void test_far_fail(int run, int door) {
    far.fail_run = run;
    far.fail_door = door;
}

/* ---- memory ---- */

static inline ebb_status far_allow(ebb_ctx *ctx, const far_buffer *buffer, int how) {
    return mprotect(buffer->pages, buffer->bytes, how) == 0
               ? EBB_OK
               : ebb__fail(ctx, EBB_IO, "far: the pages cannot be protected");
}

static inline void far_destroy(ebb_ctx *ctx, void *memory, size_t bytes) {
    far_buffer *buffer = memory;
    if (buffer->pages != NULL) {
        if (far_allow(ctx, buffer, PROT_READ | PROT_WRITE) == EBB_OK) {
            ebb__unmap(ctx, buffer->pages, bytes);
        }
    }
    ebb__free(ctx, buffer);
    far.open = NULL;
    far.n_asked = far.n_marks = 0;
}

static inline ebb_status far_create(const device *dev, ebb_ctx *ctx, size_t bytes, void **out) {
    (void)dev;
    far_buffer *buffer = NULL;
    void *pages = NULL;
    TRY(ebb__alloc(ctx, 1, sizeof *buffer, &buffer));
    ebb_status status = ebb__map(ctx, bytes, &pages);
    *buffer = (far_buffer){pages, bytes};
    if (status == EBB_OK) {
        status = far_allow(ctx, buffer, PROT_NONE);
    }
    if (status != EBB_OK) {
        far_destroy(ctx, buffer, bytes);
        return status;
    }
    far.open = *out = buffer;
    return EBB_OK;
}

static inline void far_touch(void *memory, size_t bytes) {
    (void)memory; /* nothing of the host's to make resident */
    (void)bytes;
}

static inline void *far_address(void *memory) {
    return ((const far_buffer *)memory)->pages;
}

/* Copies from or to the closed pages. */
static inline ebb_status far_copy(ebb_ctx *ctx, const far_buffer *buffer, size_t offset,
                                  size_t bytes, void *host, bool to_host) {
    char *at = buffer->pages + offset;
    TRY(far_allow(ctx, buffer, PROT_READ | PROT_WRITE));
    memcpy(to_host ? host : at, to_host ? at : host, bytes);
    return far_allow(ctx, buffer, PROT_NONE);
}

static inline bool far_fails(int *countdown) {
    return *countdown > 0 && --*countdown == 0;
}

/* Who maps bytes to write finds anything in them: all of them are to be written. */
static inline ebb_status far_map(ebb_ctx *ctx, void *memory, size_t offset, size_t bytes,
                                 unsigned access, void **out) {
    if (far_fails(&far.fail_door)) {
        return ebb__fail(ctx, EBB_IO, "far: nothing can be mapped");
    }
    TRY(ebb__alloc(ctx, 1, bytes, out));
    memset(*out, 0xA5, bytes);
    far.maps++;
    far.mapped++;
    return (access & DEVICE_READ) != 0 ? far_copy(ctx, memory, offset, bytes, *out, true) : EBB_OK;
}

static inline ebb_status far_unmap(ebb_ctx *ctx, void *memory, size_t offset, size_t bytes,
                                   unsigned access, void *data) {
    ebb_status status =
        (access & DEVICE_WRITE) != 0 ? far_copy(ctx, memory, offset, bytes, data, false) : EBB_OK;
    ebb__free(ctx, data);
    far.mapped--;
    return far_fails(&far.fail_door) ? ebb__fail(ctx, EBB_IO, "far: nothing can be mapped")
                                     : status;
}

static inline ebb_status far_fetch(ebb_ctx *ctx, void *memory, size_t offset, size_t bytes,
                                   void *host) {
    if (far.n_asked == FAR_ASKED || bytes > FAR_ASKED_BYTES) {
        return ebb__fail(ctx, EBB_INTERNAL, "far: too much is asked for at a time");
    }
    far_asked *asked = &far.asked[far.n_asked++];
    *asked = (far_asked){.host = host, .bytes = bytes};
    return far_copy(ctx, memory, offset, bytes, asked->data, true);
}

static inline ebb_status far_put(ebb_ctx *ctx, void *memory, size_t offset, size_t bytes,
                                 const void *host) {
    return far_copy(ctx, memory, offset, bytes, (void *)(uintptr_t)host, false);
}

static inline ebb_status far_mark(ebb_ctx *ctx, void *memory) {
    (void)memory;
    if (far.n_marks == DEVICE_MARKS) {
        return ebb__fail(ctx, EBB_INTERNAL, "far: too many marks");
    }
    far.marks[far.n_marks++] = far.n_asked;
    far.most_marks = far.n_marks > far.most_marks ? far.n_marks : far.most_marks;
    return EBB_OK;
}

static inline ebb_status far_await(ebb_ctx *ctx, void *memory) {
    (void)memory;
    if (far.n_marks == 0) {
        return ebb__fail(ctx, EBB_INTERNAL, "far: no mark to wait for");
    }
    int n = far.marks[0];
    for (int i = 0; i < n; i++) {
        memcpy(far.asked[i].host, far.asked[i].data, far.asked[i].bytes);
    }
    far.n_asked -= n;
    far.n_marks--;
    memmove(far.asked, far.asked + n, sizeof *far.asked * (size_t)far.n_asked);
    far.marks[0] = far.marks[1] - n;
    return EBB_OK;
}

/* ---- programs ---- */

static inline ebb_status far_open_stream(const device *dev, ebb_ctx *ctx, int members,
                                         device_stream **out) {
    (void)dev, (void)members;
    TRY(ebb__alloc(ctx, 1, sizeof **out, out));
    (*out)->ctx = ctx;
    return EBB_OK;
}

static inline void far_close_stream(device_stream *stream) {
    ebb__free(stream->ctx, stream);
}

/* The instructions lie in the host's memory, what they work on does not. */
static inline ebb_status far_run(device_stream *stream, const device_instr *const *instrs,
                                 int32_t count, device_observe_fn observe, void *user) {
    if (far.mapped > 0) {
        return ebb__fail(stream->ctx, EBB_INTERNAL, "far: a program runs while bytes are mapped");
    }
    if (far_fails(&far.fail_run)) {
        return ebb__fail(stream->ctx, EBB_IO, "far: the device is gone");
    }
    TRY(far_allow(stream->ctx, far.open, PROT_READ | PROT_WRITE));
    for (int32_t i = 0; i < count; i++) {
        op_call call = instrs[i]->call;
        call.member = call.worker = 0;
        call.members = 1;
        instrs[i]->run(&call);
        if (observe != NULL) {
            observe(user, instrs[i], 1e-6);
        }
    }
    return far_allow(stream->ctx, far.open, PROT_NONE);
}

static inline const device *test_far_device(void) {
    if (far.table.name == NULL) {
        far.table = *ebb__device_default(); /* constants of the cost model, a line about it */
        far.table.name = "far";
        far.table.kernels = NULL;
        far.table.n_kernels = 0;
        far.table.buffer = (device_buffer_table){far_create, far_touch, far_destroy, far_address,
                                                 far_map,    far_unmap, far_fetch,   far_put,
                                                 far_mark,   far_await, NULL};
        far.table.stream = (device_stream_table){far_open_stream, far_close_stream, .run = far_run};
    }
    return &far.table;
}

#endif
