/* value.c - one option's value, as text; the first two bytes choose kind of model and option. What
 * is accepted can be written in a config, and means the same there. */
#include "cli/options.h"
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void init(fuzz_room *room, const model_kind *model, cli_settings *out) {
    fuzz_require(ebb__cli_settings_init(room->ctx, model, out) == EBB_OK, "the defaults are wrong");
}

static void through_a_file(fuzz_room *room, const cli_settings *settings) {
    page_text first = {.ctx = room->ctx}, second = {.ctx = room->ctx};
    fuzz_path path = fuzz_file(room, "config");
    cli_settings again;
    init(room, settings->run.kind, &again);
    fuzz_require(ebb__cli_dump(settings, OPTION_SHOWN, &first) == EBB_OK, "it cannot be written");
    fuzz_write(path, first.bytes, first.used);
    if (ebb__cli_load(&again, path.text, EBB_USAGE) != EBB_OK) {
        fuzz_require(false, ebb_last_error(room->ctx));
    }
    fuzz_require(ebb__cli_dump(&again, OPTION_SHOWN, &second) == EBB_OK, "nor a second time");
    fuzz_require(strcmp(first.bytes, second.bytes) == 0, "it means something else in a file");
    ebb__cli_settings_fini(&again);
    ebb__page_text_fini(&first);
    ebb__page_text_fini(&second);
}

void fuzz_value(fuzz_room *room, fuzz_input input) {
    const model_kind *model = fuzz_byte(&input) & 1 ? &ebb__kind_nmt : &ebb__kind_lm;
    const train_option *option =
        ebb__cli_option(model, fuzz_byte(&input) % ebb__cli_option_count(model));
    char *text = fuzz_string(input);
    cli_settings settings;
    init(room, model, &settings);
    if (strlen(text) == input.left) {
        option = ebb__option_meant(option, text);
        if (fuzz_fine(room, ebb__cli_assign(&settings, option, text, false, "--option"))) {
            through_a_file(room, &settings);
        }
    }
    ebb__cli_settings_fini(&settings);
    free(text);
}
