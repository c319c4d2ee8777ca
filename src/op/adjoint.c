/* adjoint.c - see adjoint.h. Contributions are kept as pieces in order of arrival; pieces that
 * cover the same range are summed on arrival, ranges are joined when the gradient is taken. */
#include "op/adjoint.h"

#include "op/op.h"

#include <stdlib.h>

enum { AXIS_WHOLE = -1 };

typedef struct piece {
    int32_t axis; /* or AXIS_WHOLE */
    int32_t begin, len;
    ir_val sum;
    int32_t next; /* later piece of the same value; -1: none */
} piece;

struct op_adjoint {
    ir_graph *graph;
    alloc_region region;
    int32_t n_values; /* of the forward graph: gradients have no gradients */
    bool *wanted;
    int32_t *first; /* piece list of each value; -1: nothing arrived */
    piece *pieces;
    int32_t n_pieces;
    size_t cap_pieces;
};

ebb_status ebb__adjoint_new(ir_graph *graph, op_adjoint **out) {
    op_adjoint *a = NULL;
    TRY(ebb__alloc(graph->ctx, 1, sizeof *a, &a));
    ebb_status status;
    a->graph = graph;
    a->n_values = graph->n_values;
    ebb__region_init(&a->region, graph->ctx);
    TRY_OUT(ebb__region_alloc(&a->region, (size_t)a->n_values + 1, sizeof *a->wanted, &a->wanted));
    TRY_OUT(ebb__region_alloc(&a->region, (size_t)a->n_values + 1, sizeof *a->first, &a->first));
    for (ir_val v = 0; v < a->n_values; v++) {
        a->first[v] = -1;
        a->wanted[v] = graph->values[v].role == IR_PARAM;
    }
    for (int32_t i = 0; i < graph->n_order; i++) {
        const ir_node_rec *node = &graph->nodes[graph->order[i]];
        bool any = false;
        for (int32_t k = 0; k < node->n_in; k++) {
            ir_val v = ir_in(graph, node, k);
            any = any || (v != IR_NONE && a->wanted[v]);
        }
        for (int32_t k = 0; k < node->n_out; k++) {
            a->wanted[node->out + k] = any && graph->values[node->out + k].type.dtype == IR_F32;
        }
    }
    *out = a;
    return EBB_OK;
out:
    ebb__adjoint_free(a);
    return status;
}

void ebb__adjoint_free(op_adjoint *adjoint) {
    if (adjoint != NULL) {
        ebb_ctx *ctx = adjoint->graph->ctx;
        ebb__region_fini(&adjoint->region);
        ebb__free(ctx, adjoint);
    }
}

bool ebb__adjoint_wanted(const op_adjoint *adjoint, ir_val value) {
    return value != IR_NONE && value < adjoint->n_values && adjoint->wanted[value];
}

bool ebb__adjoint_arrived(const op_adjoint *adjoint, ir_val value) {
    return ebb__adjoint_wanted(adjoint, value) && adjoint->first[value] != -1;
}

static ebb_status add_two(ir_graph *graph, ir_val a, ir_val b, ir_val *sum) {
    return ebb__op_emit(graph, OP_ADD, (ir_val[]){a, b}, 2, NULL, sum);
}

static ebb_status add_piece(op_adjoint *a, ir_val value, int32_t axis, int32_t begin, int32_t len,
                            ir_val contribution) {
    int32_t last = -1;
    for (int32_t i = a->first[value]; i != -1; i = a->pieces[i].next) {
        piece *p = &a->pieces[i];
        if (p->axis == axis && p->begin == begin && p->len == len) {
            return add_two(a->graph, p->sum, contribution, &p->sum);
        }
        last = i;
    }
    TRY(ebb__region_grow(&a->region, &a->pieces, &a->cap_pieces, (size_t)a->n_pieces + 1,
                         sizeof *a->pieces));
    a->pieces[a->n_pieces] =
        (piece){.axis = axis, .begin = begin, .len = len, .sum = contribution, .next = -1};
    *(last == -1 ? &a->first[value] : &a->pieces[last].next) = a->n_pieces++;
    return EBB_OK;
}

ebb_status ebb__adjoint_add(op_adjoint *adjoint, ir_val value, ir_val contribution) {
    if (!ebb__adjoint_wanted(adjoint, value)) {
        return EBB_OK;
    }
    return add_piece(adjoint, value, AXIS_WHOLE, 0, 0, contribution);
}

ebb_status ebb__adjoint_add_range(op_adjoint *adjoint, ir_val value, int32_t axis, int32_t begin,
                                  ir_val contribution) {
    if (!ebb__adjoint_wanted(adjoint, value)) {
        return EBB_OK;
    }
    int32_t len = adjoint->graph->values[contribution].type.dim[axis];
    return add_piece(adjoint, value, axis, begin, len, contribution);
}

