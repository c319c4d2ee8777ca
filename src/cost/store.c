/* store.c - see store.h. */
#include "cost/store.h"

#include "base/alloc.h"
#include "base/file.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#define XXH_STATIC_LINKING_ONLY /* the state's size, so that it can live on the stack */
#include <xxhash.h>

enum { STORE_FORMAT = 1, STORE_MOST_BYTES = 16 << 20, MOST_MEMBERS = 1024 };
static const int64_t MOST_DIM = INT64_C(1) << 40;
static const double MOST_SECONDS = 1e6;

/* ---- whose it is ---- */

/* What the codes of forms mean: names of all forms of the op's samples. Codes are only ever given
 * to form_name when they come from the kernel itself. */
static ebb_status hash_sample(ebb_ctx *ctx, const device_kernel *kernel, const op_sample *sample,
                              XXH64_hash_t *hash) {
    ir_val in[COST_MAX_IN], out[IR_MAX_OUT];
    int32_t list[DEVICE_MAX_FORMS] = {0};
    char name[64];
    ir_graph graph;
    ebb_status status = EBB_OK;
    ebb__op_graph_init(&graph, ctx);
    for (int32_t i = 0; i < sample->n_in && i < COST_MAX_IN; i++) {
        (void)snprintf(name, sizeof name, "in%d", i);
        in[i] = IR_NONE;
        if (sample->fill[i] != FILL_ABSENT) {
            TRY_OUT(ebb__ir_add_variable(&graph, IR_INPUT, name, &sample->in[i], &in[i]));
        }
    }
    TRY_OUT(ebb__op_emit(&graph, kernel->op, in, sample->n_in, &sample->attr, out));
    const ir_node_rec *node = &graph.nodes[graph.order[0]];
    int32_t n = kernel->accept != NULL && kernel->accept(&graph, node) != NULL
                    ? 0
                    : kernel->forms(&graph, node, 2, list);
    for (int32_t i = 0; i < n; i++) {
        kernel->form_name(list[i], name, sizeof name);
        *hash = XXH3_64bits_withSeed(&list[i], sizeof list[i], *hash);
        *hash = XXH3_64bits_withSeed(name, strlen(name), *hash);
    }
out:
    ebb__ir_fini(&graph);
    return status;
}

typedef struct store_origin {
    char machine[512], kernels[17];
} store_origin;

static ebb_status origin_of(ebb_ctx *ctx, const device *dev, store_origin *out) {
    XXH64_hash_t hash = 0;
    out->machine[0] = '\0';
    dev->describe(out->machine, sizeof out->machine);
    for (int32_t i = 0; i < dev->n_kernels; i++) {
        const device_kernel *kernel = &dev->kernels[i];
        const op_def *op = ebb__op(kernel->op);
        for (int32_t k = 0; kernel->forms != NULL && k < op->n_samples; k++) {
            TRY(hash_sample(ctx, kernel, &op->samples[k], &hash));
        }
    }
    (void)snprintf(out->kernels, sizeof out->kernels, "%016" PRIx64, (uint64_t)hash);
    return EBB_OK;
}

ebb_status ebb__cost_store_path(ebb_ctx *ctx, const device *dev, const char *folder,
                                char path[COST_PATH_BYTES]) {
    store_origin origin;
    TRY(origin_of(ctx, dev, &origin));
    XXH64_hash_t hash = XXH3_64bits(origin.machine, strlen(origin.machine));
    hash = XXH3_64bits_withSeed(origin.kernels, strlen(origin.kernels), hash);
    hash = XXH3_64bits_withSeed(ebb_version(), strlen(ebb_version()), hash);
    int n = snprintf(path, COST_PATH_BYTES, "%s/%s-%016" PRIx64 ".json", folder, dev->name,
                     (uint64_t)hash);
    return n > 0 && n < COST_PATH_BYTES
               ? EBB_OK
               : ebb__fail(ctx, EBB_USAGE, "the folder for tuning has too long a name: %.60s...",
                           folder);
}

/* ---- writing ---- */

static json_t *entry_to_json(const cost_table *table, const cost_entry *entry) {
    const device_kernel *kernel = &table->dev->kernels[entry->key.kernel];
    json_t *attr = json_array(), *forms = json_array();
    for (int i = 0; i < IR_MAX_INTS; i++) {
        (void)json_array_append_new(attr, json_integer(entry->key.attr[i]));
    }
    for (int32_t i = 0; i < entry->n_forms; i++) {
        const cost_form *form = &entry->forms[i];
        (void)json_array_append_new(forms, json_pack("[i, f]", form->form, form->seconds));
    }
    if (json_array_size(attr) != IR_MAX_INTS || json_array_size(forms) != (size_t)entry->n_forms) {
        json_decref(attr);
        json_decref(forms);
        return NULL;
    }
    return json_pack("{s:s, s:I, s:I, s:I, s:o, s:i, s:f, s:o}", "kernel", kernel->name, "m",
                     (json_int_t)entry->key.m, "n", (json_int_t)entry->key.n, "k",
                     (json_int_t)entry->key.k, "attr", attr, "members", entry->key.members,
                     "estimate", entry->estimate, "forms", forms);
}

