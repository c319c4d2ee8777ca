/* corpus.c - the images of a run: measured, made into sets of its folder (data/image_set.h), read
 * in batches; and how many of them validation finds right. */
#include "kind/cnn/cnn.h"

#include "base/file.h"
#include "model/net_named.h"

#include <string.h>

#define TRAIN_SET "train.images"
#define FRESH_CARD "images.new" /* until the run that it is of has begun */

/* ---- which images ---- */

static const char *path_of(const corpus *c, int side) {
    return side == 0 || c->s->valid_path == NULL ? c->s->train_path : c->s->valid_path;
}

static image_files *files_of(cnn_corpus *c, int side) {
    return &c->files[side == 0 || c->base.s->valid_path == NULL ? 0 : 1];
}

static image_choice choice_of(const corpus *c, int side) {
    const cnn_settings *own = cnn_own(c->s);
    image_choice choice = {.classes = (uint32_t)own->classes};
    if (c->s->valid_path == NULL) {
        choice.side = side == 0 ? IMAGE_KEPT : IMAGE_HELD;
        choice.share = (uint32_t)(own->hold * IMAGE_WHOLE + 0.5);
        choice.share = choice.share < 1 ? 1 : choice.share;
        choice.seed = c->s->seed;
    }
    return choice;
}

ebb_status ebb__cnn_check_size(ebb_ctx *ctx, const train_settings *s, const char *path,
                               const image_size *size) {
    const cnn_settings *own = cnn_own(s);
    if (size->height == own->size && size->width == own->size && size->channels == own->channels) {
        return EBB_OK;
    }
    return ebb__fail(ctx, EBB_USAGE,
                     "%s: images are %u x %u with %u channel(s), but the net takes %lld x %lld "
                     "with %lld",
                     path, size->height, size->width, size->channels, (long long)own->size,
                     (long long)own->size, (long long)own->channels);
}

ebb_status ebb__cnn_check_learnt(ebb_ctx *ctx, const char *path, const image_files *files) {
    return files->classes >= 2
               ? EBB_OK
               : ebb__fail(ctx, EBB_DATA,
                           "%s: all images are of one class; to tell images apart, learn from two "
                           "at least",
                           path);
}

static ebb_status check_classes(const corpus *c, const char *path, const image_files *files) {
    int64_t classes = cnn_own(c->s)->classes;
    return files->classes <= classes
               ? EBB_OK
               : ebb__fail(c->ctx, EBB_USAGE,
                           "%s: images are of %u classes, but the net tells %lld apart: --classes "
                           "%u, or an fc layer of so many at the end of your own net",
                           path, files->classes, (long long)classes, files->classes);
}

/* At least so many images are left to train on. */
static uint64_t least_kept(const cnn_corpus *c) {
    const image_files *files = &c->files[0];
    if (c->base.s->valid_path != NULL) {
        return files->count;
    }
    double held = cnn_own(c->base.s)->hold * (double)files->count +
                  (double)IMAGE_AHEAD * (double)files->classes;
    return held + 1 < (double)files->count ? files->count - (uint64_t)held : 1;
}

/* ---- calls ---- */

ebb_status ebb__cnn_measure(corpus *base, uint64_t most, job_request *request) {
    cnn_corpus *c = (cnn_corpus *)base;
    (void)most;
    for (int side = 0; side < (base->s->valid_path == NULL ? 1 : 2); side++) {
        const char *path = path_of(base, side);
        image_request want = ebb__cnn_images(base->s, side == 0 ? IMAGE_TRAIN : IMAGE_TEST);
        TRY(ebb__image_files_find(base->ctx, &path, 1, &want, &c->files[side]));
        TRY(ebb__cnn_check_size(base->ctx, base->s, path, &c->files[side].size));
        TRY(check_classes(base, path, &c->files[side]));
    }
    TRY(ebb__cnn_check_learnt(base->ctx, path_of(base, 0), &c->files[0]));
    TRY(ebb__image_files_renumber(&c->files[1], c->files[0].names, c->files[0].names_bytes,
                                  c->files[0].classes));
    request->vocab = cnn_own(base->s)->classes;
    request->most_batch = least_kept(c);
    return EBB_OK;
}

