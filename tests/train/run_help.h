/* run_help.h - what the tests of whole training runs share: a room with two small texts and a run
 * folder, settings of a tiny model, an observer that asks to stop at a given poll, and ways to look
 * at and to compare what a run leaves behind. */
#ifndef TESTS_TRAIN_RUN_HELP_H
#define TESTS_TRAIN_RUN_HELP_H

#include "kind/kinds.h"
#include "kind/lm/lm.h"
#include "kind/nmt/nmt.h"
#include "kind/text/options.h"
#include "support/graphs.h"

#include "base/file.h"
#include "data/grammar.h"
#include "store/checkpoint.h"
#include "train/job.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct run_path {
    char text[256];
} run_path;

static inline run_path run_join(const char *dir, const char *name) {
    run_path path;
    int n = snprintf(path.text, sizeof path.text, "%s/%s", dir, name);
    assert_in_range(n, 1, (int)sizeof path.text - 1);
    return path;
}

/* ---- folders and files ---- */

/* Removes a folder, the files in it and the folders one level down. */
static inline void run_remove(const char *dir) {
    struct dirent **names = NULL;
    int n = scandir(dir, &names, NULL, NULL);
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i]->d_name, ".") != 0 && strcmp(names[i]->d_name, "..") != 0) {
            run_path path = run_join(dir, names[i]->d_name);
            if (unlink(path.text) != 0) {
                run_remove(path.text);
            }
        }
        free(names[i]);
    }
    free(names);
    (void)rmdir(dir);
}

typedef struct run_bytes {
    char *data; /* ends with a NUL that is not counted */
    size_t bytes;
} run_bytes;

static inline run_bytes run_read(const char *path) {
    FILE *file = fopen(path, "rb");
    struct stat info;
    if (file == NULL || fstat(fileno(file), &info) != 0) {
        fail_msg("%s cannot be read", path);
        return (run_bytes){0};
    }
    run_bytes all = {malloc((size_t)info.st_size + 1), (size_t)info.st_size};
    assert_non_null(all.data);
    assert_int_equal(fread(all.data, 1, all.bytes, file), all.bytes);
    assert_int_equal(fclose(file), 0);
    all.data[all.bytes] = '\0';
    return all;
}

