/* tune.c - `ebb tune`: times of products, measured ahead of the first run. And where a command
 * finds such times: --tune, else $EBB_TUNE, else the user's cache folder. */
#include "cli/command.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What the first run of a model may spend. */
static const double FIRST_RUN_SECONDS = 5;

static bool join(char *out, size_t bytes, const char *head, const char *tail) {
    int n = head != NULL && head[0] != '\0' ? snprintf(out, bytes, "%s%s", head, tail) : -1;
    return n > 0 && (size_t)n < bytes;
}

void ebb__cli_find_tuning(cli_settings *settings, option_command command) {
    train_settings *run = &settings->run;
    char *folder = settings->tune_folder;
    size_t bytes = sizeof settings->tune_folder;
    const char *asked = settings->tune != NULL ? settings->tune : getenv("EBB_TUNE");
    run->tune_folder = NULL;
    if (command != FOR_TUNE) {
        /* A forecast compares plans: what of one is measured and of another not would decide. */
        bool measures = command == FOR_TRAIN || command == FOR_BENCH || run->ranks > 0;
        run->tune_seconds = measures ? FIRST_RUN_SECONDS : 0;
    }
    if (asked != NULL && strcmp(asked, "off") == 0) {
        return;
    }
    if (join(folder, bytes, asked, "") ||
        join(folder, bytes, getenv("XDG_CACHE_HOME"), "/ebb/tune") ||
        join(folder, bytes, getenv("HOME"), "/.cache/ebb/tune")) {
        run->tune_folder = folder;
    } else if (run->tune_seconds > 0 && command != FOR_TUNE) {
        ebb__log(settings->ctx, EBB_LOG_INFO,
                 "no folder for measured times (--tune DIR): using built-in ones");
    }
}

/* ---- which models ---- */

static bool gives_size(const cli_settings *settings) {
    const char *const *names = settings->run.kind->size_options;
    bool given = settings->config != NULL;
    for (; names != NULL && *names != NULL; names++) {
        given = given || ebb__cli_given(settings, *names);
    }
    return given;
}

static int32_t list_models(const cli_settings *settings, train_settings models[KIND_MOST_USUAL]) {
    if (settings->run.kind->usual == NULL || gives_size(settings)) {
        models[0] = settings->run;
        return 1;
    }
    return settings->run.kind->usual(&settings->run, models);
}

/* ---- what was found ---- */

typedef struct tune_best {
    const cost_entry *entry;
    double taken, guess; /* seconds; of the kernel's own best guess; < 0: not measured */
    int32_t form;        /* that plans take */
} tune_best;

static tune_best best_of(const job_tune_report *r, const cost_sample *sample) {
    tune_best best = {.entry = ebb__cost_table_find(r->table, &sample->key)};
    best.form = ebb__cost_pick(best.entry, sample->forms, sample->n_forms, &best.taken);
    (void)ebb__cost_pick(best.entry, sample->forms, 1, &best.guess);
    return best;
}

/* Of the stored forms only those that the kernel offers are shown: nothing else is ever run. */
static int32_t known_forms(const cost_sample *sample, const cost_entry *entry, cost_form *out) {
    int32_t n = 0;
    for (int32_t i = 0; entry != NULL && i < sample->n_forms; i++) {
        for (int32_t k = 0; k < entry->n_forms; k++) {
            if (entry->forms[k].form == sample->forms[i]) {
                out[n++] = entry->forms[k];
            }
        }
    }
    return n;
}

static void print_sample(const job_tune_report *r, const cost_sample *sample) {
    const device_kernel *kernel = &r->survey->dev->kernels[sample->key.kernel];
    tune_best best = best_of(r, sample);
    cost_form forms[DEVICE_MAX_FORMS];
    int32_t n = known_forms(sample, best.entry, forms);
    printf("%6" PRId64 " %6" PRId64 " %6" PRId64 "  x%-5" PRId64 " %s %s", sample->key.m,
           sample->key.n, sample->key.k, sample->count, kernel->name,
           ebb__cli_direction(sample->op, &sample->key).text);
    if (best.taken > 0 && best.guess > 0) {
        printf(": %.2f times as fast as the first guess", best.guess / best.taken);
    }
    printf("%s\n", n == 0 ? ": not measured" : "");
    for (int32_t i = 0; i < n; i++) {
        printf("%24s %s %9.1f us %7.1f GFLOP/s %6.2f  %s\n", "",
               forms[i].form == best.form ? "*" : " ", 1e6 * forms[i].seconds,
               ebb__cli_gflops(&sample->key, forms[i].seconds), forms[i].seconds / best.taken,
               ebb__cli_form(kernel, forms[i].form).text);
    }
}