static int add_to_hash(const char *text, size_t bytes, void *state) {
    return XXH3_64bits_update(state, text, bytes) == XXH_OK ? 0 : -1;
}

static bool hash_entries(const json_t *entries, char digits[17]) {
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    if (json_dump_callback(entries, add_to_hash, &state, JSON_COMPACT | JSON_SORT_KEYS) != 0) {
        return false;
    }
    (void)snprintf(digits, 17, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(&state));
    return true;
}

static json_t *table_to_json(const cost_table *table, const store_origin *origin) {
    char digits[17];
    json_t *entries = json_array();
    for (int32_t i = 0; i < table->n_entries; i++) {
        (void)json_array_append_new(entries, entry_to_json(table, &table->entries[i]));
    }
    if (json_array_size(entries) != (size_t)table->n_entries || !hash_entries(entries, digits)) {
        json_decref(entries);
        return NULL;
    }
    return json_pack("{s:i, s:s, s:s, s:s, s:s, s:o}", "format", STORE_FORMAT, "ebb", ebb_version(),
                     "device", origin->machine, "kernels", origin->kernels, "hash", digits,
                     "entries", entries);
}

/* Makes the folder of a file. */
static ebb_status make_folder(ebb_ctx *ctx, const char *path) {
    char folder[COST_PATH_BYTES];
    (void)snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash == NULL || slash == folder) {
        return EBB_OK;
    }
    *slash = '\0';
    return ebb__file_make_dir(ctx, folder);
}

/* Two processes may do this at once: each writes beside under a name of its own, the last one to
 * rename wins, and no reader ever sees a part. */
static ebb_status replace_file(ebb_ctx *ctx, const char *path, const char *text, size_t bytes) {
    char own[COST_PATH_BYTES + 24];
    file_writer writer = {.ctx = ctx, .fd = -1};
    ebb_status status;
    (void)snprintf(own, sizeof own, "%s.%ld", path, (long)getpid());
    TRY(make_folder(ctx, path));
    TRY_OUT(ebb__file_create(ctx, own, &writer));
    TRY_OUT(ebb__file_write(&writer, text, bytes));
    TRY_OUT(ebb__file_commit(&writer));
    status = ebb__file_rename(ctx, own, path);
out:
    ebb__file_abandon(&writer);
    if (status != EBB_OK) {
        (void)unlink(own);
    }
    return status;
}

/* ---- reading ---- */

/* Whole numbers and seconds that make sense; anything else is a wrong file. */
static bool read_int(const json_t *value, int64_t low, int64_t high, int64_t *out) {
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= low && *out <= high;
}

static bool read_seconds(const json_t *value, bool may_be_zero, double *out) {
    *out = json_number_value(value);
    return json_is_number(value) && isfinite(*out) && *out <= MOST_SECONDS &&
           (*out > 0 || (may_be_zero && *out >= 0));
}

