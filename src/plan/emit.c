/* emit.c - the program itself: instructions with addresses, written where the plan says, inside the
 * arena they will work on.
 *
 *   [ instruction | ... ][ views of all instructions | ... ][ pointer to instruction | ... ]
 */
#include "plan/plan.h"

/* Units of a run that a member takes at a time: full panels, few enough bytes for its second-level
 * cache, and little enough work for others to take over. */
enum { BLOCK_UNITS = 32 };

/* Instructions [0, n) that are carried out together: who takes part, in which blocks. */
static void set_run(const ebb_plan *plan, const pass_unit *unit, device_instr *run, int32_t n) {
    double alone = 0;
    bool reference = false;
    for (int32_t i = 0; i < n; i++) {
        const ir_node_rec *node = &unit->graph.nodes[run[i].node];
        alone += ebb__cost_seconds(plan->dev, &unit->graph, node, run[i].kernel, 1) -
                 plan->dev->seconds_per_instr;
        reference = reference || run[i].kernel < 0;
    }
    for (int32_t i = 0; i < n; i++) {
        run[i].call.members = reference || alone < ebb__cost_serial_seconds ? 1 : plan->members;
        run[i].joined = i > 0;
    }
    if (n > 1) {
        const ir_node_rec *first = &unit->graph.nodes[run[0].node];
        uint32_t whole;
        run[0].units = ebb__op(first->op)->units(&unit->graph, first, &whole);
        run[0].block = BLOCK_UNITS;
        return;
    }
    int32_t k = run[0].kernel, members = run[0].call.members;
    run[0].shares =
        members > 1 && plan->dev->kernels[k].shares != NULL
            ? plan->dev->kernels[k].shares(&unit->graph, &unit->graph.nodes[run[0].node],
                                           run[0].call.form, members)
            : members;
}

static op_view make_view(const pass_unit *unit, ir_val v, char *arena) {
    if (v == IR_NONE) {
        return (op_view){0};
    }
    return (op_view){.data = arena + plan_value_address(unit->placement, v),
                     .type = unit->graph.values[v].type,
                     .ld = unit->placement->ld[v]};
}

static void emit_node(const ebb_plan *plan, const pass_unit *unit, ir_node n, char *arena,
                      device_instr *instr, op_view *views) {
    const ir_graph *g = &unit->graph;
    const ir_node_rec *node = &g->nodes[n];
    int32_t k = unit->kernels[n];
    *instr = (device_instr){.run = k >= 0 ? plan->dev->kernels[k].run : ebb__op(node->op)->ref,
                            .attr = node->attr,
                            .kernel = k,
                            .node = n,
                            .label = node->label};
    for (int32_t i = 0; i < node->n_in; i++) {
        views[i] = make_view(unit, ir_in(g, node, i), arena);
    }
    for (int32_t i = 0; i < node->n_out; i++) {
        views[node->n_in + i] = make_view(unit, node->out + i, arena);
    }
    int32_t scratch = unit->placement->scratch[n];
    instr->call = (op_call){
        .in = views,
        .out = views + node->n_in,
        .n_in = node->n_in,
        .n_out = node->n_out,
        .attr = &instr->attr,
        .workspace = scratch < 0 ? NULL : arena + plan_block_address(unit->placement, scratch),
        .workspace_bytes = unit->workspace[n],
        .prepared = instr->prepared,
        .form = unit->forms[n],
        .members = plan->members};
}

static void emit_program(const ebb_plan *plan, const plan_program *program, char *arena,
                         const device_instr *const **instrs) {
    const pass_unit *unit = &program->unit;
    device_instr *instr = (device_instr *)(void *)(arena + program->offset);
    op_view *views = (op_view *)(void *)(instr + program->size.n_instrs);
    const device_instr **list = (const device_instr **)(void *)(views + program->size.n_views);
    int32_t at = 0, first = 0; /* of the run being written */
    for (int32_t i = 0; i < unit->graph.n_order; i++) {
        ir_node n = unit->graph.order[i];
        if (unit->kernels[n] == PASS_KERNEL_NONE) {
            continue;
        }
        if (at > first && (unit->joined == NULL || !unit->joined[n])) {
            set_run(plan, unit, instr + first, at - first);
            first = at;
        }
        emit_node(plan, unit, n, arena, &instr[at], views);
        list[at] = &instr[at];
        views += unit->graph.nodes[n].n_in + unit->graph.nodes[n].n_out;
        at++;
    }
    if (at > first) {
        set_run(plan, unit, instr + first, at - first);
    }
    *instrs = list;
}

/* Kernels look at the operands that they will get. `members` is by now who takes part; they are
 * asked for all. */
static ebb_status prepare_program(const ebb_plan *plan, const plan_program *program, char *arena) {
    device_instr *instr = (device_instr *)(void *)(arena + program->offset);
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
ebb_status ebb__plan_emit(ebb_plan *plan, void *arena, const device_instr *const **lists) {
    for (int32_t k = 0; k < plan->n_programs; k++) {
        int32_t i = (plan->lead + k) % plan->n_programs;
        plan_program *program = &plan->programs[i];
        if (!program->has_unit) {
            TRY(ebb__plan_compile(plan, i));
        }
        emit_program(plan, program, arena, &lists[i]);
        ebb__plan_close_program(program);
    }
    ebb__region_trim(plan->ctx);
    for (int32_t i = 0; i < plan->n_programs; i++) {
        TRY(prepare_program(plan, &plan->programs[i], arena));
    }
    return EBB_OK;
}
