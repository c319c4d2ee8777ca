/* data.c - `ebb data grammar FILE` and `ebb data dates SRC TGT`: generated texts, to try things on
 * without a corpus. */
#include "cli/command.h"

#include "data/dates.h"
#include "data/grammar.h"

ebb_status ebb__cli_data_grammar(cli_call *call) {
    return ebb__grammar_write(call->ctx, call->words[0], (uint64_t)call->settings.lines,
                              call->settings.run.seed);
}

ebb_status ebb__cli_data_dates(cli_call *call) {
    return ebb__dates_write(call->ctx, call->words[0], call->words[1],
                            (uint64_t)call->settings.lines, call->settings.run.seed);
}
