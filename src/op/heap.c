/* heap.c - tensors of which zeros need no bytes, as bits and values in a shared heap (heap.h); and
 * what ends a step whose values do not fit it. */
#include "op/heap.h"

#include "op/define.h"

#define REF_FAMILY "op/ref/heap.inc"
#include "op/ref/twice.h"

/* ---- types ---- */

static ir_type starts_type(const ir_type *bits) {
    return (ir_type){.dtype = IR_I32,
                     .rank = 2,
                     .dim = {bits->dim[0], (int32_t)op_heap_blocks(bits->dim[1]) + 1}};
}

static ebb_status infer_heap(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(ebb__op_infer_attr(graph, node, out));
    return op_heap_format(out[0].dtype).bits != 0 && out[0].rank == 1
               ? EBB_OK
               : ebb__op_bad(graph, node, "a heap is a list of f32, u8 or u16");
}

/* bits, before. */
static ebb_status infer_starts(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const ir_type *bits = op_in_type(graph, node, 0), *before = op_in_type(graph, node, 1);
    TRY(ebb__op_need(graph, node, 0, IR_U8));
    TRY(ebb__op_need(graph, node, 1, IR_I32));
    if (bits->rank != 2 || (before != NULL && before->rank != 2)) {
        return ebb__op_bad(graph, node, "bits and what is before them must be codes");
    }
    out[0] = starts_type(bits);
    return node->attr.i[HEAP_CAPACITY] >= 1
               ? EBB_OK
               : ebb__op_bad(graph, node, "the heap must have room for 1 value or more");
}

ebb_status ebb__op_need_heap(const ir_graph *graph, const ir_node_rec *node, int32_t i) {
    const ir_type *heap = op_in_type(graph, node, i);
    return heap != NULL && op_heap_format(heap->dtype).bits != 0 && heap->rank == 1
               ? EBB_OK
               : ebb__op_bad(graph, node, "operand %d must be a heap, a list of f32, u8 or u16", i);
}

/* Operand `heap`, and behind it the bits of `of` and their starts at operands i and i + 1. */
static ebb_status need_heap(const ir_graph *graph, const ir_node_rec *node, const ir_type *of,
                            int32_t i) {
    const ir_type *bits = op_in_type(graph, node, i);
    TRY(ebb__op_need_heap(graph, node, 0));
    TRY(ebb__op_need_code(graph, node, i, of, IR_U8, op_code_bytes(op_step_elements(of), 1)));
    ir_type starts = bits != NULL ? starts_type(bits) : (ir_type){0};
    return ebb__ir_type_equal(op_in_type(graph, node, i + 1), &starts)
               ? EBB_OK
               : ebb__op_bad(graph, node, "starts must be i32[%d,%d]", starts.dim[0],
                             starts.dim[1]);
}

/* heap, x, bits, starts. */
static ebb_status infer_push(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(ebb__op_need(graph, node, 1, IR_F32));
    int32_t values = node->attr.i[HEAP_CAPACITY];
    TRY(need_heap(graph, node, op_in_type(graph, node, 1), 2));
    out[0] = *op_in_type(graph, node, 0);
    if (values != 0 && values < out[0].dim[0]) {
        return ebb__op_bad(graph, node, "a heap of %d values cannot shrink to %d", out[0].dim[0],
                           values);
    }
    out[0].dim[0] = values != 0 ? values : out[0].dim[0];
    return EBB_OK;
}

/* heap, bits, starts; the tensor is an attribute. */
static ebb_status infer_pull(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(ebb__op_infer_attr(graph, node, out));
    TRY(ebb__ir_type_check(graph->ctx, &out[0], "sparse_pull"));
    return out[0].dtype == IR_F32 ? need_heap(graph, node, &out[0], 1)
                                  : ebb__op_bad(graph, node, "what is pulled is f32");
}

/* starts and heaps, states, then anything. */
static ebb_status infer_give_up(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    int32_t heaps = node->attr.i[GIVE_UP_HEAPS], states = node->attr.i[GIVE_UP_STATES];
    if (heaps < 0 || states < 0 || 2 * (int64_t)heaps + states > node->n_in) {
        return ebb__op_bad(graph, node,
                           "%d operands cannot be %d heaps with their starts and %d states",
                           node->n_in, heaps, states);
    }
    for (int32_t i = 0; i < heaps; i++) {
        TRY(ebb__op_need(graph, node, i, IR_I32));
        TRY(ebb__op_need_heap(graph, node, heaps + i));
    }
    for (int32_t i = 0; i < states; i++) {
        TRY(ebb__op_need_list(graph, node, 2 * heaps + i, IR_I32, GIVE_UP_WORDS));
    }
    out[0] = op_list(IR_I32, GIVE_UP_WORDS);
    return EBB_OK;
}

/* ---- cost: of the heap only the part that the tensor has ---- */

