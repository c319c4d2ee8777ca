/* test_cost_store.c - measured times on disk: what is written is what is read; a file that is cut,
 * changed, foreign or nonsense is ignored with one warning and never crashes; memory and disk fail
 * at every place; several processes write at once. */
#include "unit/cost_help.h"

#include "base/file.h"

#include <errno.h>
#include <jansson.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

typedef struct store_room {
    cost_room c;
    char *text; /* the stored file, once it was read; syncing it every time would take long */
    size_t bytes;
    char folder[256], path[COST_PATH_BYTES];
    int warnings;
} store_room;

static void count_warnings(void *user, ebb_log_level level, const char *line) {
    store_room *room = user;
    (void)line;
    room->warnings += level == EBB_LOG_WARN;
}

/* A table of two products, one measured and one estimated, and a folder that is not there yet. */
static void room_init(store_room *room) {
    cost_room_init(&room->c, COST_GRAPH, 2);
    room->warnings = 0;
    room->text = NULL;
    ebb_ctx_on_log(room->c.ctx, count_warnings, room);
    const char *base = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    (void)snprintf(room->folder, sizeof room->folder, "%s/ebb-store-%d", base, (int)getpid());
    assert_ok(room->c.ctx,
              ebb__cost_store_path(room->c.ctx, &room->c.dev, room->folder, room->path));
    cost_entry *entry = cost_add(&room->c, 0, 2);
    entry->n_forms = 3;
    entry->forms[0] = (cost_form){FORM_SLOW, 1.0 / 3};
    entry->forms[1] = (cost_form){FORM_LEAN, 1e-7};
    entry->forms[2] = (cost_form){FORM_FAST, 2};
    entry = cost_add(&room->c, 2, 1);
    entry->estimate = 1.0 / 7;
}

static void room_fini(store_room *room) {
    ebb__free(room->c.ctx, room->text);
    (void)unlink(room->path);
    (void)rmdir(room->folder);
    cost_room_fini(&room->c);
}

static void expect_same(const cost_table *a, const cost_table *b) {
    assert_int_equal(a->n_entries, b->n_entries);
    for (int32_t i = 0; i < a->n_entries; i++) {
        const cost_entry *x = &a->entries[i], *y = ebb__cost_table_find(b, &x->key);
        assert_non_null(y);
        assert_int_equal(x->n_forms, y->n_forms);
        assert_true(x->estimate == y->estimate);
        for (int32_t k = 0; k < x->n_forms; k++) {
            assert_int_equal(x->forms[k].form, y->forms[k].form);
            assert_true(x->forms[k].seconds == y->forms[k].seconds);
        }
    }
}

static void there_and_back(void **state) {
    (void)state;
    store_room room;
    cost_table again;
    room_init(&room);
    ebb__cost_table_init(&again, room.c.ctx, &room.c.dev);
    assert_ok(room.c.ctx, ebb__cost_store_load(&again, room.path)); /* not there: empty */
    assert_int_equal(again.n_entries, 0);
    assert_ok(room.c.ctx, ebb__cost_store_save(&room.c.table, room.path));
    assert_ok(room.c.ctx, ebb__cost_store_load(&again, room.path));
    expect_same(&room.c.table, &again);
    /* What the table knows is not replaced by what is stored. */
    again.entries[0].forms[0].seconds = 5;
    assert_ok(room.c.ctx, ebb__cost_store_load(&again, room.path));
    assert_true(again.entries[0].forms[0].seconds == 5);
    ebb__cost_table_fini(&again);
    assert_int_equal(room.warnings, 0);
    room_fini(&room);
}

/* Another process stored something since this one read the file: both are kept. */
static void saving_keeps_what_others_stored(void **state) {
    (void)state;
    store_room room;
    cost_table other, again;
    cost_entry *entry = NULL;
    room_init(&room);
    ebb__cost_table_init(&other, room.c.ctx, &room.c.dev);
    ebb__cost_table_init(&again, room.c.ctx, &room.c.dev);
    cost_key key = room.c.table.entries[0].key;
    key.m = 99;
    assert_ok(room.c.ctx, ebb__cost_table_add(&other, &key, &entry));
    entry->estimate = 1;
    assert_ok(room.c.ctx, ebb__cost_store_save(&other, room.path));
    assert_ok(room.c.ctx, ebb__cost_store_save(&room.c.table, room.path));
    assert_ok(room.c.ctx, ebb__cost_store_load(&again, room.path));
    assert_int_equal(again.n_entries, 3);
    expect_same(&room.c.table, &again);
    ebb__cost_table_fini(&other);
    ebb__cost_table_fini(&again);
    room_fini(&room);
}

