/* run.c - trained runs: options checked, and one use of the run kept open. The uses themselves are
 * the kinds' (train/kind.h), the same that the command has. */
#include "api/api.h"

#include "kind/stored.h"
#include "page/learning.h"

#include <math.h>
#include <string.h>

enum { RUN_OPTIONS_VERSION = 1, MOST_THREADS = 256, MOST_BATCH = 1000000 };

typedef enum run_use { USE_NONE, USE_TRANSLATE, USE_GENERATE, USE_SCORE, USE_PREDICT } run_use;

struct ebb_run {
    ebb_ctx *ctx;
    const char *dir;
    const device *dev; /* opened for it; NULL: the default */
    train_settings s;
    bool given[OPTION_MAX];
    alloc_region region; /* strings of the settings, names of classes */
    const char **classes;
    int64_t n_classes;
    run_use use; /* what is open */
    decode_options decode;
    alloc_region others; /* its folders of other runs */
    kind_open *open;
};

/* ---- opening ---- */

ebb_run_options ebb_run_options_default(void) {
    return (ebb_run_options){.version = RUN_OPTIONS_VERSION};
}

/* Whether a caller's struct began as a default, and leaves alone what is to come. */
static ebb_status check_struct(ebb_ctx *ctx, const char *what, uint32_t version,
                               const uint64_t *reserved, size_t bytes) {
    return version == RUN_OPTIONS_VERSION && api_are_zero(reserved, bytes)
               ? EBB_OK
               : ebb__fail(ctx, EBB_USAGE,
                           "options: start from %s_default(), and leave reserved members 0", what);
}

static ebb_status check_options(ebb_ctx *ctx, const ebb_run_options *o) {
    TRY(check_struct(ctx, "ebb_run_options", o->version, o->reserved, sizeof o->reserved));
    if (o->threads < 0 || o->threads > MOST_THREADS) {
        return ebb__fail(ctx, EBB_USAGE, "options: threads %d is not in 0..%d", o->threads,
                         MOST_THREADS);
    }
    return o->batch >= 0 && o->batch <= MOST_BATCH
               ? EBB_OK
               : ebb__fail(ctx, EBB_USAGE, "options: batch %lld is not in 0..%d",
                           (long long)o->batch, MOST_BATCH);
}

/* The stored settings, with what the machine gives as the caller says. How many are done at once is
 * no matter of the training. */
static ebb_status load(ebb_run *run, const ebb_run_options *o) {
    const model_kind *kind = NULL;
    option_set set = {.ctx = run->ctx,
                      .more = &ebb__options_machine,
                      .base = &run->s,
                      .given = run->given,
                      .region = &run->region};
    TRY(ebb__stored_kind(run->ctx, run->dir, &kind));
    TRY(ebb__settings_init(run->ctx, kind, &run->s));
    set.kind = kind;
    int64_t batch = run->s.batch;
    TRY(ebb__stored_load(&set, run->dir));
    run->s.batch = o->batch > 0 ? o->batch : batch;
    run->s.batch_tokens = 0;
    run->s.shards = 1;
    run->s.threads = o->threads > 0 ? o->threads : run->s.threads;
    if (o->weights != NULL) {
        char *weights = NULL;
        TRY(ebb__region_strdup(&run->region, o->weights, &weights));
        run->s.weights = weights;
    }
    TRY(ebb__api_open_device(run->ctx, o->device, o->kernels, &run->dev));
    run->s.dev = run->dev;
    if (o->memory > 0) {
        run->s.memory = (train_memory){.form = MEMORY_BYTES, .bytes = o->memory};
    }
    return kind->classes != NULL ? kind->classes(run->ctx, &run->s, run->dir, &run->region,
                                                 &run->classes, &run->n_classes)
                                 : EBB_OK;
}

