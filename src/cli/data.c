/* data.c - `ebb data grammar FILE`: sentences of a toy grammar, to try things on without a corpus.
 */
#include "cli/command.h"

#include "data/grammar.h"

ebb_status ebb__cli_data(cli_call *call) {
    return ebb__grammar_write(call->ctx, call->words[0], (uint64_t)call->settings.lines,
                              call->settings.run.seed);
}
