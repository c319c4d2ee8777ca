/* lines.c - what `ebb decode` reads: lines as they come from a descriptor. They are as many as the
 * bytes have, and no byte is given twice. */
#include "cli/input.h"
#include "fuzz/fuzz.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static bool never(void) {
    return false;
}

void fuzz_lines(fuzz_room *room, fuzz_input input) {
    fuzz_path path = fuzz_file(room, "lines");
    cli_input lines;
    decode_line line = {0};
    translate_next got = TRANSLATE_PAUSE;
    size_t given = 0, ends = 0;
    for (size_t i = 0; i < input.left; i++) {
        ends += input.at[i] == '\n';
    }
    fuzz_write(path, input.at, input.left);
    int fd = open(path.text, O_RDONLY | O_CLOEXEC);
    fuzz_require(fd >= 0 && ebb__input_open(room->ctx, fd, "lines", never, &lines) == EBB_OK,
                 "the lines cannot be opened");
    while (fuzz_fine(room, ebb__input_next(&lines, &line, &got)) && got != TRANSLATE_END) {
        if (got == TRANSLATE_SENTENCE) {
            fuzz_require(memchr(line.text, '\n', line.bytes) == NULL, "a line with a line end");
            given += line.bytes;
        }
    }
    size_t last = input.left > 0 && input.at[input.left - 1] != '\n';
    fuzz_require(lines.lines == ends + last, "lines were lost or made up");
    fuzz_require(given + ends <= input.left, "bytes were given twice");
    ebb__input_close(&lines);
    (void)close(fd);
}