/* About half of the elements are not 0; a bit each, and its start. */
static op_cost cost_move(const ir_graph *graph, const ir_node_rec *node, const ir_type *x) {
    double elements = (double)ebb__op_elements(x);
    ir_dtype dtype = op_in_type(graph, node, 0)->dtype;
    double flops = dtype == IR_F32 ? 32 : 12; /* as measured; codes as narrow and widen */
    return (op_cost){flops * elements, (4.25 + (double)ebb__ir_dtype_bytes(dtype) / 2) * elements};
}
static op_cost cost_push(const ir_graph *graph, const ir_node_rec *node) {
    return cost_move(graph, node, op_in_type(graph, node, 1));
}
static op_cost cost_pull(const ir_graph *graph, const ir_node_rec *node) {
    return cost_move(graph, node, &graph->values[node->out].type);
}
/* A line of memory, at most. */
static op_cost cost_none(const ir_graph *graph, const ir_node_rec *node) {
    (void)graph, (void)node;
    return (op_cost){0, 64};
}

/* ---- samples ---- */

/* clang-format off */
#define BITS(d, w) {IR_U8, 2, {d, w}}
#define STARTS(d, w) {IR_I32, 2, {d, ((w) * 8 + 255) / 256 + 1}}
/* X(dtype of the heap, tensor, steps of its first axis, bytes of a step's bits) */
#define SIZES(X, t)                          \
    X(t, F2(1, 1), 1, 1)                     \
    X(t, F1(7), 7, 1)                        \
    X(t, F2(3, 17), 3, 3)                    \
    X(t, F2(3, 256), 3, 32)                  \
    X(t, F2(2, 1301), 2, 163)                \
    X(t, F3(2, 5, 650), 2, 407)              \
    X(t, MAP(2, 1, 3, 5, 8, 32), 2, 480)     \
    X(t, MAP(3, 2, 3, 2, 5, 3), 3, 23)
#define BEGIN(t, x, d, w) \
    {IN(BITS(d, w), STARTS(2, 40)), .fill = {FILL_BYTE, FILL_ABSENT}, .attr = {.i = {1 << 16}}}, \
    {IN(BITS(d, w), STARTS(2, 40)), .fill = {FILL_BYTE, FILL_LABEL}, .limit = 700, .attr = {.i = {1200}}}, \
    {IN(BITS(d, w), STARTS(1, 1)), .fill = {FILL_BYTE, FILL_LABEL}, .limit = 1, .attr = {.i = {900}}},
#define VALUES(t) {t, 1, {1300}}
#define FILL(t) ((t) == IR_F32 ? FILL_NORMAL : FILL_BYTE)
#define PUSH(t, x, d, w) {IN(VALUES(t), x, BITS(d, w), STARTS(d, w)), \
    .fill = {FILL(t), FILL_NORMAL, FILL_BYTE, FILL_LABEL}, .limit = 1300 - 256 + 1},
#define PULL(t, x, d, w) {IN(VALUES(t), BITS(d, w), STARTS(d, w)), \
    .fill = {FILL(t), FILL_BYTE, FILL_LABEL}, .limit = 1300 - 256 + 1, .attr = TYPE_##x},
/* The types above as attributes. */
#define TYPE_F1(a) {.i = {1, a}}
#define TYPE_F2(a, b) {.i = {2, a, b}}
#define TYPE_F3(a, b, c) {.i = {3, a, b, c}}
#define TYPE_MAP(g, b, y, x, n, c) {.i = {6, g, b, y, x, n, c}}
/* clang-format on */
static const op_sample samples_starts[] = {SIZES(BEGIN, IR_F32)};
static const op_sample samples_push[] = {SIZES(PUSH, IR_F32) SIZES(PUSH, IR_U16)
                                             SIZES(PUSH, IR_U8)};
static const op_sample samples_pull[] = {SIZES(PULL, IR_F32) SIZES(PULL, IR_U16)
                                             SIZES(PULL, IR_U8)};
static const op_sample samples_give_up[] = {
    {IN(STARTS(2, 40), F1(9)), .fill = {FILL_LABEL, FILL_NORMAL}, .limit = 1, .attr = {.i = {1}}},
    {IN(STARTS(1, 300), F1(3), F1(3)), .fill = {FILL_SMALL_INT}, .attr = {.i = {1}}},
    {IN(STARTS(2, 40), STARTS(1, 300), F1(1), F1(5), F2(3, 5)),
     .fill = {FILL_SMALL_INT, FILL_SMALL_INT}, .attr = {.i = {2}}},
    {IN(STARTS(2, 40), VALUES(IR_U8)), .fill = {FILL_SMALL_INT, FILL_BYTE}, .attr = {.i = {1}}},
    {IN(STARTS(2, 40), VALUES(IR_U16)), .fill = {FILL_SMALL_INT, FILL_BYTE}, .attr = {.i = {1}}},
    {IN(I1(GIVE_UP_WORDS), I1(GIVE_UP_WORDS), F1(5)), .fill = {FILL_SMALL_INT, FILL_SMALL_INT},
     .attr = {.i = {0, 2}}},
    {IN(STARTS(1, 300), F1(3), I1(GIVE_UP_WORDS)),
     .fill = {FILL_SMALL_INT, FILL_NORMAL, FILL_SMALL_INT}, .attr = {.i = {1, 1, 1}}},
};
static const op_sample samples_heap[] = {{.attr = TYPE_F1(1)},
                                         {.attr = TYPE_F1(7)},
                                         {.attr = TYPE_F1(1300)},
                                         {.attr = {.i = {1, 7, [OP_ATTR_DTYPE] = IR_U8}}},
                                         {.attr = {.i = {1, 7, [OP_ATTR_DTYPE] = IR_U16}}}};

