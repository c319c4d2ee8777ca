/* table.c - all families as one list, as a device has it, and the kernel of an op. */
#include "device/gpu/gpu.h"

#include <stdio.h>

static const gpu_family *const families[] = {
#define FAMILY(name) &ebb__gpu_##name,
#include "device/gpu/families.def"
#undef FAMILY
};
enum { FAMILIES = sizeof families / sizeof *families };
static const char *const names[FAMILIES] = {
#define FAMILY(name) #name,
#include "device/gpu/families.def"
#undef FAMILY
};

static const gpu_kernel *find(op_code op, int32_t *family) {
    for (int32_t f = 0; f < FAMILIES; f++) {
        for (int32_t i = 0; i < families[f]->n; i++) {
            if (families[f]->kernels[i].op == op) {
                *family = f;
                return &families[f]->kernels[i];
            }
        }
    }
    return NULL;
}

const gpu_kernel *ebb__gpu_kernel_of(op_code op) {
    int32_t family = 0;
    return find(op, &family);
}

const char *ebb__gpu_family_of(op_code op) {
    int32_t family = 0;
    return find(op, &family) == NULL ? NULL : names[family];
}

/* ---- as a device's list ---- */

static int32_t list_forms(const ir_graph *graph, const ir_node_rec *node, bool is_cpu,
                          int32_t *list) {
    const gpu_kernel *kernel = ebb__gpu_kernel_of((op_code)node->op);
    int32_t n = 0;
    for (int32_t turn = 0; turn < 2; turn++) {
        for (int32_t f = 0; f < GPU_MAX_FORMS && kernel->forms[f].name != NULL; f++) {
            const gpu_form *form = &kernel->forms[f];
            bool first = form->for_cpu == is_cpu;
            if (first == (turn == 0) && (form->able == NULL || form->able(graph, node))) {
                list[n++] = f;
            }
        }
    }
    return n;
}

static int32_t forms_of_cpu(const ir_graph *graph, const ir_node_rec *node, int members,
                            int32_t *list) {
    (void)members;
    return list_forms(graph, node, true, list);
}

static int32_t forms_of_gpu(const ir_graph *graph, const ir_node_rec *node, int members,
                            int32_t *list) {
    (void)members;
    return list_forms(graph, node, false, list);
}

/* A form's number is its place in the table; only products have several, so theirs are named. */
static void form_name(int32_t form, char *text, size_t bytes) {
    (void)snprintf(text, bytes, "%s", ebb__gpu_kernel_of(OP_MATMUL)->forms[form].name);
}

static size_t workspace_of(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                           int members) {
    const gpu_form *f = &ebb__gpu_kernel_of((op_code)node->op)->forms[form];
    (void)members;
    return f->workspace == NULL ? 0 : f->workspace(graph, node);
}

static device_kernel as_device_kernel(const gpu_kernel *kernel, bool is_cpu) {
    device_kernel out = {.name = ebb__op((int)kernel->op)->schema.name,
                         .op = kernel->op,
                         .accept = kernel->accept,
                         .extra_bytes = is_cpu ? kernel->extra_bytes : NULL,
                         .ranges = kernel->element};
    if (kernel->forms[1].name != NULL) {
        out.forms = is_cpu ? forms_of_cpu : forms_of_gpu;
        out.form_name = kernel->op == OP_MATMUL ? form_name : NULL;
    }
    for (int32_t f = 0; f < GPU_MAX_FORMS && kernel->forms[f].name != NULL; f++) {
        out.ranges = out.ranges || (is_cpu && kernel->forms[f].in_runs != NULL);
        out.workspace = kernel->forms[f].workspace != NULL ? workspace_of : out.workspace;
    }
    return out;
}

int32_t ebb__gpu_kernel_list(device_kernel *out, bool is_cpu) {
    int32_t n = 0;
    for (int32_t f = 0; f < FAMILIES; f++) {
        for (int32_t i = 0; i < families[f]->n; i++, n++) {
            if (out != NULL) {
                out[n] = as_device_kernel(&families[f]->kernels[i], is_cpu);
            }
        }
    }
    return n;
}
