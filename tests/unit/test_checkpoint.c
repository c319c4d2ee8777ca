/* test_checkpoint.c - generations: kept, found, repaired; every file call failed; the writer killed
 * at every system call, after which the resumed run must leave the same folder as an unbroken one.
 */
#include "store/checkpoint.h"

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct fixture {
    ebb_ctx *ctx;
    char root[64], dir[96], other[96];
    int warnings;
    char warning[1024];
} fixture;

static void keep_warning(void *user, ebb_log_level level, const char *line) {
    fixture *f = user;
    f->warnings += level == EBB_LOG_WARN;
    snprintf(f->warning, sizeof f->warning, "%s", line);
}

static int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    if (!f) {
        return -1;
    }
    /* in memory where that can be: the tests sync and rename thousands of times */
    snprintf(f->root, sizeof f->root, "%s/ebb-checkpoint-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(f->root) || ebb_ctx_new(&f->ctx) != EBB_OK) {
        return -1;
    }
    ebb_ctx_on_log(f->ctx, keep_warning, f);
    snprintf(f->dir, sizeof f->dir, "%s/run", f->root);
    snprintf(f->other, sizeof f->other, "%s/unbroken", f->root);
    *state = f;
    return mkdir(f->dir, 0777) | mkdir(f->other, 0777);
}

static void empty_dir(const char *dir) {
    DIR *stream = opendir(dir);
    struct dirent *entry;
    assert_non_null(stream);
    while ((entry = readdir(stream)) != NULL) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (entry->d_name[0] != '.') {
            assert_int_equal(unlink(path), 0);
        }
    }
    closedir(stream);
}

static int teardown(void **state) {
    fixture *f = *state;
    int leaked = f->ctx->mem.live_blocks != 0;
    empty_dir(f->dir);
    empty_dir(f->other);
    rmdir(f->dir);
    rmdir(f->other);
    rmdir(f->root);
    ebb_ctx_free(f->ctx);
    free(f);
    return leaked ? -1 : 0;
}

/* ---- a run whose every number follows from the step --------------------------------------- */

static ebb_status save(ebb_ctx *ctx, const char *dir, uint64_t step, bool best) {
    float weights[8], moments[8];
    int64_t position = (int64_t)step * 7;
    for (int i = 0; i < 8; i++) {
        weights[i] = (float)step + (float)i;
        moments[i] = -weights[i];
    }
    st_entry w = {
        .name = "out.weight", .dtype = ST_F32, .rank = 2, .dims = {2, 4}, .data = weights};
    st_entry s[] = {
        {.name = "adam.m", .dtype = ST_F32, .rank = 2, .dims = {2, 4}, .data = moments},
        {.name = "position", .dtype = ST_I64, .rank = 0, .data = &position},
    };
    json_t *train = json_pack("{s:I, s:f}", "position", (json_int_t)position, "lr", 0.1);
    if (!train) {
        return EBB_NOMEM;
    }
    ebb_status status = ebb__checkpoint_save(
        ctx, dir, step,
        &(checkpoint_parts){.weights = &w, .n_weights = 1, .state = s, .n_state = 2}, train, best);
    json_decref(train);
    return status;
}

/* Finds, checks that what is found is the step's, and tells the step (0: none). */
static uint64_t found(fixture *f, const char *dir) {
    checkpoint_info info;
    st_reader reader;
    float weights[8];
    int64_t position;
    ebb_status status = ebb__checkpoint_find(f->ctx, dir, &info);
    if (status != EBB_OK) {
        fail_msg("find: %s", ebb_last_error(f->ctx));
    }
    uint64_t step = info.step;
    if (info.found) {
        assert_int_equal(json_integer_value(json_object_get(info.train, "position")), 7 * step);
        assert_true(json_real_value(json_object_get(info.train, "lr")) == 0.1);
        assert_int_equal(ebb__checkpoint_open_weights(f->ctx, dir, &info, &reader), EBB_OK);
        assert_int_equal(ebb__safetensors_read(&reader,
                                               ebb__safetensors_find(&reader, "out.weight"),
                                               weights, sizeof weights),
                         EBB_OK);
        assert_true(weights[3] == (float)step + 3);
        ebb__safetensors_close(&reader);
        assert_int_equal(ebb__checkpoint_open_state(f->ctx, dir, &info, &reader), EBB_OK);
        assert_int_equal(ebb__safetensors_read(&reader, ebb__safetensors_find(&reader, "position"),
                                               &position, sizeof position),
                         EBB_OK);
        assert_int_equal(position, 7 * step);
        ebb__safetensors_close(&reader);
    }
    ebb__checkpoint_info_fini(&info);
    return step;
}

