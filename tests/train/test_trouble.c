/* test_trouble.c - training runs that cannot go well, or not as asked: other settings than the run
 * was started with, a folder in use, divergence, damaged files, weights that do not fit, bad texts.
 * Each ends with its status and one line that names the cause, and what was good is kept. */
#include "train/run_help.h"

#include "store/safetensors.h"

/* Weights of an LSTM with 6 hidden units, the first n of them, under PyTorch's names. */
enum { WEIGHTS = 7, WEIGHT_MOST = 144 };

static void write_weights(const char *path, int64_t vocab, const float *scales, size_t n) {
    const struct {
        const char *name;
        int64_t rows, columns;
    } shapes[WEIGHTS] = {{"embed.weight", vocab, 6},  {"rnn.weight_ih_l0", 24, 6},
                         {"rnn.weight_hh_l0", 24, 6}, {"rnn.bias_ih_l0", 24, 0},
                         {"rnn.bias_hh_l0", 24, 0},   {"out.weight", vocab, 6},
                         {"out.bias", vocab, 0}};
    float data[WEIGHTS][WEIGHT_MOST];
    st_entry entries[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++) {
        entries[i] = (st_entry){.name = shapes[i].name,
                                .dtype = ST_F32,
                                .rank = shapes[i].columns > 0 ? 2 : 1,
                                .dims = {shapes[i].rows, shapes[i].columns},
                                .data = data[i]};
        for (int k = 0; k < WEIGHT_MOST; k++) {
            data[i][k] = scales[i] * ((float)(i + 1) * 0.01F + (float)k * 0.001F);
        }
    }
    ebb_ctx *ctx = test_ctx_new();
    assert_ok(ctx, ebb__safetensors_write(ctx, path, entries, n, NULL, 0, NULL));
    test_ctx_free(ctx);
}

/* ---- refusals ---- */

static void other_mathematics_is_refused(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    (void)run_ok(room);
    run_shot shot = run_look(room->out.text);
    room->math = "hidden = 6\nlr = 0.25\n";
    run_refused(room, EBB_USAGE, "'lr = 0.5', now it is 'lr = 0.25'");
    room->math = RUN_MATH "tie = true\n";
    run_refused(room, EBB_USAGE, "'', now it is 'tie = true'");
    room->math = "hidden = 6\n";
    run_refused(room, EBB_USAGE, "'lr = 0.5', now it is ''");
    room->math = RUN_MATH;
    run_expect_untouched(&shot, room->out.text);
    run_forget(&shot);
    /* Another text: as long, or longer. */
    run_bytes text = run_read(room->train.text);
    room->s.epochs = 4;
    char *word = strchr(text.data, ' ') + 1, first = *word;
    *word = ' ';
    run_write(room->train.text, text.data, text.bytes);
    run_refused(room, EBB_USAGE, "is not the text the run was started with");
    *word = first;
    run_write(room->train.text, text.data, text.bytes / 2);
    run_refused(room, EBB_USAGE, "use that, another --out, or --fresh");
    run_write(room->train.text, text.data, text.bytes);
    free(text.data);
    room->s.epochs = 3;
    assert_true(run_ok(room).already_done);
    run_room_free(room);
}

/* --fresh takes the old run away only when the new one can start. */
static void fresh_that_cannot_start_keeps_the_run(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    job_train_result first = run_ok(room);
    room->s.fresh = true;
    room->s.memory.bytes = 1;
    run_refused(room, EBB_BUDGET, "the least");
    room->s.memory.bytes = (uint64_t)64 << 20;
    room->s.train_path = room->dir;
    run_refused(room, EBB_DATA, room->dir);
    room->s.train_path = room->train.text;
    room->s.fresh = false;
    assert_int_equal(run_checkpoint(room->out.text), first.steps);
    assert_true(run_ok(room).already_done);
    run_room_free(room);
}

static void locked_folder_is_refused(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    ebb_ctx *ctx = test_ctx_new();
    file_lock lock;
    (void)run_ok(room);
    assert_ok(ctx, ebb__file_lock_dir(ctx, room->out.text, &lock));
    run_refused(room, EBB_USAGE, "in use by another process");
    room->s.fresh = true;
    run_refused(room, EBB_USAGE, "in use by another process");
    ebb__file_unlock(&lock);
    room->s.fresh = false;
    assert_true(run_ok(room).already_done);
    test_ctx_free(ctx);
    run_room_free(room);
}