ir_val ebb__adjoint_withdraw(op_adjoint *adjoint, ir_val value) {
    if (!ebb__adjoint_wanted(adjoint, value)) {
        return IR_NONE;
    }
    for (int32_t *link = &adjoint->first[value]; *link != -1; link = &adjoint->pieces[*link].next) {
        piece *p = &adjoint->pieces[*link];
        if (p->axis == AXIS_WHOLE) {
            ir_val sum = p->sum;
            *link = p->next;
            return sum;
        }
    }
    return IR_NONE;
}

/* ---- joining ranges ---- */

static int compare_ints(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Sum of the pieces along the axis, and of whole ones if asked for, over [begin, begin+len) in
 * order of arrival; zeros if none covers it. */
static ebb_status sum_interval(op_adjoint *a, ir_val value, int32_t axis, bool with_whole,
                               int32_t begin, int32_t len, ir_val *out) {
    *out = IR_NONE;
    for (int32_t i = a->first[value]; i != -1; i = a->pieces[i].next) {
        piece p = a->pieces[i];
        bool covers = p.axis == axis && begin >= p.begin && begin < p.begin + p.len;
        if (!covers && !(p.axis == AXIS_WHOLE && with_whole)) {
            continue;
        }
        ir_val part = IR_NONE;
        TRY(ebb__op_slice(a->graph, p.sum, axis, begin - p.begin, len, &part));
        if (*out == IR_NONE) {
            *out = part;
        } else {
            TRY(add_two(a->graph, *out, part, out));
        }
    }
    ir_type type = a->graph->values[value].type;
    type.dim[axis] = len;
    return *out == IR_NONE ? ebb__op_fill(a->graph, &type, 0.0f, out) : EBB_OK;
}

/* Cuts the axis at every begin and end, sums each interval, joins them. */
static ebb_status join_ranges(op_adjoint *a, ir_val value, int32_t axis, bool with_whole,
                              ir_val *out) {
    size_t n = 2;
    for (int32_t i = a->first[value]; i != -1; i = a->pieces[i].next) {
        n += 2;
    }
    int32_t *cuts = NULL;
    ir_val *parts = NULL;
    TRY(REGION_ARRAYS(&a->region, ARRAY(cuts, n), ARRAY(parts, n)));
    cuts[0] = 0;
    cuts[1] = a->graph->values[value].type.dim[axis];
    n = 2;
    for (int32_t i = a->first[value]; i != -1; i = a->pieces[i].next) {
        const piece *p = &a->pieces[i];
        if (p->axis == axis) {
            cuts[n++] = p->begin;
            cuts[n++] = p->begin + p->len;
        }
    }
    qsort(cuts, n, sizeof *cuts, compare_ints);
    int32_t n_parts = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        if (cuts[i] < cuts[i + 1]) {
            TRY(sum_interval(a, value, axis, with_whole, cuts[i], cuts[i + 1] - cuts[i],
                             &parts[n_parts++]));
        }
    }
    return ebb__op_join(a->graph, axis, parts, n_parts, out);
}

/* Ranges along one axis are joined to a whole gradient, whole contributions among them; those along
 * each further axis make one more, which is added. */
ebb_status ebb__adjoint_take(op_adjoint *adjoint, ir_val value, ir_val *out) {
    uint32_t done = 0; /* bit by axis */
    *out = IR_NONE;
    if (!ebb__adjoint_arrived(adjoint, value)) {
        return EBB_OK;
    }
    for (int32_t i = adjoint->first[value]; i != -1; i = adjoint->pieces[i].next) {
        int32_t axis = adjoint->pieces[i].axis;
        ir_val joined = IR_NONE;
        if (axis == AXIS_WHOLE || (done >> axis & 1) != 0) {
            continue;
        }
        TRY(join_ranges(adjoint, value, axis, done == 0, &joined));
        if (done == 0) {
            *out = joined;
        } else {
            TRY(add_two(adjoint->graph, *out, joined, out));
        }
        done |= 1U << axis;
    }
    if (done == 0) {
        *out = adjoint->pieces[adjoint->first[value]].sum;
    }
    return EBB_OK;
}

ebb_status ebb__adjoint_take_columns(op_adjoint *adjoint, ir_val value, int32_t begin, int32_t len,
                                     ir_val *out) {
    *out = IR_NONE;
    if (!ebb__adjoint_arrived(adjoint, value)) {
        return EBB_OK;
    }
    const piece *p = &adjoint->pieces[adjoint->first[value]];
    int32_t last = adjoint->graph->values[value].type.rank - 1;
    if (p->axis != last || p->begin != begin || p->len != len || p->next != -1) {
        return ebb__fail(adjoint->graph->ctx, EBB_USAGE,
                         "grad: only columns %d to %d of value %d may be used further", begin,
                         begin + len, value);
    }
    *out = p->sum;
    return EBB_OK;
}
