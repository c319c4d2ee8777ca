/* use.c - `ebb eval lm DIR FILE`, `ebb eval nmt DIR SRC TGT` and `ebb generate DIR`: a trained run
 * put to use. The model's settings are those stored in DIR/config; only what the machine gives can
 * be asked for anew. */
#include "cli/command.h"

#include <inttypes.h>

static json_t *eval_json(const lm_eval_result *r) {
    return json_pack(
        "{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", 1, "tokens",
        ebb__cli_json_bytes(r->tokens), "words", ebb__cli_json_bytes(r->words), "bytes",
        ebb__cli_json_bytes(r->bytes), "unknown", ebb__cli_json_bytes(r->unknown), "loss",
        ebb__cli_json_real(r->loss), "token_perplexity", ebb__cli_json_real(r->token_perplexity),
        "word_perplexity", ebb__cli_json_real(r->word_perplexity), "bits_per_byte",
        ebb__cli_json_real(r->bits_per_byte), "planned_peak_bytes",
        ebb__cli_json_bytes(r->planned_peak_bytes), "measured_peak_bytes",
        ebb__cli_json_bytes(r->measured_peak_bytes));
}

/* Lines that a run by sentence used, and did not. */
static json_t *eval_lm_json(const lm_eval_result *r) {
    json_t *object = eval_json(r);
    int failed = 0;
    if (r->sentences > 0) {
        failed = json_object_set_new(object, "sentences", ebb__cli_json_bytes(r->sentences));
        failed |= json_object_set_new(object, "left_out", ebb__cli_json_bytes(r->left_out));
    }
    if (failed != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static void print_eval(const lm_eval_result *r) {
    printf("tokens            %" PRIu64 " (%" PRIu64 " unknown)\n"
           "words             %" PRIu64 "\n"
           "bytes             %" PRIu64 "\n"
           "loss              %.6f nats a token\n"
           "token perplexity  %.4f\n"
           "word perplexity   %.4f\n"
           "bits per byte     %.4f\n",
           r->tokens, r->unknown, r->words, r->bytes, r->loss, r->token_perplexity,
           r->word_perplexity, r->bits_per_byte);
}

static void on_progress(void *user, const job_progress *now, bool tick) {
    if (tick) {
        ebb__cli_progress_show(&((cli_call *)user)->progress, now, tick);
    }
}

ebb_status ebb__cli_eval(cli_call *call) {
    cli_settings run;
    lm_eval_result result = {0};
    job_observer observer = {.user = call, .progress = on_progress};
    ebb_status status;
    TRY_OUT(ebb__cli_settings_init(call->ctx, MODEL_LM, &run));
    TRY_OUT(ebb__cli_load_run(&call->settings, call->words[0], &run));
    status = ebb__lm_eval(call->ctx, &run.run, call->words[0], call->words[1], &observer, &result);
    ebb__cli_progress_clear(&call->progress);
    if (status == EBB_OK && call->settings.json) {
        status = ebb__cli_print_json(call->ctx, eval_lm_json(&result));
    } else if (status == EBB_OK) {
        if (result.sentences > 0) {
            printf("sentences         %" PRIu64 " (%" PRIu64 " more left out)\n", result.sentences,
                   result.left_out);
        }
        print_eval(&result);
    }
out:
    ebb__cli_settings_fini(&run);
    return status;
}

static json_t *eval_nmt_json(const nmt_eval_result *r) {
    json_t *object = eval_json(&r->target);
    int failed = json_object_set_new(object, "pairs", ebb__cli_json_bytes(r->pairs));
    failed |= json_object_set_new(object, "left_out", ebb__cli_json_bytes(r->left_out));
    failed |= json_object_set_new(object, "source_unknown", ebb__cli_json_bytes(r->source_unknown));
    if (failed != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

ebb_status ebb__cli_eval_nmt(cli_call *call) {
    const char *const *words = call->words;
    cli_settings run;
    nmt_eval_result result = {0};
    job_observer observer = {.user = call, .progress = on_progress};
    ebb_status status;
    TRY_OUT(ebb__cli_settings_init(call->ctx, MODEL_NMT, &run));
    TRY_OUT(ebb__cli_load_run(&call->settings, words[0], &run));
    status = ebb__nmt_eval(call->ctx, &run.run, words[0], words[1], words[2], &observer, &result);
    ebb__cli_progress_clear(&call->progress);
    if (status == EBB_OK && call->settings.json) {
        status = ebb__cli_print_json(call->ctx, eval_nmt_json(&result));
    } else if (status == EBB_OK) {
        printf("pairs             %" PRIu64 " (%" PRIu64 " more left out)\n", result.pairs,
               result.left_out);
        print_eval(&result.target);
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
    lm_generate_options options = {asked->length, asked->temperature, asked->run.seed,
                                   asked->prompt};
    cli_settings run;
    ebb_status status;
    TRY_OUT(ebb__cli_settings_init(call->ctx, MODEL_LM, &run));
    TRY_OUT(ebb__cli_load_run(asked, call->words[0], &run));
    TRY_OUT(ebb__lm_generate(call->ctx, &run.run, call->words[0], &options, on_text, NULL));
out:
    ebb__cli_settings_fini(&run);
    return status;
}