/* ---- files that are not to be believed ---- */

static void write_file(const char *path, const char *text, size_t bytes) {
    (void)unlink(path); /* file systems sync what is truncated and written again */
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* Loads into a fresh table; gives the number of entries. */
static int32_t load_count(store_room *room) {
    cost_table table;
    ebb__cost_table_init(&table, room->c.ctx, &room->c.dev);
    room->warnings = 0;
    assert_ok(room->c.ctx, ebb__cost_store_load(&table, room->path));
    int32_t n = table.n_entries;
    /* Whatever was read, planning with it and writing it again must be safe. */
    for (int i = 0; i < 3; i++) {
        (void)ebb__cost_form(&table, &room->c.dev, &room->c.graph, cost_node(&room->c, i), 0, 2,
                             NULL);
    }
    ebb__cost_table_fini(&table);
    assert_true(ebb_last_error(room->c.ctx)[0] == '\0');
    return n;
}

static void expect_ignored(store_room *room, const char *text, size_t bytes) {
    write_file(room->path, text, bytes);
    int32_t n = load_count(room);
    if (n != 0 || room->warnings != 1) {
        fail_msg("%d entries and %d warnings from: %.*s", (int)n, room->warnings,
                 (int)(bytes < 400 ? bytes : 400), text);
    }
}

static void cut_and_changed(void **state) {
    (void)state;
    store_room room;
    char *text = NULL;
    size_t bytes = 0;
    test_dice dice = {7};
    room_init(&room);
    assert_ok(room.c.ctx, ebb__cost_store_save(&room.c.table, room.path));
    assert_ok(room.c.ctx, ebb__file_read_all(room.c.ctx, room.path, 1 << 20, &text, &bytes));
    for (size_t n = 0; n + 1 < bytes; n++) {
        expect_ignored(&room, text, n);
    }
    for (int i = 0; i < 3000; i++) {
        size_t at = (size_t)test_below(&dice, (int32_t)bytes);
        char old = text[at];
        text[at] = (char)test_below(&dice, 256);
        write_file(room.path, text, bytes);
        int32_t n = load_count(&room);
        /* Blanks between the values may change; nothing else goes unseen. */
        assert_true((n == 2 && room.warnings == 0) || (n == 0 && room.warnings == 1));
        text[at] = old;
    }
    ebb__free(room.c.ctx, text);
    room_fini(&room);
}

static int add_to_hash(const char *text, size_t bytes, void *hash) {
    return XXH3_64bits_update(hash, text, bytes) == XXH_OK ? 0 : -1;
}

/* Writes the root with the right hash: only the contents are wrong. */
static void expect_nonsense(store_room *room, json_t *root) {
    XXH3_state_t hash;
    char digits[17];
    XXH3_64bits_reset(&hash);
    assert_int_equal(json_dump_callback(json_object_get(root, "entries"), add_to_hash, &hash,
                                        JSON_COMPACT | JSON_SORT_KEYS),
                     0);
    (void)snprintf(digits, sizeof digits, "%016llx", (unsigned long long)XXH3_64bits_digest(&hash));
    assert_int_equal(json_object_set_new(root, "hash", json_string(digits)), 0);
    char *text = json_dumps(root, 0);
    expect_ignored(room, text, strlen(text));
    free(text);
    json_decref(root);
}

static json_t *stored(store_room *room) {
    if (room->text == NULL) {
        assert_ok(room->c.ctx, ebb__cost_store_save(&room->c.table, room->path));
        assert_ok(room->c.ctx,
                  ebb__file_read_all(room->c.ctx, room->path, 1 << 20, &room->text, &room->bytes));
    }
    json_t *root = json_loadb(room->text, room->bytes, 0, NULL);
    assert_non_null(root);
    return root;
}

/* The value of the first entry's `key` replaced by JSON text. */
static void expect_bad_value(store_room *room, const char *key, const char *value) {
    json_t *root = stored(room), *entry = json_array_get(json_object_get(root, "entries"), 0);
    json_t *fresh = json_loads(value, JSON_DECODE_ANY, NULL);
    assert_non_null(fresh);
    assert_int_equal(json_object_set_new(entry, key, fresh), 0);
    expect_nonsense(room, root);
}

static void nonsense_with_a_right_hash(void **state) {
    (void)state;
    static const struct {
        const char *key, *value;
    } bad[] = {{"m", "0"},
               {"m", "-5"},
               {"n", "9223372036854775807"},
               {"n", "1.5"},
               {"k", "-1"},
               {"k", "null"},
               {"members", "0"},
               {"members", "4294967297"},
               {"attr", "[0,0,0]"},
               {"attr", "[0,0,0,0,0,0,0,99999999999]"},
               {"attr", "{}"},
               {"kernel", "7"},
               {"estimate", "-1"},
               {"estimate", "1e300"},
               {"forms", "{}"},
               {"forms", "[[7]]"},
               {"forms", "[[7, -1.0]]"},
               {"forms", "[[7, 0]]"},
               {"forms", "[[7, 1e99]]"},
               {"forms", "[[7, \"NaN\"]]"},
               {"forms", "[[7, 1.0], [7, 2.0]]"},
               {"forms", "[[99999999999, 1.0]]"},
               {"forms", "[[0,1],[1,1],[2,1],[3,1],[4,1],[5,1],[6,1],[7,1],[8,1],[9,1],[10,1],"
                         "[11,1],[12,1],[13,1],[14,1],[15,1],[16,1],[17,1],[18,1],[19,1],[20,1],"
                         "[21,1],[22,1],[23,1],[24,1],[25,1]]"}};
    store_room room;
    room_init(&room);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect_bad_value(&room, bad[i].key, bad[i].value);
    }
    json_t *root = stored(&room), *entries = json_object_get(root, "entries");
    assert_int_equal(json_array_append(entries, json_array_get(entries, 0)), 0); /* twice */
    expect_nonsense(&room, root);
    root = stored(&room);
    assert_int_equal(json_object_set_new(root, "format", json_integer(2)), 0);
    expect_nonsense(&room, root);
    root = stored(&room);
    assert_int_equal(json_object_set_new(root, "kernels", json_string("0")), 0);
    expect_nonsense(&room, root);
    room_fini(&room);
}

