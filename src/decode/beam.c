/* beam.c - beam search for one sentence: offers in, hypotheses out. See beam.h for the rules. */
#include "decode/beam.h"

#include <math.h>

/* ---- memory: done, offers, live, nodes ---- */

int32_t ebb__beam_nodes(const beam_options *options) {
    return options->beam * (options->limit + 2) - 1;
}

size_t ebb__beam_bytes(const beam_options *options) {
    size_t beam = (size_t)options->beam;
    return beam * sizeof(beam_done) + 2 * beam * sizeof(beam_offer) + beam * sizeof(beam_live) +
           (size_t)ebb__beam_nodes(options) * sizeof(beam_node);
}

void ebb__beam_start(beam_search *search, const beam_options *options, void *memory) {
    *search = (beam_search){.o = *options, .done = memory};
    search->offers = (beam_offer *)(search->done + options->beam);
    search->live = (beam_live *)(search->offers + 2 * (size_t)options->beam);
    search->nodes = (beam_node *)(search->live + options->beam);
    search->live[0] = (beam_live){.log_prob = 0.0, .node = -1};
    search->n_live = 1;
}

static int32_t add_node(beam_search *search, int32_t token, int32_t parent) {
    search->nodes[search->n_nodes] = (beam_node){.token = token, .parent = parent};
    return search->n_nodes++;
}

/* ---- the best offers of a step ---- */

static bool is_better(const beam_offer *a, const beam_offer *b) {
    if (a->log_prob != b->log_prob) {
        return a->log_prob > b->log_prob;
    }
    return a->parent != b->parent ? a->parent < b->parent : a->token < b->token;
}

/* Puts an offer among the best n, at most `most`; gives how many there are then. */
static int32_t add_offer(beam_offer *best, int32_t n, int32_t most, const beam_offer *offer) {
    int32_t i = n < most ? n : n - 1;
    if (n == most && !is_better(offer, &best[i])) {
        return n;
    }
    for (; i > 0 && is_better(offer, &best[i - 1]); i--) {
        best[i] = best[i - 1];
    }
    best[i] = *offer;
    return n < most ? n + 1 : n;
}

static int32_t best_offers(beam_search *search, const float *log_probs, const int32_t *ids,
                           int32_t width) {
    int32_t most = 2 * search->o.beam, n = 0;
    for (int32_t k = 0; k < search->n_live; k++) {
        for (int32_t i = 0; i < width; i++) {
            size_t at = (size_t)k * (size_t)width + (size_t)i;
            if (search->o.bans && ids[at] == search->o.banned) {
                continue;
            }
            double sum = search->live[k].log_prob + (double)log_probs[at];
            beam_offer offer = {isnan(sum) ? -(double)INFINITY : sum, k, ids[at]};
            n = add_offer(search->offers, n, most, &offer);
        }
    }
    return n;
}

/* ---- done hypotheses ---- */

static double score_of(const beam_options *o, double log_prob, int32_t length) {
    return isinf(log_prob) ? log_prob : log_prob / pow((double)length, o->alpha);
}

/* One that is done, of the current length, unless the list is full of better ones. An ended one has
 * still to get the node of its <eos>, after `node`. */
static void add_done(beam_search *search, double log_prob, int32_t node, bool ended) {
    double score = score_of(&search->o, log_prob, search->length);
    int32_t most = search->o.beam, i = search->n_done;
    if (i == most && !(score > search->done[i - 1].score)) {
        return;
    }
    search->n_done += i < most;
    for (i = search->n_done - 1; i > 0 && score > search->done[i - 1].score; i--) {
        search->done[i] = search->done[i - 1];
    }
    search->done[i] = (beam_done){.log_prob = log_prob,
                                  .score = score,
                                  .node = ended ? add_node(search, search->o.eos, node) : node,
                                  .length = search->length,
                                  .ended = ended};
}

/* ---- a step ---- */

static void end_some(beam_search *search, int32_t n_offers) {
    for (int32_t i = 0; i < n_offers && i < search->o.beam; i++) {
        const beam_offer *offer = &search->offers[i];
        if (offer->token == search->o.eos) {
            add_done(search, offer->log_prob, search->live[offer->parent].node, true);
            search->n_ended++;
        }
    }
}

/* The survivors move to the front of the offers: the old hypotheses are read until all have their
 * nodes. */
static void live_on(beam_search *search, int32_t n_offers, int32_t *parents, int32_t *tokens) {
    int32_t n = 0, first = search->n_nodes;
    for (int32_t i = 0; i < n_offers && n < search->o.beam; i++) {
        const beam_offer offer = search->offers[i];
        if (offer.token != search->o.eos) {
            (void)add_node(search, offer.token, search->live[offer.parent].node);
            parents[n] = offer.parent;
            tokens[n] = offer.token;
            search->offers[n++] = offer;
        }
    }
    for (int32_t j = 0; j < n; j++) {
        search->live[j] = (beam_live){.log_prob = search->offers[j].log_prob, .node = first + j};
    }
    search->n_live = n;
}

void ebb__beam_step(beam_search *search, const float *log_probs, const int32_t *ids, int32_t width,
                    int32_t *parents, int32_t *tokens) {
    int32_t n_offers = best_offers(search, log_probs, ids, width);
    search->length++;
    end_some(search, n_offers);
    live_on(search, n_offers, parents, tokens);
    if (search->length == search->o.limit) {
        for (int32_t j = 0; j < search->n_live; j++) {
            add_done(search, search->live[j].log_prob, search->live[j].node, false);
        }
        search->finished = true;
    }
    search->finished = search->finished || search->n_live == 0 || search->n_ended >= search->o.beam;
}

int32_t ebb__beam_tokens(const beam_search *search, const beam_done *done, int32_t *out,
                         int32_t *nodes) {
    int32_t count = done->length - done->ended, node = done->node;
    for (int32_t i = done->length - 1; i >= 0; i--) {
        if (nodes != NULL) {
            nodes[i] = node;
        }
        if (i < count) {
            out[i] = search->nodes[node].token;
        }
        node = search->nodes[node].parent;
    }
    return count;
}
