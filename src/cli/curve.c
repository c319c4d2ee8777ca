/* curve.c - `ebb plan --curve`: every plan worth taking, from the fastest to the smallest, as a
 * table and as JSON. */
#include "cli/command.h"

#include "page/picture.h"

#include <inttypes.h>

void ebb__cli_print_curve(FILE *file, const char *model, const ebb_plan *plan) {
    double fastest = plan->choices[0].seconds;
    double all = (double)(plan->keep_all_bytes > 0 ? plan->keep_all_bytes : 1);
    (void)fprintf(file,
                  "%s\n  every plan worth taking, the fastest first; * is the one taken\n"
                  "  %15s %10s %7s %9s %7s  %s\n",
                  model, "bytes", "", "of all", "s a step", "slower", "decided");
    for (int32_t i = 0; i < plan->n_choices; i++) {
        const plan_choice *c = &plan->choices[i];
        (void)fprintf(file, "  %c%14" PRIu64 " %10s %6.1f%% %9.4f %6.3fx  %s\n",
                      i == plan->chosen ? '*' : ' ', c->peak_bytes,
                      ebb__unit_bytes(c->peak_bytes).text, 100 * (double)c->peak_bytes / all,
                      c->seconds, fastest > 0 ? c->seconds / fastest : 1, ebb__curve_name(c).text);
    }
    (void)fflush(file);
}

json_t *ebb__cli_curve_json(const ebb_plan *plan) {
    json_t *list = json_array();
    for (int32_t i = 0; i < plan->n_choices; i++) {
        const plan_choice *c = &plan->choices[i];
        (void)json_array_append_new(
            list, json_pack("{s:o, s:o, s:o, s:o, s:s}", "budget_bytes",
                            ebb__cli_json_bytes(c->peak_bytes), "peak_bytes",
                            ebb__cli_json_bytes(c->peak_bytes), "activation_bytes",
                            ebb__cli_json_bytes(c->activation_bytes), "seconds_per_step",
                            ebb__cli_json_real(c->seconds), "decided", ebb__curve_name(c).text));
    }
    return list;
}
