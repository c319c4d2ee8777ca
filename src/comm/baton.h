/* baton.h - turns at the processors of a machine that has more ranks than those: whoever works has
 * one of as many batons as there are processors. For measurements that are to be as if each rank
 * had a processor and its caches for itself (virtual.c). */
#ifndef COMM_BATON_H
#define COMM_BATON_H

#include "comm/comm.h"

typedef struct comm_baton comm_baton;

/* Every rank calls it, at most COMM_MOST_VIRTUAL of them. processors: of this machine. */
ebb_status ebb__baton_new(comm_link *link, int processors, comm_baton **out) EBB_MUST_CHECK;
/* Waits for a free one; whoever ends without passing it on has passed it on. COMM_DONE, COMM_GONE
 * with a rank that failed, or COMM_REFUSED after a time that no work takes. Nothing is done for who
 * has one. */
comm_event ebb__baton_take(comm_baton *baton, comm_news *news);
void ebb__baton_pass(comm_baton *baton);
void ebb__baton_free(comm_baton *baton);

#endif
