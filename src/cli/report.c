/* report.c - a plan on one screen (24 lines of 80 characters), and as JSON. */
#include "cli/command.h"

#include "train/kind.h"

#include <inttypes.h>
#include <string.h>

enum { REPORT_ROWS = IR_KINDS };

typedef struct report_row {
    const char *name;
    uint64_t bytes;
} report_row;

static const char *layer_name(const plan_layer *layer) {
    return layer->name[0] != '\0' ? layer->name : "other";
}

/* The largest layers, largest first; what does not fit is summed in the last row. */
static int largest_layers(const ebb_plan *plan, report_row rows[REPORT_ROWS]) {
    enum { MOST = REPORT_ROWS - 1 };
    int n = 0;
    uint64_t rest = 0;
    for (int32_t i = 0; i < plan->n_layers; i++) {
        report_row row = {layer_name(&plan->layers[i]), plan->layers[i].bytes};
        for (int at = 0; at < n; at++) {
            if (rows[at].bytes < row.bytes) {
                report_row smaller = rows[at];
                rows[at] = row;
                row = smaller;
            }
        }
        if (n < MOST && row.bytes > 0) {
            rows[n++] = row;
        } else {
            rest += row.bytes;
        }
    }
    if (rest > 0) {
        rows[n++] = (report_row){"(others)", rest};
    }
    return n;
}

static void print_cell(FILE *file, const report_row *row, uint64_t peak) {
    (void)fprintf(file, "  %-18.18s %10s %5.1f%%", row->name, ebb__unit_bytes(row->bytes).text,
                  100 * (double)row->bytes / (double)(peak > 0 ? peak : 1));
}

static void print_table(FILE *file, const ebb_plan *plan) {
    report_row layers[REPORT_ROWS];
    int n = largest_layers(plan, layers);
    (void)fprintf(file, "  %-18s %17s    %-18s %17s\n", "bytes by kind", "at the peak",
                  "bytes by layer", "at the peak");
    for (int i = 0; i < REPORT_ROWS; i++) {
        report_row kind = {ebb__ir_kind_name((ir_kind)i), plan->bytes_by_kind[i]};
        print_cell(file, &kind, plan->peak_bytes);
        if (i < n) {
            (void)fprintf(file, "  ");
            print_cell(file, &layers[i], plan->peak_bytes);
        }
        (void)fputc('\n', file);
    }
}

static void print_largest(FILE *file, const ebb_plan *plan) {
    (void)fprintf(file, "  largest values at the peak\n");
    for (int32_t i = 0; i < plan->n_largest; i++) {
        const plan_large *large = &plan->largest[i];
        char shape[64] = "";
        size_t used = 0;
        for (int32_t d = 0; d < large->type.rank; d++) {
            int n = snprintf(shape + used, sizeof shape - used, "%s%" PRId32, d > 0 ? "x" : "",
                             large->type.dim[d]);
            used += n > 0 && (size_t)n < sizeof shape - used ? (size_t)n : 0;
        }
        (void)fprintf(file, "  %10s  %-10s %s %s\n", ebb__unit_bytes(large->bytes).text,
                      ebb__ir_kind_name(large->kind), large->what, shape);
    }
}

cli_line ebb__cli_model(const train_settings *s) {
    cli_line out;
    s->kind->describe(s, out.text, sizeof out.text);
    return out;
}

/* "recomputed  312 nodes for attention 40.1 MiB, rnn.l0 3.0 MiB": the layers that gain most. */
typedef enum gain { GAIN_AGAIN, GAIN_ENCODED, GAIN_OFFLOADED } gain;

static gain gain_of(const plan_decision *d) {
    return d->form == NULL                        ? GAIN_AGAIN
           : strcmp(d->form, PLAN_OFFLOADED) == 0 ? GAIN_OFFLOADED
                                                  : GAIN_ENCODED;
}