/* ---- divergence ---- */

static run_room *wild_room(void) {
    run_room *room = run_busy_room();
    room->s.schedule = SCHEDULE_CONSTANT;
    room->s.dropout = 0;
    room->s.momentum = 0;
    room->s.clip = 0;
    room->s.save_every = 1;
    room->s.lr = 3e38;
    return room;
}

static void divergence_keeps_the_last_good_checkpoint(void **state) {
    (void)state;
    run_room *room = wild_room();
    job_train_result result;
    run_error error, again;
    long long step = 0, kept = 0;
    assert_int_equal(run_go(room, NULL, &result, &error), EBB_DIVERGED);
    int n =
        sscanf(error.text, "step %lld: the loss is not finite; last good checkpoint: step %lld;",
               &step, &kept);
    assert_true(n == 2 && step > 1 && kept == step - 1);
    assert_int_equal(run_checkpoint(room->out.text), kept);
    assert_int_equal(run_go(room, NULL, &result, &again), EBB_DIVERGED);
    assert_string_equal(error.text, again.text);
    assert_int_equal(run_checkpoint(room->out.text), kept);
    run_room_free(room);
}

static void overflown_weights_are_not_saved(void **state) {
    (void)state;
    run_room *room = wild_room();
    room->s.weight_decay = 1e6;
    run_refused(room, EBB_DIVERGED, "step 1: the updated embed.weight is not finite; no checkp");
    assert_int_equal(run_checkpoint(room->out.text), -1);
    run_room_free(room);
}

/* Small inputs, large weights behind them: the loss is finite, what flows back is not. */
static void overflown_gradient_is_named(void **state) {
    (void)state;
    run_room *room = wild_room();
    run_path init = run_join(room->dir, "init.safetensors");
    static const float scales[WEIGHTS] = {1e-14F, 1e12F, 0, 0, 0, 1e30F, 0};
    write_weights(init.text, 24, scales, WEIGHTS);
    room->s.init_path = init.text;
    room->s.lr = 1;
    run_refused(room, EBB_DIVERGED, "step 1: the gradient of embed.weight is not finite");
    run_room_free(room);
}

/* A validation loss above 709 has no finite perplexity; the run goes on all the same. */
static void huge_perplexity_is_stored(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    room->s.schedule = SCHEDULE_CONSTANT;
    room->s.momentum = 0;
    room->s.dropout = 0;
    room->s.clip = 0;
    room->s.lr = 1e5;
    job_train_result result = run_ok(room);
    assert_true(result.valid.at[0] > 1e300 && isfinite(result.valid.at[0]));
    assert_true(run_ok(room).already_done);
    run_room_free(room);
}

/* ---- damage ---- */

/* One file cut, flipped in one bit, emptied or gone. */
static void damage(const run_shot *shot, const char *dir, int file, test_dice *dice) {
    run_path path = run_join(dir, shot->file[file].name);
    run_bytes content = shot->file[file].content;
    int32_t size = (int32_t)content.bytes;
    switch (size > 0 ? test_below(dice, 8) : 7) {
    case 0:
    case 1:
        run_write(path.text, content.data, (size_t)test_below(dice, size));
        break;
    case 7:
        assert_int_equal(unlink(path.text), 0);
        break;
    default: {
        int32_t at = test_below(dice, size);
        char bit = (char)(1 << test_below(dice, 8));
        content.data[at] = (char)(content.data[at] ^ bit);
        run_write(path.text, content.data, content.bytes);
        content.data[at] = (char)(content.data[at] ^ bit);
    }
    }
}

/* A run that stopped on its way; any of its files is damaged: it goes on from what is whole to the
 * same bits, or says what is wrong. */
