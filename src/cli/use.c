/* use.c - `ebb eval KIND DIR FILE`, `ebb generate DIR` and `ebb predict DIR IMAGE...`: a trained
 * run put to use. The model's settings are those stored in DIR/config; only what the machine gives
 * can be asked for anew. */
#include "cli/command.h"

#include "cli/page_classes.h"

static json_t *facts_json(const kind_facts *facts, json_t *lines) {
    json_t *object = json_pack("{s:i}", "schema", 1);
    bool done = object != NULL;
    for (int32_t i = 0; done && i < facts->n; i++) {
        const struct kind_fact *fact = &facts->at[i];
        done = json_object_set_new(object, fact->name,
                                   fact->whole ? ebb__cli_json_bytes(fact->count)
                                               : ebb__cli_json_real(fact->real)) == 0;
    }
    done = done && ebb__cli_classes_json(&facts->classes, object);
    done = done && (lines == NULL || json_object_set(object, "log_probs", lines) == 0);
    if (!done) {
        json_decref(object);
    }
    return done ? object : NULL;
}

/* What is seen of an evaluation. */
typedef struct evaluation {
    cli_call *call;
    json_t *lines; /* what they score; NULL: that is printed as it comes */
} evaluation;

static ebb_status on_line(void *user, double log_prob) {
    const evaluation *e = user;
    if (e->lines == NULL) {
        ebb__cli_progress_clear(&e->call->progress);
        printf("%.6f\n", log_prob);
        return EBB_OK;
    }
    return json_array_append_new(e->lines, ebb__cli_json_real(log_prob)) == 0
               ? EBB_OK
               : ebb__fail(e->call->ctx, EBB_NOMEM, "no memory for the lines");
}

static void on_progress(void *user, const job_progress *now, bool tick) {
    if (tick) {
        ebb__cli_progress_show(&((evaluation *)user)->call->progress, now, tick);
    }
}

/* A page about it, if one was asked for. */
static ebb_status save_page(cli_call *call, const train_settings *run, const kind_facts *facts) {
    cli_classes classes;
    cli_line model = ebb__cli_model(run);
    html_page page = {.text = {.ctx = call->ctx},
                      .dir = call->words[0],
                      .kind = run->kind->title,
                      .model = model.text};
    const char *path = call->settings.run.page;
    if (path == NULL) {
        return EBB_OK;
    }
    ebb__cli_page_classes(&classes, facts, call->words[1], &page);
    ebb_status status = ebb__html_classes(&page, path);
    ebb__html_fini(&page);
    return status;
}

ebb_status ebb__cli_eval(cli_call *call) {
    const model_kind *kind = call->settings.run.kind;
    cli_settings run;
    kind_facts facts = {0};
    bool per_line = call->settings.run.per_line;
    evaluation e = {.call = call, .lines = per_line && call->settings.json ? json_array() : NULL};
    job_observer observer = {
        .user = &e, .progress = on_progress, .line = per_line ? on_line : NULL};
    ebb_status status;
    TRY_OUT(ebb__cli_settings_init(call->ctx, kind, &run));
    TRY_OUT(ebb__cli_load_run(&call->settings, call->words[0], &run));
    status = kind->eval(call->ctx, &run.run, call->words, &observer, &facts);
    ebb__cli_progress_clear(&call->progress);
    if (status == EBB_OK) {
        status = save_page(call, &run.run, &facts);
    }
    if (status == EBB_OK && call->settings.json) {
        status = ebb__cli_print_json(call->ctx, facts_json(&facts, e.lines));
    } else if (status == EBB_OK && !per_line) {
        printf("%s", facts.text);
        ebb__cli_print_classes(stdout, &facts.classes);
    }
out:
    json_decref(e.lines);
    ebb__facts_free(&facts);
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
    generate_options options = {asked->length, asked->temperature, asked->run.seed,   asked->prompt,
                                asked->top_k,  asked->top_p,       asked->stop_at_eos};
    cli_settings run;
    ebb_status status;
    TRY_OUT(ebb__cli_settings_init(call->ctx, asked->run.kind, &run));
    TRY_OUT(ebb__cli_load_run(asked, call->words[0], &run));
    TRY_OUT(ebb__job_generate(call->ctx, &run.run, call->words[0], &options, on_text, NULL));
out:
    ebb__cli_settings_fini(&run);
    return status;
}

