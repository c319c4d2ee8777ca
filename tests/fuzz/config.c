/* config.c - a config file. What is accepted is written and read again, to the same values. The
 * first byte chooses the kind of model. */
#include "cli/command.h"
#include "kind/stored.h"
#include "fuzz/fuzz.h"

#include <string.h>

static void init(fuzz_room *room, const model_kind *model, cli_settings *out) {
    fuzz_require(ebb__cli_settings_init(room->ctx, model, out) == EBB_OK, "the defaults are wrong");
}

static void round_trip(fuzz_room *room, const cli_settings *settings) {
    page_text first = {.ctx = room->ctx}, second = {.ctx = room->ctx};
    fuzz_path path = fuzz_file(room, "again");
    cli_settings again;
    init(room, settings->run.kind, &again);
    fuzz_require(ebb__cli_dump(settings, OPTION_SHOWN, &first) == EBB_OK, "it cannot be written");
    fuzz_write(path, first.bytes, first.used);
    if (ebb__cli_load(&again, path.text, EBB_MODEL) != EBB_OK) {
        fuzz_require(false, ebb_last_error(room->ctx));
    }
    fuzz_require(ebb__cli_dump(&again, OPTION_SHOWN, &second) == EBB_OK, "nor a second time");
    fuzz_require(first.used == second.used && memcmp(first.bytes, second.bytes, first.used) == 0,
                 "what was written is read otherwise");
    ebb__cli_settings_fini(&again);
    ebb__page_text_fini(&first);
    ebb__page_text_fini(&second);
}

/* As the config of a run that is used: its kind is told first. */
static void load_run(fuzz_room *room, const model_kind *model) {
    cli_settings asked, run;
    const model_kind *kind = &ebb__kind_lm;
    init(room, model, &asked);
    init(room, model, &run);
    (void)fuzz_fine(room, ebb__stored_kind(room->ctx, room->folder, &kind));
    (void)fuzz_fine(room, ebb__cli_load_run(&asked, room->folder, &run));
    ebb__cli_settings_fini(&run);
    ebb__cli_settings_fini(&asked);
}

void fuzz_config(fuzz_room *room, fuzz_input input) {
    const model_kind *model = fuzz_byte(&input) & 1 ? &ebb__kind_nmt : &ebb__kind_lm;
    fuzz_path path = fuzz_file(room, "config");
    cli_settings settings;
    init(room, model, &settings);
    fuzz_write(path, input.at, input.left);
    if (fuzz_fine(room, ebb__cli_load(&settings, path.text, EBB_MODEL)) &&
        fuzz_fine(room, ebb__cli_resolve(&settings))) {
        round_trip(room, &settings);
    }
    ebb__cli_settings_fini(&settings);
    load_run(room, model);
}
