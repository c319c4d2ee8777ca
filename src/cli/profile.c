/* profile.c - where the time of a step goes: tables of at most 80 columns, and JSON. */
#include "cli/command.h"

#include <inttypes.h>

enum { PROFILE_LAYERS = 8 };

/* Rates that mean something: arithmetic where there is more than a tenth of a flop to a byte,
 * traffic where there are less than two. */
static bool shows_flops(const profile_row *row) {
    return row->flops > 0.1 * row->bytes;
}
static bool shows_bytes(const profile_row *row) {
    return row->bytes > 0 && row->flops < 2 * row->bytes;
}

static double share(double part, double whole) {
    return whole > 0 ? 100 * part / whole : 0;
}

static double rate(double count, double seconds) {
    return seconds > 0 ? count / seconds : 0;
}

static void print_row(FILE *file, const run_profile *p, const profile_row *row) {
    (void)fprintf(file, "  %-24.24s %6" PRId64 " %9.3f %5.1f%%", row->name, row->calls,
                  1e3 * row->seconds, share(row->seconds, p->observed_seconds));
    if (shows_flops(row)) {
        double flops = rate(row->flops, row->seconds);
        (void)fprintf(file, " %9.1f %5.1f%%", 1e-9 * flops, share(flops, p->peak_flops));
    } else if (shows_bytes(row)) {
        (void)fprintf(file, " %9s %6s", "", "");
    }
    if (shows_bytes(row)) {
        (void)fprintf(file, " %8.1f", 1e-9 * rate(row->bytes, row->seconds));
    }
    (void)fputc('\n', file);
}

static void print_heading(FILE *file, const char *what) {
    (void)fprintf(file, "  %-24s %6s %9s %6s %9s %6s %8s\n", what, "calls", "ms", "share",
                  "GFLOP/s", "peak", "GB/s");
}

/* The slowest layers in their order; what does not fit is summed in the last row. */
static void print_layers(FILE *file, const run_profile *p) {
    profile_row others = {.name = "(others)"};
    print_heading(file, "layer");
    for (int32_t i = 0; i < p->n_layers; i++) {
        const profile_row *row = &p->layers[i];
        int slower = 0;
        for (int32_t k = 0; k < p->n_layers; k++) {
            double other = p->layers[k].seconds;
            slower += other > row->seconds || (k < i && !(other < row->seconds));
        }
        if (slower < PROFILE_LAYERS && row->calls > 0) {
            print_row(file, p, row);
        } else {
            others.calls += row->calls;
            others.seconds += row->seconds;
            others.flops += row->flops;
            others.bytes += row->bytes;
        }
    }
    if (others.calls > 0) {
        print_row(file, p, &others);
    }
}

static void print_top(FILE *file, const run_profile *p) {
    (void)fprintf(file, "  %-32s %-7s %-15s %5s %7s %7s\n", "slowest instructions", "layer",
                  "shape", "calls", "ms", "GFLOP/s");
    for (int32_t i = 0; i < p->n_top; i++) {
        const profile_group *g = &p->groups[p->top[i]];
        char name[72];
        (void)snprintf(name, sizeof name, "%s%s%s", g->kernel, g->form[0] != '\0' ? " " : "",
                       g->form);
        (void)fprintf(file, "  %-32.32s %-7.7s %-15.15s %5" PRId64 " %7.2f", name,
                      p->layers[g->layer].name, g->shape, g->row.calls, 1e3 * g->row.seconds);
        if (shows_flops(&g->row)) {
            (void)fprintf(file, " %7.1f", 1e-9 * rate(g->row.flops, g->row.seconds));
        }
        (void)fputc('\n', file);
    }
}

void ebb__cli_print_profile(FILE *file, const run_profile *p, int threads) {
    double flops = rate(p->flops, p->step_seconds);
    if (p->observed_seconds <= 0) {
        (void)fputs(
            "\nno step to show: each had more than its heaps hold (--density) and was done in "
            "another way\n",
            file);
        return;
    }
    (void)fprintf(file, "\nfastest observed step: %.3f ms (%+.1f%% against %.3f ms unobserved)\n",
                  1e3 * p->observed_seconds,
                  share(p->observed_seconds - p->step_seconds, p->step_seconds),
                  1e3 * p->step_seconds);
    (void)fprintf(file, "every instruction at its fastest: %.3f ms\n", 1e3 * p->least_seconds);
    (void)fprintf(file,
                  "unobserved: %.1f GFLOP/s, %.1f%% of the fma peak of %d thread%s, %.1f GFLOP/s\n",
                  1e-9 * flops, share(flops, p->peak_flops), threads, threads == 1 ? "" : "s",
                  1e-9 * p->peak_flops);
    print_heading(file, "phase");
    for (int32_t i = 0; i < p->n_phases; i++) {
        if (p->phases[i].calls > 0 || i + 1 == p->n_phases) {
            print_row(file, p, &p->phases[i]);
        }
    }
    print_layers(file, p);
    print_top(file, p);
}

/* ---- JSON ---- */

static json_t *row_json(const profile_row *row) {
    return json_pack("{s:s, s:I, s:o, s:o, s:o, s:o}", "name", row->name, "calls",
                     (json_int_t)row->calls, "seconds", ebb__cli_json_real(row->seconds),
                     "least_seconds", ebb__cli_json_real(row->least), "flops",
                     ebb__cli_json_real(row->flops), "bytes", ebb__cli_json_real(row->bytes));
}

static json_t *rows_json(const profile_row *rows, int32_t n) {
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++) {
        (void)json_array_append_new(list, row_json(&rows[i]));
    }
    return list;
}

static json_t *top_json(const run_profile *p) {
    json_t *list = json_array();
    for (int32_t i = 0; i < p->n_top; i++) {
        const profile_group *g = &p->groups[p->top[i]];
        json_t *row = row_json(&g->row);
        (void)json_object_set_new(row, "form", json_string(g->form));
        (void)json_object_set_new(row, "phase", json_string(p->phases[g->phase].name));
        (void)json_object_set_new(row, "layer", json_string(p->layers[g->layer].name));
        (void)json_object_set_new(row, "shape", json_string(g->shape));
        (void)json_array_append_new(list, row);
    }
    return list;
}

json_t *ebb__cli_profile_json(const run_profile *p) {
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "peak_flops",
        ebb__cli_json_real(p->peak_flops), "step_seconds", ebb__cli_json_real(p->step_seconds),
        "observed_seconds", ebb__cli_json_real(p->observed_seconds), "least_seconds",
        ebb__cli_json_real(p->least_seconds), "flops", ebb__cli_json_real(p->flops), "memory_bytes",
        ebb__cli_json_bytes(p->memory_bytes), "phases", rows_json(p->phases, p->n_phases), "layers",
        rows_json(p->layers, p->n_layers), "top", top_json(p));
}
