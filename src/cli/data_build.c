/* data_build.c - `ebb data build`: vocabularies and token files, or sets of images, made ahead in
 * the folder of a run to come, as training itself would make them. */
#include "cli/command.h"

#include "base/file.h"
#include "data/image_set.h"
#include "store/folder.h"
#include "train/job_int.h"
#include "train/progress.h"
#include "kind/text/text_corpus.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_VOCABS = KIND_SIDES };

typedef struct build_vocab {
    char path[JOB_PATH_BYTES];
    uint64_t hash; /* of what was there before; 0: nothing whole */
    uint64_t entries, bytes;
    bool made;
} build_vocab;

typedef struct build_state {
    ebb_ctx *ctx;
    const train_settings *run;
    corpus *text;
    build_vocab vocabs[MOST_VOCABS];
    int n_vocabs;
} build_state;

/* ---- vocabularies ---- */

static ebb_status name_vocabs(build_state *b) {
    for (int side = 0; side < KIND_SIDES; side++) {
        if (b->run->kind->vocab_file != NULL && ebb__vocabs_has(b->run, (kind_side)side)) {
            TRY(ebb__vocabs_path(b->ctx, b->run, (kind_side)side, b->run->out_dir, false,
                                 b->vocabs[b->n_vocabs++].path));
        }
    }
    return EBB_OK;
}

/* What is there, if it is whole. */
static ebb_status look_at_vocab(ebb_ctx *ctx, build_vocab *v) {
    data_vocab found;
    if (!ebb__file_exists(v->path)) {
        return EBB_OK;
    }
    ebb_status status = ebb__vocab_load(ctx, v->path, &found);
    if (status == EBB_OK) {
        v->hash = ebb__vocab_hash(&found);
        ebb__vocab_free(&found);
    } else if (status == EBB_MODEL) { /* damaged: made again */
        ebb__ctx_clear(ctx);
        status = EBB_OK;
    }
    return status;
}

static ebb_status measure_vocab(ebb_ctx *ctx, build_vocab *v) {
    uint64_t before = v->hash;
    data_vocab vocab;
    int fd = -1;
    TRY(ebb__file_open(ctx, v->path, &fd, &v->bytes));
    ebb__file_close(fd);
    TRY(ebb__vocab_load(ctx, v->path, &vocab));
    v->hash = ebb__vocab_hash(&vocab);
    v->entries = vocab.count;
    v->made = before != v->hash;
    ebb__vocab_free(&vocab);
    return EBB_OK;
}

/* ---- the folder ---- */

/* The vocabularies of the text are those of the run: files that hold something else are damaged,
 * and written again. */
static ebb_status mend_vocabs(build_state *b) {
    if (b->n_vocabs == 0) {
        return EBB_OK;
    }
    const build_vocab *last = &b->vocabs[b->n_vocabs - 1];
    uint64_t found = ebb__kind_join_hashes(b->run, b->vocabs[0].hash, last->hash);
    if (found == b->text->vocab_hash) {
        return EBB_OK;
    }
    TRY(b->text->calls->save(b->text));
    return b->text->calls->adopt(b->text);
}

/* A run that is there stays as it is: only files of its own texts may be made again. */
static ebb_status respect_run(build_state *b, const checkpoint_info *found) {
    corpus stored = {.ctx = b->ctx, .s = b->run};
    progress_state at = ebb__progress_start(b->run);
    const char *settings = json_string_value(json_object_get(found->train, "settings"));
    TRY(ebb__progress_unpack(b->ctx, b->run->out_dir, found, settings != NULL ? settings : "",
                             &stored, &at));
    bool train = b->n_vocabs == 0 || stored.vocab_hash == b->text->vocab_hash, valid = false;
    if (train) {
        TRY(mend_vocabs(b));
        TRY(b->run->kind->corpus.compare(&stored, b->run->out_dir, &train, &valid));
    }
    if (!train || !valid) {
        return ebb__fail(b->ctx, EBB_USAGE,
                         "%s: holds a run that was started with another %s; use another --out",
                         b->run->out_dir,
                         b->n_vocabs > 0 ? "text or vocabulary" : kind_data(b->run));
    }
    b->text->resumed = true;
    b->text->vocab_hash = stored.vocab_hash;
    b->text->train_count = stored.train_count;
    b->text->train_hash = stored.train_hash;
    b->text->valid_hash = stored.valid_hash;
    return EBB_OK;
}

static ebb_status store(build_state *b) {
    checkpoint_info found = {0};
    ebb_status status;
    TRY_OUT(ebb__checkpoint_peek(b->ctx, b->run->out_dir, &found));
    TRY_OUT(name_vocabs(b));
    for (int i = 0; i < b->n_vocabs; i++) {
        TRY_OUT(look_at_vocab(b->ctx, &b->vocabs[i]));
    }
    if (found.found) {
        TRY_OUT(respect_run(b, &found));
    }
    TRY_OUT(b->text->calls->store(b->text));
    if (!found.found) {
        TRY_OUT(b->text->calls->adopt(b->text));
    }
    for (int i = 0; i < b->n_vocabs; i++) {
        TRY_OUT(measure_vocab(b->ctx, &b->vocabs[i]));
    }
out:
    ebb__checkpoint_info_fini(&found);
    return status;
}

/* What to train on is read before the folder is made: a text that cannot be used leaves none. */
static ebb_status build(build_state *b) {
    job_request request = {.train = true, .valid = b->run->valid_path != NULL};
    file_lock lock;
    TRY(ebb__corpus_measure(b->text, 0, &request));
    TRY(ebb__file_make_dir(b->ctx, b->run->out_dir));
    TRY(ebb__folder_lock(b->ctx, b->run->out_dir, &lock));
    ebb_status status = store(b);
    ebb__file_unlock(&lock);
    return status;
}

