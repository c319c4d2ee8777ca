/* runs.c - several instructions as one launch (pass fuse joins them, decision 0011): which of them
 * can be, and the text of a kernel that does so. Few sequences of ops occur in a model, and nothing
 * of a text depends on a shape. */
#include "device/gpu/gpu.h"

#include "op/pack.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { UNITS = 16, ROWS = 96, STEP = 8 }; /* of a group with a product: kernels/matmul.cl */

/* Rows and units of an instruction in a run; false: it cannot be part of one. */
static bool extent_of(const device_kernel *kernel, const op_call *call, gpu_extent *out) {
    const gpu_kernel *own = ebb__gpu_kernel_of(kernel->op);
    const gpu_form *form = &own->forms[call->form];
    if (!own->element && !form->in_runs) {
        return false;
    }
    *out = own->element ? form->stages[0].extent(call) : form->in_runs(call);
    return true;
}

int32_t ebb__gpu_run_length(const device_kernel *kernels, const device_instr *const *instrs,
                            int32_t count) {
    gpu_extent first, next;
    int32_t n = 1;
    if (instrs[0]->transfer != TRANSFER_NONE || /* no kernel's business */
        !extent_of(&kernels[instrs[0]->kernel], &instrs[0]->call, &first)) {
        return 1;
    }
    while (n < count && n < GPU_MAX_RUN && instrs[n]->joined &&
           extent_of(&kernels[instrs[n]->kernel], &instrs[n]->call, &next) &&
           next.rows == first.rows && next.units == first.units) {
        n++;
    }
    return n;
}

/* ---- what the texts stand behind ---- */

/* Whether source i is NAME.cl: each begins with a line that says what it is. */
static bool is_source(int32_t i, const char *name) {
    char line[64];
    (void)snprintf(line, sizeof line, "#line 1 \"%s.cl\"\n", name);
    return strncmp(ebb__gpu_source[i], line, strlen(line)) == 0;
}

/* The language, which is all headers; the words of runs; the family of the op. */
static uint64_t sources_of(op_code op) {
    uint64_t sources = 0;
    for (int32_t i = 0; i < ebb__gpu_sources && i < 64; i++) {
        size_t line = strcspn(ebb__gpu_source[i], "\n");
        bool header = line > 3 && strncmp(ebb__gpu_source[i] + line - 3, ".h\"", 3) == 0;
        if (header || is_source(i, "runs") || is_source(i, ebb__gpu_family_of(op))) {
            sources |= UINT64_C(1) << i;
        }
    }
    return sources;
}

/* ---- the text ---- */

static size_t put(char *text, size_t bytes, size_t used, const char *format, const char *word,
                  int number) {
    int n = snprintf(text + used, bytes - used, format, word, number);
    return n > 0 && (size_t)n < bytes - used ? used + (size_t)n : bytes;
}

bool ebb__gpu_run_text(const device_kernel *kernels, const device_instr *const *run, int32_t n,
                       gpu_run *out) {
    const size_t most = sizeof out->text;
    uint64_t hash = (uint64_t)n;
    bool product = false;
    size_t used = 0;
    *out = (gpu_run){.launch = {.tile_wide = 0}};
    for (int32_t i = 0; i < n; i++) {
        int32_t op = (int32_t)kernels[run[i]->kernel].op;
        product = product || !ebb__gpu_kernel_of((op_code)op)->element;
        hash = XXH3_64bits_withSeed(&op, sizeof op, hash);
        out->sources |= sources_of((op_code)op);
    }
    (void)snprintf(out->name, sizeof out->name, "run_%016llx", (unsigned long long)hash);
    (void)extent_of(&kernels[run[0]->kernel], &run[0]->call, &out->extent);
    int wide = product ? UNITS : 64, high = product ? STEP : 4, rows = product ? ROWS : 4;
    out->launch = (gpu_stage){.entry = out->name,
                              .wide = (int16_t)wide,
                              .high = (int16_t)high,
                              .tile_wide = (int16_t)wide,
                              .tile_high = (int16_t)rows};
    used = put(out->text, most, used, "KERNEL void WG(%s%d, ", "", wide);
    used = put(out->text, most, used, "%s%d) ", "", high);
    used = put(out->text, most, used, "k_%s(ARGS) {%.0d\n", out->name, 0);
    used = put(out->text, most, used, "RUN_BEGIN(%s%d, ", "", wide);
    used = put(out->text, most, used, "%s%d)\n", "", rows);
    for (int32_t i = 0; i < n; i++) {
        op_code op = kernels[run[i]->kernel].op;
        const gpu_kernel *own = ebb__gpu_kernel_of(op);
        used = own->element ? put(out->text, most, used, "RUN_ELEMENT(%s, %d)\n",
                                  own->forms[0].stages[0].entry, high)
                            : put(out->text, most, used, "RUN_PRODUCT%s%.0d\n", "", 0);
    }
    used = put(out->text, most, used, "}%s%.0d\n", "", 0);
    return used < most;
}
