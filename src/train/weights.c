/* weights.c - see weights.h. */
#include "train/weights.h"

#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

/* X.counter beside X.counted: one number of 64 bits without an axis, as PyTorch has it. */
static ebb_status put_count(const model_kind *kind, const char *counted, const int64_t *steps,
                            alloc_region *region, st_entry *out) {
    size_t stem = strlen(counted) - strlen(kind->counted), bytes = stem + strlen(kind->counter) + 1;
    char *name = NULL;
    TRY(ebb__region_alloc(region, bytes, 1, &name));
    (void)snprintf(name, bytes, "%.*s%s", (int)stem, counted, kind->counter);
    *out = (st_entry){.name = name, .dtype = ST_I64, .data = steps};
    return EBB_OK;
}

ebb_status ebb__weights_list(run_session *session, const model_kind *kind, int64_t steps,
                             alloc_region *region, st_entry **out, size_t *n) {
    st_entry *own = NULL, *all = NULL;
    int64_t *count = NULL;
    size_t n_own = 0;
    TRY(ebb__tensors_list(session, TENSORS_MODEL, region, &own, &n_own));
    *out = own;
    *n = n_own;
    if (kind->counted == NULL) {
        return EBB_OK;
    }
    TRY(ebb__region_alloc(region, 2 * n_own, sizeof *all, &all));
    TRY(ebb__region_alloc(region, 1, sizeof *count, &count));
    *count = steps;
    for (size_t i = 0; i < n_own; i++) {
        all[i] = own[i];
        if (ends_with(own[i].name, kind->counted)) {
            TRY(put_count(kind, own[i].name, count, region, &all[*n]));
            (*n)++;
        }
    }
    *out = all;
    return EBB_OK;
}

const st_note *ebb__weights_lore(const corpus *c, weights_lore *room, size_t *n) {
    *n = c->s->kind->word_rows != NULL;
    (void)snprintf(room->digits, sizeof room->digits, "%016" PRIx64, c->vocab_hash);
    room->note = (st_note){WEIGHTS_VOCAB, room->digits};
    return &room->note;
}

/* ---- reading ---- */

ebb_status ebb__weights_vocab(ebb_ctx *ctx, const char *file, uint64_t *hash, bool *known) {
    st_reader reader = {0};
    char *end = NULL;
    TRY(ebb__safetensors_open(ctx, file, &reader));
    const char *digits = ebb__safetensors_note(&reader, WEIGHTS_VOCAB);
    *known = digits != NULL && strlen(digits) == 16;
    *hash = *known ? strtoull(digits, &end, 16) : 0;
    *known = *known && *end == '\0';
    ebb__safetensors_close(&reader);
    return EBB_OK;
}

/* A tensor with a row for each word, of a model that has more of them than the file. */
static tensors_fit grow_words(void *user, const ranks_tensor *v, const st_tensor *t) {
    const train_settings *s = user;
    bool same = v->type.dtype == IR_F32 && t->dtype == ST_F32 && t->rank == v->type.rank &&
                t->rank > 0 && t->dims[0] > 0 && t->dims[0] < v->type.dim[0];
    bool named = false;
    for (size_t i = 0; s->kind->word_rows[i] != NULL; i++) {
        named = named || strcmp(s->kind->word_rows[i], v->name) == 0;
    }
    for (int32_t d = 1; same && d < t->rank; d++) {
        same = t->dims[d] == v->type.dim[d];
    }
    return same && named ? TENSORS_REPEAT_FIRST : TENSORS_REFUSE;
}

static bool is_known(run_session *session, const model_kind *kind, const char *name) {
    return ebb__run_find(session, name).bytes > 0 || kind->spares(name);
}

/* All variables were found in the file: what it has beside them is of another model, unless the
 * kind spares it. Numbers tell whether there is any; only then is it looked for. */
