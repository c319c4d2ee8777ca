/* data_help.h - what the data tests share: a context, a folder of their own, files made of bytes,
 * and a check that every failed allocation or file operation is reported and leaks nothing. */
#ifndef TESTS_DATA_HELP_H
#define TESTS_DATA_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/rng.h"

typedef struct help_room {
    ebb_ctx *ctx;
    char folder[64];
    char path[4][96]; /* names in the folder: a, b, c, d */
} help_room;

static inline int help_setup(void **state) {
    help_room *room = calloc(1, sizeof *room);
    assert_non_null(room);
    assert_int_equal(ebb_ctx_new(&room->ctx), EBB_OK);
    room->ctx->command = true; /* settings are named as they are typed */
    snprintf(room->folder, sizeof room->folder, "/tmp/ebb-test-XXXXXX");
    assert_non_null(mkdtemp(room->folder));
    for (int i = 0; i < 4; i++) {
        snprintf(room->path[i], sizeof room->path[i], "%s/%c", room->folder, 'a' + i);
    }
    *state = room;
    return 0;
}

static inline int help_teardown(void **state) {
    help_room *room = *state;
    uint64_t live = room->ctx->mem.live_blocks;
    for (int i = 0; i < 4; i++) {
        (void)unlink(room->path[i]);
    }
    int left = rmdir(room->folder); /* fails if a .tmp was left behind */
    ebb_ctx_free(room->ctx);
    free(room);
    return live != 0 || left != 0;
}

static inline void help_write(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static inline void help_write_text(const char *path, const char *text) {
    help_write(path, text, strlen(text));
}

static inline size_t help_read(const char *path, void *data, size_t room) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t got = fread(data, 1, room, file);
    assert_int_equal(fclose(file), 0);
    return got;
}

static inline void help_write_gzip(const char *path, const char *mode, const void *data,
                                   size_t bytes) {
    gzFile file = gzopen(path, mode);
    assert_non_null(file);
    assert_int_equal(gzwrite(file, data, (unsigned)bytes), (int)bytes);
    assert_int_equal(gzclose(file), Z_OK);
}

/* Status and a part of the sentence, which must be one line. */
static inline void help_expect(ebb_ctx *ctx, ebb_status got, ebb_status want, const char *part) {
    const char *sentence = ebb_last_error(ctx);
    if (got != want || strstr(sentence, part) == NULL || strchr(sentence, '\n') != NULL) {
        fail_msg("status %d (wanted %d), \"%s\" (wanted \"%s\")", (int)got, (int)want, sentence,
                 part);
    }
    ebb__ctx_clear(ctx);
}

/* Random numbers of one test case. */
typedef struct help_dice {
    rng_key key;
    uint32_t thrown;
} help_dice;

static inline uint32_t help_throw(help_dice *dice, uint32_t sides) {
    rng_block block = ebb__rng_block(dice->key, dice->thrown++, 0, 0, 0);
    return (uint32_t)((uint64_t)block.word[0] * sides >> 32);
}

/* Runs `job` with the n-th allocation, then the n-th file operation failing, for n = 1, 2, ...
 * until it succeeds: each time the right status, a sentence, and nothing left allocated. */
typedef ebb_status (*help_job)(help_room *room);

static inline void help_fail_each(help_room *room, help_job job) {
    ebb_ctx *ctx = room->ctx;
    uint64_t live = ctx->mem.live_blocks;
    for (int kind = 0; kind < 2; kind++) {
        ebb_status status = EBB_INTERNAL;
        int n = 1;
        for (; status != EBB_OK && n < 10000; n++) {
            ebb__ctx_clear(ctx);
            ctx->mem.fail_at = kind == 0 ? (uint64_t)n : 0;
            ctx->file.fail_at = kind == 1 ? (uint64_t)n : 0;
            status = job(room);
            assert_int_equal(ctx->mem.live_blocks, live);
            if (status != EBB_OK) {
                assert_int_equal(status, kind == 0 ? EBB_NOMEM : EBB_IO);
                assert_true(ebb_last_error(ctx)[0] != '\0');
            }
        }
        assert_in_range(n, 3, 9999); /* at least one call failed, and the job ended well */
        ctx->mem.fail_at = ctx->file.fail_at = 0;
        ebb__ctx_clear(ctx);
    }
}

#endif
