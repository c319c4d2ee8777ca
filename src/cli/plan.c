/* plan.c - `ebb plan lm`: what a training run would take, without training. Also for a budget that
 * is too small: the report then shows the smallest plan, and the command fails. */
#include "cli/command.h"

#include "page/picture.h"
#include "train/kind.h"

/* Takes over both: programs is NULL, or what --program lists, layers NULL, or those of a net. */
static json_t *to_json(const cli_settings *settings, const ebb_plan *plan, json_t *programs,
                       json_t *layers) {
    const model_kind *kind = settings->run.kind;
    json_t *object = ebb__cli_plan_json(plan);
    char rate[32];
    (void)snprintf(rate, sizeof rate, "%s_per_second", kind->unit);
    bool done = object != NULL &&
                json_object_set_new(object, "batch", json_integer(settings->run.batch)) == 0 &&
                json_object_set_new(object, "stash",
                                    json_string(ebb__settings_stashes[settings->run.stash])) == 0 &&
                json_object_set_new(object, rate, ebb__cli_json_real(ebb__cli_rate(plan))) == 0 &&
                ebb__cli_add_forms(object, kind, plan->forms, plan->n_forms,
                                   plan->choices[plan->chosen].knobs.chunk_images);
    if (done && ebb__cli_find(kind, "batch-tokens") != NULL) {
        done = json_object_set_new(object, "batch_tokens",
                                   json_integer(settings->run.batch_tokens)) == 0;
    }
    if (done && plan->products != NULL) {
        done = json_object_set_new(object, "products", ebb__cli_products_json(plan)) == 0 &&
               json_object_set_new(object, "excluded",
                                   ebb__cli_excluded_json(&settings->run, plan)) == 0;
    }
    if (done && settings->curve) {
        done = json_object_set_new(object, "curve", ebb__cli_curve_json(plan)) == 0;
    }
    if (done && programs != NULL) {
        done = json_object_set(object, "programs", programs) == 0;
    }
    if (done && layers != NULL) {
        done = json_object_set(object, "layers", layers) == 0;
    }
    json_decref(programs);
    json_decref(layers);
    if (!done) {
        json_decref(object);
    }
    return done ? object : NULL;
}

static cli_line name_model(const cli_settings *settings, const ebb_plan *plan) {
    train_settings planned = ebb__kind_planned(&settings->run, plan);
    return ebb__cli_model(&planned);
}

static ebb_status print_json(cli_call *call, ebb_plan *plan) {
    json_t *programs = NULL, *layers = NULL;
    ebb_status status = EBB_OK;
    if (call->settings.run.kind->layers != NULL) { /* printing programs lets go of graphs */
        status = ebb__cli_layers_json(&call->settings.run, plan, &layers);
    }
    if (status == EBB_OK && call->settings.program) {
        status = ebb__cli_programs_json(plan, &programs);
    }
    if (status != EBB_OK) {
        json_decref(programs);
        json_decref(layers);
        return status;
    }
    return ebb__cli_print_json(call->ctx, to_json(&call->settings, plan, programs, layers));
}

static ebb_status print(const cli_settings *settings, ebb_plan *plan) {
    if (settings->program) {
        return ebb__cli_print_programs(stdout, plan);
    }
    if (settings->curve) {
        ebb__cli_print_curve(stdout, name_model(settings, plan).text, plan);
    } else {
        ebb__cli_print_plan(stdout, &settings->run, plan);
        TRY(ebb__cli_print_layers(stdout, &settings->run, plan, settings->verbose));
    }
    if (plan->products != NULL) {
        ebb__cli_print_decisions(stdout, plan);
        ebb__cli_print_excluded(stdout, &settings->run, plan);
        ebb__cli_print_products(stdout, plan);
    }
    return EBB_OK;
}

static ebb_status draw(const cli_settings *settings, const ebb_plan *plan) {
    cli_line model = name_model(settings, plan);
    page_picture picture = {.path = settings->svg,
                            .model = model.text,
                            .budget = settings->run.memory.form != MEMORY_AUTO,
                            .by_form = settings->run.kind->layers != NULL};
    return settings->curve ? ebb__draw_curve(plan, &picture) : ebb__draw_step(plan, &picture);
}

ebb_status ebb__cli_plan(cli_call *call) {
    cli_settings *settings = &call->settings;
    ebb_plan *plan = NULL;
    TRY(ebb__cli_take_model(settings, NULL));
    TRY(ebb__cli_resolve(settings));
    if (settings->run.vocab == 0 && settings->run.train_path == NULL &&
        ebb__cli_find(settings->run.kind, "vocab") != NULL) {
        return ebb__fail(call->ctx, EBB_USAGE,
                         "--vocab all needs --train FILE to count its tokens");
    }
    if (call->progress.live) {
        ebb_ctx_on_progress(call->ctx, ebb__cli_progress_plan, &call->progress);
    }
    TRY(ebb__cli_fit(call, NULL));
    if (settings->run.ranks > 0) {
        return ebb__cli_forecast(call);
    }
    TRY(ebb__cli_need_ranks(settings));
    ebb_status status = ebb__job_plan(call->ctx, &settings->run, &plan);
    ebb__cli_progress_clear(&call->progress);
    if (plan != NULL && settings->svg != NULL) {
        ebb_status drawn = draw(settings, plan);
        status = drawn == EBB_OK ? status : drawn;
    }
    bool shown = plan != NULL && (status == EBB_OK || status == EBB_BUDGET);
    if (shown) {
        ebb_status printed = settings->json ? print_json(call, plan) : print(settings, plan);
        status = status == EBB_OK ? printed : status;
    }
    ebb__plan_free(plan);
    return status;
}
