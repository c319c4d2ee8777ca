/* codes_drop.c - see codes_drop.h. */
#include "data/codes_drop.h"

#include <string.h>

uint64_t ebb__codes_drop_bytes(uint32_t room) {
    return ebb__codes_cutter_bytes(DROP_WORD_BYTES) + ((uint64_t)room + 1) / 2 * 2 * sizeof(uint32_t);
}

void ebb__codes_drop_make(const data_vocab *vocab, double share, uint64_t seed, const char *site,
                          uint32_t room, void *memory, codes_drop *out) {
    *out = (codes_drop){.vocab = vocab,
                        .cutter = {.ctx = vocab->ctx},
                        .throws = {.key = ebb__rng_key(seed, site), .share = (float)share},
                        .room = room};
    ebb__codes_cutter_place(&out->cutter, DROP_WORD_BYTES, memory);
    out->ids = (uint32_t *)(void *)((char *)memory + ebb__codes_cutter_bytes(DROP_WORD_BYTES));
}

/* A word as its letters, from the pieces that it starts with. */
typedef struct drop_word {
    char bytes[DROP_WORD_BYTES];
    size_t length;
    uint32_t pieces; /* it was stored as */
    bool whole;      /* it can be cut anew */
} drop_word;

static void gather(const data_vocab *vocab, const uint32_t *ids, uint32_t n, drop_word *word) {
    bool open = true;
    word->length = word->pieces = 0;
    word->whole = true;
    while (open && word->pieces < n) {
        uint32_t id = ids[word->pieces++];
        size_t length = 0;
        const char *piece = ebb__vocab_token(vocab, id, &length);
        open = id >= VOCAB_SPECIALS && length > CODES_JOINER_BYTES &&
               memcmp(piece + length - CODES_JOINER_BYTES, CODES_JOINER, CODES_JOINER_BYTES) == 0;
        length -= open ? CODES_JOINER_BYTES : 0;
        word->whole = word->whole && id >= VOCAB_SPECIALS && word->length + length <= DROP_WORD_BYTES;
        if (word->whole) {
            memcpy(word->bytes + word->length, piece, length);
            word->length += length;
        }
    }
    word->whole = word->whole && !open;
}

/* Cuts the word and writes its new pieces, if the vocabulary has them all and they fit; gives how
 * many, else 0. */
static ebb_status put_word(codes_drop *drop, const drop_word *word, uint32_t *to, uint32_t room,
                           uint32_t *n) {
    const data_vocab *vocab = drop->vocab;
    codes_cutter *cutter = &drop->cutter;
    TRY(ebb__codes_cut_dropping(vocab->codes, cutter, word->bytes, word->length, &drop->throws));
    *n = cutter->n_ends <= room ? (uint32_t)cutter->n_ends : 0;
    for (uint32_t i = 0; i < *n; i++) {
        size_t length = 0;
        const char *piece = ebb__codes_token(cutter, word->bytes, i, &length);
        to[i] = ebb__vocab_find(vocab, piece, length);
        *n = to[i] == VOCAB_UNK ? 0 : *n;
    }
    return EBB_OK;
}

ebb_status ebb__codes_drop_cut(codes_drop *drop, uint64_t epoch, uint64_t place,
                               const uint32_t *ids, uint32_t n, uint32_t *count) {
    drop_word word;
    drop->throws.place[0] = (uint32_t)epoch;
    drop->throws.place[1] = (uint32_t)place;
    drop->throws.place[2] = (uint32_t)(place >> 32);
    drop->throws.thrown = 0;
    *count = 0;
    for (uint32_t at = 0, done = 0; at < n; at += word.pieces) {
        uint32_t made = 0, left = drop->room - done;
        gather(drop->vocab, ids + at, n - at, &word);
        if (word.whole) {
            TRY(put_word(drop, &word, drop->ids + done, left, &made));
        }
        if (made == 0) {
            if (word.pieces > left) {
                return EBB_OK;
            }
            memcpy(drop->ids + done, ids + at, word.pieces * sizeof *ids);
            made = word.pieces;
        }
        done += made;
        *count = at + word.pieces == n ? done : 0;
    }
    return EBB_OK;
}
