/* vocab.c - the vocabulary in memory: built from a text, looked up, moved. Files: vocab_file.c;
 * counting: tally.c. The hash table is at most two thirds full and never grows. */
#include "data/vocab.h"

#include "base/alloc.h"
#include "data/codes.h"
#include "data/tally.h"

#include <endian.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* the state's size, so that it can live on the stack */
#include <xxhash.h>

static const char specials[VOCAB_SPECIALS][6] = {"<unk>", "<eos>"};
enum { SPECIAL_LENGTH = 5 };

static uint64_t slots_for(uint64_t count) {
    uint64_t slots = 4;
    while (slots < count + count / 2) {
        slots *= 2;
    }
    return slots;
}

uint64_t ebb__vocab_bytes_for(uint64_t count, uint64_t pool_bytes) {
    return (count + 1 + slots_for(count)) * sizeof(uint32_t) + pool_bytes;
}

static void set_views(data_vocab *vocab, void *block) {
    vocab->block = block;
    vocab->offsets = block;
    vocab->table = vocab->offsets + vocab->count + 1;
    vocab->pool = (char *)(vocab->table + vocab->slots);
}

ebb_status ebb__vocab_init(ebb_ctx *ctx, uint64_t count, uint64_t pool_bytes, data_vocab *out) {
    *out = (data_vocab){.ctx = ctx};
    if (count > VOCAB_MOST || pool_bytes > UINT32_MAX) {
        return ebb__fail(
            ctx, EBB_BUDGET,
            "vocabulary: %llu tokens of %llu bytes are more than a vocabulary has (%d "
            "tokens, 4 GiB); limit it (--vocab N), or cut words into pieces (--tokens bpe)",
            (unsigned long long)count, (unsigned long long)pool_bytes, VOCAB_MOST);
    }
    void *block = NULL;
    uint64_t bytes = ebb__vocab_bytes_for(count, pool_bytes);
    TRY(ebb__alloc(ctx, bytes, 1, &block));
    out->bytes = bytes;
    out->owned = true;
    out->slots = (uint32_t)slots_for(count);
    out->pool_bytes = pool_bytes;
    out->count = (uint32_t)count;
    set_views(out, block);
    out->count = 0; /* grows as tokens are added; the views stay */
    return EBB_OK;
}

/* The slot that holds the token, or the free one where it belongs. */
static uint32_t *find_slot(const data_vocab *vocab, const char *bytes, size_t length) {
    uint32_t mask = vocab->slots - 1;
    uint32_t slot = (uint32_t)XXH3_64bits(bytes, length) & mask;
    for (; vocab->table[slot] != 0; slot = (slot + 1) & mask) {
        size_t other = 0;
        const char *token = ebb__vocab_token(vocab, vocab->table[slot] - 1, &other);
        if (other == length && memcmp(token, bytes, length) == 0) {
            break;
        }
    }
    return &vocab->table[slot];
}

bool ebb__vocab_add(data_vocab *vocab, const char *bytes, size_t length) {
    uint32_t *slot = find_slot(vocab, bytes, length);
    if (*slot != 0) {
        return false;
    }
    uint32_t offset = vocab->offsets[vocab->count];
    memcpy(vocab->pool + offset, bytes, length);
    *slot = ++vocab->count;
    vocab->offsets[vocab->count] = offset + (uint32_t)length;
    return true;
}

static ebb_status fill(const tally_list *list, data_vocab *vocab) {
    for (int i = 0; i < VOCAB_SPECIALS; i++) {
        (void)ebb__vocab_add(vocab, specials[i], SPECIAL_LENGTH);
    }
    for (size_t i = 0; i < list->count; i++) {
        const tally_entry *entry = &list->entries[i];
        if (!ebb__vocab_add(vocab, list->pool + entry->offset, entry->length)) {
            return ebb__fail(vocab->ctx, EBB_INTERNAL, "vocabulary: a token was counted twice");
        }
    }
    return EBB_OK;
}

ebb_status ebb__vocab_build(ebb_ctx *ctx, const char *path, const vocab_options *options,
                            data_vocab *out) {
    ebb_status status = EBB_OK;
    tally_list list = {0};
    uint32_t passes = 0;
    *out = (data_vocab){.ctx = ctx};
    if (options->limit != 0 && options->limit <= VOCAB_SPECIALS) {
        return ebb__fail(ctx, EBB_USAGE,
                         "vocabulary: a limit of %zu leaves no room beside <unk> and <eos>; give "
                         "at least %d",
                         options->limit, VOCAB_SPECIALS + 1);
    }
    tally_options counting = {
        .mode = options->mode,
        .codes = options->codes,
        .drop = options->drop,
        .seed = options->seed,
        .also = options->also,
        .keep = options->limit == 0 ? 0 : options->limit - VOCAB_SPECIALS,
        .table_bytes = options->table_bytes == 0 ? VOCAB_TABLE_BYTES : options->table_bytes,
        .list_bytes = options->max_bytes,
    };
    TRY_OUT(ebb__tally_text(ctx, path, &counting, &list, &passes));
    TRY_OUT(ebb__vocab_init(ctx, (uint64_t)list.count + VOCAB_SPECIALS,
                            (uint64_t)list.pool_bytes + VOCAB_SPECIALS * SPECIAL_LENGTH, out));
    TRY_OUT(fill(&list, out));
    out->codes = options->codes;
    ebb__log(ctx, EBB_LOG_DEBUG, "vocabulary: %u tokens of %s in %u readings", out->count, path,
             passes);
out:
    ebb__tally_free(ctx, &list);
    if (status != EBB_OK) {
        ebb__vocab_free(out);
    }
    return status;
}

