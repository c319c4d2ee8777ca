/* test_batcher.c - every pair of a text appears exactly once, in its place; what is no pair is
 * ignored; for all small texts and shapes, against the definition in batcher.h. */
#include "data_help.h"

#include "data/batcher.h"

enum { GUARD = 0x5a5a5a5a, MOST_TOKENS = 40 };

/* A text of `count` byte tokens, all different, and its open token file. */
static void make_tokens(help_room *room, uint32_t count, tokens_reader *out) {
    char text[MOST_TOKENS];
    data_vocab vocab;
    for (uint32_t i = 0; i < count; i++) {
        text[i] = (char)('0' + i);
    }
    help_write(room->path[0], text, count);
    vocab_options options = {.mode = TEXT_BYTE};
    assert_int_equal(ebb__vocab_build(room->ctx, room->path[0], &options, &vocab), EBB_OK);
    assert_int_equal(
        ebb__tokens_ensure(room->ctx, room->path[0], TEXT_BYTE, &vocab, room->path[1], out),
        EBB_OK);
    ebb__vocab_free(&vocab);
    assert_int_equal(out->count, count);
}

/* Ids of the text are 2, 3, 4, ... by position (equal counts, byte order). */
static void check_shape(help_room *room, const tokens_reader *tokens, uint32_t T, uint32_t B) {
    uint32_t staging[32];
    int32_t inputs[400], targets[400];
    data_batcher batcher;
    staging[T + 1] = GUARD;
    assert_int_equal(ebb__batcher_init(room->ctx, tokens, T, B, staging, &batcher), EBB_OK);
    assert_int_equal(ebb__batcher_bytes(T), (T + 1) * 4);
    uint64_t pairs = tokens->count - 1, L = (pairs + B - 1) / B, total = 0;
    assert_int_equal(batcher.windows, (L + T - 1) / T);
    for (uint64_t k = 0; k < batcher.windows; k++) {
        uint64_t valid = 0, seen = 0, calls = room->ctx->mem.calls;
        inputs[T * B] = targets[T * B] = GUARD;
        assert_int_equal(ebb__batcher_fill(&batcher, k, inputs, targets, &valid), EBB_OK);
        assert_int_equal(room->ctx->mem.calls, calls);
        for (uint32_t t = 0; t < T; t++) {
            for (uint32_t b = 0; b < B; b++) {
                uint64_t offset = k * T + t, position = b * L + offset;
                bool real = offset < L && position < pairs;
                size_t row = (T - 1 - t) * B + b;
                assert_int_equal(inputs[row], real ? (int32_t)position + 2 : VOCAB_EOS);
                assert_int_equal(targets[row], real ? (int32_t)position + 3 : -1);
                seen += real;
            }
        }
        assert_int_equal(inputs[T * B], GUARD);
        assert_int_equal(targets[T * B], GUARD);
        assert_int_equal(staging[T + 1], GUARD);
        assert_int_equal(valid, seen);
        total += seen;
    }
    assert_int_equal(total, pairs); /* none lost */
}

static void all_small_shapes(void **state) {
    help_room *room = *state;
    const uint32_t counts[] = {2, 3, 4, 7, 13, 17, 25, 40}; /* 13 and 25: exactly full windows */
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        tokens_reader tokens;
        make_tokens(room, counts[i], &tokens);
        for (uint32_t T = 1; T <= 9; T++) {
            for (uint32_t B = 1; B <= 12; B++) {
                check_shape(room, &tokens, T, B);
            }
            check_shape(room, &tokens, T, 41); /* more columns than tokens */
        }
        ebb__tokens_close(&tokens);
    }
}

static void time_descends(void **state) {
    help_room *room = *state;
    tokens_reader tokens;
    uint32_t staging[4];
    int32_t inputs[6], targets[6];
    data_batcher batcher;
    make_tokens(room, 9, &tokens); /* ids 2..10: 8 pairs, 2 columns of 4, windows of 3 */
    assert_int_equal(ebb__batcher_init(room->ctx, &tokens, 3, 2, staging, &batcher), EBB_OK);
    assert_int_equal(ebb__batcher_fill(&batcher, 0, inputs, targets, NULL), EBB_OK);
    assert_memory_equal(inputs, ((const int32_t[]){4, 8, 3, 7, 2, 6}), sizeof inputs);
    assert_memory_equal(targets, ((const int32_t[]){5, 9, 4, 8, 3, 7}), sizeof targets);
    assert_int_equal(ebb__batcher_fill(&batcher, 1, inputs, targets, NULL), EBB_OK);
    assert_memory_equal(inputs, ((const int32_t[]){1, 1, 1, 1, 5, 9}), sizeof inputs);
    assert_memory_equal(targets, ((const int32_t[]){-1, -1, -1, -1, 6, 10}), sizeof targets);
    ebb__tokens_close(&tokens);
}

static void refusals(void **state) {
    help_room *room = *state;
    ebb_ctx *ctx = room->ctx;
    tokens_reader tokens;
    data_batcher batcher;
    uint32_t staging[2];
    make_tokens(room, 1, &tokens);
    help_expect(ctx, ebb__batcher_init(ctx, &tokens, 1, 1, staging, &batcher), EBB_DATA,
                "has 1 token(s); a language model needs at least 2");
    ebb__tokens_close(&tokens);
    make_tokens(room, 2, &tokens);
    help_expect(ctx, ebb__batcher_init(ctx, &tokens, 0, 1, staging, &batcher), EBB_USAGE,
                "at least 1");
    help_expect(ctx, ebb__batcher_init(ctx, &tokens, 1, 0, staging, &batcher), EBB_USAGE,
                "at least 1");
    help_expect(ctx, ebb__batcher_init(ctx, &tokens, 65536, 32768, staging, &batcher), EBB_USAGE,
                "below 2^31");
    int32_t input = 0, target = 0;
    assert_int_equal(ebb__batcher_init(ctx, &tokens, 1, 1, staging, &batcher), EBB_OK);
    ctx->file.fail_at = 1;
    help_expect(ctx, ebb__batcher_fill(&batcher, 0, &input, &target, NULL), EBB_IO, "/b");
    ctx->file.fail_at = 0;
    ebb__tokens_close(&tokens);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, help_setup, help_teardown)
    const struct CMUnitTest tests[] = {
        TEST(all_small_shapes),
        TEST(time_descends),
        TEST(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
