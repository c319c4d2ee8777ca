/* test_cost_store.c - measured times on disk: what is written is what is read; a file that is cut,
 * changed, foreign or nonsense is ignored with one warning and never crashes; memory and disk fail
 * at every place; several processes write at once. */
#include "unit/cost_help.h"

#include "base/file.h"
#include "cost/line.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
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
    entry->loaded = 2;
}

static void room_fini(store_room *room) {
    ebb__free(room->c.ctx, room->text);
    (void)unlink(room->path);
    (void)rmdir(room->folder);
    cost_room_fini(&room->c);
}

/* All that the file holds. */
static ebb_status load_all(cost_table *table, const char *path) {
    bool stale = false;
    return ebb__cost_store_load(table, path, NULL, &stale);
}

/* All that a has, b has too. */
static void expect_known(const cost_table *a, const cost_table *b) {
    for (int32_t i = 0; i < a->n_entries; i++) {
        const cost_entry *x = &a->entries[i], *y = ebb__cost_table_find(b, &x->key);
        assert_non_null(y);
        assert_int_equal(x->n_forms, y->n_forms);
        assert_true(x->estimate == y->estimate);
        assert_int_equal(x->loaded, y->loaded);
        for (int32_t k = 0; k < x->n_forms; k++) {
            assert_int_equal(x->forms[k].form, y->forms[k].form);
            assert_true(x->forms[k].seconds == y->forms[k].seconds);
        }
    }
}

static void expect_same(const cost_table *a, const cost_table *b) {
    assert_int_equal(a->n_entries, b->n_entries);
    expect_known(a, b);
}

static void there_and_back(void **state) {
    (void)state;
    store_room room;
    cost_table again;
    room_init(&room);
    ebb__cost_table_init(&again, room.c.ctx, &room.c.dev);
    assert_ok(room.c.ctx, load_all(&again, room.path)); /* not there: empty */
    assert_int_equal(again.n_entries, 0);
    assert_ok(room.c.ctx, ebb__cost_store_save(&room.c.table, room.path));
    assert_ok(room.c.ctx, load_all(&again, room.path));
    expect_same(&room.c.table, &again); /* also of times that no text holds exactly */
    /* What the table knows is not replaced by what is stored. */
    again.entries[0].forms[0].seconds = 5;
    assert_ok(room.c.ctx, load_all(&again, room.path));
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
    key.attr[9] = -3; /* a line has eight attributes, and more where the op has more */
    assert_ok(room.c.ctx, ebb__cost_table_add(&other, &key, &entry));
    entry->estimate = 1;
    assert_ok(room.c.ctx, ebb__cost_store_save(&other, room.path));
    assert_ok(room.c.ctx, ebb__cost_store_save(&room.c.table, room.path));
    assert_ok(room.c.ctx, load_all(&again, room.path));
    assert_int_equal(again.n_entries, 3);
    expect_known(&room.c.table, &again);
    expect_known(&other, &again);
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
    assert_ok(room->c.ctx, load_all(&table, room->path));
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
        /* Nothing goes unseen but that a byte was written over by itself. */
        bool same = text[at] == old;
        assert_true(n == (same ? 2 : 0) && room.warnings == (same ? 0 : 1));
        text[at] = old;
    }
    ebb__free(room.c.ctx, text);
    room_fini(&room);
}

/* The text of a stored file with `old` replaced by `fresh` once, and the hash of that: only the
 * contents are wrong. */
static void expect_nonsense(store_room *room, const char *old, const char *fresh) {
    char text[8192], *last = NULL;
    if (room->text == NULL) {
        assert_ok(room->c.ctx, ebb__cost_store_save(&room->c.table, room->path));
        assert_ok(room->c.ctx,
                  ebb__file_read_all(room->c.ctx, room->path, 4096, &room->text, &room->bytes));
    }
    const char *at = strstr(room->text, old);
    assert_non_null(at);
    (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - room->text), room->text, fresh,
                   at + strlen(old));
    last = strstr(text, "], \"hash\"");
    assert_non_null(last);
    XXH64_hash_t hash = XXH3_64bits(text, (size_t)(last - text));
    (void)snprintf(last, 64, "], \"hash\": \"%016llx\"}\n", (unsigned long long)hash);
    if (strcmp(old, fresh) == 0) {
        assert_string_equal(text, room->text); /* nothing else was changed */
        return;
    }
    expect_ignored(room, text, strlen(text));
}