static void save_ok(fixture *f, uint64_t step, bool best) {
    if (save(f->ctx, f->dir, step, best) != EBB_OK) {
        fail_msg("save: %s", ebb_last_error(f->ctx));
    }
}

static bool has(const char *dir, const char *name) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static void damage(const char *dir, const char *name, long offset) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, offset, offset < 0 ? SEEK_END : SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    fputc(byte ^ 4, file);
    fclose(file);
}

/* First float of `name`'s weights: which step it points at. */
static int points_at(const char *dir, const char *name) {
    char path[400];
    float first = -1;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        return -1;
    }
    assert_int_equal(fseek(file, -32, SEEK_END), 0);
    assert_int_equal(fread(&first, sizeof first, 1, file), 1);
    fclose(file);
    return (int)first;
}

static int by_text(const void *a, const void *b) {
    return strcmp(a, b);
}

/* Names and bytes of all files of a folder as one text. */
static size_t picture(const char *dir, char *out, size_t room) {
    char names[32][256];
    size_t n = 0, used = 0;
    DIR *stream = opendir(dir);
    struct dirent *entry;
    assert_non_null(stream);
    while ((entry = readdir(stream)) != NULL) {
        if (entry->d_name[0] != '.') {
            assert_in_range(n, 0, 31);
            snprintf(names[n++], sizeof names[0], "%s", entry->d_name);
        }
    }
    closedir(stream);
    qsort(names, n, sizeof names[0], by_text);
    for (size_t i = 0; i < n; i++) {
        char path[400];
        used += (size_t)snprintf(out + used, room - used, "\n[%s]\n", names[i]);
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        used += fread(out + used, 1, room - used, file);
        assert_true(used < room);
        fclose(file);
    }
    return used;
}

static void assert_same_dirs(const char *a, const char *b) {
    static char x[1 << 16], y[1 << 16];
    size_t n_x = picture(a, x, sizeof x), n_y = picture(b, y, sizeof y);
    assert_int_equal(n_x, n_y);
    assert_memory_equal(x, y, n_x);
}

/* ---- keeping and finding ------------------------------------------------------------------ */

static void nothing_there(void **state) {
    fixture *f = *state;
    checkpoint_info info;
    assert_int_equal(found(f, f->dir), 0);
    assert_int_equal(ebb__checkpoint_find(f->ctx, "/nonexistent/run", &info), EBB_OK);
    assert_false(info.found);
    ebb__checkpoint_info_fini(&info);
}

static void newest_two_and_best_are_kept(void **state) {
    fixture *f = *state;
    for (uint64_t step = 1; step <= 6; step++) {
        save_ok(f, step, step == 2);
        assert_int_equal(found(f, f->dir), step);
        assert_int_equal(points_at(f->dir, "last.safetensors"), step);
        assert_int_equal(points_at(f->dir, "best.safetensors"), step < 2 ? -1 : 2);
    }
    for (uint64_t step = 1; step <= 6; step++) {
        static const char *const suffixes[] = {".safetensors", ".state.safetensors", ".json"};
        for (int i = 0; i < 3; i++) {
            char name[64];
            snprintf(name, sizeof name, "ckpt-%d%s", (int)step, suffixes[i]);
            assert_int_equal(has(f->dir, name), step >= 5 || step == 2);
        }
    }
    checkpoint_info info;
    assert_int_equal(ebb__checkpoint_peek(f->ctx, f->dir, &info), EBB_OK);
    assert_true(info.has_best);
    assert_int_equal(info.best_step, 2);
    ebb__checkpoint_info_fini(&info);
    save_ok(f, 7, true);
    assert_true(has(f->dir, "ckpt-2.safetensors")); /* 6 still calls it best */
    save_ok(f, 8, false);
    assert_false(has(f->dir, "ckpt-2.safetensors"));
    assert_int_equal(points_at(f->dir, "best.safetensors"), 7);
}

