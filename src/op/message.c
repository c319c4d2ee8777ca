/* message.c - messages between ranks as nodes of a step: started and waited for apart, so that
 * there is work between. Whoever runs a program carries them out (run/session.c); so their
 * references do only what there is to do without a second rank.
 *
 * Every message node gives a number that the next one of its rank may read as `after`: a chain that
 * no pass can reorder (pass/cut.c). A receive may name a value of the rank's own, `beside`, that is
 * to be there first: nothing else would keep it from being started, and waited for, too early.
 * Tickets are the link's.
 */
#include "op/message.h"

#define REF_FAMILY "op/ref/message.inc"
#include "op/ref/twice.h"

/* Operand i, if it is there, is a ticket or the like. */
static ebb_status need_number(const ir_graph *graph, const ir_node_rec *node, int32_t i) {
    return ebb__op_need_list(graph, node, i, IR_I32, 1);
}

static ebb_status need_post(const ir_graph *graph, const ir_node_rec *node, op_post post) {
    return post.peer >= 0 && post.tag >= 0 && post.value >= 0
               ? EBB_OK
               : ebb__op_bad(graph, node, "peer, tag and value must not be negative");
}

static ebb_status infer_send(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(need_number(graph, node, 1));
    TRY(need_post(graph, node, ebb__op_post(MESSAGE_SEND, &node->attr)));
    out[0] = op_list(IR_I32, 1);
    return EBB_OK;
}

static ebb_status infer_sent(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(need_number(graph, node, 0));
    TRY(need_number(graph, node, 2));
    out[0] = op_list(IR_I32, 1);
    return EBB_OK;
}

static ebb_status infer_recv(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(need_number(graph, node, 0));
    TRY(need_post(graph, node, ebb__op_post(MESSAGE_RECV, &node->attr)));
    TRY(ebb__op_infer_attr(graph, node, out));
    out[1] = op_list(IR_I32, 1);
    return EBB_OK;
}

static ebb_status infer_got(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    TRY(need_number(graph, node, 1));
    TRY(need_number(graph, node, 2));
    out[0] = *op_in_type(graph, node, 0);
    out[1] = op_list(IR_I32, 1);
    return EBB_OK;
}

/* The bytes of the message, read here and written there. */
static op_cost cost_message(const ir_type *type) {
    return (op_cost){.flops = 0, .bytes = 2 * (double)ebb__ir_type_bytes(type)};
}

static op_cost cost_send(const ir_graph *graph, const ir_node_rec *node) {
    return cost_message(op_in_type(graph, node, 0));
}

static op_cost cost_got(const ir_graph *graph, const ir_node_rec *node) {
    return cost_message(&graph->values[node->out].type);
}

/* A number is all that moves. */
static op_cost cost_number(const ir_graph *graph, const ir_node_rec *node) {
    (void)graph, (void)node;
    return (op_cost){.flops = 0, .bytes = sizeof(int32_t)};
}

/* clang-format off */
#define TO(peer, tag, value) .attr = {.i = {peer, tag, value}}
static const op_sample samples_send[] = {
    {IN(F2(1, 1), I1(1)), .fill = {FILL_NORMAL, FILL_ABSENT}, TO(0, 0, 0)},
    {IN(F2(33, 17), I1(1)), .fill = {FILL_NORMAL, FILL_SMALL_INT}, TO(1, 7, 5)},
    {IN(D1(65), I1(1)), .fill = {FILL_NORMAL, FILL_SMALL_INT}, TO(3, 301, 4000)},
};
static const op_sample samples_sent[] = {
    {IN(I1(1), F2(1, 1), I1(1)), .fill = {FILL_SMALL_INT, FILL_NORMAL, FILL_ABSENT}},
    {IN(I1(1), F2(33, 17), I1(1)), .fill = {FILL_SMALL_INT, FILL_NORMAL, FILL_SMALL_INT}},
    {IN(I1(1), D1(65), I1(1)), .fill = {FILL_SMALL_INT, FILL_NORMAL, FILL_SMALL_INT}},
};
#define FROM(peer, tag, value, type, ...) \
    .attr = {.i = {__VA_ARGS__, [OP_ATTR_DTYPE] = type, [MESSAGE_RECV_PEER] = peer, tag, value}}