/* Tokens of the list that the vocabulary has not, at most `limit`: their number and bytes; added to
 * `to` unless that is NULL. */
static uint64_t add_new(const data_vocab *vocab, const tally_list *list, uint64_t limit,
                        uint64_t *bytes, data_vocab *to) {
    uint64_t n = 0;
    *bytes = 0;
    for (size_t i = 0; i < list->count && n < limit; i++) {
        const char *token = list->pool + list->entries[i].offset;
        uint32_t length = list->entries[i].length;
        if (*find_slot(vocab, token, length) == 0) {
            n++;
            *bytes += length;
            if (to != NULL) {
                (void)ebb__vocab_add(to, token, length);
            }
        }
    }
    return n;
}

ebb_status ebb__vocab_extend(data_vocab *vocab, const char *path, const vocab_options *options) {
    ebb_status status = EBB_OK;
    tally_list list = {0};
    data_vocab wider = {.ctx = vocab->ctx};
    uint32_t passes = 0;
    uint64_t bytes = 0, n = 0;
    tally_options counting = {.mode = options->mode,
                              .codes = options->codes,
                              .drop = options->drop,
                              .seed = options->seed,
                              .also = options->also,
                              .keep = options->limit + vocab->count,
                              .table_bytes = VOCAB_TABLE_BYTES,
                              .list_bytes = options->max_bytes};
    TRY_OUT(ebb__tally_text(vocab->ctx, path, &counting, &list, &passes));
    n = add_new(vocab, &list, options->limit, &bytes, NULL);
    TRY_OUT(ebb__vocab_init(vocab->ctx, vocab->count + n, vocab->offsets[vocab->count] + bytes,
                            &wider));
    for (uint32_t id = 0; id < vocab->count; id++) {
        size_t length = 0;
        const char *token = ebb__vocab_token(vocab, id, &length);
        (void)ebb__vocab_add(&wider, token, length);
    }
    (void)add_new(vocab, &list, options->limit, &bytes, &wider);
    wider.codes = vocab->codes;
    ebb__vocab_free(vocab);
    *vocab = wider;
out:
    ebb__tally_free(wider.ctx, &list);
    return status;
}

void ebb__vocab_free(data_vocab *vocab) {
    if (vocab->owned) {
        ebb__free(vocab->ctx, vocab->block);
    }
    *vocab = (data_vocab){.ctx = vocab->ctx};
}

void ebb__vocab_move(data_vocab *vocab, void *memory) {
    void *old = vocab->block;
    memcpy(memory, old, vocab->bytes);
    set_views(vocab, memory);
    if (vocab->owned) {
        ebb__free(vocab->ctx, old);
        vocab->owned = false;
    }
}

uint32_t ebb__vocab_find(const data_vocab *vocab, const char *bytes, size_t length) {
    uint32_t found = *find_slot(vocab, bytes, length);
    return found == 0 ? VOCAB_UNK : found - 1;
}

const char *ebb__vocab_token(const data_vocab *vocab, uint32_t id, size_t *length) {
    *length = vocab->offsets[id + 1] - vocab->offsets[id];
    return vocab->pool + vocab->offsets[id];
}

uint64_t ebb__vocab_hash(const data_vocab *vocab) {
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (uint32_t id = 0; id < vocab->count; id++) {
        size_t length = 0;
        const char *token = ebb__vocab_token(vocab, id, &length);
        uint32_t prefix = htole32((uint32_t)length);
        XXH3_64bits_update(&state, &prefix, sizeof prefix);
        XXH3_64bits_update(&state, token, length);
    }
    return XXH3_64bits_digest(&state);
}

uint64_t ebb__vocab_hash_with_codes(const data_vocab *vocab) {
    uint64_t hash = ebb__vocab_hash(vocab);
    if (vocab->codes == NULL) {
        return hash;
    }
    uint64_t both[] = {htole64(hash), htole64(ebb__codes_hash(vocab->codes))};
    return XXH3_64bits(both, sizeof both);
}
