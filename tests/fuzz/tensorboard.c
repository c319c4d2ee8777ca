/* tensorboard.c - the list of a run's event files, and the mark in a checkpoint: three parts,
 * separated by zero bytes, are the name in the mark, the list and the file that it names. Whatever
 * they say, events can be added, and no file outside the folder is touched. */
#include "fuzz/fuzz.h"
#include "store/tensorboard.h"

#include <string.h>
#include <sys/stat.h>

static bool is_file_name(const char *name) {
    return name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL && strlen(name) <= 100;
}

void fuzz_tensorboard(fuzz_room *room, fuzz_input input) {
    tensorboard_mark mark = {.bytes = fuzz_byte(&input)};
    int64_t step = fuzz_byte(&input);
    fuzz_input name = fuzz_part(&input, 0), list = fuzz_part(&input, 0);
    fuzz_path folder = fuzz_file(room, "tb"), names = fuzz_file(room, "events");
    fuzz_path other = fuzz_file(room, "other");
    tensorboard_log log;
    memcpy(mark.name, name.at, name.left < sizeof mark.name ? name.left : 0);
    if (is_file_name(mark.name)) {
        char inside[TENSORBOARD_NAME_BYTES + 4] = "tb/";
        (void)strcat(inside, mark.name);
        fuzz_write(fuzz_file(room, inside), input.at, input.left);
    }
    fuzz_write(names, list.at, list.left);
    fuzz_write(other, "stays", 5);
    if (fuzz_fine(room,
                  ebb__tensorboard_open(room->ctx, folder.text, names.text, &mark, step, &log))) {
        tensorboard_scalar loss = {"train/loss", 1};
        fuzz_require(ebb__tensorboard_write(&log, step + 1, &loss, 1) == EBB_OK, "no event added");
        ebb__tensorboard_close(&log);
    }
    struct stat about;
    fuzz_require(stat(other.text, &about) == 0 && about.st_size == 5, "another file was touched");
}