static void nonsense_with_a_right_hash(void **state) {
    (void)state;
    /* The first entry is a product of 12 x 20 x 20 by two members; FORM_SLOW is 7. */
    static const struct {
        const char *old, *fresh;
    } bad[] = {{"\"m\": 12", "\"m\": 0"},
               {"\"m\": 12", "\"m\": -5"},
               {"\"m\": 12", "\"m\": +12"},
               {"\"m\": 12", "\"m\": 012"},
               {"\"m\": 12", "\"m\":  12"},
               {"\"m\": 12", "\"m\": "},
               {"\"m\": 12", "\"m\": 12, \"m\": 12"},
               {"\"n\": 20", "\"n\": 9223372036854775807"},
               {"\"n\": 20", "\"n\": 9223372036854775808"},
               {"\"n\": 20", "\"n\": 99999999999999999999999999999999999999"},
               {"\"n\": 20", "\"n\": 1.5"},
               {"\"k\": 20", "\"k\": -1"},
               {"\"k\": 20", "\"k\": null"},
               {"\"members\": 2", "\"members\": 0"},
               {"\"members\": 2", "\"members\": 4294967297"},
               {"\"attr\": [", "\"attr\": [0, "},
               {"\"attr\": [0, ", "\"attr\": ["},
               {"\"attr\": [0, ", "\"attr\": [99999999999, "},
               {"\"attr\": [", "\"attr\": [0, 0, 0, 0, 0, 0, 0, 0, 1, "},
               {"\"attr\": [", "\"attr\": {"},
               {"\"matmul.fake\"", "7"},
               {"\"matmul.fake\"", "\"matmul.fake"},
               {"\"loaded\": 0", "\"loaded\": 4"},
               {"\"estimate\": 0", "\"estimate\": -1"},
               {"\"estimate\": 0", "\"estimate\": 1e300"},
               {"\"forms\": [[7, ", "\"forms\": {[7, "},
               {"[[7, ", "[[7], [8, "},
               {"[[7, ", "[[7, -1], [8, "},
               {"[[7, ", "[[7, 0], [8, "},
               {"[[7, ", "[[7, 1000000000000001], [8, "},
               {"[[7, ", "[[7, NaN], [8, "},
               {"[[7, ", "[[300, "},
               {"[[7, ", "[[99999999999, "},
               {"[[7, ",
                "[[1, 1], [2, 1], [3, 1], [4, 1], [5, 1], [6, 1], [17, 1], [8, 1], [9, 1], "
                "[10, 1], [11, 1], [12, 1], [13, 1], [14, 1], [15, 1], [16, 1], [27, 1], "
                "[18, 1], [19, 1], [20, 1], [21, 1], [22, 1], [7, "},
               {"\"entries\": [\n", "\"entries\": [\n\n"},
               {"\"format\": 2", "\"format\": 1"},
               {"\"kernels\": \"", "\"kernels\": \"0"},
               {"\"device\": \"", "\"device\": \"not "}};
    store_room room;
    room_init(&room);
    expect_nonsense(&room, "\"m\": 12", "\"m\": 12");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect_nonsense(&room, bad[i].old, bad[i].fresh);
    }
    /* One product twice: the first line once more. */
    char line[2048];
    const char *begin = strchr(room.text, '\n') + 1, *end = strchr(begin, '\n');
    (void)snprintf(line, sizeof line, "[\n%.*s\n{", (int)(end - begin), begin);
    expect_nonsense(&room, "[\n{", line);
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
    assert_ok(room.c.ctx, load_all(&table, room.path));
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
    TRY(load_all(&room->table, path));
    TRY(ebb__cost_survey_add(&room->survey, &room->graph, room->kernels));
    TRY(ebb__cost_tune(&room->survey, &room->table, &limits, &tuned));
    TRY(ebb__cost_store_save(&room->table, path));
    ebb__cost_table_fini(&room->table);
    return load_all(&room->table, path);
}

