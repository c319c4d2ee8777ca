/* device.c - devices of OpenCL: what is there, what each says of itself, and one that is opened. */
#include "device/opencl/opencl.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PLATFORMS = 16, MOST_DEVICES = 32, LEAST_GROUP = 256, LEAST_LOCAL = 32 << 10 };

/* ---- what is there ---- */

static void ask_text(const cl_api *api, cl_handle id, uint32_t what, char out[96]) {
    size_t got = 0;
    char text[256] = "";
    if (api->clGetDeviceInfo(id, what, sizeof text - 1, text, &got) != CL_OK) {
        text[0] = '\0';
    }
    (void)snprintf(out, 96, "%.95s", text);
}

static uint64_t ask_number(const cl_api *api, cl_handle id, uint32_t what, size_t bytes) {
    uint64_t number = 0;
    uint32_t small = 0;
    if (bytes == sizeof small) {
        return api->clGetDeviceInfo(id, what, bytes, &small, NULL) == CL_OK ? small : 0;
    }
    return api->clGetDeviceInfo(id, what, bytes, &number, NULL) == CL_OK ? number : 0;
}

/* Capabilities that no kernel can do without. What a device computes is asked of the device
 * (selftest), not of its flags. */
static const char *why_unusable(const cl_api *api, cl_handle id, const cl_facts *f) {
    char version[96];
    int major = 0, minor = 0;
    ask_text(api, id, CL_INFO_VERSION, version);
    if (sscanf(version, "OpenCL %d.%d", &major, &minor) != 2 || major * 10 + minor < 12) {
        return "it is older than OpenCL 1.2";
    }
    return ask_number(api, id, CL_INFO_AVAILABLE, 4) == 0       ? "it is not available"
           : ask_number(api, id, CL_INFO_COMPILER, 4) == 0      ? "it has no compiler"
           : ask_number(api, id, CL_INFO_LITTLE_ENDIAN, 4) == 0 ? "it stores numbers the other way"
           : f->fp64 == 0                  ? "it has no numbers of 64 bits (fp64)"
           : (f->fp32 & CL_FP_DENORM) == 0 ? "it has no subnormal numbers"
           : ask_number(api, id, CL_INFO_GROUP_ITEMS, sizeof(size_t)) < LEAST_GROUP
               ? "its groups have fewer than 256 items"
           : ask_number(api, id, CL_INFO_LOCAL_BYTES, 8) < LEAST_LOCAL
               ? "its groups have less than 32 KiB of local memory"
               : NULL;
}

static cl_facts facts_of(const cl_api *api, cl_handle platform, cl_handle id) {
    cl_facts f = {.unusable = NULL};
    char version[512] = ""; /* drivers answer nothing where there is no room for all of it */
    size_t got = 0;
    if (api->clGetPlatformInfo(platform, CL_INFO_PLATFORM_VERSION, sizeof version - 1, version,
                               &got) == CL_OK) {
        (void)snprintf(f.platform, sizeof f.platform, "%.95s", version);
    }
    ask_text(api, id, CL_INFO_NAME, f.name);
    ask_text(api, id, CL_INFO_DRIVER, f.driver);
    f.bytes = ask_number(api, id, CL_INFO_GLOBAL_BYTES, 8);
    f.largest_buffer = ask_number(api, id, CL_INFO_LARGEST_BUFFER, 8);
    f.kind = ask_number(api, id, CL_INFO_TYPE, 8);
    f.fp32 = ask_number(api, id, CL_INFO_FP32, 8);
    f.fp64 = ask_number(api, id, CL_INFO_FP64, 8);
    f.unusable = why_unusable(api, id, &f);
    return f;
}

/* One that is there: its platform's number and its own, as names have them. */
typedef struct cl_place {
    cl_handle id;
    uint32_t platform, device;
    cl_facts facts;
} cl_place;

/* How many there are, up to where a walk ended. */
typedef struct cl_found {
    uint32_t drivers, devices;
} cl_found;

/* Tells of each, in the drivers' order, until `tell` says that it has seen enough. Who asked keeps
 * the library: drivers that were asked do not bear to be taken out. */
