/* team.c - threads that work in step. The caller is member 0; the others wait between runs.
 *
 * Both kinds of waiting (for work, at a barrier) are one thing: waiting for a number to change. A
 * waiter spins for some microseconds, then sleeps on a condition, so that idle members cost
 * nothing. No wake-up is lost: the waker stores the number and then looks for sleepers, the sleeper
 * announces itself and then looks at the number, all sequentially consistent, so that at least one
 * sees the other. */
#include "base/team.h"

#include "base/alloc.h"
#include "base/host.h"

#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>

enum { TEAM_MOST = 1024, SPINS = 4000, STACK_BYTES = 1 << 20 };

typedef struct team_signal {
    alignas(64) atomic_uint number;
    atomic_int sleepers;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
} team_signal;

typedef struct team_member {
    base_team *team;
    int index;
    pthread_t thread;
} team_member;

struct base_team {
    ebb_ctx *ctx;
    int members, spins;
    int started; /* threads that exist; members - 1 once the team is whole */
    bool quit;   /* written before `work` changes, read after */
    team_fn fn;  /* likewise, and arg */
    void *arg;
    team_signal work, meet;
    alignas(64) atomic_int arrived;
    team_member member[];
};

static void signal_init(team_signal *signal) {
    atomic_init(&signal->number, 0);
    atomic_init(&signal->sleepers, 0);
    /* With default attributes neither can fail on Linux: nothing is allocated. */
    (void)pthread_mutex_init(&signal->mutex, NULL);
    (void)pthread_cond_init(&signal->changed, NULL);
}

static void signal_fini(team_signal *signal) {
    (void)pthread_cond_destroy(&signal->changed);
    (void)pthread_mutex_destroy(&signal->mutex);
}

static void signal_advance(team_signal *signal) {
    atomic_fetch_add(&signal->number, 1);
    if (atomic_load(&signal->sleepers) > 0) {
        (void)pthread_mutex_lock(&signal->mutex);
        (void)pthread_cond_broadcast(&signal->changed);
        (void)pthread_mutex_unlock(&signal->mutex);
    }
}

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Returns once the number is no longer `seen`. */
static void signal_wait(team_signal *signal, unsigned seen, int spins) {
    for (int i = 0; i < spins; i++) {
        if (atomic_load_explicit(&signal->number, memory_order_acquire) != seen) {
            return;
        }
        relax();
    }
    (void)pthread_mutex_lock(&signal->mutex);
    atomic_fetch_add(&signal->sleepers, 1);
    while (atomic_load(&signal->number) == seen) {
        (void)pthread_cond_wait(&signal->changed, &signal->mutex);
    }
    atomic_fetch_sub(&signal->sleepers, 1);
    (void)pthread_mutex_unlock(&signal->mutex);
}

static void *member_main(void *arg) {
    team_member *self = arg;
    base_team *team = self->team;
    for (unsigned seen = 0;; seen++) {
        signal_wait(&team->work, seen, team->spins);
        if (team->quit) {
            return NULL;
        }
        team->fn(team->arg, self->index, team->members);
        ebb__team_barrier(team);
    }
}

static ebb_status start_members(base_team *team) {
    pthread_attr_t attributes;
    sigset_t all, before;
    int error = pthread_attr_init(&attributes);
    if (error == 0) {
        /* A small stack keeps many threads possible under an address-space limit. */
        (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
        /* Signals are the caller's: members inherit a mask that blocks them all. */
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        for (int i = 1; i < team->members && error == 0; i++) {
            team_member *member = &team->member[i];
            *member = (team_member){.team = team, .index = i};
            error = pthread_create(&member->thread, &attributes, member_main, member);
            team->started += error == 0;
        }
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        (void)pthread_attr_destroy(&attributes);
    }
    if (error != 0) {
        return ebb__fail(team->ctx, EBB_NOMEM,
                         "threads: the system gave %d of %d; ask for fewer with --threads",
                         team->started + 1, team->members);
    }
    return EBB_OK;
}

ebb_status ebb__team_new(ebb_ctx *ctx, int members, base_team **out) {
    *out = NULL;
    if (members < 1 || members > TEAM_MOST) {
        return ebb__fail(ctx, EBB_USAGE, "threads: %d is not between 1 and %d", members, TEAM_MOST);
    }
    base_team *team;
    TRY(ebb__alloc(ctx, 1, sizeof *team + (size_t)members * sizeof team->member[0], &team));
    team->ctx = ctx;
    team->members = members;
    /* With fewer cores than members, spinning would keep the awaited member off its core. */
    team->spins = members <= ebb__host_cores() ? SPINS : 0;
    signal_init(&team->work);
    signal_init(&team->meet);
    atomic_init(&team->arrived, 0);
    ebb_status status = start_members(team);
    if (status != EBB_OK) {
        ebb__team_free(team);
        return status;
    }
    *out = team;
    return EBB_OK;
}

void ebb__team_free(base_team *team) {
    if (team == NULL) {
        return;
    }
    team->quit = true;
    signal_advance(&team->work);
    for (int i = 1; i <= team->started; i++) {
        (void)pthread_join(team->member[i].thread, NULL);
    }
    signal_fini(&team->meet);
    signal_fini(&team->work);
    ebb__free(team->ctx, team);
}

int ebb__team_size(const base_team *team) {
    return team->members;
}

void ebb__team_run(base_team *team, team_fn fn, void *arg) {
    team->fn = fn;
    team->arg = arg;
    signal_advance(&team->work);
    fn(arg, 0, team->members);
    ebb__team_barrier(team);
}

void ebb__team_barrier(base_team *team) {
    if (team->members == 1) {
        return;
    }
    unsigned seen = atomic_load_explicit(&team->meet.number, memory_order_relaxed);
    /* The last one resets the count before it lets the others go, so it is ready for the next. */
    if (atomic_fetch_add(&team->arrived, 1) == team->members - 1) {
        atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
        signal_advance(&team->meet);
    } else {
        signal_wait(&team->meet, seen, team->spins);
    }
}
