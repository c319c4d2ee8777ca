/* away.h - where values wait that have left the device's memory (pass/offload.c): the last bytes of
 * the host's block, beside a device with a memory of its own, else a file without a name in the
 * folder that the plan says. All of the file's room is taken when a session is opened: a disk that
 * is full is one before the first step, never in the middle of one. */
#ifndef RUN_AWAY_H
#define RUN_AWAY_H

#include "run/session.h"

ebb_status ebb__away_open(run_session *session) EBB_MUST_CHECK;
void ebb__away_close(run_session *session);
/* Carries out an instruction whose op moves a value out, or back. Beside a device apart it is
 * queued behind what the stream was given before; a file is waited for. */
ebb_status ebb__away_move(run_session *session, const device_instr *instr) EBB_MUST_CHECK;

#endif
