/* test_stop.c - whoever asks to stop while texts are read, or while the batch is searched, does not
 * wait for the end of it: every reading looks once a buffer, and a stop at any look leaves nothing
 * behind. */
#include "kind/kinds.h"
#include "kind/text/options.h"
#include "data_help.h"

#include "data/lengths.h"
#include "data/tokens.h"
#include "train/job.h"

enum { LINES = 40000 };

typedef struct stop_clock {
    uint64_t looks, at; /* so far; the one that says stop, 0: none does */
} stop_clock;

static bool look(void *user) {
    stop_clock *clock = user;
    return ++clock->looks == clock->at;
}

static size_t write_lines(const char *path) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < LINES; i++) {
        (void)fprintf(file, "line %d of a text\n", i % 100);
    }
    size_t bytes = (size_t)ftell(file);
    assert_int_equal(fclose(file), 0);
    return bytes;
}

/* ---- what reads ---- */

static ebb_status build_vocab(help_room *room) {
    data_vocab vocab;
    TRY(ebb__vocab_build(room->ctx, room->path[0], &(vocab_options){.mode = TEXT_WORD}, &vocab));
    ebb__vocab_free(&vocab);
    return EBB_OK;
}

static ebb_status scan_lengths(help_room *room) {
    data_lengths lengths = {.ctx = room->ctx};
    lengths_texts texts = {room->path[0], room->path[0], TEXT_WORD, 100, false, NULL, NULL, 0, 0};
    ebb_status status = ebb__lengths_scan(room->ctx, &texts, &lengths);
    ebb__lengths_free(&lengths);
    return status;
}

/* The ids of the text, made or found; `b` is the token file. */
static ebb_status open_tokens(help_room *room) {
    data_vocab vocab;
    tokens_reader tokens = {.fd = -1};
    TRY(ebb__vocab_build(room->ctx, room->path[0], &(vocab_options){.mode = TEXT_WORD}, &vocab));
    ebb_status status =
        ebb__tokens_ensure(room->ctx, room->path[0], TEXT_WORD, &vocab, room->path[1], &tokens);
    ebb__tokens_close(&tokens);
    ebb__vocab_free(&vocab);
    return status;
}

static ebb_status make_tokens(help_room *room) {
    (void)unlink(room->path[1]);
    return open_tokens(room);
}

static ebb_status search_batch(help_room *room) {
    train_settings s = {.kind = &ebb__kind_lm,
                        .train_path = room->path[0],
                        .layers = 1,
                        .hidden = 8,
                        .bptt = 4,
                        .shards = 1,
                        .threads = 1,
                        .memory = {MEMORY_BYTES, 1 << 20, 0}};
    job_fit fit;
    return ebb__job_fit(room->ctx, &s, NULL, &fit);
}

static const struct {
    const char *name;
    help_job job;
    int readings; /* of the whole text, at least */
} jobs[] = {{"vocabulary", build_vocab, 1},
            {"lengths of pairs", scan_lengths, 2},
            {"tokens made", make_tokens, 3},
            {"tokens found", open_tokens, 2},
            {"batch", search_batch, 2}};
enum { N_JOBS = sizeof jobs / sizeof jobs[0] };

static void stops_at_any_look(void **state) {
    help_room *room = *state;
    ebb_ctx *ctx = room->ctx;
    size_t bytes = write_lines(room->path[0]);
    for (int i = 0; i < N_JOBS; i++) {
        stop_clock clock = {0, 0};
        ctx->stop = look;
        ctx->stop_user = &clock;
        assert_int_equal(jobs[i].job(room), EBB_OK);
        uint64_t looks = clock.looks, live = ctx->mem.live_blocks;
        if (looks < (uint64_t)jobs[i].readings * (bytes / TEXT_BUFFER_BYTES)) {
            fail_msg("%s: only %llu looks", jobs[i].name, (unsigned long long)looks);
        }
        for (uint64_t at = 1; at <= looks; at += 1 + looks / 50) {
            clock = (stop_clock){0, at};
            help_expect(ctx, jobs[i].job(room), EBB_STOPPED, "stopped while ");
            assert_int_equal(clock.looks, at); /* nobody went on */
            assert_int_equal(ctx->mem.live_blocks, live);
        }
    }
    ctx->stop = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(stops_at_any_look, help_setup, help_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
