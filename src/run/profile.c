/* profile.c - see profile.h. Nodes are told apart by the columns and flags of their ops, their
 * labels, and where their operands come from: not by op codes, nor by names of layers. */
#include "run/profile.h"

#include "base/host.h"
#include "plan/listing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What is found out about the whole graph before its nodes are sorted into phases. */
typedef struct profile_scan {
    const ir_graph *graph;
    bool *recurrent; /* by value: a weight that is multiplied with what its own layer made */
    bool *losing;    /* by layer: holds the loss */
} profile_scan;

/* What decides the phase of a node. */
typedef struct node_facts {
    op_cost cost;
    ir_phase phase;
    bool product;   /* more arithmetic than traffic */
    bool by_index;  /* takes or adds rows that integers name */
    bool over_rows; /* sums over rows */
    bool losing;    /* in the layer of the loss */
    bool weight;    /* a product with a parameter, perhaps through transposed copies */
    bool recurrent; /* that parameter meets what its own layer made at another step */
} node_facts;

/* ---- the phases: each node belongs to the one whose question it answers with yes ---- */

static bool is_update(const node_facts *f) {
    return f->phase == IR_UPDATE;
}
static bool is_move(const node_facts *f) {
    return !is_update(f) && f->cost.flops <= 0 && !f->by_index;
}
/* Work of the layers below the output. */
static bool is_inner(const node_facts *f) {
    return !is_update(f) && !is_move(f) && !f->losing;
}
static bool is_embedding(const node_facts *f) {
    return is_inner(f) && f->by_index;
}
static bool is_input(const node_facts *f) {
    return is_inner(f) && f->product && f->phase == IR_FORWARD && !f->recurrent;
}
static bool is_recurrent(const node_facts *f) {
    return is_inner(f) && f->product && f->phase == IR_FORWARD && f->recurrent;
}
static bool is_pointwise(const node_facts *f) {
    return is_inner(f) && !f->product && !f->by_index && !f->over_rows;
}
static bool is_output(const node_facts *f) {
    return !is_update(f) && !is_move(f) && f->losing;
}
static bool is_projection(const node_facts *f) {
    return is_output(f) && f->product && f->phase == IR_FORWARD;
}
static bool is_output_gradient(const node_facts *f) {
    return is_output(f) && f->phase == IR_BACKWARD && (f->product || f->over_rows);
}
static bool is_loss(const node_facts *f) {
    return is_output(f) && !is_projection(f) && !is_output_gradient(f);
}
static bool is_recurrent_gradient(const node_facts *f) {
    return is_inner(f) && f->product && f->phase == IR_BACKWARD && f->recurrent;
}
static bool is_input_gradient(const node_facts *f) {
    return is_inner(f) && f->product && f->phase == IR_BACKWARD && f->weight && !f->recurrent;
}
static bool is_weight_gradient(const node_facts *f) {
    return is_inner(f) && f->product && f->phase == IR_BACKWARD && !f->weight;
}
static bool is_bias_gradient(const node_facts *f) {
    return is_inner(f) && !f->product && !f->by_index && f->over_rows;
}

/* In the order of the report. What answers no question counts as other. */
static const struct {
    const char *name;
    bool (*holds)(const node_facts *facts);
} phases[] = {
    {"embedding", is_embedding},
    {"input GEMM", is_input},
    {"recurrent GEMM", is_recurrent},
    {"pointwise", is_pointwise},
    {"output: projection", is_projection},
    {"output: loss", is_loss},
    {"output: gradients", is_output_gradient},
    {"recurrent-gradient GEMM", is_recurrent_gradient},
    {"input-gradient GEMM", is_input_gradient},
    {"weight-gradient GEMM", is_weight_gradient},
    {"bias gradient", is_bias_gradient},
    {"packing, copies", is_move},
    {"optimiser", is_update},
};
enum { PHASES = sizeof phases / sizeof *phases };
#define OTHER "waiting, other"

/* ---- facts ---- */

static bool is_by_index(const ir_node_rec *node) {
    return ebb__op_reads(node->op, READ_INDEX);
}

static bool is_product(const ir_node_rec *node) {
    return (ebb__op(node->op)->flags & OPF_HEAVY) != 0;
}

static bool sums_rows(const ir_graph *g, const ir_node_rec *node) {
    pass_roles roles;
    return ebb__pass_roles(g, node, &roles) && roles.out[0] == ROWS_CARRY;
}

