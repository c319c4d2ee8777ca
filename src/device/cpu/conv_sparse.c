/* conv_sparse.c - a gradient of weights whose x lies in a heap: rows are decoded as they are
 * needed.
 */
#include "device/cpu/conv.h"
#include "op/conv_sparse.h"

typedef struct heap_source {
    conv_source source; /* first */
    const op_call *call;
    op_map x;
    bool plain; /* decoded without vectors */
} heap_source;

static void heap_row(const conv_source *source, int64_t group, const conv_piece *of, int64_t y,
                     float *to) {
    const heap_source *s = (const heap_source *)(const void *)source;
    const op_view *in = s->call->in, *heap = &in[CONV_HEAP];
    int64_t block = of->block;
    int32_t i = CONV_PARTS;
    for (; block >= op_conv_part_blocks(&s->x, &in[i].type); i += 2) {
        block -= op_conv_part_blocks(&s->x, &in[i].type);
    }
    const uint8_t *bits = (const uint8_t *)in[i].data + group * in[i].type.dim[1];
    const int32_t *starts = (const int32_t *)in[i + 1].data + group * in[i + 1].type.dim[1];
    int64_t row = op_map_pixel(&s->x) * s->x.wide, e = block * op_map_block(&s->x) + y * row;
    const cpu_heap from = {heap->data, heap->type.dim[0], heap->type.dtype};
#ifndef EBB_NO_AVX2
    if (!s->plain) {
        ebb__cpu_heap_range_avx2(&from, bits, starts, e, row, to);
        return;
    }
#endif
    ebb__cpu_heap_range_base(&from, bits, starts, e, row, to);
}

size_t ebb__conv_weights_sparse_bytes(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                                      int members) {
    const ir_type *dy = op_in_type(graph, node, 1);
    op_map x = op_conv_sparse_x(dy, &node->attr);
    (void)form;
    for (int32_t i = CONV_PARTS; i < node->n_in; i += 2) {
        x.blocks += op_conv_part_blocks(&x, op_in_type(graph, node, i));
    }
    ir_type type = op_map_type(x);
    op_conv v = op_conv_of(&type, &graph->values[node->out].type, dy, &node->attr);
    return ebb__conv_sums_bytes(&v, true, members);
}

void ebb__conv_weights_sparse(const op_call *call, conv_codes *codes) {
    ir_type type = op_conv_sparse_type(call->in, call->n_in, call->attr);
    heap_source source = {.source = {heap_row},
                          .call = call,
                          .x = op_map_of(&type),
                          .plain = codes->engine == &ebb__conv_base};
    conv_sums s = ebb__conv_sums_of(call, &type);
    s.source = &source.source;
    ebb__conv_sums_add(&s, call, codes);
}
