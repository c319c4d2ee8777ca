/* ranks.c - the command as one of several processes that mpirun started. All parse the same command
 * line and do their part of it; the first one alone prints, and reads and writes files. */
#include "cli/command.h"

#include "base/file.h"
#include "train/forecast.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { TICKETS = 8192 }; /* messages under way at once; a step has as many as it has tensors */
enum { MOST_FILE = 16 << 20 }; /* bytes of a file that decides what is computed */
static const double OPEN_SECONDS = 60;
/* MPI waits without limit where processes begin and end; then a signal ends this one. */
enum { BEGIN_SECONDS = 120, ENDED_SECONDS = 10 };

static comm_launch launch_of(void) {
    return (comm_launch){.ompi_size = getenv("OMPI_COMM_WORLD_SIZE"),
                         .pmi_size = getenv("PMI_SIZE"),
                         .pmix_rank = getenv("PMIX_RANK")};
}

static void end_silently(int number) {
    (void)number;
    _exit(EBB_LOST);
}

static void end_alone(int number) {
    static const char text[] =
        "ebb: a process that mpirun started does not come: nothing was done\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    end_silently(number);
}

/* Seconds until `then`; 0: no limit any more. */
static void limit_time(unsigned seconds, void (*then)(int number)) {
    (void)alarm(0);
    (void)signal(SIGALRM, then);
    (void)alarm(seconds);
}

/* Of processes that all wait for one, the first says so. */
static ebb_status open_link(cli_call *call, const comm_launch *launch) {
    const comm_setup setup = {.tickets = TICKETS, .seconds = OPEN_SECONDS};
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    bool first = rank == NULL || strcmp(rank, "0") == 0;
    limit_time(first ? BEGIN_SECONDS : BEGIN_SECONDS + ENDED_SECONDS,
               first ? end_alone : end_silently);
    ebb_status status = ebb__comm_open_launched(call->ctx, launch, &setup, &call->link);
    limit_time(0, SIG_DFL);
    return status;
}

