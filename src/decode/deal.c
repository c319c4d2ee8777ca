/* deal.c - see deal.h. */
#include "decode/deal.h"

#include "comm/comm.h"
#include "data/vocab.h"
#include "run/ranks.h"

#include <string.h>

/* A sentence, and what it became, as ranks send them: so many ids, then the ids. Of what it became
 * behind these whether it ended. */
typedef struct dealer {
    run_session *session;
    const translate_options *o;
    const translate_io *io;
    int32_t *sentences, *results; /* [most][wide], [a rank's most][found] */
    int32_t wide, found;
    int64_t most;    /* sentences of a rank at a time */
    int64_t next, n; /* of the rank's own: read so far, all */
    uint64_t number; /* of the first */
} dealer;

enum { LENGTH, IDS };

static int32_t wide_of(const translate_options *o) {
    return IDS + o->max_src;
}

static int32_t found_of(const translate_options *o) {
    return IDS + 1 + ebb__translate_limit(o, o->max_src);
}

uint64_t ebb__deal_bytes(const translate_options *options, int32_t ranks, int32_t rank) {
    uint64_t most = (uint64_t)ebb__translate_pool(options);
    uint64_t read = rank == 0 ? (uint64_t)ranks * most : most;
    return (read * (uint64_t)wide_of(options) + most * (uint64_t)found_of(options)) *
           sizeof(int32_t);
}

static ebb_status open_dealer(dealer *d, int32_t ranks, int32_t rank) {
    uint64_t bytes = 0;
    d->most = ebb__translate_pool(d->o);
    d->wide = wide_of(d->o);
    d->found = found_of(d->o);
    d->sentences = ebb__run_host(d->session, DEAL_ROOM, &bytes);
    if (d->sentences == NULL || bytes < ebb__deal_bytes(d->o, ranks, rank)) {
        return ebb__fail(d->session->ctx, EBB_INTERNAL, "the plan has no room to deal sentences");
    }
    d->results = d->sentences + (rank == 0 ? ranks : 1) * d->most * d->wide;
    return EBB_OK;
}

/* ---- a rank's own ---- */

static ebb_status read_own(void *user, int32_t *ids, int32_t room, int32_t *n,
                           translate_next *got) {
    dealer *d = user;
    *got = d->next < d->n ? TRANSLATE_SENTENCE : TRANSLATE_END;
    if (*got == TRANSLATE_SENTENCE) {
        const int32_t *sentence = d->sentences + d->next++ * d->wide;
        *n = sentence[LENGTH] < room ? sentence[LENGTH] : room;
        memcpy(ids, sentence + IDS, (size_t)*n * sizeof *ids);
    }
    return EBB_OK;
}

static ebb_status keep_result(void *user, const translate_result *result) {
    dealer *d = user;
    const translate_hypothesis *best = &result->best[0];
    int32_t *to = d->results + (int64_t)result->number * d->found;
    to[LENGTH] = best->length;
    memcpy(to + IDS, best->tokens, (size_t)best->length * sizeof *to);
    to[IDS + best->length] = best->ended;
    return EBB_OK;
}

static size_t bytes_of(int64_t n, int32_t wide) {
    return (size_t)n * (size_t)wide * sizeof(int32_t);
}

ebb_status ebb__deal_serve(run_session *session, translate_uses uses,
                           const translate_options *options, int32_t sentences) {
    dealer d = {.session = session, .o = options, .n = sentences};
    translate_io io = {&d, read_own, keep_result, NULL};
    TRY(open_dealer(&d, ebb__comm_size(session->link), ebb__comm_rank(session->link)));
    TRY(ebb__ranks_take(session, 0, d.sentences, bytes_of(d.n, d.wide)));
    TRY(ebb__translate(session, uses, options, &io));
    return ebb__ranks_give(session, 0, d.results, bytes_of(d.n, d.found));
}

/* ---- the first rank ---- */

static ebb_status write_own(void *user, const translate_result *result) {
    const dealer *d = user;
    translate_result numbered = *result;
    numbered.number += d->number;
    return d->io->write(d->io->user, &numbered);
}

static bool should_stop(void *user) {
    const dealer *d = user;
    return d->io->stop != NULL && d->io->stop(d->io->user);
}

/* As many as there is room for, or there are. */
static ebb_status read_ahead(dealer *d, int64_t room, int64_t *n, bool *ended) {
    translate_next got = TRANSLATE_SENTENCE;
    *n = 0;
    while (*n < room && got == TRANSLATE_SENTENCE) {
        int32_t *sentence = d->sentences + *n * d->wide;
        TRY(d->io->read(d->io->user, sentence + IDS, d->o->max_src - 1, &sentence[LENGTH], &got));
        *n += got == TRANSLATE_SENTENCE;
    }
    *ended = got == TRANSLATE_END;
    return EBB_OK;
}

/* Sentence i, as another rank has translated it: its k-th. */
static ebb_status write_result(dealer *d, int64_t i, int64_t k) {
    int32_t *sentence = d->sentences + i * d->wide;
    const int32_t *found = d->results + k * d->found;
    int32_t length = sentence[LENGTH];
    sentence[IDS + length] = VOCAB_EOS;
    translate_result result = {
        .number = d->number + (uint64_t)i,
        .source = sentence + IDS,
        .source_length = length + 1,
        .n = 1,
        .best = {
            {.tokens = found + IDS, .length = found[LENGTH], .ended = found[IDS + found[LENGTH]]}}};
    return d->io->write(d->io->user, &result);
}

/* The others' results are taken also where nobody wants them any more: they are on their way. */
static ebb_status translate_dealt(dealer *d, translate_uses uses, int64_t n) {
    const int ranks = ebb__comm_size(d->session->link);
    translate_io own = {d, read_own, write_own, should_stop};
    for (int r = 1; r < ranks; r++) {
        int64_t first = n * r / ranks, end = n * (r + 1) / ranks;
        TRY(ebb__ranks_serve(d->session, r, (int32_t)(end - first)));
        TRY(ebb__ranks_give(d->session, r, d->sentences + first * d->wide,
                            bytes_of(end - first, d->wide)));
    }
    d->next = 0;
    d->n = n / ranks;
    ebb_status status = ebb__translate(d->session, uses, d->o, &own);
    for (int r = 1; (status == EBB_OK || status == EBB_STOPPED) && r < ranks; r++) {
        int64_t first = n * r / ranks, end = n * (r + 1) / ranks;
        TRY(ebb__ranks_take(d->session, r, d->results, bytes_of(end - first, d->found)));
        for (int64_t i = first; status == EBB_OK && i < end; i++) {
            status = write_result(d, i, i - first);
        }
    }
    d->number += (uint64_t)n;
    return status;
}

ebb_status ebb__deal_translate(run_session *session, translate_uses uses,
                               const translate_options *options, const translate_io *io) {
    const int ranks = session->link != NULL ? ebb__comm_size(session->link) : 1;
    dealer d = {.session = session, .o = options, .io = io};
    if (ranks == 1 || ebb__run_host(session, DEAL_ROOM, NULL) == NULL) {
        return ebb__translate(session, uses, options, io);
    }
    TRY(open_dealer(&d, ranks, 0));
    for (bool ended = false; !ended;) {
        int64_t n = 0;
        TRY(read_ahead(&d, ranks * d.most, &n, &ended));
        TRY(n > 0 ? translate_dealt(&d, uses, n) : EBB_OK);
    }
    return EBB_OK;
}