/* Steps are numbers: 10 is newer than 9, and names that are not quite ours are nobody's business.
 */
static void other_files_stay(void **state) {
    fixture *f = *state;
    static const char *const others[] = {"ckpt-.json",   "ckpt-01.json", "ckpt-3.jsonx", "config",
                                         "ckpt-+4.json", "ckpt-5.txt",   "vocab.txt.tmp"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", f->dir, others[i]);
        fclose(fopen(path, "wb"));
    }
    for (uint64_t step = 8; step <= 11; step++) {
        save_ok(f, step, false);
    }
    assert_int_equal(found(f, f->dir), 11);
    assert_true(has(f->dir, "ckpt-10.json"));
    assert_false(has(f->dir, "ckpt-9.json"));
    assert_int_equal(ebb__checkpoint_clear(f->ctx, f->dir), EBB_OK);
    assert_int_equal(found(f, f->dir), 0);
    assert_false(has(f->dir, "last.safetensors"));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_true(has(f->dir, others[i]));
    }
}

static void earlier_step_is_refused(void **state) {
    fixture *f = *state;
    save_ok(f, 5, false);
    assert_int_equal(save(f->ctx, f->dir, 4, false), EBB_USAGE);
    assert_non_null(strstr(ebb_last_error(f->ctx), "start over with fresh"));
    ebb__ctx_clear(f->ctx);
    assert_int_equal(found(f, f->dir), 5);
    save_ok(f, 5, true); /* again, now known as the best */
    assert_int_equal(found(f, f->dir), 5);
    assert_int_equal(points_at(f->dir, "best.safetensors"), 5);
}

static void finished_run_is_not_touched(void **state) {
    fixture *f = *state;
    struct stat before, after;
    save_ok(f, 1, true);
    save_ok(f, 2, false);
    assert_int_equal(stat(f->dir, &before), 0);
    assert_int_equal(found(f, f->dir), 2);
    assert_int_equal(stat(f->dir, &after), 0);
    assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim);
}

static void names_are_repaired(void **state) {
    fixture *f = *state;
    char path[400], last[400];
    save_ok(f, 1, true);
    save_ok(f, 2, false);
    snprintf(path, sizeof path, "%s/best.safetensors", f->dir);
    assert_int_equal(unlink(path), 0);
    snprintf(last, sizeof last, "%s/last.safetensors", f->dir);
    assert_int_equal(unlink(last), 0);
    snprintf(path, sizeof path, "%s/ckpt-1.safetensors", f->dir);
    assert_int_equal(link(path, last), 0); /* as if killed before the name was moved */
    assert_int_equal(found(f, f->dir), 2);
    assert_int_equal(points_at(f->dir, "last.safetensors"), 2);
    assert_int_equal(points_at(f->dir, "best.safetensors"), 1);
}

/* ---- damage ------------------------------------------------------------------------------- */

/* One damaged file of generation 3 (also the best): back to 2, whose best is 1, and on from there.
 */
