/* test_beam.c - beam search against a plain one written here: hypotheses as arrays of tokens, all
 * tokens of all of them sorted, the rule to stop tried for every length. Random small vocabularies
 * whose probabilities depend on all tokens so far, with and without many equal ones. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decode/beam.h"

enum { MOST_BEAM = 8, MOST_LENGTH = 12, MOST_VOCAB = 20, CASES = 6000, GUARD = 64, PATTERN = 0xa5 };

/* ---- a model: the log probability of every token after some others ---- */

typedef struct model {
    uint64_t seed;
    int32_t vocab;
    bool coarse;   /* multiples of 1/4, so that many sums are equal */
    double likely; /* added to that of <eos> */
    int32_t eos;
} model;

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static float log_prob_of(const model *m, const int32_t *tokens, int32_t length, int32_t next) {
    uint64_t at = m->seed;
    for (int32_t i = 0; i < length; i++) {
        at = mix(at + (uint64_t)tokens[i] + 1) + 77;
    }
    at = mix(at * 31 + (uint64_t)next);
    double x = (double)(at >> 40) * 0x1p-24; /* [0, 1) */
    double y =
        (m->coarse ? -floor(8 * x) / 4 : 3 * log(x + 1e-6)) + (next == m->eos ? m->likely : 0);
    return (float)(y < 0 ? y : 0);
}

typedef struct token_prob {
    float log_prob;
    int32_t id;
} token_prob;

static int by_prob(const void *a, const void *b) {
    const token_prob *p = a, *q = b;
    if (p->log_prob != q->log_prob) {
        return p->log_prob > q->log_prob ? -1 : 1;
    }
    return p->id < q->id ? -1 : 1;
}

/* The likeliest `width` tokens, best first. */
static void offer(const model *m, const int32_t *tokens, int32_t length, int32_t width,
                  float *log_probs, int32_t *ids) {
    token_prob all[MOST_VOCAB];
    for (int32_t id = 0; id < m->vocab; id++) {
        all[id] = (token_prob){log_prob_of(m, tokens, length, id), id};
    }
    qsort(all, (size_t)m->vocab, sizeof *all, by_prob);
    for (int32_t i = 0; i < width; i++) {
        log_probs[i] = all[i].log_prob;
        ids[i] = all[i].id;
    }
}

/* ---- the plain search ---- */

typedef struct plain_hypothesis {
    int32_t tokens[MOST_LENGTH], length;
    int32_t parent, order; /* whence, and when it was done */
    double log_prob, score;
    bool ended;
} plain_hypothesis;

typedef struct plain {
    beam_options o;
    plain_hypothesis live[MOST_BEAM], done[MOST_BEAM * MOST_LENGTH * 2];
    int32_t n_live, n_done, n_ended, length;
    bool finished;
} plain;

static int by_sum(const void *a, const void *b) {
    const plain_hypothesis *p = a, *q = b;
    if (p->log_prob != q->log_prob) {
        return p->log_prob > q->log_prob ? -1 : 1;
    }
    if (p->parent != q->parent) {
        return p->parent < q->parent ? -1 : 1;
    }
    return p->tokens[p->length - 1] < q->tokens[q->length - 1] ? -1 : 1;
}

static int by_score(const void *a, const void *b) {
    const plain_hypothesis *p = a, *q = b;
    if (p->score != q->score) {
        return p->score > q->score ? -1 : 1;
    }
    return p->order < q->order ? -1 : 1;
}

static void plain_done(plain *s, const plain_hypothesis *h, bool ended) {
    plain_hypothesis *d = &s->done[s->n_done];
    *d = *h;
    d->score = h->log_prob / pow(h->length, s->o.alpha);
    d->ended = ended;
    d->order = s->n_done++;
}

static void plain_step(plain *s, const model *m) {
    static plain_hypothesis all[MOST_BEAM * MOST_VOCAB];
    int32_t n = 0, beam = s->o.beam;
    for (int32_t k = 0; k < s->n_live; k++) {
        for (int32_t id = 0; id < m->vocab; id++) {
            plain_hypothesis *h = &all[n++];
            *h = s->live[k];
            h->parent = k;
            h->log_prob += (double)log_prob_of(m, h->tokens, h->length, id);
            h->tokens[h->length++] = id;
        }
    }
    qsort(all, (size_t)n, sizeof *all, by_sum);
    s->n_live = 0;
    s->length++;
    for (int32_t i = 0; i < n && i < 2 * beam; i++) {
        bool ends = all[i].tokens[s->length - 1] == s->o.eos;
        if (ends && i < beam) {
            plain_done(s, &all[i], true);
            s->n_ended++;
        } else if (!ends && s->n_live < beam) {
            s->live[s->n_live++] = all[i];
        }
    }
    for (int32_t j = 0; s->length == s->o.limit && j < s->n_live; j++) {
        plain_done(s, &s->live[j], false);
    }
    qsort(s->done, (size_t)s->n_done, sizeof *s->done, by_score);
    s->finished = s->length == s->o.limit || s->n_live == 0 || s->n_ended >= beam;
}

