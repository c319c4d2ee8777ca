/* codes_learn.c - learns codes from words and their counts: again and again the most frequent pair
 * of neighbouring pieces becomes a piece, of equally frequent ones that which is last in byte
 * order.
 *
 * What is learnt is what subword-nmt learns, to the byte, so that this follows its book-keeping and
 * not only its idea. Two of its habits show in the result:
 *  - Pieces are their strings. A pair may come up again when one of its pieces is made another way.
 *  - Counts are kept twice: those of pairs above a threshold are up to date (`count`, the pair is
 * in the heap), the others wait (`waiting`). A pair that falls below goes to those that wait; when
 *    nothing above is left, all come back with a new threshold. What happens to a pair that waits
 *    is counted from 0, and added to what waits only if that is negative: else it replaces it.
 * What differs is speed: the best pair is found by a heap, and pieces are numbers.
 *
 * Which words hold a pair is a list of entries, each with how often, as subword-nmt counts that
 * (overlaps, as in a a a, make it less than 0). A replaced pair leaves entries of count 0. */
#include "data/codes_words.h"

#include <string.h>
#include <xxhash.h>

#define NONE UINT32_MAX

static const char mark[] = "</w>";
enum { MARK_BYTES = sizeof mark - 1, LEAST_COUNT = 2, PRUNE_EVERY = 100 };
static const int64_t least_waiting = INT64_MIN / 4; /* doubled again and again it would overflow */

/* A growing hash table over things that have numbers. */
typedef struct learn_table {
    uint32_t *slots; /* number + 1; 0 = free */
    size_t room;
    uint32_t mask;
} learn_table;

typedef struct learn_piece {
    uint32_t offset, length;
    bool spaced; /* holds white space, as Unicode has it */
} learn_piece;

typedef struct learn_pair {
    uint32_t left, right;
    int64_t count;   /* while in the heap; else 0 */
    int64_t key;     /* the count that its place in the heap is by: see settle() */
    int64_t waiting; /* what was noted when it left the heap */
    uint32_t place;  /* in the heap; NONE: it is not there */
    uint32_t first;  /* entry; NONE: no word had it */
    bool touched;
} learn_pair;

typedef struct learn_entry {
    uint32_t pair, word;
    int32_t count;
    uint32_t next; /* of the pair; NONE: the last */
} learn_entry;

typedef struct learn_word {
    uint32_t first, n; /* of `symbols` */
    int64_t count;
} learn_word;

typedef struct learner {
    ebb_ctx *ctx;
    alloc_region region;
    uint64_t most;
    learn_word *words;
    size_t n_words;
    uint32_t *symbols; /* pieces of all words, one word after the other */
    uint32_t *before;  /* a word before it was changed */
    learn_piece *pieces;
    size_t n_pieces, pieces_room;
    char *pool;
    size_t pool_used, pool_room;
    learn_pair *pairs;
    size_t n_pairs, pairs_room;
    learn_entry *entries;
    size_t n_entries, entries_room;
    learn_table by_bytes, by_pieces, by_word;
    uint32_t *heap; /* pairs, the best one first */
    size_t n_heap, heap_room;
    uint32_t *touched; /* pairs whose count changed since the heap was right */
    size_t n_touched, touched_room;
    double threshold;
} learner;

/* ---- tables ---- */

