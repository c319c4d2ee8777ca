/* checkpoint.c - saving, finding and pruning the generations of a run folder.
 *
 * Order is all: weights, state, manifest, then the two names, then deletion, manifests first. File
 * names are made from the step, never taken from a manifest. A generation is whole only if the
 * weights that it calls best are whole too, since a resumed run must end with the same
 * best.safetensors. What a read error hides is not called damaged: that is EBB_IO. */
#include "store/checkpoint.h"

#include "base/alloc.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define XXH_STATIC_LINKING_ONLY /* the state's size, so that it can live on the stack */
#include <xxhash.h>

#define SCHEMA 1
#define MAX_MANIFEST_BYTES (16u << 20)
#define PATH_BYTES 1000 /* base/file adds to it within 1024 */

/* In the order of deletion: without its manifest a generation is gone. */
typedef enum ckpt_kind { CKPT_MANIFEST, CKPT_STATE, CKPT_WEIGHTS, CKPT_KINDS } ckpt_kind;
static const char *const suffixes[CKPT_KINDS] = {".json", ".state.safetensors", ".safetensors"};
static const char *const names[] = {"last.safetensors", "best.safetensors"};

typedef struct ckpt_path {
    char text[PATH_BYTES];
} ckpt_path;

typedef struct ckpt_gen { /* what the folder holds of one step; bit k: the file of kind k */
    uint64_t step;
    unsigned files;
} ckpt_gen;

typedef struct ckpt_scan {
    ebb_ctx *ctx;
    const char *dir;
    ckpt_gen *gens; /* newest first */
    size_t n, room;
} ckpt_scan;

typedef struct ckpt_manifest {
    json_t *root; /* NULL where it is damaged */
    st_sum weights, state, best;
    uint64_t step, best_step;
    bool has_best;
} ckpt_manifest;

typedef struct ckpt_reason { /* why a generation is not whole */
    char text[640];
} ckpt_reason;

/* ---- names -------------------------------------------------------------------------------- */

static ebb_status gen_path(ebb_ctx *ctx, const char *dir, uint64_t step, ckpt_kind kind,
                           ckpt_path *out) {
    char name[64];
    snprintf(name, sizeof name, "ckpt-%" PRIu64 "%s", step, suffixes[kind]);
    return ebb__file_join(ctx, dir, name, out->text, sizeof out->text);
}

