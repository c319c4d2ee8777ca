/* codes_cut.c - cuts a word into pieces.
 *
 * Of all pairs that stand side by side the earliest of the codes is joined, everywhere in the word
 * and from left to right, before any pair that this makes is looked at. Candidates wait in a heap
 * by (rank, place), so that a word of n code points takes n log n, whatever it holds. A candidate
 * that no longer stands is told by its node's rank, and dropped when it comes up. */
#include "data/codes.h"

#include <string.h>
#include <xxhash.h>

#define NONE UINT32_MAX

static const char mark[] = "</w>";
enum { MARK_BYTES = sizeof mark - 1, LEAST_ROOM = 64, HEAP_PER_NODE = 4 };

enum {
    NODE_BYTES = sizeof(codes_node) + HEAP_PER_NODE * sizeof(codes_join) + 2 * sizeof(uint32_t) +
                 1 + CODES_JOINER_BYTES
};

static void set_views(codes_cutter *cutter, void *block, size_t room) {
    cutter->room = room;
    cutter->nodes = block;
    cutter->heap = (codes_join *)(void *)(cutter->nodes + room);
    cutter->fresh = (uint32_t *)(void *)(cutter->heap + HEAP_PER_NODE * room);
    cutter->ends = cutter->fresh + room;
    cutter->piece = (char *)(cutter->ends + room);
}

static ebb_status make_room(codes_cutter *cutter, size_t nodes) {
    size_t room = LEAST_ROOM;
    if (nodes <= cutter->room) {
        return EBB_OK;
    }
    while (room < nodes) {
        room *= 2;
    }
    void *block = NULL;
    TRY(ebb__alloc(cutter->ctx, room, NODE_BYTES, &block));
    ebb__free(cutter->ctx, cutter->block);
    cutter->block = block;
    set_views(cutter, block, room);
    return EBB_OK;
}

size_t ebb__codes_cutter_bytes(size_t letters) {
    return ((letters + 1) * NODE_BYTES + 7) / 8 * 8;
}

void ebb__codes_cutter_place(codes_cutter *cutter, size_t letters, void *memory) {
    set_views(cutter, memory, letters + 1);
}

void ebb__codes_cutter_free(codes_cutter *cutter) {
    ebb__free(cutter->ctx, cutter->block);
    ebb__free(cutter->ctx, cutter->known);
    *cutter = (codes_cutter){.ctx = cutter->ctx};
}

/* ---- the heap ---- */

static bool is_earlier(codes_join a, codes_join b) {
    return a.rank != b.rank ? a.rank < b.rank : a.node < b.node;
}

static void push(codes_cutter *c, codes_join join) {
    size_t at = c->n_heap++;
    for (size_t up; at > 0 && is_earlier(join, c->heap[up = (at - 1) / 2]); at = up) {
        c->heap[at] = c->heap[up];
    }
    c->heap[at] = join;
}

static codes_join pop(codes_cutter *c) {
    codes_join first = c->heap[0], last = c->heap[--c->n_heap];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < c->n_heap; at = child) {
        child += child + 1 < c->n_heap && is_earlier(c->heap[child + 1], c->heap[child]);
        if (!is_earlier(c->heap[child], last)) {
            break;
        }
        c->heap[at] = c->heap[child];
    }
    c->heap[at] = last;
    return first;
}

/* ---- joining ---- */

/* Looks up the pair that starts with the node. */
static void offer(const data_codes *codes, codes_cutter *c, uint32_t node) {
    codes_node *left = &c->nodes[node];
    left->rank = NONE;
    if (left->after == NONE || left->piece == NONE || c->nodes[left->after].piece == NONE) {
        return;
    }
    int64_t pair = ebb__codes_find_pair(codes, left->piece, c->nodes[left->after].piece);
    if (pair >= 0) {
        left->rank = (uint32_t)pair;
        push(c, (codes_join){(uint32_t)pair, node});
    }
}

static void join(const data_codes *codes, codes_cutter *c, uint32_t node) {
    codes_node *left = &c->nodes[node], *right = &c->nodes[left->after];
    left->piece = codes->pairs[left->rank].joined;
    left->end = right->end;
    left->after = right->after;
    left->rank = right->rank = NONE;
    if (left->after != NONE) {
        c->nodes[left->after].before = node;
    }
    if (left->before != NONE) {
        c->nodes[left->before].rank = NONE;
    }
}

static void join_all(const data_codes *codes, codes_cutter *c) {
    while (c->n_heap > 0) {
        uint32_t rank = c->heap[0].rank;
        size_t n_fresh = 0;
        while (c->n_heap > 0 && c->heap[0].rank == rank) {
            uint32_t node = pop(c).node;
            if (c->nodes[node].rank == rank) {
                join(codes, c, node);
                c->fresh[n_fresh++] = node;
            }
        }
        for (size_t i = 0; i < n_fresh; i++) {
            offer(codes, c, c->fresh[i]);
            uint32_t before = c->nodes[c->fresh[i]].before;
            /* One that was joined too has been looked at. */
            if (before != NONE && c->nodes[before].rank == NONE) {
                offer(codes, c, before);
            }
        }
    }
}

static uint32_t piece_of(const data_codes *codes, const char *bytes, size_t length) {
    int64_t piece = ebb__codes_find_piece(codes, bytes, length);
    return piece < 0 ? NONE : (uint32_t)piece;
}

