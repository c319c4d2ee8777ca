/* use_run.c - runs through ebb.h alone, for tests/cli/test_run.py: what it prints is compared with
 * what the command prints.
 *
 *     use_run RUN translate BEAM NBEST REPEAT THREADS <lines    twice by the same handle, and by
 *                                                               several contexts at once
 *     use_run RUN generate TOKENS TEMPERATURE SEED PROMPT
 *     use_run RUN score <lines, or source TAB target
 *     use_run RUN predict FILE...
 *     use_run RUN misuse                                        every call with what is wrong
 *     MEMORY=N in front: the budget; OTHER=DIR: another run translates with it */
#include <ebb.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINES = 1000, LONGEST = 1 << 16, MOST_THREADS = 4 };

typedef struct text {
    char *bytes;
    size_t used, room;
} text;

static void add(text *to, const char *bytes, size_t n) {
    if (to->used + n + 1 > to->room) {
        to->room = 2 * (to->used + n + 1);
        to->bytes = realloc(to->bytes, to->room);
    }
    memcpy(to->bytes + to->used, bytes, n);
    to->used += n;
    to->bytes[to->used] = '\0';
}

typedef struct work {
    const char *dir, *const *lines;
    uint64_t n;
    int beam, nbest, repeat;
    text out;
    char error[1024];
    ebb_status status;
    ebb_plan_info plan;
    uint64_t measured;
} work;

static ebb_status open_run(ebb_ctx *ctx, const char *dir, ebb_run **run) {
    ebb_run_options o = ebb_run_options_default();
    const char *memory = getenv("MEMORY");
    o.memory = memory != NULL ? strtoull(memory, NULL, 10) : 0;
    o.threads = 1;
    return ebb_run_open(ctx, dir, &o, run);
}

static int on_translation(void *user, const ebb_translation *t) {
    work *w = user;
    char score[96];
    if (w->nbest > 1) {
        add(&w->out, score,
            (size_t)snprintf(score, sizeof score, "%llu ||| ", (unsigned long long)t->line));
    }
    add(&w->out, t->text, t->bytes);
    if (w->nbest > 1) {
        add(&w->out, score,
            (size_t)snprintf(score, sizeof score, " ||| %.6f ||| %.6f", t->log_prob, t->score));
    }
    add(&w->out, "\n", 1);
    return 0;
}

static void *translate(void *user) {
    work *w = user;
    ebb_ctx *ctx = NULL;
    ebb_run *run = NULL;
    ebb_translate_options o = ebb_translate_options_default();
    const char *other = getenv("OTHER");
    o.beam = w->beam;
    o.nbest = w->nbest;
    o.others = &other;
    o.n_others = other != NULL;
    w->status = ebb_ctx_new(&ctx);
    if (w->status == EBB_OK) {
        w->status = open_run(ctx, w->dir, &run);
    }
    for (int i = 0; w->status == EBB_OK && i < w->repeat; i++) {
        w->out.used = 0;
        w->status = ebb_run_translate(run, w->lines, w->n, &o, on_translation, w);
    }
    if (w->status == EBB_OK) {
        w->status = ebb_run_plan(run, &w->plan);
        w->measured = ebb_run_measured(run);
    }
    snprintf(w->error, sizeof w->error, "%s", ebb_last_error(ctx));
    ebb_run_close(run);
    ebb_ctx_free(ctx);
    return NULL;
}