/* The value that v is a view or a copy of: of many stacked, the first. */
static ir_val origin(const ir_graph *g, ir_val v) {
    for (ir_node n = g->values[v].def; n != IR_NONE; n = g->values[v].def) {
        const ir_node_rec *node = &g->nodes[n];
        if (ir_in(g, node, 0) == IR_NONE || ebb__op_cost(g, node).flops > 0 || is_by_index(node)) {
            break;
        }
        v = ir_in(g, node, 0);
    }
    return v;
}

/* The parameter matrix that a product reads; biases are rows, summed and not multiplied. */
static ir_val weight_of(const ir_graph *g, const ir_node_rec *node) {
    for (int32_t i = 0; i < node->n_in; i++) {
        ir_val v = ir_in(g, node, i);
        v = v == IR_NONE ? v : origin(g, v);
        if (v != IR_NONE && g->values[v].role == IR_PARAM && g->values[v].type.rank > 1) {
            return v;
        }
    }
    return IR_NONE;
}

/* An operand that the result may lie over: a sum so far, not a factor. */
static bool is_sum_so_far(const op_def *op, int32_t operand) {
    bool found = false;
    for (int32_t p = 0; p < op->n_inplace; p++) {
        found = found || op->inplace[p].in == operand;
    }
    return found;
}

/* Made by the layer itself, in this step or (carried state) in the last. */
static bool reads_own_layer(const ir_graph *g, const ir_node_rec *node) {
    for (int32_t i = 0; i < node->n_in; i++) {
        ir_val v = ir_in(g, node, i);
        if (v == IR_NONE || is_sum_so_far(ebb__op(node->op), i)) {
            continue;
        }
        const ir_value *from = &g->values[origin(g, v)];
        if ((from->role == IR_STATE || from->role == IR_SCRATCH ||
             (from->def != IR_NONE && g->nodes[from->def].label.layer == node->label.layer))) {
            return true;
        }
    }
    return false;
}

static ebb_status scan_graph(const ir_graph *g, alloc_region *region, profile_scan *out) {
    *out = (profile_scan){.graph = g};
    TRY(REGION_ARRAYS(region, ARRAY(out->recurrent, (size_t)g->n_values + 1),
                      ARRAY(out->losing, (size_t)g->n_layers + 1)));
    for (int32_t i = 0; i < g->n_order; i++) {
        const ir_node_rec *node = &g->nodes[g->order[i]];
        if ((ebb__op(node->op)->flags & OPF_LOSS) != 0) {
            out->losing[node->label.layer] = true;
        }
        if (is_product(node) && node->label.phase == IR_FORWARD && reads_own_layer(g, node)) {
            ir_val weight = weight_of(g, node);
            if (weight != IR_NONE) {
                out->recurrent[weight] = true;
            }
        }
    }
    return EBB_OK;
}

static int32_t phase_of(const profile_scan *scan, const ir_node_rec *node, op_cost cost) {
    bool product = is_product(node);
    ir_val weight = product ? weight_of(scan->graph, node) : (ir_val)IR_NONE;
    node_facts facts = {.cost = cost,
                        .phase = node->label.phase,
                        .product = product,
                        .by_index = is_by_index(node),
                        .over_rows = sums_rows(scan->graph, node),
                        .losing = scan->losing[node->label.layer],
                        .weight = weight != IR_NONE,
                        .recurrent = weight != IR_NONE && scan->recurrent[weight]};
    int32_t phase = 0;
    while (phase < PHASES && !phases[phase].holds(&facts)) {
        phase++;
    }
    return phase;
}

/* ---- groups ---- */

/* The first of many sums has nothing to start from, which makes no other instruction of it. */
static bool same_work(const ir_graph *g, const ir_node_rec *a, const ir_node_rec *b) {
    const op_def *op = ebb__op(a->op);
    bool same = a->op == b->op && a->n_in == b->n_in && a->n_out == b->n_out;
    for (int32_t i = 0; same && i < a->n_in; i++) {
        const ir_type *x = op_in_type(g, a, i), *y = op_in_type(g, b, i);
        same = is_sum_so_far(op, i) || (x == NULL && y == NULL) ||
               (x != NULL && y != NULL && ebb__ir_type_equal(x, y));
    }
    for (int32_t i = 0; same && i < a->n_out; i++) {
        same = ebb__ir_type_equal(&g->values[a->out + i].type, &g->values[b->out + i].type);
    }
    return same;
}