ebb_status ebb_run_open(ebb_ctx *ctx, const char *dir, const ebb_run_options *options,
                        ebb_run **out) {
    ebb_run_options defaults = ebb_run_options_default();
    const ebb_run_options *o = options != NULL ? options : &defaults;
    ebb_run *run = NULL;
    char *copy = NULL;
    ebb_status status;
    if (out != NULL) {
        *out = NULL;
    }
    if (ctx == NULL || dir == NULL || out == NULL) {
        return EBB_USAGE;
    }
    ebb__ctx_clear(ctx);
    TRY(check_options(ctx, o));
    TRY(ebb__alloc(ctx, 1, sizeof *run, &run));
    run->ctx = ctx;
    ebb__region_init(&run->region, ctx);
    ebb__region_init(&run->others, ctx);
    TRY_OUT(ebb__region_strdup(&run->region, dir, &copy));
    run->dir = copy;
    TRY_OUT(load(run, o));
    *out = run;
    return EBB_OK;
out:
    ebb_run_close(run);
    return status;
}

/* What was open for another use, and its memory, goes. */
static void close_use(ebb_run *run) {
    if (run->open != NULL) {
        run->open->close(run->open);
        ebb__region_trim(run->ctx);
    }
    run->open = NULL;
    run->use = USE_NONE;
    ebb__region_fini(&run->others);
    ebb__region_init(&run->others, run->ctx);
}

void ebb_run_close(ebb_run *run) {
    if (run != NULL) {
        close_use(run);
        ebb__device_close(run->dev);
        ebb__region_fini(&run->region);
        ebb__free(run->ctx, run);
    }
}

const char *ebb_run_kind(const ebb_run *run) {
    return run != NULL ? run->s.kind->name : NULL;
}

ebb_status ebb_run_plan(const ebb_run *run, ebb_plan_info *info) {
    if (run == NULL || info == NULL) {
        return EBB_USAGE;
    }
    *info = (ebb_plan_info){0};
    ebb__ctx_clear(run->ctx);
    if (run->open == NULL || run->open->session == NULL) {
        return ebb__fail(run->ctx, EBB_USAGE,
                         "ebb_run_plan: nothing is planned before a first use");
    }
    ebb__api_describe(run->open->session->plan, info);
    return EBB_OK;
}

uint64_t ebb_run_measured(const ebb_run *run) {
    bool planned = run != NULL && run->open != NULL && run->open->session != NULL;
    return planned ? run->open->session->measured_bytes : 0;
}

ebb_status ebb_run_draw(ebb_run *run, ebb_text_fn fn, void *user) {
    learning_metric metrics[LEARNING_MOST_METRICS];
    if (run == NULL || fn == NULL) {
        return EBB_USAGE;
    }
    const model_kind *kind = run->s.kind;
    learning_curve curve = {.metrics = metrics, .n_metrics = kind->n_metrics, .unit = kind->unit};
    page_text text = {.ctx = run->ctx};
    ebb_status status;
    ebb__ctx_clear(run->ctx);
    for (int32_t i = 0; i < kind->n_metrics; i++) {
        const kind_metric *m = &kind->metrics[i];
        metrics[i] = (learning_metric){m->name, m->phrase, m->higher, m->exponential};
    }
    TRY_OUT(ebb__learning_read(run->ctx, run->dir, &curve));
    if (curve.n == 0) {
        TRY_OUT(ebb__fail(run->ctx, EBB_DATA, "%s: has no metrics to draw yet", run->dir));
    }
    TRY_OUT(ebb__learning_draw(run->ctx, &curve, &text));
    (void)fn(user, text.bytes, text.used);
out:
    ebb__free(run->ctx, curve.points);
    ebb__page_text_fini(&text);
    return status;
}

/* ---- calls ---- */

static bool asked_to_stop(void *user) {
    const ebb_ctx *ctx = user;
    return ctx->stop_planning != NULL && ctx->stop_planning(ctx->stop_planning_user) != 0;
}

/* Every call: is there such a use, and planning listens to the caller too. */
static ebb_status begin(ebb_run *run, const char *call, bool able) {
    ebb__ctx_clear(run->ctx);
    run->ctx->stop = asked_to_stop;
    run->ctx->stop_user = run->ctx;
    return able ? EBB_OK
                : ebb__fail(run->ctx, EBB_USAGE, "%s: %s is %s, which cannot do that", call,
                            run->dir, run->s.kind->what);
}