static const op_sample samples_recv[] = {
    {IN(I1(1), F1(1)), .fill = {FILL_ABSENT, FILL_ABSENT}, FROM(0, 0, 0, IR_F32, 2, 1, 1)},
    {IN(I1(1), F2(3, 5)), .fill = {FILL_SMALL_INT}, FROM(1, 7, 5, IR_F32, 2, 33, 17)},
    {IN(I1(1), D1(9)), .fill = {FILL_SMALL_INT}, FROM(3, 301, 4000, IR_F64, 1, 65)},
};
static const op_sample samples_got[] = {
    {IN(F2(1, 1), I1(1), I1(1)), .fill = {FILL_NORMAL, FILL_SMALL_INT, FILL_ABSENT}},
    {IN(F2(33, 17), I1(1), I1(1)), .fill = {FILL_NORMAL, FILL_SMALL_INT, FILL_SMALL_INT}},
    {IN(D1(65), I1(1), I1(1)), .fill = {FILL_NORMAL, FILL_SMALL_INT, FILL_SMALL_INT}},
};
/* clang-format on */

OP_DEFINE(send, .schema.ints = {"peer", "tag", "value"}, .n_in = 2, .optional = 1u << 1, .n_out = 1,
          .flags = OPF_NOGRAD, .message = MESSAGE_SEND, .layout = LAYOUT_DENSE, .infer = infer_send,
          .cost = cost_send, SAMPLES(samples_send));

OP_DEFINE(sent, .n_in = 3, .optional = 1u << 2, .n_out = 1, .flags = OPF_NOGRAD,
          .message = MESSAGE_SENT, .layout = LAYOUT_DENSE, .infer = infer_sent, .cost = cost_number,
          SAMPLES(samples_sent));

OP_DEFINE(recv, .schema.ints = {OP_ATTR_TYPE_NAMES, "dtype", "peer", "tag", "value"}, .n_in = 2,
          .optional = 1u << 0 | 1u << 1, .n_out = 2, .flags = OPF_NOGRAD, .message = MESSAGE_RECV,
          .layout = LAYOUT_DENSE, .infer = infer_recv, .cost = cost_number, SAMPLES(samples_recv));

OP_DEFINE(got, .n_in = 3, .optional = 1u << 2, .n_out = 2, .flags = OPF_NOGRAD,
          .message = MESSAGE_GOT, .layout = LAYOUT_DENSE, .infer = infer_got, INPLACE({0, 0}),
          .cost = cost_got, SAMPLES(samples_got));

/* ---- nodes by what they mean ---- */

ebb_status ebb__op_send(ir_graph *graph, ir_val x, op_post post, ir_val after, ir_val *ticket) {
    ir_attr attr = {.i = {[MESSAGE_SEND_PEER] = post.peer,
                          [MESSAGE_SEND_TAG] = post.tag,
                          [MESSAGE_SEND_VALUE] = post.value}};
    return ebb__op_emit(graph, OP_SEND, (ir_val[]){x, after}, 2, &attr, ticket);
}

ebb_status ebb__op_sent(ir_graph *graph, ir_val ticket, ir_val x, ir_val after, ir_val *done) {
    return ebb__op_emit(graph, OP_SENT, (ir_val[]){ticket, x, after}, 3, NULL, done);
}

ebb_status ebb__op_recv(ir_graph *graph, const ir_type *type, op_post post, ir_val after,
                        ir_val beside, ir_val out[2]) {
    ir_attr attr = ebb__op_attr_of(type);
    attr.i[MESSAGE_RECV_PEER] = post.peer;
    attr.i[MESSAGE_RECV_TAG] = post.tag;
    attr.i[MESSAGE_RECV_VALUE] = post.value;
    return ebb__op_emit(graph, OP_RECV, (ir_val[]){after, beside}, 2, &attr, out);
}

ebb_status ebb__op_got(ir_graph *graph, const ir_val recv[2], ir_val after, ir_val out[2]) {
    return ebb__op_emit(graph, OP_GOT, (ir_val[]){recv[0], recv[1], after}, 3, NULL, out);
}

op_post ebb__op_post(op_message what, const ir_attr *attr) {
    const int32_t *at = &attr->i[what == MESSAGE_SEND ? MESSAGE_SEND_PEER : MESSAGE_RECV_PEER];
    return (op_post){at[0], at[1], at[2]};
}