static ebb_status check_others(run_session *session, const model_kind *kind,
                               const st_reader *reader) {
    size_t others = reader->n_tensors;
    for (int32_t i = 0; i < session->plan->n_variables; i++) {
        others -= tensors_is_stored(&session->plan->variables[i], TENSORS_MODEL);
    }
    for (size_t i = 0; i < reader->n_tensors; i++) {
        others -= kind->spares(reader->tensors[i].name);
    }
    for (size_t i = 0; others > 0 && i < reader->n_tensors; i++) {
        const char *name = reader->tensors[i].name;
        if (!is_known(session, kind, name)) {
            return ebb__fail(session->ctx, EBB_MODEL,
                             "%s: tensor %s is none of this model's; is the file of another one?",
                             reader->path, ebb__safetensors_show(name).text);
        }
    }
    return EBB_OK;
}

/* The layer whose rows are classes, and what the file has of it. */
typedef struct head_rows {
    char name[256];
    int64_t found, wanted; /* classes of the file and of the model; 0: they are the same */
} head_rows;

static bool is_of_head(const head_rows *head, const char *name) {
    size_t n = strlen(head->name);
    return strncmp(name, head->name, n) == 0 && name[n] == '.';
}

/* A tensor of that layer which differs in the number of rows alone. */
static tensors_fit skip_head(void *user, const ranks_tensor *v, const st_tensor *t) {
    head_rows *head = user;
    bool same = is_of_head(head, v->name) && v->type.dtype == IR_F32 && t->dtype == ST_F32 &&
                t->rank == v->type.rank && t->rank > 0;
    for (int32_t d = 1; same && d < t->rank; d++) {
        same = t->dims[d] == v->type.dim[d];
    }
    if (same) {
        head->found = (int64_t)t->dims[0];
        head->wanted = v->type.dim[0];
    }
    return same ? TENSORS_KEEP : TENSORS_REFUSE;
}

/* All tensors of the layer have as many rows in the file. */
static ebb_status check_head(run_session *session, const head_rows *head, const st_reader *reader) {
    for (int32_t i = 0; i < session->plan->n_variables; i++) {
        const plan_variable *v = &session->plan->variables[i];
        if (!tensors_is_stored(v, TENSORS_MODEL) || !is_of_head(head, v->name)) {
            continue;
        }
        int64_t rows = (int64_t)ebb__safetensors_find(reader, v->name)->dims[0];
        if (rows != head->found) {
            return ebb__fail(session->ctx, EBB_MODEL,
                             "%s: tensor %s is for %lld classes, another one of the layer for %lld",
                             reader->path, v->name, (long long)rows, (long long)head->found);
        }
    }
    return EBB_OK;
}

static ebb_status load_most(run_session *session, const train_settings *s,
                            const st_reader *reader) {
    head_rows head = {.name = ""};
    TRY(s->kind->head(session->ctx, s, head.name, sizeof head.name));
    TRY(ebb__tensors_load_most(session, reader, skip_head, &head));
    if (head.wanted != 0) {
        TRY(check_head(session, &head, reader));
        ebb__log(session->ctx, EBB_LOG_INFO,
                 "%s: tells %lld classes apart and this model %lld: layer %s starts anew",
                 reader->path, (long long)head.found, (long long)head.wanted, head.name);
    }
    return EBB_OK;
}

ebb_status ebb__weights_file(ebb_ctx *ctx, const char *path, char file[JOB_PATH_BYTES]) {
    static const char *const names[] = {"best.safetensors", "last.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        TRY(ebb__job_path(ctx, path, names[i], file));
        if (ebb__file_exists(file)) {
            return EBB_OK;
        }
    }
    (void)snprintf(file, JOB_PATH_BYTES, "%s", path); /* shorter than the above */
    return EBB_OK;
}

ebb_status ebb__weights_load(run_session *session, const train_settings *s, const char *path) {
    char file[JOB_PATH_BYTES];
    st_reader reader = {0};
    TRY(ebb__weights_file(session->ctx, path, file));
    TRY(ebb__safetensors_open(session->ctx, file, &reader));
    train_settings own = *s;
    ebb_status status = s->kind->head != NULL ? load_most(session, s, &reader)
                        : s->new_words > 0 && s->kind->word_rows != NULL
                            ? ebb__tensors_load_most(session, &reader, grow_words, &own)
                            : ebb__tensors_load_weights(session, &reader);
    if (status == EBB_OK && s->kind->spares != NULL) {
        status = check_others(session, s->kind, &reader);
    }
    ebb__safetensors_close(&reader);
    return status;
}
