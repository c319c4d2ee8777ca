/* probe.c - the most floating-point operations a second that a team reaches: nothing but fused
 * multiply-adds on registers, all members at once, so that they share power and clock as they do in
 * a step. It is the peak of the instructions that this build's own kernels have. */
#include "device/cpu/probe.h"

#include "base/alloc.h"
#include "base/host.h"
#include "base/team.h"
#include "device/cpu/cpu.h"

static const double TRIAL_SECONDS = 0.002; /* many and short: one of them is undisturbed */
enum { TRIALS = 100, ROUNDS = 10000 };

/* One member's, on a cache line of its own. */
typedef struct probe_share {
    _Alignas(64) double rate; /* operations a second in this trial */
    float sink;
} probe_share;

typedef struct probe_trial {
    base_team *team;
    probe_share *shares;
    double (*chains)(int64_t rounds, const float seed[3], float *sink);
    double best;
} probe_trial;

static double sum_rates(const probe_share *shares, int members) {
    double sum = 0;
    for (int m = 0; m < members; m++) {
        sum += shares[m].rate;
    }
    return sum;
}

static void run_trials(void *arg, int member, int members) {
    probe_trial *trial = arg;
    probe_share *mine = &trial->shares[member];
    const float seed[3] = {0.25f, 0.5f, 1.0f}; /* x = x / 2 + 1 stays between 0.25 and 3 */
    for (int t = 0; t < TRIALS; t++) {
        double done = 0, seconds = 0;
        ebb__team_barrier(trial->team);
        double start = ebb__clock_seconds();
        while (seconds < TRIAL_SECONDS) {
            done += trial->chains(ROUNDS, seed, &mine->sink);
            seconds = ebb__clock_seconds() - start;
        }
        mine->rate = done / seconds;
        ebb__team_barrier(trial->team);
        if (member == 0) { /* the others wait for it at the next barrier */
            double rate = sum_rates(trial->shares, members);
            trial->best = rate > trial->best ? rate : trial->best;
        }
    }
}

ebb_status ebb__cpu_measure_peak(const device *dev, ebb_ctx *ctx, int members,
                                 double *flops_per_second) {
    probe_trial trial = {.chains = ebb__cpu_probe_base};
    (void)dev;
    *flops_per_second = 0;
#ifndef EBB_NO_AVX2
    if (ebb__host_cpu()->avx2_fma) {
        trial.chains = ebb__cpu_probe_avx2;
    }
#endif
    ebb_status status = EBB_OK;
    TRY_OUT(ebb__team_new(ctx, members, &trial.team));
    TRY_OUT(ebb__alloc(ctx, (size_t)members, sizeof *trial.shares, &trial.shares));
    ebb__team_run(trial.team, run_trials, &trial);
    *flops_per_second = trial.best;
out:
    ebb__free(ctx, trial.shares);
    ebb__team_free(trial.team);
    return status;
}
