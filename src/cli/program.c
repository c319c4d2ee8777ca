/* program.c - `ebb plan --program`: the programs of a plan, instruction by instruction, as text and
 * as JSON. docs/formats.md says what stands where. */
#include "cli/command.h"

#include "plan/listing.h"

#include <inttypes.h>

/* ---- text ---- */

/* "weight 4096+512": name, if it has one, address and bytes; "-": left out. */
static void print_view(FILE *file, const plan_listed *instr, int32_t i, const char *before) {
    plan_listed_view view = ebb__plan_listed_view(instr, i);
    (void)fputs(before, file);
    if (!view.there) {
        (void)fputc('-', file);
        return;
    }
    (void)fprintf(file, "%s%s%" PRIu64 "+%" PRIu64, view.name != NULL ? view.name : "",
                  view.name != NULL ? " " : "", view.address, view.bytes);
}

static ebb_status print_instr(void *user, const plan_listed *instr) {
    FILE *file = user;
    const ir_node_rec *node = instr->node;
    char label[96];
    int n = snprintf(label, sizeof label, "%.48s", instr->unit->graph.layers[node->label.layer]);
    if (node->label.at >= 0) {
        n += snprintf(label + n, sizeof label - (size_t)n, " t=%d", (int)node->label.at);
    }
    if (node->label.shard > 0) {
        n += snprintf(label + n, sizeof label - (size_t)n, " s=%d", (int)node->label.shard);
    }
    (void)snprintf(label + n, sizeof label - (size_t)n, " %s",
                   ebb__ir_phase_name(node->label.phase));
    (void)fprintf(file, "  %6" PRId32 " %6" PRId32 " %4" PRId32 "  %-24s %-22s ", instr->number,
                  instr->run, instr->members, label, instr->kernel);
    for (int32_t i = 0; i < node->n_out; i++) {
        print_view(file, instr, node->n_in + i, i > 0 ? ", " : "");
    }
    for (int32_t i = 0; i < node->n_in; i++) {
        print_view(file, instr, i, i > 0 ? ", " : " <- ");
    }
    if (instr->scratch_bytes > 0) {
        (void)fprintf(file, "; scratch %" PRIu64 "+%" PRIu64, instr->scratch, instr->scratch_bytes);
    }
    (void)fprintf(file, "%s%s\n", instr->form[0] != '\0' ? "; " : "", instr->form);
    return EBB_OK;
}

ebb_status ebb__cli_print_programs(FILE *file, ebb_plan *plan) {
    for (int32_t i = 0; i < plan->n_programs; i++) {
        const plan_program *program = &plan->programs[i];
        (void)fprintf(file, "program %s: %" PRId32 " instructions\n  %6s %6s %4s  %-24s %-22s %s\n",
                      program->name, program->size.n_instrs, "number", "run", "team",
                      "layer, time, phase", "kernel", "results <- operands; scratch; form");
        TRY(ebb__plan_list(plan, i, print_instr, file));
    }
    (void)fflush(file);
    return EBB_OK;
}

/* ---- JSON ---- */

static json_t *view_json(const plan_listed *instr, int32_t i) {
    plan_listed_view view = ebb__plan_listed_view(instr, i);
    json_t *dims = json_array();
    if (!view.there) {
        json_decref(dims);
        return json_null();
    }
    for (int32_t k = 0; k < view.type.rank; k++) {
        (void)json_array_append_new(dims, json_integer(view.type.dim[k]));
    }
    return json_pack("{s:s?, s:o, s:o, s:o}", "name", view.name, "dims", dims, "address",
                     ebb__cli_json_bytes(view.address), "bytes", ebb__cli_json_bytes(view.bytes));
}

static ebb_status add_instr(void *user, const plan_listed *instr) {
    const ir_node_rec *node = instr->node;
    json_t *in = json_array(), *out = json_array();
    for (int32_t i = 0; i < node->n_in + node->n_out; i++) {
        (void)json_array_append_new(i < node->n_in ? in : out, view_json(instr, i));
    }
    json_t *object = json_pack(
        "{s:i, s:i, s:i, s:s, s:s, s:s, s:s, s:i, s:i, s:s, s:o, s:o, s:o, s:o}", "number",
        instr->number, "run", instr->run, "members", instr->members, "op",
        ebb__op(node->op)->schema.name, "kernel", instr->kernel, "form", instr->form, "layer",
        instr->unit->graph.layers[node->label.layer], "time", (int)node->label.at, "shard",
        (int)node->label.shard, "phase", ebb__ir_phase_name(node->label.phase), "out", out, "in",
        in, "scratch_address", ebb__cli_json_bytes(instr->scratch), "scratch_bytes",
        ebb__cli_json_bytes(instr->scratch_bytes));
    return json_array_append_new(user, object) == 0
               ? EBB_OK
               : ebb__fail(instr->unit->ctx, EBB_NOMEM, "no memory for the list of instructions");
}

ebb_status ebb__cli_programs_json(ebb_plan *plan, json_t **out) {
    *out = json_array();
    for (int32_t i = 0; i < plan->n_programs; i++) {
        const plan_program *program = &plan->programs[i];
        json_t *list = json_array();
        ebb_status status = ebb__plan_list(plan, i, add_instr, list);
        (void)json_array_append_new(*out, json_pack("{s:s, s:i, s:o}", "name", program->name,
                                                    "instructions", program->size.n_instrs, "list",
                                                    list));
        TRY(status);
    }
    return EBB_OK;
}