static ebb_status end(ebb_run *run, ebb_status status) {
    run->ctx->stop = NULL;
    run->ctx->stop_user = NULL;
    return status;
}

static ebb_status check_lines(const ebb_run *run, const char *const *lines, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        if (lines[i] == NULL || strchr(lines[i], '\n') != NULL) {
            return ebb__fail(run->ctx, lines[i] == NULL ? EBB_USAGE : EBB_DATA, "line %llu %s",
                             (unsigned long long)i,
                             lines[i] == NULL ? "is NULL" : "holds a line end");
        }
    }
    return EBB_OK;
}

/* ---- translating ---- */

ebb_translate_options ebb_translate_options_default(void) {
    return (ebb_translate_options){
        .version = RUN_OPTIONS_VERSION, .beam = 5, .nbest = 1, .length_penalty = 1, .max_ratio = 2};
}

static ebb_status check_translating(ebb_ctx *ctx, const ebb_translate_options *o) {
    TRY(check_struct(ctx, "ebb_translate_options", o->version, o->reserved, sizeof o->reserved));
    if (o->beam < 1 || o->beam > TRANSLATE_MOST_BEAM || o->nbest < 1 || o->nbest > o->beam) {
        return ebb__fail(ctx, EBB_USAGE,
                         "options: beam %d and nbest %d: a beam has 1 to %d, of which 1 to all are "
                         "wanted",
                         o->beam, o->nbest, TRANSLATE_MOST_BEAM);
    }
    if (o->unk < EBB_UNK_REPLACE || o->unk > EBB_UNK_KEEP) {
        return ebb__fail(ctx, EBB_USAGE, "options: unk %d is no ebb_unk", o->unk);
    }
    if (!(o->length_penalty >= 0 && o->length_penalty <= 10)) {
        return ebb__fail(ctx, EBB_USAGE, "options: length_penalty %g is not in [0, 10]",
                         o->length_penalty);
    }
    if (!(o->max_ratio > 0 && o->max_ratio <= 100)) {
        return ebb__fail(ctx, EBB_USAGE, "options: max_ratio %g is not in (0, 100]", o->max_ratio);
    }
    bool named = o->n_others == 0 || (o->others != NULL && o->n_others < INT32_MAX);
    for (uint64_t i = 0; named && i < o->n_others; i++) {
        named = o->others[i] != NULL;
    }
    return named ? EBB_OK
                 : ebb__fail(ctx, EBB_USAGE, "options: others has not the %llu folders of n_others",
                             (unsigned long long)o->n_others);
}

typedef struct translation_call {
    ebb_run *run;
    const char *const *lines;
    uint64_t n, next;
    ebb_translation_fn fn;
    void *user;
    char *text; /* of a translation */
    size_t used, room;
    ebb_status status; /* of putting it together */
} translation_call;

static ebb_status read_line(void *user, decode_line *line, translate_next *got) {
    translation_call *c = user;
    *got = c->next < c->n ? TRANSLATE_SENTENCE : TRANSLATE_END;
    if (c->next < c->n) {
        const char *text = c->lines[c->next++];
        *line = (decode_line){text, strlen(text)};
    }
    return EBB_OK;
}

static void put_text(void *user, const char *bytes, size_t n) {
    translation_call *c = user;
    if (c->used + n + 1 > c->room && c->status == EBB_OK) {
        size_t room = 2 * (c->used + n + 1);
        c->status = ebb__realloc(c->run->ctx, c->text, room, 1, &c->text);
        c->room = c->status == EBB_OK ? room : c->room;
    }
    if (c->status == EBB_OK) {
        memcpy(c->text + c->used, bytes, n);
        c->used += n;
        c->text[c->used] = '\0';
    }
}