/* Codes that no kernel of this build knows: kept, never shown to the kernel, never taken. */
static void unknown_forms_and_kernels(void **state) {
    (void)state;
    store_room room;
    cost_table table;
    room_init(&room);
    room.c.table.entries[0].forms[0].form = 123456789;
    assert_ok(room.c.ctx, ebb__cost_store_save(&room.c.table, room.path));
    assert_int_equal(load_count(&room), 2);
    assert_int_equal(room.warnings, 0);
    room.c.dev.n_kernels = 0; /* a build without them */
    ebb__cost_table_init(&table, room.c.ctx, &room.c.dev);
    assert_ok(room.c.ctx, ebb__cost_store_load(&table, room.path));
    assert_int_equal(table.n_entries, 0);
    ebb__cost_table_fini(&table);
    room_fini(&room);
}

static void another_machine(void **state) {
    (void)state;
    store_room room;
    char path[COST_PATH_BYTES];
    room_init(&room);
    assert_ok(room.c.ctx, ebb__cost_store_save(&room.c.table, room.path));
    fake.machine = "another machine";
    assert_ok(room.c.ctx, ebb__cost_store_path(room.c.ctx, &room.c.dev, room.folder, path));
    assert_string_not_equal(path, room.path); /* they share a folder */
    assert_int_equal(load_count(&room), 0);   /* and do not believe each other's files */
    assert_int_equal(room.warnings, 1);
    room_fini(&room);
}

/* ---- faults ---- */

/* Survey, tuning, saving and loading. */
static ebb_status whole_story(cost_room *room, const char *path) {
    cost_limits limits = {.seconds = 600, .bytes = 64 << 10};
    cost_tuned tuned;
    TRY(ebb__cost_store_load(&room->table, path));
    TRY(ebb__cost_survey_add(&room->survey, &room->graph, room->kernels));
    TRY(ebb__cost_tune(&room->survey, &room->table, &limits, &tuned));
    TRY(ebb__cost_store_save(&room->table, path));
    ebb__cost_table_fini(&room->table);
    return ebb__cost_store_load(&room->table, path);
}

/* The text of a good file; free with free(). */
static char *good_text(void) {
    store_room room;
    room_init(&room);
    json_t *root = stored(&room);
    char *text = json_dumps(root, 0);
    json_decref(root);
    room_fini(&room);
    return text;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    char *text = good_text();
    for (int sticky = 0; sticky < 2; sticky++) {
        ebb_status status = EBB_NOMEM;
        uint64_t n = 0;
        while (status != EBB_OK) {
            store_room room;
            room_init(&room);
            assert_ok(room.c.ctx, ebb__file_make_dir(room.c.ctx, room.folder));
            write_file(room.path, text, strlen(text));
            ebb__cost_table_fini(&room.c.table);
            room.c.ctx->mem.fail_at = ++n;
            room.c.ctx->mem.fail_sticky = sticky != 0;
            status = whole_story(&room.c, room.path);
            assert_true(status == EBB_OK || status == EBB_NOMEM);
            assert_true(status == EBB_OK || ebb_last_error(room.c.ctx)[0] != '\0');
            room.c.ctx->mem.fail_at = 0;
            room.c.ctx->mem.fail_sticky = false;
            room_fini(&room);
        }
        assert_true(n > 20);
    }
    free(text);
}

