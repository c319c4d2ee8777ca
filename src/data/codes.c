/* codes.c - codes in memory: made of a list of pairs, looked up, moved. Both hash tables are at
 * most two thirds full and never grow. */
#include "data/codes.h"

#include <endian.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* the state's size, so that it can live on the stack */
#include <xxhash.h>

static const char mark[] = "</w>";
enum { MARK_BYTES = sizeof mark - 1 };

static uint32_t slots_for(uint64_t count) {
    uint32_t slots = 4;
    while (slots < count + count / 2) {
        slots *= 2;
    }
    return slots;
}

static void set_views(data_codes *codes, void *block, uint32_t n_pieces, uint32_t n_pairs) {
    codes->block = block;
    codes->offsets = block;
    codes->piece_table = codes->offsets + n_pieces + 1;
    codes->pairs = (codes_pair *)(void *)(codes->piece_table + codes->piece_slots);
    codes->pair_table = (uint32_t *)(void *)(codes->pairs + n_pairs);
    codes->pool = (char *)(codes->pair_table + codes->pair_slots);
}

/* Empty codes with room for so much. */
static ebb_status init(ebb_ctx *ctx, codes_version version, uint64_t n_pieces, uint64_t n_pairs,
                       uint64_t pool, data_codes *out) {
    void *block = NULL;
    *out = (data_codes){.ctx = ctx,
                        .version = version,
                        .owned = true,
                        .piece_slots = slots_for(n_pieces),
                        .pair_slots = slots_for(n_pairs)};
    out->bytes = (n_pieces + 1 + out->piece_slots + out->pair_slots) * sizeof(uint32_t) +
                 n_pairs * sizeof(codes_pair) + pool;
    TRY(ebb__alloc(ctx, out->bytes, 1, &block));
    set_views(out, block, (uint32_t)n_pieces, (uint32_t)n_pairs);
    return EBB_OK;
}

/* ---- looking up ---- */

const char *ebb__codes_piece(const data_codes *codes, uint32_t piece, size_t *length) {
    *length = codes->offsets[piece + 1] - codes->offsets[piece];
    return codes->pool + codes->offsets[piece];
}

static uint32_t *piece_slot(const data_codes *codes, const char *bytes, size_t length) {
    uint32_t mask = codes->piece_slots - 1;
    uint32_t slot = (uint32_t)XXH3_64bits(bytes, length) & mask;
    for (; codes->piece_table[slot] != 0; slot = (slot + 1) & mask) {
        size_t other = 0;
        const char *piece = ebb__codes_piece(codes, codes->piece_table[slot] - 1, &other);
        if (other == length && memcmp(piece, bytes, length) == 0) {
            break;
        }
    }
    return &codes->piece_table[slot];
}

static uint32_t *pair_slot(const data_codes *codes, uint32_t left, uint32_t right) {
    uint32_t mask = codes->pair_slots - 1;
    uint64_t mixed = ((uint64_t)left << 32 | right) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t slot = (uint32_t)(mixed >> 32) & mask;
    for (; codes->pair_table[slot] != 0; slot = (slot + 1) & mask) {
        const codes_pair *pair = &codes->pairs[codes->pair_table[slot] - 1];
        if (pair->left == left && pair->right == right) {
            break;
        }
    }
    return &codes->pair_table[slot];
}

int64_t ebb__codes_find_piece(const data_codes *codes, const char *bytes, size_t length) {
    return (int64_t)*piece_slot(codes, bytes, length) - 1;
}

int64_t ebb__codes_find_pair(const data_codes *codes, uint32_t left, uint32_t right) {
    return (int64_t)*pair_slot(codes, left, right) - 1;
}

/* ---- building ---- */

size_t ebb__codes_space(const char *bytes, size_t n) {
    const unsigned char *c = (const unsigned char *)bytes;
    if (n >= 1 &&
        (c[0] == ' ' || (c[0] >= 0x09 && c[0] <= 0x0d) || (c[0] >= 0x1c && c[0] <= 0x1f))) {
        return 1;
    }
    if (n >= 2 && c[0] == 0xc2 && (c[1] == 0x85 || c[1] == 0xa0)) {
        return 2;
    }
    if (n < 3) {
        return 0;
    }
    uint32_t point = (uint32_t)(c[0] & 0x0f) << 12 | (uint32_t)(c[1] & 0x3f) << 6 | (c[2] & 0x3f);
    bool three = (c[0] & 0xf0) == 0xe0;
    return three && (point == 0x1680 || (point >= 0x2000 && point <= 0x200a) || point == 0x2028 ||
                     point == 0x2029 || point == 0x202f || point == 0x205f || point == 0x3000)
               ? 3
               : 0;
}

void ebb__codes_build_begin(ebb_ctx *ctx, codes_version version, codes_builder *out) {
    *out = (codes_builder){.ctx = ctx, .version = version};
    ebb__region_init(&out->region, ctx);
}

void ebb__codes_build_free(codes_builder *builder) {
    ebb__region_fini(&builder->region);
}

static size_t pool_used(const codes_builder *b) {
    return b->n_pairs > 0 ? b->ends[2 * b->n_pairs - 1] : 0;
}

