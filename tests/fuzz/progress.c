/* progress.c - what a checkpoint says of its run: steps, scores, the shapes of sentences. What is
 * accepted is packed and unpacked again, to the same object. Behind a zero byte there may be a list
 * of --override: settings that differ are then taken exactly if the list has their key. */
#include "kind/kinds.h"
#include "kind/text/options.h"
#include "fuzz/fuzz.h"
#include "train/progress.h"

#include <stdlib.h>
#include <string.h>

static const char settings_text[] = "a = 1\nb = 2\n";

/* The part that must agree with the settings is put right if the first byte says so. */
static json_t *object_of(fuzz_input input) {
    uint8_t what = fuzz_byte(&input);
    json_t *train = json_loadb((const char *)input.at, input.left, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(train) && (what & 1) != 0) {
        (void)json_object_set_new(train, "settings", json_string(settings_text));
        (void)json_object_set_new(train, "step", json_integer(5));
    }
    return train;
}

static void use(progress_state *at) {
    train_settings settings;
    memset(&settings, 0, sizeof settings);
    settings.kind = &ebb__kind_nmt;
    settings.patience = 2;
    settings.epochs = 3;
    (void)ebb__progress_exhausted(at, &settings);
    (void)ebb__progress_loss(at);
    (void)ebb__progress_validated(at, &settings, (kind_scores){{1, 2, -1, -1}});
}

static void round_trip(fuzz_room *room, const progress_state *at, const corpus *text) {
    checkpoint_info info = {.found = true, .step = 5};
    progress_state again;
    corpus other;
    memset(&other, 0, sizeof other);
    other.s = text->s;
    memset(&again, 0, sizeof again);
    info.train = ebb__progress_pack(at, text, settings_text);
    fuzz_require(info.train != NULL, "it cannot be packed");
    if (ebb__progress_unpack(room->ctx, "run", &info, settings_text, &other, &again) != EBB_OK) {
        fuzz_require(false, ebb_last_error(room->ctx));
    }
    json_t *second = ebb__progress_pack(&again, &other, settings_text);
    fuzz_require(json_equal(info.train, second), "what was packed is unpacked otherwise");
    json_decref(second);
    json_decref(again.overrides);
    ebb__checkpoint_info_fini(&info);
}

/* Settings that differ from the stored ones in one key. */
static void use_overrides(fuzz_room *room, const json_t *train, char *list) {
    static const char changed[] = "a = 1\nb = 3\n";
    checkpoint_info info = {.found = true, .step = 5, .train = json_deep_copy(train)};
    train_settings settings = {.kind = &ebb__kind_nmt, .override = list};
    corpus text;
    progress_state at;
    memset(&text, 0, sizeof text);
    memset(&at, 0, sizeof at);
    text.s = &settings;
    bool named = strncmp(list, "b=", 2) == 0 || strstr(list, ",b=") != NULL;
    if (fuzz_fine(room, ebb__progress_unpack(room->ctx, "run", &info, changed, &text, &at))) {
        fuzz_require(named, "a setting was changed that the list has not");
        fuzz_require(json_array_size(at.overrides) > 0, "nothing was noted");
    }
    json_decref(at.overrides);
    ebb__checkpoint_info_fini(&info);
}

void fuzz_progress(fuzz_room *room, fuzz_input whole) {
    fuzz_input input = fuzz_part(&whole, 0);
    char *list = fuzz_string(whole);
    checkpoint_info info = {.found = true, .step = 5, .train = object_of(input)};
    progress_state at;
    corpus text;
    train_settings settings;
    memset(&text, 0, sizeof text);
    memset(&settings, 0, sizeof settings);
    settings.kind = &ebb__kind_nmt;
    text.s = &settings;
    memset(&at, 0, sizeof at);
    if (json_is_object(info.train) &&
        fuzz_fine(room, ebb__progress_unpack(room->ctx, "run", &info, settings_text, &text, &at))) {
        fuzz_require(text.buckets.shapes.n >= 0 && text.buckets.shapes.n <= DATA_MOST_SHAPES,
                     "more shapes than there can be");
        round_trip(room, &at, &text);
        use(&at);
        json_decref(at.overrides);
        use_overrides(room, info.train, list);
    }
    free(list);
    ebb__checkpoint_info_fini(&info);
}
