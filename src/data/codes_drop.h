/* codes_drop.h - sentences cut anew, some pairs of their codes passed over (BPE dropout): the same
 * words come in other pieces in every epoch, so that a model sees what they are made of.
 *
 * Which pairs are passed over is a function of seed, side, epoch and the sentence's place in its
 * text. Words are put together from the pieces they were stored as; one of more than
 * DROP_WORD_BYTES bytes, or one with a piece that the vocabulary lacks, stays in the pieces it has.
 */
#ifndef DATA_CODES_DROP_H
#define DATA_CODES_DROP_H

#include "data/codes.h"
#include "data/vocab.h"

enum { DROP_WORD_BYTES = 255 };

/* Of one side of a text. */
typedef struct codes_drop {
    const data_vocab *vocab; /* with its codes */
    codes_cutter cutter;
    codes_throws throws;
    uint32_t *ids; /* [room]: the sentence as it was cut last */
    uint32_t room;
} codes_drop;

/* Bytes for sentences of at most so many pieces, and making it in them, which are aligned to 8.
 * Nothing is allocated after that. */
uint64_t ebb__codes_drop_bytes(uint32_t room);
void ebb__codes_drop_make(const data_vocab *vocab, double share, uint64_t seed, const char *site,
                          uint32_t room, void *memory, codes_drop *out);

/* Cuts a sentence of n ids, its end being the last, anew; gives how many pieces drop->ids has then,
 * or 0 if they would be more than there is room for: then it has to stay as it is. */
ebb_status ebb__codes_drop_cut(codes_drop *drop, uint64_t epoch, uint64_t place,
                               const uint32_t *ids, uint32_t n, uint32_t *count) EBB_MUST_CHECK;

#endif