static void damaged_newest(void **state) {
    fixture *f = *state;
    static const char *const files[] = {"ckpt-3.json", "ckpt-3.safetensors",
                                        "ckpt-3.state.safetensors"};
    for (int how = 0; how < 9; how++) {
        char path[400];
        empty_dir(f->dir);
        save_ok(f, 1, true);
        save_ok(f, 2, false);
        save_ok(f, 3, true);
        snprintf(path, sizeof path, "%s/%s", f->dir, files[how / 3]);
        if (how % 3 == 0) {
            damage(f->dir, files[how / 3], how / 3 == 0 ? 4 : -3);
        } else if (how == 2) { /* were it missing, there would be no generation to warn of */
            assert_int_equal(truncate(path, 0), 0);
        } else if (how % 3 == 1) {
            assert_int_equal(truncate(path, 100), 0);
        } else {
            assert_int_equal(unlink(path), 0);
        }
        checkpoint_info info;
        f->warnings = 0;
        assert_int_equal(ebb__checkpoint_peek(f->ctx, f->dir, &info), EBB_OK);
        assert_int_equal(info.step, 2);
        ebb__checkpoint_info_fini(&info);
        assert_int_equal(f->warnings, 1);
        assert_non_null(strstr(f->warning, files[how / 3]));
        assert_int_equal(found(f, f->dir), 2);
        assert_int_equal(points_at(f->dir, "last.safetensors"), 2);
        assert_int_equal(points_at(f->dir, "best.safetensors"), 1);
        assert_false(has(f->dir, "ckpt-3.safetensors"));
        save_ok(f, 3, true);
        assert_int_equal(found(f, f->dir), 3);
        assert_int_equal(points_at(f->dir, "best.safetensors"), 3);
    }
}

static void best_of_a_damaged_newest_is_dropped(void **state) {
    fixture *f = *state;
    save_ok(f, 1, false);
    save_ok(f, 2, true);
    damage(f->dir, "ckpt-2.state.safetensors", -1);
    assert_int_equal(found(f, f->dir), 1);
    assert_int_equal(points_at(f->dir, "best.safetensors"), -1);
}

static void nothing_whole(void **state) {
    fixture *f = *state;
    static char before[1 << 16], after[1 << 16];
    checkpoint_info info;
    save_ok(f, 1, true);
    save_ok(f, 2, false);
    damage(f->dir, "best.safetensors", -1); /* the same bytes as generation 1's */
    size_t n = picture(f->dir, before, sizeof before);
    assert_int_equal(ebb__checkpoint_find(f->ctx, f->dir, &info), EBB_MODEL);
    assert_false(info.found);
    assert_non_null(strstr(ebb_last_error(f->ctx), "ckpt-1.safetensors"));
    assert_int_equal(picture(f->dir, after, sizeof after), n);
    assert_memory_equal(before, after, n);
    ebb__ctx_clear(f->ctx);
}

/* Every byte of the only manifest flipped: refused, or (digits of `train`) read; never a crash. */
static void every_byte_of_a_manifest(void **state) {
    fixture *f = *state;
    char path[400];
    struct stat info;
    save_ok(f, 1, true);
    snprintf(path, sizeof path, "%s/ckpt-1.json", f->dir);
    assert_int_equal(stat(path, &info), 0);
    int fd = open(path, O_RDWR), refused = 0;
    for (off_t i = 0; i < info.st_size; i++) {
        for (unsigned bit = 1; bit < 256; bit *= 2) {
            unsigned char byte, flipped;
            checkpoint_info got;
            assert_int_equal(pread(fd, &byte, 1, i), 1);
            flipped = (unsigned char)(byte ^ bit);
            assert_int_equal(pwrite(fd, &flipped, 1, i), 1);
            ebb_status status = ebb__checkpoint_peek(f->ctx, f->dir, &got);
            assert_true(status == EBB_OK || status == EBB_MODEL);
            refused += status == EBB_MODEL;
            ebb__checkpoint_info_fini(&got);
            ebb__ctx_clear(f->ctx);
            assert_int_equal(pwrite(fd, &byte, 1, i), 1);
        }
    }
    close(fd);
    assert_in_range(refused, 6 * info.st_size, 8 * info.st_size);
}

