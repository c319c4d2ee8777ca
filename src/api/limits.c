/* limits.c - what the integers of inputs index. Kernels trust ids and labels; whoever writes an
 * input checks them, once, against limits found here when the graph is compiled.
 *
 * Ids are lists, so every way from an input to the op that reads it (slices, joins, copies) is a
 * range of elements: the trace follows ranges back to their inputs. */
#include "api/api.h"

#include <string.h>

typedef struct span {
    ir_val value;
    int64_t begin, len;
} span;

typedef struct tracer {
    const ir_graph *graph;
    alloc_region region;
    span *todo;
    size_t n_todo, cap_todo;
    api_limit *found;
    size_t n_found, cap_found;
} tracer;

static ebb_status push(tracer *t, ir_val value, int64_t begin, int64_t len) {
    TRY(ebb__region_grow(&t->region, &t->todo, &t->cap_todo, t->n_todo + 1, sizeof *t->todo));
    t->todo[t->n_todo++] = (span){value, begin, len};
    return EBB_OK;
}

/* Steps of one sequence read neighbouring ranges: they become one. */
static ebb_status add(tracer *t, const api_limit *fresh) {
    api_limit *last = t->n_found > 0 ? &t->found[t->n_found - 1] : NULL;
    if (last != NULL && last->input == fresh->input && last->low == fresh->low &&
        last->below == fresh->below &&
        (last->begin + last->len == fresh->begin || fresh->begin + fresh->len == last->begin)) {
        last->begin = fresh->begin < last->begin ? fresh->begin : last->begin;
        last->len += fresh->len;
        return EBB_OK;
    }
    TRY(ebb__region_grow(&t->region, &t->found, &t->cap_found, t->n_found + 1, sizeof *t->found));
    t->found[t->n_found++] = *fresh;
    return EBB_OK;
}

static ebb_status follow_join(tracer *t, const ir_node_rec *join, span s) {
    int64_t at = 0;
    for (int32_t k = 0; k < join->n_in; k++) {
        int64_t extent = op_in_type(t->graph, join, k)->dim[0];
        int64_t begin = s.begin > at ? s.begin : at;
        int64_t end = s.begin + s.len < at + extent ? s.begin + s.len : at + extent;
        if (begin < end) {
            TRY(push(t, ir_in(t->graph, join, k), begin - at, end - begin));
        }
        at += extent;
    }
    return EBB_OK;
}

static ebb_status trace(tracer *t, ir_val ids, int32_t low, int32_t below) {
    const ir_graph *g = t->graph;
    TRY(push(t, ids, 0, g->values[ids].type.dim[0]));
    while (t->n_todo > 0) {
        span s = t->todo[--t->n_todo];
        op_range range;
        int32_t axis;
        if (g->values[s.value].def == IR_NONE) {
            api_limit limit = {
                .input = s.value, .begin = s.begin, .len = s.len, .low = low, .below = below};
            TRY(add(t, &limit));
            continue;
        }
        const ir_node_rec *node = &g->nodes[g->values[s.value].def];
        if (ebb__op_is_join(node, &axis)) {
            TRY(follow_join(t, node, s));
        } else if (ebb__op_is_slice(node, &range)) {
            TRY(push(t, ir_in(g, node, 0), s.begin + range.begin, s.len));
        } else if (node->op == OP_COPY) {
            TRY(push(t, ir_in(g, node, 0), s.begin, s.len));
        } else {
            return ebb__fail(g->ctx, EBB_INTERNAL, "%s computes ids, which nobody checks",
                             ebb__op(node->op)->schema.name);
        }
    }
    return EBB_OK;
}

static ebb_status trace_all(tracer *t) {
    const ir_graph *g = t->graph;
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        if (node->op == OP_EMBED) {
            TRY(trace(t, ir_in(g, node, 1), 0, op_in_type(g, node, 0)->dim[0]));
        } else if (node->op == OP_XENT) {
            TRY(trace(t, ir_in(g, node, 1), INT32_MIN, (int32_t)ir_cols(op_in_type(g, node, 0))));
        }
    }
    return EBB_OK;
}

ebb_status ebb__api_limits(const ir_graph *graph, api_limit **list, int32_t *n) {
    tracer t = {.graph = graph};
    ebb__region_init(&t.region, graph->ctx);
    ebb_status status = trace_all(&t);
    if (status == EBB_OK) {
        status = ebb__realloc(graph->ctx, *list, (size_t)*n + t.n_found + 1, sizeof **list, list);
    }
    for (size_t i = 0; status == EBB_OK && i < t.n_found; i++) {
        (*list)[(*n)++] = t.found[i];
    }
    ebb__region_fini(&t.region);
    return status;
}

bool ebb__api_is_limited(const ebb_program *program, const plan_variable *variable) {
    bool limited = false;
    for (int32_t k = 0; k < program->shared->n_limits; k++) {
        limited = limited || program->shared->limits[k].variable == variable;
    }
    return limited;
}

ebb_status ebb__api_check_limits(const ebb_program *program, const plan_variable *variable,
                                 const void *data) {
    for (int32_t k = 0; k < program->shared->n_limits; k++) {
        const api_limit *limit = &program->shared->limits[k];
        for (int64_t i = 0; limit->variable == variable && i < limit->len; i++) {
            int32_t id;
            memcpy(&id, (const char *)data + (limit->begin + i) * (int64_t)sizeof id, sizeof id);
            if (id < limit->low || id >= limit->below) {
                return ebb__fail(program->ctx, EBB_DATA, "%s[%lld]: %d is not %s%d", variable->name,
                                 (long long)(limit->begin + i), id,
                                 limit->low == 0 ? "at least 0 and below " : "below ",
                                 limit->below);
            }
        }
    }
    return EBB_OK;
}