static void write_shape(const ir_type *type, bool product, double flops, char *text, size_t bytes) {
    size_t used = 0;
    double elements = 1;
    for (int32_t d = 0; d < type->rank; d++) {
        int n = snprintf(text + used, bytes - used, "%s%" PRId32, d > 0 ? "x" : "", type->dim[d]);
        used += n > 0 && (size_t)n < bytes - used ? (size_t)n : 0;
        elements *= type->dim[d];
    }
    if (product) {
        (void)snprintf(text + used, bytes - used, " k=%.0f", flops / (2 * elements));
    }
}

static void describe_group(const pass_unit *unit, ir_node n, op_cost cost, profile_group *group) {
    const ir_node_rec *node = &unit->graph.nodes[n];
    ebb__plan_name_kernel(unit, n, group->kernel, sizeof group->kernel, group->form,
                          sizeof group->form);
    write_shape(&unit->graph.values[node->out].type, is_product(node), cost.flops, group->shape,
                sizeof group->shape);
}

/* Nodes that are alike tend to follow each other: the newest group is asked first. */
static int32_t find_group(const run_profile *profile, const pass_unit *unit, ir_node n,
                          int32_t phase) {
    const ir_graph *g = &unit->graph;
    for (int32_t i = profile->n_groups - 1; i >= 0; i--) {
        const profile_group *group = &profile->groups[i];
        if (group->phase == phase && group->layer == g->nodes[n].label.layer &&
            unit->kernels[group->node] == unit->kernels[n] &&
            unit->forms[group->node] == unit->forms[n] &&
            same_work(g, &g->nodes[group->node], &g->nodes[n])) {
            return i;
        }
    }
    return -1;
}

static ebb_status add_node(run_profile *profile, const profile_scan *scan, const pass_unit *unit,
                           ir_node n, size_t *capacity) {
    const ir_node_rec *node = &unit->graph.nodes[n];
    op_cost cost = ebb__op_cost(&unit->graph, node);
    int32_t phase = phase_of(scan, node, cost), at = find_group(profile, unit, n, phase);
    if (at < 0) {
        at = profile->n_groups;
        TRY(ebb__region_grow(&profile->region, &profile->groups, capacity, (size_t)at + 1,
                             sizeof *profile->groups));
        profile->groups[at] =
            (profile_group){.phase = phase, .layer = node->label.layer, .node = n};
        describe_group(unit, n, cost, &profile->groups[at]);
        profile->n_groups++;
    }
    profile_row *row = &profile->groups[at].row;
    row->calls++;
    row->flops += cost.flops;
    row->bytes += cost.bytes;
    profile->flops += cost.flops;
    profile->group_of[n] = at;
    return EBB_OK;
}

static ebb_status add_names(run_profile *profile, const ir_graph *g) {
    profile->n_phases = PHASES + 1;
    profile->n_layers = g->n_layers;
    TRY(ebb__region_alloc(&profile->region, PHASES + 1, sizeof *profile->phases, &profile->phases));
    for (int32_t i = 0; i < PHASES; i++) {
        profile->phases[i].name = phases[i].name;
    }
    profile->phases[PHASES].name = OTHER;
    TRY(REGION_ARRAYS(&profile->region, ARRAY(profile->layers, (size_t)g->n_layers)));
    for (int32_t i = 0; i < g->n_layers; i++) {
        char *name = NULL;
        TRY(ebb__region_strdup(&profile->region, g->layers[i][0] != '\0' ? g->layers[i] : "other",
                               &name));
        profile->layers[i].name = name;
    }
    return EBB_OK;
}

static ebb_status fill(run_profile *profile, const pass_unit *unit, alloc_region *scratch) {
    const ir_graph *g = &unit->graph;
    profile_scan scan;
    size_t capacity = 0;
    TRY(scan_graph(g, scratch, &scan));
    TRY(add_names(profile, g));
    profile->n_nodes = g->n_nodes;
    TRY(REGION_ARRAYS(&profile->region, ARRAY(profile->group_of, (size_t)g->n_nodes + 1),
                      ARRAY(profile->least, (size_t)g->n_nodes + 1)));
    for (int32_t i = 0; i < g->n_order; i++) {
        ir_node n = g->order[i];
        profile->group_of[n] = -1;
        if (unit->kernels[n] != DEVICE_KERNEL_NONE) {
            TRY(add_node(profile, &scan, unit, n, &capacity));
        }
    }
    for (int32_t i = 0; i < profile->n_groups; i++) {
        profile->groups[i].row.name = profile->groups[i].kernel;
    }
    return EBB_OK;
}

