/* comm_mpi.c - messages by MPI, as a plugin: the one file that includes mpi.h.
 *
 * Isend, Irecv and Test, nothing else: collectives take memory of their own, and MPI_Wait spins for
 * as long as it takes, on cores that other ranks may need. Funnelled: all calls come from one
 * thread. Errors are values.
 *
 * Counts of MPI are ints, so a long message goes in pieces, all posted at once, in order. A header
 * with its whole length goes ahead, since otherwise a message of three pieces would pass for one of
 * two. The header's own length is no multiple of 4, as that of tensors is: who expects a
 * short message instead sees a wrong size. */
#include "comm/backend.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HEADER_BYTES = 13, SPARE = 64 }; /* SPARE: requests for pieces, beside one for each ticket */
static const char MAGIC[] = "ebb..";    /* and 8 bytes of length */
static const size_t PIECE_BYTES = (size_t)1 << 30;
static const double SPIN_LEAST = 1e-6, SPIN_MOST = 50e-6; /* seconds */
static const long NAP_NANOSECONDS = 50000;

typedef struct mpi_piece {
    MPI_Request request;
    size_t bytes;
    int next; /* of the same message, or free; -1: none */
} mpi_piece;

typedef struct mpi_ticket {
    comm_post post;
    bool under_way; /* MPI has some of its pieces */
    int first;      /* piece that is not yet done; -1: none */
    bool headed;    /* which is the header */
    comm_event event;
    uint64_t came;
    unsigned char header[HEADER_BYTES];
} mpi_ticket;

typedef struct mpi_state {
    int tickets, pending; /* pending: tickets that are under way */
    int tag_most;
    int free;   /* piece */
    int cursor; /* ticket that poll looks at next */
    size_t piece_bytes;
    double spin; /* seconds, as learned: in vain halves it, a success doubles it */
    mpi_piece *piece;
    mpi_ticket ticket[];
} mpi_state;

/* ---- open and close ------------------------------------------------------------------------ */

static size_t mpi_room(const comm_setup *setup) {
    return sizeof(mpi_state) + (size_t)setup->tickets * sizeof(mpi_ticket) +
           ((size_t)setup->tickets + SPARE) * sizeof(mpi_piece);
}

static comm_event refuse_error(comm_news *news, const char *call, int error) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    (void)MPI_Error_string(error, text, &length);
    (void)snprintf(news->text, sizeof news->text, "%s failed: %.120s", call, text);
    return COMM_REFUSED;
}

/* Another MPI's mpirun starts the processes, but each is alone in ours. */
static comm_event check_count(const comm_setup *setup, int size, comm_news *news) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    if (setup->expected <= 0 || setup->expected == size) {
        return COMM_DONE;
    }
    (void)MPI_Get_library_version(version, &length);
    (void)snprintf(
        news->text, sizeof news->text,
        "mpirun started %d processes, but %.*s sees %d; use the mpirun that belongs to it",
        setup->expected, (int)strcspn(version, ",\n"), version, size);
    return COMM_REFUSED;
}

/* Over TCP Open MPI sends up to 64 KiB at once; before a longer message both sides ask each other,
 * and they come to that between two instructions. Rows that stages hand on are a little longer: so
 * up to 256 KiB go at once, from where they are. Who sets the limit himself has his own. */
static void send_rows_at_once(void) {
    (void)setenv("OMPI_MCA_btl_tcp_eager_limit", "262144", 0);
}

static comm_event mpi_open(void *state, const comm_setup *setup, int *rank, int *size,
                           comm_news *news) {
    mpi_state *m = state;
    int before = 0, given = 0, *tag_most = NULL, found = 0;
    if (MPI_Initialized(&before) == MPI_SUCCESS && before) {
        (void)snprintf(news->text, sizeof news->text, "can be opened only once in a process");
        return COMM_REFUSED;
    }
    send_rows_at_once();
    int error = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given);
    if (error != MPI_SUCCESS) {
        return refuse_error(news, "MPI_Init_thread", error);
    }
    (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, size);
    (void)MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_most, &found);
    comm_event event = check_count(setup, *size, news);
    if (event == COMM_DONE && given < MPI_THREAD_FUNNELED) {
        (void)snprintf(news->text, sizeof news->text, "this MPI cannot be used beside threads");
        event = COMM_REFUSED;
    }
    if (event != COMM_DONE) {
        (void)MPI_Finalize();
        return event;
    }
    m->tickets = setup->tickets;
    m->tag_most = found ? *tag_most : 32767; /* which MPI promises */
    m->piece_bytes = setup->piece_bytes > 0 && setup->piece_bytes < PIECE_BYTES ? setup->piece_bytes
                                                                                : PIECE_BYTES;
    m->spin = SPIN_MOST;
    m->piece = (mpi_piece *)(void *)&m->ticket[m->tickets];
    for (int i = 0; i < m->tickets + SPARE; i++) {
        m->piece[i].next = i + 1 < m->tickets + SPARE ? i + 1 : -1;
    }
    return COMM_DONE;
}

