/* ranks.c - the command as one of several processes that mpirun started. All parse the same command
 * line and do their part of it; the first one alone prints, and reads and writes files. */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { TICKETS = 8192 }; /* messages under way at once; a step has as many as it has tensors */
static const double OPEN_SECONDS = 60;
static const unsigned GRACE_SECONDS = 1; /* for the first process to say what befell all */

static comm_launch launch_of(void) {
    return (comm_launch){.ompi_size = getenv("OMPI_COMM_WORLD_SIZE"),
                         .pmi_size = getenv("PMI_SIZE"),
                         .pmix_rank = getenv("PMIX_RANK")};
}

ebb_status ebb__cli_join_ranks(cli_call *call, option_command command) {
    const comm_launch launch = launch_of();
    const comm_setup setup = {.tickets = TICKETS, .seconds = OPEN_SECONDS};
    int count = -1;
    TRY(ebb__comm_launched(call->ctx, &launch, &count));
    if (count < 0 || (count == 1 && command != FOR_BENCH && command != FOR_TRAIN)) {
        return EBB_OK;
    }
    TRY(ebb__comm_open_launched(call->ctx, &launch, &setup, &call->link));
    if (command == FOR_BENCH || command == FOR_TRAIN) {
        return EBB_OK;
    }
    return ebb__fail(call->ctx, EBB_USAGE,
                     "mpirun started %d processes, and only train and bench can be shared; start "
                     "this command once, without mpirun",
                     ebb__comm_size(call->link));
}

/* What must be the same in all processes. */
typedef struct rank_hello {
    char version[64];
    uint64_t settings; /* hash */
} rank_hello;

static ebb_status compare(cli_call *call, const rank_hello *all) {
    for (int rank = 1; rank < ebb__comm_size(call->link); rank++) {
        bool version = strncmp(all[rank].version, all[0].version, sizeof all[0].version) == 0;
        if (!version || all[rank].settings != all[0].settings) {
            return ebb__fail(call->ctx, EBB_USAGE,
                             "rank %d (%s) has %s than rank 0: start the same program with the "
                             "same options everywhere",
                             rank, ebb__comm_describe(call->link, rank)->host,
                             version ? "other settings" : "another version of ebb");
        }
    }
    return EBB_OK;
}

ebb_status ebb__cli_greet_ranks(cli_call *call) {
    page_text text = {.ctx = call->ctx};
    rank_hello own = {.settings = 0}, *all = NULL;
    if (call->link == NULL || ebb__comm_size(call->link) == 1) {
        return EBB_OK;
    }
    ebb_status status = ebb__cli_dump(&call->settings, OPTION_MATH, &text);
    if (status == EBB_OK) {
        (void)snprintf(own.version, sizeof own.version, "%s", ebb_version());
        own.settings = XXH3_64bits(text.bytes, strlen(text.bytes));
    }
    ebb__page_text_fini(&text);
    TRY(status);
    TRY(ebb__alloc(call->ctx, (size_t)ebb__comm_size(call->link), sizeof *all, &all));
    status = ebb__comm_gather(call->link, 0, &own, all, sizeof own, OPEN_SECONDS);
    if (status == EBB_OK && ebb__comm_rank(call->link) == 0) {
        status = compare(call, all);
    }
    ebb__free(call->ctx, all);
    return status;
}

bool ebb__cli_is_follower(const cli_call *call) {
    return call->link != NULL && ebb__comm_rank(call->link) > 0;
}

void ebb__cli_leave_ranks(cli_call *call, ebb_status status, void (*say)(const char *message)) {
    if (call->link == NULL) {
        return;
    }
    int rank = ebb__comm_rank(call->link);
    /* Of what all ranks failed at together, the first one has told. */
    if (status == EBB_OK || status == EBB_STOPPED || ebb__comm_agreed(call->link)) {
        /* Who is lost now has done its part. */
        (void)!ebb__comm_barrier(call->link, OPEN_SECONDS);
    } else {
        char line[1024];
        /* A signal that ends the wait is mpirun's, when another process has given up. */
        if (rank > 0 && sleep(GRACE_SECONDS) == 0) {
            (void)snprintf(line, sizeof line, "rank %d (%s): %s", rank,
                           ebb__comm_describe(call->link, rank)->host, ebb_last_error(call->ctx));
            say(line);
        }
        ebb__comm_abort(call->link, status);
    }
    ebb__comm_close(call->link);
    call->link = NULL;
}
