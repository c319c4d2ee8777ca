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
    if (strcmp(name, "auto") == 0) {
        return ebb__cl_open_gpu(ctx, choice, &ebb__cpu_device, out);
    }
    if (strcmp(name, "opencl") == 0 || strncmp(name, "opencl:", 7) == 0) {
        return ebb__cl_open(ctx, choice, out);
    }
    return ebb__fail(ctx, EBB_USAGE,
                     "--device %.40s: there is cpu, opencl, opencl:PLATFORM.DEVICE, auto", name);
}

ebb_status ebb__device_each(ebb_ctx *ctx, const char *folder,
                            void (*tell)(void *user, const device_info *info), void *user) {
    device_info cpu = {.id = "cpu", .is_cpu = true, .fma = true, .fp64 = true};
    ebb__cpu_device.describe(&ebb__cpu_device, cpu.what, sizeof cpu.what);
    tell(user, &cpu);
    return ebb__cl_each(ctx, folder, tell, user);
}

void ebb__device_close(const device *dev) {
    if (dev != NULL && dev != &ebb__cpu_device) {
        ebb__cl_close(dev);
    }
}