static cl_found walk(const cl_api *api, bool (*tell)(void *user, const cl_place *place),
                     void *user) {
    cl_handle platforms[MOST_PLATFORMS], devices[MOST_DEVICES];
    cl_found found = {0};
    uint32_t n = 0, m = 0;
    bool more = true;
    if (api->clGetPlatformIDs(MOST_PLATFORMS, platforms, &n) != CL_OK) {
        n = 0;
    }
    for (uint32_t p = 0; more && p < n && p < MOST_PLATFORMS; p++) {
        if (api->clGetDeviceIDs(platforms[p], CL_KIND_ALL, MOST_DEVICES, devices, &m) != CL_OK) {
            m = 0; /* this one has none */
        }
        for (uint32_t d = 0; more && d < m && d < MOST_DEVICES; d++) {
            cl_place place = {devices[d], p, d, facts_of(api, platforms[p], devices[d])};
            found.devices++;
            more = tell(user, &place);
        }
    }
    found.drivers = n;
    return found;
}

/* Why none can be used, where there is none. */
static const char *why_none(cl_found found) {
    return found.drivers == 0
               ? "OpenCL has no driver here; install one (for CPUs, Debian: pocl-opencl-icd)"
               : "OpenCL's drivers show no device (PoCL shows none without a folder that it can "
                 "write, POCL_CACHE_DIR)";
}

/* ---- opening one ---- */

static void describe(const device *dev, char *text, size_t bytes) {
    const cl_facts *f = &cl_state_of(dev)->facts;
    (void)snprintf(text, bytes, "%s, %s, driver %s", f->name, f->platform, f->driver);
}

static device_counts counts(const device *dev) {
    return cl_state_of(dev)->counts;
}

static ebb_status measure_peak(const device *dev, ebb_ctx *ctx, int members,
                               double *flops_per_second) {
    (void)ctx, (void)members;
    *flops_per_second = dev->flops_per_second;
    return EBB_OK;
}

static ebb_status fill_table(ebb_ctx *ctx, cl_state *state) {
    bool is_cpu = (state->facts.kind & CL_KIND_CPU) != 0;
    int32_t n = ebb__gpu_kernel_list(NULL, is_cpu);
    TRY(ebb__alloc(ctx, (size_t)n, sizeof *state->kernels, &state->kernels));
    (void)ebb__gpu_kernel_list(state->kernels, is_cpu);
    state->table = (device){.name = "opencl",
                            .state = state,
                            .refuses = true,
                            .kernels = state->kernels,
                            .n_kernels = n,
                            .buffer = ebb__cl_buffer_table,
                            .stream = ebb__cl_stream_table,
                            .describe = describe,
                            .measure_peak = measure_peak,
                            .counts = counts,
                            .memory_bytes = state->facts.bytes,
                            .largest_bytes = state->facts.largest_buffer,
                            .instr_bytes = (int32_t)sizeof(gpu_call),
                            .view_bytes = (int32_t)sizeof(gpu_view),
                            .flops_per_second = is_cpu ? 80e9 : 2e12,
                            .bytes_per_second = is_cpu ? 20e9 : 200e9,
                            .away_bytes_per_second = is_cpu ? 5e9 : 10e9,
                            .seconds_per_instr = 8e-6,
                            .scalar_share = 1.0 / 32,
                            .bus_members = 1,
                            .cache_bytes = is_cpu ? 16 << 20 : 0,
                            .cache_speed = is_cpu ? 4 : 1,
                            .meeting_seconds = 0,
                            .panel_lanes = is_cpu ? 16 : 0,
                            .gate_lanes = is_cpu ? 16 : 0,
                            .row_grain = 16,
                            .run_units = 32,
                            .run_floats = 16 << 10};
    return EBB_OK;
}