/* ---- what images show ---- */

typedef struct predictions {
    cli_call *call;
    json_t *list; /* NULL: they are printed as they come */
} predictions;

static json_t *guess_json(const predict_guess *guess) {
    json_t *object =
        json_pack("{s:i, s:f}", "class", guess->label, "probability", guess->probability);
    if (object != NULL && guess->name != NULL &&
        json_object_set_new(object, "name", json_string(guess->name)) != 0) {
        json_decref(object);
        object = NULL;
    }
    return object;
}

/* Paths need not be UTF-8, but JSON must be. */
static json_t *path_json(const char *path) {
    json_t *text = json_string(path);
    return text != NULL ? text : json_null();
}

static ebb_status add_json(const predictions *p, const predict_answer *answer) {
    json_t *best = json_array();
    bool whole = best != NULL;
    for (int64_t i = 0; whole && i < answer->n; i++) {
        whole = json_array_append_new(best, guess_json(&answer->best[i])) == 0;
    }
    if (!whole) {
        json_decref(best);
        best = NULL;
    }
    json_t *object = json_pack("{s:o, s:o}", "image", path_json(answer->path), "best", best);
    return json_array_append_new(p->list, object) == 0
               ? EBB_OK
               : ebb__fail(p->call->ctx, EBB_NOMEM, "no memory for the answers");
}

/* "a.png  cat 0.912  dog 0.05": a line, whatever the name of the file. */
static ebb_status on_answer(void *user, const predict_answer *answer) {
    const predictions *p = user;
    if (p->list != NULL) {
        return add_json(p, answer);
    }
    for (const char *at = answer->path; *at != '\0'; at++) {
        (void)putchar((unsigned char)*at < ' ' || *at == 0x7f ? '?' : *at);
    }
    for (int64_t i = 0; i < answer->n; i++) {
        const predict_guess *guess = &answer->best[i];
        if (guess->name != NULL) {
            printf("\t%s %.4f", guess->name, guess->probability);
        } else {
            printf("\t%d %.4f", (int)guess->label, guess->probability);
        }
    }
    (void)putchar('\n');
    return EBB_OK;
}

static json_t *predictions_json(json_t *list, const predict_summary *sum) {
    return json_pack("{s:i, s:O, s:o, s:o, s:o}", "schema", 1, "images", list, "left_out",
                     ebb__cli_json_bytes(sum->left_out), "planned_peak_bytes",
                     ebb__cli_json_bytes(sum->planned_peak_bytes), "measured_peak_bytes",
                     ebb__cli_json_bytes(sum->measured_peak_bytes));
}

ebb_status ebb__cli_predict(cli_call *call) {
    const cli_settings *asked = &call->settings;
    predict_options options = {
        .paths = call->words + 1, .n = (size_t)call->n_words - 1, .top = asked->top};
    predictions p = {.call = call, .list = asked->json ? json_array() : NULL};
    predict_summary sum;
    cli_settings run;
    ebb_status status;
    TRY_OUT(ebb__cli_settings_init(call->ctx, asked->run.kind, &run));
    TRY_OUT(ebb__cli_load_run(asked, call->words[0], &run));
    TRY_OUT(ebb__job_predict(call->ctx, &run.run, call->words[0], &options, on_answer, &p, &sum));
    if (asked->json) {
        TRY_OUT(ebb__cli_print_json(call->ctx, predictions_json(p.list, &sum)));
    }
out:
    json_decref(p.list);
    ebb__cli_settings_fini(&run);
    return status;
}