/* ---- the search under test, its memory between guards ---- */

typedef struct guarded {
    beam_search search;
    unsigned char *block;
    size_t bytes;
    int32_t parents[MOST_BEAM], tokens[MOST_BEAM];
} guarded;

static void open_search(guarded *g, const beam_options *o) {
    g->bytes = ebb__beam_bytes(o);
    assert_int_equal(g->bytes % 8, 0);
    g->block = malloc(g->bytes + 2 * GUARD);
    assert_non_null(g->block);
    memset(g->block, PATTERN, g->bytes + 2 * GUARD);
    ebb__beam_start(&g->search, o, g->block + GUARD);
}

static void close_search(guarded *g) {
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(g->block[i], PATTERN);
        assert_int_equal(g->block[GUARD + g->bytes + i], PATTERN);
    }
    free(g->block);
}

/* Tokens up to a node; gives their number. */
static int32_t path(const beam_search *s, int32_t node, int32_t *tokens) {
    int32_t n = 0, length = 0;
    for (int32_t at = node; at >= 0; at = s->nodes[at].parent) {
        assert_in_range(at, 0, s->n_nodes - 1);
        assert_true(s->nodes[at].parent < at);
        length++;
    }
    for (int32_t at = node; at >= 0; at = s->nodes[at].parent) {
        tokens[length - 1 - n++] = s->nodes[at].token;
    }
    return length;
}

static void step_search(guarded *g, const model *m, int32_t width) {
    static float log_probs[MOST_BEAM * MOST_VOCAB];
    static int32_t ids[MOST_BEAM * MOST_VOCAB];
    beam_search *s = &g->search;
    for (int32_t k = 0; k < s->n_live; k++) {
        int32_t tokens[MOST_LENGTH], length = path(s, s->live[k].node, tokens);
        assert_int_equal(length, s->length);
        offer(m, tokens, length, width, log_probs + k * width, ids + k * width);
    }
    ebb__beam_step(s, log_probs, ids, width, g->parents, g->tokens);
    assert_true(s->n_nodes <= ebb__beam_nodes(&s->o));
}

/* ---- comparison ---- */

static void same_done(const beam_search *s, const beam_done *got, const plain_hypothesis *want) {
    int32_t tokens[MOST_LENGTH], nodes[MOST_LENGTH], n = want->length - want->ended;
    assert_true(got->log_prob == want->log_prob && got->score == want->score);
    assert_int_equal(got->length, want->length);
    assert_int_equal(got->ended, want->ended);
    assert_int_equal(ebb__beam_tokens(s, got, tokens, nodes), n);
    assert_memory_equal(tokens, want->tokens, (size_t)n * sizeof *tokens);
    for (int32_t i = 0; i < want->length; i++) {
        assert_int_equal(s->nodes[nodes[i]].token, want->tokens[i]);
        assert_int_equal(s->nodes[nodes[i]].parent, i == 0 ? -1 : nodes[i - 1]);
    }
    assert_int_equal(ebb__beam_tokens(s, got, tokens, NULL), n);
}

static void same_state(const guarded *g, const plain *want) {
    const beam_search *s = &g->search;
    int32_t listed = want->n_done < s->o.beam ? want->n_done : s->o.beam;
    assert_int_equal(s->length, want->length);
    assert_int_equal(s->n_live, want->n_live);
    assert_int_equal(s->n_ended, want->n_ended);
    assert_int_equal(s->finished, want->finished);
    for (int32_t j = 0; j < s->n_live; j++) {
        int32_t tokens[MOST_LENGTH], length = path(s, s->live[j].node, tokens);
        assert_true(s->live[j].log_prob == want->live[j].log_prob);
        assert_int_equal(length, want->length);
        assert_memory_equal(tokens, want->live[j].tokens, (size_t)length * sizeof *tokens);
        assert_int_equal(g->parents[j], want->live[j].parent);
        assert_int_equal(g->tokens[j], tokens[length - 1]);
    }
    assert_int_equal(s->n_done, listed);
    for (int32_t i = 0; i < listed; i++) {
        same_done(s, &s->done[i], &want->done[i]);
    }
}

