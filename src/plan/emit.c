/* emit.c - the program itself: instructions with addresses, written into the host's space where the
 * plan says. Offsets in the device's space become addresses here and nowhere else.
 *
 *   [ instruction | ... ][ views of all instructions | ... ][ pointer to instruction | ... ]
 */
#include "plan/plan.h"

/* fold: where all views of the node end their rows; -1: at the last axis. */
static op_view make_view(const pass_unit *unit, ir_val v, int32_t fold, char *arena) {
    if (v == IR_NONE) {
        return (op_view){0};
    }
    op_view view = {.data = arena + plan_value_address(unit->placement, v),
                    .type = unit->graph.values[v].type,
                    .ld = unit->placement->ld[v]};
    if (fold >= 0) {
        int64_t cols = ebb__op_fold_cols(&view.type, fold), rows = 1;
        for (int32_t d = 0; d < fold; d++) {
            rows *= view.type.dim[d];
        }
        view.ld = pass_fold(unit, v) == fold ? view.ld : (int32_t)cols; /* else without gaps */
        view.type.rank = 2;
        view.type.dim[0] = (int32_t)rows;
        view.type.dim[1] = (int32_t)cols;
    }
    return view;
}

static void emit_node(const ebb_plan *plan, const pass_unit *unit, ir_node n, char *arena,
                      device_instr *instr, op_view *views) {
    const ir_graph *g = &unit->graph;
    const ir_node_rec *node = &g->nodes[n];
    const pass_share *share = &unit->shares[n];
    int32_t k = unit->kernels[n];
    *instr = (device_instr){.run = k >= 0 ? plan->dev->kernels[k].run : ebb__op(node->op)->ref,
                            .attr = node->attr,
                            .joined = pass_joined(unit, n),
                            .stops = (ebb__op(node->op)->flags & OPF_STOPS) != 0,
                            .message = ebb__op(node->op)->message,
                            .transfer = ebb__op(node->op)->transfer,
                            .units = share->units,
                            .block = share->block,
                            .shares = share->pieces,
                            .kernel = k,
                            .node = n,
                            .label = node->label};
    int32_t fold = ebb__pass_fold(unit, node);
    for (int32_t i = 0; i < node->n_in; i++) {
        views[i] = make_view(unit, ir_in(g, node, i), fold, arena);
    }
    for (int32_t i = 0; i < node->n_out; i++) {
        views[node->n_in + i] = make_view(unit, node->out + i, fold, arena);
    }
    int32_t scratch = unit->placement->scratch[n];
    instr->call = (op_call){
        .maps = op_layout_has_maps(ebb__op(node->op)->layout),
        .in = views,
        .out = views + node->n_in,
        .n_in = node->n_in,
        .n_out = node->n_out,
        .attr = &instr->attr,
        .workspace = scratch < 0 ? NULL : arena + plan_block_address(unit->placement, scratch),
        .workspace_bytes = unit->workspace[n],
        .prepared = instr->prepared,
        .form = unit->forms[n],
        .members = share->members};
}

static void emit_program(const ebb_plan *plan, const plan_program *program, char *host, char *arena,
                         const device_instr *const **instrs) {
    const pass_unit *unit = &program->unit;
    device_instr *instr = (device_instr *)(void *)(host + program->offset);
    op_view *views = (op_view *)(void *)(instr + program->size.n_instrs);
    const device_instr **list = (const device_instr **)(void *)(views + program->size.n_views);
    int32_t at = 0;
    for (int32_t i = 0; i < unit->graph.n_order; i++) {
        ir_node n = unit->graph.order[i];
        if (unit->kernels[n] == DEVICE_KERNEL_NONE) {
            continue;
        }
        emit_node(plan, unit, n, arena, &instr[at], views);
        list[at] = &instr[at];
        views += unit->graph.nodes[n].n_in + unit->graph.nodes[n].n_out;
        at++;
    }
    *instrs = list;
}

/* Kernels look at the operands that they will get. `members` of a call is who takes part; they
 * are asked for all. */
static ebb_status prepare_program(const ebb_plan *plan, const plan_program *program, char *host) {
    device_instr *instr = (device_instr *)(void *)(host + program->offset);
    for (int32_t i = 0; i < program->size.n_instrs; i++) {
        int32_t k = instr[i].kernel;
        if (k >= 0 && plan->dev->kernels[k].prepare != NULL) {
            op_call call = instr[i].call;
            call.members = plan->members;
            TRY(plan->dev->kernels[k].prepare(plan->ctx, &call, instr[i].prepared));
        }
    }
    return EBB_OK;
}

/* The leading program is still there; each of the others comes and goes. Kernels are prepared when
 * all graphs are gone: generating code brings a library into memory. */
ebb_status ebb__plan_emit(ebb_plan *plan, void *host, void *arena,
                          const device_instr *const **lists) {
    for (int32_t k = 0; k < plan->n_programs; k++) {
        int32_t i = (plan->lead + k) % plan->n_programs;
        plan_program *program = &plan->programs[i];
        if (!program->has_unit) {
            TRY(ebb__plan_compile(plan, i));
        }
        emit_program(plan, program, host, arena, &lists[i]);
        ebb__plan_close_program(program);
    }
    ebb__region_trim(plan->ctx);
    for (int32_t i = 0; i < plan->n_programs; i++) {
        TRY(prepare_program(plan, &plan->programs[i], host));
    }
    return EBB_OK;
}