static void print_gains(FILE *file, const ebb_plan *plan, const char *what, int32_t nodes,
                        gain which) {
    enum { ROOM = 80 };
    char line[160];
    int32_t n = 0;
    int used = snprintf(line, sizeof line, "  %-13s %10" PRId32 " nodes", what, nodes);
    for (int32_t i = 0; i < plan->n_decisions; i++) {
        const plan_decision *d = &plan->decisions[i];
        char more[96];
        if (gain_of(d) != which) {
            continue;
        }
        int bytes =
            snprintf(more, sizeof more, "%s %.40s %s", n > 0 ? "," : " for",
                     d->layer[0] != '\0' ? d->layer : "other", ebb__unit_bytes(d->bytes).text);
        if (used + bytes > ROOM) {
            break;
        }
        used += snprintf(line + used, sizeof line - (size_t)used, "%s", more);
        n++;
    }
    (void)fprintf(file, "%s\n", line);
}

static void print_decisions(FILE *file, const ebb_plan *plan) {
    int32_t nodes[3] = {0};
    for (int32_t i = 0; i < plan->n_decisions; i++) {
        nodes[gain_of(&plan->decisions[i])] += plan->decisions[i].nodes;
    }
    print_gains(file, plan, "recomputed", plan->recomputed_nodes, GAIN_AGAIN);
    if (nodes[GAIN_ENCODED] > 0) {
        print_gains(file, plan, "encoded", nodes[GAIN_ENCODED], GAIN_ENCODED);
    }
    if (nodes[GAIN_OFFLOADED] > 0) {
        print_gains(file, plan, "offloaded", nodes[GAIN_OFFLOADED], GAIN_OFFLOADED);
    }
}

double ebb__cli_rate(const ebb_plan *plan) {
    return plan->words_per_step / (plan->seconds_per_step > 0 ? plan->seconds_per_step : 1);
}

void ebb__cli_print_plan(FILE *file, const train_settings *s, const ebb_plan *plan) {
    train_settings planned = ebb__kind_planned(s, plan);
    cli_line model = ebb__cli_model(&planned);
    char how[80];
    int n = snprintf(how, sizeof how, "%d nodes planned in %.2f s for %d thread%s", plan->nodes,
                     plan->plan_seconds, plan->members, plan->members == 1 ? "" : "s");
    bool fits = strlen(model.text) + (size_t)n + 2 <= 80;
    (void)fprintf(file, "%s:%s%s\n", model.text, fits ? " " : "\n  ", how);
    if (ebb__settings_ranks(s) > 1) {
        (void)fprintf(file, "  processes     %10" PRId64 ", reduce %s; of the first of them:\n",
                      ebb__settings_ranks(s), ebb__job_reduces[job_reduced(plan)]);
    }
    (void)fprintf(file, "  peak          %10s = %" PRIu64 " bytes, all told\n",
                  ebb__unit_bytes(plan->peak_bytes).text, plan->peak_bytes);
    if (plan->budget_bytes < UINT64_MAX) {
        (void)fprintf(file, "  budget        %10s%s\n", ebb__unit_bytes(plan->budget_bytes).text,
                      plan->peak_bytes > plan->budget_bytes ? "  too small" : "");
    }
    (void)fprintf(file, "  least budget  %10s = %" PRIu64 " bytes\n",
                  ebb__unit_bytes(plan->least_bytes).text, plan->least_bytes);
    (void)fprintf(file, "  keeping all   %10s (%.2f times the peak), %.4f s a step\n",
                  ebb__unit_bytes(plan->keep_all_bytes).text,
                  (double)plan->keep_all_bytes /
                      (double)(plan->peak_bytes > 0 ? plan->peak_bytes : 1),
                  plan->seconds_per_step_keep_all);
    print_decisions(file, plan);
    (void)fprintf(file, "  predicted     %10.4f s a step, %s %s/s\n", plan->seconds_per_step,
                  ebb__unit_rate(ebb__cli_rate(plan)).text, s->kind->unit);
    print_table(file, plan);
    print_largest(file, plan);
    (void)fflush(file);
}

