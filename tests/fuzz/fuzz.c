/* fuzz.c - see fuzz.h. */
#include "fuzz/fuzz.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

/* No parser may take more of small inputs. */
static const uint64_t most_bytes = UINT64_C(256) << 20;

static const fuzz_target targets[] = {
#define X(name) {#name, fuzz_##name},
#include "fuzz/targets.def"
#undef X
};

const fuzz_target *fuzz_at(size_t index) {
    return index < sizeof targets / sizeof *targets ? &targets[index] : NULL;
}

const fuzz_target *fuzz_find(const char *name) {
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        if (strcmp(targets[i].name, name) == 0) {
            return &targets[i];
        }
    }
    return NULL;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where) {
    (void)about;
    (void)kind;
    (void)where;
    return remove(path);
}

static void open_room(fuzz_room *room) {
    const char *base = getenv("TMPDIR");
    (void)snprintf(room->folder, sizeof room->folder, "%.100s/ebb-fuzz-XXXXXX",
                   base != NULL ? base : "/tmp");
    fuzz_require(mkdtemp(room->folder) != NULL, "no folder to work in");
    fuzz_require(ebb_ctx_new(&room->ctx) == EBB_OK, "no context");
}

static void close_room(fuzz_room *room) {
    fuzz_require(room->ctx->mem.live_blocks == 0, "memory was not given back");
    fuzz_require(room->ctx->mem.peak_bytes <= most_bytes, "far too much memory was taken");
    ebb_ctx_free(room->ctx);
    (void)nftw(room->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

void fuzz_run(const fuzz_target *target, const uint8_t *data, size_t bytes) {
    fuzz_room room;
    open_room(&room);
    target->run(&room, (fuzz_input){data, bytes});
    close_room(&room);
}

/* ---- for targets ---- */

uint8_t fuzz_byte(fuzz_input *input) {
    uint8_t byte = 0;
    if (input->left > 0) {
        byte = *input->at++;
        input->left--;
    }
    return byte;
}

uint32_t fuzz_word(fuzz_input *input) {
    uint32_t word = 0;
    for (int i = 0; i < 4; i++) {
        word |= (uint32_t)fuzz_byte(input) << (8 * i);
    }
    return word;
}

fuzz_input fuzz_part(fuzz_input *input, uint8_t end) {
    fuzz_input part = {input->at, input->left};
    const uint8_t *found = input->left > 0 ? memchr(input->at, end, input->left) : NULL;
    if (found != NULL) {
        part.left = (size_t)(found - input->at);
    }
    size_t used = part.left + (found != NULL);
    input->at += used;
    input->left -= used;
    return part;
}

char *fuzz_string(fuzz_input input) {
    char *text = malloc(input.left + 1);
    fuzz_require(text != NULL, "no memory");
    if (input.left > 0) {
        memcpy(text, input.at, input.left);
    }
    text[input.left] = '\0';
    return text;
}

fuzz_path fuzz_file(const fuzz_room *room, const char *name) {
    fuzz_path path;
    (void)snprintf(path.text, sizeof path.text, "%.127s/%.120s", room->folder, name);
    return path;
}

static int open_new(fuzz_path path) {
    int fd = open(path.text, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (char *slash = path.text; fd < 0 && (slash = strchr(slash + 1, '/')) != NULL;) {
        *slash = '\0';
        (void)mkdir(path.text, 0700);
        *slash = '/';
    }
    return fd >= 0 ? fd : open(path.text, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

void fuzz_write(fuzz_path path, const void *data, size_t bytes) {
    int fd = open_new(path);
    fuzz_require(fd >= 0, "a file could not be made");
    fuzz_require(bytes == 0 || write(fd, data, bytes) == (ssize_t)bytes, "a write failed");
    (void)close(fd);
}

void fuzz_require(bool holds, const char *what) {
    if (!holds) {
        (void)fprintf(stderr, "fuzz: %s\n", what);
        abort();
    }
}

bool fuzz_fine(fuzz_room *room, ebb_status status) {
    const char *sentence = ebb_last_error(room->ctx);
    if (status != EBB_OK && (sentence[0] == '\0' || status == EBB_INTERNAL)) {
        (void)fprintf(stderr, "status %d: \"%s\"\n", (int)status, sentence);
        fuzz_require(false, "a refusal needs a sentence, and is the input's fault");
    }
    ebb__ctx_clear(room->ctx);
    return status == EBB_OK;
}

static int add_to_sum(const char *text, size_t bytes, void *state) {
    return XXH3_64bits_update(state, text, bytes) == XXH_OK ? 0 : -1;
}

fuzz_sum fuzz_json_sum(const json_t *value) {
    fuzz_sum sum;
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    (void)json_dump_callback(value, add_to_sum, &state,
                             JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    (void)snprintf(sum.digits, sizeof sum.digits, "%016llx",
                   (unsigned long long)XXH3_64bits_digest(&state));
    return sum;
}

void fuzz_write_json(fuzz_path path, const json_t *value) {
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    fuzz_require(text != NULL, "no JSON text");
    fuzz_write(path, text, strlen(text));
    free(text);
}
