/* stream.c - runs instructions with a team of threads that walk the list together.
 *
 * Every member does its share of an instruction and waits for the others before the next one, which
 * may read all of what this one wrote. Instructions too small to share (call.members 1) are member
 * 0's alone, and nobody waits between two of them. A run is done block by block of the member's own
 * units, all its instructions for one block before the next, and only then do members meet. Nothing
 * is allocated here after creation. */
#include "device/cpu/cpu.h"

#include "base/alloc.h"
#include "base/host.h"
#include "base/team.h"

struct device_stream {
    ebb_ctx *ctx;
    base_team *team;
};

void ebb__cpu_stream_destroy(device_stream *stream) {
    if (stream != NULL) {
        ebb__team_free(stream->team);
        ebb__free(stream->ctx, stream);
    }
}

ebb_status ebb__cpu_stream_create(ebb_ctx *ctx, int members, device_stream **out) {
    device_stream *stream = NULL;
    *out = NULL;
    TRY(ebb__alloc(ctx, 1, sizeof *stream, &stream));
    stream->ctx = ctx;
    ebb_status status = ebb__team_new(ctx, members, &stream->team);
    if (status != EBB_OK) {
        ebb__free(ctx, stream);
        return status;
    }
    *out = stream;
    return EBB_OK;
}

/* One list to run, as all members see it. */
typedef struct stream_walk {
    base_team *team;
    const device_instr *const *instrs;
    int32_t count;
    device_observe_fn observe;
    void *user;
} stream_walk;

/* One instruction, or one block of units of it; gives its seconds if someone observes. */
static double run_one(const device_instr *instr, int member, int members, int64_t lo, int64_t hi,
                      bool observes) {
    op_call call = instr->call;
    double start = observes ? ebb__clock_seconds() : 0.0;
    call.members = members;
    call.member = member;
    call.lo = (int32_t)lo;
    call.hi = (int32_t)hi;
    instr->run(&call);
    return observes ? ebb__clock_seconds() - start : 0.0;
}

/* Instructions [0, n) of one run. */
static void run_together(const device_instr *const *run, int32_t n, int member, int members,
                         bool observes, double *seconds) {
    int64_t lo = 0, hi = 0, block = run[0]->block;
    if (n == 1) {
        seconds[0] += run_one(run[0], member, members, 0, 0, observes);
        return;
    }
    ebb__team_share(run[0]->units, 8, member, members, &lo, &hi);
    for (int64_t u = lo; u < hi; u += block) {
        for (int32_t k = 0; k < n; k++) {
            int64_t end = u + block < hi ? u + block : hi;
            seconds[k] += run_one(run[k], member, members, u, end, observes);
        }
    }
}

static void walk(void *arg, int member, int members) {
    const stream_walk *w = arg;
    bool observes = w->observe != NULL && member == 0;
    for (int32_t i = 0, end; i < w->count; i = end) {
        const device_instr *const *run = w->instrs + i;
        int sharing = run[0]->call.members < members ? run[0]->call.members : members;
        double seconds[DEVICE_MAX_RUN] = {0};
        for (end = i + 1; end < w->count && w->instrs[end]->joined; end++) {
        }
        if (member < sharing) {
            run_together(run, end - i, member, sharing, observes, seconds);
        }
        bool alone = sharing == 1 && end < w->count && w->instrs[end]->call.members == 1;
        double start = observes ? ebb__clock_seconds() : 0.0;
        if (!alone) {
            ebb__team_barrier(w->team);
        }
        if (observes) { /* waiting counts for the last */
            seconds[end - i - 1] += ebb__clock_seconds() - start;
            for (int32_t k = 0; k < end - i; k++) {
                w->observe(w->user, run[k], seconds[k]);
            }
        }
    }
}

void ebb__cpu_stream_run(device_stream *stream, const device_instr *const *instrs, int32_t count,
                         device_observe_fn observe, void *user) {
    stream_walk w = {stream->team, instrs, count, observe, user};
    ebb__team_run(stream->team, walk, &w);
}
