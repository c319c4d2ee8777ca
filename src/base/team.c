/* team.c - threads that work in step. The caller is member 0; the others wait between runs.
 *
 * Both kinds of waiting (for work, at a barrier) are one thing: waiting for a number to change. A
 * waiter spins for some microseconds, then sleeps (futex), so that idle members cost nothing. No
 * wake-up is lost: the waker changes the number and then looks for sleepers, the sleeper announces
 * itself and then looks at the number, all sequentially consistent, so that at least one sees the
 * other; between that look and sleep the kernel looks once more.
 *
 * How long to spin at barriers is learned. On cores of their own members come within microseconds
 * of each other, and to wake a sleeper takes longer than the work between two barriers. Beside
 * other programs the awaited member may stand in line for a core, perhaps the very one that its
 * awaiter spins on. So a spin in vain halves the next, a successful one doubles it, and now and
 * then the longest is tried, to find out that the others are gone. */
#include "base/team.h"

#include "base/alloc.h"
#include "base/host.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TEAM_MOST = 1024, STACK_BYTES = 1 << 20, PROBE_EACH = 32 };
static const double SPIN_LEAST = 1e-6, SPIN_MOST = 60e-6; /* seconds */

typedef struct team_signal {
    alignas(64) atomic_uint number;
    atomic_int sleepers;
} team_signal;

typedef struct team_member {
    base_team *team;
    int index;
    pthread_t thread;
} team_member;

struct base_team {
    ebb_ctx *ctx;
    int members;
    int least_spins, most_spins; /* rounds of a waiting loop; 0: always sleep */
    int started;                 /* threads that exist; members - 1 once the team is whole */
    bool quit;                   /* written before `work` changes, read after */
    team_fn fn;                  /* likewise, and arg */
    void *arg;
    team_signal work, meet;
    alignas(64) atomic_int arrived;
    alignas(64) atomic_int spins; /* what was learned; a hint, so races do no harm */
    atomic_uint waits;            /* at barriers, while spins is below the most */
    team_member member[];
};

/* Sleeps while the number is `seen`; may return early. */
static void signal_sleep(team_signal *signal, unsigned seen) {
    (void)syscall(SYS_futex, &signal->number, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void signal_advance(team_signal *signal) {
    atomic_fetch_add(&signal->number, 1);
    if (atomic_load(&signal->sleepers) > 0) {
        (void)syscall(SYS_futex, &signal->number, FUTEX_WAKE_PRIVATE, TEAM_MOST, NULL, NULL, 0);
    }
}

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* True once the number is no longer `seen`; false after that many rounds. */
static bool signal_spin(const team_signal *signal, unsigned seen, int rounds) {
    for (int i = 0; i < rounds; i++) {
        if (atomic_load_explicit(&signal->number, memory_order_acquire) != seen) {
            return true;
        }
        relax();
    }
    return false;
}

/* A processor's pause takes from 10 to 200 cycles. The fastest of several trials was not disturbed.
 */
static double seconds_per_round(void) {
    enum { TRIALS = 5, ROUNDS = 200 };
    team_signal none;
    double best = 1.0;
    atomic_init(&none.number, 0);
    for (int i = 0; i < TRIALS; i++) {
        double start = ebb__clock_seconds();
        (void)signal_spin(&none, 0, ROUNDS);
        double each = (ebb__clock_seconds() - start) / ROUNDS;
        best = each > 1e-10 && each < best ? each : best;
    }
    return best;
}

/* Returns once the number is no longer `seen`; true if that came while spinning. */
static bool signal_wait(team_signal *signal, unsigned seen, int spins) {
    if (signal_spin(signal, seen, spins)) {
        return true;
    }
    atomic_fetch_add(&signal->sleepers, 1);
    while (atomic_load(&signal->number) == seen) {
        signal_sleep(signal, seen);
    }
    atomic_fetch_sub(&signal->sleepers, 1);
    return false;
}

static int learned_spins(base_team *team) {
    return atomic_load_explicit(&team->spins, memory_order_relaxed);
}

/* How long to spin at this barrier. */
static int spins_to_try(base_team *team) {
    int spins = learned_spins(team);
    if (spins < team->most_spins &&
        atomic_fetch_add_explicit(&team->waits, 1, memory_order_relaxed) % PROBE_EACH == 0) {
        return team->most_spins;
    }
    return spins;
}

static void learn(base_team *team, int tried, bool came) {
    int spins = learned_spins(team), next = came ? 2 * tried : tried / 2;
    if (!came && tried > spins) {
        return; /* the longest, tried for once */
    }
    next = next > team->most_spins ? team->most_spins : next;
    next = next < team->least_spins ? team->least_spins : next;
    if (next != spins) {
        atomic_store_explicit(&team->spins, next, memory_order_relaxed);
    }
}

static void *member_main(void *arg) {
    team_member *self = arg;
    base_team *team = self->team;
    for (unsigned seen = 0;; seen++) {
        (void)signal_wait(&team->work, seen, learned_spins(team));
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
    if (members > 1 && members <= ebb__host_cores()) {
        double round = seconds_per_round();
        team->least_spins = 1 + (int)(SPIN_LEAST / round);
        team->most_spins = 1 + (int)(SPIN_MOST / round);
    }
    atomic_init(&team->spins, team->most_spins);
    atomic_init(&team->waits, 0);
    atomic_init(&team->work.number, 0);
    atomic_init(&team->work.sleepers, 0);
    atomic_init(&team->meet.number, 0);
    atomic_init(&team->meet.sleepers, 0);
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
        int spins = spins_to_try(team);
        learn(team, spins, signal_wait(&team->meet, seen, spins));
    }
}