static ebb_status give_translation(void *user, const decode_result *result) {
    translation_call *c = user;
    for (int32_t i = 0; i < result->found->n; i++) {
        const translate_hypothesis *one = &result->found->best[i];
        c->used = 0;
        put_text(c, "", 0);
        ebb__decode_text(result, one, put_text, c);
        TRY(c->status);
        ebb_translation found = {.line = result->line - 1,
                                 .rank = i,
                                 .ended = one->ended,
                                 .text = c->text,
                                 .bytes = c->used,
                                 .log_prob = one->log_prob,
                                 .score = one->score};
        if (c->fn(c->user, &found) != 0) {
            return ebb__fail(c->run->ctx, EBB_STOPPED, "stopped after %llu lines",
                             (unsigned long long)result->line);
        }
    }
    return EBB_OK;
}

static bool stop_translating(void *user) {
    return asked_to_stop(((translation_call *)user)->run->ctx);
}

static bool is_same_decoding(const decode_options *a, const decode_options *b) {
    bool same = a->beam == b->beam && a->nbest == b->nbest && a->alpha == b->alpha &&
                a->max_ratio == b->max_ratio && a->unk == b->unk && a->n_more == b->n_more;
    for (int32_t i = 0; same && i < a->n_more; i++) {
        same = strcmp(a->more[i], b->more[i]) == 0;
    }
    return same;
}

/* Its folders are the caller's, and what is open reads them later, too. */
static ebb_status keep_others(ebb_run *run, decode_options *o) {
    char **kept = NULL;
    TRY(ebb__region_alloc(&run->others, (size_t)o->n_more + 1, sizeof *kept, &kept));
    for (int32_t i = 0; i < o->n_more; i++) {
        TRY(ebb__region_strdup(&run->others, o->more[i], &kept[i]));
    }
    o->more = (const char *const *)kept;
    return EBB_OK;
}

static ebb_status open_translating(ebb_run *run, const ebb_translate_options *o) {
    decode_options wanted = {.beam = o->beam,
                             .nbest = o->nbest,
                             .alpha = o->length_penalty,
                             .max_ratio = o->max_ratio,
                             .unk = (decode_unk)o->unk,
                             .more = o->others,
                             .n_more = (int32_t)o->n_others};
    if (run->use == USE_TRANSLATE && is_same_decoding(&run->decode, &wanted)) {
        return EBB_OK;
    }
    close_use(run);
    TRY(ebb__stored_others(run->ctx, &run->s, run->dir, wanted.more, wanted.n_more));
    TRY(keep_others(run, &wanted));
    TRY(run->s.kind->decode_open(run->ctx, &run->s, run->dir, &wanted, &run->open));
    run->use = USE_TRANSLATE;
    run->decode = wanted;
    return EBB_OK;
}

static ebb_status translate(translation_call *c, const ebb_translate_options *o) {
    ebb_run *run = c->run;
    decode_io io = {c, read_line, give_translation, stop_translating};
    decode_summary sum;
    TRY(begin(run, "ebb_run_translate", run->s.kind->decode != NULL));
    TRY(check_translating(run->ctx, o));
    TRY(check_lines(run, c->lines, c->n));
    TRY(open_translating(run, o));
    TRY(run->s.kind->decode(run->open, &io, &sum));
    if (sum.cut > 0) {
        ebb__log(run->ctx, EBB_LOG_WARN,
                 "%llu line%s with more than %llu tokens: only so many were translated; a larger "
                 "budget has room for more, up to 2047 (the first is line %llu)",
                 (unsigned long long)sum.cut, sum.cut == 1 ? "" : "s",
                 (unsigned long long)sum.most_tokens, (unsigned long long)sum.first_cut - 1);
    }
    return EBB_OK;
}

ebb_status ebb_run_translate(ebb_run *run, const char *const *lines, uint64_t n,
                             const ebb_translate_options *options, ebb_translation_fn fn,
                             void *user) {
    ebb_translate_options defaults = ebb_translate_options_default();
    translation_call c = {.run = run, .lines = lines, .n = n, .fn = fn, .user = user};
    if (run == NULL || (lines == NULL && n > 0) || fn == NULL) {
        return EBB_USAGE;
    }
    ebb_status status = translate(&c, options != NULL ? options : &defaults);
    ebb__free(run->ctx, c.text);
    return end(run, status);
}

