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

/* Row y of a block of channels, but for where it comes from: stat, gain and bias are the operands
 * from 3 on. */
static conv_made row_of(const made_source *s, const conv_piece *of, int64_t y, bool relu) {
    const op_view *in = s->call->in;
    const float *stat = in[3].data;
    int64_t line = s->x.wide * op_map_pixel(&s->x), k = of->block * s->x.channels;
    conv_made row = {.first = (of->block * s->x.high + y) * line,
                     .len = line,
                     .n = op_map_group(&s->x),
                     .relu = relu,
                     .channels = s->x.channels,
                     .lane = of->lane,
                     .lanes = of->len};
    if (stat != NULL) {
        int64_t channels = op_map_channels(&s->x);
        row.mean = stat + STAT_MEAN * channels + k;
        row.scale = stat + STAT_SCALE * channels + k;
        row.gain = (const float *)in[4].data + k;
        row.bias = (const float *)in[5].data + k;
    }
    return row;
}

static void row_of_codes(const conv_source *source, int64_t group, const conv_piece *of, int64_t y,
                         float *to) {
    const made_source *s = (const made_source *)source;
    const int32_t *attr = s->call->attr->i;
    const op_view *codes = &s->call->in[2];
    int64_t bytes = codes->type.dim[1] * (int64_t)ebb__ir_dtype_bytes(codes->type.dtype);
    conv_made row = row_of(s, of, y, attr[CONV_RELU] != 0);
    row.row = (const uint8_t *)codes->data + group * bytes;
    row.bits = attr[CONV_FORMAT];
    s->engine->make(&row, to);
}

static void row_of_plain(const conv_source *source, int64_t group, const conv_piece *of, int64_t y,
                         float *to) {
    const made_source *s = (const made_source *)source;
    const op_view *x = &s->call->in[2];
    conv_made row = row_of(s, of, y, s->call->attr->i[CONV_NORM_RELU] != 0);
    row.plain = (const float *)x->data + group * op_map_pitch(x) + row.first;
    s->engine->make(&row, to);
}

static void add_made(const op_call *call, conv_codes *codes, const ir_type *x,
                     void (*row)(const conv_source *, int64_t, const conv_piece *, int64_t,
                                 float *)) {
    made_source from = {{row}, call, codes->engine, op_map_of(x)};
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
    add_made(call, codes, &x, row_of_codes);
}

/* c, dy, x, stat, gain, bias. */
void ebb__conv_norm(const op_call *call, conv_codes *codes) {
    add_made(call, codes, &call->in[2].type, row_of_plain);
}