/* MPI_Finalize waits for all ranks. Where one is lost, or is owed a message, that would be for
 * ever; mpirun ends the others of a process that ends without it. */
static void mpi_close(void *state, bool lost) {
    if (!lost && ((const mpi_state *)state)->pending == 0) {
        (void)MPI_Finalize();
    }
}

static void mpi_give_up(void *state, int code) {
    (void)state;
    (void)MPI_Abort(MPI_COMM_WORLD, code);
}

/* ---- start --------------------------------------------------------------------------------- */

static void write_header(unsigned char header[HEADER_BYTES], uint64_t bytes) {
    memcpy(header, MAGIC, HEADER_BYTES - sizeof bytes);
    memcpy(header + HEADER_BYTES - sizeof bytes, &bytes, sizeof bytes);
}

static bool read_header(const void *header, uint64_t *bytes) {
    memcpy(bytes, (const char *)header + HEADER_BYTES - sizeof *bytes, sizeof *bytes);
    return memcmp(header, MAGIC, HEADER_BYTES - sizeof *bytes) == 0;
}

/* Puts one more piece behind those of the ticket. */
static int post_piece(mpi_state *m, mpi_ticket *t, void *data, size_t bytes, int *last) {
    const comm_post *post = &t->post;
    int taken = m->free;
    mpi_piece *piece = &m->piece[taken];
    int error = post->is_send ? MPI_Isend(data, (int)bytes, MPI_BYTE, post->peer, post->tag,
                                          MPI_COMM_WORLD, &piece->request)
                              : MPI_Irecv(data, (int)bytes, MPI_BYTE, post->peer, post->tag,
                                          MPI_COMM_WORLD, &piece->request);
    if (error != MPI_SUCCESS) {
        return error;
    }
    m->free = piece->next;
    piece->bytes = bytes;
    piece->next = -1;
    if (*last < 0) {
        t->first = taken;
    } else {
        m->piece[*last].next = taken;
    }
    *last = taken;
    return MPI_SUCCESS;
}

/* Whether so many are free. */
static bool has_free(const mpi_state *m, size_t pieces) {
    int next = m->free;
    while (pieces > 0 && next >= 0) {
        next = m->piece[next].next;
        pieces--;
    }
    return pieces == 0;
}

static comm_event mpi_start(void *state, int ticket, const comm_post *post, comm_news *news) {
    mpi_state *m = state;
    mpi_ticket *t = &m->ticket[ticket];
    bool headed = post->bytes > m->piece_bytes;
    size_t pieces = headed ? 2 + (post->bytes - 1) / m->piece_bytes : 1;
    int last = -1, error = MPI_SUCCESS;
    if (post->tag > m->tag_most) {
        (void)snprintf(news->text, sizeof news->text, "tags of this MPI end at %d", m->tag_most);
        return COMM_REFUSED;
    }
    if (!has_free(m, pieces)) {
        (void)snprintf(news->text, sizeof news->text,
                       "%zu pieces are more than %d tickets and %d spare ones have left", pieces,
                       m->tickets, SPARE);
        return COMM_REFUSED;
    }
    *t = (mpi_ticket){
        .post = *post, .under_way = true, .first = -1, .headed = headed, .event = COMM_PENDING};
    m->pending++;
    if (headed) {
        write_header(t->header, post->is_send ? post->bytes : 0);
        error = post_piece(m, t, t->header, HEADER_BYTES, &last);
    }
    size_t done = 0;
    do {
        size_t left = post->bytes - done, bytes = left < m->piece_bytes ? left : m->piece_bytes;
        if (error == MPI_SUCCESS) {
            void *data =
                done > 0 ? (char *)post->data + done : post->data; /* NULL if there is none */
            error = post_piece(m, t, data, bytes, &last);
        }
        done += bytes;
    } while (done < post->bytes && error == MPI_SUCCESS);
    return error == MPI_SUCCESS
               ? COMM_PENDING
               : refuse_error(news, post->is_send ? "MPI_Isend" : "MPI_Irecv", error);
}