static int32_t find_kernel(const device *dev, const char *name) {
    for (int32_t i = 0; name != NULL && i < dev->n_kernels; i++) {
        if (strcmp(dev->kernels[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

static bool read_key(const json_t *object, cost_key *key) {
    const json_t *attr = json_object_get(object, "attr");
    int64_t members = 0;
    bool right = read_int(json_object_get(object, "m"), 1, MOST_DIM, &key->m) &&
                 read_int(json_object_get(object, "n"), 1, MOST_DIM, &key->n) &&
                 read_int(json_object_get(object, "k"), 0, MOST_DIM, &key->k) &&
                 read_int(json_object_get(object, "members"), 1, MOST_MEMBERS, &members) &&
                 json_array_size(attr) == IR_MAX_INTS;
    key->members = (int32_t)members;
    for (size_t i = 0; right && i < IR_MAX_INTS; i++) {
        int64_t value = 0;
        right = read_int(json_array_get(attr, i), INT32_MIN, INT32_MAX, &value);
        key->attr[i] = (int32_t)value;
    }
    return right;
}

static bool read_forms(const json_t *list, cost_entry *entry) {
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n > DEVICE_MAX_FORMS) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        cost_form *form = &entry->forms[entry->n_forms];
        int64_t code = 0;
        if (json_array_size(item) != 2 ||
            !read_int(json_array_get(item, 0), INT32_MIN, INT32_MAX, &code) ||
            !read_seconds(json_array_get(item, 1), false, &form->seconds)) {
            return false;
        }
        form->form = (int32_t)code;
        for (int32_t k = 0; k < entry->n_forms; k++) {
            if (entry->forms[k].form == form->form) {
                return false;
            }
        }
        entry->n_forms++;
    }
    return true;
}

/* Adds one entry to a table that holds only entries of this file. NULL, or what is wrong. */
static const char *read_entry(cost_table *table, const json_t *object, ebb_status *status) {
    const char *name = json_string_value(json_object_get(object, "kernel"));
    cost_entry entry = {0}, *kept = NULL;
    memset(&entry.key, 0, sizeof entry.key);
    if (!json_is_object(object) || name == NULL || !read_key(object, &entry.key) ||
        !read_seconds(json_object_get(object, "estimate"), true, &entry.estimate)) {
        return "has an entry that makes no sense";
    }
    entry.key.kernel = find_kernel(table->dev, name);
    if (entry.key.kernel < 0) {
        return NULL; /* of a kernel that this build has not */
    }
    if (!read_forms(json_object_get(object, "forms"), &entry)) {
        return "has times that make no sense";
    }
    if (ebb__cost_table_find(table, &entry.key) != NULL) {
        return "has one product twice";
    }
    *status = ebb__cost_table_add(table, &entry.key, &kept);
    if (*status == EBB_OK && (entry.n_forms > 0 || entry.estimate > 0)) {
        *kept = entry;
    }
    return NULL;
}

/* NULL, or what is wrong with the file. */
static const char *read_root(cost_table *table, const json_t *root, ebb_status *status) {
    store_origin origin;
    char digits[17];
    const char *version = json_string_value(json_object_get(root, "ebb"));
    const char *machine = json_string_value(json_object_get(root, "device"));
    const char *kernels = json_string_value(json_object_get(root, "kernels"));
    const char *hash = json_string_value(json_object_get(root, "hash"));
    const json_t *entries = json_object_get(root, "entries");
    const char *why = NULL;
    *status = origin_of(table->ctx, table->dev, &origin);
    if (*status != EBB_OK) {
        return NULL;
    }
    if (json_integer_value(json_object_get(root, "format")) != STORE_FORMAT || version == NULL ||
        kernels == NULL || strcmp(version, ebb_version()) != 0 ||
        strcmp(kernels, origin.kernels) != 0) {
        return "is of another version";
    }
    if (machine == NULL || strcmp(machine, origin.machine) != 0) {
        return "is of another machine";
    }
    if (!json_is_array(entries) || json_array_size(entries) > COST_MOST_ENTRIES || hash == NULL ||
        !hash_entries(entries, digits) || strcmp(hash, digits) != 0) {
        return "was changed or is damaged";
    }
    for (size_t i = 0; why == NULL && *status == EBB_OK && i < json_array_size(entries); i++) {
        why = read_entry(table, json_array_get(entries, i), status);
    }
    return why;
}

/* All of a file into an empty table; *why says what is wrong with it, and then it stays empty. */
static ebb_status read_file(cost_table *table, const char *path, const char **why) {
    char *text = NULL;
    size_t bytes = 0;
    *why = NULL;
    ebb_status status = ebb__file_read_all(table->ctx, path, STORE_MOST_BYTES, &text, &bytes);
    if (status == EBB_IO || status == EBB_DATA) {
        *why = "cannot be read";
        ebb__ctx_clear(table->ctx);
        return EBB_OK;
    }
    TRY(status);
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    ebb__free(table->ctx, text);
    *why = json_is_object(root) ? read_root(table, root, &status) : "is damaged";
    json_decref(root);
    if (*why != NULL || status != EBB_OK) {
        ebb__cost_table_fini(table);
    }
    return status;
}

static ebb_status load(cost_table *table, const char *path, const char **why) {
    cost_table stored;
    *why = NULL;
    if (!ebb__file_exists(path)) {
        return EBB_OK;
    }
    ebb__cost_table_init(&stored, table->ctx, table->dev);
    ebb_status status = read_file(&stored, path, why);
    for (int32_t i = 0; status == EBB_OK && i < stored.n_entries; i++) {
        const cost_entry *entry = &stored.entries[i];
        cost_entry *kept = NULL;
        if (ebb__cost_table_find(table, &entry->key) == NULL) {
            status = ebb__cost_table_add(table, &entry->key, &kept);
            if (status == EBB_OK) {
                *kept = *entry;
            }
        }
    }
    ebb__cost_table_fini(&stored);
    return status;
}

ebb_status ebb__cost_store_load(cost_table *table, const char *path) {
    const char *why = NULL;
    TRY(load(table, path, &why));
    if (why != NULL) {
        ebb__log(table->ctx, EBB_LOG_WARN, "%s %s: not used", path, why);
    }
    return EBB_OK;
}

ebb_status ebb__cost_store_save(cost_table *table, const char *path) {
    const char *why = NULL;
    char *text = NULL;
    store_origin origin;
    ebb_status status;
    TRY(load(table, path, &why)); /* what is wrong with it is overwritten */
    TRY(origin_of(table->ctx, table->dev, &origin));
    json_t *root = table_to_json(table, &origin);
    size_t bytes = root != NULL ? json_dumpb(root, NULL, 0, JSON_INDENT(1)) : 0;
    TRY_OUT(ebb__alloc(table->ctx, bytes + 1, 1, &text));
    if (bytes == 0 || json_dumpb(root, text, bytes, JSON_INDENT(1)) != bytes) {
        TRY_OUT(ebb__fail(table->ctx, EBB_NOMEM, "%s: no memory to write it", path));
    }
    TRY_OUT(replace_file(table->ctx, path, text, bytes));
out:
    ebb__free(table->ctx, text);
    json_decref(root);
    return status;
}