ebb_status ebb__cli_join_ranks(cli_call *call, option_command command) {
    const comm_launch launch = launch_of();
    int count = -1;
    TRY(ebb__comm_launched(call->ctx, &launch, &count));
    if (count < 0 || (count == 1 && command != FOR_BENCH && command != FOR_TRAIN)) {
        return EBB_OK;
    }
    TRY(open_link(call, &launch));
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

/* Every process reads such a file by itself (a net's). One that cannot be read is refused later, by
 * whoever needs it. */
static ebb_status put_file(page_text *text, const char *name, const char *path) {
    char *bytes = NULL;
    size_t n = 0;
    if (ebb__file_read_all(text->ctx, path, MOST_FILE, &bytes, &n) != EBB_OK) {
        ebb__ctx_clear(text->ctx);
        return EBB_OK;
    }
    ebb_status status =
        ebb__page_put(text, "%s has %016" PRIx64 "\n", name, (uint64_t)XXH3_64bits(bytes, n));
    ebb__free(text->ctx, bytes);
    return status;
}

static ebb_status put_files(const cli_settings *settings, page_text *text) {
    const unsigned wanted = OPTION_MATH | OPTION_PATH;
    const model_kind *kind = settings->run.kind;
    for (size_t i = 0; i < ebb__cli_option_count(kind); i++) {
        const train_option *option = ebb__cli_option(kind, i);
        if ((option->flags & wanted) != wanted) {
            continue;
        }
        const char *path = *(const char *const *)((const char *)settings + option->offset);
        if (path != NULL && (kind->is_name == NULL || !kind->is_name(option, path))) {
            TRY(put_file(text, option->name, path));
        }
    }
    return EBB_OK;
}

/* All that decides what processes compute, and what they tell each other. */
static ebb_status put_settings(const cli_call *call, option_command command, page_text *text) {
    TRY(ebb__page_put(text, "command = %u\n", (unsigned)command));
    TRY(ebb__cli_dump(&call->settings, OPTION_MATH, text));
    TRY(ebb__cli_dump(&call->settings, OPTION_JOINT, text));
    return put_files(&call->settings, text);
}

ebb_status ebb__cli_greet_ranks(cli_call *call, option_command command) {
    page_text text = {.ctx = call->ctx};
    rank_hello own = {.settings = 0}, *all = NULL;
    if (call->link == NULL || ebb__comm_size(call->link) == 1) {
        return EBB_OK;
    }
    ebb_status status = put_settings(call, command, &text);
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

/* Numbers, switches and choices that decide what is computed. Texts are as they were given. */
typedef struct told_settings {
    char value[OPTION_MAX][sizeof(uint64_t)];
} told_settings;

static void move_settings(cli_settings *settings, told_settings *told, bool take) {
    const model_kind *kind = settings->run.kind;
    for (size_t i = 0; i < ebb__cli_option_count(kind); i++) {
        const train_option *option = ebb__cli_option(kind, i);
        char *own = (char *)settings + option->offset;
        size_t bytes = ebb__option_bytes(option);
        bool text = option->kind == OPTION_TEXT || option->kind == OPTION_SIZE;
        if ((option->flags & OPTION_MATH) != 0 && !text) {
            memcpy(take ? own : told->value[i], take ? told->value[i] : own, bytes);
        }
    }
}

ebb_status ebb__cli_share_settings(cli_call *call) {
    told_settings told = {{{0}}};
    if (call->link == NULL || ebb__comm_size(call->link) == 1) {
        return EBB_OK;
    }
    move_settings(&call->settings, &told, false);
    TRY(ebb__comm_broadcast(call->link, 0, &told, sizeof told, call->settings.run.lost_after));
    move_settings(&call->settings, &told, true);
    return EBB_OK;
}

ebb_status ebb__cli_check_network(const cli_call *call) {
    const train_settings *s = &call->settings.run;
    forecast_network unused;
    if (s->network != NULL && !s->virtual_clock) {
        return ebb__fail(call->ctx, EBB_USAGE,
                         "--network is of a virtual clock: say --virtual, under mpirun");
    }
    return ebb__job_network(call->ctx, s->network, &unused);
}

bool ebb__cli_is_follower(const cli_call *call) {
    return call->link != NULL && ebb__comm_rank(call->link) > 0;
}

bool ebb__cli_end_together(const cli_call *call, ebb_status status) {
    return status == EBB_OK || status == EBB_STOPPED || call->link == NULL ||
           ebb__comm_agreed(call->link);
}

/* One process reports, for all: the lowest that failed itself, not because another did. */
static void fail_ranks(cli_call *call, ebb_status status, bool quiet,
                       void (*say)(const char *message)) {
    char line[1200];
    int rank = ebb__comm_rank(call->link);
    bool reports = ebb__comm_fail(call->link);
    const char *why = ebb_last_error(call->ctx);
    why = why[0] != '\0' ? why : ebb_status_text(status);
    if (rank > 0 && status != EBB_LOST) { /* that names a rank already */
        (void)snprintf(line, sizeof line, "rank %d (pid %lld on %s): %s", rank, (long long)getpid(),
                       ebb__comm_describe(call->link, rank)->host, why);
        why = line;
    }
    if (reports && !quiet) {
        say(why);
    }
    if (!reports) {
        (void)sleep(ENDED_SECONDS); /* by the one that reports, and with its code */
    }
    limit_time(ENDED_SECONDS, end_silently);
    ebb__comm_abort(call->link, status);
}

ebb_status ebb__cli_leave_ranks(cli_call *call, ebb_status status, bool quiet,
                                void (*say)(const char *message)) {
    if (call->link == NULL) {
        return status;
    }
    bool together = ebb__cli_end_together(call, status);
    if (together) {
        ebb__ctx_clear(call->ctx); /* it was said */
        double patience = call->settings.run.lost_after;
        ebb_status met = ebb__comm_barrier(call->link, patience > 0 ? patience : OPEN_SECONDS);
        together = met == EBB_OK;
        status = together ? status : met;
    }
    if (!together) {
        fail_ranks(call, status, quiet, say);
    }
    limit_time(ENDED_SECONDS, end_silently);
    ebb__comm_close(call->link);
    limit_time(0, SIG_DFL);
    call->link = NULL;
    return status;
}
