/* comm_rank.c - what test_mpi.py starts under mpirun: one rank that does one of the jobs below.
 * Says what went wrong in one line and exits with its status; a wrong byte is EBB_DATA. Usage:
 * comm_rank JOB    (COMM_PLUGIN: path of the plugin; COMM_PIECE: bytes of a piece) */
#include "base/alloc.h"
#include "comm/comm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST = COMM_FIRST_TAG, MOST = 8 << 20, TICKETS = 256, PIECE = 200000 };
enum { ENDED_SECONDS = 10 };
static const double LIMIT = 60;

typedef struct rank_job {
    ebb_ctx *ctx;
    comm_link *link;
    unsigned char *out, *in;
    int rank, size;
} rank_job;

static unsigned char byte_of(int from, size_t i) {
    return (unsigned char)((size_t)from * 37 + i * 11 + i / 255);
}

static ebb_status check_bytes(rank_job *job, int from, const unsigned char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != byte_of(from, i)) {
            return ebb__fail(job->ctx, EBB_DATA, "byte %zu of %zu from rank %d is wrong", i, n,
                             from);
        }
    }
    return EBB_OK;
}

static ebb_status done(rank_job *job, int ticket) {
    return ebb__comm_wait(job->link, ticket, LIMIT);
}

/* Even ranks with the odd one behind them, or with themselves: there and back, receives posted
 * ahead on one side only. */
static ebb_status ping_pong(rank_job *job) {
    static const size_t sizes[] = {0,       1,     12,    13,        14,        4096,
                                   4097,    65536, PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 1,
                                   1000000, MOST};
    int peer = job->rank ^ 1, sent, got;
    peer = peer < job->size ? peer : job->rank;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (int turn = 0; turn < 3; turn++) {
            memset(job->in, 0, MOST);
            if (job->rank % 2 == 0) {
                TRY(ebb__comm_recv(job->link, peer, FIRST, job->in, sizes[s], &got));
                TRY(ebb__comm_send(job->link, peer, FIRST, job->out, sizes[s], &sent));
                TRY(done(job, sent));
                TRY(done(job, got));
            } else {
                TRY(ebb__comm_recv(job->link, peer, FIRST, job->in, sizes[s], &got));
                TRY(done(job, got));
                TRY(ebb__comm_send(job->link, peer, FIRST, job->out, sizes[s], &sent));
                TRY(done(job, sent));
            }
            TRY(check_bytes(job, peer, job->in, sizes[s]));
        }
    }
    return EBB_OK;
}

/* Everybody to everybody, itself too; several tags and sizes, all under way at once, some in
 * pieces; polled in between, then waited for from the last to the first. */
