/* explain.c - what a plan decided, and what that bought; its products: how each is carried out,
 * measured or built in, and what it takes of a step. As text and as JSON. */
#include "cli/command.h"

#include "page/picture.h"

#include <inttypes.h>
#include <string.h>

cli_name ebb__cli_direction(uint16_t op, const cost_key *key) {
    const ir_schema *schema = &ebb__op(op)->schema;
    cli_name out = {""};
    size_t used = 0;
    for (int i = 0; i < IR_MAX_INTS; i++) {
        if (schema->ints[i] == NULL || key->attr[i] == 0) {
            continue;
        }
        char value[16] = "";
        if (key->attr[i] != 1) {
            (void)snprintf(value, sizeof value, "=%" PRId32, key->attr[i]);
        }
        int n = snprintf(out.text + used, sizeof out.text - used, "%s%s%s", used > 0 ? " " : "",
                         schema->ints[i], value);
        used += n > 0 && (size_t)n < sizeof out.text - used ? (size_t)n : 0;
    }
    return out;
}

cli_name ebb__cli_form(const device_kernel *kernel, int32_t form) {
    cli_name out = {"its only form"};
    if (kernel->form_name != NULL) {
        kernel->form_name(form, out.text, sizeof out.text);
    }
    return out;
}

double ebb__cli_gflops(const cost_key *key, double seconds) {
    return seconds > 0 ? 2e-9 * (double)key->m * (double)key->n * (double)key->k / seconds : 0;
}

/* ---- decisions ---- */

static void print_decision(FILE *file, const char *layer, const char *form, int32_t nodes,
                           uint64_t bytes, double seconds) {
    (void)fprintf(file, "  %-32.32s %-10s %7" PRId32 " %12s %11.1f\n", layer, form, nodes,
                  ebb__unit_bytes(bytes).text, 1e6 * seconds);
}

void ebb__cli_print_decisions(FILE *file, const ebb_plan *plan) {
    enum { MOST = 60 };
    plan_decision all = {.nodes = 0}, rest = {.nodes = 0};
    if (plan->n_decisions == 0) {
        return;
    }
    (void)fprintf(file,
                  "  decided: %s; from %s and %.4f s a step to %s and %.4f s\n"
                  "  %-32s %-10s %7s %12s %11s\n",
                  ebb__curve_name(&plan->choices[plan->chosen]).text,
                  ebb__unit_bytes(plan->keep_all_bytes).text, plan->seconds_per_step_keep_all,
                  ebb__unit_bytes(plan->peak_bytes).text, plan->seconds_per_step,
                  "layer whose values do not wait", "but are", "nodes", "bytes less", "us a step");
    for (int32_t i = 0; i < plan->n_decisions; i++) {
        const plan_decision *d = &plan->decisions[i];
        plan_decision *sums[] = {&all, i >= MOST ? &rest : NULL};
        for (int k = 0; k < 2 && sums[k] != NULL; k++) {
            sums[k]->nodes += d->nodes;
            sums[k]->bytes += d->bytes;
            sums[k]->seconds += d->seconds;
        }
        if (i < MOST) {
            print_decision(file, d->layer[0] != '\0' ? d->layer : "other",
                           d->form != NULL ? d->form : "recomputed", d->nodes, d->bytes,
                           d->seconds);
        }
    }
    if (rest.nodes > 0) {
        print_decision(file, "(others)", "", rest.nodes, rest.bytes, rest.seconds);
    }
    print_decision(file, "all", "", all.nodes, all.bytes, all.seconds);
    (void)fflush(file);
}

/* ---- what was no candidate ---- */

static const char *const why_no_sparse =
    "a device would be waited for in the middle of a step, to see whether they fit";

/* Values of many zeros that the CPU may keep without them. */
static bool lacks_sparse(const train_settings *s, const ebb_plan *plan) {
    return s->density.cut > 0 && device_apart(plan->dev);
}

void ebb__cli_print_excluded(FILE *file, const train_settings *s, const ebb_plan *plan) {
    if (lacks_sparse(s, plan)) {
        (void)fprintf(file, "  no candidates: sparse forms:\n    %s\n", why_no_sparse);
    }
}

json_t *ebb__cli_excluded_json(const train_settings *s, const ebb_plan *plan) {
    json_t *list = json_array();
    if (lacks_sparse(s, plan)) {
        (void)json_array_append_new(
            list, json_pack("{s:s, s:s}", "form", "sparse", "why", why_no_sparse));
    }
    return list;
}