ebb_status ebb__codes_build_add(codes_builder *b, const char *left, size_t left_bytes,
                                const char *right, size_t right_bytes) {
    size_t used = pool_used(b), more = left_bytes + right_bytes;
    if (b->n_pairs == CODES_MOST_PAIRS || used + more > UINT32_MAX / 4) {
        return ebb__fail(b->ctx, EBB_DATA, "codes: more than %d pairs, or too long ones",
                         (int)CODES_MOST_PAIRS);
    }
    TRY(ebb__region_grow(&b->region, &b->pool, &b->pool_room, used + more, 1));
    TRY(ebb__region_grow(&b->region, &b->ends, &b->ends_room, 2 * b->n_pairs + 2, sizeof *b->ends));
    memcpy(b->pool + used, left, left_bytes);
    memcpy(b->pool + used + left_bytes, right, right_bytes);
    b->ends[2 * b->n_pairs] = (uint32_t)(used + left_bytes);
    b->ends[2 * b->n_pairs + 1] = (uint32_t)(used + more);
    b->n_pairs++;
    return EBB_OK;
}

static uint32_t add_piece(data_codes *codes, const char *bytes, size_t length) {
    uint32_t *slot = piece_slot(codes, bytes, length);
    if (*slot == 0) {
        uint32_t offset = codes->offsets[codes->n_pieces];
        memcpy(codes->pool + offset, bytes, length);
        *slot = ++codes->n_pieces;
        codes->offsets[codes->n_pieces] = offset + (uint32_t)length;
    }
    return *slot - 1;
}

/* Whether a word can start with such a piece: a byte; a code point, marked or not; the mark alone.
 */
static bool is_first(codes_version version, const char *bytes, size_t length) {
    if (version == CODES_BYTES) {
        return length == 1;
    }
    size_t point = codes_point(bytes, length);
    bool marked =
        length >= MARK_BYTES && memcmp(bytes + length - MARK_BYTES, mark, MARK_BYTES) == 0;
    return point == length ||
           (version == CODES_MARK_JOINED && marked && point == length - MARK_BYTES) ||
           (version == CODES_MARK_APART && marked && length == MARK_BYTES);
}

/* A piece with white space in it may have been made of larger ones: see join() in codes_learn.c. */
static bool has_space(const char *bytes, size_t length) {
    bool found = false;
    for (size_t i = 0; i < length && !found; i++) {
        found = ebb__codes_space(bytes + i, length - i) > 0;
    }
    return found;
}

/* Adds all pairs; *why says which pair, *bad, can never be joined. */
static void fill(const codes_builder *b, data_codes *codes, size_t *bad, const char **why) {
    const char *left = b->pool;
    for (size_t i = 0; i < b->n_pairs && *why == NULL; i++) {
        const char *right = b->pool + b->ends[2 * i], *end = b->pool + b->ends[2 * i + 1];
        size_t n_left = (size_t)(right - left), n_right = (size_t)(end - right);
        const struct {
            const char *bytes;
            size_t length;
        } parts[] = {{left, n_left}, {right, n_right}};
        for (int p = 0; p < 2 && *why == NULL; p++) {
            bool known = ebb__codes_find_piece(codes, parts[p].bytes, parts[p].length) >= 0 ||
                         is_first(b->version, parts[p].bytes, parts[p].length) ||
                         (b->version != CODES_BYTES && has_space(parts[p].bytes, parts[p].length));
            *why = known    ? NULL
                   : p == 0 ? "its first piece is made by no line before"
                            : "its second piece is made by no line before";
            *bad = i;
        }
        if (*why == NULL) {
            codes_pair pair = {.left = add_piece(codes, left, n_left),
                               .right = add_piece(codes, right, n_right),
                               .joined = add_piece(codes, left, n_left + n_right)};
            uint32_t *slot = pair_slot(codes, pair.left, pair.right);
            codes->pairs[codes->n_pairs++] = pair;
            *slot = *slot == 0 ? codes->n_pairs : *slot; /* of two equal ones the first counts */
        }
        left = end;
    }
}

ebb_status ebb__codes_build_end(codes_builder *b, size_t *bad, const char **why, data_codes *out) {
    data_codes draft;
    *why = NULL;
    *out = (data_codes){.ctx = b->ctx};
    /* Pieces are counted in a draft that has room for the most there can be. */
    TRY(init(b->ctx, b->version, 3 * (uint64_t)b->n_pairs, b->n_pairs, 2 * (uint64_t)pool_used(b),
             &draft));
    fill(b, &draft, bad, why);
    ebb_status status = *why != NULL ? EBB_OK
                                     : init(b->ctx, b->version, draft.n_pieces, b->n_pairs,
                                            draft.offsets[draft.n_pieces], out);
    ebb__codes_free(&draft);
    if (status == EBB_OK && *why == NULL) {
        fill(b, out, bad, why);
    }
    return status;
}

/* ---- memory ---- */

void ebb__codes_free(data_codes *codes) {
    if (codes->owned) {
        ebb__free(codes->ctx, codes->block);
    }
    *codes = (data_codes){.ctx = codes->ctx};
}

void ebb__codes_move(data_codes *codes, void *memory) {
    void *old = codes->block;
    memcpy(memory, old, codes->bytes);
    set_views(codes, memory, codes->n_pieces, codes->n_pairs);
    if (codes->owned) {
        ebb__free(codes->ctx, old);
        codes->owned = false;
    }
}

uint64_t ebb__codes_hash(const data_codes *codes) {
    XXH3_state_t state;
    uint32_t head[2] = {htole32((uint32_t)codes->version), htole32(codes->n_pairs)};
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, head, sizeof head);
    for (uint32_t i = 0; i < codes->n_pairs; i++) {
        const uint32_t pieces[] = {codes->pairs[i].left, codes->pairs[i].right};
        for (int p = 0; p < 2; p++) {
            size_t length = 0;
            const char *bytes = ebb__codes_piece(codes, pieces[p], &length);
            uint32_t prefix = htole32((uint32_t)length);
            XXH3_64bits_update(&state, &prefix, sizeof prefix);
            XXH3_64bits_update(&state, bytes, length);
        }
    }
    return XXH3_64bits_digest(&state);
}
