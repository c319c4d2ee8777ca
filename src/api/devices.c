/* devices.c - devices for callers of the library: which there are, and the one that options name.
 */
#include "api/api.h"

#include <string.h>

typedef struct device_teller {
    ebb_device_fn fn;
    void *user;
} device_teller;

static void tell(void *user, const device_info *info) {
    const device_teller *teller = user;
    ebb_device found = {.name = info->id,
                        .what = info->what,
                        .why_not = info->why_not,
                        .memory_bytes = info->memory_bytes,
                        .largest_bytes = info->largest_bytes,
                        .is_cpu = info->is_cpu};
    teller->fn(teller->user, &found);
}

ebb_status ebb_devices(ebb_ctx *ctx, const char *kernels, ebb_device_fn fn, void *user) {
    device_teller teller = {fn, user};
    if (ctx == NULL || fn == NULL) {
        return EBB_USAGE;
    }
    ebb__ctx_clear(ctx);
    return ebb__device_each(ctx, kernels, tell, &teller);
}

ebb_status ebb__api_open_device(ebb_ctx *ctx, const char *name, const char *kernels,
                                const device **out) {
    device_choice choice = {name, kernels};
    *out = NULL;
    return name == NULL || strcmp(name, "cpu") == 0 ? EBB_OK : ebb__device_open(ctx, &choice, out);
}
