/* generations.c - a run folder whose files have any names, one a line of the input: which are
 * generations, what is found, and that clearing leaves none of them. */
#include "fuzz/fuzz.h"
#include "store/checkpoint.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NAMES = 40, MOST_LENGTH = 100 };

static void make_files(fuzz_room *room, fuzz_input input) {
    for (int i = 0; i < MOST_NAMES && input.left > 0; i++) {
        fuzz_input line = fuzz_part(&input, '\n');
        char *name = fuzz_string(line);
        bool good = line.left > 0 && line.left <= MOST_LENGTH && strlen(name) == line.left &&
                    strchr(name, '/') == NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
        if (good) {
            fuzz_write(fuzz_file(room, name), "{}", 2);
        }
        free(name);
    }
}

void fuzz_generations(fuzz_room *room, fuzz_input input) {
    checkpoint_info info = {0};
    make_files(room, input);
    (void)fuzz_fine(room, ebb__checkpoint_peek(room->ctx, room->folder, &info));
    fuzz_require(!info.found, "a generation without a manifest was found");
    ebb__checkpoint_info_fini(&info);
    fuzz_require(ebb__checkpoint_clear(room->ctx, room->folder) == EBB_OK, "clearing failed");
    (void)fuzz_fine(room, ebb__checkpoint_find(room->ctx, room->folder, &info));
    fuzz_require(!info.found, "a generation was left");
    ebb__checkpoint_info_fini(&info);
}