static json_t *kinds_json(const ebb_plan *plan) {
    json_t *kinds = json_object();
    for (int i = 0; i < IR_KINDS; i++) {
        (void)json_object_set_new(kinds, ebb__ir_kind_name((ir_kind)i),
                                  ebb__cli_json_bytes(plan->bytes_by_kind[i]));
    }
    return kinds;
}

static json_t *layers_json(const ebb_plan *plan) {
    json_t *layers = json_object();
    for (int32_t i = 0; i < plan->n_layers; i++) {
        if (plan->layers[i].bytes > 0) {
            (void)json_object_set_new(layers, layer_name(&plan->layers[i]),
                                      ebb__cli_json_bytes(plan->layers[i].bytes));
        }
    }
    return layers;
}

static json_t *decisions_json(const ebb_plan *plan) {
    json_t *list = json_array();
    for (int32_t i = 0; i < plan->n_decisions; i++) {
        const plan_decision *d = &plan->decisions[i];
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:s, s:i, s:o, s:o}", "layer",
                                              d->layer[0] != '\0' ? d->layer : "other", "form",
                                              d->form != NULL ? d->form : "recomputed", "nodes",
                                              d->nodes, "bytes", ebb__cli_json_bytes(d->bytes),
                                              "seconds", ebb__cli_json_real(d->seconds)));
    }
    return list;
}

/* Of a device with a memory of its own, the host's bytes beside it. */
static json_t *with_device(json_t *object, const ebb_plan *plan) {
    if (object != NULL && device_apart(plan->dev) &&
        (json_object_set_new(object, "device_bytes", ebb__cli_json_bytes(plan->device_bytes)) !=
             0 ||
         json_object_set_new(object, "host_bytes", ebb__cli_json_bytes(plan->host_bytes)) != 0)) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* Where values wait outside the device's memory: how many bytes. */
static json_t *with_offloaded(json_t *object, const ebb_plan *plan) {
    if (object != NULL && plan->away_bytes > 0 &&
        json_object_set_new(object, "offloaded_bytes", ebb__cli_json_bytes(plan->away_bytes)) !=
            0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

json_t *ebb__cli_plan_json(const ebb_plan *plan) {
    json_t *object = json_pack(
        "{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:o}",
        "schema", 1, "peak_bytes", ebb__cli_json_bytes(plan->peak_bytes), "keep_all_bytes",
        ebb__cli_json_bytes(plan->keep_all_bytes), "least_bytes",
        ebb__cli_json_bytes(plan->least_bytes), "bytes_by_kind", kinds_json(plan), "bytes_by_layer",
        layers_json(plan), "activation_bytes", ebb__cli_json_bytes(plan->activation_bytes),
        "keep_all_activation_bytes", ebb__cli_json_bytes(plan->keep_all_activation_bytes), "nodes",
        plan->nodes, "plan_seconds", ebb__cli_json_real(plan->plan_seconds), "seconds_per_step",
        ebb__cli_json_real(plan->seconds_per_step), "budget_bytes",
        ebb__cli_json_bytes(plan->budget_bytes), "plan_hash", ebb__cli_json_hash(plan->hash),
        "recomputed_nodes", plan->recomputed_nodes, "seconds_per_step_keep_all",
        ebb__cli_json_real(plan->seconds_per_step_keep_all), "decisions", decisions_json(plan),
        "sparse_reserved_bytes", ebb__cli_json_bytes(plan->programs[plan->lead].size.heap_bytes));
    return with_offloaded(with_device(object, plan), plan);
}

bool ebb__cli_add_forms(json_t *to, const model_kind *kind, const plan_form *forms, int32_t n,
                        int32_t chunk_images) {
    json_t *object = json_object();
    for (int32_t i = 0; i < n; i++) {
        (void)json_object_set_new(object, forms[i].name, ebb__cli_json_bytes(forms[i].bytes));
    }
    bool done = json_object_set_new(to, "forms", object) == 0;
    return done && (ebb__cli_find(kind, "chunk") == NULL ||
                    json_object_set_new(to, "chunk_images", json_integer(chunk_images)) == 0);
}