/* ---- what was made ---- */

/* Token file i of at most 2 * KIND_SIDES; NULL: there is none. */
static const tokens_reader *file_at(const build_state *b, int i) {
    if (b->text->sets[i / KIND_SIDES] == NULL) {
        return NULL;
    }
    const tokens_reader *file = &b->text->sets[i / KIND_SIDES]->tokens[i % KIND_SIDES];
    return file->fd >= 0 ? file : NULL;
}

static json_t *vocab_json(const build_vocab *v) {
    return json_pack("{s:s, s:s, s:b, s:o, s:o}", "path", v->path, "kind", "vocabulary", "made",
                     (int)v->made, "entries", ebb__cli_json_bytes(v->entries), "bytes",
                     ebb__cli_json_bytes(v->bytes));
}

static json_t *tokens_json(const tokens_reader *t) {
    return json_pack("{s:s, s:s, s:b, s:o, s:o, s:o, s:o}", "path", t->path, "kind", "tokens",
                     "made", (int)t->made, "lines", ebb__cli_json_bytes(t->lines), "tokens",
                     ebb__cli_json_bytes(t->count), "unknown", ebb__cli_json_bytes(t->unknown),
                     "bytes", ebb__cli_json_bytes(t->file_bytes));
}

static json_t *images_json(const image_set *set) {
    const image_size *size = &set->facts.size;
    return json_pack("{s:s, s:s, s:b, s:o, s:i, s:i, s:i, s:i, s:o}", "path", set->path, "kind",
                     "images", "made", (int)set->made, "images",
                     ebb__cli_json_bytes(set->facts.count), "classes", (int)set->facts.classes,
                     "height", (int)size->height, "width", (int)size->width, "channels",
                     (int)size->channels, "bytes", ebb__cli_json_bytes(set->file_bytes));
}

static json_t *to_json(const build_state *b) {
    json_t *files = json_array();
    bool done = files != NULL;
    for (int i = 0; done && i < b->n_vocabs; i++) {
        done = json_array_append_new(files, vocab_json(&b->vocabs[i])) == 0;
    }
    for (int i = 0; done && i < 2 * KIND_SIDES; i++) {
        const tokens_reader *file = file_at(b, i);
        done = file == NULL || json_array_append_new(files, tokens_json(file)) == 0;
    }
    for (int i = 0; done && i < 2 && b->text->images[i] != NULL; i++) {
        done = json_array_append_new(files, images_json(b->text->images[i])) == 0;
    }
    if (!done) {
        json_decref(files);
        return NULL;
    }
    return json_pack("{s:i, s:s, s:s, s:o}", "schema", 1, "model", b->run->kind->name, "out",
                     b->run->out_dir, "files", files);
}

static const char *how(bool made) {
    return made ? "made" : "found";
}

static void print_files(const build_state *b) {
    for (int i = 0; i < b->n_vocabs; i++) {
        const build_vocab *v = &b->vocabs[i];
        printf("%s: %s, %" PRIu64 " entries, %s\n", v->path, how(v->made), v->entries,
               ebb__unit_bytes(v->bytes).text);
    }
    for (int i = 0; i < 2 * KIND_SIDES; i++) {
        const tokens_reader *t = file_at(b, i);
        if (t != NULL) {
            double share = t->count > 0 ? 100 * (double)t->unknown / (double)t->count : 0;
            printf("%s: %s, %" PRIu64 " lines, %" PRIu64 " tokens, %" PRIu64
                   " unknown (%.1f%%), %s\n",
                   t->path, how(t->made), t->lines, t->count, t->unknown, share,
                   ebb__unit_bytes(t->file_bytes).text);
        }
    }
    for (int i = 0; i < 2 && b->text->images[i] != NULL; i++) {
        const image_set *set = b->text->images[i];
        printf("%s: %s, %" PRIu64 " images of %u x %u, %u channel%s, %u classes, %s\n", set->path,
               how(set->made), set->facts.count, set->facts.size.height, set->facts.size.width,
               set->facts.size.channels, set->facts.size.channels == 1 ? "" : "s",
               set->facts.classes, ebb__unit_bytes(set->file_bytes).text);
    }
}

/* ---- the command ---- */

/* Batches, which a config file may speak of, are none of this command's business: one shape that
 * holds every sentence is chosen at once. */
static void simplify(train_settings *run) {
    run->by_sentence = false;
    run->bucket = BUCKET_NONE;
    run->batch = run->shards = 1;
    run->batch_tokens = 0;
}

ebb_status ebb__cli_data_build(cli_call *call) {
    train_settings *run = &call->settings.run;
    build_state state = {.ctx = call->ctx, .run = run};
    ebb_status status;
    TRY(ebb__cli_need_texts(&call->settings, "build"));
    TRY(ebb__cli_resolve(&call->settings));
    simplify(run);
    ebb_ctx_on_progress(call->ctx, ebb__cli_progress_plan, &call->progress);
    TRY_OUT(ebb__corpus_new(call->ctx, run, run->out_dir, &state.text));
    status = build(&state);
    ebb__cli_progress_clear(&call->progress);
    TRY_OUT(status);
    if (call->settings.json) {
        TRY_OUT(ebb__cli_print_json(call->ctx, to_json(&state)));
    } else if (!call->settings.quiet) {
        print_files(&state);
    }
out:
    ebb__corpus_free(state.text);
    return status;
}