static inline void run_write(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static inline void run_expect_same(const char *dir_a, const char *dir_b, const char *name) {
    run_bytes a = run_read(run_join(dir_a, name).text), b = run_read(run_join(dir_b, name).text);
    if (a.bytes != b.bytes || memcmp(a.data, b.data, a.bytes) != 0) {
        fail_msg("%s differs between %s and %s", name, dir_a, dir_b);
    }
    free(a.data);
    free(b.data);
}

/* Files of a folder with contents and times, sorted by name. */
enum { SHOT_MOST = 32 };
typedef struct run_shot {
    int n;
    struct {
        char name[64];
        run_bytes content;
        struct stat info;
    } file[SHOT_MOST];
} run_shot;

static inline run_shot run_look(const char *dir) {
    run_shot shot = {0};
    struct dirent **names = NULL;
    int n = scandir(dir, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (names[i]->d_name[0] != '.') {
            assert_true(shot.n < SHOT_MOST && strlen(names[i]->d_name) < 64);
            run_path path = run_join(dir, names[i]->d_name);
            memcpy(shot.file[shot.n].name, names[i]->d_name, strlen(names[i]->d_name) + 1);
            shot.file[shot.n].content = run_read(path.text);
            assert_int_equal(stat(path.text, &shot.file[shot.n].info), 0);
            shot.n++;
        }
        free(names[i]);
    }
    free(names);
    return shot;
}

static inline void run_forget(run_shot *shot) {
    for (int i = 0; i < shot->n; i++) {
        free(shot->file[i].content.data);
    }
    shot->n = 0;
}

/* The same files, contents, times and inodes: nobody wrote anything. */
static inline void run_expect_untouched(const run_shot *before, const char *dir) {
    run_shot now = run_look(dir);
    assert_int_equal(now.n, before->n);
    for (int i = 0; i < now.n; i++) {
        assert_string_equal(now.file[i].name, before->file[i].name);
        assert_int_equal(now.file[i].content.bytes, before->file[i].content.bytes);
        assert_memory_equal(now.file[i].content.data, before->file[i].content.data,
                            now.file[i].content.bytes);
        assert_int_equal(now.file[i].info.st_ino, before->file[i].info.st_ino);
        assert_int_equal(now.file[i].info.st_mtim.tv_sec, before->file[i].info.st_mtim.tv_sec);
        assert_int_equal(now.file[i].info.st_mtim.tv_nsec, before->file[i].info.st_mtim.tv_nsec);
    }
    run_forget(&now);
}

/* Makes `dir` hold exactly the files of the shot. */
static inline void run_restore(const run_shot *shot, const char *dir) {
    run_remove(dir);
    assert_int_equal(mkdir(dir, 0777), 0);
    for (int i = 0; i < shot->n; i++) {
        run_write(run_join(dir, shot->file[i].name).text, shot->file[i].content.data,
                  shot->file[i].content.bytes);
    }
}

/* ---- metrics ---- */

/* metrics.jsonl without the values that depend on time and threads. Free with free(). */
static inline char *run_metrics(const char *dir) {
    run_bytes all = run_read(run_join(dir, "metrics.jsonl").text);
    static const char *const keys[] = {"_per_second\":", "\"memory_bytes\":"};
    char *to = all.data;
    for (const char *from = all.data; *from != '\0';) {
        if (strncmp(from, keys[0], strlen(keys[0])) == 0 ||
            strncmp(from, keys[1], strlen(keys[1])) == 0) {
            from += strcspn(from, ",}");
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
    return all.data;
}

/* The lines as one JSON array. Free with json_decref. */
static inline json_t *run_metric_lines(const char *dir) {
    run_bytes all = run_read(run_join(dir, "metrics.jsonl").text);
    json_t *lines = json_array();
    for (char *line = all.data; *line != '\0';) {
        char *end = strchr(line, '\n');
        assert_non_null(end);
        json_t *object = json_loadb(line, (size_t)(end - line), JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(object);
        assert_int_equal(json_array_append_new(lines, object), 0);
        line = end + 1;
    }
    free(all.data);
    return lines;
}

static inline double run_number(const json_t *lines, size_t line, const char *key) {
    const json_t *value = json_object_get(json_array_get(lines, line), key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

/* ---- a room ---- */

typedef struct run_room {
    char dir[64];
    run_path train, valid, out, other; /* texts; two run folders */
    run_path train_target, valid_target;
    train_settings s;
    const char *math;
} run_room;

#define RUN_CONFIG "hidden = 6\nepochs = 2\n"
#define RUN_MATH "hidden = 6\nlr = 0.5\n"

static inline run_room *run_room_new(uint64_t sentences, uint64_t valid_sentences) {
    run_room *room = calloc(1, sizeof *room);
    assert_non_null(room);
    /* In memory where that is possible: a run syncs often. */
    (void)snprintf(room->dir, sizeof room->dir, "%s/ebb-run-XXXXXX",
                   access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(room->dir));
    room->train = run_join(room->dir, "train.txt");
    room->valid = run_join(room->dir, "valid.txt");
    room->out = run_join(room->dir, "out");
    room->other = run_join(room->dir, "other");
    ebb_ctx *ctx = test_ctx_new();
    assert_ok(ctx, ebb__grammar_write(ctx, room->train.text, sentences, 1));
    assert_ok(ctx, ebb__grammar_write(ctx, room->valid.text, valid_sentences, 2));
    test_ctx_free(ctx);
    room->math = RUN_MATH;
    room->s = (train_settings){.kind = &ebb__kind_lm,
                               .train_path = room->train.text,
                               .valid_path = room->valid.text,
                               .out_dir = room->out.text,
                               .vocab = 24,
                               .layers = 1,
                               .hidden = 6,
                               .batch = 3,
                               .bptt = 5,
                               .lr = 0.5,
                               .beta1 = 0.9,
                               .beta2 = 0.999,
                               .eps = 1e-8,
                               .clip = 1,
                               .lr_patience = 1,
                               .lr_factor = 0.5,
                               .epochs = 2,
                               .log_every = 4,
                               .seed = 7,
                               .threads = 1,
                               .memory = {.form = MEMORY_BYTES, .bytes = 64 << 20}};
    return room;
}

static inline void run_room_free(run_room *room) {
    run_remove(room->dir);
    free(room);
}

/* Two texts, line by line; sentences of 1 to `longest` words, or all of that length. */
static inline void run_write_pairs(const char *source, const char *target, int lines, int longest,
                                   bool all) {
    FILE *files[] = {fopen(source, "w"), fopen(target, "w")};
    assert_true(files[0] != NULL && files[1] != NULL);
    for (int i = 0; i < lines; i++) {
        int words = all ? longest : 1 + i * 7 % longest;
        for (int k = 0; k <= words; k++) {
            (void)fprintf(files[0], k == words ? "\n" : "s%d ", (i + k) % 5);
            (void)fprintf(files[1], k == words ? "\n" : "t%d ", (i + words - 1 - k) % 5);
        }
    }
    assert_int_equal(fclose(files[0]) | fclose(files[1]), 0);
}

/* A translation model. */
static inline run_room *run_pairs_room(int lines, int valid_lines, int longest, bool all) {
    run_room *room = run_room_new(1, 1);
    room->train_target = run_join(room->dir, "train.tgt");
    room->valid_target = run_join(room->dir, "valid.tgt");
    run_write_pairs(room->train.text, room->train_target.text, lines, longest, all);
    run_write_pairs(room->valid.text, room->valid_target.text, valid_lines, longest, all);
    room->s.kind = &ebb__kind_nmt;
    room->s.train_target = room->train_target.text;
    room->s.valid_target = room->valid_target.text;
    room->s.max_len = 20;
    room->s.bucket = BUCKET_OPTIMAL;
    room->s.shapes = 4;
    room->s.enc_layers = room->s.dec_layers = 1;
    room->s.feed = true;
    room->s.optimizer = UPDATE_ADAM;
    room->s.lr = 0.02;
    return room;
}

/* A language model by sentence, on the sources of such texts. */
static inline run_room *run_lines_room(int lines, int valid_lines, int longest, bool all) {
    run_room *room = run_pairs_room(lines, valid_lines, longest, all);
    room->s.kind = &ebb__kind_lm;
    room->s.train_target = room->s.valid_target = NULL;
    room->s.by_sentence = true;
    return room;
}

/* Everything that is carried from step to step is in play. */
static inline run_room *run_busy_room(void) {
    run_room *room = run_room_new(8, 3);
    room->s.momentum = 0.9;
    room->s.dropout = 0.3;
    room->s.schedule = SCHEDULE_PLATEAU;
    room->s.lr_patience = 0;
    room->s.lr = 2;
    room->s.epochs = 3;
    room->s.save_every = 3;
    return room;
}

/* Asks to stop at the poll number `at` (from 1); notes what it was told. */
typedef struct run_watch {
    int polls, at;
    int planned, reports;
    uint64_t least_bytes;
    double loss; /* sum over the steps since the last report */
    int losses;
    bool mean; /* reports are the mean of these: from the start of a run on */
    job_observer observer;
} run_watch;

static inline bool run_watch_stop(void *user) {
    run_watch *watch = user;
    return ++watch->polls == watch->at;
}
static inline ebb_status run_watch_planned(void *user, const ebb_plan *plan) {
    run_watch *watch = user;
    watch->planned++;
    watch->least_bytes = plan->least_bytes;
    return EBB_OK;
}
static inline void run_watch_progress(void *user, const job_progress *progress, bool tick) {
    run_watch *watch = user;
    assert_true(progress->step <= progress->steps && progress->epoch <= progress->epochs);
    if (tick && strcmp(progress->phase, "train") != 0) {
        return;
    }
    watch->loss += tick ? progress->loss : 0;
    watch->losses += tick;
    if (!tick) {
        watch->reports++;
        assert_true(!watch->mean || progress->loss == watch->loss / watch->losses);
        watch->loss = 0;
        watch->losses = 0;
    }
}
static inline void run_watch_init(run_watch *watch, int at) {
    *watch = (run_watch){.at = at};
    watch->observer = (job_observer){.user = watch,
                                     .planned = run_watch_planned,
                                     .progress = run_watch_progress,
                                     .stop = run_watch_stop};
}

/* Runs the room's settings; the context is new and must end empty. *error (may be NULL) gets the
 * sentence. */
typedef struct run_error {
    char text[1024];
} run_error;
static inline ebb_status run_go(const run_room *room, run_watch *watch, job_train_result *result,
                                run_error *error) {
    ebb_ctx *ctx = test_ctx_new();
    ebb_status status = ebb__job_train(ctx, &room->s, RUN_CONFIG, room->math,
                                       watch != NULL ? &watch->observer : NULL, result);
    (void)snprintf(error->text, sizeof error->text, "%s", ebb_last_error(ctx));
    assert_true((status == EBB_OK) == (error->text[0] == '\0'));
    assert_null(strchr(error->text, '\n'));
    test_ctx_free(ctx);
    return status;
}

static inline job_train_result run_ok(const run_room *room) {
    job_train_result result;
    run_error error;
    ebb_status status = run_go(room, NULL, &result, &error);
    if (status != EBB_OK) {
        fail_msg("%s: status %d: %s", room->s.out_dir, (int)status, error.text);
    }
    return result;
}

static inline void run_refused(const run_room *room, ebb_status want, const char *part) {
    job_train_result result;
    run_error error;
    ebb_status status = run_go(room, NULL, &result, &error);
    if (status != want || strstr(error.text, part) == NULL) {
        fail_msg("status %d (wanted %d), \"%s\" (wanted \"%s\")", (int)status, (int)want,
                 error.text, part);
    }
}

/* Both folders hold a finished run of `step` steps with the same results. */
static inline void run_expect_same_end(const char *a, const char *b, int64_t step) {
    char state[64];
    (void)snprintf(state, sizeof state, "ckpt-%lld.state.safetensors", (long long)step);
    run_expect_same(a, b, "last.safetensors");
    run_expect_same(a, b, "best.safetensors");
    static const char *const lore[] = {"vocab.txt", "vocab.src.txt", "vocab.tgt.txt",
                                       "images.json"};
    int found = 0;
    for (size_t i = 0; i < sizeof lore / sizeof *lore; i++) {
        if (access(run_join(a, lore[i]).text, F_OK) == 0) {
            run_expect_same(a, b, lore[i]);
            found++;
        }
    }
    assert_true(found > 0);
    run_expect_same(a, b, "config");
    run_expect_same(a, b, state);
    char *lines_a = run_metrics(a), *lines_b = run_metrics(b);
    assert_string_equal(lines_a, lines_b);
    free(lines_a);
    free(lines_b);
}

/* The newest whole checkpoint of a folder; -1: none. */
static inline int64_t run_checkpoint(const char *dir) {
    ebb_ctx *ctx = test_ctx_new();
    checkpoint_info info = {0};
    assert_ok(ctx, ebb__checkpoint_peek(ctx, dir, &info));
    int64_t step = info.found ? (int64_t)info.step : -1;
    ebb__checkpoint_info_fini(&info);
    test_ctx_free(ctx);
    return step;
}

/* A whole run in the other folder, to compare with; the settings' folder is the first again. */
static inline job_train_result run_other(run_room *room, run_watch *watch) {
    job_train_result whole;
    run_error error;
    run_watch_init(watch, -1);
    room->s.out_dir = room->other.text;
    ebb_status status = run_go(room, watch, &whole, &error);
    if (status != EBB_OK) {
        fail_msg("status %d: %s", (int)status, error.text);
    }
    assert_int_equal(whole.planned_peak_bytes, whole.measured_peak_bytes);
    room->s.out_dir = room->out.text;
    return whole;
}

/* Stopped once at every poll, then gone on with: always the end of the whole run. */
static inline void run_expect_stops_to_matter_not(run_room *room) {
    run_watch whole;
    int64_t steps = run_other(room, &whole).steps;
    assert_true(whole.polls > steps);
    for (int at = 1; at <= whole.polls; at++) {
        run_watch watch;
        job_train_result result;
        run_error error;
        run_remove(room->out.text);
        run_watch_init(&watch, at);
        assert_int_equal(run_go(room, &watch, &result, &error), EBB_STOPPED);
        room->s.threads = 1 + at % 2;
        result = run_ok(room);
        assert_true(result.resumed);
        run_expect_same_end(room->out.text, room->other.text, steps);
    }
}

/* Stopped half way, and gone on with other threads, a run ends as if it had not been. */
static inline void run_expect_stop_to_matter_not(run_room *room) {
    run_watch whole, watch;
    job_train_result result;
    run_error error;
    int64_t steps = run_other(room, &whole).steps;
    run_watch_init(&watch, whole.polls / 2);
    room->s.threads = 2;
    assert_int_equal(run_go(room, &watch, &result, &error), EBB_STOPPED);
    (void)run_ok(room);
    run_expect_same_end(room->out.text, room->other.text, steps);
}

/* Of a text with one sentence: empty rows count for nothing, in a batch of four as in one of one.
 */
static inline void run_expect_empty_rows_to_matter_not(run_room *room) {
    room->s.epochs = 1;
    room->s.lr = 0;
    room->s.batch = 1;
    job_train_result one = run_ok(room);
    room->s.batch = 4;
    room->s.out_dir = room->other.text;
    job_train_result four = run_ok(room);
    assert_int_equal(one.steps, 1);
    assert_int_equal(four.steps, 1);
    assert_true(one.loss == four.loss && one.valid.at[0] == four.valid.at[0]);
}

/* One byte less than the least budget is refused, with the least in digits. */
static inline void run_refused_below(run_room *room, uint64_t least) {
    char digits[32];
    room->s.memory.bytes = least - 1;
    (void)snprintf(digits, sizeof digits, " %llu ", (unsigned long long)least);
    run_refused(room, EBB_BUDGET, digits);
}

/* ---- what is written ---- */

/* Text as it was written, and a NUL behind it. */
typedef struct run_output {
    char text[4096];
    size_t bytes;
} run_output;

/* generate_fn. */
static inline bool run_keep(void *user, const char *text, size_t bytes) {
    run_output *output = user;
    assert_true(bytes < sizeof output->text - output->bytes);
    memcpy(output->text + output->bytes, text, bytes);
    output->bytes += bytes;
    output->text[output->bytes] = '\0';
    return true;
}

#endif
