/* pack.c - pack(b): the columns of a matrix in panels (pack.h), so that a product which is repeated
 * with the same b reads it in the order of its loops. Made by passes, hence without a gradient. */
#include "op/define.h"
#include "op/pack.h"

#define REF_FAMILY "op/ref/pack.inc"
#include "op/ref/twice.h"

static ebb_status infer_pack(const ir_graph *graph, const ir_node_rec *node, ir_type *out) {
    const ir_type *b = op_in_type(graph, node, 0);
    int32_t trans = node->attr.i[0], groups = node->attr.i[1], lanes = node->attr.i[2];
    TRY(ebb__op_need(graph, node, 0, IR_F32));
    if (b->rank != 2) {
        return ebb__op_bad(graph, node, "operand must be a matrix");
    }
    int32_t k = b->dim[trans ? 1 : 0], n = b->dim[trans ? 0 : 1];
    if (groups < 0 || groups > OP_MAX_GROUPS || n % (groups > 1 ? groups : 1) != 0) {
        return ebb__op_bad(graph, node, "%d columns are not %d groups (at most %d)", n, groups,
                           OP_MAX_GROUPS);
    }
    if (lanes < 1 || lanes > OP_MAX_LANES) {
        return ebb__op_bad(graph, node, "lanes must be 1 to %d", OP_MAX_LANES);
    }
    op_panels p = op_panels_of(n, groups, lanes);
    if (k > INT32_MAX / p.wide) {
        return ebb__op_bad(graph, node, "a panel of %d rows is too large", k);
    }
    out[0] =
        (ir_type){.dtype = IR_F32, .rank = 2, .dim = {(int32_t)p.count, (int32_t)(k * p.wide)}};
    return EBB_OK;
}

/* clang-format off */
#define PACK(k, n, groups, lanes) \
    {IN(F2(k, n)), .attr = {.i = {0, groups, lanes}}}, \
    {IN(F2(n, k)), .attr = {.i = {1, groups, lanes}}}
/* clang-format on */
static const op_sample samples_pack[] = {
    PACK(1, 1, 0, 32),    PACK(1, 1, 1, 32),    PACK(5, 32, 1, 32),  PACK(9, 37, 1, 32),
    PACK(64, 100, 1, 32), PACK(33, 200, 1, 32), PACK(7, 6, 2, 8),    PACK(16, 48, 3, 8),
    PACK(65, 51, 3, 8),   PACK(8, 4, 4, 8),     PACK(24, 64, 4, 8),  PACK(19, 68, 4, 8),
    PACK(40, 76, 2, 8),   PACK(130, 92, 4, 8),  PACK(301, 20, 4, 8), PACK(9, 37, 1, 5),
    PACK(19, 68, 4, 1),
};

OP_DEFINE(pack, .schema.ints = {"trans", "groups", "lanes"}, .n_in = 1, .n_out = 1,
          .flags = OPF_NOGRAD, .infer = infer_pack, SAMPLES(samples_pack));