static void newer_schema_is_left_alone(void **state) {
    fixture *f = *state;
    checkpoint_info info;
    char path[400];
    save_ok(f, 1, false);
    save_ok(f, 2, false);
    snprintf(path, sizeof path, "%s/ckpt-2.json", f->dir);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs("{\"schema\": 2}", file);
    fclose(file);
    assert_int_equal(ebb__checkpoint_find(f->ctx, f->dir, &info), EBB_MODEL);
    assert_non_null(strstr(ebb_last_error(f->ctx), "newer"));
    assert_true(has(f->dir, "ckpt-2.safetensors"));
    ebb__ctx_clear(f->ctx);
}

/* ---- failing and dying -------------------------------------------------------------------- */

enum { STEPS = 4 };
static bool is_best(uint64_t step) {
    return step == 1 || step == 3;
}

/* The rest of the run from `step` on, in `dir`. */
static void finish(fixture *f, const char *dir, uint64_t step) {
    while (++step <= STEPS) {
        if (save(f->ctx, dir, step, is_best(step)) != EBB_OK) {
            fail_msg("save: %s", ebb_last_error(f->ctx));
        }
    }
}

static void begin(fixture *f, uint64_t last) {
    empty_dir(f->dir);
    for (uint64_t step = 1; step <= last; step++) {
        save_ok(f, step, is_best(step));
    }
}

/* Saves `step` with its n-th file call failing, goes on to the end; true if there was no n-th. */
static bool fails_at(fixture *f, uint64_t step, uint64_t n, int error) {
    begin(f, step - 1);
    f->ctx->file.fail_at = n;
    f->ctx->file.fail_errno = error;
    ebb_status status = save(f->ctx, f->dir, step, is_best(step));
    bool done = f->ctx->file.fail_at > 0;
    f->ctx->file.fail_at = 0;
    /* where links are not to be had (EXDEV) the weights are copied */
    if (status != (done ? EBB_OK : EBB_IO) && !(error == EXDEV && status == EBB_OK)) {
        fail_msg("step %d, call %d: %d", (int)step, (int)n, (int)status);
    }
    assert_int_equal(ebb_last_error(f->ctx)[0] == '\0', status == EBB_OK);
    ebb__ctx_clear(f->ctx);
    uint64_t at = found(f, f->dir);
    assert_in_range(at, step - 1, step);
    finish(f, f->dir, at);
    assert_same_dirs(f->dir, f->other);
    return done;
}

static void every_file_call_fails(void **state) {
    fixture *f = *state;
    static const int errors[] = {ENOSPC, EIO, EXDEV};
    finish(f, f->other, 0);
    for (uint64_t step = 2; step <= STEPS; step++) {
        for (int e = 0; e < 3; e++) {
            uint64_t n = 1;
            while (!fails_at(f, step, n, errors[e])) {
                n++;
            }
            assert_in_range(n, 20, 200);
        }
    }
}

static void every_allocation_fails(void **state) {
    fixture *f = *state;
    for (uint64_t n = 1;; n++) {
        begin(f, 2);
        f->ctx->mem.fail_at = n;
        checkpoint_info info;
        ebb_status status = save(f->ctx, f->dir, 3, true);
        if (status == EBB_OK) {
            status = ebb__checkpoint_find(f->ctx, f->dir, &info);
            ebb__checkpoint_info_fini(&info);
        }
        f->ctx->mem.fail_at = 0;
        ebb__ctx_clear(f->ctx);
        assert_int_equal(f->ctx->mem.live_blocks, 0);
        assert_in_range(found(f, f->dir), 2, 3);
        if (status == EBB_OK) {
            assert_in_range(n, 10, 200);
            break;
        }
        assert_int_equal(status, EBB_NOMEM);
    }
}

