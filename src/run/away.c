/* away.c - see away.h. */
#include "run/away.h"

#include "base/host.h"

static bool in_file(const run_session *s) {
    return s->plan->away_bytes > 0 && !device_apart(s->plan->dev);
}

ebb_status ebb__away_open(run_session *s) {
    return in_file(s)
               ? ebb__file_create_scratch(s->ctx, s->plan->disk, s->plan->away_bytes, &s->away)
               : EBB_OK;
}

void ebb__away_close(run_session *s) {
    ebb__file_abandon(&s->away);
}

/* Values that leave lie without gaps, so each is one stretch of bytes on both sides. */
static ebb_status move_in_file(run_session *s, run_place place, uint64_t at, bool out) {
    unsigned access = out ? DEVICE_READ : DEVICE_WRITE;
    void *data = NULL;
    TRY(ebb__run_map(s, place, access, &data));
    ebb_status status =
        out ? ebb__file_pwrite(s->ctx, s->away.fd, s->away.path, data, (size_t)place.bytes, at)
            : ebb__file_pread(s->ctx, s->away.fd, s->away.path, data, (size_t)place.bytes, at);
    ebb_status unmapped = ebb__run_unmap(s, place, access, data);
    return status == EBB_OK ? unmapped : status;
}

static ebb_status move_to_host(run_session *s, run_place place, uint64_t at, bool out) {
    const device_buffer_table *buffer = &s->plan->dev->buffer;
    char *host = s->host + s->plan->away_offset + at;
    return out ? buffer->fetch(s->ctx, s->buffer, (size_t)place.offset, (size_t)place.bytes, host)
               : buffer->put(s->ctx, s->buffer, (size_t)place.offset, (size_t)place.bytes, host);
}

ebb_status ebb__away_move(run_session *s, const device_instr *instr) {
    const op_call *call = &instr->call;
    const bool out = instr->transfer == TRANSFER_OUT;
    const op_view *here = out ? &call->in[0] : &call->out[0];
    const op_view *there = out ? &call->out[0] : &call->in[0];
    const uintptr_t base = (uintptr_t)s->plan->dev->buffer.address(s->buffer);
    run_place place = {(uint64_t)((uintptr_t)here->data - base), ebb__ir_type_bytes(&here->type)};
    uint64_t at = (uint64_t)((uintptr_t)there->data - base) - s->plan->away_base;
    uint64_t end = at + place.bytes;
    s->away_high = end > s->away_high ? end : s->away_high;
    s->moved_bytes += place.bytes;
    double start = s->observe != NULL ? ebb__clock_seconds() : 0;
    TRY(in_file(s) ? move_in_file(s, place, at, out) : move_to_host(s, place, at, out));
    if (s->observe != NULL) {
        s->observe(s->observe_user, instr, ebb__clock_seconds() - start);
    }
    return EBB_OK;
}