static ebb_status all_to_all(rank_job *job) {
    enum { TAGS = 3, EACH = 2, LARGE = PIECE + 5000 };
    int ticket[TICKETS], n = 0;
    size_t used = 0, start[TICKETS];
    for (int peer = 0; peer < job->size; peer++) {
        for (int i = 0; i < TAGS * EACH; i++) {
            size_t bytes = i == 3 ? LARGE : (size_t)(1000 * i);
            start[n] = used;
            TRY(ebb__comm_recv(job->link, peer, FIRST + i % TAGS, job->in + used, bytes,
                               &ticket[n++]));
            TRY(ebb__comm_send(job->link, peer, FIRST + i % TAGS, job->out, bytes, &ticket[n++]));
            used += bytes;
            TRY(ebb__comm_poll(job->link));
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        bool is_done = false;
        TRY(i % 3 == 0 ? ebb__comm_test(job->link, ticket[i], &is_done) : EBB_OK);
        TRY(is_done ? EBB_OK : done(job, ticket[i]));
    }
    for (int i = 0; i < n; i += 2) {
        size_t end = i + 2 < n ? start[i + 2] : used;
        TRY(check_bytes(job, i / 2 / (TAGS * EACH), job->in + start[i], end - start[i]));
    }
    return EBB_OK;
}

static ebb_status spread(rank_job *job) {
    int mine = job->rank * job->rank, all[64] = {0};
    for (int root = 0; root < job->size; root++) {
        int said = job->rank == root ? root : -1;
        TRY(ebb__comm_gather(job->link, root, &mine, all, sizeof mine, LIMIT));
        TRY(ebb__comm_broadcast(job->link, root, &said, sizeof said, LIMIT));
        TRY(ebb__comm_barrier(job->link, LIMIT));
        for (int i = 0; i < job->size && job->rank == root; i++) {
            if (all[i] != i * i || said != root) {
                return ebb__fail(job->ctx, EBB_DATA, "rank %d gathered %d", i, all[i]);
            }
        }
    }
    printf("rank %d of %d: %lld\n", job->rank, job->size,
           (long long)ebb__comm_describe(job->link, job->rank)->pid);
    return EBB_OK;
}

/* Rank 0 sends so many bytes, rank 1 expects others: an error with both numbers. */
static ebb_status send_wrong(rank_job *job, int tag, size_t sent, size_t expected, bool taken) {
    int ticket;
    char want[100];
    if (job->rank == 0) {
        TRY(ebb__comm_send(job->link, 1, tag, job->out, sent, &ticket));
        return taken ? done(job, ticket) : EBB_OK;
    }
    if (job->rank > 1) {
        return EBB_OK;
    }
    TRY(ebb__comm_recv(job->link, 0, tag, job->in, expected, &ticket));
    (void)snprintf(want, sizeof want, "sent %zu bytes with tag %d, where rank 1 expects %zu", sent,
                   tag, expected);
    if (done(job, ticket) != EBB_INTERNAL || strstr(ebb_last_error(job->ctx), want) == NULL) {
        (void)fprintf(stderr, "not '%s': ", want);
        return EBB_DATA;
    }
    ebb__ctx_clear(job->ctx);
    return EBB_OK;
}

/* Above and below what goes at once; the link can be used after it. */
static ebb_status wrong_sizes(rank_job *job) {
    static const size_t sizes[][2] = {{100, 50}, {50, 100}, {0, 4}, {4, 0}, {100000, 50000}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        TRY(send_wrong(job, FIRST, sizes[i][0], sizes[i][1], true));
    }
    return EBB_OK;
}

/* One end in pieces, the other not, or not as many. Some are left over and never done: the link
 * cannot be closed as if nothing had been, so this ends as a failure does. */
static ebb_status wrong_pieces(rank_job *job) {
    static const size_t sizes[][2] = {
        {PIECE + 1, 400}, {PIECE + 1, PIECE}, {3 * PIECE, 2 * PIECE}, {100, PIECE + 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        TRY(send_wrong(job, FIRST + (int)i, sizes[i][0], sizes[i][1], false));
    }
    TRY(ebb__comm_barrier(job->link, LIMIT));
    return ebb__fail(job->ctx, EBB_INTERNAL, "all as expected");
}

static ebb_status die(rank_job *job, int signal_number) {
    int ticket;
    if (job->rank == job->size - 1) {
        FILE *file = fopen("died", "w");
        (void)(file != NULL && fclose(file));
        (void)kill(getpid(), signal_number);
        for (;;) {
            (void)pause(); /* mpirun lets the stopped go on before it ends them */
        }
    }
    TRY(ebb__comm_recv(job->link, job->size - 1, FIRST, job->in, 100, &ticket));
    return ebb__comm_wait(job->link, ticket, signal_number == SIGKILL ? 3 : 1);
}

/* The last rank never comes to the end. */
static ebb_status killed(rank_job *job) {
    return die(job, SIGKILL);
}

static ebb_status stopped(rank_job *job) {
    return die(job, SIGSTOP);
}

static ebb_status gives_up(rank_job *job) {
    int ticket;
    if (job->rank == job->size - 1) {
        ebb__comm_abort(job->link, EBB_IO);
    }
    TRY(ebb__comm_recv(job->link, job->size - 1, FIRST, job->in, 100, &ticket));
    return done(job, ticket);
}

/* More pieces than there are requests for; and one process cannot have two links. */
static ebb_status too_much(rank_job *job) {
    int ticket;
    comm_link *again;
    comm_setup setup = {.tickets = 1, .seconds = LIMIT};
    comm_launch launch = {.pmix_rank = "0", .plugin = getenv("COMM_PLUGIN")};
    ebb_status many = ebb__comm_send(job->link, 0, FIRST, job->out, (size_t)PIECE * 1000, &ticket);
    ebb_status twice = ebb__comm_open_launched(job->ctx, &launch, &setup, &again);
    const char *said = ebb_last_error(job->ctx);
    if (many != EBB_USAGE || twice != EBB_USAGE || strstr(said, "1001 pieces are more") == NULL) {
        return EBB_DATA;
    }
    ebb__ctx_clear(job->ctx);
    return EBB_OK;
}

static const struct {
    const char *name;
    ebb_status (*run)(rank_job *job);
} jobs[] = {{"ping_pong", ping_pong}, {"all_to_all", all_to_all},   {"spread", spread},
            {"killed", killed},       {"stopped", stopped},         {"gives_up", gives_up},
            {"too_much", too_much},   {"wrong_sizes", wrong_sizes}, {"wrong_pieces", wrong_pieces}};

static ebb_status run_job(rank_job *job, const char *name) {
    job->rank = ebb__comm_rank(job->link);
    job->size = ebb__comm_size(job->link);
    TRY(ebb__alloc(job->ctx, MOST, 1, &job->out));
    TRY(ebb__alloc(job->ctx, MOST, 1, &job->in));
    for (size_t i = 0; i < MOST; i++) {
        job->out[i] = byte_of(job->rank, i);
    }
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        if (strcmp(jobs[i].name, name) == 0) {
            uint64_t calls = job->ctx->mem.calls;
            TRY(jobs[i].run(job));
            if (job->ctx->mem.calls != calls && strcmp(name, "too_much") != 0) {
                return ebb__fail(job->ctx, EBB_INTERNAL, "something was allocated after open");
            }
            return ebb__comm_barrier(job->link, LIMIT);
        }
    }
    return ebb__fail(job->ctx, EBB_USAGE, "no job %s", name);
}

/* As the command ends a run that failed: one rank ends all, the others wait for that. Were some to
 * end by themselves while others are in MPI_Finalize, mpirun might never end. */
static void end_all(comm_link *link, ebb_status status) {
    if (!ebb__comm_fail(link)) {
        (void)sleep(ENDED_SECONDS);
    }
    ebb__comm_abort(link, status);
}

int main(int argc, char **argv) {
    rank_job job = {0};
    const char *piece = getenv("COMM_PIECE");
    comm_setup setup = {.tickets = TICKETS,
                        .seconds = LIMIT,
                        .piece_bytes = piece != NULL ? (size_t)strtoul(piece, NULL, 10) : 0};
    comm_launch launch = {.ompi_size = getenv("OMPI_COMM_WORLD_SIZE"),
                          .pmi_size = getenv("PMI_SIZE"),
                          .pmix_rank = getenv("PMIX_RANK"),
                          .plugin = getenv("COMM_PLUGIN")};
    if (argc != 2 || ebb_ctx_new(&job.ctx) != EBB_OK) {
        return (int)EBB_USAGE;
    }
    /* One rank has no memory: the others must hear of it. */
    const char *poor = getenv("OMPI_COMM_WORLD_RANK");
    if (strcmp(argv[1], "poor") == 0 && poor != NULL && strcmp(poor, "1") == 0) {
        job.ctx->mem.fail_at = 3;
    }
    ebb_status status = ebb__comm_open_launched(job.ctx, &launch, &setup, &job.link);
    if (status == EBB_OK) {
        status = run_job(&job, argv[1]);
    }
    if (status != EBB_OK) {
        (void)fprintf(stderr, "comm_rank: %s\n", ebb_last_error(job.ctx));
    }
    if (status != EBB_OK && job.link != NULL) {
        end_all(job.link, status);
    }
    ebb__comm_close(job.link);
    ebb__free(job.ctx, job.out);
    ebb__free(job.ctx, job.in);
    ebb_ctx_free(job.ctx);
    return (int)status;
}