static beam_options draw_case(uint64_t seed, model *m) {
    static const double alphas[] = {0, 1, 0.6, 2.5, -0.5, 10};
    uint64_t a = mix(seed * 2 + 1), b = mix(a), c = mix(b);
    beam_options o = {.beam = (int32_t)(1 + a % MOST_BEAM), .alpha = alphas[a / 8 % 6]};
    o.nbest = (int32_t)(1 + a / 64 % (uint64_t)o.beam);
    o.limit = (int32_t)(1 + b % MOST_LENGTH);
    *m = (model){.seed = c, .vocab = (int32_t)(1 + b / 16 % MOST_VOCAB), .coarse = b / 512 % 2};
    o.eos = m->eos = (int32_t)(c % (uint64_t)m->vocab);
    m->likely = (double)(c / 32 % 5) - 2;
    return o;
}

static int32_t offers_of(const beam_options *o, const model *m, bool all) {
    return all || m->vocab < 2 * o->beam ? m->vocab : 2 * o->beam;
}

/* ---- tests ---- */

static void equals_plain(void **state) {
    (void)state;
    static plain want;
    int32_t early = 0, at_limit = 0;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        model m;
        beam_options o = draw_case(seed, &m);
        guarded g;
        open_search(&g, &o);
        memset(&want, 0, sizeof want);
        want.o = o;
        want.n_live = 1;
        while (!want.finished) {
            plain_step(&want, &m);
            step_search(&g, &m, offers_of(&o, &m, seed % 2 == 0));
            same_state(&g, &want);
        }
        early += want.length < o.limit;
        at_limit += want.length == o.limit;
        close_search(&g);
    }
    assert_true(early > CASES / 10 && at_limit > CASES / 10);
}

static void beam_of_one_is_greedy(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        model m;
        beam_options o = draw_case(seed, &m);
        int32_t tokens[MOST_LENGTH], got[MOST_LENGTH], n = 0;
        double sum = 0;
        bool ended = false;
        o.beam = o.nbest = 1;
        while (!ended && n < o.limit) {
            int32_t best = 0;
            for (int32_t id = 1; id < m.vocab; id++) {
                if (log_prob_of(&m, tokens, n, id) > log_prob_of(&m, tokens, n, best)) {
                    best = id;
                }
            }
            sum += (double)log_prob_of(&m, tokens, n, best);
            ended = best == o.eos;
            tokens[n++] = best;
        }
        guarded g;
        open_search(&g, &o);
        while (!g.search.finished) {
            step_search(&g, &m, offers_of(&o, &m, false));
        }
        assert_int_equal(g.search.n_done, 1);
        assert_int_equal(g.search.length, n);
        assert_int_equal(g.search.done[0].ended, ended);
        assert_true(g.search.done[0].log_prob == sum);
        assert_int_equal(ebb__beam_tokens(&g.search, &g.search.done[0], got, NULL), n - ended);
        assert_memory_equal(got, tokens, (size_t)(n - ended) * sizeof *got);
        close_search(&g);
    }
}

/* Beam 2, tokens 0 (<eos>), 1, 2. Of equal sums the lower hypothesis comes first, then the lower
 * token; <eos> behind the first two offers ends nothing. */
static void ties_by_hand(void **state) {
    (void)state;
    const beam_options o = {.beam = 2, .nbest = 2, .alpha = 0, .limit = 9, .eos = 0};
    const float first[] = {-1, -1, -1}, second[] = {-1, -1, -2, -1, -1, -1};
    const int32_t all[] = {0, 1, 2}, ids[] = {1, 2, 0, 0, 1, 2};
    guarded g;
    open_search(&g, &o);
    ebb__beam_step(&g.search, first, all, 3, g.parents, g.tokens);
    assert_int_equal(g.search.n_ended, 1);
    assert_int_equal(g.search.n_live, 2);
    assert_int_equal(g.tokens[0], 1);
    assert_int_equal(g.tokens[1], 2);
    ebb__beam_step(&g.search, second, ids, 3, g.parents, g.tokens);
    assert_int_equal(g.search.n_ended, 1); /* <eos> of the second is third */
    assert_int_equal(g.parents[0] + g.parents[1], 0);
    assert_int_equal(g.tokens[0], 1);
    assert_int_equal(g.tokens[1], 2);
    assert_false(g.search.finished);
    /* <eos> of both comes first, and nothing that lives can beat the second best done one. */
    const float third[] = {-1, -5, -1, -5};
    const int32_t eos_first[] = {0, 1, 0, 1};
    ebb__beam_step(&g.search, third, eos_first, 2, g.parents, g.tokens);
    assert_int_equal(g.search.n_ended, 3);
    assert_true(g.search.finished);
    assert_int_equal(g.search.n_done, 2);
    assert_int_equal(g.search.done[0].length, 1);
    assert_int_equal(g.search.done[1].length, 3);
    int32_t tokens[2];
    assert_int_equal(ebb__beam_tokens(&g.search, &g.search.done[1], tokens, NULL), 2);
    assert_int_equal(tokens[0], 1);
    assert_int_equal(tokens[1], 1); /* the lower hypothesis ended first */
    close_search(&g);
}