ebb_status ebb__profile_new(ebb_plan *plan, int32_t program, run_profile **out) {
    ebb_ctx *ctx = plan->ctx;
    run_profile *profile = NULL;
    alloc_region scratch;
    uint64_t before = ctx->mem.live_bytes;
    *out = NULL;
    TRY(ebb__alloc(ctx, 1, sizeof *profile, &profile));
    profile->ctx = ctx;
    ebb__region_init(&profile->region, ctx);
    ebb__region_init(&scratch, ctx);
    ebb_status status = fill(profile, &plan->programs[program].unit, &scratch);
    ebb__region_fini(&scratch);
    if (status != EBB_OK) {
        ebb__profile_free(profile);
        return status;
    }
    profile->memory_bytes = ctx->mem.live_bytes - before;
    *out = profile;
    return EBB_OK;
}

void ebb__profile_free(run_profile *profile) {
    if (profile != NULL) {
        ebb__region_fini(&profile->region);
        ebb__free(profile->ctx, profile);
    }
}

/* ---- steps ---- */

static void observe(void *user, const device_instr *instr, double seconds) {
    run_profile *profile = user;
    if (profile->session->ran != profile->program) {
        return; /* its fallback, whose nodes have other numbers */
    }
    double *least = &profile->least[instr->node];
    profile->groups[profile->group_of[instr->node]].seconds += seconds;
    *least = *least == 0 || seconds < *least ? seconds : *least;
}

ebb_status ebb__profile_step(run_profile *profile, run_trainer *trainer, int32_t program,
                             double rate) {
    run_session *session = trainer->session;
    for (int32_t i = 0; i < profile->n_groups; i++) {
        profile->groups[i].seconds = 0;
    }
    session->observe = observe;
    session->observe_user = profile;
    profile->session = session;
    profile->program = program;
    double start = ebb__clock_seconds();
    ebb_status status = ebb__trainer_step(trainer, program, rate);
    double seconds = ebb__clock_seconds() - start;
    session->observe = NULL;
    session->observe_user = NULL;
    bool fell_back = session->ran != program;
    if (fell_back || (profile->observed_seconds > 0 && seconds >= profile->observed_seconds)) {
        return status;
    }
    profile->observed_seconds = seconds;
    for (int32_t i = 0; i < profile->n_groups; i++) {
        profile->groups[i].row.seconds = profile->groups[i].seconds;
    }
    return status;
}

/* ---- tables ---- */

static void add_row(profile_row *to, const profile_row *row) {
    to->calls += row->calls;
    to->seconds += row->seconds;
    to->least += row->least;
    to->flops += row->flops;
    to->bytes += row->bytes;
}

/* Slowest first; among equals the one that came first in the program. */
static void add_top(run_profile *profile, int32_t group) {
    const profile_group *groups = profile->groups;
    int32_t at = profile->n_top;
    while (at > 0 && groups[profile->top[at - 1]].row.seconds < groups[group].row.seconds) {
        at--;
    }
    if (at == PROFILE_TOP) {
        return;
    }
    int32_t last = profile->n_top < PROFILE_TOP ? profile->n_top++ : PROFILE_TOP - 1;
    memmove(&profile->top[at + 1], &profile->top[at], (size_t)(last - at) * sizeof *profile->top);
    profile->top[at] = group;
}

void ebb__profile_finish(run_profile *profile) {
    double rest = profile->observed_seconds;
    for (int32_t n = 0; n < profile->n_nodes; n++) {
        if (profile->least[n] > 0) {
            profile->groups[profile->group_of[n]].row.least += profile->least[n];
            profile->least_seconds += profile->least[n];
        }
    }
    for (int32_t i = 0; i < profile->n_groups; i++) {
        const profile_group *group = &profile->groups[i];
        add_row(&profile->phases[group->phase], &group->row);
        add_row(&profile->layers[group->layer], &group->row);
        add_top(profile, i);
        rest -= group->row.seconds;
    }
    profile->phases[PHASES].seconds += rest > 0 ? rest : 0;
}
