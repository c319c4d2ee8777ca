/* pulse.c - see pulse.h. A rank is asked at all addresses of its machine at once: which of them
 * leads there is not known, and whoever else gets the question has another key and drops it. */
#include "comm/pulse.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STACK_BYTES = 256 << 10, TELL_TIMES = 2 /* a datagram may be lost */ };
enum { STOPPED_MILLISECONDS = 1 };
static const uint32_t MAGIC = 0x65626250;

typedef enum pulse_kind { PULSE_ASK, PULSE_ALIVE, PULSE_FAILED } pulse_kind;

typedef struct pulse_datagram {
    uint32_t magic;
    int32_t kind, from; /* whose rank */
    int32_t unused;
    uint64_t key; /* of who is meant */
} pulse_datagram;

struct comm_pulse {
    ebb_ctx *ctx;
    int rank, size;
    uint64_t key, system;
    int socket, end; /* end: an event that ends the thread; both -1: not had */
    bool running;
    pthread_t thread;
    const char *cards;
    size_t step;
    atomic_bool stopped;
    atomic_int failed;   /* the lowest rank that failed; size: none */
    atomic_uint heard[]; /* by rank */
};

static const pulse_card *card_of(const comm_pulse *p, int rank) {
    return (const pulse_card *)(const void *)(p->cards + (size_t)rank * p->step);
}

/* ---- opening ------------------------------------------------------------------------------- */

/* Of the running system and its space of process numbers. */
static uint64_t find_system(void) {
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    char text[37] = "";
    struct stat space;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    if (n < (ssize_t)sizeof text - 1 || stat("/proc/self/ns/pid", &space) != 0) {
        return 0;
    }
    uint64_t hash = 14695981039346656037ULL ^ (uint64_t)space.st_ino;
    for (ssize_t i = 0; i < n; i++) {
        hash = (hash ^ (unsigned char)text[i]) * 1099511628211ULL;
    }
    return hash;
}

static void find_addresses(pulse_card *card) {
    struct ifaddrs *list = NULL;
    card->address[card->n_addresses++] = htonl(INADDR_LOOPBACK);
    if (getifaddrs(&list) != 0) {
        return;
    }
    for (const struct ifaddrs *i = list; i != NULL && card->n_addresses < PULSE_ADDRESSES;
         i = i->ifa_next) {
        if (i->ifa_addr != NULL && i->ifa_addr->sa_family == AF_INET &&
            (i->ifa_flags & IFF_UP) != 0 && (i->ifa_flags & IFF_LOOPBACK) == 0) {
            struct sockaddr_in address;
            memcpy(&address, i->ifa_addr, sizeof address);
            card->address[card->n_addresses++] = address.sin_addr.s_addr;
        }
    }
    freeifaddrs(list);
}

static bool open_socket(comm_pulse *p, pulse_card *card) {
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t bytes = sizeof own;
    p->socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    p->end = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (p->socket < 0 || p->end < 0 || bind(p->socket, (struct sockaddr *)&own, sizeof own) != 0 ||
        getsockname(p->socket, (struct sockaddr *)&own, &bytes) != 0 ||
        getrandom(&p->key, sizeof p->key, 0) != (ssize_t)sizeof p->key) {
        return false;
    }
    card->key = p->key;
    card->port = own.sin_port;
    find_addresses(card);
    return true;
}

ebb_status ebb__pulse_new(ebb_ctx *ctx, int rank, int size, comm_pulse **out, pulse_card *card) {
    comm_pulse *p;
    *out = NULL;
    TRY(ebb__alloc(ctx, 1, sizeof *p + (size_t)size * sizeof p->heard[0], &p));
    p->ctx = ctx;
    p->rank = rank;
    p->size = size;
    p->socket = p->end = -1;
    p->system = find_system();
    atomic_init(&p->stopped, false);
    atomic_init(&p->failed, size);
    for (int i = 0; i < size; i++) {
        atomic_init(&p->heard[i], 0);
    }
    *card = (pulse_card){.system = p->system, .pid = (int64_t)getpid()};
    if (!open_socket(p, card)) {
        card->port = 0;
    }
    *out = p;
    return EBB_OK;
}

/* ---- datagrams ----------------------------------------------------------------------------- */

/* What cannot be sent is as good as lost on its way. */
static void send_kind(const comm_pulse *p, pulse_kind kind, int rank) {
    const pulse_card *card = card_of(p, rank);
    pulse_datagram out = {MAGIC, (int32_t)kind, p->rank, 0, card->key};
    for (int i = 0; i < card->n_addresses && card->port != 0 && p->socket >= 0; i++) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = card->port};
        to.sin_addr.s_addr = card->address[i];
        (void)!sendto(p->socket, &out, sizeof out, MSG_NOSIGNAL, (struct sockaddr *)&to, sizeof to);
    }
}

