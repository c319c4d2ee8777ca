/* manifest.c - the manifest of a checkpoint. The first byte chooses how much of it is put right
 * before it is read, so that what lies behind the hashes is reached too. */
#include "fuzz/fuzz.h"
#include "store/checkpoint.h"

enum { RIGHT_FILES = 1, RIGHT_BEST = 2, RIGHT_HASH = 4 };

static json_t *sum_of(fuzz_room *room, fuzz_path path) {
    st_sum sum;
    fuzz_require(ebb__safetensors_sum(room->ctx, path.text, &sum) == EBB_OK, "no sum of a file");
    return json_pack("{s:I,s:s}", "bytes", (json_int_t)sum.bytes, "xxh3", sum.xxh3);
}

/* The files of generation 5, and what the manifest says of them. */
static void put_right(fuzz_room *room, json_t *root, uint8_t what) {
    fuzz_path weights = fuzz_file(room, "ckpt-5.safetensors");
    fuzz_path state = fuzz_file(room, "ckpt-5.state.safetensors");
    if ((what & RIGHT_FILES) != 0) {
        (void)json_object_set_new(root, "schema", json_integer(1));
        (void)json_object_set_new(root, "step", json_integer(5));
        (void)json_object_set_new(root, "weights", sum_of(room, weights));
        (void)json_object_set_new(root, "state", sum_of(room, state));
    }
    if ((what & RIGHT_BEST) != 0) {
        json_t *best = sum_of(room, weights);
        (void)json_object_set_new(best, "step", json_integer(5));
        (void)json_object_set_new(root, "best", best);
    }
    if ((what & RIGHT_HASH) != 0) {
        (void)json_object_del(root, "xxh3");
        (void)json_object_set_new(root, "xxh3", json_string(fuzz_json_sum(root).digits));
    }
}

void fuzz_manifest(fuzz_room *room, fuzz_input input) {
    uint8_t what = fuzz_byte(&input);
    fuzz_path path = fuzz_file(room, "ckpt-5.json");
    checkpoint_info info = {0};
    fuzz_write(fuzz_file(room, "ckpt-5.safetensors"), "weights", 7);
    fuzz_write(fuzz_file(room, "ckpt-5.state.safetensors"), "state", 5);
    json_t *root = json_loadb((const char *)input.at, input.left, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(root)) {
        put_right(room, root, what);
        fuzz_write_json(path, root);
    } else {
        fuzz_write(path, input.at, input.left);
    }
    json_decref(root);
    if (fuzz_fine(room, ebb__checkpoint_peek(room->ctx, room->folder, &info)) && info.found) {
        fuzz_require(info.step == 5 && json_is_object(info.train), "not what was stored");
        fuzz_require(!info.has_best || info.best_step <= 5, "the best is yet to come");
    }
    bool found = info.found;
    ebb__checkpoint_info_fini(&info);
    (void)fuzz_fine(room, ebb__checkpoint_find(room->ctx, room->folder, &info));
    fuzz_require(info.found == found, "peek and find do not agree");
    ebb__checkpoint_info_fini(&info);
}
