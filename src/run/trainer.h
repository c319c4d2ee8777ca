/* trainer.h - one step of training, for whoever trains: a run, a benchmark, a caller of the
 * library. A trainer writes the numbers that a step reads beside its batch (learning rate, number
 * of the step), runs the program, and looks at what came out. It knows neither text nor files.
 */
#ifndef RUN_TRAINER_H
#define RUN_TRAINER_H

#include "run/session.h"

#define TRAINER_LOSS "loss"       /* output, f32 [1] */
#define TRAINER_STEP "train.step" /* input, i32 [1]: number of the step, for dropout */

typedef struct run_trainer {
    run_session *session;
    double beta1, beta2; /* of Adam's averages, whose start is corrected for */
    double average;      /* decay of the parameters' averages; 0: there are none */
    uint64_t steps;      /* that were ended */
    /* Programs of steps that were begun since, the oldest first, and where its news will be. */
    int32_t begun[DEVICE_MARKS], n_begun, news;
    run_place hyper; /* UPDATE_HYPER, of programs that train */
    run_place step;  /* TRAINER_STEP; none: nothing reads it */
    /* Of the step that was ended last; NAN where the program has no such output. */
    double loss, norm;
    const char *bad,
        *tensor; /* EBB_DIVERGED: what is not finite, and of which parameter, or NULL */
} run_trainer;

run_trainer ebb__trainer(run_session *session, double beta1, double beta2);

/* Runs program `index` with this learning rate; a program that trains nothing reads none. EBB_USAGE
 * for a rate that is negative or not finite: nothing was run. EBB_DIVERGED if the loss, the
 * gradient of a parameter or the norm of all is not finite: the step counts, the weights cannot be
 * trusted. */
ebb_status ebb__trainer_step(run_trainer *trainer, int32_t index, double rate) EBB_MUST_CHECK;

/* The same in two halves. The first gives the device its work, the second waits for the oldest step
 * that was begun and says what came of it. Where the device works by itself, a step may be begun
 * before the one before it was ended, ebb__trainer_ahead() of them, so that the device never waits
 * for the host: no number that a step reads depends on the news of the one before. A step that was
 * begun behind one that diverged is of no use; what is saved is saved when all have ended. */
int32_t ebb__trainer_ahead(const run_trainer *trainer);
ebb_status ebb__trainer_begin(run_trainer *trainer, int32_t index, double rate) EBB_MUST_CHECK;
ebb_status ebb__trainer_end(run_trainer *trainer) EBB_MUST_CHECK;

#endif
