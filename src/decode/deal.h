/* deal.h - translation by all ranks of a run, each of which has all weights. The first one reads
 * and writes: it reads some sentences ahead, deals them out, each rank its part of them one behind
 * the other, translates its own, and gets the others' results, so that they leave in order. What a
 * sentence becomes depends on nothing but the sentence and the weights: so not on the rank either.
 */
#ifndef DECODE_DEAL_H
#define DECODE_DEAL_H

#include "decode/translate.h"

/* Host memory that the plan of every rank has beside TRANSLATE_ROOM, and its bytes. */
#define DEAL_ROOM "data.deal"
uint64_t ebb__deal_bytes(const translate_options *options, int32_t ranks, int32_t rank);

/* As ebb__translate, with the best hypothesis of each sentence, its tokens and whether it ended,
 * and no attention. Without other ranks just that. */
ebb_status ebb__deal_translate(run_session *session, translate_uses uses,
                               const translate_options *options,
                               const translate_io *io) EBB_MUST_CHECK;
/* What the others do when they are asked to serve (run/ranks.h). */
ebb_status ebb__deal_serve(run_session *session, translate_uses uses,
                           const translate_options *options, int32_t sentences) EBB_MUST_CHECK;

#endif