static ebb_status open_state(ebb_ctx *ctx, cl_state *state, const char *folder) {
    int32_t code = CL_OK;
    TRY(ebb__cl_load(ctx, &state->api));
    state->context = state->api.clCreateContext(NULL, 1, &state->id, NULL, NULL, &code);
    TRY(ebb__cl_check(ctx, code, state->facts.name));
    state->queue =
        state->api.clCreateCommandQueue(state->context, state->id, CL_QUEUE_PROFILING, &code);
    TRY(ebb__cl_check(ctx, code, state->facts.name));
    TRY(folder != NULL ? ebb__strdup(ctx, folder, &state->folder) : EBB_OK);
    TRY(ebb__cl_build(ctx, state));
    TRY(fill_table(ctx, state));
    return ebb__cl_selftest(ctx, &state->table);
}

/* It has compiled all kernels and computed something then. */
static ebb_status open_place(ebb_ctx *ctx, const cl_place *place, const char *folder,
                             const device **out) {
    cl_state *state = NULL;
    if (place->facts.unusable != NULL) {
        return ebb__fail(ctx, EBB_USAGE, "%s: %s", place->facts.name, place->facts.unusable);
    }
    TRY(ebb__alloc(ctx, 1, sizeof *state, &state));
    *state = (cl_state){.ctx = ctx, .id = place->id, .facts = place->facts};
    state->table.state = state;
    ebb_status status = open_state(ctx, state, folder);
    if (status != EBB_OK) {
        ebb__cl_close(&state->table);
        return status;
    }
    *out = &state->table;
    return EBB_OK;
}

/* The first of those that are meant that can be used. */
typedef struct cl_search {
    ebb_ctx *ctx;
    const char *folder;
    bool numbered, no_cpu;     /* only the one with these numbers; none that is a CPU */
    uint32_t platform, device; /* of `numbered` */
    const device *found;
    ebb_status status; /* of the first that was meant and could not be opened, and why */
    char why[256];
} cl_search;

static bool try_place(void *user, const cl_place *place) {
    cl_search *s = user;
    bool is_cpu = (place->facts.kind & CL_KIND_CPU) != 0;
    bool meant = s->numbered ? place->platform == s->platform && place->device == s->device
                             : !(s->no_cpu && is_cpu);
    ebb_status status = meant ? open_place(s->ctx, place, s->folder, &s->found) : EBB_OK;
    if (status != EBB_OK && s->status == EBB_OK) {
        s->status = status;
        (void)snprintf(s->why, sizeof s->why, "%s", ebb_last_error(s->ctx));
    }
    if (status != EBB_OK) {
        ebb__ctx_clear(s->ctx);
    }
    return s->found == NULL && !(meant && s->numbered);
}

/* What was found, and why it is not the first that was meant. */
static void take(const cl_search *s, const char *name, const device **out) {
    if (s->status != EBB_OK) {
        ebb__log(s->ctx, EBB_LOG_WARN, "--device %.40s: %s; the next one is used", name, s->why);
    }
    *out = s->found;
}

/* Two numbers of at most nine digits; false: something else. */
static bool read_numbers(const char *text, cl_search *out) {
    uint32_t *const numbers[2] = {&out->platform, &out->device};
    for (int i = 0; i < 2; i++) {
        size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 9 || text[digits] != (i == 0 ? '.' : '\0')) {
            return false;
        }
        *numbers[i] = (uint32_t)strtoul(text, NULL, 10);
        text += digits + 1;
    }
    return true;
}

ebb_status ebb__cl_open(ebb_ctx *ctx, const device_choice *choice, const device **out) {
    const char *name = choice->name, *numbers = strchr(name, ':');
    cl_search search = {.ctx = ctx, .folder = choice->folder, .numbered = numbers != NULL};
    cl_api api;
    if (numbers != NULL && !read_numbers(numbers + 1, &search)) {
        return ebb__fail(ctx, EBB_USAGE,
                         "--device %.40s: write opencl:PLATFORM.DEVICE, two numbers as "
                         "'ebb devices' shows them",
                         name);
    }
    TRY(ebb__cl_load(ctx, &api));
    cl_found found = walk(&api, try_place, &search);
    if (search.found != NULL) {
        take(&search, name, out);
        return EBB_OK;
    }
    if (found.devices == 0) {
        return ebb__fail(ctx, EBB_USAGE, "--device %.40s: %s, or use --device cpu", name,
                         why_none(found));
    }
    return ebb__fail(ctx, search.status != EBB_OK ? search.status : EBB_USAGE,
                     "--device %.40s: no such device that can be used%s%s; 'ebb devices' shows all",
                     name, search.status != EBB_OK ? ": " : "", search.why);
}