/* At the limit the living ones are done as they are, in one order with those that ended. */
static void limit_by_hand(void **state) {
    (void)state;
    const beam_options o = {.beam = 2, .nbest = 2, .alpha = 1, .limit = 2, .eos = 0};
    const float first[] = {-3, -4, -4.5f}, second[] = {-1, -9, -9, -0.25f, -9, -9};
    const int32_t ids[] = {0, 1, 2}, twice[] = {1, 0, 2, 2, 0, 1};
    guarded g;
    open_search(&g, &o);
    ebb__beam_step(&g.search, first, ids, 3, g.parents, g.tokens);
    assert_int_equal(g.search.n_done, 1);
    assert_false(g.search.finished);
    ebb__beam_step(&g.search, second, twice, 3, g.parents, g.tokens);
    assert_true(g.search.finished);
    assert_int_equal(g.search.n_done, 2);
    assert_true(g.search.done[0].score == -4.75 / 2 && g.search.done[1].score == -5.0 / 2);
    assert_false(g.search.done[0].ended || g.search.done[1].ended);
    int32_t tokens[2], nodes[2];
    assert_int_equal(ebb__beam_tokens(&g.search, &g.search.done[0], tokens, nodes), 2);
    assert_int_equal(tokens[0], 2);
    assert_int_equal(tokens[1], 2);
    assert_int_equal(g.search.live[0].node, nodes[1]);
    close_search(&g);
}

/* As many nodes as there can be: at the limit all but one have ended, and then all do that can. */
static void nodes_reach_their_bound(void **state) {
    (void)state;
    for (int32_t beam = 2; beam <= MOST_BEAM; beam++) {
        const beam_options o = {.beam = beam, .nbest = 1, .alpha = 10, .limit = MOST_LENGTH};
        float log_probs[MOST_BEAM * 2 * MOST_BEAM];
        int32_t ids[MOST_BEAM * 2 * MOST_BEAM];
        guarded g;
        open_search(&g, &o);
        while (!g.search.finished) {
            bool last = g.search.length == o.limit - 1;
            int32_t ends = last ? beam : g.search.n_ended < beam - 1;
            for (int32_t i = 0; i < beam * 2 * beam; i++) {
                bool ending = i / (2 * beam) < ends;
                ids[i] = i % (2 * beam);
                log_probs[i] = ids[i] > 0 ? -100.0f - (float)ids[i] : ending ? -1.0f : -1000.0f;
            }
            ebb__beam_step(&g.search, log_probs, ids, 2 * beam, g.parents, g.tokens);
        }
        assert_int_equal(g.search.length, o.limit);
        assert_int_equal(g.search.n_ended, 2 * beam - 1);
        assert_int_equal(g.search.n_nodes, ebb__beam_nodes(&o));
        close_search(&g);
    }
}

/* Not a number is the least of all: such an offer is taken only where nothing else is left, and the
 * search still ends. */
static void nan_counts_as_nothing(void **state) {
    (void)state;
    const beam_options o = {.beam = 2, .nbest = 2, .alpha = 1, .limit = 4, .eos = 3};
    const float first[] = {NAN, -1, NAN, -2}, none[] = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    const int32_t ids[] = {0, 1, 2, 3, 3, 2, 1, 0};
    guarded g;
    open_search(&g, &o);
    ebb__beam_step(&g.search, first, ids, 4, g.parents, g.tokens);
    assert_int_equal(g.search.n_ended, 1);
    assert_int_equal(g.tokens[0], 1);
    assert_int_equal(g.tokens[1], 0);
    assert_true(g.search.live[0].log_prob == -1 && g.search.live[1].log_prob == -(double)INFINITY);
    while (!g.search.finished) {
        ebb__beam_step(&g.search, none, ids, 4, g.parents, g.tokens);
        assert_int_equal(g.search.n_live, 2);
        assert_int_equal(g.parents[1], 0);
        assert_int_equal(g.tokens[1], 1);
    }
    assert_int_equal(g.search.length, o.limit);
    assert_true(g.search.done[0].score == -2);
    assert_true(g.search.done[1].score == -(double)INFINITY);
    close_search(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_plain),
        cmocka_unit_test(beam_of_one_is_greedy),
        cmocka_unit_test(ties_by_hand),
        cmocka_unit_test(limit_by_hand),
        cmocka_unit_test(nodes_reach_their_bound),
        cmocka_unit_test(nan_counts_as_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