/* ---- text ---- */

/* Per cent of a step in which products take what was measured. */
static double share_of(const ebb_plan *plan, const plan_product *p) {
    double step = plan->seconds_per_step;
    for (int32_t i = 0; i < plan->n_products; i++) {
        const plan_product *q = &plan->products[i];
        step += (q->seconds - q->expected) * q->count;
    }
    return step > 0 ? 100 * p->seconds * p->count / step : 0;
}

static void print_product(FILE *file, const ebb_plan *plan, const plan_product *p) {
    const device_kernel *kernel = &plan->dev->kernels[p->key.kernel];
    (void)fprintf(file,
                  "  %6" PRId64 " %6" PRId64 " %6" PRId64 " %5" PRId32 " %9.1f %5.1f%% %7.1f  %s %s"
                  " (%s)\n",
                  p->key.m, p->key.n, p->key.k, p->count, 1e6 * p->seconds, share_of(plan, p),
                  ebb__cli_gflops(&p->key, p->seconds), kernel->name,
                  ebb__cli_direction(p->op, &p->key).text, p->where);
    for (int32_t i = 0; i < p->n_forms; i++) {
        const cost_form *form = &p->forms[i];
        if (form->form != p->form && form->seconds < 0) {
            continue;
        }
        (void)fprintf(file, "  %34s", "");
        if (form->seconds < 0) {
            (void)fprintf(file, "%12s", "built in");
        } else {
            (void)fprintf(file, "%9.1f us", 1e6 * form->seconds);
        }
        (void)fprintf(file, " %s %s\n", form->form == p->form ? "*" : " ",
                      ebb__cli_form(kernel, form->form).text);
    }
}

void ebb__cli_print_products(FILE *file, const ebb_plan *plan) {
    (void)fprintf(file,
                  "  products of a step, the most expensive first; * is the form that is taken\n"
                  "  %6s %6s %6s %5s %9s %6s %7s  %s\n",
                  "m", "n", "k", "count", "us each", "share", "GFLOP/s", "kernel");
    for (int32_t i = 0; i < plan->n_products; i++) {
        print_product(file, plan, &plan->products[i]);
    }
    (void)fflush(file);
}

/* ---- JSON ---- */

json_t *ebb__cli_key_json(const device *dev, uint16_t op, const cost_key *key) {
    const ir_schema *schema = &ebb__op(op)->schema;
    json_t *object =
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:i}", "op", schema->name, "kernel",
                  dev->kernels[key->kernel].name, "m", (json_int_t)key->m, "n", (json_int_t)key->n,
                  "k", (json_int_t)key->k, "members", key->members);
    for (int i = 0; object != NULL && i < IR_MAX_INTS; i++) {
        if (schema->ints[i] != NULL &&
            json_object_set_new(object, schema->ints[i], json_integer(key->attr[i])) != 0) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}

json_t *ebb__cli_forms_json(const device_kernel *kernel, const cost_key *key,
                            const cost_form *forms, int32_t n) {
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++) {
        const cost_form *form = &forms[i];
        bool known = form->seconds >= 0;
        (void)json_array_append_new(
            list, json_pack("{s:i, s:s, s:o, s:o}", "form", form->form, "name",
                            ebb__cli_form(kernel, form->form).text, "seconds",
                            known ? json_real(form->seconds) : json_null(), "gflops",
                            known ? json_real(ebb__cli_gflops(key, form->seconds)) : json_null()));
    }
    return list;
}

json_t *ebb__cli_products_json(const ebb_plan *plan) {
    json_t *list = json_array();
    for (int32_t i = 0; i < plan->n_products; i++) {
        const plan_product *p = &plan->products[i];
        const device_kernel *kernel = &plan->dev->kernels[p->key.kernel];
        json_t *object = ebb__cli_key_json(plan->dev, p->op, &p->key);
        json_t *rest = json_pack(
            "{s:i, s:i, s:s, s:b, s:f, s:f, s:f, s:s, s:o}", "count", p->count, "form", p->form,
            "form_name", ebb__cli_form(kernel, p->form).text, "measured", p->measured, "seconds",
            p->seconds, "seconds_per_step", p->seconds * p->count, "share", share_of(plan, p) / 100,
            "where", p->where, "forms", ebb__cli_forms_json(kernel, &p->key, p->forms, p->n_forms));
        (void)json_object_update(object, rest);
        (void)json_array_append_new(list, object);
        json_decref(rest);
    }
    return list;
}