static uint32_t hash_numbers(uint32_t a, uint32_t b) {
    uint64_t mixed = ((uint64_t)a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(mixed >> 32) ^ (uint32_t)(mixed >> 15);
}

static uint32_t piece_hash(const learner *l, uint32_t i) {
    return (uint32_t)XXH3_64bits(l->pool + l->pieces[i].offset, l->pieces[i].length);
}
static uint32_t pair_hash(const learner *l, uint32_t i) {
    return hash_numbers(l->pairs[i].left, l->pairs[i].right);
}
static uint32_t entry_hash(const learner *l, uint32_t i) {
    return hash_numbers(l->entries[i].pair, l->entries[i].word);
}

static ebb_status check_bytes(const learner *l) {
    uint64_t bytes =
        l->pieces_room * sizeof *l->pieces + l->pool_room + l->pairs_room * sizeof *l->pairs +
        l->entries_room * sizeof *l->entries +
        (l->by_bytes.room + l->by_pieces.room + l->by_word.room + l->heap_room + l->touched_room) *
            sizeof(uint32_t);
    return l->most == 0 || bytes <= l->most
               ? EBB_OK
               : ebb__fail(l->ctx, EBB_BUDGET,
                           "codes: learning them from %zu different words takes more than the %llu "
                           "bytes that are left; give more memory, or learn them ahead from a part "
                           "of the text (ebb data codes learn)",
                           l->n_words, (unsigned long long)l->most);
}

/* Makes the table large enough for one more of `n`. */
static ebb_status grow_table(learner *l, learn_table *table, size_t n,
                             uint32_t (*hash)(const learner *, uint32_t)) {
    size_t slots = table->slots == NULL ? 0 : (size_t)table->mask + 1;
    if (n + n / 2 + 1 < slots) {
        return EBB_OK;
    }
    if (n > UINT32_MAX / 4) {
        return ebb__fail(l->ctx, EBB_BUDGET, "codes: the text has too many different words");
    }
    slots = slots == 0 ? 1024 : 2 * slots;
    TRY(ebb__region_grow(&l->region, &table->slots, &table->room, slots, sizeof *table->slots));
    memset(table->slots, 0, slots * sizeof *table->slots);
    table->mask = (uint32_t)(slots - 1);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot = hash(l, i) & table->mask;
        while (table->slots[slot] != 0) {
            slot = (slot + 1) & table->mask;
        }
        table->slots[slot] = i + 1;
    }
    return check_bytes(l);
}

/* ---- pieces ---- */

static bool ends_in_space(const char *bytes, size_t n) {
    for (size_t k = 1; k <= 3 && k <= n; k++) {
        if (ebb__codes_space(bytes + n - k, k) == k) {
            return true;
        }
    }
    return false;
}

static ebb_status intern(learner *l, const char *bytes, size_t length, uint32_t *out) {
    TRY(grow_table(l, &l->by_bytes, l->n_pieces, piece_hash));
    uint32_t slot = (uint32_t)XXH3_64bits(bytes, length) & l->by_bytes.mask;
    for (; l->by_bytes.slots[slot] != 0; slot = (slot + 1) & l->by_bytes.mask) {
        const learn_piece *p = &l->pieces[l->by_bytes.slots[slot] - 1];
        if (p->length == length && memcmp(l->pool + p->offset, bytes, length) == 0) {
            *out = l->by_bytes.slots[slot] - 1;
            return EBB_OK;
        }
    }
    if (l->pool_used + length > UINT32_MAX) {
        return ebb__fail(l->ctx, EBB_BUDGET, "codes: the pieces are too long");
    }
    TRY(ebb__region_grow(&l->region, &l->pieces, &l->pieces_room, l->n_pieces + 1,
                         sizeof *l->pieces));
    TRY(ebb__region_grow(&l->region, &l->pool, &l->pool_room, l->pool_used + length, 1));
    learn_piece *piece = &l->pieces[l->n_pieces];
    *piece = (learn_piece){.offset = (uint32_t)l->pool_used, .length = (uint32_t)length};
    for (size_t i = 0; i < length && !piece->spaced; i++) {
        piece->spaced = ebb__codes_space(bytes + i, length - i) > 0;
    }
    memcpy(l->pool + l->pool_used, bytes, length);
    l->pool_used += length;
    l->by_bytes.slots[slot] = (uint32_t)l->n_pieces + 1;
    *out = (uint32_t)l->n_pieces++;
    return EBB_OK;
}

/* The piece made of several that follow each other: of `n` symbols. */
static ebb_status intern_joined(learner *l, const uint32_t *symbols, size_t n, uint32_t *out) {
    size_t bytes = 0, used = 0;
    char *joined = NULL;
    for (size_t i = 0; i < n; i++) {
        bytes += l->pieces[symbols[i]].length;
    }
    TRY(ebb__alloc(l->ctx, bytes, 1, &joined));
    for (size_t i = 0; i < n; i++) {
        const learn_piece *p = &l->pieces[symbols[i]];
        memcpy(joined + used, l->pool + p->offset, p->length);
        used += p->length;
    }
    ebb_status status = intern(l, joined, bytes, out);
    ebb__free(l->ctx, joined);
    return status;
}

