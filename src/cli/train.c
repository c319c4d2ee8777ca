/* train.c - `ebb train`: the plan first, then progress, then how it ended. */
#include "cli/command.h"

#include "train/progress.h"

#include <inttypes.h>
#include <string.h>

/* A plan that does not fit is refused in one line, which names the least that does. */
static ebb_status on_planned(void *user, const ebb_plan *plan) {
    cli_call *call = user;
    const cli_settings *settings = &call->settings;
    bool fits = plan->peak_bytes <= plan->budget_bytes;
    if (settings->quiet || (!fits && !settings->verbose)) {
        return EBB_OK;
    }
    ebb__cli_progress_clear(&call->progress);
    ebb__cli_print_plan(stderr, &settings->run, plan);
    return ebb__cli_print_layers(stderr, &settings->run, plan, settings->verbose);
}

static void on_progress(void *user, const job_progress *now, bool tick) {
    ebb__cli_progress_show(&((cli_call *)user)->progress, now, tick);
}

static bool on_stop(void *user) {
    (void)user;
    return ebb__cli_stop_asked();
}

static void on_sample(void *user, const job_sample *sample) {
    ebb__cli_progress_sample(&((cli_call *)user)->progress, sample);
}

/* Scores below 0 are none, as are the bytes of a run that was not planned again. */
static json_t *score_json(double value) {
    return value >= 0 ? ebb__cli_json_real(value) : json_null();
}

static json_t *bytes_json(const job_train_result *r, uint64_t bytes) {
    return r->already_done ? json_null() : ebb__cli_json_bytes(bytes);
}

/* null where the text is not read by sentence. */
static json_t *buckets_json(const job_buckets *buckets) {
    return buckets->shapes.n > 0 ? ebb__buckets_pack(buckets) : json_null();
}

/* Of a kind whose batches can be of sentences. */
static bool add_buckets(json_t *object, const train_settings *run, const job_train_result *r) {
    return ebb__cli_find(run->kind, "batch-tokens") == NULL ||
           (json_object_set_new(object, "batch_tokens", json_integer(run->batch_tokens)) == 0 &&
            json_object_set_new(object, "buckets", buckets_json(&r->buckets)) == 0);
}

/* "valid_perplexity", "best_perplexity" and so on, after the loss. */
static bool add_scores(json_t *object, const train_settings *run, const job_train_result *r) {
    bool done = object != NULL;
    for (int32_t i = 0; done && i < run->kind->n_metrics; i++) {
        char valid[64], best[64];
        (void)snprintf(valid, sizeof valid, "valid_%s", run->kind->metrics[i].name);
        (void)snprintf(best, sizeof best, "best_%s", run->kind->metrics[i].name);
        done = json_object_set_new(object, valid, score_json(r->valid.at[i])) == 0 &&
               json_object_set_new(object, best, score_json(r->best.at[i])) == 0;
    }
    return done;
}

static json_t *result_json(const job_train_result *r, const train_settings *run) {
    json_t *object =
        json_pack("{s:i, s:I, s:s, s:I, s:I, s:o}", "schema", 1, "batch", (json_int_t)run->batch,
                  "stash", ebb__settings_stashes[run->stash], "steps", (json_int_t)r->steps,
                  "epochs", (json_int_t)r->epochs, "loss", ebb__cli_json_real(r->loss));
    json_t *rest = json_pack("{s:o, s:o, s:b, s:b, s:b}", "planned_peak_bytes",
                             bytes_json(r, r->planned_peak_bytes), "measured_peak_bytes",
                             bytes_json(r, r->measured_peak_bytes), "resumed", r->resumed,
                             "already_done", r->already_done, "stopped_early", r->stopped_early);
    bool done = add_scores(object, run, r) && add_buckets(object, run, r) && rest != NULL &&
                json_object_update(object, rest) == 0;
    json_decref(rest);
    if (done && ebb__settings_ranks(run) > 1 && !r->already_done) {
        done = json_object_set_new(object, "reduce", json_string(ebb__job_reduces[r->reduce])) == 0;
    }
    if (!done) {
        json_decref(object);
    }
    return done ? object : NULL;
}

static void print_finished(const train_settings *run, const job_train_result *r) {
    char early[80] = "";
    if (r->stopped_early) {
        (void)snprintf(early, sizeof early, "; no improvement in %" PRId64 " validations",
                       run->patience);
    }
    (void)fprintf(stderr,
                  "%s: this run is finished (step %" PRId64
                  "%s): nothing to do; more %s go on, --fresh starts over\n",
                  run->out_dir, r->steps, early,
                  r->stopped_early ? "validations of --patience" : "--epochs or --steps");
}