static void damaged_files_never_change_the_result(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    test_dice dice = {2};
    int went_on = 0, refused = 0;
    room->s.out_dir = room->other.text;
    job_train_result whole = run_ok(room), result;
    room->s.out_dir = room->out.text;
    run_watch watch;
    run_error error;
    run_watch_init(&watch, (int)whole.steps / 2);
    assert_int_equal(run_go(room, &watch, &result, &error), EBB_STOPPED);
    run_shot shot = run_look(room->out.text);
    for (int i = 0; i < (getenv("EBB_FAULT_FULL") != NULL ? 5000 : 300); i++) {
        run_restore(&shot, room->out.text);
        damage(&shot, room->out.text, test_below(&dice, shot.n), &dice);
        if (i % 3 == 0) { /* both generations may be hit */
            run_shot now = run_look(room->out.text);
            damage(&now, room->out.text, test_below(&dice, now.n), &dice);
            run_forget(&now);
        }
        ebb_status status = run_go(room, NULL, &result, &error);
        if (status == EBB_OK) {
            run_expect_same(room->out.text, room->other.text, "last.safetensors");
            run_expect_same(room->out.text, room->other.text, "best.safetensors");
            went_on++;
        } else if (status != EBB_MODEL || strstr(error.text, room->out.text) == NULL) {
            fail_msg("status %d: %s", (int)status, error.text);
        } else {
            refused++;
        }
    }
    assert_true(went_on > 50 && refused > 10);
    run_forget(&shot);
    run_room_free(room);
}

/* Any digit of the newest manifest: position, rate, sums, sizes, hashes. */
static void changed_digits_of_a_manifest_are_noticed(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    room->s.out_dir = room->other.text;
    job_train_result whole = run_ok(room), result;
    room->s.out_dir = room->out.text;
    run_watch watch;
    run_error error;
    run_watch_init(&watch, (int)whole.steps / 2);
    assert_int_equal(run_go(room, &watch, &result, &error), EBB_STOPPED);
    run_shot shot = run_look(room->out.text);
    char name[64];
    (void)snprintf(name, sizeof name, "ckpt-%lld.json", (long long)result.steps);
    run_path path = run_join(room->out.text, name);
    run_bytes manifest = run_read(path.text);
    int changed = 0;
    for (size_t i = 0; i < manifest.bytes; i++) {
        char digit = manifest.data[i];
        if (digit < '0' || digit > '9') {
            continue;
        }
        run_restore(&shot, room->out.text);
        manifest.data[i] = digit == '9' ? '1' : (char)(digit + 1);
        run_write(path.text, manifest.data, manifest.bytes);
        manifest.data[i] = digit;
        changed++;
        ebb_status status = run_go(room, NULL, &result, &error);
        if (status == EBB_OK) {
            run_expect_same_end(room->out.text, room->other.text, whole.steps);
        } else if (status != EBB_MODEL || strstr(error.text, "newer ebb") == NULL) {
            fail_msg("byte %zu: status %d: %s", i, (int)status, error.text);
        }
    }
    assert_true(changed > 100);
    free(manifest.data);
    run_forget(&shot);
    run_room_free(room);
}

/* Each file of the newest generation alone: the one before takes over. */
static void damaged_newest_generation_is_passed_over(void **state) {
    (void)state;
    static const char *const kinds[] = {".json", ".safetensors", ".state.safetensors"};
    run_room *room = run_busy_room();
    room->s.valid_path = NULL;
    room->s.schedule = SCHEDULE_CONSTANT;
    room->s.out_dir = room->other.text;
    job_train_result whole = run_ok(room), result;
    room->s.out_dir = room->out.text;
    run_watch watch;
    run_error error;
    run_watch_init(&watch, (int)whole.steps - 1);
    assert_int_equal(run_go(room, &watch, &result, &error), EBB_STOPPED);
    run_shot shot = run_look(room->out.text);
    for (size_t k = 0; k < 3; k++) {
        char name[64];
        (void)snprintf(name, sizeof name, "ckpt-%lld%s", (long long)result.steps, kinds[k]);
        run_path path = run_join(room->out.text, name);
        run_restore(&shot, room->out.text);
        run_bytes content = run_read(path.text);
        run_write(path.text, content.data, content.bytes / 2);
        free(content.data);
        assert_true(run_checkpoint(room->out.text) < result.steps);
        (void)run_ok(room);
        run_expect_same_end(room->out.text, room->other.text, whole.steps);
    }
    run_forget(&shot);
    run_room_free(room);
}

/* ---- starting weights ---- */

/* Of a safetensors file: the bytes of its header. */
static uint64_t first_number(run_bytes file) {
    uint64_t number = 0;
    assert_true(file.bytes > sizeof number);
    memcpy(&number, file.data, sizeof number);
    return number;
}

