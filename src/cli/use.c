/* use.c - `ebb eval KIND DIR FILE` and `ebb generate DIR`: a trained run
 * put to use. The model's settings are those stored in DIR/config; only what the machine gives can
 * be asked for anew. */
#include "cli/command.h"

static json_t *facts_json(const kind_facts *facts) {
    json_t *object = json_pack("{s:i}", "schema", 1);
    bool done = object != NULL;
    for (int32_t i = 0; done && i < facts->n; i++) {
        const struct kind_fact *fact = &facts->at[i];
        done = json_object_set_new(object, fact->name,
                                   fact->whole ? ebb__cli_json_bytes(fact->count)
                                               : ebb__cli_json_real(fact->real)) == 0;
    }
    if (!done) {
        json_decref(object);
    }
    return done ? object : NULL;
}

static void on_progress(void *user, const job_progress *now, bool tick) {
    if (tick) {
        ebb__cli_progress_show(&((cli_call *)user)->progress, now, tick);
    }
}

ebb_status ebb__cli_eval(cli_call *call) {
    const model_kind *kind = call->settings.run.kind;
    cli_settings run;
    kind_facts facts = {0};
    job_observer observer = {.user = call, .progress = on_progress};
    ebb_status status;
    TRY_OUT(ebb__cli_settings_init(call->ctx, kind, &run));
    TRY_OUT(ebb__cli_load_run(&call->settings, call->words[0], &run));
    status = kind->eval(call->ctx, &run.run, call->words, &observer, &facts);
    ebb__cli_progress_clear(&call->progress);
    if (status == EBB_OK && call->settings.json) {
        status = ebb__cli_print_json(call->ctx, facts_json(&facts));
    } else if (status == EBB_OK) {
        printf("%s", facts.text);
    }
out:
    ebb__cli_settings_fini(&run);
    return status;
}

/* Text appears as it is made; where it cannot be written, nothing more is made. */
static bool on_text(void *user, const char *text, size_t bytes) {
    (void)user;
    return fwrite(text, 1, bytes, stdout) == bytes && fflush(stdout) == 0;
}

ebb_status ebb__cli_generate(cli_call *call) {
    const cli_settings *asked = &call->settings;
    generate_options options = {asked->length, asked->temperature, asked->run.seed, asked->prompt};
    cli_settings run;
    ebb_status status;
    TRY_OUT(ebb__cli_settings_init(call->ctx, asked->run.kind, &run));
    TRY_OUT(ebb__cli_load_run(asked, call->words[0], &run));
    TRY_OUT(
        asked->run.kind->generate(call->ctx, &run.run, call->words[0], &options, on_text, NULL));
out:
    ebb__cli_settings_fini(&run);
    return status;
}
