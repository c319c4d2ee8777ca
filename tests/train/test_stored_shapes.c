/* test_stored_shapes.c - the shapes of a run are chosen once: they are stored with it and used when
 * it goes on, whatever would be chosen now; what cannot have been chosen is refused. */
#include "train/run_help.h"

#include <stdlib.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

static int add_to_hash(const char *text, size_t bytes, void *hash) {
    return XXH3_64bits_update(hash, text, bytes) == XXH_OK ? 0 : -1;
}

static run_path manifest_path(const run_room *room) {
    char name[64];
    (void)snprintf(name, sizeof name, "ckpt-%lld.json", (long long)run_checkpoint(room->out.text));
    return run_join(room->out.text, name);
}

/* What the newest checkpoint stores, as text; the caller's to free. */
static char *stored_buckets(const run_room *room) {
    json_t *root = json_load_file(manifest_path(room).text, 0, NULL);
    assert_non_null(root);
    const json_t *buckets = json_object_get(json_object_get(root, "train"), "buckets");
    char *text = buckets != NULL ? json_dumps(buckets, JSON_COMPACT) : NULL;
    json_decref(root);
    return text;
}

/* Puts something else there, NULL: nothing, with the right hash. */
static void store_buckets(const run_room *room, const char *text) {
    run_path path = manifest_path(room);
    json_t *root = json_load_file(path.text, 0, NULL), *train = json_object_get(root, "train");
    XXH3_state_t hash;
    char digits[17];
    assert_non_null(train);
    (void)json_object_del(train, "buckets");
    if (text != NULL) {
        json_t *buckets = json_loads(text, JSON_DECODE_ANY, NULL);
        assert_non_null(buckets);
        assert_int_equal(json_object_set_new(train, "buckets", buckets), 0);
    }
    (void)json_object_del(root, "xxh3");
    XXH3_64bits_reset(&hash);
    assert_int_equal(json_dump_callback(root, add_to_hash, &hash, JSON_COMPACT | JSON_SORT_KEYS),
                     0);
    (void)snprintf(digits, sizeof digits, "%016llx", (unsigned long long)XXH3_64bits_digest(&hash));
    assert_int_equal(json_object_set_new(root, "xxh3", json_string(digits)), 0);
    char *whole = json_dumps(root, 0);
    run_write(path.text, whole, strlen(whole));
    free(whole);
    json_decref(root);
}

/* A run of both kinds, batches of 4 sentences or of 12 tokens, stopped after some steps. */
enum { FORMS = 4, ROWS = 4, TOKENS = 12, LONGEST = 5 };
static run_room *broken_room(int form) {
    run_room *room = form % 2 == 0 ? run_lines_room(19, 7, LONGEST, false)
                                   : run_pairs_room(19, 7, LONGEST, false);
    room->s.bucket = BUCKET_AUTO;
    room->s.shape_list = "3,6";
    room->s.max_len = 10;
    room->s.batch = form < 2 ? ROWS : 0;
    room->s.batch_tokens = form < 2 ? 0 : TOKENS;
    room->s.epochs = 0;
    room->s.steps = 2;
    job_train_result result = run_ok(room);
    assert_true(result.buckets.shapes.n >= 1 && result.buckets.strategy != BUCKET_AUTO);
    room->s.steps = 0;
    room->s.epochs = 3;
    return room;
}

/* One shape for all, and room for longer ones, which no strategy would choose now. */
static void stored_shapes_are_used(void **state) {
    (void)state;
    for (int form = 0; form < FORMS; form++) {
        run_room *room = broken_room(form);
        int64_t longest = LONGEST + 3, rows = form < 2 ? ROWS : TOKENS / longest;
        char text[128];
        (void)snprintf(text, sizeof text,
                       "{\"strategy\":\"width\",\"padded_share\":0.25,\"shapes\":[[%d,%d,%d]]}",
                       (int)(form % 2 == 0 ? 0 : longest), (int)longest, (int)rows);
        store_buckets(room, text);
        job_train_result result = run_ok(room);
        assert_true(result.resumed);
        assert_int_equal(result.steps, 3 * ((19 + rows - 1) / rows));
        assert_int_equal(result.buckets.strategy, BUCKET_WIDTH);
        assert_true(result.buckets.padded_share == 0.25);
        assert_int_equal(result.planned_peak_bytes, result.measured_peak_bytes);
        /* They stay, and are told also of a run that is done. */
        char *now = stored_buckets(room);
        assert_string_equal(now, text);
        free(now);
        result = run_ok(room);
        assert_true(result.already_done && result.buckets.shapes.n == 1);
        assert_int_equal(result.buckets.shapes.at[0].target, longest);
        run_room_free(room);
    }
}

/* Checkpoints did not always have them. */
static void without_any_they_are_chosen_again(void **state) {
    (void)state;
    for (int form = 0; form < FORMS; form++) {
        run_room *room = broken_room(form);
        char *before = stored_buckets(room);
        store_buckets(room, NULL);
        assert_true(run_ok(room).resumed);
        char *after = stored_buckets(room);
        assert_string_equal(before, after);
        free(before);
        free(after);
        run_room_free(room);
    }
}

