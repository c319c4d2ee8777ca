/* data_plan.c - `ebb data plan`: which shapes to pad batches of sentences to. */
#include "cli/command.h"

#include "page/lengths.h"
#include "kind/text/epoch_cost.h"
#include "kind/text/text_corpus.h"

#include <inttypes.h>

/* ---- what to plan ---- */

/* Vocabularies as training would make them. */
static ebb_status count_vocabs(ebb_ctx *ctx, text_vocabs *vocabs, job_request *sizes) {
    uint64_t given = 0;
    TRY(ebb__texts_take_words(ctx, 0, vocabs, &given));
    sizes->src_vocab = ebb__vocabs_of(vocabs, KIND_SOURCE)->count;
    sizes->vocab = ebb__vocabs_of(vocabs, KIND_TARGET)->count;
    return EBB_OK;
}

/* ---- numbers ---- */

typedef struct length_sums {
    double source, target; /* means */
    uint32_t most_source, most_target;
} length_sums;

static length_sums sum_lengths(const data_lengths *lengths) {
    length_sums out = {0, 0, 0, 0};
    for (size_t i = 0; i < lengths->n_cells; i++) {
        const lengths_cell *cell = &lengths->cells[i];
        double share = (double)cell->count / (double)lengths->used;
        out.source += share * (double)cell->source;
        out.target += share * (double)cell->target;
        out.most_source = cell->source > out.most_source ? cell->source : out.most_source;
        out.most_target = cell->target > out.most_target ? cell->target : out.most_target;
    }
    return out;
}

/* [target] or [source, target] */
static json_t *pair_json(const data_lengths *lengths, double source, double target) {
    return lengths->pairs ? json_pack("[ff]", source, target) : json_pack("[f]", target);
}

static json_t *shape_json(const bucket_plan *plan, uint32_t source, uint32_t target) {
    json_int_t s = source, t = target;
    return plan->pairs ? json_pack("[II]", s, t) : json_pack("[I]", t);
}

static json_t *strategy_json(const bucket_report *report, bucket_strategy which,
                             const data_lengths *lengths) {
    const bucket_plan *plan = &report->plans[which];
    json_t *shapes = json_array(), *batch = json_array(), *bytes = json_array();
    json_t *sentences = json_array(), *compiled = json_array();
    bool done =
        shapes != NULL && batch != NULL && bytes != NULL && sentences != NULL && compiled != NULL;
    for (int32_t i = 0; done && i < plan->n_shapes; i++) {
        const data_shape *shape = &plan->shapes[i].as;
        uint64_t room = ebb__epoch_bytes(&report->cost, shape);
        done = json_array_append_new(shapes, shape_json(plan, shape->source, shape->target)) == 0 &&
               json_array_append_new(batch, json_integer(shape->rows)) == 0 &&
               json_array_append_new(bytes, ebb__cli_json_bytes(room)) == 0 &&
               json_array_append_new(sentences, ebb__cli_json_bytes(shape->sentences)) == 0;
    }
    for (int32_t i = 0; done && i < plan->programs.n; i++) {
        const data_shape *program = &plan->programs.at[i];
        done = json_array_append_new(compiled,
                                     shape_json(plan, program->source, program->target)) == 0;
    }
    return json_pack(
        "{s:s, s:o, s:i, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:f, s:o, "
        "s:f}",
        "name", ebb__bucket_name(which), "shapes", shapes, "shape_count", (int)plan->n_shapes,
        "padded_share", ebb__bucket_padded_share(plan), "empty_rows",
        ebb__cli_json_bytes(plan->empty_rows), "sentences_used",
        ebb__cli_json_bytes(plan->sentences), "sentences_over", ebb__cli_json_bytes(lengths->over),
        "batches", ebb__cli_json_bytes(plan->batches), "sentences", sentences, "batch", batch,
        "bytes", bytes, "programs", (int)plan->programs.n, "compiled", compiled, "computed_share",
        ebb__bucket_computed_share(plan), "steps", ebb__cli_json_bytes(plan->steps),
        "predicted_epoch_seconds", report->seconds[which]);
}