/* A save that fails leaves a whole file, the old or the new one, and nothing beside it. */
static void every_file_operation_may_fail(void **state) {
    (void)state;
    char *text = good_text();
    ebb_status status = EBB_IO;
    uint64_t n = 0, failures = 0;
    while (true) {
        store_room room;
        room_init(&room);
        assert_ok(room.c.ctx, ebb__file_make_dir(room.c.ctx, room.folder));
        write_file(room.path, text, strlen(text));
        cost_add(&room.c, 1, 7)->estimate = 1;
        room.c.ctx->file.fail_at = ++n;
        room.c.ctx->file.fail_errno = ENOSPC;
        uint64_t ops = room.c.ctx->file.ops;
        status = ebb__cost_store_save(&room.c.table, room.path);
        bool reached = room.c.ctx->file.ops - ops >= n;
        room.c.ctx->file.fail_at = 0;
        assert_true(status == EBB_OK || (status == EBB_IO && reached));
        ebb__ctx_clear(room.c.ctx);
        failures += status != EBB_OK;
        int32_t found = load_count(&room);
        assert_true(room.warnings == 0 && (found == 3 || (status != EBB_OK && found == 2)));
        assert_int_equal(unlink(room.path), 0);
        assert_int_equal(rmdir(room.folder), 0); /* empty */
        room_fini(&room);
        if (!reached) {
            break;
        }
    }
    assert_true(failures > 5);
    free(text);
}

static void a_folder_that_cannot_be_made(void **state) {
    (void)state;
    store_room room;
    room_init(&room);
    write_file(room.folder, "a file", 6);
    assert_refused(room.c.ctx, ebb__cost_store_save(&room.c.table, room.path), EBB_IO, "ebb-store");
    assert_int_equal(load_count(&room), 0);
    assert_int_equal(unlink(room.folder), 0);
    room_fini(&room);
}

static void two_processes_write(void **state) {
    (void)state;
    enum { WRITERS = 2, TIMES = 12 };
    store_room room;
    pid_t writers[WRITERS];
    room_init(&room);
    assert_ok(room.c.ctx, ebb__cost_store_save(&room.c.table, room.path));
    for (int w = 0; w < WRITERS; w++) {
        writers[w] = fork();
        assert_true(writers[w] >= 0);
        if (writers[w] == 0) {
            ebb_status status = EBB_OK;
            for (int i = 0; i < TIMES && status == EBB_OK; i++) {
                cost_entry *entry = NULL;
                cost_key key = room.c.table.entries[0].key;
                key.m = 1000 + w * TIMES + i;
                status = ebb__cost_table_add(&room.c.table, &key, &entry);
                if (status == EBB_OK) {
                    entry->estimate = 1;
                    status = ebb__cost_store_save(&room.c.table, room.path);
                }
            }
            _exit(status == EBB_OK && room.warnings == 0 ? 0 : 1);
        }
    }
    for (int i = 0; i < TIMES; i++) {
        assert_true(load_count(&room) >= 2);
        assert_int_equal(room.warnings, 0);
    }
    for (int w = 0; w < WRITERS; w++) {
        int code = -1;
        assert_int_equal(waitpid(writers[w], &code, 0), writers[w]);
        assert_true(WIFEXITED(code) && WEXITSTATUS(code) == 0);
    }
    assert_true(load_count(&room) >= 2 + TIMES);
    room_fini(&room);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(there_and_back),
                                       cmocka_unit_test(saving_keeps_what_others_stored),
                                       cmocka_unit_test(cut_and_changed),
                                       cmocka_unit_test(nonsense_with_a_right_hash),
                                       cmocka_unit_test(unknown_forms_and_kernels),
                                       cmocka_unit_test(another_machine),
                                       cmocka_unit_test(every_allocation_may_fail),
                                       cmocka_unit_test(every_file_operation_may_fail),
                                       cmocka_unit_test(a_folder_that_cannot_be_made),
                                       cmocka_unit_test(two_processes_write)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
