/* plan.c - `ebb plan lm`: what a training run would take, without training. Also for a budget that
 * is too small: the report then shows the smallest plan, and the command fails. */
#include "cli/command.h"

static json_t *to_json(const ebb_plan *plan) {
    json_t *object = ebb__cli_plan_json(plan);
    if (object != NULL && plan->products != NULL &&
        json_object_set_new(object, "products", ebb__cli_products_json(plan)) != 0) {
        json_decref(object);
        object = NULL;
    }
    return object;
}

ebb_status ebb__cli_plan(cli_call *call) {
    cli_settings *settings = &call->settings;
    ebb_plan *plan = NULL;
    TRY(ebb__cli_resolve(settings));
    if (settings->run.vocab == 0 && settings->run.train_path == NULL) {
        return ebb__fail(call->ctx, EBB_USAGE,
                         "--vocab all needs --train FILE to count its tokens");
    }
    ebb_status status = ebb__lm_plan(call->ctx, &settings->run, &plan);
    if (plan != NULL && settings->json) {
        ebb_status printed = ebb__cli_print_json(call->ctx, to_json(plan));
        status = status == EBB_OK ? printed : status;
    } else if (plan != NULL) {
        ebb__cli_print_plan(stdout, &settings->run, plan);
        if (plan->products != NULL) {
            ebb__cli_print_products(stdout, plan);
        }
    }
    ebb__plan_free(plan);
    return status;
}
