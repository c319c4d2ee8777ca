/* use.c - a trained net opened to be used, and how well it tells labelled images apart. */
#include "kind/cnn/cnn.h"

#include "base/file.h"
#include "train/trained.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- a run ---- */

ebb_status ebb__cnn_use_card(cnn_use *u, const char *dir) {
    char path[JOB_PATH_BYTES];
    u->card.ctx = u->ctx;
    TRY(ebb__job_path(u->ctx, dir, CNN_CARD, path));
    TRY(ebb__image_card_read(u->ctx, path, &u->card));
    const image_size *size = &u->card.size;
    return size->height == cnn_own(&u->s)->size && size->width == size->height &&
                   size->channels == cnn_own(&u->s)->channels &&
                   u->card.classes == cnn_own(&u->s)->classes
               ? EBB_OK
               : ebb__fail(u->ctx, EBB_MODEL, "%s: is of other images than the run's config says",
                           path);
}

ebb_status ebb__cnn_use_open(cnn_use *u, const char *dir, uint64_t extra) {
    job_request request = {.valid = true, .vocab = u->card.classes, .vocab_bytes = extra};
    ebb_plan *plan = NULL;
    st_reader reader = {0};
    ebb_status status = ebb__job_compile_run(u->ctx, &u->s, &request, &plan);
    if (status != EBB_OK) {
        ebb__plan_free(plan);
        return status;
    }
    TRY(ebb__run_new(u->ctx, plan, &u->session));
    TRY(ebb__trained_open(u->ctx, &u->s, dir, CNN_CARD, u->card.hash, &reader));
    status = ebb__tensors_load_weights(u->session, &reader);
    ebb__safetensors_close(&reader);
    return status == EBB_OK ? ebb__cnn_normalise(u->session, &u->card) : status;
}

void ebb__cnn_use_close(cnn_use *u) {
    ebb__run_free(u->session);
    ebb__image_card_free(&u->card);
    ebb__image_set_close(&u->set);
    u->session = NULL;
}

/* ---- classes ---- */

/* What lies at JOB_VOCAB: wrong answers, names as pointers, counts, then the names themselves. */
static uint64_t classes_bytes(const image_card *card) {
    uint64_t n = card->classes, rows = n <= KIND_MOST_CONFUSED ? n : 0;
    return KIND_MOST_WRONG * sizeof(kind_wrong) + (4 + rows) * n * sizeof(uint64_t) +
           card->names_bytes;
}
_Static_assert(sizeof(uint64_t) == sizeof(char *), "pointers and counts lie in one block");

static void lay_out(const image_card *card, void *block, cnn_tally *tally, kind_classes *out) {
    uint64_t n = card->classes;
    kind_wrong *wrong = block;
    const char **names = (const char **)(wrong + KIND_MOST_WRONG);
    uint64_t *counts = (uint64_t *)names + n;
    uint64_t cells = n <= KIND_MOST_CONFUSED ? n * n : 0;
    char *text = (char *)(counts + 3 * n + cells);
    *tally = (cnn_tally){.images = counts,
                         .said = counts + n,
                         .right = counts + 2 * n,
                         .confused = cells > 0 ? counts + 3 * n : NULL,
                         .wrong = wrong};
    *out = (kind_classes){.n = card->classes,
                          .names = names,
                          .images = tally->images,
                          .said = tally->said,
                          .right = tally->right,
                          .confused = tally->confused,
                          .wrong = wrong};
    memcpy(text, card->names != NULL ? card->names : "", card->names_bytes);
    for (size_t at = 0, k = 0; at < card->names_bytes; at += strlen(text + at) + 1) {
        names[k++] = text + at;
    }
}

/* ---- as comma-separated values ---- */

static ebb_status put(file_writer *file, const char *text) {
    return ebb__file_write(file, text, strlen(text));
}

/* In quotes, if it has a name; those in it are doubled. */
static ebb_status put_class(file_writer *file, const kind_classes *classes, uint32_t k) {
    const char *name = classes->names[k];
    char digits[16];
    if (name == NULL) {
        (void)snprintf(digits, sizeof digits, "%" PRIu32, k);
        return put(file, digits);
    }
    TRY(put(file, "\""));
    for (; *name != '\0'; name++) {
        TRY(ebb__file_write(file, name, 1));
        TRY(*name == '"' ? put(file, "\"") : EBB_OK);
    }
    return put(file, "\"");
}

static ebb_status put_table(file_writer *file, const kind_classes *classes) {
    char digits[32];
    TRY(put(file, "class"));
    for (uint32_t k = 0; k < classes->n; k++) {
        TRY(put(file, ","));
        TRY(put_class(file, classes, k));
    }
    for (uint32_t row = 0; row < classes->n; row++) {
        TRY(put(file, "\n"));
        TRY(put_class(file, classes, row));
        for (uint32_t k = 0; k < classes->n; k++) {
            (void)snprintf(digits, sizeof digits, ",%" PRIu64,
                           classes->confused[(uint64_t)row * classes->n + k]);
            TRY(put(file, digits));
        }
    }
    return put(file, "\n");
}

static ebb_status write_table(ebb_ctx *ctx, const kind_classes *classes, const char *path) {
    file_writer file = {.ctx = ctx, .fd = -1};
    char target[1024];
    ebb_status status;
    TRY(ebb__file_follow(ctx, path, target));
    TRY_OUT(ebb__file_create(ctx, target, &file));
    TRY_OUT(put_table(&file, classes));
    TRY_OUT(ebb__file_commit(&file));
out:
    ebb__file_abandon(&file);
    return status;
}

/* ---- evaluation ---- */