/* ---- generating ---- */

ebb_generate_options ebb_generate_options_default(void) {
    return (ebb_generate_options){
        .version = RUN_OPTIONS_VERSION, .tokens = 200, .temperature = 1, .seed = 1, .top_p = 1};
}

typedef struct text_call {
    ebb_run *run;
    ebb_text_fn fn;
    void *user;
    bool stopped;
} text_call;

static bool give_text(void *user, const char *text, size_t bytes) {
    text_call *c = user;
    c->stopped = asked_to_stop(c->run->ctx);
    return !c->stopped && c->fn(c->user, text, bytes) == 0;
}

static ebb_status generate(text_call *c, const ebb_generate_options *o) {
    ebb_run *run = c->run;
    generate_options asked = {.tokens = o->tokens,
                              .temperature = o->temperature,
                              .seed = o->seed,
                              .prompt = o->prompt,
                              .top_k = o->top_k,
                              .top_p = o->top_p,
                              .stop_at_eos = o->stop_at_eos != 0};
    TRY(begin(run, "ebb_run_generate", run->s.kind->generate != NULL));
    TRY(check_struct(run->ctx, "ebb_generate_options", o->version, o->reserved,
                     sizeof o->reserved));
    if (o->tokens < 0 || !(o->temperature >= 0 && isfinite(o->temperature))) {
        return ebb__fail(run->ctx, EBB_USAGE,
                         "options: tokens %lld and temperature %g must be at least 0",
                         (long long)o->tokens, o->temperature);
    }
    if (o->top_k < 0 || !(o->top_p > 0 && o->top_p <= 1)) {
        return ebb__fail(run->ctx, EBB_USAGE,
                         "options: top_k %lld must be at least 0, and top_p %g in (0, 1]",
                         (long long)o->top_k, o->top_p);
    }
    if (run->use != USE_GENERATE) {
        close_use(run);
        TRY(run->s.kind->generate_open(run->ctx, &run->s, run->dir, &run->open));
        run->use = USE_GENERATE;
    }
    TRY(run->s.kind->generate(run->open, &asked, give_text, c));
    return c->stopped ? ebb__fail(run->ctx, EBB_STOPPED, "stopped while a text was written")
                      : EBB_OK;
}

ebb_status ebb_run_generate(ebb_run *run, const ebb_generate_options *options, ebb_text_fn fn,
                            void *user) {
    ebb_generate_options defaults = ebb_generate_options_default();
    text_call c = {.run = run, .fn = fn, .user = user};
    return run == NULL || fn == NULL
               ? EBB_USAGE
               : end(run, generate(&c, options != NULL ? options : &defaults));
}

/* ---- scoring ---- */

static ebb_status view_lines(ebb_run *run, const char *const *lines, uint64_t n,
                             alloc_region *region, decode_line **out) {
    TRY(check_lines(run, lines, n));
    TRY(ebb__region_alloc(region, n + 1, sizeof **out, out));
    for (uint64_t i = 0; i < n; i++) {
        (*out)[i] = (decode_line){lines[i], strlen(lines[i])};
    }
    return EBB_OK;
}