/* ---- definitions ---- */

OP_DEFINE(sparse_starts, .schema.ints = {"capacity"}, .n_in = 2, .optional = 1 << 1, .n_out = 1,
          .flags = OPF_NOGRAD, .layout = LAYOUT_MAPS, .form = "sparse", .infer = infer_starts,
          .work = {8, OPERAND(0)}, SAMPLES(samples_starts));

OP_DEFINE(sparse_push, .schema.ints = {"capacity"}, .n_in = 4, .n_out = 1,
          .flags = OPF_NOGRAD | OPF_GROWS, .layout = LAYOUT_STEPS, .form = "sparse",
          .infer = infer_push, INPLACE({0, 0}), .cost = cost_push, SAMPLES(samples_push));

OP_DEFINE(sparse_pull, .schema.ints = {OP_ATTR_TYPE_NAMES, "dtype"}, .n_in = 3, .n_out = 1,
          .flags = OPF_NOGRAD | OPF_DECODES, .layout = LAYOUT_STEPS, .infer = infer_pull,
          .cost = cost_pull, SAMPLES(samples_pull));

OP_DEFINE(give_up, .schema.ints = {"heaps", "states", "later"}, .n_in = 0, .n_out = 1,
          .flags = OPF_NOGRAD | OPF_VARIADIC | OPF_STOPS, .layout = LAYOUT_MAPS,
          .infer = infer_give_up, .cost = cost_none, SAMPLES(samples_give_up));

/* Nobody reads of it what nobody has pushed. */
OP_DEFINE(heap, .schema.ints = {OP_ATTR_TYPE_NAMES, "dtype"}, .n_in = 0, .n_out = 1,
          .flags = OPF_NOGRAD | OPF_ROOM, .layout = LAYOUT_DENSE, .form = "sparse",
          .infer = infer_heap, .cost = cost_none, SAMPLES(samples_heap));

/* ---- nodes by what they mean ---- */

bool ebb__op_stops(const ir_node_rec *node) {
    return (ebb__op(node->op)->flags & OPF_STOPS) != 0 && node->attr.i[GIVE_UP_LATER] == 0;
}

bool ebb__op_agrees(const ir_node_rec *node) {
    return ebb__op_stops(node) && node->attr.i[GIVE_UP_HEAPS] == 0;
}

bool ebb__op_is_vote(const ir_node_rec *node) {
    return node->op == OP_GIVE_UP && node->attr.i[GIVE_UP_LATER] != 0 && node->n_in == 0;
}

ebb_status ebb__op_heap(ir_graph *graph, ir_dtype dtype, int32_t values, ir_val *out) {
    ir_type type = op_list(dtype, values);
    ir_attr attr = ebb__op_attr_of(&type);
    return ebb__op_emit(graph, OP_HEAP, NULL, 0, &attr, out);
}

ebb_status ebb__op_heap_pull(ir_graph *graph, ir_val heap, ir_val bits, ir_val starts,
                             const ir_type *type, ir_val *out) {
    ir_attr attr = ebb__op_attr_of(type);
    return ebb__op_emit(graph, OP_SPARSE_PULL, (ir_val[]){heap, bits, starts}, 3, &attr, out);
}

bool ebb__op_is_heaped(const ir_graph *graph, const ir_node_rec *reader, int32_t operand) {
    const op_def *def = ebb__op(reader->op);
    ir_attr attr;
    return def->heaped.reader != 0 && def->heaped.in == operand &&
           def->heaped.attr(graph, reader, &attr);
}

ebb_status ebb__op_emit_heaped(ir_graph *graph, const ir_node_rec *reader, ir_val heap,
                               const ir_val *list, int32_t n, ir_val *out) {
    const op_def *def = ebb__op(reader->op);
    ir_val in[OP_MAX_SAMPLE_IN + 2 * OP_HEAP_MOST_PARTS];
    int32_t n_in = 0;
    ir_attr attr;
    if (!def->heaped.attr(graph, reader, &attr) || n > 2 * OP_HEAP_MOST_PARTS) {
        return ebb__op_bad(graph, reader, "cannot be read from a heap");
    }
    for (; n_in < def->heaped.in; n_in++) {
        in[n_in] = ir_in(graph, reader, n_in);
    }
    in[n_in++] = heap;
    for (int32_t i = 0; i < n; i++) {
        in[n_in++] = list[i];
    }
    return ebb__op_emit(graph, (op_code)def->heaped.reader, in, n_in, &attr, out);
}