/* The word as code points, with its mark, or as bytes; gives their number. */
static size_t part(const data_codes *codes, codes_cutter *c, const char *word, size_t length) {
    size_t n = 0, point;
    for (size_t at = 0; at < length; at += point, n++) {
        char marked[4 + MARK_BYTES];
        point = codes->version == CODES_BYTES ? 1 : codes_point(word + at, length - at);
        bool last = at + point == length && codes->version == CODES_MARK_JOINED;
        memcpy(marked, word + at, point);
        memcpy(marked + point, mark, MARK_BYTES);
        c->nodes[n] =
            (codes_node){.piece = piece_of(codes, marked, point + (last ? MARK_BYTES : 0)),
                         .end = (uint32_t)(at + point)};
    }
    if (codes->version == CODES_MARK_APART && n > 1) {
        c->nodes[n++] =
            (codes_node){.piece = piece_of(codes, mark, MARK_BYTES), .end = (uint32_t)length};
    }
    for (size_t i = 0; i < n; i++) {
        c->nodes[i].before = i > 0 ? (uint32_t)i - 1 : NONE;
        c->nodes[i].after = i + 1 < n ? (uint32_t)i + 1 : NONE;
        c->nodes[i].rank = NONE;
    }
    return n;
}

/* The nodes that are left, as the result. */
static void note_ends(codes_cutter *cutter) {
    cutter->n_ends = 0;
    for (uint32_t node = 0; node != NONE; node = cutter->nodes[node].after) {
        uint32_t end = cutter->nodes[node].end;
        /* A mark that stayed alone has no bytes of its own. */
        if (cutter->n_ends == 0 || cutter->ends[cutter->n_ends - 1] != end) {
            cutter->ends[cutter->n_ends++] = end;
        }
    }
}

static void cut_anew(const data_codes *codes, codes_cutter *cutter, const char *word,
                     size_t length) {
    size_t n = part(codes, cutter, word, length);
    cutter->n_heap = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        offer(codes, cutter, (uint32_t)i);
    }
    join_all(codes, cutter);
    note_ends(cutter);
}

/* ---- passing over pairs ---- */

/* The earliest of the pairs that the throws leave, and of each node whether its pair was left. */
static uint32_t throw_for_pairs(const data_codes *codes, codes_cutter *c, codes_throws *throws) {
    uint32_t least = NONE;
    for (uint32_t node = 0, after; (after = c->nodes[node].after) != NONE; node = after) {
        uint32_t left = c->nodes[node].piece, right = c->nodes[after].piece;
        bool known = left != NONE && right != NONE;
        int64_t pair = known ? ebb__codes_find_pair(codes, left, right) : CODES_NONE;
        bool taken = !codes_throw(throws) && pair >= 0;
        c->nodes[node].rank = taken ? (uint32_t)pair : NONE;
        least = taken && (uint32_t)pair < least ? (uint32_t)pair : least;
    }
    return least;
}

ebb_status ebb__codes_cut_dropping(const data_codes *codes, codes_cutter *cutter, const char *word,
                                   size_t length, codes_throws *throws) {
    uint32_t least = NONE;
    TRY(make_room(cutter, length + 1));
    (void)part(codes, cutter, word, length);
    while ((least = throw_for_pairs(codes, cutter, throws)) != NONE) {
        for (uint32_t node = 0; node != NONE; node = cutter->nodes[node].after) {
            if (cutter->nodes[node].rank == least && cutter->nodes[node].after != NONE) {
                join(codes, cutter, node);
            }
        }
    }
    note_ends(cutter);
    return EBB_OK;
}

const char *ebb__codes_token(codes_cutter *cutter, const char *word, size_t i, size_t *length) {
    size_t begin = i > 0 ? cutter->ends[i - 1] : 0, n = cutter->ends[i] - begin;
    if (i + 1 == cutter->n_ends || cutter->plain) {
        *length = n;
        return word + begin;
    }
    memcpy(cutter->piece, word + begin, n);
    memcpy(cutter->piece + n, CODES_JOINER, CODES_JOINER_BYTES);
    *length = n + CODES_JOINER_BYTES;
    return cutter->piece;
}

/* ---- words that come again ---- */

ebb_status ebb__codes_cutter_remember(codes_cutter *cutter) {
    return ebb__alloc(cutter->ctx, CODES_KNOWN, sizeof *cutter->known, &cutter->known);
}

ebb_status ebb__codes_cut(const data_codes *codes, codes_cutter *cutter, const char *word,
                          size_t length) {
    TRY(make_room(cutter, length + 1));
    cutter->plain = codes->version == CODES_BYTES;
    if (cutter->known == NULL || length > CODES_SHORT) {
        cut_anew(codes, cutter, word, length);
        return EBB_OK;
    }
    codes_known *known = &cutter->known[XXH3_64bits(word, length) % CODES_KNOWN];
    if (known->length == length && memcmp(known->word, word, length) == 0) {
        cutter->n_ends = known->n_ends;
        for (size_t i = 0; i < known->n_ends; i++) {
            cutter->ends[i] = known->ends[i];
        }
        return EBB_OK;
    }
    cut_anew(codes, cutter, word, length);
    known->length = (uint8_t)length;
    known->n_ends = (uint8_t)cutter->n_ends;
    memcpy(known->word, word, length);
    for (size_t i = 0; i < cutter->n_ends; i++) {
        known->ends[i] = (uint8_t)cutter->ends[i];
    }
    return EBB_OK;
}