/* The text of a good file; free with free(). */
static char *good_text(void) {
    store_room room;
    room_init(&room);
    assert_ok(room.c.ctx, ebb__cost_store_save(&room.c.table, room.path));
    assert_ok(room.c.ctx,
              ebb__file_read_all(room.c.ctx, room.path, 1 << 20, &room.text, &room.bytes));
    char *text = strdup(room.text);
    assert_non_null(text);
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

/* ---- large stores ---- */

/* A file of `n` products with five forms each, of which the last two are those of the room's table;
 * gives its bytes. */
static long write_large(store_room *room, int32_t n) {
    XXH3_state_t *hash = XXH3_createState();
    char line[COST_LINE_BYTES], header[1024] = "";
    assert_ok(room->c.ctx, ebb__cost_store_save(&room->c.table, room->path));
    FILE *file = fopen(room->path, "rb");
    assert_non_null(file);
    assert_non_null(fgets(header, sizeof header, file));
    assert_int_equal(fclose(file), 0);
    file = fopen(room->path, "wb");
    assert_non_null(file);
    assert_int_equal(XXH3_64bits_reset(hash), XXH_OK);
    assert_true(fputs(header, file) >= 0);
    assert_int_equal(XXH3_64bits_update(hash, header, strlen(header)), XXH_OK);
    for (int32_t i = 0; i < n; i++) {
        cost_entry entry = room->c.table.entries[i == n - 2 ? 0 : 1];
        if (i < n - 2) {
            entry.key.m = 1000 + i;
            entry.n_forms = 5;
            for (int32_t k = 0; k < 5; k++) {
                entry.forms[k] = (cost_form){16000 + k, 1e-5 + 1e-9 * (k + i)};
            }
        }
        ebb__cost_line_write(&room->c.dev, &entry, line);
        (void)strcat(line, i == n - 1 ? "\n" : ",\n");
        assert_true(fputs(line, file) >= 0);
        assert_int_equal(XXH3_64bits_update(hash, line, strlen(line)), XXH_OK);
    }
    assert_true(fprintf(file, "], \"hash\": \"%016llx\"}\n",
                        (unsigned long long)XXH3_64bits_digest(hash)) > 0);
    long bytes = ftell(file);
    assert_int_equal(fclose(file), 0);
    (void)XXH3_freeState(hash);
    return bytes;
}

enum { LITTLE = 384 << 10 }; /* one chunk of a region, and a buffer */

/* What a call adds to the counted memory at most. */
static uint64_t begin_peak(ebb_ctx *ctx) {
    ctx->mem.peak_bytes = ctx->mem.live_bytes;
    return ctx->mem.live_bytes;
}

/* Of a large file a run holds what it needs, and keeps what was useful last. */
static void large_stores_take_little_memory(void **state) {
    (void)state;
    static const int32_t sizes[] = {10000, 30000};
    for (size_t i = 0; i < 2; i++) {
        store_room room;
        cost_table again;
        bool stale = false;
        room_init(&room);
        ebb__cost_table_init(&again, room.c.ctx, &room.c.dev);
        long bytes = write_large(&room, sizes[i]);
        uint64_t before = begin_peak(room.c.ctx);
        assert_ok(room.c.ctx, ebb__cost_store_load(&again, room.path, &room.c.table, &stale));
        assert_true(room.c.ctx->mem.peak_bytes - before < LITTLE);
        expect_same(&room.c.table, &again);
        assert_int_equal(stale, bytes > COST_STORE_BYTES / 2); /* they are its last entries */

        before = begin_peak(room.c.ctx);
        assert_ok(room.c.ctx, ebb__cost_store_save(&again, room.path));
        assert_true(room.c.ctx->mem.peak_bytes - before < LITTLE);
        struct stat info;
        assert_int_equal(stat(room.path, &info), 0);
        assert_true(info.st_size <= COST_STORE_BYTES);
        assert_true(info.st_size + COST_LINE_BYTES >
                    (bytes < COST_STORE_BYTES ? bytes : COST_STORE_BYTES));
        assert_ok(room.c.ctx, ebb__cost_store_load(&again, room.path, &room.c.table, &stale));
        assert_false(stale); /* they are its first now */
        int32_t kept = load_count(&room);
        assert_int_equal(room.warnings, 0);
        assert_true(bytes <= COST_STORE_BYTES ? kept == sizes[i] : kept < sizes[i] && kept > 5000);
        /* The oldest are gone, not the youngest. */
        cost_table all;
        ebb__cost_table_init(&all, room.c.ctx, &room.c.dev);
        assert_ok(room.c.ctx, load_all(&all, room.path));
        for (int32_t k = 2; k < all.n_entries; k++) {
            assert_int_equal(all.entries[k].key.m, 1000 + k - 2);
        }
        ebb__cost_table_fini(&all);
        ebb__cost_table_fini(&again);
        room_fini(&room);
    }
}

/* Files that are long, but none of ours. */
static void long_files_are_not_held(void **state) {
    (void)state;
    store_room room;
    char *text = malloc(3 << 20);
    assert_non_null(text);
    room_init(&room);
    assert_ok(room.c.ctx, ebb__file_make_dir(room.c.ctx, room.folder));
    memset(text, '{', 3 << 20);
    uint64_t before = begin_peak(room.c.ctx);
    expect_ignored(&room, text, 3 << 20); /* a line without an end */
    memset(text, '\n', 3 << 20);
    expect_ignored(&room, text, 3 << 20);
    assert_int_equal(truncate(room.path, INT64_C(1) << 40), 0);
    assert_int_equal(load_count(&room), 0);
    assert_int_equal(room.warnings, 1);
    assert_true(room.c.ctx->mem.peak_bytes - before < LITTLE);
    free(text);
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
                                       cmocka_unit_test(two_processes_write),
                                       cmocka_unit_test(large_stores_take_little_memory),
                                       cmocka_unit_test(long_files_are_not_held)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
