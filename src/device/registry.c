/* registry.c - the only place that names a device. */
#include "device/device.h"

#include "device/cpu/cpu.h"

const device *ebb__device_default(void) {
    return &ebb__cpu_device;
}
