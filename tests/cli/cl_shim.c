/* cl_shim.c - stands before the OpenCL library and lets calls fail, for tests of the command:
 * EBB_SHIM is what goes wrong.
 *   build      nothing compiles            alloc    no buffer above a MiB is given
 *   selftest   one bit that is read is wrong, the first time
 *   launch:N   the N-th launch from now fails as if the device were gone
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

/* Those that only go through: a name that nobody wraps below. */
#define THROUGH(name)                                                                              \
    __attribute__((naked)) void name(void);                                                        \
    void name(void) {                                                                              \
        __asm__("jmp *real_" #name "(%rip)");                                                      \
    }
THROUGH(clGetPlatformIDs)
THROUGH(clGetPlatformInfo)
THROUGH(clGetDeviceIDs)
THROUGH(clGetDeviceInfo)
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
THROUGH(clWaitForEvents)
THROUGH(clGetEventInfo)
THROUGH(clGetEventProfilingInfo)
THROUGH(clReleaseEvent)

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
    const char *wanted = getenv("EBB_SHIM");
    launches++;
    if (wanted != NULL && strncmp(wanted, "launch:", 7) == 0 && launches >= atoi(wanted + 7)) {
        return -36;
    }
    return ((launch_fn)real_clEnqueueNDRangeKernel)(queue, kernel, dims, offset, global, local, n,
                                                    after, event);
}