/* What the run will know of its images, into its folder: under a name of its own until the run has
 * begun, unless only the file was lost. */
static ebb_status store_card(cnn_corpus *c) {
    corpus *base = &c->base;
    char path[JOB_PATH_BYTES];
    TRY(ebb__image_card_make(&c->sets[0], &c->card));
    if (base->resumed && base->vocab_hash != c->card.hash) {
        return ebb__fail(base->ctx, EBB_USAGE,
                         "%s: the run was started with other names of classes; use those, another "
                         "--out, or --fresh",
                         path_of(base, 0));
    }
    base->vocab_hash = c->card.hash;
    TRY(ebb__job_path(base->ctx, base->dir, base->resumed ? CNN_CARD : FRESH_CARD, path));
    return base->resumed && ebb__file_exists(path) ? EBB_OK : ebb__image_card_write(&c->card, path);
}

/* ---- the net's file ---- */

enum { NET_FILE_MOST = 4 << 20 };

static ebb_status write_copy(ebb_ctx *ctx, const char *path, const char *text, size_t bytes) {
    file_writer file = {.ctx = ctx, .fd = -1};
    ebb_status status;
    TRY_OUT(ebb__file_create(ctx, path, &file));
    TRY_OUT(ebb__file_write(&file, text, bytes));
    TRY_OUT(ebb__file_commit(&file));
out:
    ebb__file_abandon(&file);
    return status;
}

/* Into the run's folder, so that this can be used wherever it is taken, and go on without the file.
 * A run that goes on must have the net that it began with. */
static ebb_status copy_net(const corpus *base) {
    const char *net = cnn_own(base->s)->net;
    char path[JOB_PATH_BYTES], *text = NULL, *old = NULL;
    size_t bytes = 0, old_bytes = 0;
    ebb_status status;
    TRY(ebb__job_path(base->ctx, base->dir, CNN_NET_COPY, path));
    if (ebb__net_is_named(net)) {
        return base->resumed ? EBB_OK : ebb__file_remove(base->ctx, path);
    }
    bool copied = base->resumed && ebb__file_exists(path);
    if (copied && !ebb__file_exists(net)) {
        return EBB_OK; /* the run goes on with its copy */
    }
    TRY_OUT(ebb__file_read_all(base->ctx, net, NET_FILE_MOST, &text, &bytes));
    if (copied) {
        TRY_OUT(ebb__file_read_all(base->ctx, path, NET_FILE_MOST, &old, &old_bytes));
        bool same = bytes == old_bytes && memcmp(text, old, bytes) == 0;
        status = same ? EBB_OK
                      : ebb__fail(base->ctx, EBB_USAGE,
                                  "%s: is not what it was when the run in %s was started, which "
                                  "%s is a copy of; use that, another --out, or --fresh",
                                  net, base->dir, path);
    } else {
        TRY_OUT(write_copy(base->ctx, path, text, bytes));
    }
out:
    ebb__free(base->ctx, text);
    ebb__free(base->ctx, old);
    return status;
}

ebb_status ebb__cnn_at_home(ebb_ctx *ctx, train_settings *s, const char *dir,
                            alloc_region *region) {
    cnn_settings *own = (void *)s->own;
    char path[JOB_PATH_BYTES], *copy = NULL;
    TRY(ebb__job_path(ctx, dir, CNN_NET_COPY, path));
    if (own->net != NULL && !ebb__net_is_named(own->net) && ebb__file_exists(path)) {
        TRY(ebb__region_strdup(region, path, &copy));
        own->net = copy;
    }
    return EBB_OK;
}

ebb_status ebb__cnn_adopt(corpus *base) {
    char from[JOB_PATH_BYTES], to[JOB_PATH_BYTES];
    TRY(copy_net(base));
    TRY(ebb__job_path(base->ctx, base->dir, FRESH_CARD, from));
    TRY(ebb__job_path(base->ctx, base->dir, CNN_CARD, to));
    return ebb__file_rename(base->ctx, from, to);
}

