/* conv_made.c - the gradient of a convolution's weights where x is not there as the convolution saw
 * it, but as codes of few bits or before it was normalised: rows of it are made as the loops of
 * conv_weights.c come to them. */
#include "device/cpu/conv.h"

#include "op/batch_norm.h"

typedef struct made_source {
    conv_source source;
    const op_call *call;
    const conv_engine *engine;
    op_map x;
} made_source;

/* Rows [y0, y1) of a block of channels, but for where they come from: stat, gain and bias are the
 * operands from 3 on. */
static conv_made rows_of(const made_source *s, int64_t block, int64_t y0, int64_t y1, bool relu) {
    const op_view *in = s->call->in;
    const float *stat = in[3].data;
    int64_t line = s->x.wide * op_map_pixel(&s->x), k = block * s->x.channels;
    conv_made rows = {.first = (block * s->x.high + y0) * line,
                      .len = (y1 - y0) * line,
                      .n = op_map_group(&s->x),
                      .relu = relu,
                      .channels = s->x.channels};
    if (stat != NULL) {
        int64_t channels = op_map_channels(&s->x);
        rows.mean = stat + STAT_MEAN * channels + k;
        rows.scale = stat + STAT_SCALE * channels + k;
        rows.gain = (const float *)in[4].data + k;
        rows.bias = (const float *)in[5].data + k;
    }
    return rows;
}

static void rows_of_codes(const conv_source *source, int64_t group, int64_t block, int64_t y0,
                          int64_t y1, float *to) {
    const made_source *s = (const made_source *)source;
    const int32_t *attr = s->call->attr->i;
    const op_view *codes = &s->call->in[2];
    int64_t bytes = codes->type.dim[1] * (int64_t)ebb__ir_dtype_bytes(codes->type.dtype);
    conv_made rows = rows_of(s, block, y0, y1, attr[CONV_RELU] != 0);
    rows.row = (const uint8_t *)codes->data + group * bytes;
    rows.bits = attr[CONV_FORMAT];
    s->engine->make(&rows, to);
}

static void rows_of_plain(const conv_source *source, int64_t group, int64_t block, int64_t y0,
                          int64_t y1, float *to) {
    const made_source *s = (const made_source *)source;
    const op_view *x = &s->call->in[2];
    conv_made rows = rows_of(s, block, y0, y1, s->call->attr->i[CONV_NORM_RELU] != 0);
    rows.plain = (const float *)x->data + group * op_map_pitch(x) + rows.first;
    s->engine->make(&rows, to);
}

static void add_made(const op_call *call, conv_codes *codes, const ir_type *x,
                     void (*rows)(const conv_source *, int64_t, int64_t, int64_t, int64_t,
                                  float *)) {
    made_source from = {{rows}, call, codes->engine, op_map_of(x)};
    conv_sums s = ebb__conv_sums_of(call, x);
    s.source = &from.source;
    ebb__conv_sums_add(&s, call, codes);
}

static size_t made_bytes(const ir_graph *graph, const ir_node_rec *node, const ir_type *x,
                         int members) {
    op_conv v =
        op_conv_of(x, &graph->values[node->out].type, op_in_type(graph, node, 1), &node->attr);
    return ebb__conv_sums_bytes(&v, true, members);
}

size_t ebb__conv_narrow_bytes(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                              int members) {
    ir_type x = op_conv_narrow_x(op_in_type(graph, node, 1), &node->attr);
    (void)form;
    return made_bytes(graph, node, &x, members);
}

size_t ebb__conv_norm_bytes(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                            int members) {
    (void)form;
    return made_bytes(graph, node, op_in_type(graph, node, 2), members);
}

/* c, dy, codes, stat, gain, bias. */
void ebb__conv_narrow(const op_call *call, conv_codes *codes) {
    ir_type x = op_conv_narrow_x(&call->in[1].type, call->attr);
    add_made(call, codes, &x, rows_of_codes);
}

/* c, dy, x, stat, gain, bias. */
void ebb__conv_norm(const op_call *call, conv_codes *codes) {
    add_made(call, codes, &call->in[2].type, rows_of_plain);
}
