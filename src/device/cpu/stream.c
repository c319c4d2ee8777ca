/* stream.c - runs instructions with a team of threads that walk the list together.
 *
 * Every member does its share of an instruction and waits for the others before the next one, which
 * may read all of what this one wrote. Instructions too small to share (call.members 1) are member
 * 0's alone, and nobody waits between two of them. A run is done block by block of hidden units,
 * all its instructions for one block before the next, and only then do members meet. Nothing is
 * allocated here after creation. */
#include "device/cpu/cpu.h"

#include "base/alloc.h"
#include "base/host.h"
#include "base/team.h"

#include <stdatomic.h>
#include <string.h>

/* How many of a member's pieces of work have been taken. Members work through their own pieces,
 * then take over from others: the same cores are not always there for us on a shared machine. */
typedef struct stream_count {
    _Alignas(64) atomic_int taken; /* a cache line each */
} stream_count;

/* What a member did in a run that is observed, in cache lines of its own. */
typedef struct stream_times {
    _Alignas(64) double end;        /* when it had nothing left to do */
    double seconds[DEVICE_MAX_RUN]; /* of the instructions of the run */
} stream_times;

struct device_stream {
    ebb_ctx *ctx;
    base_team *team;
    stream_count *counts; /* [2][members + 1]: those of odd runs are reset during even ones; the
                             last counts shares that have ended (op_last_share) */
    stream_times *times;  /* likewise: those of even runs are read while odd ones are written */
};

void ebb__cpu_stream_destroy(device_stream *stream) {
    if (stream != NULL) {
        ebb__team_free(stream->team);
        ebb__free(stream->ctx, stream->counts);
        ebb__free(stream->ctx, stream->times);
        ebb__free(stream->ctx, stream);
    }
}

ebb_status ebb__cpu_stream_create(const device *dev, ebb_ctx *ctx, int members,
                                  device_stream **out) {
    device_stream *stream = NULL;
    (void)dev;
    *out = NULL;
    TRY(ebb__alloc(ctx, 1, sizeof *stream, &stream));
    stream->ctx = ctx;
    size_t slots = (size_t)(members > 0 ? members : 1);
    ebb_status status = ebb__alloc(ctx, 2 * (slots + 1), sizeof *stream->counts, &stream->counts);
    if (status == EBB_OK) {
        status = ebb__alloc(ctx, 2 * slots, sizeof *stream->times, &stream->times);
    }
    if (status == EBB_OK) {
        status = ebb__team_new(ctx, members, &stream->team);
    }
    if (status != EBB_OK) {
        ebb__cpu_stream_destroy(stream);
        return status;
    }
    *out = stream;
    return EBB_OK;
}

/* One list to run, as all members see it. */
typedef struct stream_walk {
    base_team *team;
    stream_count *counts;
    stream_times *times;
    const device_instr *const *instrs;
    int32_t count;
    device_observe_fn observe;
    void *user;
    double start; /* while observed */
} stream_walk;

/* A member's way through the list. */
typedef struct stream_member {
    int member, members;
    stream_times *times; /* NULL: not observed */
    atomic_int *ended;   /* of the run */
} stream_member;

/* The counters of odd or of even runs. */
static stream_count *counts_of(stream_count *counts, int members, int odd) {
    return counts + (ptrdiff_t)odd * (members + 1);
}

static void run_one(stream_member *m, const device_instr *instr, int k, int share, int shares,
                    int64_t lo, int64_t hi) {
    op_call call = instr->call;
    double start = m->times != NULL ? ebb__clock_seconds() : 0.0;
    call.member = share;
    call.members = shares;
    call.worker = m->member;
    call.ended = m->ended;
    call.lo = (int32_t)lo;
    call.hi = (int32_t)hi;
    instr->run(&call);
    if (m->times != NULL) {
        m->times->seconds[k] += ebb__clock_seconds() - start;
    }
}

/* Piece p of a run of n instructions: a share of a single one, a block of units of several. */
static void run_piece(stream_member *m, const device_instr *const *run, int32_t n, int p,
                      int pieces) {
    int64_t lo = (int64_t)p * run[0]->block, hi = lo + run[0]->block;
    if (n == 1) {
        run_one(m, run[0], 0, p, pieces, 0, 0);
        return;
    }
    for (int32_t k = 0; k < n; k++) {
        run_one(m, run[k], k, m->member, m->members, lo, hi < run[0]->units ? hi : run[0]->units);
    }
}