/* A list of a million photographs is larger than many a plan, and not needed once sets are made. */
static void free_files(cnn_corpus *c) {
    for (int side = 0; side < 2; side++) {
        if (c->files[side].ctx != NULL) {
            ebb__image_files_free(&c->files[side]);
            c->files[side].ctx = NULL;
        }
    }
}

ebb_status ebb__cnn_store(corpus *base) {
    cnn_corpus *c = (cnn_corpus *)base;
    for (int side = 0; side < 2; side++) {
        char path[JOB_PATH_BYTES];
        image_choice choice = choice_of(base, side);
        TRY(ebb__job_path(base->ctx, base->dir, side == 0 ? TRAIN_SET : CNN_VALID_SET, path));
        TRY(ebb__image_set_ensure(files_of(c, side), &choice, path, &c->sets[side]));
        c->open[side] = true;
        base->images[side] = &c->sets[side];
        files_of(c, side)->told = true; /* of images held back: the same files once more */
    }
    free_files(c);
    if (base->resumed) {
        TRY(copy_net(base));
    }
    const image_facts *train = &c->sets[0].facts;
    TRY(ebb__corpus_same(base, path_of(base, 0), train->count, train->hash, "images"));
    TRY(ebb__corpus_same_valid(base, path_of(base, 1), c->sets[1].facts.hash));
    return store_card(c);
}

ebb_status ebb__cnn_begin(corpus *base, run_session *session) {
    cnn_corpus *c = (cnn_corpus *)base;
    TRY(ebb__cnn_normalise(session, &c->card));
    TRY(ebb__cnn_read(base->s, &c->sets[0], session, JOB_TRAIN, &c->batches[0], &base->train));
    return ebb__cnn_read(base->s, &c->sets[1], session, JOB_VALID, &c->batches[1], &base->valid);
}

ebb_status ebb__cnn_score(corpus *base, run_session *session, const job_observer *observer,
                          double loss, kind_scores *out, bool *stopped) {
    cnn_batches *b = &((cnn_corpus *)base)->batches[1];
    (void)session, (void)observer, (void)loss, (void)stopped;
    out->at[CNN_TOP1] = (double)b->first / (double)b->seen;
    out->at[CNN_TOP5] = (double)b->fifth / (double)b->seen;
    return EBB_OK;
}

/* Classes of a folder to validate on are numbered as those of the run. */
static ebb_status renumber(const corpus *base, const char *dir, image_files *files) {
    image_card card;
    char path[JOB_PATH_BYTES];
    TRY(ebb__job_path(base->ctx, dir, CNN_CARD, path));
    ebb_status status = ebb__image_card_read(base->ctx, path, &card);
    if (status == EBB_OK) {
        status = ebb__image_files_renumber(files, card.names, card.names_bytes, card.classes);
    }
    ebb__image_card_free(&card);
    return status;
}

static ebb_status compare_side(const corpus *base, int side, const char *dir, uint64_t hash,
                               bool *same) {
    const char *path = path_of(base, side);
    image_files files;
    image_facts facts;
    image_choice choice = choice_of(base, side);
    bool test = side == 1 && base->s->valid_path != NULL;
    image_request want = ebb__cnn_images(base->s, test ? IMAGE_TEST : IMAGE_TRAIN);
    ebb_status status;
    TRY_OUT(ebb__image_files_find(base->ctx, &path, 1, &want, &files));
    if (test && files.form == IMAGE_FOLDER) {
        TRY_OUT(renumber(base, dir, &files));
    }
    TRY_OUT(ebb__image_set_measure(&files, &choice, &facts));
    *same = facts.hash == hash;
out:
    ebb__image_files_free(&files);
    return status;
}

ebb_status ebb__cnn_compare(const corpus *base, const char *dir, bool *train, bool *valid) {
    TRY(compare_side(base, 0, dir, base->train_hash, train));
    return compare_side(base, 1, dir, base->valid_hash, valid);
}

void ebb__cnn_close(corpus *base) {
    cnn_corpus *c = (cnn_corpus *)base;
    if (c->card.ctx != NULL) {
        ebb__image_card_free(&c->card);
    }
    for (int side = 0; side < 2; side++) {
        if (c->open[side]) {
            ebb__image_set_close(&c->sets[side]);
        }
    }
    free_files(c);
}