static json_t *to_json(const train_settings *run, const data_lengths *lengths,
                       const bucket_report *report) {
    length_sums sums = sum_lengths(lengths);
    json_t *list = json_array();
    for (int i = 0; list != NULL && i < BUCKET_STRATEGIES; i++) {
        if (json_array_append_new(list, strategy_json(report, (bucket_strategy)i, lengths)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return json_pack(
        "{s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:s, s:o}", "schema", 1,
        "model", run->kind->name, "lines", ebb__cli_json_bytes(lengths->lines), "sentences_used",
        ebb__cli_json_bytes(lengths->used), "sentences_over", ebb__cli_json_bytes(lengths->over),
        "first_over", ebb__cli_json_bytes(lengths->first_over), "sentences_empty",
        ebb__cli_json_bytes(lengths->empty), "first_empty",
        ebb__cli_json_bytes(lengths->first_empty), "mean_length",
        pair_json(lengths, sums.source, sums.target), "longest",
        shape_json(&report->plans[0], sums.most_source, sums.most_target), "max_len",
        (json_int_t)run->max_len, "batch", (json_int_t)run->batch, "batch_tokens",
        (json_int_t)run->batch_tokens, "chosen", ebb__bucket_name(report->chosen), "strategies",
        list);
}

/* ---- for people ---- */

static void print_lengths(const train_settings *run, const data_lengths *lengths) {
    length_sums sums = sum_lengths(lengths);
    printf("%" PRIu64 " %s, ", lengths->used, lengths->pairs ? "pairs" : "sentences");
    if (lengths->pairs) {
        printf("%.1f + %.1f tokens on average, at most %" PRIu32 " + %" PRIu32 "\n", sums.source,
               sums.target, sums.most_source, sums.most_target);
    } else {
        printf("%.1f tokens on average, at most %" PRIu32 "\n", sums.target, sums.most_target);
    }
    if (lengths->over > 0) {
        printf("  left out: %" PRIu64 " of more than %" PRId64
               " tokens (--max-len), the first in line %" PRIu64 "\n",
               lengths->over, run->max_len, lengths->first_over);
    }
    if (lengths->parted > 0) {
        printf("  split: %" PRIu64 " lines of more than %" PRId64 " tokens (--max-len)\n",
               lengths->parted, run->max_len);
    }
    if (lengths->empty > 0) {
        printf("  left out: %" PRIu64 " without a token%s, the first in line %" PRIu64 "\n",
               lengths->empty, lengths->pairs ? " on a side" : "", lengths->first_empty);
    }
}

static unit_text epoch_text(double seconds) {
    unit_text out = ebb__unit_seconds(seconds);
    if (seconds < 60) {
        (void)snprintf(out.text, sizeof out.text, "%.*fs", seconds < 1 ? 3 : 1, seconds);
    }
    return out;
}

static void print_strategies(const bucket_report *report) {
    printf("\n  %-10s %6s %8s %8s %10s %9s %9s %8s\n", "strategy", "shapes", "padding", "batches",
           "empty rows", "programs", "computed", "epoch");
    for (int i = 0; i < BUCKET_STRATEGIES; i++) {
        const bucket_plan *plan = &report->plans[i];
        printf(
            "%c %-10s %6" PRId32 " %7.1f%% %8" PRIu64 " %10" PRIu64 " %9" PRId32 " %8.1f%% %8s\n",
            (bucket_strategy)i == report->chosen ? '*' : ' ', ebb__bucket_name((bucket_strategy)i),
            plan->n_shapes, 100 * ebb__bucket_padded_share(plan), plan->batches, plan->empty_rows,
            plan->programs.n, 100 * ebb__bucket_computed_share(plan),
            epoch_text(report->seconds[i]).text);
    }
    printf("\n  computed: padding on the programs that training runs; epoch: their time\n");
}

static unit_text shape_text(const bucket_plan *plan, const data_shape *shape) {
    unit_text out;
    if (plan->pairs) {
        (void)snprintf(out.text, sizeof out.text, "%" PRIu32 " x %" PRIu32, shape->source,
                       shape->target);
    } else {
        (void)snprintf(out.text, sizeof out.text, "%" PRIu32, shape->target);
    }
    return out;
}

static void print_shape(const bucket_report *report, const data_shape *shape) {
    const bucket_plan *plan = &report->plans[report->chosen];
    uint64_t room = ebb__epoch_bytes(&report->cost, shape);
    printf("  %9s %8" PRId64 " %10" PRIu64 " %9" PRIu64 " %11s\n", shape_text(plan, shape).text,
           shape->rows, shape->sentences, shape->batches, ebb__unit_bytes(room).text);
}

static void print_shapes(const bucket_report *report) {
    const bucket_plan *plan = &report->plans[report->chosen];
    bool pool = report->chosen == BUCKET_POOL, fewer = plan->programs.n < plan->n_shapes;
    printf("\n* %s: %s\n\n  %9s %8s %10s %9s %11s\n", ebb__bucket_name(report->chosen),
           pool ? "a batch runs on the smallest shape that holds it"
                : "sentences are padded to the longest of their shape",
           plan->pairs ? "src x tgt" : "length", "batch", "sentences", "batches", "at most");
    for (int32_t i = 0; i < plan->n_shapes; i++) {
        print_shape(report, &plan->shapes[i].as);
    }
    if (fewer) {
        printf(
            "\n  more than --shapes: a sentence runs on the smallest of these that holds it\n\n");
    }
    for (int32_t i = 0; fewer && i < plan->programs.n; i++) {
        print_shape(report, &plan->programs.at[i]);
    }
    printf("\n  at most: memory that such a batch takes if all is kept; --memory may be less\n");
}

static ebb_status show(cli_call *call, const data_lengths *lengths, const bucket_report *report) {
    const cli_settings *settings = &call->settings;
    if (settings->svg != NULL) {
        TRY(ebb__draw_lengths(lengths, &report->plans[report->chosen], &report->plans[BUCKET_NONE],
                              settings->svg));
    }
    if (settings->json) {
        return ebb__cli_print_json(call->ctx, to_json(&settings->run, lengths, report));
    }
    print_lengths(&settings->run, lengths);
    print_strategies(report);
    print_shapes(report);
    return EBB_OK;
}

ebb_status ebb__cli_data_plan(cli_call *call) {
    const train_settings *run = &call->settings.run;
    bool pairs = kind_has_pairs(run);
    data_lengths lengths = {.ctx = call->ctx};
    text_vocabs vocabs = {.s = run};
    bucket_report report = {.chosen = BUCKET_NONE};
    job_request sizes = {.train = true};
    ebb_status status;
    TRY(ebb__cli_need_texts(&call->settings, "plan for"));
    call->settings.run.by_sentence = !pairs;
    TRY(ebb__cli_resolve(&call->settings));
    if (call->progress.live) {
        ebb_ctx_on_progress(call->ctx, ebb__cli_progress_plan, &call->progress);
    }
    TRY(ebb__cli_fit(call, NULL));
    TRY_OUT(ebb__texts_take_codes(call->ctx, 0, &vocabs));
    lengths_texts texts = {pairs ? run->train_path : NULL,
                           pairs ? run->train_target : run->train_path,
                           run->tokens,
                           (uint32_t)run->max_len,
                           run->split_long,
                           ebb__vocabs_codes(&vocabs, KIND_SOURCE),
                           ebb__vocabs_codes(&vocabs, KIND_TARGET),
                           run->codes_dropout,
                           run->seed};
    TRY_OUT(ebb__lengths_scan(call->ctx, &texts, &lengths));
    TRY_OUT(count_vocabs(call->ctx, &vocabs, &sizes));
    TRY_OUT(ebb__bucket_report_make(run, &sizes, &lengths, &report));
    TRY_OUT(show(call, &lengths, &report));
out:
    ebb__bucket_report_free(&report);
    ebb__lengths_free(&lengths);
    ebb__vocabs_free(&vocabs);
    return status;
}