/* Runs save or find in a child that is killed at its n-th system call; true if it ended before. */
static bool killed_at(fixture *f, int n, uint64_t step) {
    pid_t child = fork();
    int how;
    assert_int_not_equal(child, -1);
    if (child == 0) {
        checkpoint_info info;
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
            _exit(3);
        }
        raise(SIGSTOP);
        _exit(step ? (int)save(f->ctx, f->dir, step, is_best(step))
                   : (int)ebb__checkpoint_find(f->ctx, f->dir, &info));
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    for (int i = 0; i < n && WIFSTOPPED(how); i++) {
        assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &how, 0), child);
    }
    if (WIFSTOPPED(how)) {
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &how, 0), child);
        return false;
    }
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    return true;
}

static bool may_trace(void) {
    pid_t child = fork();
    int how = 0;
    if (child == 0) {
        _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 0 : 1);
    }
    return child > 0 && waitpid(child, &how, 0) == child && WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

static void killed_at_every_system_call(void **state) {
    fixture *f = *state;
    if (!may_trace()) {
        print_message("SKIPPED: ptrace is not allowed here\n");
        skip();
    }
    finish(f, f->other, 0);
    for (uint64_t step = 1; step <= STEPS; step++) {
        bool ended = false;
        for (int n = 1; !ended; n += 2) { /* odd: at entry, before the call has done anything */
            begin(f, step - 1);
            ended = killed_at(f, n, step);
            int last = points_at(f->dir, "last.safetensors");
            assert_true(last == (int)step || last == (int)step - 1 || (step == 1 && last == -1));
            uint64_t at = found(f, f->dir);
            assert_in_range(at, step - 1, step);
            finish(f, f->dir, at);
            assert_same_dirs(f->dir, f->other);
            assert_in_range(n, 1, 2000);
        }
    }
}

/* The repair itself may be killed too. */
static void repair_killed_at_every_system_call(void **state) {
    fixture *f = *state;
    bool ended = false;
    if (!may_trace()) {
        print_message("SKIPPED: ptrace is not allowed here\n");
        skip();
    }
    finish(f, f->other, 0);
    for (int n = 1; !ended; n += 2) {
        begin(f, 3);
        damage(f->dir, "ckpt-3.safetensors", -1);
        ended = killed_at(f, n, 0);
        uint64_t at = found(f, f->dir);
        assert_int_equal(at, 2);
        finish(f, f->dir, at);
        assert_same_dirs(f->dir, f->other);
        assert_in_range(n, 1, 2000);
    }
}

/* What the kernel could leave after a power cut: temporary and half-written files of any length. */
static void leftovers_are_cleaned(void **state) {
    fixture *f = *state;
#define BESIDE ".ebb-0123456789ab.tmp"
    static const char *const left[] = {"ckpt-2.safetensors",
                                       "ckpt-2.state.safetensors",
                                       "ckpt-9.state.safetensors",
                                       "ckpt-2.safetensors" BESIDE,
                                       "ckpt-2.state.safetensors" BESIDE,
                                       "ckpt-2.json" BESIDE,
                                       "last.safetensors" BESIDE,
                                       "best.safetensors" BESIDE,
                                       "ckpt-1.json" BESIDE,
                                       "ckpt-9.json" BESIDE,
                                       "metrics.jsonl" BESIDE};
    finish(f, f->other, 0);
    begin(f, 1);
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", f->dir, left[i]);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        fputs("half", file);
        fclose(file);
    }
    assert_int_equal(found(f, f->dir), 1);
    finish(f, f->dir, 1);
    assert_same_dirs(f->dir, f->other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        CASE(nothing_there),
        CASE(newest_two_and_best_are_kept),
        CASE(other_files_stay),
        CASE(earlier_step_is_refused),
        CASE(finished_run_is_not_touched),
        CASE(names_are_repaired),
        CASE(damaged_newest),
        CASE(best_of_a_damaged_newest_is_dropped),
        CASE(nothing_whole),
        CASE(every_byte_of_a_manifest),
        CASE(newer_schema_is_left_alone),
        CASE(every_file_call_fails),
        CASE(every_allocation_fails),
        CASE(killed_at_every_system_call),
        CASE(repair_killed_at_every_system_call),
        CASE(leftovers_are_cleaned),
#undef CASE
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
