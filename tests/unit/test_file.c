/* Files: replaced wholly or not at all whichever system call fails, at every position. */
#include "base/alloc.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct test_place {
    ebb_ctx *ctx;
    char dir[256];
    char path[300]; /* dir/data */
} test_place;

static int set_up(void **state) {
    static test_place place;
    const char *base = getenv("TMPDIR");
    (void)snprintf(place.dir, sizeof place.dir, "%s/ebb_fileXXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(place.dir) == NULL || ebb_ctx_new(&place.ctx) != EBB_OK) {
        return -1;
    }
    (void)snprintf(place.path, sizeof place.path, "%s/data", place.dir);
    *state = &place;
    return 0;
}

static int tear_down(void **state) {
    test_place *place = *state;
    char command[512];
    bool clean = place->ctx->mem.live_blocks == 0;
    ebb_ctx_free(place->ctx);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", place->dir);
    return system(command) == 0 && clean ? 0 : -1;
}

static ebb_status replace(ebb_ctx *ctx, const char *path, const char *text) {
    file_writer writer;
    ebb_status status;
    TRY_OUT(ebb__file_create(ctx, path, &writer));
    TRY_OUT(ebb__file_write(&writer, text, strlen(text) / 2));
    TRY_OUT(ebb__file_write(&writer, text + strlen(text) / 2, strlen(text) - strlen(text) / 2));
    assert_int_equal(writer.written, strlen(text));
    TRY_OUT(ebb__file_commit(&writer));
out:
    ebb__file_abandon(&writer);
    return status;
}

static void expect_content(test_place *place, const char *path, const char *expected) {
    char *text;
    size_t bytes;
    assert_int_equal(ebb__file_read_all(place->ctx, path, 1 << 20, &text, &bytes), EBB_OK);
    assert_string_equal(text, expected);
    assert_int_equal(bytes, strlen(expected));
    ebb__free(place->ctx, text);
}

static int names_in(const char *dir) {
    int count = 0;
    DIR *folder = opendir(dir);
    assert_non_null(folder);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        count += entry->d_name[0] != '.';
    }
    assert_int_equal(closedir(folder), 0);
    return count;
}

static int open_descriptors(void) {
    return names_in("/proc/self/fd");
}

static void replaces_whole_files(void **state) {
    test_place *place = *state;
    assert_false(ebb__file_exists(place->path));
    assert_int_equal(replace(place->ctx, place->path, "old"), EBB_OK);
    expect_content(place, place->path, "old");
    assert_int_equal(replace(place->ctx, place->path, "new and longer"), EBB_OK);
    expect_content(place, place->path, "new and longer");
    assert_int_equal(names_in(place->dir), 1);
    assert_int_equal(replace(place->ctx, place->path, ""), EBB_OK);
    expect_content(place, place->path, "");
}

static void abandon_leaves_the_old(void **state) {
    test_place *place = *state;
    file_writer writer;
    assert_int_equal(replace(place->ctx, place->path, "old"), EBB_OK);
    assert_int_equal(ebb__file_create(place->ctx, place->path, &writer), EBB_OK);
    assert_int_equal(ebb__file_write(&writer, "half", 4), EBB_OK);
    assert_int_equal(names_in(place->dir), 2);
    ebb__file_abandon(&writer);
    ebb__file_abandon(&writer);
    expect_content(place, place->path, "old");
    assert_int_equal(names_in(place->dir), 1);
}

/* Fails each operation of a replacement in turn. Until the rename, the old bytes stay; the calls
 * after it (opening and syncing the folder) find the new bytes whole. Never a .tmp, never a lost
 * descriptor, always a sentence with the reason. */