static void starts_from_given_weights(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    run_path init = run_join(room->dir, "init.safetensors");
    room->s.init_path = init.text;
    room->s.lr = 0; /* what went in comes out */
    static const float scales[WEIGHTS] = {1, 1, 1, 1, 1, 1, 1};
    write_weights(init.text, 24, scales, WEIGHTS);
    (void)run_ok(room);
    run_bytes in = run_read(init.text);
    run_bytes out = run_read(run_join(room->out.text, "last.safetensors").text);
    /* But for the header, which now says which words the weights know. */
    uint64_t in_head = 8 + first_number(in), out_head = 8 + first_number(out);
    assert_int_equal(in.bytes - in_head, out.bytes - out_head);
    assert_memory_equal(in.data + in_head, out.data + out_head, in.bytes - in_head);
    free(in.data);
    free(out.data);
    run_remove(room->out.text);
    write_weights(init.text, 24, scales, WEIGHTS - 1);
    run_refused(room, EBB_MODEL, "tensor out.bias is missing");
    write_weights(init.text, 23, scales, WEIGHTS);
    run_refused(room, EBB_MODEL, "has another type or shape");
    assert_int_equal(run_checkpoint(room->out.text), -1);
    assert_int_equal(truncate(init.text, 100), 0);
    run_refused(room, EBB_MODEL, init.text);
    assert_int_equal(unlink(init.text), 0);
    run_refused(room, EBB_IO, init.text);
    run_room_free(room);
}

/* ---- using what is damaged ---- */

static bool count_text(void *user, const char *text, size_t bytes) {
    (void)text;
    *(size_t *)user += bytes;
    return true;
}

static void damaged_weights_are_not_used(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    (void)run_ok(room);
    run_path best = run_join(room->out.text, "best.safetensors");
    run_path vocab = run_join(room->out.text, "vocab.txt");
    ebb_ctx *ctx = test_ctx_new();
    text_eval_result result;
    size_t written = 0;
    generate_options options = {.tokens = 1};
    room->s.hidden = 7;
    assert_refused(ctx,
                   ebb__lm_measure(ctx, &room->s, room->out.text, room->valid.text, NULL, &result),
                   EBB_MODEL, "another type or shape");
    room->s.hidden = 6;
    assert_int_equal(truncate(best.text, 200), 0);
    assert_refused(ctx,
                   ebb__lm_measure(ctx, &room->s, room->out.text, room->valid.text, NULL, &result),
                   EBB_MODEL, best.text);
    assert_refused(ctx,
                   ebb__job_generate(ctx, &room->s, room->out.text, &options, count_text, &written),
                   EBB_MODEL, best.text);
    assert_int_equal(truncate(vocab.text, 3), 0);
    assert_refused(ctx,
                   ebb__job_generate(ctx, &room->s, room->out.text, &options, count_text, &written),
                   EBB_MODEL, vocab.text);
    assert_int_equal(written, 0);
    test_ctx_free(ctx);
    run_room_free(room);
}

/* ---- bad texts ---- */

static void bad_texts_are_refused(void **state) {
    (void)state;
    run_room *room = run_busy_room();
    static const char garbage[] = "a\0b\xff\xfe\x80";
    run_write(room->train.text, "", 0);
    run_refused(room, EBB_DATA, room->train.text);
    run_write(room->train.text, "\n", 1); /* one token: nothing to predict */
    run_refused(room, EBB_DATA, "token");
    run_write(room->train.text, garbage, sizeof garbage);
    run_refused(room, EBB_DATA, room->train.text);
    assert_int_equal(unlink(room->train.text), 0);
    run_refused(room, EBB_DATA, room->train.text);
    assert_int_equal(run_checkpoint(room->out.text), -1);
    room->s.train_path = NULL;
    run_refused(room, EBB_USAGE, "--train");
    run_room_free(room);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_mathematics_is_refused),
        cmocka_unit_test(fresh_that_cannot_start_keeps_the_run),
        cmocka_unit_test(locked_folder_is_refused),
        cmocka_unit_test(divergence_keeps_the_last_good_checkpoint),
        cmocka_unit_test(overflown_weights_are_not_saved),
        cmocka_unit_test(overflown_gradient_is_named),
        cmocka_unit_test(huge_perplexity_is_stored),
        cmocka_unit_test(damaged_files_never_change_the_result),
        cmocka_unit_test(changed_digits_of_a_manifest_are_noticed),
        cmocka_unit_test(damaged_newest_generation_is_passed_over),
        cmocka_unit_test(starts_from_given_weights),
        cmocka_unit_test(damaged_weights_are_not_used),
        cmocka_unit_test(bad_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
