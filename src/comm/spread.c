/* spread.c - barrier, broadcast and gather of small blocks, over send and receive.
 *
 * A star, not a tree: it takes more time at the root, which does not matter for what happens at the
 * start, at checkpoints and at the end, but the root talks to each rank itself and so names the one
 * that is missing. The others wait longer than the root does, or they would blame the root that
 * waits for a third. Each needs one ticket. */
#include "comm/comm.h"

#include <stdio.h>
#include <string.h>

enum { TAG_BROADCAST, TAG_GATHER };
static const double PATIENCE = 2; /* of those that wait for the root, which itself waits for all */

ebb_status ebb__comm_put(comm_link *link, int to, int tag, const void *data, size_t bytes,
                         double seconds) {
    int ticket;
    TRY(ebb__comm_send(link, to, tag, data, bytes, &ticket));
    return ebb__comm_wait(link, ticket, seconds);
}

ebb_status ebb__comm_take(comm_link *link, int from, int tag, void *data, size_t bytes,
                          double seconds) {
    int ticket;
    TRY(ebb__comm_recv(link, from, tag, data, bytes, &ticket));
    return ebb__comm_wait(link, ticket, seconds);
}

ebb_status ebb__comm_broadcast(comm_link *link, int root, void *data, size_t bytes,
                               double seconds) {
    if (ebb__comm_rank(link) != root) {
        return ebb__comm_take(link, root, TAG_BROADCAST, data, bytes, PATIENCE * seconds);
    }
    for (int rank = 0; rank < ebb__comm_size(link); rank++) {
        if (rank != root) {
            TRY(ebb__comm_put(link, rank, TAG_BROADCAST, data, bytes, seconds));
        }
    }
    return EBB_OK;
}

ebb_status ebb__comm_gather(comm_link *link, int root, const void *mine, void *all, size_t bytes,
                            double seconds) {
    if (ebb__comm_rank(link) != root) {
        return ebb__comm_put(link, root, TAG_GATHER, mine, bytes, PATIENCE * seconds);
    }
    for (int rank = 0; rank < ebb__comm_size(link); rank++) {
        char *place = bytes > 0 ? (char *)all + (size_t)rank * bytes : NULL;
        if (rank != root) {
            TRY(ebb__comm_take(link, rank, TAG_GATHER, place, bytes, seconds));
        } else if (bytes > 0) {
            memcpy(place, mine, bytes);
        }
    }
    return EBB_OK;
}

ebb_status ebb__comm_barrier(comm_link *link, double seconds) {
    TRY(ebb__comm_gather(link, 0, NULL, NULL, 0, seconds));
    return ebb__comm_broadcast(link, 0, NULL, 0, seconds);
}

/* What a rank says of itself, and in the end the root of all. */
typedef struct comm_word {
    int32_t status;
    char sentence[1000];
} comm_word;

/* Wrong usage is not one rank's. */
static void take_word(const comm_link *link, int rank, const comm_word *word, comm_word *all) {
    char name[128] = "";
    if (all->status != EBB_OK || word->status == EBB_OK) {
        return;
    }
    if (word->status != EBB_USAGE) {
        (void)snprintf(name, sizeof name, "rank %d (%s): ", rank,
                       ebb__comm_describe(link, rank)->host);
    }
    all->status = word->status;
    (void)snprintf(all->sentence, sizeof all->sentence, "%s%.*s", name,
                   (int)(sizeof all->sentence - sizeof name), word->sentence);
}

ebb_status ebb__comm_agree(comm_link *link, ebb_status mine, double seconds) {
    ebb_ctx *ctx = ebb__comm_back(link)->ctx;
    comm_word word = {.status = (int32_t)mine}, all = {.status = EBB_OK};
    if (ebb__comm_size(link) == 1) {
        return mine;
    }
    if (mine != EBB_OK) {
        const char *why = ebb_last_error(ctx);
        (void)snprintf(word.sentence, sizeof word.sentence, "%s",
                       why[0] != '\0' ? why : ebb_status_text(mine));
        ebb__ctx_clear(ctx); /* for that of what goes wrong from here on */
    }
    if (ebb__comm_rank(link) > 0) {
        TRY(ebb__comm_put(link, 0, TAG_GATHER, &word, sizeof word, PATIENCE * seconds));
    } else {
        take_word(link, 0, &word, &all);
        for (int rank = 1; rank < ebb__comm_size(link); rank++) {
            TRY(ebb__comm_take(link, rank, TAG_GATHER, &word, sizeof word, seconds));
            take_word(link, rank, &word, &all);
        }
    }
    TRY(ebb__comm_broadcast(link, 0, &all, sizeof all, seconds));
    if (all.status == EBB_OK) {
        return EBB_OK;
    }
    ebb__comm_set_agreed(link);
    return ebb__fail(ctx, (ebb_status)all.status, "%s", all.sentence);
}