static void each_failing_call_leaves_old_or_new(void **state) {
    test_place *place = *state;
    ebb_ctx *ctx = place->ctx;
    assert_int_equal(replace(ctx, place->path, "old"), EBB_OK);
    uint64_t before = ctx->file.ops;
    assert_int_equal(replace(ctx, place->path, "old"), EBB_OK);
    uint64_t ops = ctx->file.ops - before; /* open, 2 writes, sync, close, rename, folder */
    assert_int_equal(ops, 8);
    int descriptors = open_descriptors();
    const int errors[] = {ENOSPC, EIO, EDQUOT};
    for (size_t e = 0; e < sizeof errors / sizeof errors[0]; e++) {
        for (uint64_t n = 1; n <= ops; n++) {
            ebb__ctx_clear(ctx);
            ctx->file.fail_at = n;
            ctx->file.fail_errno = errors[e];
            assert_int_equal(replace(ctx, place->path, "replacement"), EBB_IO);
            assert_int_equal(ctx->file.fail_at, 0);
            assert_non_null(strstr(ebb_last_error(ctx), strerror(errors[e])));
            assert_non_null(strstr(ebb_last_error(ctx), place->dir));
            expect_content(place, place->path, n <= ops - 2 ? "old" : "replacement");
            assert_int_equal(names_in(place->dir), 1);
            assert_int_equal(open_descriptors(), descriptors);
            assert_int_equal(replace(ctx, place->path, "old"), EBB_OK);
        }
    }
}

static void interrupted_calls_go_on(void **state) {
    test_place *place = *state;
    place->ctx->file.fail_at = 2;
    place->ctx->file.fail_errno = EINTR;
    assert_int_equal(replace(place->ctx, place->path, "whole"), EBB_OK);
    assert_int_equal(place->ctx->file.fail_at, 0);
    expect_content(place, place->path, "whole");
}

