/* conv_narrow.c - the gradient of a convolution's weights where x waits as codes of few bits: rows
 * of it are made numbers of, and normalised, as the loops of conv_weights.c come to them. */
#include "device/cpu/conv.h"

#include "op/batch_norm.h"

typedef struct narrow_source {
    conv_source source;
    const op_call *call;
    const conv_engine *engine;
    op_map x;
} narrow_source;

static void write_rows(const conv_source *source, int64_t group, int64_t block, int64_t y0,
                       int64_t y1, float *to) {
    const narrow_source *s = (const narrow_source *)source;
    const op_view *codes = &s->call->in[2];
    const float *stat = s->call->in[3].data;
    int64_t line = s->x.wide * op_map_pixel(&s->x), k = block * s->x.channels;
    int64_t bytes = codes->type.dim[1] * (int64_t)ebb__ir_dtype_bytes(codes->type.dtype);
    conv_narrow rows = {.row = (const uint8_t *)codes->data + group * bytes,
                        .first = (block * s->x.high + y0) * line,
                        .len = (y1 - y0) * line,
                        .n = op_map_group(&s->x),
                        .bits = s->call->attr->i[CONV_FORMAT],
                        .relu = s->call->attr->i[CONV_RELU] != 0,
                        .channels = s->x.channels};
    if (stat != NULL) {
        int64_t channels = op_map_channels(&s->x);
        rows.mean = stat + STAT_MEAN * channels + k;
        rows.scale = stat + STAT_SCALE * channels + k;
        rows.gain = (const float *)s->call->in[4].data + k;
        rows.bias = (const float *)s->call->in[5].data + k;
    }
    s->engine->widen(&rows, to);
}

size_t ebb__conv_narrow_bytes(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                              int members) {
    const ir_type *dy = op_in_type(graph, node, 1);
    ir_type x = op_conv_narrow_x(dy, &node->attr);
    op_conv v = op_conv_of(&x, &graph->values[node->out].type, dy, &node->attr);
    (void)form;
    return ebb__conv_sums_bytes(&v, true, members);
}

/* c, dy, codes, stat, gain, bias. */
void ebb__conv_narrow(const op_call *call, conv_codes *codes) {
    ir_type x = op_conv_narrow_x(&call->in[1].type, call->attr);
    narrow_source from = {{write_rows}, call, codes->engine, op_map_of(&x)};
    conv_sums s = ebb__conv_sums_of(call, &x);
    s.source = &from.source;
    ebb__conv_sums_add(&s, call, codes);
}
