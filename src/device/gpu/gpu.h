/* gpu.h - what devices share whose kernels are texts of src/device/gpu/kernels: which kernels there
 * are, how many items they are started with, and how an instruction is described to them. Nothing
 * here calls a driver: src/device/opencl does.
 *
 * How to add a kernel: docs/add-a-kernel.md, "A kernel for other devices".
 */
#ifndef DEVICE_GPU_GPU_H
#define DEVICE_GPU_GPU_H

#include "device/device.h"
#include "device/gpu/call.h"

enum { GPU_MAX_FORMS = 4 };

/* What a kernel counts by: rows and units of the descriptor. */
typedef struct gpu_extent {
    int64_t rows, units;
} gpu_extent;

/* One launch: entry k_ENTRY for groups of wide x high items, each of which does tile_wide units
 * (0: all) by tile_high rows. */
typedef struct gpu_stage {
    const char *entry;
    gpu_extent (*extent)(const op_call *call);
    int16_t wide, high, tile_wide, tile_high;
} gpu_stage;

/* Launches that carry out a node, one after the other; a form is one way, all have the same bits.
 * Rows and units of the descriptor are those that the last one counts. */
typedef struct gpu_form {
    const char *name;
    gpu_stage stages[GPU_MAX_STAGES];
    /* Whether the node can be done so; NULL: every one. */
    bool (*able)(const ir_graph *graph, const ir_node_rec *node);
    size_t (*workspace)(const ir_graph *graph, const ir_node_rec *node); /* NULL: none */
    /* Rows and units where it is part of a run: one launch that does not ask what others of the
     * launch wrote, beyond its own units. NULL: it never is. */
    gpu_extent (*in_runs)(const op_call *call);
    bool for_cpu; /* tried first where the device is a CPU, last elsewhere */
} gpu_form;

typedef struct gpu_kernel {
    op_code op;
    bool element; /* one stage whose items touch only what belongs to their row and unit */
    gpu_form forms[GPU_MAX_FORMS];
    /* As device_kernel's; the second of CPUs only. */
    const char *(*accept)(const ir_graph *graph, const ir_node_rec *node);
    double (*extra_bytes)(const ir_graph *graph, const ir_node_rec *node);
} gpu_kernel;

typedef struct gpu_family {
    const gpu_kernel *kernels;
    int32_t n;
} gpu_family;
#define FAMILY(name) extern const gpu_family ebb__gpu_##name;
#include "device/gpu/families.def"
#undef FAMILY

/* NULL: there is none. */
const gpu_kernel *ebb__gpu_kernel_of(op_code op);
const char *ebb__gpu_family_of(op_code op); /* its name; NULL: as above */
/* The list of a device (NULL: only how many there are), and their number. A CPU prefers other
 * forms. */
int32_t ebb__gpu_kernel_list(device_kernel *out, bool is_cpu);

/* How many launches the call takes, and of launch s its groups. */
int32_t ebb__gpu_stages(const gpu_form *form);
void ebb__gpu_groups(const gpu_stage *stage, gpu_extent extent, size_t groups[2]);

/* The descriptor of the call, whose views have addresses from `base` on; `out` has room for
 * gpu_call_bytes. */
static inline size_t gpu_call_bytes(const op_call *call) {
    return sizeof(gpu_call) + (size_t)(call->n_in + call->n_out) * sizeof(gpu_view);
}
void ebb__gpu_describe(const op_call *call, const gpu_form *form, const char *base, void *out);

/* ---- runs.c ---- */
enum { GPU_MAX_RUN = DEVICE_MAX_RUN };
typedef struct gpu_run {
    char name[32], text[GPU_MAX_RUN * 64 + 256];
    gpu_stage launch; /* without its extent, which is: */
    gpu_extent extent;
    uint64_t sources; /* what its text is to stand behind, in their order: bit i is source i */
} gpu_run;
/* How many instructions from the first on, of those that are joined to it, can be one launch. */
int32_t ebb__gpu_run_length(const device_kernel *kernels, const device_instr *const *instrs,
                            int32_t count);
/* The kernel that carries out these n; false: it would be too long. */
bool ebb__gpu_run_text(const device_kernel *kernels, const device_instr *const *run, int32_t n,
                       gpu_run *out);

/* The text of all kernels, in the order in which it is compiled (made by cmake/embed.cmake). Runs
 * need the bodies of a few families alone, behind GPU_BODIES: compiling all takes seconds. */
extern const char *const ebb__gpu_source[];
extern const int32_t ebb__gpu_sources;
#define GPU_BODIES "#define GPU_BODIES\n"

#endif