static void a_real_full_disk_is_reported(void **state) {
    test_place *place = *state;
    int fd;
    if (access("/dev/full", W_OK) != 0) {
        print_message("SKIP: no /dev/full here\n");
        skip();
    }
    fd = open("/dev/full", O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(ebb__file_write_fd(place->ctx, fd, "/dev/full", "x", 1), EBB_IO);
    assert_non_null(strstr(ebb_last_error(place->ctx), strerror(ENOSPC)));
    ebb__file_close(fd);
    ebb__file_close(-1);
}

static void reads_are_exact(void **state) {
    test_place *place = *state;
    char buffer[16] = "";
    uint64_t bytes;
    size_t got;
    int fd;
    assert_int_equal(replace(place->ctx, place->path, "0123456789"), EBB_OK);
    assert_int_equal(ebb__file_open(place->ctx, place->path, &fd, &bytes), EBB_OK);
    assert_int_equal(bytes, 10);
    assert_int_equal(ebb__file_pread(place->ctx, fd, place->path, buffer, 4, 6), EBB_OK);
    assert_memory_equal(buffer, "6789", 4);
    assert_int_equal(ebb__file_pread(place->ctx, fd, place->path, buffer, 5, 6), EBB_IO);
    assert_non_null(strstr(ebb_last_error(place->ctx), "1 bytes short"));
    assert_int_equal(ebb__file_pread(place->ctx, fd, place->path, buffer, 5, UINT64_MAX), EBB_IO);
    assert_int_equal(ebb__file_read(place->ctx, fd, place->path, buffer, 16, &got), EBB_OK);
    assert_int_equal(got, 10);
    assert_int_equal(ebb__file_read(place->ctx, fd, place->path, buffer, 16, &got), EBB_OK);
    assert_int_equal(got, 0);
    ebb__file_close(fd);
}

static void bad_paths_are_refused(void **state) {
    test_place *place = *state;
    char path[1200], *text;
    file_writer writer;
    file_lock lock;
    int fd;
    (void)snprintf(path, sizeof path, "%s/none/data", place->dir);
    assert_int_equal(ebb__file_open(place->ctx, path, &fd, NULL), EBB_IO);
    assert_int_equal(fd, -1);
    assert_int_equal(ebb__file_create(place->ctx, path, &writer), EBB_IO);
    ebb__file_abandon(&writer);
    ebb__ctx_clear(place->ctx);
    assert_int_equal(ebb__file_open(place->ctx, place->dir, &fd, NULL), EBB_IO);
    assert_non_null(strstr(ebb_last_error(place->ctx), "a folder"));
    assert_int_equal(mkfifo(place->path, 0666), 0);
    assert_int_equal(ebb__file_open(place->ctx, place->path, &fd, NULL), EBB_IO);
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(ebb__file_create(place->ctx, path, &writer), EBB_USAGE);
    ebb__file_abandon(&writer);
    assert_int_equal(ebb__file_make_dir(place->ctx, path), EBB_USAGE);
    assert_int_equal(ebb__file_lock_dir(place->ctx, path, &lock), EBB_USAGE);
    assert_int_equal(ebb__file_read_all(place->ctx, path, 10, &text, NULL), EBB_IO);
    assert_null(text);
}

static void read_all_has_a_limit(void **state) {
    test_place *place = *state;
    char *text;
    assert_int_equal(replace(place->ctx, place->path, "12345"), EBB_OK);
    assert_int_equal(ebb__file_read_all(place->ctx, place->path, 4, &text, NULL), EBB_DATA);
    assert_null(text);
    assert_int_equal(ebb__file_read_all(place->ctx, place->path, 5, &text, NULL), EBB_OK);
    ebb__free(place->ctx, text);
    place->ctx->mem.fail_at = 1;
    assert_int_equal(ebb__file_read_all(place->ctx, place->path, 5, &text, NULL), EBB_NOMEM);
    assert_null(text);
}

static void appends_and_truncates(void **state) {
    test_place *place = *state;
    uint64_t bytes = 99;
    int fd;
    assert_int_equal(ebb__file_append(place->ctx, place->path, &fd, &bytes), EBB_OK);
    assert_int_equal(bytes, 0);
    assert_int_equal(ebb__file_write_fd(place->ctx, fd, place->path, "line 1\n", 7), EBB_OK);
    assert_int_equal(ebb__file_sync(place->ctx, fd, place->path), EBB_OK);
    ebb__file_close(fd);
    assert_int_equal(ebb__file_append(place->ctx, place->path, &fd, &bytes), EBB_OK);
    assert_int_equal(bytes, 7);
    assert_int_equal(ebb__file_write_fd(place->ctx, fd, place->path, "line 2\n", 7), EBB_OK);
    expect_content(place, place->path, "line 1\nline 2\n");
    assert_int_equal(ebb__file_truncate(place->ctx, fd, place->path, 7), EBB_OK);
    assert_int_equal(ebb__file_write_fd(place->ctx, fd, place->path, "again\n", 6), EBB_OK);
    expect_content(place, place->path, "line 1\nagain\n");
    assert_int_equal(ebb__file_truncate(place->ctx, fd, place->path, UINT64_MAX), EBB_IO);
    ebb__file_close(fd);
}

static void folders_are_made_with_parents(void **state) {
    test_place *place = *state;
    char path[600];
    (void)snprintf(path, sizeof path, "%s/a/b//c/", place->dir);
    assert_int_equal(ebb__file_make_dir(place->ctx, path), EBB_OK);
    assert_true(ebb__file_exists(path));
    assert_int_equal(ebb__file_make_dir(place->ctx, path), EBB_OK);
    assert_int_equal(ebb__file_make_dir(place->ctx, "/"), EBB_OK);
    assert_int_equal(replace(place->ctx, place->path, "file"), EBB_OK);
    assert_int_equal(ebb__file_make_dir(place->ctx, place->path), EBB_IO);
    (void)snprintf(path, sizeof path, "%s/below", place->path);
    assert_int_equal(ebb__file_make_dir(place->ctx, path), EBB_IO);
}

static void removes_and_renames(void **state) {
    test_place *place = *state;
    char other[600], sub[600];
    (void)snprintf(other, sizeof other, "%s/other", place->dir);
    (void)snprintf(sub, sizeof sub, "%s/sub", place->dir);
    assert_int_equal(ebb__file_remove(place->ctx, place->path), EBB_OK);
    assert_int_equal(ebb__file_rename(place->ctx, place->path, other), EBB_IO);
    assert_int_equal(replace(place->ctx, place->path, "moved"), EBB_OK);
    assert_int_equal(ebb__file_rename(place->ctx, place->path, other), EBB_OK);
    assert_false(ebb__file_exists(place->path));
    expect_content(place, other, "moved");
    assert_int_equal(ebb__file_make_dir(place->ctx, sub), EBB_OK);
    (void)snprintf(sub, sizeof sub, "%s/sub/other", place->dir);
    assert_int_equal(ebb__file_rename(place->ctx, other, sub), EBB_OK);
    expect_content(place, sub, "moved");
    assert_int_equal(ebb__file_remove(place->ctx, sub), EBB_OK);
    assert_false(ebb__file_exists(sub));
}

static uint64_t link_ops(test_place *place, const char *to) {
    uint64_t before = place->ctx->file.ops;
    assert_int_equal(ebb__file_link(place->ctx, place->path, to), EBB_OK);
    return place->ctx->file.ops - before;
}

static void links_replace_atomically(void **state) {
    test_place *place = *state;
    ebb_ctx *ctx = place->ctx;
    char to[600];
    (void)snprintf(to, sizeof to, "%s/best", place->dir);
    assert_int_equal(replace(ctx, to, "old best"), EBB_OK);
    assert_int_equal(replace(ctx, place->path, "generation 1"), EBB_OK);
    (void)link_ops(place, to);
    expect_content(place, to, "generation 1");
    uint64_t ops = link_ops(place, to); /* already the same file: still no .tmp */
    assert_int_equal(names_in(place->dir), 2);
    /* Replacing one name leaves the other. */
    assert_int_equal(replace(ctx, place->path, "generation 2"), EBB_OK);
    expect_content(place, to, "generation 1");
    for (uint64_t n = 1; n <= ops; n++) {
        ctx->file.fail_at = n;
        ctx->file.fail_errno = EIO;
        assert_int_equal(ebb__file_link(ctx, place->path, to), EBB_IO);
        expect_content(place, to, n <= ops - 2 ? "generation 1" : "generation 2");
        assert_int_equal(names_in(place->dir), 2);
        assert_int_equal(replace(ctx, to, "generation 1"), EBB_OK);
    }
}

/* Where links are not allowed it is a copy, with the same promise. */
static void links_fall_back_to_copies(void **state) {
    test_place *place = *state;
    ebb_ctx *ctx = place->ctx;
    char to[600];
    struct stat a, b;
    (void)snprintf(to, sizeof to, "%s/best", place->dir);
    char *text;
    const size_t bytes = 100000;
    assert_int_equal(ebb__alloc(ctx, bytes + 1, 1, &text), EBB_OK);
    memset(text, 'q', bytes);
    assert_int_equal(replace(ctx, place->path, text), EBB_OK);
    ctx->file.fail_at = 1;
    ctx->file.fail_errno = EXDEV;
    assert_int_equal(ebb__file_link(ctx, place->path, to), EBB_OK);
    expect_content(place, to, text);
    assert_int_equal(stat(place->path, &a), 0);
    assert_int_equal(stat(to, &b), 0);
    assert_true(a.st_ino != b.st_ino);
    assert_int_equal(names_in(place->dir), 2);
    ebb__free(ctx, text);
}

static void a_folder_is_locked_once(void **state) {
    test_place *place = *state;
    file_lock first, second;
    char path[600];
    assert_int_equal(ebb__file_lock_dir(place->ctx, place->dir, &first), EBB_OK);
    assert_int_equal(ebb__file_lock_dir(place->ctx, place->dir, &second), EBB_USAGE);
    assert_int_equal(second.file, -1);
    assert_int_equal(second.folder, -1);
    assert_non_null(strstr(ebb_last_error(place->ctx), "in use by another process"));
    /* Without the file as well: the folder itself is locked. */
    (void)snprintf(path, sizeof path, "%s/lock", place->dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ebb__file_lock_dir(place->ctx, place->dir, &second), EBB_USAGE);
    ebb__file_unlock(&first);
    assert_int_equal(ebb__file_lock_dir(place->ctx, place->dir, &second), EBB_OK);
    ebb__file_unlock(&second);
    ebb__file_unlock(&second);
}

/* Where folders cannot be locked (on_folder false) the file must still be the one that is locked.
 */
static void a_lock_knows_its_folder(void **state) {
    test_place *place = *state;
    ebb_ctx *ctx = place->ctx;
    char dir[400], away[400], path[600];
    file_lock lock;
    (void)snprintf(dir, sizeof dir, "%s/run", place->dir);
    (void)snprintf(away, sizeof away, "%s/away", place->dir);
    (void)snprintf(path, sizeof path, "%s/lock", dir);
    assert_int_equal(ebb__file_make_dir(ctx, dir), EBB_OK);
    assert_int_equal(ebb__file_lock_dir(ctx, dir, &lock), EBB_OK);
    assert_int_equal(ebb__file_lock_check(ctx, dir, &lock), EBB_OK);
    assert_int_equal(rename(dir, away), 0);
    assert_int_equal(ebb__file_lock_check(ctx, dir, &lock), EBB_IO);
    assert_int_equal(ebb__file_make_dir(ctx, dir), EBB_OK);
    assert_int_equal(ebb__file_lock_check(ctx, dir, &lock), EBB_IO);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(rename(away, dir), 0);
    assert_int_equal(ebb__file_lock_check(ctx, dir, &lock), EBB_OK);
    lock.on_folder = false;
    assert_int_equal(ebb__file_lock_check(ctx, dir, &lock), EBB_OK);
    assert_int_equal(replace(ctx, path, ""), EBB_OK);
    ebb__ctx_clear(ctx);
    assert_int_equal(ebb__file_lock_check(ctx, dir, &lock), EBB_IO);
    assert_non_null(strstr(ebb_last_error(ctx), "another process may write"));
    ebb__file_unlock(&lock);
}

/* ---- what lies in the way ---- */

enum { ODD_LINK, ODD_DANGLING, ODD_PIPE, ODD_FOLDER, N_ODD };

/* Puts something that is no regular file at `path`; links lead to `victim`. */
static void put_odd(int kind, const char *path, const char *victim) {
    int result = kind == ODD_LINK       ? symlink(victim, path)
                 : kind == ODD_DANGLING ? symlink("nowhere", path)
                 : kind == ODD_PIPE     ? mkfifo(path, 0666)
                                        : mkdir(path, 0777);
    assert_int_equal(result, 0);
}

/* Whoever opened or followed it would hang, or change the victim: all of these say at once what is
 * in the way. */
static void what_is_no_file_is_refused(void **state) {
    test_place *place = *state;
    ebb_ctx *ctx = place->ctx;
    char victim[400], dir[400], path[600];
    (void)snprintf(victim, sizeof victim, "%s/victim", place->dir);
    (void)snprintf(dir, sizeof dir, "%s/run", place->dir);
    (void)snprintf(path, sizeof path, "%s/lock", dir);
    assert_int_equal(replace(ctx, victim, "kept"), EBB_OK);
    for (int kind = 0; kind < N_ODD; kind++) {
        file_writer writer;
        file_lock lock;
        int fd;
        assert_int_equal(mkdir(dir, 0777), 0);
        put_odd(kind, path, victim);
        ebb__ctx_clear(ctx);
        assert_int_equal(ebb__file_create(ctx, path, &writer), EBB_IO);
        assert_non_null(strstr(ebb_last_error(ctx), "not a regular file"));
        assert_int_equal(ebb__file_append(ctx, path, &fd, NULL), EBB_IO);
        assert_int_equal(ebb__file_lock_dir(ctx, dir, &lock), EBB_IO);
        expect_content(place, victim, "kept");
        assert_int_equal(names_in(dir), 1);
        assert_int_equal(kind == ODD_FOLDER ? rmdir(path) : unlink(path), 0);
        assert_int_equal(rmdir(dir), 0);
    }
    assert_false(ebb__file_exists("nowhere"));
}

/* A link that a user names is another matter. */
static void links_that_are_named_are_followed(void **state) {
    test_place *place = *state;
    char link[400], real[1024];
    (void)snprintf(link, sizeof link, "%s/link", place->dir);
    assert_int_equal(replace(place->ctx, place->path, "x"), EBB_OK);
    assert_int_equal(symlink("data", link), 0);
    assert_int_equal(ebb__file_follow(place->ctx, link, real), EBB_OK);
    assert_non_null(strstr(real, "/data"));
    assert_int_equal(ebb__file_follow(place->ctx, place->path, real), EBB_OK);
    assert_string_equal(real, place->path);
    assert_int_equal(ebb__file_follow(place->ctx, "none", real), EBB_OK);
    assert_string_equal(real, "none");
}

/* ---- files beside ---- */

static void leave(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
}

/* A killed writer's file goes with the next writer of that name; a living one's stays, and so does
 * what only looks alike. */
static void left_overs_are_swept(void **state) {
    static const char *const names[] = {
        "data.ebb-0123456789ab.tmp", "other.ebb-0123456789ab.tmp", "data.tmp",
        "data.ebb-0123456789aB.tmp", "data.ebb-0123456789ab.tmpx", ".ebb-0123456789ab.tmp"};
    test_place *place = *state;
    ebb_ctx *ctx = place->ctx;
    file_writer living, next;
    char path[6][700];
    for (int i = 0; i < 6; i++) {
        (void)snprintf(path[i], sizeof path[i], "%s/%s", place->dir, names[i]);
        leave(path[i]);
    }
    assert_int_equal(ebb__file_create(ctx, place->path, &living), EBB_OK);
    assert_false(ebb__file_exists(path[0]));
    assert_true(ebb__file_exists(path[1]));
    assert_int_equal(ebb__file_write(&living, "first", 5), EBB_OK);
    assert_int_equal(ebb__file_create(ctx, place->path, &next), EBB_OK);
    assert_int_equal(ebb__file_write(&next, "second", 6), EBB_OK);
    ebb__file_sweep(place->dir, NULL);
    assert_false(ebb__file_exists(path[1]));
    assert_int_equal(ebb__file_commit(&next), EBB_OK);
    expect_content(place, place->path, "second");
    assert_int_equal(ebb__file_commit(&living), EBB_OK);
    expect_content(place, place->path, "first");
    for (int i = 2; i < 6; i++) {
        assert_true(ebb__file_exists(path[i]));
    }
    assert_int_equal(names_in(place->dir), 4); /* and one that starts with a dot */
}

static void a_killed_writer_leaves_a_name_that_is_swept(void **state) {
    test_place *place = *state;
    file_writer writer;
    int how;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(ebb__file_create(place->ctx, place->path, &writer) != EBB_OK);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    assert_int_equal(names_in(place->dir), 1);
    assert_int_equal(replace(place->ctx, place->path, "whole"), EBB_OK);
    assert_int_equal(names_in(place->dir), 1);
    expect_content(place, place->path, "whole");
}

static void unnamed_files_leave_nothing(void **state) {
    test_place *place = *state;
    file_writer writer;
    char text[6] = "", path[700];
    int descriptors = open_descriptors();
    assert_int_equal(ebb__file_create_unnamed(place->ctx, place->path, &writer), EBB_OK);
    assert_int_equal(names_in(place->dir), 0);
    assert_int_equal(ebb__file_write(&writer, "12345", 5), EBB_OK);
    assert_int_equal(ebb__file_pread(place->ctx, writer.fd, writer.path, text, 5, 0), EBB_OK);
    assert_string_equal(text, "12345");
    ebb__file_abandon(&writer);
    assert_int_equal(open_descriptors(), descriptors);
    place->ctx->file.fail_at = 1;
    place->ctx->file.fail_errno = ENOSPC;
    assert_int_equal(ebb__file_create_unnamed(place->ctx, place->path, &writer), EBB_IO);
    ebb__file_abandon(&writer);
    (void)snprintf(path, sizeof path, "%s/none/data", place->dir);
    assert_int_equal(ebb__file_create_unnamed(place->ctx, path, &writer), EBB_IO);
    ebb__file_abandon(&writer);
    assert_int_equal(open_descriptors(), descriptors);
}

static void a_removed_file_is_known(void **state) {
    test_place *place = *state;
    int fd;
    assert_int_equal(ebb__file_append(place->ctx, place->path, &fd, NULL), EBB_OK);
    assert_int_equal(ebb__file_named(place->ctx, fd, place->path), EBB_OK);
    assert_int_equal(unlink(place->path), 0);
    assert_int_equal(ebb__file_named(place->ctx, fd, place->path), EBB_IO);
    assert_non_null(strstr(ebb_last_error(place->ctx), place->path));
    ebb__file_close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(replaces_whole_files),
        TEST(abandon_leaves_the_old),
        TEST(each_failing_call_leaves_old_or_new),
        TEST(interrupted_calls_go_on),
        TEST(a_real_full_disk_is_reported),
        TEST(reads_are_exact),
        TEST(bad_paths_are_refused),
        TEST(read_all_has_a_limit),
        TEST(appends_and_truncates),
        TEST(folders_are_made_with_parents),
        TEST(removes_and_renames),
        TEST(links_replace_atomically),
        TEST(links_fall_back_to_copies),
        TEST(a_folder_is_locked_once),
        TEST(a_lock_knows_its_folder),
        TEST(what_is_no_file_is_refused),
        TEST(links_that_are_named_are_followed),
        TEST(left_overs_are_swept),
        TEST(a_killed_writer_leaves_a_name_that_is_swept),
        TEST(unnamed_files_leave_nothing),
        TEST(a_removed_file_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
