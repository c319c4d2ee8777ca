/* registry.c - the only place that names devices. */
#include "device/device.h"

#include "device/cpu/cpu.h"
#include "device/opencl/opencl.h"

#include <string.h>

const device *ebb__device_default(void) {
    return &ebb__cpu_device;
}

ebb_status ebb__device_open(ebb_ctx *ctx, const device_choice *choice, const device **out) {
    const char *name = choice->name;
    *out = NULL;
    if (name == NULL || strcmp(name, ebb__cpu_device.name) == 0) {
        *out = &ebb__cpu_device;
        return EBB_OK;
    }
    if (strcmp(name, "opencl") == 0 || strncmp(name, "opencl:", 7) == 0) {
        return ebb__cl_open(ctx, choice, out);
    }
    return ebb__fail(ctx, EBB_USAGE, "--device %.40s: there is cpu, opencl, opencl:PLATFORM.DEVICE",
                     name);
}

void ebb__device_close(const device *dev) {
    if (dev != NULL && dev != &ebb__cpu_device) {
        ebb__cl_close(dev);
    }
}
