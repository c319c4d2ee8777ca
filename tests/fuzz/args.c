/* args.c - the command line of any command: its arguments, separated by zero bytes. The first byte
 * chooses command and kind of model. */
#include "cli/options.h"
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ARGS = 64, COMMANDS = 14 };

void fuzz_args(fuzz_room *room, fuzz_input input) {
    uint8_t choice = fuzz_byte(&input);
    char *text = fuzz_string(input), *argv[MOST_ARGS + 1];
    const char *words[3];
    int argc = 0, got = 0;
    bool help = false;
    cli_settings settings;
    for (char *at = text; argc < MOST_ARGS && at <= text + input.left; at += strlen(at) + 1) {
        argv[argc++] = at;
    }
    argv[argc] = NULL;
    fuzz_require(ebb__cli_settings_init(room->ctx, choice & 1 ? &ebb__kind_nmt : &ebb__kind_lm,
                                        &settings) == EBB_OK,
                 "the defaults are wrong");
    ebb_status status = ebb__cli_parse(&settings, (option_command)(1 << (choice >> 1) % COMMANDS),
                                       "x y", argc, argv, words, 2, &got, &help);
    fuzz_require(got >= 0 && got <= 2, "too many words");
    if (fuzz_fine(room, status) && !help) {
        (void)fuzz_fine(room, ebb__cli_resolve(&settings));
    }
    ebb__cli_settings_fini(&settings);
    free(text);
}