/* The member's own pieces in order, then what is left of others'. */
static void run_pieces(stream_member *m, const device_instr *const *run, int32_t n, int sharing,
                       stream_count *counts) {
    int pieces = n > 1 ? (run[0]->units + run[0]->block - 1) / run[0]->block : run[0]->shares;
    if (n == 1 && pieces <= sharing) {
        run_piece(m, run, n, m->member, sharing);
        return;
    }
    for (int i = 0; i < sharing; i++) {
        int owner = (m->member + i) % sharing;
        int first = (int)((int64_t)pieces * owner / sharing);
        int end = (int)((int64_t)pieces * (owner + 1) / sharing);
        for (;;) {
            int p =
                first + atomic_fetch_add_explicit(&counts[owner].taken, 1, memory_order_relaxed);
            if (p >= end) {
                break;
            }
            run_piece(m, run, n, p, pieces);
        }
    }
}

/* Tells the times of a run of n instructions that began when the one before ended, at *last. It
 * took until its last member was done, whoever that was: member 0 may have slept through it. Each
 * instruction has the part of it that all members together spent on it, so that none seems faster
 * than its members were; waiting is shared out with it. */
static void tell(const stream_walk *w, const device_instr *const *run, int32_t n,
                 const stream_times *times, int sharing, double *last) {
    double each[DEVICE_MAX_RUN] = {0}, all = 0, end = *last;
    for (int m = 0; m < sharing; m++) {
        end = times[m].end > end ? times[m].end : end;
        for (int32_t k = 0; k < n; k++) {
            each[k] += times[m].seconds[k];
            all += times[m].seconds[k];
        }
    }
    for (int32_t k = 0; k < n; k++) {
        w->observe(w->user, run[k], (end - *last) * (all > 0 ? each[k] / all : 1.0 / n));
    }
    *last = end;
}

/* The member's part of a run of n instructions, and how long it took. Who has none writes nothing:
 * where nobody waits, the times of the run before may still be read. */
static void take_part(const stream_walk *w, stream_member *m, const device_instr *const *run,
                      int32_t n, int sharing, int odd) {
    if (w->observe != NULL) {
        m->times = &w->times[odd * m->members + m->member];
        memset(m->times, 0, sizeof *m->times);
    }
    stream_count *counts = counts_of(w->counts, m->members, odd);
    m->ended = &counts[m->members].taken;
    run_pieces(m, run, n, sharing, counts);
    if (m->times != NULL) {
        m->times->end = ebb__clock_seconds();
    }
}

static void walk(void *arg, int member, int members) {
    const stream_walk *w = arg;
    stream_member m = {.member = member, .members = members};
    double last = w->start;
    int odd = 0;
    for (int32_t i = 0, end; i < w->count; i = end, odd = !odd) {
        const device_instr *const *run = w->instrs + i;
        int sharing = run[0]->call.members < members ? run[0]->call.members : members;
        for (end = i + 1; end < w->count && w->instrs[end]->joined; end++) {
        }
        if (member < sharing) {
            take_part(w, &m, run, end - i, sharing, odd);
        }
        /* Nobody counts there before the barrier, nor after the one before. */
        stream_count *next = counts_of(w->counts, members, !odd);
        atomic_store_explicit(&next[member].taken, 0, memory_order_relaxed);
        if (member == 0) {
            atomic_store_explicit(&next[members].taken, 0, memory_order_relaxed);
        }
        bool alone = sharing == 1 && end < w->count && w->instrs[end]->call.members == 1;
        if (!alone) {
            ebb__team_barrier(w->team);
        }
        if (w->observe != NULL && member == 0) {
            tell(w, run, end - i, w->times + odd * members, sharing, &last);
        }
    }
}

ebb_status ebb__cpu_stream_run(device_stream *stream, const device_instr *const *instrs,
                               int32_t count, device_observe_fn observe, void *user) {
    for (int i = 0; i < 2 * (ebb__team_size(stream->team) + 1); i++) {
        atomic_store_explicit(&stream->counts[i].taken, 0, memory_order_relaxed);
    }
    stream_walk w = {
        stream->team, stream->counts, stream->times, instrs,
        count,        observe,        user,          observe != NULL ? ebb__clock_seconds() : 0.0};
    ebb__team_run(stream->team, walk, &w);
    return EBB_OK;
}
