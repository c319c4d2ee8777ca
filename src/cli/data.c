/* data.c - `ebb data grammar FILE` and `ebb data dates SRC TGT`: generated texts, to try things on
 * without a corpus. */
#include "cli/command.h"

#include "base/file.h"
#include "data/dates.h"
#include "data/grammar.h"

ebb_status ebb__cli_data_grammar(cli_call *call) {
    char path[1024];
    TRY(ebb__file_follow(call->ctx, call->words[0], path));
    return ebb__grammar_write(call->ctx, path, (uint64_t)call->settings.lines,
                              call->settings.run.seed);
}

ebb_status ebb__cli_data_dates(cli_call *call) {
    char source[1024], target[1024];
    TRY(ebb__file_follow(call->ctx, call->words[0], source));
    TRY(ebb__file_follow(call->ctx, call->words[1], target));
    return ebb__dates_write(call->ctx, source, target, (uint64_t)call->settings.lines,
                            call->settings.run.seed);
}
