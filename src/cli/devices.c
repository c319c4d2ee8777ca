/* devices.c - `ebb devices`, and the device that --device names. */
#include "cli/command.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Where compiled kernels are kept: beside measured times. */
static const char *kernel_folder(char *out, size_t bytes) {
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (base != NULL && base[0] != '\0') {
        n = snprintf(out, bytes, "%s/ebb/kernels", base);
    } else if (home != NULL && home[0] != '\0') {
        n = snprintf(out, bytes, "%s/.cache/ebb/kernels", home);
    }
    return n > 0 && (size_t)n < bytes ? out : NULL;
}

ebb_status ebb__cli_open_device(cli_call *call) {
    char folder[512];
    const char *name = call->settings.device;
    if (name == NULL || strcmp(name, "cpu") == 0) {
        return EBB_OK;
    }
    if (call->link != NULL && ebb__comm_size(call->link) > 1) {
        return ebb__fail(call->ctx, EBB_USAGE,
                         "--device %.40s: processes that mpirun starts compute on the cpu", name);
    }
    device_choice choice = {name, kernel_folder(folder, sizeof folder)};
    TRY(ebb__device_open(call->ctx, &choice, &call->dev));
    call->settings.run.dev = call->dev;
    return EBB_OK;
}

typedef struct device_list {
    json_t *json; /* NULL: as text */
    bool lost;
} device_list;

static void tell(void *user, const device_info *info) {
    device_list *list = user;
    bool usable = info->why_not[0] == '\0';
    if (list->json == NULL) {
        printf("%-12s %s\n", info->id, info->what);
        if (info->memory_bytes > 0) {
            printf("             memory %" PRIu64 " bytes (%s), in one piece %" PRIu64 " (%s)\n",
                   info->memory_bytes, ebb__unit_bytes(info->memory_bytes).text,
                   info->largest_bytes, ebb__unit_bytes(info->largest_bytes).text);
            printf("             fma %s, fp64 %s\n", info->fma ? "yes" : "not promised",
                   info->fp64 ? "yes" : "no");
        }
        printf("             %s%s\n", usable ? "can be used" : "cannot be used: ", info->why_not);
        return;
    }
    json_t *one =
        json_pack("{s:s, s:s, s:o, s:o, s:b, s:b, s:b, s:s}", "device", info->id, "what",
                  info->what, "memory_bytes", ebb__cli_json_bytes(info->memory_bytes),
                  "largest_bytes", ebb__cli_json_bytes(info->largest_bytes), "fma", info->fma,
                  "fp64", info->fp64, "usable", usable, "why_not", info->why_not);
    list->lost = list->lost || json_array_append_new(list->json, one) != 0;
}

ebb_status ebb__cli_devices(cli_call *call) {
    char folder[512];
    device_list list = {.json = call->settings.json ? json_array() : NULL};
    ebb_status status =
        ebb__device_each(call->ctx, kernel_folder(folder, sizeof folder), tell, &list);
    if (status != EBB_OK || list.json == NULL) {
        json_decref(list.json);
        return status;
    }
    json_t *object = json_pack("{s:i, s:o}", "schema", 1, "devices", list.json);
    if (list.lost) {
        json_decref(object);
        object = NULL;
    }
    return ebb__cli_print_json(call->ctx, object);
}