/* "ckpt-<step><suffix>" as we write it, and nothing else: what we may delete. */
static bool parse_name(const char *name, uint64_t *step, ckpt_kind *kind) {
    char again[96];
    if (sscanf(name, "ckpt-%20" SCNu64, step) != 1) {
        return false;
    }
    for (int k = 0; k < CKPT_KINDS; k++) {
        *kind = (ckpt_kind)k;
        snprintf(again, sizeof again, "ckpt-%" PRIu64 "%s", *step, suffixes[k]);
        if (strcmp(name, again) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- the folder --------------------------------------------------------------------------- */

static int newest_first(const void *a, const void *b) {
    uint64_t x = ((const ckpt_gen *)a)->step, y = ((const ckpt_gen *)b)->step;
    return x < y ? 1 : x > y ? -1 : 0;
}

static ebb_status add_file(ckpt_scan *scan, uint64_t step, ckpt_kind kind) {
    if (scan->n == scan->room) {
        size_t room = scan->room ? 2 * scan->room : 16;
        TRY(ebb__realloc(scan->ctx, scan->gens, room, sizeof *scan->gens, &scan->gens));
        scan->room = room;
    }
    scan->gens[scan->n++] = (ckpt_gen){step, 1u << kind};
    return EBB_OK;
}

static void merge_files(ckpt_scan *scan) {
    size_t kept = 0;
    if (scan->n > 0) {
        qsort(scan->gens, scan->n, sizeof *scan->gens, newest_first);
    }
    for (size_t i = 0; i < scan->n; i++) {
        if (kept > 0 && scan->gens[kept - 1].step == scan->gens[i].step) {
            scan->gens[kept - 1].files |= scan->gens[i].files;
        } else {
            scan->gens[kept++] = scan->gens[i];
        }
    }
    scan->n = kept;
}

static ebb_status scan_dir(ebb_ctx *ctx, const char *dir, ckpt_scan *scan) {
    ebb_status status = EBB_OK;
    *scan = (ckpt_scan){.ctx = ctx, .dir = dir};
    DIR *stream = opendir(dir);
    if (!stream) {
        return errno == ENOENT
                   ? EBB_OK
                   : ebb__fail(ctx, EBB_IO, "%s: cannot list: %s", dir, strerror(errno));
    }
    for (;;) {
        uint64_t step;
        ckpt_kind kind;
        errno = 0;
        const struct dirent *entry = readdir(stream);
        if (!entry) {
            break;
        }
        if (parse_name(entry->d_name, &step, &kind)) {
            TRY_OUT(add_file(scan, step, kind));
        }
    }
    if (errno != 0) {
        TRY_OUT(ebb__fail(ctx, EBB_IO, "%s: cannot list: %s", dir, strerror(errno)));
    }
    merge_files(scan);
out:
    closedir(stream);
    return status;
}

static void scan_fini(ckpt_scan *scan) {
    if (scan->gens) {
        ebb__free(scan->ctx, scan->gens);
    }
    scan->gens = NULL;
}

static bool is_generation(const ckpt_gen *gen) {
    return gen->files & 1u << CKPT_MANIFEST;
}

static ebb_status remove_files(const ckpt_scan *scan, ckpt_gen *gen) {
    ckpt_path path;
    for (int k = 0; k < CKPT_KINDS; k++) {
        if (gen->files & 1u << k) {
            TRY(gen_path(scan->ctx, scan->dir, gen->step, (ckpt_kind)k, &path));
            TRY(ebb__file_remove(scan->ctx, path.text));
        }
    }
    gen->files = 0;
    return EBB_OK;
}

/* Half generations and whatever else a killed writer left. */
static ebb_status remove_leftovers(ckpt_scan *scan) {
    for (size_t i = 0; i < scan->n; i++) {
        if (!is_generation(&scan->gens[i])) {
            TRY(remove_files(scan, &scan->gens[i]));
        }
    }
    ebb__file_sweep(scan->dir, NULL);
    return EBB_OK;
}

/* ---- manifests ---------------------------------------------------------------------------- */

static bool read_sum(const json_t *object, st_sum *sum) {
    const json_t *bytes = json_object_get(object, "bytes");
    const char *xxh3 = json_string_value(json_object_get(object, "xxh3"));
    if (!json_is_integer(bytes) || json_integer_value(bytes) < 0 || !xxh3 ||
        strlen(xxh3) != sizeof sum->xxh3 - 1) {
        return false;
    }
    sum->bytes = (uint64_t)json_integer_value(bytes);
    memcpy(sum->xxh3, xxh3, sizeof sum->xxh3);
    return true;
}

static bool read_step(const json_t *object, uint64_t *step) {
    const json_t *value = json_object_get(object, "step");
    *step = (uint64_t)json_integer_value(value);
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static int add_to_hash(const char *text, size_t bytes, void *state) {
    return XXH3_64bits_update(state, text, bytes) == XXH_OK ? 0 : -1;
}

/* Of all that the manifest says beside it, so that not a digit of the position changes unseen. */
static bool hash_manifest(const json_t *root, char hex[17]) {
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    if (json_dump_callback(root, add_to_hash, &state, JSON_COMPACT | JSON_SORT_KEYS) != 0) {
        return false;
    }
    snprintf(hex, 17, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(&state));
    return true;
}

/* Takes the hash off the manifest and compares; false without memory. */
static bool check_hash(json_t *root, bool *right) {
    char told[17], hex[17];
    const char *text = json_string_value(json_object_get(root, "xxh3"));
    snprintf(told, sizeof told, "%s", text ? text : "");
    (void)json_object_del(root, "xxh3");
    bool known = hash_manifest(root, hex);
    *right = known && strcmp(hex, told) == 0;
    return known;
}

static bool read_manifest(const json_t *root, ckpt_manifest *out) {
    const json_t *best = json_object_get(root, "best");
    out->has_best = json_is_object(best);
    return read_step(root, &out->step) &&
           read_sum(json_object_get(root, "weights"), &out->weights) &&
           read_sum(json_object_get(root, "state"), &out->state) &&
           json_is_object(json_object_get(root, "train")) &&
           (out->has_best ? read_step(best, &out->best_step) && read_sum(best, &out->best) &&
                                out->best_step <= out->step
                          : json_is_null(best));
}

/* out->root is NULL, with the reason, where the manifest is damaged; the caller drops root. */
static ebb_status load_manifest(ebb_ctx *ctx, const char *dir, uint64_t step, ckpt_manifest *out,
                                ckpt_reason *why) {
    ckpt_path path;
    char *text = NULL;
    size_t bytes = 0;
    json_error_t error;
    memset(out, 0, sizeof *out);
    TRY(gen_path(ctx, dir, step, CKPT_MANIFEST, &path));
    ebb_status status = ebb__file_read_all(ctx, path.text, MAX_MANIFEST_BYTES, &text, &bytes);
    if (status == EBB_DATA) {
        ebb__ctx_clear(ctx);
        snprintf(why->text, sizeof why->text, "%.500s: manifest: too long", path.text);
        return EBB_OK;
    }
    TRY(status);
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    ebb__free(ctx, text);
    if (!root && (error.text[0] == '\0' || json_error_code(&error) == json_error_out_of_memory)) {
        return ebb__fail(ctx, EBB_NOMEM, "%s: no memory to parse it", path.text);
    }
    const json_t *schema = json_object_get(root, "schema");
    if (json_is_integer(schema) && json_integer_value(schema) > SCHEMA) {
        status = ebb__fail(ctx, EBB_MODEL,
                           "%s: schema: %" JSON_INTEGER_FORMAT
                           " was written by a newer ebb; this one reads %d",
                           path.text, json_integer_value(schema), SCHEMA);
        json_decref(root);
        return status;
    }
    bool right = false;
    if (root && !check_hash(root, &right)) {
        json_decref(root);
        return ebb__fail(ctx, EBB_NOMEM, "%s: no memory to check it", path.text);
    }
    if (right && json_integer_value(schema) == SCHEMA && read_manifest(root, out) &&
        out->step == step) {
        out->root = root;
        return EBB_OK;
    }
    snprintf(why->text, sizeof why->text, "%.500s: manifest: %s", path.text,
             root ? "a field is missing or wrong" : "not valid JSON");
    json_decref(root);
    return EBB_OK;
}

static ebb_status check_file(ebb_ctx *ctx, const char *dir, uint64_t step, ckpt_kind kind,
                             const st_sum *want, bool *whole, ckpt_reason *why) {
    ckpt_path path;
    struct stat stat_buffer;
    st_sum have;
    const char *fault = NULL;
    TRY(gen_path(ctx, dir, step, kind, &path));
    if (stat(path.text, &stat_buffer) != 0 && errno == ENOENT) {
        fault = "missing";
    } else {
        TRY(ebb__safetensors_sum(ctx, path.text, &have));
        fault = have.bytes != want->bytes            ? "wrong size"
                : strcmp(have.xxh3, want->xxh3) != 0 ? "wrong hash"
                                                     : NULL;
    }
    if (fault) {
        *whole = false;
        snprintf(why->text, sizeof why->text, "%.500s: damaged: %s", path.text, fault);
    }
    return EBB_OK;
}

static ebb_status check_generation(ebb_ctx *ctx, const char *dir, uint64_t step, ckpt_manifest *m,
                                   bool *whole, ckpt_reason *why) {
    TRY(load_manifest(ctx, dir, step, m, why));
    *whole = m->root != NULL;
    if (*whole) {
        TRY(check_file(ctx, dir, step, CKPT_WEIGHTS, &m->weights, whole, why));
    }
    if (*whole) {
        TRY(check_file(ctx, dir, step, CKPT_STATE, &m->state, whole, why));
    }
    if (*whole && m->has_best && m->best_step != step) {
        TRY(check_file(ctx, dir, m->best_step, CKPT_WEIGHTS, &m->best, whole, why));
    }
    return EBB_OK;
}

/* ---- saving ------------------------------------------------------------------------------- */

static ebb_status write_manifest(ebb_ctx *ctx, const char *dir, const ckpt_manifest *m,
                                 const json_t *train) {
    ckpt_path path;
    file_writer file = {.ctx = ctx, .fd = -1};
    char *text = NULL, hex[17];
    ebb_status status = EBB_OK;
    json_t *best = m->has_best ? json_pack("{s:I, s:I, s:s}", "step", (json_int_t)m->best_step,
                                           "bytes", (json_int_t)m->best.bytes, "xxh3", m->best.xxh3)
                               : json_null();
    json_t *root =
        json_pack("{s:i, s:I, s:{s:I, s:s}, s:{s:I, s:s}, s:o, s:O}", "schema", SCHEMA, "step",
                  (json_int_t)m->step, "weights", "bytes", (json_int_t)m->weights.bytes, "xxh3",
                  m->weights.xxh3, "state", "bytes", (json_int_t)m->state.bytes, "xxh3",
                  m->state.xxh3, "best", best, "train", train);
    if (!root || !hash_manifest(root, hex) ||
        json_object_set_new(root, "xxh3", json_string(hex)) != 0) {
        json_decref(root);
        return ebb__fail(ctx, EBB_NOMEM, "%s: no memory for a manifest", dir);
    }
    TRY_OUT(gen_path(ctx, dir, m->step, CKPT_MANIFEST, &path));
    /* Not json_dump_callback: it goes on after some failed writes and reports success. */
    size_t bytes = json_dumpb(root, NULL, 0, JSON_INDENT(1));
    TRY_OUT(ebb__alloc(ctx, bytes, 1, &text));
    if (bytes == 0 || json_dumpb(root, text, bytes, JSON_INDENT(1)) != bytes) {
        TRY_OUT(ebb__fail(ctx, EBB_NOMEM, "%s: no memory to write it", path.text));
    }
    TRY_OUT(ebb__file_create(ctx, path.text, &file));
    TRY_OUT(ebb__file_write(&file, text, bytes));
    TRY_OUT(ebb__file_commit(&file));
out:
    ebb__file_abandon(&file);
    ebb__free(ctx, text);
    json_decref(root);
    return status;
}

/* Takes over from the generation before `step` which weights are best. */
static ebb_status inherit_best(const ckpt_scan *scan, uint64_t step, ckpt_manifest *m) {
    ckpt_manifest before;
    ckpt_reason why;
    for (size_t i = 0; i < scan->n; i++) {
        if (!is_generation(&scan->gens[i])) {
            continue;
        }
        if (scan->gens[i].step > step) {
            return ebb__fail(scan->ctx, EBB_USAGE,
                             "%s: holds step %" PRIu64 ", later than %" PRIu64
                             " now saved; resume it, or start over with --fresh",
                             scan->dir, scan->gens[i].step, step);
        }
        TRY(load_manifest(scan->ctx, scan->dir, scan->gens[i].step, &before, &why));
        if (before.root) {
            m->has_best = before.has_best;
            m->best_step = before.best_step;
            m->best = before.best;
            json_decref(before.root);
            return EBB_OK;
        }
    }
    return EBB_OK;
}

/* Keeps the newest two and what they call best: were only the newest's best kept, a fall-back to
 * the one before would find its best gone. */
static ebb_status prune(ckpt_scan *scan) {
    uint64_t best[2];
    size_t n_best = 0, seen = 0;
    ckpt_manifest m;
    ckpt_reason why;
    for (size_t i = 0; i < scan->n; i++) {
        ckpt_gen *gen = &scan->gens[i];
        bool keep = seen < 2;
        if (!is_generation(gen)) {
            continue;
        }
        if (seen < 2) {
            TRY(load_manifest(scan->ctx, scan->dir, gen->step, &m, &why));
            if (m.root && m.has_best) {
                best[n_best++] = m.best_step;
            }
            json_decref(m.root);
        }
        for (size_t b = 0; b < n_best; b++) {
            keep = keep || best[b] == gen->step;
        }
        TRY(keep ? EBB_OK : remove_files(scan, gen));
        seen++;
    }
    return EBB_OK;
}

static ebb_status link_name(ebb_ctx *ctx, const char *dir, uint64_t step, const char *name) {
    ckpt_path from, to;
    TRY(gen_path(ctx, dir, step, CKPT_WEIGHTS, &from));
    TRY(ebb__file_join(ctx, dir, name, to.text, sizeof to.text));
    return ebb__file_link(ctx, from.text, to.text);
}

ebb_status ebb__checkpoint_save(ebb_ctx *ctx, const char *dir, uint64_t step,
                                const checkpoint_parts *parts, const json_t *train, bool is_best) {
    ebb_status status = EBB_OK;
    ckpt_scan scan = {0}, after = {0};
    ckpt_manifest m = {.step = step};
    ckpt_path path;
    if (!json_is_object(train) || step > INT64_MAX) {
        return ebb__fail(ctx, EBB_USAGE, "%s: checkpoint needs a JSON object and a step", dir);
    }
    TRY_OUT(scan_dir(ctx, dir, &scan));
    TRY_OUT(inherit_best(&scan, step, &m));
    TRY_OUT(remove_leftovers(&scan));
    TRY_OUT(gen_path(ctx, dir, step, CKPT_WEIGHTS, &path));
    TRY_OUT(ebb__safetensors_write(ctx, path.text, parts->weights, parts->n_weights, parts->notes,
                                   parts->n_notes, &m.weights));
    TRY_OUT(gen_path(ctx, dir, step, CKPT_STATE, &path));
    TRY_OUT(
        ebb__safetensors_write(ctx, path.text, parts->state, parts->n_state, NULL, 0, &m.state));
    if (is_best) {
        m.has_best = true;
        m.best_step = step;
        m.best = m.weights;
    }
    TRY_OUT(write_manifest(ctx, dir, &m, train));
    TRY_OUT(link_name(ctx, dir, step, names[0]));
    if (is_best) {
        TRY_OUT(link_name(ctx, dir, step, names[1]));
    }
    TRY_OUT(scan_dir(ctx, dir, &after));
    TRY_OUT(prune(&after));
out:
    scan_fini(&scan);
    scan_fini(&after);
    return status;
}

/* ---- finding ------------------------------------------------------------------------------ */

/* The first whole generation of the scan: its index, or scan->n with the newest one's fault. */
static ebb_status pick(const ckpt_scan *scan, ckpt_manifest *m, size_t *picked,
                       ckpt_reason *newest_fault) {
    ckpt_reason why;
    bool whole = false;
    newest_fault->text[0] = '\0';
    for (size_t i = 0; i < scan->n; i++) {
        if (!is_generation(&scan->gens[i])) {
            continue;
        }
        ebb_status status =
            check_generation(scan->ctx, scan->dir, scan->gens[i].step, m, &whole, &why);
        if (status == EBB_OK && whole) {
            *picked = i;
            return EBB_OK;
        }
        json_decref(m->root);
        m->root = NULL;
        TRY(status);
        if (newest_fault->text[0] == '\0') {
            *newest_fault = why;
        }
    }
    *picked = scan->n;
    return EBB_OK;
}

/* True where `name` already holds these weights: a finished run, run again, touches nothing. */
static ebb_status name_is_right(ebb_ctx *ctx, const char *path, const char *weights,
                                const st_sum *want, bool *right) {
    struct stat a, b;
    st_sum have;
    *right = false;
    if (stat(path, &a) != 0 || stat(weights, &b) != 0) {
        return EBB_OK;
    }
    if (a.st_dev == b.st_dev && a.st_ino == b.st_ino) {
        *right = true;
    } else if (a.st_size == b.st_size) {
        TRY(ebb__safetensors_sum(ctx, path, &have));
        *right = strcmp(have.xxh3, want->xxh3) == 0;
    }
    return EBB_OK;
}

static ebb_status repair_name(ebb_ctx *ctx, const char *dir, const char *name, uint64_t step,
                              const st_sum *want) {
    ckpt_path path, weights;
    bool right;
    TRY(ebb__file_join(ctx, dir, name, path.text, sizeof path.text));
    TRY(gen_path(ctx, dir, step, CKPT_WEIGHTS, &weights));
    TRY(name_is_right(ctx, path.text, weights.text, want, &right));
    return right ? EBB_OK : ebb__file_link(ctx, weights.text, path.text);
}

static ebb_status repair(ckpt_scan *scan, const ckpt_manifest *m, size_t picked) {
    ckpt_path path;
    for (size_t i = 0; i < picked; i++) {
        TRY(remove_files(scan, &scan->gens[i]));
    }
    TRY(remove_leftovers(scan));
    TRY(repair_name(scan->ctx, scan->dir, names[0], m->step, &m->weights));
    if (m->has_best) {
        TRY(repair_name(scan->ctx, scan->dir, names[1], m->best_step, &m->best));
    } else {
        TRY(ebb__file_join(scan->ctx, scan->dir, names[1], path.text, sizeof path.text));
        TRY(ebb__file_remove(scan->ctx, path.text));
    }
    return prune(scan);
}

static ebb_status look(ebb_ctx *ctx, const char *dir, bool mend, checkpoint_info *info) {
    ebb_status status = EBB_OK;
    ckpt_scan scan = {0};
    ckpt_manifest m = {0};
    ckpt_reason fault;
    size_t picked = 0;
    memset(info, 0, sizeof *info);
    TRY_OUT(scan_dir(ctx, dir, &scan));
    TRY_OUT(pick(&scan, &m, &picked, &fault));
    if (picked == scan.n) {
        if (fault.text[0] != '\0') {
            status = ebb__fail(ctx, EBB_MODEL,
                               "%s; no other checkpoint is whole: restore it, or use --fresh",
                               fault.text);
        }
        goto out;
    }
    if (fault.text[0] != '\0' && !mend) {
        ebb__log(ctx, EBB_LOG_WARN, "%s; going back to step %" PRIu64, fault.text, m.step);
    }
    if (mend) {
        TRY_OUT(repair(&scan, &m, picked));
    }
    info->found = true;
    info->step = m.step;
    info->has_best = m.has_best;
    info->best_step = m.best_step;
    info->train = json_incref(json_object_get(m.root, "train"));
out:
    json_decref(m.root);
    scan_fini(&scan);
    return status;
}

ebb_status ebb__checkpoint_peek(ebb_ctx *ctx, const char *dir, checkpoint_info *info) {
    return look(ctx, dir, false, info);
}

ebb_status ebb__checkpoint_find(ebb_ctx *ctx, const char *dir, checkpoint_info *info) {
    return look(ctx, dir, true, info);
}

void ebb__checkpoint_info_fini(checkpoint_info *info) {
    json_decref(info->train);
    memset(info, 0, sizeof *info);
}

static ebb_status open_file(ebb_ctx *ctx, const char *dir, const checkpoint_info *info,
                            ckpt_kind kind, st_reader *out) {
    ckpt_path path;
    memset(out, 0, sizeof *out);
    TRY(gen_path(ctx, dir, info->step, kind, &path));
    return ebb__safetensors_open(ctx, path.text, out);
}

ebb_status ebb__checkpoint_open_weights(ebb_ctx *ctx, const char *dir, const checkpoint_info *info,
                                        st_reader *out) {
    return open_file(ctx, dir, info, CKPT_WEIGHTS, out);
}

ebb_status ebb__checkpoint_open_state(ebb_ctx *ctx, const char *dir, const checkpoint_info *info,
                                      st_reader *out) {
    return open_file(ctx, dir, info, CKPT_STATE, out);
}

/* Newest first: what a clear cut short leaves is whole, since a generation's best is never newer.
 */
ebb_status ebb__checkpoint_clear(ebb_ctx *ctx, const char *dir) {
    ebb_status status = EBB_OK;
    ckpt_scan scan = {0};
    ckpt_path path;
    TRY_OUT(scan_dir(ctx, dir, &scan));
    for (size_t i = 0; i < scan.n; i++) {
        TRY_OUT(remove_files(&scan, &scan.gens[i]));
    }
    TRY_OUT(remove_leftovers(&scan));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        TRY_OUT(ebb__file_join(ctx, dir, names[i], path.text, sizeof path.text));
        TRY_OUT(ebb__file_remove(ctx, path.text));
    }
out:
    scan_fini(&scan);
    return status;
}
