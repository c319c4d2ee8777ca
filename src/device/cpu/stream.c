/* stream.c - runs instructions with a team of threads that walk the list together.
 *
 * Every member does its share of an instruction and waits for the others before the next one, which
 * may read all of what this one wrote. Instructions too small to share (call.members 1) are member
 * 0's alone, and nobody waits between two of them. Nothing is allocated here after creation. */
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

static void walk(void *arg, int member, int members) {
    const stream_walk *w = arg;
    bool observes = w->observe != NULL && member == 0;
    double start = observes ? ebb__clock_seconds() : 0.0;
    for (int32_t i = 0; i < w->count; i++) {
        op_call call = w->instrs[i]->call;
        call.members = call.members < members ? call.members : members;
        call.member = member;
        if (member < call.members) {
            w->instrs[i]->run(&call);
        }
        bool alone = call.members == 1 && i + 1 < w->count && w->instrs[i + 1]->call.members == 1;
        if (!alone) {
            ebb__team_barrier(w->team);
        }
        if (observes) {
            double now = ebb__clock_seconds();
            w->observe(w->user, w->instrs[i], now - start);
            start = ebb__clock_seconds();
        }
    }
}

void ebb__cpu_stream_run(device_stream *stream, const device_instr *const *instrs, int32_t count,
                         device_observe_fn observe, void *user) {
    stream_walk w = {stream->team, instrs, count, observe, user};
    ebb__team_run(stream->team, walk, &w);
}