/* Seconds of all products: the form taken each, the first guess each. */
static void print_sums(const job_tune_report *r) {
    double taken = 0, guess = 0;
    for (int32_t i = 0; i < r->survey->n_samples; i++) {
        tune_best best = best_of(r, &r->survey->samples[i]);
        if (best.taken > 0 && best.guess > 0) {
            taken += best.taken * (double)r->survey->samples[i].count;
            guess += best.guess * (double)r->survey->samples[i].count;
        }
    }
    printf("%" PRId32 " products measured in %.1f s, %" PRId32 " left; %d threads\n"
           "the first guess of each kernel takes %.2f times as long as the forms taken\n"
           "stored in %s\n",
           r->tuned.measured, r->tuned.seconds, r->tuned.left, r->threads,
           taken > 0 ? guess / taken : 1.0, r->store);
}

static json_t *sample_json(const job_tune_report *r, const cost_sample *sample) {
    const device_kernel *kernel = &r->survey->dev->kernels[sample->key.kernel];
    tune_best best = best_of(r, sample);
    cost_form forms[DEVICE_MAX_FORMS];
    int32_t n = known_forms(sample, best.entry, forms);
    json_t *object = ebb__cli_key_json(r->survey->dev, sample->op, &sample->key);
    json_t *rest = json_pack("{s:I, s:o, s:i, s:s}", "count", (json_int_t)sample->count, "forms",
                             ebb__cli_forms_json(kernel, &sample->key, forms, n), "chosen",
                             best.form, "chosen_name", ebb__cli_form(kernel, best.form).text);
    (void)json_object_update(object, rest);
    json_decref(rest);
    return object;
}

static json_t *report_json(const job_tune_report *r) {
    char cpu[512] = "";
    json_t *entries = json_array();
    r->survey->dev->describe(r->survey->dev, cpu, sizeof cpu);
    for (int32_t i = 0; i < r->survey->n_samples; i++) {
        (void)json_array_append_new(entries, sample_json(r, &r->survey->samples[i]));
    }
    return json_pack("{s:i, s:s, s:s, s:i, s:i, s:i, s:f, s:o}", "schema", 1, "store", r->store,
                     "cpu", cpu, "threads", r->threads, "measured", r->tuned.measured, "left",
                     r->tuned.left, "seconds", r->tuned.seconds, "entries", entries);
}

static ebb_status on_report(void *user, const job_tune_report *r) {
    cli_call *call = user;
    ebb__cli_progress_clear(&call->progress);
    if (call->settings.json) {
        return ebb__cli_print_json(call->ctx, report_json(r));
    }
    for (int32_t i = 0; i < r->survey->n_samples && !call->settings.quiet; i++) {
        print_sample(r, &r->survey->samples[i]);
    }
    print_sums(r);
    return EBB_OK;
}

static void on_progress(void *user, int32_t done, int32_t total) {
    job_progress now = {.phase = "tune", .step = done, .steps = total};
    ebb__cli_progress_show(&((cli_call *)user)->progress, &now, true);
}

ebb_status ebb__cli_tune(cli_call *call) {
    cli_settings *settings = &call->settings;
    train_settings models[KIND_MOST_USUAL];
    job_tune_observer observer = {call, on_progress, on_report};
    TRY(ebb__cli_resolve(settings));
    TRY(ebb__cli_refuse_auto(call->ctx, &settings->run));
    if (settings->run.vocab == 0) {
        return ebb__fail(call->ctx, EBB_USAGE,
                         "--vocab all: tune has no text, so say how many: --vocab N");
    }
    if (settings->run.tune_folder == NULL) {
        return ebb__fail(call->ctx, EBB_USAGE,
                         "there is no folder to keep the times in: say --tune DIR");
    }
    int32_t n = list_models(settings, models);
    return ebb__job_tune(call->ctx, models, n, &observer);
}
