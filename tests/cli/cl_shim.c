/* cl_shim.c - stands before the OpenCL library and lets calls fail, for tests of the command:
 * EBB_SHIM is what goes wrong.
 *   build      nothing compiles            alloc    no buffer above a MiB is given
 *   selftest   one bit that is read is wrong, the first time
 *   nodevice   there are drivers, but none has a device
 *   nofp64     no device has numbers of 64 bits
 *   launch:N   the N-th launch from now fails as if the device were gone
 *   wait:N     the N-th wait, likewise
 * Everything else goes through, by a jump. EBB_SHIM_LIBRARY is the library itself. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *cl_handle;
#define CALL(result, name, args) __attribute__((visibility("hidden"))) void *real_##name;
#include "device/opencl/api.def"
#undef CALL

__attribute__((constructor)) static void open_real(void) {
    const char *path = getenv("EBB_SHIM_LIBRARY");
    void *library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library == NULL) {
        fprintf(stderr, "cl_shim: no library\n");
        abort();
    }
#define CALL(result, name, args) real_##name = dlsym(library, #name);
#include "device/opencl/api.def"
#undef CALL
}

static int asked(const char *what) {
    const char *wanted = getenv("EBB_SHIM");
    return wanted != NULL && strcmp(wanted, what) == 0;
}

/* Whether it is the N-th time at least, of "what:N". */
static int asked_from(const char *what, int times) {
    const char *wanted = getenv("EBB_SHIM");
    size_t n = strlen(what);
    return wanted != NULL && strncmp(wanted, what, n) == 0 && wanted[n] == ':' &&
           times >= atoi(wanted + n + 1);
}

/* Those that only go through: a name that nobody wraps below. */
#define THROUGH(name)                                                                              \
    __attribute__((naked)) void name(void);                                                        \
    void name(void) {                                                                              \
        __asm__("jmp *real_" #name "(%rip)");                                                      \
    }
THROUGH(clGetPlatformIDs)
THROUGH(clGetPlatformInfo)
THROUGH(clCreateContext)
THROUGH(clReleaseContext)
THROUGH(clCreateCommandQueue)
THROUGH(clReleaseCommandQueue)
THROUGH(clReleaseMemObject)
THROUGH(clCreateProgramWithSource)
THROUGH(clCreateProgramWithBinary)
THROUGH(clGetProgramBuildInfo)
THROUGH(clGetProgramInfo)
THROUGH(clReleaseProgram)
THROUGH(clCreateKernel)
THROUGH(clReleaseKernel)
THROUGH(clSetKernelArg)
THROUGH(clEnqueueWriteBuffer)
THROUGH(clEnqueueFillBuffer)
THROUGH(clEnqueueMarkerWithWaitList)
THROUGH(clFlush)
THROUGH(clFinish)
THROUGH(clGetEventInfo)
THROUGH(clGetEventProfilingInfo)
THROUGH(clReleaseEvent)

typedef int32_t (*devices_fn)(cl_handle, uint64_t, uint32_t, cl_handle *, uint32_t *);
int32_t clGetDeviceIDs(cl_handle platform, uint64_t kind, uint32_t n, cl_handle *out,
                       uint32_t *found);
int32_t clGetDeviceIDs(cl_handle platform, uint64_t kind, uint32_t n, cl_handle *out,
                       uint32_t *found) {
    return asked("nodevice") ? -1
                             : ((devices_fn)real_clGetDeviceIDs)(platform, kind, n, out, found);
}

typedef int32_t (*info_fn)(cl_handle, uint32_t, size_t, void *, size_t *);
int32_t clGetDeviceInfo(cl_handle device, uint32_t what, size_t bytes, void *out, size_t *got);
int32_t clGetDeviceInfo(cl_handle device, uint32_t what, size_t bytes, void *out, size_t *got) {
    enum { FP64 = 0x1032 };
    int32_t code = ((info_fn)real_clGetDeviceInfo)(device, what, bytes, out, got);
    if (asked("nofp64") && what == FP64 && code == 0 && out != NULL) {
        memset(out, 0, bytes);
    }
    return code;
}

typedef int32_t (*wait_fn)(uint32_t, const cl_handle *);
int32_t clWaitForEvents(uint32_t n, const cl_handle *events);
int32_t clWaitForEvents(uint32_t n, const cl_handle *events) {
    static int waits;
    return asked_from("wait", ++waits) ? -36 : ((wait_fn)real_clWaitForEvents)(n, events);
}

typedef int32_t (*build_fn)(cl_handle, uint32_t, const cl_handle *, const char *, void (*)(void),
                            void *);
int32_t clBuildProgram(cl_handle program, uint32_t n, const cl_handle *devices, const char *options,
                       void (*notify)(void), void *user);
int32_t clBuildProgram(cl_handle program, uint32_t n, const cl_handle *devices, const char *options,
                       void (*notify)(void), void *user) {
    return asked("build")
               ? -11
               : ((build_fn)real_clBuildProgram)(program, n, devices, options, notify, user);
}

typedef cl_handle (*create_fn)(cl_handle, uint64_t, size_t, void *, int32_t *);
cl_handle clCreateBuffer(cl_handle context, uint64_t flags, size_t bytes, void *host,
                         int32_t *error);
cl_handle clCreateBuffer(cl_handle context, uint64_t flags, size_t bytes, void *host,
                         int32_t *error) {
    if (asked("alloc") && bytes > 1 << 20) {
        *error = -4;
        return NULL;
    }
    return ((create_fn)real_clCreateBuffer)(context, flags, bytes, host, error);
}

typedef int32_t (*read_fn)(cl_handle, cl_handle, uint32_t, size_t, size_t, void *, uint32_t,
                           const cl_handle *, cl_handle *);
int32_t clEnqueueReadBuffer(cl_handle queue, cl_handle memory, uint32_t blocking, size_t offset,
                            size_t bytes, void *out, uint32_t n, const cl_handle *after,
                            cl_handle *event);
int32_t clEnqueueReadBuffer(cl_handle queue, cl_handle memory, uint32_t blocking, size_t offset,
                            size_t bytes, void *out, uint32_t n, const cl_handle *after,
                            cl_handle *event) {
    static int times;
    int32_t code = ((read_fn)real_clEnqueueReadBuffer)(queue, memory, blocking, offset, bytes, out,
                                                       n, after, event);
    if (asked("selftest") && times++ == 0) {
        *(unsigned char *)out ^= 1;
    }
    return code;
}

typedef int32_t (*launch_fn)(cl_handle, cl_handle, uint32_t, const size_t *, const size_t *,
                             const size_t *, uint32_t, const cl_handle *, cl_handle *);
int32_t clEnqueueNDRangeKernel(cl_handle queue, cl_handle kernel, uint32_t dims,
                               const size_t *offset, const size_t *global, const size_t *local,
                               uint32_t n, const cl_handle *after, cl_handle *event);
int32_t clEnqueueNDRangeKernel(cl_handle queue, cl_handle kernel, uint32_t dims,
                               const size_t *offset, const size_t *global, const size_t *local,
                               uint32_t n, const cl_handle *after, cl_handle *event) {
    static int launches;
    if (asked_from("launch", ++launches)) {
        return -36;
    }
    return ((launch_fn)real_clEnqueueNDRangeKernel)(queue, kernel, dims, offset, global, local, n,
                                                    after, event);
}
