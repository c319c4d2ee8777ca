/* line_scores.h - what every line of an evaluated set of sentences scored, in the order of the
 * lines, though batches come shape by shape. The sums lie in the plan, one for each sentence
 * (JOB_LINES); the programs give the loss of every row (NMT_LOSSES). */
#ifndef KIND_TEXT_LINE_SCORES_H
#define KIND_TEXT_LINE_SCORES_H

#include "kind/text/sentence_set.h"

/* Bytes of JOB_LINES for a set that was scanned. */
uint64_t ebb__line_scores_bytes(const sentence_set *set);
/* The reader of the set, which is neither shuffled nor pooled, notes what lines score. */
void ebb__line_scores_begin(sentence_set *set, run_session *session, job_reader *reader);
/* Gives the log probability of every line to the observer; NaN: it is empty or too long. */
ebb_status ebb__line_scores_give(const sentence_set *set,
                                 const job_observer *observer) EBB_MUST_CHECK;

#endif
