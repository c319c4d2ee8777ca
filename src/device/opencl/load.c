/* load.c - the driver's library, by name, and its answers as sentences. */
#include "device/opencl/opencl.h"

#include <dlfcn.h>
#include <string.h>

#define LIBRARY "libOpenCL.so.1"

ebb_status ebb__cl_load(ebb_ctx *ctx, cl_api *out) {
    *out = (cl_api){.library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL)};
    if (out->library == NULL) {
        return ebb__fail(ctx, EBB_USAGE,
                         "opencl: there is no " LIBRARY "; install it (Debian: ocl-icd-libopencl1) "
                         "and a driver (for CPUs: pocl-opencl-icd), or use --device cpu");
    }
    const char *missing = NULL;
    void *found;
#define CALL(result, name, args)                                                                   \
    found = dlsym(out->library, #name);                                                            \
    memcpy(&out->name, &found, sizeof found);                                                      \
    missing = found == NULL ? #name : missing;
#include "device/opencl/api.def"
#undef CALL
    if (missing != NULL) {
        ebb__cl_unload(out);
        return ebb__fail(ctx, EBB_USAGE,
                         "opencl: " LIBRARY " has no %s: it is older than OpenCL 1.2", missing);
    }
    return EBB_OK;
}

void ebb__cl_unload(cl_api *api) {
    if (api->library != NULL) {
        (void)dlclose(api->library);
        api->library = NULL;
    }
}

static const char *sentence_of(int32_t code) {
    switch (code) {
    case -4:
        return "the device has no room for that buffer";
    case -5:
        return "the device is out of resources";
    case -6:
        return "the driver is out of memory";
    case -11:
        return "the kernels could not be compiled";
    case -36:
        return "the queue is gone";
    case -45:
        return "the program was not built";
    case -46:
        return "there is no such kernel";
    case -54:
        return "the device does not take groups of that size";
    case -61:
        return "the buffer is larger than the device allows";
    default:
        return "the driver refused";
    }
}

ebb_status ebb__cl_check(ebb_ctx *ctx, int32_t code, const char *what) {
    if (code == CL_OK) {
        return EBB_OK;
    }
    bool memory = code == -4 || code == -5 || code == -6 || code == -61;
    return ebb__fail(ctx, memory ? EBB_NOMEM : EBB_IO, "opencl: %s: %s (error %d)", what,
                     sentence_of(code), (int)code);
}
