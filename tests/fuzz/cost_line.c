/* cost_line.c - one measured product as a line. There is one way to write it, and nothing else is
 * read. */
#include "cost/line.h"
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

void fuzz_cost_line(fuzz_room *room, fuzz_input input) {
    char *line = fuzz_string(input), again[COST_LINE_BYTES];
    const device *dev = ebb__device_default();
    cost_entry entry;
    (void)room;
    if (ebb__cost_line_read(dev, line, &entry) == NULL && entry.key.kernel >= 0) {
        ebb__cost_line_write(dev, &entry, again);
        fuzz_require(strcmp(line, again) == 0, "a line is written otherwise than it was read");
    }
    free(line);
}