/* ---- wait ---------------------------------------------------------------------------------- */

/* Of a receive's piece that came with so many bytes: the message's bytes, if they are not those
 * that are expected. */
static bool is_wrong(const mpi_ticket *t, const mpi_piece *piece, uint64_t came, uint64_t *bytes) {
    *bytes = came;
    if (t->headed) {
        return came != HEADER_BYTES || !read_header(t->header, bytes) || *bytes != t->post.bytes;
    }
    if (came == HEADER_BYTES && piece->bytes > HEADER_BYTES && !read_header(t->post.data, bytes)) {
        *bytes = came;
    }
    return came != piece->bytes;
}

/* Asks MPI about the first piece that is not done. */
static comm_event test_piece(mpi_ticket *t, mpi_piece *piece) {
    MPI_Status status;
    uint64_t bytes;
    int done = 0, came = 0, class = MPI_SUCCESS, error = MPI_Test(&piece->request, &done, &status);
    if (error != MPI_SUCCESS) {
        (void)MPI_Error_class(error, &class);
        if (class != MPI_ERR_TRUNCATE || t->post.is_send) {
            return COMM_GONE;
        }
    } else if (!done) {
        return COMM_PENDING;
    }
    if (t->post.is_send) {
        return COMM_DONE;
    }
    (void)MPI_Get_count(&status, MPI_BYTE, &came);
    if (is_wrong(t, piece, (uint64_t)came, &bytes) || class == MPI_ERR_TRUNCATE) {
        t->came = bytes;
        return COMM_SIZE;
    }
    return COMM_DONE;
}

/* Moves a ticket on as far as it goes. What is found out stays with it until somebody waits. */
static comm_event look(mpi_state *m, mpi_ticket *t) {
    while (t->event == COMM_PENDING && t->first >= 0) {
        int first = t->first;
        comm_event event = test_piece(t, &m->piece[first]);
        if (event == COMM_PENDING) {
            return event;
        }
        t->event = event == COMM_DONE ? COMM_PENDING : event;
        if (event == COMM_GONE) {
            return event; /* it stays pending: MPI may still have its bytes */
        }
        t->headed = false;
        t->first = m->piece[first].next;
        m->piece[first].next = m->free;
        m->free = first;
    }
    if (t->under_way && t->first < 0) {
        t->under_way = false;
        m->pending--;
    }
    t->event = t->event == COMM_PENDING ? COMM_DONE : t->event;
    return t->event;
}

static double now(void) {
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void learn_spin(mpi_state *m, bool came) {
    double next = came ? 2 * m->spin : m->spin / 2;
    next = next < SPIN_LEAST ? SPIN_LEAST : next;
    m->spin = next > SPIN_MOST ? SPIN_MOST : next;
}

/* Spins for a moment, then sleeps in between: there may be more ranks than cores. */
static comm_event mpi_wait(void *state, int ticket, double seconds, comm_news *news) {
    mpi_state *m = state;
    mpi_ticket *t = &m->ticket[ticket];
    const struct timespec nap = {.tv_nsec = NAP_NANOSECONDS};
    comm_event event = look(m, t);
    if (event == COMM_PENDING && seconds > 0) {
        double begin = now(), waited = 0;
        bool napped = false;
        while (event == COMM_PENDING && waited < seconds) {
            if (waited > m->spin) {
                napped = true;
                (void)nanosleep(&nap, NULL);
            }
            event = look(m, t);
            waited = now() - begin;
        }
        learn_spin(m, !napped);
    }
    news->bytes = t->came;
    return event;
}

/* A test of any request that is not done moves all of them on. */
static comm_event mpi_poll(void *state, comm_news *news) {
    mpi_state *m = state;
    (void)news;
    for (int i = 0; i < m->tickets && m->pending > 0; i++) {
        mpi_ticket *t = &m->ticket[m->cursor];
        m->cursor = m->cursor + 1 < m->tickets ? m->cursor + 1 : 0;
        if (t->under_way && look(m, t) == COMM_PENDING) {
            break;
        }
    }
    return COMM_PENDING;
}

extern const comm_calls ebb_comm_mpi;
__attribute__((visibility("default"))) const comm_calls ebb_comm_mpi = {
    .version = COMM_VERSION,
    .bytes = sizeof(comm_calls),
    .name = "MPI",
    .room = mpi_room,
    .open = mpi_open,
    .close = mpi_close,
    .start = mpi_start,
    .wait = mpi_wait,
    .poll = mpi_poll,
    .give_up = mpi_give_up,
};