static int translate_all(const char *dir, char **args, const char *const *lines, uint64_t n) {
    static work works[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    int n_threads = atoi(args[3]);
    for (int i = 0; i < n_threads; i++) {
        works[i] = (work){.dir = dir,
                          .lines = lines,
                          .n = n,
                          .beam = atoi(args[0]),
                          .nbest = atoi(args[1]),
                          .repeat = atoi(args[2])};
        if (pthread_create(&threads[i], NULL, translate, &works[i]) != 0) {
            return 1;
        }
    }
    for (int i = 0; i < n_threads; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < n_threads; i++) {
        if (works[i].status != EBB_OK) {
            fprintf(stderr, "%s\n", works[i].error);
            return (int)works[i].status;
        }
        if (works[i].out.used != works[0].out.used ||
            memcmp(works[i].out.bytes, works[0].out.bytes, works[0].out.used) != 0) {
            fprintf(stderr, "two threads differ\n");
            return 1;
        }
    }
    fprintf(stderr, "%llu %llu %llu\n", (unsigned long long)works[0].plan.peak_bytes,
            (unsigned long long)works[0].measured, (unsigned long long)works[0].plan.budget_bytes);
    fwrite(works[0].out.bytes, 1, works[0].out.used, stdout);
    for (int i = 0; i < n_threads; i++) {
        free(works[i].out.bytes);
    }
    return 0;
}

static int on_text(void *user, const char *bytes, uint64_t n) {
    (void)user;
    return fwrite(bytes, 1, n, stdout) != n;
}

static ebb_status generate(ebb_run *run, char **args) {
    ebb_generate_options o = ebb_generate_options_default();
    o.tokens = atoi(args[0]);
    o.temperature = atof(args[1]);
    o.seed = strtoull(args[2], NULL, 10);
    o.prompt = args[3];
    ebb_status status = ebb_run_generate(run, &o, on_text, NULL);
    return status == EBB_OK ? ebb_run_generate(run, &o, on_text, NULL)
                            : status; /* again: the same */
}

static ebb_status score(ebb_run *run, char **lines, uint64_t n) {
    static ebb_score scores[MOST_LINES];
    static const char *targets[MOST_LINES];
    int pairs = strcmp(ebb_run_kind(run), "nmt") == 0;
    for (uint64_t i = 0; i < n; i++) {
        char *tab = pairs ? strchr(lines[i], '\t') : NULL;
        targets[i] = tab != NULL ? tab + 1 : lines[i];
        if (tab != NULL) {
            *tab = '\0';
        }
    }
    ebb_status status =
        ebb_run_score(run, pairs ? (const char *const *)lines : NULL, targets, n, scores);
    for (uint64_t i = 0; status == EBB_OK && i < n; i++) {
        printf("%.9g %llu %llu\n", scores[i].log_prob, (unsigned long long)scores[i].tokens,
               (unsigned long long)scores[i].unknown);
    }
    return status;
}

static ebb_status predict(ebb_run *run, char **paths, int n) {
    int64_t classes = ebb_run_classes(run);
    double *p = calloc((size_t)(n * classes), sizeof *p);
    ebb_status status = ebb_run_predict_files(run, (const char *const *)paths, (uint64_t)n, p);
    for (int64_t i = 0; status == EBB_OK && i < n * classes; i++) {
        const char *name = ebb_run_class_name(run, i % classes);
        printf("%s %.9g%c", name != NULL ? name : "-", p[i],
               i % classes == classes - 1 ? '\n' : ' ');
    }
    free(p);
    return status;
}

static int say(void *user, const char *bytes, uint64_t n) {
    return (void)user, (void)bytes, (void)n, 0;
}
static int stop_at_once(void *user, const ebb_translation *t) {
    return (void)user, (void)t, 1;
}
static int always(void *user) {
    return (void)user, 1;
}

/* Status and sentence of calls that must fail, each on a line. */
static int misuse(ebb_ctx *ctx, ebb_run *run, const char *dir) {
    const char *const good[] = {"a b"}, *const broken[] = {"a\nb"}, *const null[] = {NULL};
    ebb_translate_options t = ebb_translate_options_default();
    ebb_generate_options g = ebb_generate_options_default();
    ebb_run_options o = ebb_run_options_default();
    ebb_score s[1];
    double p[1];
    uint8_t pixels[12] = {0};
    ebb_run *other = NULL;
#define SHOW(call) printf("%d %s: %s\n", (int)(call), #call, ebb_last_error(ctx))
    SHOW(ebb_run_translate(run, good, 1, &t, stop_at_once, NULL));
    SHOW(ebb_run_translate(run, broken, 1, &t, stop_at_once, NULL));
    SHOW(ebb_run_translate(run, null, 1, &t, stop_at_once, NULL));
    t.nbest = 6;
    SHOW(ebb_run_translate(run, good, 1, &t, stop_at_once, NULL));
    t.nbest = 1;
    t.reserved[3] = 1;
    SHOW(ebb_run_translate(run, good, 1, &t, stop_at_once, NULL));
    t.reserved[3] = 0;
    t.n_others = 1;
    SHOW(ebb_run_translate(run, good, 1, &t, stop_at_once, NULL));
    t.others = null;
    SHOW(ebb_run_translate(run, good, 1, &t, stop_at_once, NULL));
    t.others = &dir;
    t.n_others = 1u << 31;
    SHOW(ebb_run_translate(run, good, 1, &t, stop_at_once, NULL));
    g.temperature = -1;
    SHOW(ebb_run_generate(run, &g, say, NULL));
    SHOW(ebb_run_generate(run, NULL, say, NULL));
    SHOW(ebb_run_score(run, good, broken, 1, s));
    SHOW(ebb_run_score(run, NULL, good, 1, s));
    SHOW(ebb_run_score(run, good, good, 1, s));
    SHOW(ebb_run_predict_files(run, null, 1, p));
    SHOW(ebb_run_predict(run, pixels, 1, 2, 3, 2, p));
    SHOW(ebb_run_translate(NULL, good, 1, &t, stop_at_once, NULL));
    o.memory = 1000;
    SHOW(ebb_run_open(ctx, dir, &o, &other));
    SHOW(ebb_run_translate(other, good, 1, NULL, stop_at_once, NULL));
    SHOW(ebb_run_generate(other, NULL, say, NULL));
    SHOW(ebb_run_score(other, NULL, good, 1, s));
    ebb_run_close(other);
    o.threads = -1;
    SHOW(ebb_run_open(ctx, dir, &o, &other));
    SHOW(ebb_run_open(ctx, "no such folder", NULL, &other));
    SHOW(ebb_run_open(ctx, "/tmp", NULL, &other));
    ebb_ctx_on_stop(ctx, always, NULL);
    SHOW(ebb_run_open(ctx, dir, NULL, &other));
    SHOW(ebb_run_translate(other, good, 1, NULL, stop_at_once, NULL));
    SHOW(ebb_run_generate(other, NULL, say, NULL));
    SHOW(ebb_run_score(other, NULL, good, 1, s));
    ebb_run_close(other);
    return 0;
}

static uint64_t read_lines(char **lines) {
    static char line[LONGEST];
    uint64_t n = 0;
    for (; n < MOST_LINES && fgets(line, LONGEST, stdin) != NULL; n++) {
        line[strcspn(line, "\n")] = '\0';
        lines[n] = malloc(strlen(line) + 1);
        strcpy(lines[n], line);
    }
    return n;
}

int main(int argc, char **argv) {
    static char *lines[MOST_LINES];
    const char *dir = argv[1], *what = argc > 2 ? argv[2] : "";
    ebb_ctx *ctx = NULL;
    ebb_run *run = NULL;
    uint64_t n =
        strcmp(what, "translate") == 0 || strcmp(what, "score") == 0 ? read_lines(lines) : 0;
    int code = 0;
    if (strcmp(what, "translate") == 0) {
        code = translate_all(dir, argv + 3, (const char *const *)lines, n);
    } else if (ebb_ctx_new(&ctx) == EBB_OK) {
        ebb_status status = open_run(ctx, dir, &run);
        if (status == EBB_OK) {
            status = strcmp(what, "generate") == 0  ? generate(run, argv + 3)
                     : strcmp(what, "score") == 0   ? score(run, lines, n)
                     : strcmp(what, "predict") == 0 ? predict(run, argv + 3, argc - 3)
                                                    : (ebb_status)misuse(ctx, run, dir);
        }
        if (status != EBB_OK) {
            fprintf(stderr, "%s\n", ebb_last_error(ctx));
        }
        ebb_run_close(run);
        ebb_ctx_free(ctx);
        code = (int)status;
    }
    for (uint64_t i = 0; i < n; i++) {
        free(lines[i]);
    }
    return code;
}