/* The images of a set that was made before: theirs must be the net's classes. */
static ebb_status open_set(const cnn_use *u, const char *path, image_set *out) {
    TRY(ebb__image_set_open(u->ctx, path, out));
    ebb_status status = ebb__cnn_check_size(u->ctx, &u->s, path, &out->facts.size);
    bool same = out->names_bytes == u->card.names_bytes &&
                memcmp(out->names_bytes > 0 ? out->names : "",
                       out->names_bytes > 0 ? u->card.names : "", out->names_bytes) == 0;
    if (status == EBB_OK && (out->facts.classes > u->card.classes || !same)) {
        status = ebb__fail(u->ctx, EBB_DATA, "image set %s: has other classes than the net", path);
    }
    if (status != EBB_OK) {
        ebb__image_set_close(out);
    }
    return status;
}

/* Images of any files, as a set without a name. */
static ebb_status make_set(const cnn_use *u, const char *dir, const char *path, image_set *out) {
    image_choice choice = {.classes = u->card.classes};
    image_request want = ebb__cnn_images(&u->s, IMAGE_TEST);
    image_files files;
    char set[JOB_PATH_BYTES];
    ebb_status status;
    TRY(ebb__job_path(u->ctx, dir, "eval.images", set));
    TRY_OUT(ebb__image_files_find(u->ctx, &path, 1, &want, &files));
    TRY_OUT(ebb__cnn_check_size(u->ctx, &u->s, path, &files.size));
    TRY_OUT(ebb__image_files_renumber(&files, u->card.names, u->card.names_bytes, u->card.classes));
    TRY_OUT(ebb__image_set_unnamed(&files, &choice, set, out));
out:
    ebb__image_files_free(&files);
    return status;
}

static ebb_status find_images(const cnn_use *u, const char *dir, const char *path, image_set *out) {
    bool known = false;
    TRY(ebb__image_set_known(u->ctx, path, &known));
    return known ? open_set(u, path, out) : make_set(u, dir, path, out);
}

static void put_facts(const cnn_use *u, const job_score *score, const cnn_batches *b,
                      kind_facts *out) {
    double loss = score->loss_sum / (double)score->tokens;
    double first = (double)b->first / (double)b->seen, fifth = (double)b->fifth / (double)b->seen;
    ebb__facts_count(out, "images", b->seen);
    ebb__facts_real(out, "loss", loss);
    ebb__facts_real(out, "top1", first);
    ebb__facts_real(out, "top5", fifth);
    ebb__facts_count(out, "planned_peak_bytes", u->session->plan->peak_bytes);
    ebb__facts_count(out, "measured_peak_bytes", u->session->measured_bytes);
    (void)snprintf(out->text, sizeof out->text,
                   "images            %" PRIu64 "\n"
                   "loss              %.6f nats an image\n"
                   "top-1 accuracy    %.4f\n"
                   "top-5 accuracy    %.4f\n",
                   b->seen, loss, first, fifth);
}

static ebb_status evaluate(const cnn_use *u, const job_observer *observer, kind_facts *out) {
    cnn_batches batches;
    job_reader reader;
    job_score score;
    TRY(ebb__cnn_read(&u->s, &u->set, u->session, JOB_VALID, &batches, &reader));
    lay_out(&u->card, ebb__run_host(u->session, JOB_VOCAB, NULL), &batches.tally, &out->classes);
    TRY(ebb__job_score(u->session, &reader, observer, &score));
    if (score.stopped) {
        return ebb__fail(u->ctx, EBB_STOPPED, "stopped before all images were seen");
    }
    put_facts(u, &score, &batches, out);
    out->classes.n_wrong = batches.tally.n_wrong;
    const char *csv = cnn_own(&u->s)->csv;
    return csv != NULL ? write_table(u->ctx, &out->classes, csv) : EBB_OK;
}

/* Where a record lies while batches are filled. */
static ebb_status show(void *held, uint64_t image, kind_pixels *out) {
    cnn_use *u = held;
    uint8_t *record = ebb__run_host(u->session, JOB_STAGING, NULL);
    const image_size *size = &u->set.facts.size;
    int32_t label = 0;
    TRY(ebb__image_set_read(&u->set, image, record, &label));
    *out = (kind_pixels){size->height, size->width, size->channels, record + IMAGE_LABEL};
    return EBB_OK;
}

static void release(void *held) {
    cnn_use *u = held;
    ebb__cnn_use_close(u);
    ebb__free(u->ctx, u);
}

ebb_status ebb__cnn_eval(ebb_ctx *ctx, const train_settings *s, const char *const *args,
                         const job_observer *observer, kind_facts *out) {
    cnn_use *u = NULL;
    ebb_status status;
    *out = (kind_facts){0};
    TRY(ebb__alloc(ctx, 1, sizeof *u, &u));
    *u = (cnn_use){.ctx = ctx, .s = *s, .set = {.ctx = ctx, .fd = -1}};
    out->held = u;
    out->release = release;
    out->show = show;
    TRY_OUT(ebb__cnn_use_card(u, args[0]));
    if (cnn_own(s)->csv != NULL && u->card.classes > KIND_MOST_CONFUSED) {
        TRY_OUT(ebb__fail(ctx, EBB_USAGE, "--csv: the net has %u classes; at most %d are listed",
                          u->card.classes, KIND_MOST_CONFUSED));
    }
    TRY_OUT(find_images(u, args[0], args[1], &u->set));
    TRY_OUT(ebb__cnn_use_open(u, args[0], classes_bytes(&u->card)));
    TRY_OUT(evaluate(u, observer, out));
out:
    if (status != EBB_OK) {
        ebb__facts_free(out);
    }
    return status;
}
