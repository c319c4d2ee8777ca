/* opencl.h - what the files of this device share. A device is opened by name, has one queue that
 * works in order, one program with all kernels, and any number of buffers. */
#ifndef DEVICE_OPENCL_OPENCL_H
#define DEVICE_OPENCL_OPENCL_H

#include "device/gpu/gpu.h"

typedef void *cl_handle; /* what OpenCL gives out: platforms, devices, queues, ... */

typedef struct cl_api {
    void *library;
#define CALL(result, name, args) result(*name) args;
#include "device/opencl/api.def"
#undef CALL
} cl_api;

/* Numbers of the OpenCL headers. */
enum {
    CL_OK = 0,
    CL_NO_DEVICE = -1,
    CL_NO_PLATFORM = -1001,
    CL_INFO_PLATFORM_NAME = 0x0902,
    CL_INFO_PLATFORM_VERSION = 0x0901,
    CL_INFO_TYPE = 0x1000,
    CL_INFO_GLOBAL_BYTES = 0x101F,
    CL_INFO_LARGEST_BUFFER = 0x1010,
    CL_INFO_LOCAL_BYTES = 0x1023,
    CL_INFO_GROUP_ITEMS = 0x1004,
    CL_INFO_FP32 = 0x101B,
    CL_INFO_FP64 = 0x1032,
    CL_INFO_AVAILABLE = 0x1027,
    CL_INFO_COMPILER = 0x1028,
    CL_INFO_LITTLE_ENDIAN = 0x1026,
    CL_INFO_NAME = 0x102B,
    CL_INFO_DRIVER = 0x102D,
    CL_INFO_VERSION = 0x102F,
    CL_FP_DENORM = 1,
    CL_FP_FMA = 1 << 5,
    CL_FP_EXACT_DIVISION = 1 << 7,
    CL_KIND_CPU = 1 << 1,
    CL_QUEUE_PROFILING = 1 << 1,
    CL_MEMORY_READ_WRITE = 1 << 0,
    CL_PROGRAM_INFO_BINARY_SIZES = 0x1165,
    CL_PROGRAM_INFO_BINARIES = 0x1166,
    CL_PROGRAM_INFO_LOG = 0x1183,
    CL_EVENT_INFO_STATUS = 0x11D3,
    CL_EVENT_START = 0x1282,
    CL_EVENT_END = 0x1283
};
#define CL_KIND_ALL 0xFFFFFFFFu

/* What a device says of itself. */
typedef struct cl_facts {
    char name[96], driver[96], platform[96];
    uint64_t bytes, largest_buffer, kind, fp32, fp64;
    const char *unusable; /* why; NULL: it can be used */
} cl_facts;

enum { CL_ENTRY_BYTES = 64 };
typedef struct cl_entry {
    char name[CL_ENTRY_BYTES];
    cl_handle kernel; /* NULL: of a run that is not compiled yet */
} cl_entry;

typedef struct cl_state {
    cl_api api;
    device table;
    device_kernel *kernels;
    cl_facts facts;
    cl_handle id, context, queue;
    cl_handle *programs; /* the first has all kernels; others, kernels of runs */
    int32_t n_programs;
    char *folder;      /* for what was compiled; NULL: none */
    cl_entry *entries; /* kernels that were asked for */
    int32_t n_entries;
    char *runs; /* texts of runs that are not compiled yet, and what they stand behind (gpu_run) */
    size_t runs_bytes;
    uint64_t runs_sources;
    device_counts counts;
    uint64_t waits_since; /* the last mark: where a launch follows, they were inside a program */
    ebb_ctx *ctx;
} cl_state;

/* Host memory for one place that is mapped again and again, twice: while the device still reads
 * what was written, the other half is mapped. */
typedef struct cl_slot {
    size_t offset, bytes; /* the place; of a lent one, whatever begins there */
    void *data[2];
    cl_handle written[2]; /* copies to the device that may still read them; NULL: none */
    bool mapped[2];
    uint64_t used; /* when it was mapped last */
    bool lent;     /* its memory is the plan's, and the place is its own for good */
} cl_slot;

enum { CL_SLOTS = 16 }; /* beside those that are lent */

typedef struct cl_buffer {
    cl_state *state;
    cl_handle memory;
    char *base; /* addresses that programs hold: nothing can be read or written there */
    size_t bytes;
    cl_slot *slots;
    int32_t n_slots;
    uint64_t maps;
    cl_handle marks[DEVICE_MARKS]; /* the oldest first */
    int32_t n_marks;
} cl_buffer;

static inline cl_state *cl_state_of(const device *dev) {
    return dev->state;
}

/* The host waits for the device, but not for the end of a step that was begun before. */
static inline void cl_count_wait(cl_state *state) {
    state->counts.waits++;
    state->waits_since++;
}

/* load.c: EBB_USAGE if there is no library, or it lacks something. */
ebb_status ebb__cl_load(ebb_ctx *ctx, cl_api *out) EBB_MUST_CHECK;
void ebb__cl_unload(cl_api *api);
/* EBB_OK, or a sentence: what was asked of the driver, and its answer. */
ebb_status ebb__cl_check(ebb_ctx *ctx, int32_t code, const char *what) EBB_MUST_CHECK;

/* device.c */
ebb_status ebb__cl_open(ebb_ctx *ctx, const device_choice *choice,
                        const device **out) EBB_MUST_CHECK;
void ebb__cl_close(const device *dev);
/* The first that is no CPU and can be used, else `other`. */
ebb_status ebb__cl_open_gpu(ebb_ctx *ctx, const device_choice *choice, const device *other,
                            const device **out) EBB_MUST_CHECK;
ebb_status ebb__cl_each(ebb_ctx *ctx, const char *folder,
                        void (*tell)(void *user, const device_info *info),
                        void *user) EBB_MUST_CHECK;

/* selftest.c: EBB_USAGE with what it got wrong if the device's numbers are not the CPU's. */
ebb_status ebb__cl_selftest(ebb_ctx *ctx, const device *dev) EBB_MUST_CHECK;

/* program.c: compiles all kernels, or takes what was compiled before from the folder. */
ebb_status ebb__cl_build(ebb_ctx *ctx, cl_state *state) EBB_MUST_CHECK;
/* The number of a kernel in state->entries. */
ebb_status ebb__cl_entry(ebb_ctx *ctx, cl_state *state, const char *entry,
                         int32_t *out) EBB_MUST_CHECK;
/* The same of a run, whose kernel is there when runs are built: all that were added since, as one
 * program. */
ebb_status ebb__cl_add_run(cl_state *state, const gpu_run *run, int32_t *out) EBB_MUST_CHECK;
ebb_status ebb__cl_build_runs(ebb_ctx *ctx, cl_state *state) EBB_MUST_CHECK;

/* buffer.c, stream.c */
extern const device_buffer_table ebb__cl_buffer_table;
extern const device_stream_table ebb__cl_stream_table;

#endif