ebb_status ebb__cl_open_gpu(ebb_ctx *ctx, const device_choice *choice, const device *other,
                            const device **out) {
    cl_search search = {.ctx = ctx, .folder = choice->folder, .no_cpu = true};
    cl_api api;
    *out = other;
    if (ebb__cl_load(ctx, &api) != EBB_OK) {
        ebb__ctx_clear(ctx);
        return EBB_OK;
    }
    (void)walk(&api, try_place, &search);
    if (search.found != NULL) {
        take(&search, choice->name, out);
    }
    return EBB_OK;
}

void ebb__cl_close(const device *dev) {
    cl_state *state = cl_state_of(dev);
    for (int32_t i = 0; i < state->n_entries; i++) {
        if (state->entries[i].kernel != NULL) {
            (void)state->api.clReleaseKernel(state->entries[i].kernel);
        }
    }
    for (int32_t i = 0; i < state->n_programs; i++) {
        (void)state->api.clReleaseProgram(state->programs[i]);
    }
    if (state->queue != NULL) {
        (void)state->api.clReleaseCommandQueue(state->queue);
    }
    if (state->context != NULL) {
        (void)state->api.clReleaseContext(state->context);
    }
    ebb__cl_unload(&state->api);
    ebb__free(state->ctx, state->programs);
    ebb__free(state->ctx, state->folder);
    ebb__free(state->ctx, state->entries);
    ebb__free(state->ctx, state->runs);
    ebb__free(state->ctx, state->kernels);
    ebb__free(state->ctx, state);
}

/* ---- all of them ---- */

typedef struct cl_listing {
    ebb_ctx *ctx;
    const char *folder;
    void (*tell)(void *user, const device_info *info);
    void *user;
} cl_listing;

static bool list_place(void *user, const cl_place *place) {
    const cl_listing *l = user;
    const cl_facts *facts = &place->facts;
    device_info info = {.memory_bytes = facts->bytes,
                        .largest_bytes = facts->largest_buffer,
                        .fma = (facts->fp32 & CL_FP_FMA) != 0,
                        .fp64 = facts->fp64 != 0,
                        .is_cpu = (facts->kind & CL_KIND_CPU) != 0};
    const device *dev = NULL;
    (void)snprintf(info.id, sizeof info.id, "opencl:%u.%u", place->platform, place->device);
    (void)snprintf(info.what, sizeof info.what, "%s, driver %s", facts->name, facts->driver);
    if (facts->unusable != NULL) {
        (void)snprintf(info.why_not, sizeof info.why_not, "%s", facts->unusable);
    } else if (open_place(l->ctx, place, l->folder, &dev) != EBB_OK) {
        (void)snprintf(info.why_not, sizeof info.why_not, "%.255s", ebb_last_error(l->ctx));
        ebb__ctx_clear(l->ctx);
    } else {
        ebb__cl_close(dev);
    }
    l->tell(l->user, &info);
    return true;
}

ebb_status ebb__cl_each(ebb_ctx *ctx, const char *folder,
                        void (*tell)(void *user, const device_info *info), void *user) {
    cl_listing listing = {ctx, folder, tell, user};
    cl_api api;
    if (ebb__cl_load(ctx, &api) != EBB_OK) {
        device_info none = {.id = "opencl", .what = "no driver"};
        (void)snprintf(none.why_not, sizeof none.why_not, "%.255s", ebb_last_error(ctx));
        ebb__ctx_clear(ctx);
        tell(user, &none);
        return EBB_OK;
    }
    cl_found found = walk(&api, list_place, &listing);
    if (found.devices == 0) {
        device_info none = {.id = "opencl", .what = "nothing that computes"};
        (void)snprintf(none.why_not, sizeof none.why_not, "%s", why_none(found));
        tell(user, &none);
    }
    return EBB_OK;
}