static void a_stream_has_none(void **state) {
    (void)state;
    run_room *room = run_room_new(8, 3);
    room->s.epochs = 1;
    assert_int_equal(run_ok(room).buckets.shapes.n, 0);
    assert_null(stored_buckets(room));
    run_room_free(room);
}

#define SHAPES(list) "{\"strategy\":\"none\",\"padded_share\":0.5,\"shapes\":[" list "]}"
#define TEN "[0,7,4],[0,7,4],[0,7,4],[0,7,4],[0,7,4],[0,7,4],[0,7,4],[0,7,4],[0,7,4],[0,7,4],"

static void nonsense_is_refused(void **state) {
    (void)state;
    static const struct {
        int form;
        const char *text, *says;
    } bad[] = {
        {0, "null", "contradicts itself"},
        {0, "[]", "contradicts itself"},
        {0, "{}", "contradicts itself"},
        {0, "{\"strategy\":\"none\",\"shapes\":[[0,7,4]]}", "contradicts itself"},
        {0, "{\"strategy\":\"none\",\"padded_share\":1,\"shapes\":[[0,7,4]]}", "contradicts"},
        {0, "{\"strategy\":\"none\",\"padded_share\":-0.1,\"shapes\":[[0,7,4]]}", "contradicts"},
        {0, "{\"strategy\":\"none\",\"padded_share\":\"0\",\"shapes\":[[0,7,4]]}", "contradicts"},
        {0, "{\"strategy\":\"auto\",\"padded_share\":0,\"shapes\":[[0,7,4]]}", "contradicts"},
        {0, "{\"strategy\":5,\"padded_share\":0,\"shapes\":[[0,7,4]]}", "contradicts"},
        {0, "{\"strategy\":\"none\",\"padded_share\":0,\"shapes\":{}}", "contradicts"},
        {0, SHAPES(""), "contradicts itself"},
        {0, SHAPES(TEN TEN TEN "[0,7,4],[0,7,4],[0,7,4]"), "contradicts itself"},
        {0, SHAPES("[0,7]"), "contradicts itself"},
        {0, SHAPES("[0,7,4,1]"), "contradicts itself"},
        {0, SHAPES("7"), "contradicts itself"},
        {0, SHAPES("[0,\"7\",4]"), "contradicts itself"},
        {0, SHAPES("[0,7.5,4]"), "contradicts itself"},
        {0, SHAPES("[-1,7,4]"), "contradicts itself"},
        {0, SHAPES("[0,-7,4]"), "contradicts itself"},
        {0, SHAPES("[0,7,-4]"), "contradicts itself"},
        {0, SHAPES("[0,7,4294967300]"), "contradicts itself"},
        {0, SHAPES("[0,9223372036854775807,4]"), "contradicts itself"},
        {0, SHAPES("[0,0,4]"), "none that its settings give"},
        {0, SHAPES("[0,12,4]"), "none that its settings give"}, /* --max-len 10 */
        {0, SHAPES("[0,2000000000,4]"), "none that its settings give"},
        {0, SHAPES("[7,7,4]"), "none that its settings give"},
        {0, SHAPES("[0,7,0]"), "none that its settings give"},
        {0, SHAPES("[0,7,3]"), "none that its settings give"},
        {0, SHAPES("[0,7,2000000000]"), "none that its settings give"},
        {1, SHAPES("[0,7,4]"), "none that its settings give"},
        {1, SHAPES("[12,7,4]"), "none that its settings give"},
        {2, SHAPES("[0,7,2]"), "none that its settings give"}, /* 14 tokens of 12 */
        {2, "{\"strategy\":\"pool\",\"padded_share\":0,\"shapes\":[[0,6,2]]}", "none that its"},
        {1, "{\"strategy\":\"pool\",\"padded_share\":0,\"shapes\":[[7,6,4],[6,7,4]]}", "none that"},
        {0, SHAPES("[0,3,4]"), " of 19 sentences"},
        {1, SHAPES("[7,3,4],[3,7,4]"), " of 19 sentences"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        run_room *room = broken_room(bad[i].form);
        store_buckets(room, bad[i].text);
        run_refused(room, EBB_MODEL, bad[i].says);
        run_room_free(room);
    }
    /* A strategy that was not asked for. */
    run_room *room = run_lines_room(19, 7, LONGEST, false);
    room->s.epochs = 1;
    (void)run_ok(room);
    room->s.epochs = 2;
    store_buckets(room, "{\"strategy\":\"none\",\"padded_share\":0,\"shapes\":[[0,7,3]]}");
    run_refused(room, EBB_MODEL, "none that its settings give");
    run_room_free(room);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_shapes_are_used),
        cmocka_unit_test(without_any_they_are_chosen_again),
        cmocka_unit_test(a_stream_has_none),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