static void print_result(const train_settings *run, const job_train_result *r) {
    if (r->already_done) {
        print_finished(run, r);
        return;
    }
    if (r->stopped_early) {
        (void)fprintf(stderr, "no improvement in %" PRId64 " validations\n", run->patience);
    }
    (void)fprintf(stderr, "done: %" PRId64 " steps", r->steps);
    for (int32_t i = 0; i < run->kind->n_metrics; i++) {
        if (r->best.at[i] >= 0) {
            (void)fprintf(stderr, ", best %s %s", run->kind->metrics[i].phrase,
                          ebb__unit_score(r->best.at[i]).text);
        }
    }
    (void)fprintf(stderr, "; most memory %" PRIu64 " bytes, planned %" PRIu64 "; weights in %s\n",
                  r->measured_peak_bytes, r->planned_peak_bytes, run->out_dir);
}

/* Settings that a run may change on its way, as --help lists them. */
static const train_option *find_overridable(const model_kind *kind, const char *name) {
    static const char *const keys[] = {"lr",           "schedule",  "warmup",
                                       "lr-patience",  "lr-factor", "clip",
                                       "weight-decay", "dropout",   "smoothing"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(keys[i], name) == 0) {
            return ebb__cli_find(kind, name);
        }
    }
    return NULL;
}

/* --override lr=0.0001,dropout=0.1: as if these options had been given. */
static ebb_status apply_overrides(cli_settings *settings) {
    const char *at = settings->run.override;
    while (at != NULL && *at != '\0') {
        size_t n = strcspn(at, ","), key = strcspn(at, "=,");
        char *item = NULL, where[96];
        TRY(ebb__region_alloc(&settings->region, n + 1, 1, &item));
        memcpy(item, at, n);
        if (key == n) {
            return ebb__fail(settings->ctx, EBB_USAGE,
                             "--override %.60s: no value: write KEY=VALUE, as lr=0.0001", item);
        }
        item[key] = '\0';
        const train_option *option = find_overridable(settings->run.kind, item);
        if (option == NULL) {
            return ebb__fail(settings->ctx, EBB_USAGE,
                             "--override %.60s: cannot change on the way (ebb train %s --help says "
                             "what can)",
                             item, settings->run.kind->name);
        }
        (void)snprintf(where, sizeof where, "--override %s", item);
        TRY(ebb__cli_assign(settings, option, item + key + 1, false, where));
        at += n + (at[n] == ',');
    }
    return EBB_OK;
}

ebb_status ebb__cli_train(cli_call *call) {
    cli_settings *settings = &call->settings;
    page_text config = {.ctx = call->ctx}, math = {.ctx = call->ctx};
    job_observer observer = {.user = call,
                             .planned = on_planned,
                             .progress = on_progress,
                             .stop = on_stop,
                             .stop_planning = on_stop,
                             .sample = on_sample};
    job_train_result result = {0};
    ebb_status status = EBB_OK;
    TRY(ebb__cli_greet_ranks(call, FOR_TRAIN));
    TRY(ebb__cli_check_network(call));
    TRY(apply_overrides(settings));
    if (ebb__cli_is_follower(call)) {
        ebb__cli_ignore_signals();
        TRY(ebb__cli_share_settings(call));
        TRY(ebb__cli_resolve(settings)); /* what follows from them */
        return ebb__job_follow(call->ctx, &settings->run);
    }
    TRY(ebb__job_recall_shards(call->ctx, settings->run.out_dir, &settings->run));
    TRY(ebb__cli_take_model(settings, settings->run.out_dir));
    TRY(ebb__cli_resolve(settings));
    TRY(ebb__cli_share_settings(call));
    if (settings->run.train_path == NULL && settings->run.kind->missing != NULL) {
        return ebb__fail(call->ctx, EBB_USAGE, "%s", settings->run.kind->missing);
    }
    ebb_ctx_on_progress(call->ctx, ebb__cli_progress_plan, &call->progress);
    ebb__cli_catch_signals();
    call->ctx->stop = on_stop; /* while the batch is searched; a job has its observer */
    TRY(ebb__cli_fit(call, settings->run.out_dir));
    cli_settings stored = *settings;
    option_set stored_set = ebb__cli_set(&stored);
    stored_set.region = &settings->region;
    TRY_OUT(ebb__paths_to_store(&stored_set));
    TRY_OUT(ebb__cli_dump(&stored, OPTION_SHOWN, &config));
    TRY_OUT(ebb__cli_dump(settings, OPTION_MATH, &math));
    status =
        ebb__job_train(call->ctx, &settings->run, config.bytes, math.bytes, &observer, &result);
    ebb__cli_progress_clear(&call->progress);
    if (status == EBB_OK && settings->json) {
        status = ebb__cli_print_json(call->ctx, result_json(&result, &settings->run));
    } else if (status == EBB_OK && !settings->quiet) {
        print_result(&settings->run, &result);
    }
out:
    ebb__page_text_fini(&config);
    ebb__page_text_fini(&math);
    return status;
}
