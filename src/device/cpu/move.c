/* move.c - kernels that move rows: copy, fill, embedding lookup and its gradient. What they do is
 * wait for memory, so they need no instruction set of their own. */
#include "device/cpu/cpu.h"

#include "device/cpu/span.h"

#include <string.h>

void ebb__cpu_copy(const op_call *call) {
    const op_view *in = &call->in[0], *out = &call->out[0];
    cpu_span span = cpu_span_same(call, 1);
    while (in->data != out->data && cpu_span_next(&span)) {
        memcpy(cpu_at(out, span.row, span.col), cpu_at(in, span.row, span.col),
               (size_t)span.len * sizeof(float));
    }
}

void ebb__cpu_fill(const op_call *call) {
    float value = call->attr->f[0];
    cpu_span span = cpu_span_same(call, 0);
    while (cpu_span_next(&span)) {
        float *out = cpu_at(&call->out[0], span.row, span.col);
        for (int64_t j = 0; j < span.len; j++) {
            out[j] = value;
        }
    }
}

void ebb__cpu_embed(const op_call *call) {
    const int32_t *ids = call->in[1].data;
    int64_t cols = ir_cols(&call->out[0].type), begin, end;
    ebb__team_share(ebb__ir_rows(&call->out[0].type), 1, call->member, call->members, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        memcpy(cpu_at(&call->out[0], r, 0), cpu_at(&call->in[0], ids[r], 0),
               (size_t)cols * sizeof(float));
    }
}

/* Members share columns, so that rows with the same id are added in ascending order. */
void ebb__cpu_embed_grad(const op_call *call) {
    const op_view *c = &call->in[0], *dx = &call->in[2], *out = &call->out[0];
    const int32_t *ids = call->in[1].data;
    int64_t begin, end;
    ebb__team_share(ir_cols(&out->type), 16, call->member, call->members, &begin, &end);
    size_t bytes = (size_t)(end - begin) * sizeof(float);
    int64_t vocab = ebb__ir_rows(&out->type), rows = ebb__ir_rows(&dx->type);
    for (int64_t v = 0; v < vocab && c->data != out->data; v++) {
        if (c->data != NULL) {
            memcpy(cpu_at(out, v, begin), cpu_at(c, v, begin), bytes);
        } else {
            memset(cpu_at(out, v, begin), 0, bytes);
        }
    }
    for (int64_t r = 0; r < rows; r++) {
        const float *from = cpu_at(dx, r, 0);
        float *to = cpu_at(out, ids[r], 0);
        for (int64_t j = begin; j < end; j++) {
            to[j] += from[j];
        }
    }
}