static ebb_status score(ebb_run *run, const char *const *sources, const char *const *lines,
                        uint64_t n, alloc_region *region, ebb_score *out) {
    decode_line *views[KIND_SIDES] = {NULL};
    score_request request = {.n = n, .stop = asked_to_stop, .user = run->ctx};
    bool pairs = kind_has_pairs(&run->s);
    TRY(begin(run, "ebb_run_score", run->s.kind->score != NULL));
    if (pairs != (sources != NULL)) {
        return ebb__fail(run->ctx, EBB_USAGE, "ebb_run_score: %s is %s: it %s sources", run->dir,
                         run->s.kind->what, pairs ? "needs" : "has no");
    }
    TRY(view_lines(run, lines, n, region, &views[KIND_TARGET]));
    if (pairs) {
        TRY(view_lines(run, sources, n, region, &views[KIND_SOURCE]));
    }
    TRY(ebb__region_alloc(region, n + 1, sizeof *request.found, &request.found));
    request.lines = views[KIND_TARGET];
    request.sources = views[KIND_SOURCE];
    if (run->use != USE_SCORE) {
        close_use(run);
        TRY(run->s.kind->score_open(run->ctx, &run->s, run->dir, &run->open));
        run->use = USE_SCORE;
    }
    TRY(run->s.kind->score(run->open, &request));
    for (uint64_t i = 0; i < n; i++) {
        out[i] = (ebb_score){request.found[i].log_prob, request.found[i].tokens,
                             request.found[i].unknown, 0};
    }
    return EBB_OK;
}

ebb_status ebb_run_score(ebb_run *run, const char *const *sources, const char *const *lines,
                         uint64_t n, ebb_score *out) {
    alloc_region region;
    if (run == NULL || (n > 0 && (lines == NULL || out == NULL))) {
        return EBB_USAGE;
    }
    ebb__region_init(&region, run->ctx);
    ebb_status status = score(run, sources, lines, n, &region, out);
    ebb__region_fini(&region);
    return end(run, status);
}

/* ---- images ---- */

int64_t ebb_run_classes(const ebb_run *run) {
    return run != NULL ? run->n_classes : 0;
}

const char *ebb_run_class_name(const ebb_run *run, int64_t index) {
    return run != NULL && index >= 0 && index < run->n_classes ? run->classes[index] : NULL;
}

typedef struct answer_call {
    double *to; /* [n, classes] */
    int64_t classes;
} answer_call;

static ebb_status give_answer(void *user, const predict_answer *answer) {
    const answer_call *c = user;
    for (int64_t k = 0; k < answer->n; k++) {
        c->to[(int64_t)answer->image * c->classes + answer->best[k].label] =
            answer->best[k].probability;
    }
    return EBB_OK;
}

static ebb_status predict(ebb_run *run, const char *call, const predict_options *asked,
                          double *out) {
    answer_call c = {out, run->n_classes};
    predict_summary sum;
    predict_options o = *asked;
    TRY(begin(run, call, run->s.kind->predict != NULL));
    o.top = run->n_classes;
    o.stop = asked_to_stop;
    o.stop_user = run->ctx;
    for (size_t i = 0; i < o.n; i++) {
        if (o.paths != NULL && o.paths[i] == NULL) {
            return ebb__fail(run->ctx, EBB_USAGE, "%s: path %zu is NULL", call, i);
        }
    }
    if (o.n == 0) {
        return EBB_OK;
    }
    if (run->use != USE_PREDICT) {
        close_use(run);
        TRY(run->s.kind->predict_open(run->ctx, &run->s, run->dir, &run->open));
        run->use = USE_PREDICT;
    }
    for (uint64_t i = 0; i < o.n * (uint64_t)c.classes; i++) {
        out[i] = (double)NAN;
    }
    return run->s.kind->predict(run->open, &o, give_answer, &c, &sum);
}

ebb_status ebb_run_predict_files(ebb_run *run, const char *const *paths, uint64_t n,
                                 double *probabilities) {
    if (run == NULL || (n > 0 && (paths == NULL || probabilities == NULL))) {
        return EBB_USAGE;
    }
    predict_options asked = {.paths = paths, .n = n};
    return end(run, predict(run, "ebb_run_predict_files", &asked, probabilities));
}

ebb_status ebb_run_predict(ebb_run *run, const uint8_t *pixels, uint64_t n, uint32_t height,
                           uint32_t width, uint32_t channels, double *probabilities) {
    if (run == NULL || (n > 0 && (pixels == NULL || probabilities == NULL))) {
        return EBB_USAGE;
    }
    predict_options asked = {
        .pixels = pixels, .height = height, .width = width, .channels = channels, .n = n};
    return end(run, predict(run, "ebb_run_predict", &asked, probabilities));
}