static int compare_pieces(const learner *l, uint32_t a, uint32_t b) {
    const learn_piece *x = &l->pieces[a], *y = &l->pieces[b];
    uint32_t common = x->length < y->length ? x->length : y->length;
    int order = a == b ? 0 : memcmp(l->pool + x->offset, l->pool + y->offset, common);
    return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

/* ---- pairs, best first ---- */

static bool is_better(const learner *l, uint32_t a, uint32_t b) {
    const learn_pair *x = &l->pairs[a], *y = &l->pairs[b];
    if (x->key != y->key) {
        return x->key > y->key;
    }
    int order = compare_pieces(l, x->left, y->left);
    return (order != 0 ? order : compare_pieces(l, x->right, y->right)) > 0;
}

static void put(learner *l, size_t place, uint32_t pair) {
    l->heap[place] = pair;
    l->pairs[pair].place = (uint32_t)place;
}

static void sift_down(learner *l, size_t at) {
    uint32_t pair = l->heap[at];
    for (size_t child; (child = 2 * at + 1) < l->n_heap; at = child) {
        child += child + 1 < l->n_heap && is_better(l, l->heap[child + 1], l->heap[child]);
        if (!is_better(l, l->heap[child], pair)) {
            break;
        }
        put(l, at, l->heap[child]);
    }
    put(l, at, pair);
}

static void sift_up(learner *l, size_t at) {
    uint32_t pair = l->heap[at];
    for (size_t up; at > 0 && is_better(l, pair, l->heap[up = (at - 1) / 2]); at = up) {
        put(l, at, l->heap[up]);
    }
    put(l, at, pair);
}

static ebb_status add_to_heap(learner *l, uint32_t pair) {
    TRY(ebb__region_grow(&l->region, &l->heap, &l->heap_room, l->n_heap + 1, sizeof *l->heap));
    l->pairs[pair].key = l->pairs[pair].count;
    put(l, l->n_heap++, pair);
    return EBB_OK;
}

static void make_heap(learner *l) {
    for (size_t i = l->n_heap / 2; i-- > 0;) {
        sift_down(l, i);
    }
}

/* Brings the heap up to date with the counts that changed, one key after the other: of several
 * wrong ones at once none would find its place. */
static ebb_status settle(learner *l) {
    for (size_t i = 0; i < l->n_touched; i++) {
        learn_pair *pair = &l->pairs[l->touched[i]];
        pair->touched = false;
        if (pair->place == NONE) {
            TRY(add_to_heap(l, l->touched[i]));
        }
        pair->key = pair->count;
        sift_up(l, pair->place);
        sift_down(l, pair->place);
    }
    l->n_touched = 0;
    return EBB_OK;
}

/* Pairs below the threshold leave the heap; their counts wait. */
static void prune(learner *l) {
    size_t kept = 0;
    for (size_t i = 0; i < l->n_heap; i++) {
        uint32_t number = l->heap[i];
        learn_pair *pair = &l->pairs[number];
        if ((double)pair->count >= l->threshold) {
            put(l, kept++, number);
            continue;
        }
        int64_t sum = pair->waiting + pair->count;
        pair->waiting = pair->count >= 0 ? pair->count : sum < least_waiting ? least_waiting : sum;
        pair->count = 0;
        pair->place = NONE;
    }
    l->n_heap = kept;
    make_heap(l);
}

/* All counts that wait come back; those below a threshold that follows from the best one leave
 * again. */
static ebb_status recall(learner *l, uint64_t done) {
    int64_t best = INT64_MIN;
    prune(l);
    l->n_heap = 0;
    for (uint32_t i = 0; i < l->n_pairs; i++) {
        l->pairs[i].count = l->pairs[i].waiting;
        best = l->pairs[i].count > best ? l->pairs[i].count : best;
        TRY(add_to_heap(l, i));
    }
    l->threshold = (double)best * (double)done / ((double)done + 10000.0);
    if (best >= LEAST_COUNT) {
        prune(l);
    } else {
        make_heap(l);
    }
    return EBB_OK;
}

/* ---- counts ---- */

static ebb_status find_pair(learner *l, uint32_t left, uint32_t right, uint32_t *out) {
    TRY(grow_table(l, &l->by_pieces, l->n_pairs, pair_hash));
    uint32_t slot = hash_numbers(left, right) & l->by_pieces.mask;
    for (; l->by_pieces.slots[slot] != 0; slot = (slot + 1) & l->by_pieces.mask) {
        const learn_pair *p = &l->pairs[l->by_pieces.slots[slot] - 1];
        if (p->left == left && p->right == right) {
            *out = l->by_pieces.slots[slot] - 1;
            return EBB_OK;
        }
    }
    TRY(ebb__region_grow(&l->region, &l->pairs, &l->pairs_room, l->n_pairs + 1, sizeof *l->pairs));
    l->pairs[l->n_pairs] = (learn_pair){.left = left, .right = right, .place = NONE, .first = NONE};
    l->by_pieces.slots[slot] = (uint32_t)l->n_pairs + 1;
    *out = (uint32_t)l->n_pairs++;
    return EBB_OK;
}

static ebb_status find_entry(learner *l, uint32_t pair, uint32_t word, learn_entry **out) {
    TRY(grow_table(l, &l->by_word, l->n_entries, entry_hash));
    uint32_t slot = hash_numbers(pair, word) & l->by_word.mask;
    for (; l->by_word.slots[slot] != 0; slot = (slot + 1) & l->by_word.mask) {
        learn_entry *e = &l->entries[l->by_word.slots[slot] - 1];
        if (e->pair == pair && e->word == word) {
            *out = e;
            return EBB_OK;
        }
    }
    TRY(ebb__region_grow(&l->region, &l->entries, &l->entries_room, l->n_entries + 1,
                         sizeof *l->entries));
    learn_entry *entry = &l->entries[l->n_entries];
    *entry = (learn_entry){.pair = pair, .word = word, .next = l->pairs[pair].first};
    l->pairs[pair].first = (uint32_t)l->n_entries;
    l->by_word.slots[slot] = (uint32_t)++l->n_entries;
    *out = entry;
    return EBB_OK;
}

/* The word has the pair once more, or (by -1) once less. */
static ebb_status note(learner *l, uint32_t word, const uint32_t *symbols, int by) {
    uint32_t number = 0;
    learn_entry *entry = NULL;
    TRY(find_pair(l, symbols[0], symbols[1], &number));
    TRY(find_entry(l, number, word, &entry));
    entry->count += by;
    learn_pair *pair = &l->pairs[number];
    pair->count += by * l->words[word].count;
    if (!pair->touched) {
        TRY(ebb__region_grow(&l->region, &l->touched, &l->touched_room, l->n_touched + 1,
                             sizeof *l->touched));
        l->touched[l->n_touched++] = number;
        pair->touched = true;
    }
    return EBB_OK;
}

/* ---- joining ---- */

/* Whether a piece ends in another that stands apart in it: all of it, or behind white space. */
static bool ends_apart(const learner *l, uint32_t piece, uint32_t in, size_t from) {
    const learn_piece *p = &l->pieces[piece], *whole = &l->pieces[in];
    const char *bytes = l->pool + whole->offset;
    if (piece == in || !whole->spaced || p->length >= whole->length) {
        return piece == in && from == 0;
    }
    size_t start = whole->length - p->length;
    return start >= from && memcmp(bytes + start, l->pool + p->offset, p->length) == 0 &&
           ends_in_space(bytes, start);
}

static bool starts_apart(const learner *l, uint32_t piece, uint32_t in) {
    const learn_piece *p = &l->pieces[piece], *whole = &l->pieces[in];
    const char *bytes = l->pool + whole->offset;
    return piece == in || (whole->spaced && p->length < whole->length &&
                           memcmp(bytes, l->pool + p->offset, p->length) == 0 &&
                           ebb__codes_space(bytes + p->length, whole->length - p->length) > 0);
}

/* Joins the pair everywhere in the word, from left to right. Pieces that hold white space are
 * matched as subword-nmt's regular expression does it: a piece stands apart in a larger one too. */
static ebb_status join(learner *l, learn_word *word, const learn_pair *pair, uint32_t joined) {
    const uint32_t *old = l->before;
    uint32_t *out = l->symbols + word->first, n = 0;
    for (uint32_t i = 0; i < word->n;) {
        uint32_t end = i; /* the last symbol that is joined to this one */
        size_t from = 0;  /* bytes of it that are used up */
        while (end + 1 < word->n && ends_apart(l, pair->left, old[end], from) &&
               starts_apart(l, pair->right, old[end + 1])) {
            end++;
            from = l->pieces[pair->right].length;
        }
        uint32_t symbol = old[i];
        if (end == i + 1 && old[i] == pair->left && old[end] == pair->right) {
            symbol = joined;
        } else if (end > i) {
            TRY(intern_joined(l, old + i, end - i + 1, &symbol));
        }
        out[n++] = symbol;
        i = end + 1;
    }
    word->n = n;
    return EBB_OK;
}

/* Counts of the pairs around what was joined, as they were in `old` and as they are in `now`. */
static ebb_status recount(learner *l, uint32_t word, const uint32_t *old, uint32_t n_old,
                          const learn_pair *pair, uint32_t joined) {
    const uint32_t *now = l->symbols + l->words[word].first;
    uint32_t n = l->words[word].n;
    for (uint32_t i = 0; i + 1 < n_old;) {
        if (old[i] != pair->left || old[i + 1] != pair->right) {
            i++;
            continue;
        }
        if (i > 0) {
            TRY(note(l, word, old + i - 1, -1));
        }
        /* Of A B C B C, the pair C B is counted down with the second B C. */
        if (i + 2 < n_old &&
            (old[i + 2] != pair->left || i + 3 >= n_old || old[i + 3] != pair->right)) {
            TRY(note(l, word, old + i + 1, -1));
        }
        i += 2;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (now[i] != joined) {
            continue;
        }
        if (i > 0) {
            TRY(note(l, word, now + i - 1, 1));
        }
        if (i + 1 < n && now[i + 1] != joined) {
            TRY(note(l, word, now + i, 1));
        }
    }
    return EBB_OK;
}

static ebb_status join_everywhere(learner *l, uint32_t number) {
    learn_pair pair = l->pairs[number];
    uint32_t both[] = {pair.left, pair.right}, joined = 0;
    TRY(intern_joined(l, both, 2, &joined));
    l->pairs[number].count = 0;
    for (uint32_t e = pair.first; e != NONE; e = l->entries[e].next) {
        int32_t count = l->entries[e].count;
        uint32_t word = l->entries[e].word, n = l->words[word].n;
        l->entries[e].count = 0;
        if (count >= 1) {
            memcpy(l->before, l->symbols + l->words[word].first, n * sizeof *l->before);
            TRY(join(l, &l->words[word], &pair, joined));
            TRY(recount(l, word, l->before, n, &pair, joined));
        }
    }
    l->pairs[number].count = l->pairs[number].key = 0;
    sift_down(l, l->pairs[number].place);
    return settle(l);
}

/* ---- all of it ---- */

/* A word as code points, the last with the mark. */
static ebb_status part(learner *l, const char *bytes, size_t length, uint32_t *symbols,
                       uint32_t *n) {
    size_t point;
    *n = 0;
    for (size_t at = 0; at < length; at += point) {
        char marked[4 + MARK_BYTES];
        point = codes_point(bytes + at, length - at);
        memcpy(marked, bytes + at, point);
        memcpy(marked + point, mark, MARK_BYTES);
        TRY(intern(l, marked, point + (at + point == length ? MARK_BYTES : 0), &symbols[*n]));
        ++*n;
    }
    return EBB_OK;
}

static ebb_status take_words(learner *l, const words_list *list) {
    size_t used = 0, longest = 0;
    uint64_t fixed = list->pool_bytes * sizeof *l->symbols + list->n * sizeof *l->words;
    if (l->most > 0 && fixed >= l->most) {
        l->most = 1;
        l->pool_room = 2;
        return check_bytes(l);
    }
    l->most -= l->most > 0 ? fixed : 0;
    TRY(REGION_ARRAYS(&l->region, ARRAY(l->words, list->n), ARRAY(l->symbols, list->pool_bytes)));
    l->n_words = list->n;
    for (uint32_t i = 0; i < list->n; i++) {
        const words_count *from = &list->words[i];
        learn_word *word = &l->words[i];
        *word = (learn_word){.first = (uint32_t)used, .count = (int64_t)from->count};
        TRY(part(l, list->pool + from->offset, from->length, l->symbols + used, &word->n));
        used += word->n;
        longest = word->n > longest ? word->n : longest;
    }
    TRY(ebb__region_alloc(&l->region, longest, sizeof *l->before, &l->before));
    for (uint32_t i = 0; i < list->n; i++) {
        const learn_word *word = &l->words[i];
        for (uint32_t k = 0; k + 1 < word->n; k++) {
            TRY(note(l, i, l->symbols + word->first + k, 1));
        }
    }
    /* Everything is in the heap, and waits too. */
    l->n_touched = 0;
    for (uint32_t i = 0; i < l->n_pairs; i++) {
        l->pairs[i].touched = false;
        l->pairs[i].waiting = l->pairs[i].count;
        TRY(add_to_heap(l, i));
    }
    make_heap(l);
    return EBB_OK;
}

static ebb_status learn(learner *l, uint64_t n, codes_builder *builder) {
    if (l->n_pairs == 0) {
        return EBB_OK;
    }
    l->threshold = (double)l->pairs[l->heap[0]].count / 10;
    for (uint64_t i = 0; i < n; i++) {
        if (l->n_heap == 0 || (i > 0 && (double)l->pairs[l->heap[0]].count < l->threshold)) {
            TRY(recall(l, i));
        }
        uint32_t best = l->heap[0];
        if (l->pairs[best].count < LEAST_COUNT) {
            break;
        }
        const learn_piece *left = &l->pieces[l->pairs[best].left];
        const learn_piece *right = &l->pieces[l->pairs[best].right];
        TRY(ebb__codes_build_add(builder, l->pool + left->offset, left->length,
                                 l->pool + right->offset, right->length));
        TRY(join_everywhere(l, best));
        if (i % PRUNE_EVERY == 0) {
            prune(l);
            TRY(ebb__poll_stop(l->ctx, "codes"));
            ebb__progress(l->ctx, "learn codes", i, n);
        }
    }
    return EBB_OK;
}

ebb_status ebb__codes_learn(const words_list *words, uint64_t n, uint64_t most, data_codes *out) {
    learner l = {.ctx = words->ctx, .most = most};
    codes_builder builder;
    const char *why = NULL;
    size_t bad = 0;
    ebb_status status;
    *out = (data_codes){.ctx = words->ctx};
    ebb__region_init(&l.region, words->ctx);
    ebb__codes_build_begin(words->ctx, CODES_MARK_JOINED, &builder);
    TRY_OUT(take_words(&l, words));
    TRY_OUT(learn(&l, n, &builder));
    ebb__region_fini(&l.region);
    ebb__region_init(&l.region, words->ctx);
    if (builder.n_pairs == 0) {
        TRY_OUT(ebb__fail(words->ctx, EBB_DATA,
                          "codes: no two letters of a word stand together twice in the text, so "
                          "that there is nothing to learn; give more text"));
    }
    TRY_OUT(ebb__codes_build_end(&builder, &bad, &why, out));
    if (why != NULL) {
        status = ebb__fail(words->ctx, EBB_INTERNAL, "codes: pair %zu: %s", bad, why);
    }
out:
    ebb__region_fini(&l.region);
    ebb__codes_build_free(&builder);
    if (status != EBB_OK) {
        ebb__codes_free(out);
    }
    return status;
}