static void note_failed(comm_pulse *p, int rank) {
    int before = atomic_load(&p->failed);
    while (rank < before && !atomic_compare_exchange_weak(&p->failed, &before, rank)) {
    }
}

/* False: there is none. */
static bool take_one(comm_pulse *p) {
    pulse_datagram in;
    struct sockaddr_in from;
    socklen_t bytes = sizeof from;
    ssize_t n = recvfrom(p->socket, &in, sizeof in, MSG_TRUNC, (struct sockaddr *)&from, &bytes);
    if (n < 0) {
        return false;
    }
    if (n != (ssize_t)sizeof in || in.magic != MAGIC || in.key != p->key || in.from < 0 ||
        in.from >= p->size) {
        return true;
    }
    atomic_fetch_add(&p->heard[in.from], 1);
    if (in.kind == PULSE_ASK) {
        pulse_datagram out = {MAGIC, PULSE_ALIVE, p->rank, 0, card_of(p, in.from)->key};
        (void)!sendto(p->socket, &out, sizeof out, MSG_NOSIGNAL, (struct sockaddr *)&from, bytes);
    } else if (in.kind == PULSE_FAILED) {
        note_failed(p, in.from);
    }
    return true;
}

static void *answer(void *pulse) {
    comm_pulse *p = pulse;
    struct pollfd look[] = {{.fd = p->socket, .events = POLLIN}, {.fd = p->end, .events = POLLIN}};
    while (look[1].revents == 0) {
        if (atomic_load(&p->stopped)) {
            (void)poll(&look[1], 1, STOPPED_MILLISECONDS);
        } else if (poll(look, 2, -1) > 0 && look[0].revents != 0) {
            (void)take_one(p);
        }
    }
    return NULL;
}

/* Signals are for the other threads. */
void ebb__pulse_begin(comm_pulse *pulse, const void *cards, size_t step) {
    sigset_t all, before;
    pthread_attr_t small;
    pulse->cards = cards;
    pulse->step = step;
    if (card_of(pulse, pulse->rank)->port == 0 || pthread_attr_init(&small) != 0) {
        return;
    }
    (void)pthread_attr_setstacksize(&small, STACK_BYTES);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pulse->running = pthread_create(&pulse->thread, &small, answer, pulse) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&small);
}

void ebb__pulse_free(comm_pulse *pulse) {
    if (pulse == NULL) {
        return;
    }
    if (pulse->running) {
        (void)!write(pulse->end, &(uint64_t){1}, sizeof(uint64_t));
        (void)pthread_join(pulse->thread, NULL);
    }
    if (pulse->socket >= 0) {
        (void)close(pulse->socket);
    }
    if (pulse->end >= 0) {
        (void)close(pulse->end);
    }
    ebb__free(pulse->ctx, pulse);
}

/* ---- asking -------------------------------------------------------------------------------- */

void ebb__pulse_ask(comm_pulse *pulse, int rank) {
    if (!atomic_load(&pulse->stopped)) {
        send_kind(pulse, PULSE_ASK, rank);
    }
}

unsigned ebb__pulse_heard(const comm_pulse *pulse, int rank) {
    return atomic_load(&pulse->heard[rank]);
}

bool ebb__pulse_has_ended(const comm_pulse *pulse, int rank) {
    const pulse_card *card = card_of(pulse, rank);
    return card->system != 0 && card->system == pulse->system && kill((pid_t)card->pid, 0) != 0 &&
           errno == ESRCH;
}

void ebb__pulse_tell(comm_pulse *pulse) {
    for (int turn = 0; turn < TELL_TIMES; turn++) {
        for (int rank = 0; rank < pulse->size; rank++) {
            if (rank != pulse->rank) {
                send_kind(pulse, PULSE_FAILED, rank);
            }
        }
    }
}

int ebb__pulse_failed(comm_pulse *pulse) {
    bool more = pulse->running && !atomic_load(&pulse->stopped);
    while (more) { /* the thread may be slower, above all after a stop */
        more = take_one(pulse);
    }
    int lowest = atomic_load(&pulse->failed);
    return lowest < pulse->size ? lowest : -1;
}

void ebb__pulse_stop(comm_pulse *pulse, bool stopped) {
    atomic_store(&pulse->stopped, stopped);
}
