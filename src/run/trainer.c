/* trainer.c - see trainer.h. */
#include "run/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

run_trainer ebb__trainer(run_session *session, double beta1, double beta2) {
    return (run_trainer){.session = session,
                         .beta1 = beta1,
                         .beta2 = beta2,
                         .hyper = ebb__run_variable(session, UPDATE_HYPER, NULL),
                         .step = ebb__run_variable(session, TRAINER_STEP, NULL),
                         .loss = (double)NAN,
                         .norm = (double)NAN};
}

static ebb_status set_hyper(const run_trainer *t, double rate) {
    double count = (double)t->steps + 1;
    float hyper[4] = {(float)rate, (float)(rate / (1.0 - pow(t->beta1, count))),
                      (float)sqrt(1.0 - pow(t->beta2, count)), 0};
    if (!(hyper[0] >= 0 && isfinite(hyper[0]))) {
        return ebb__fail(t->session->ctx, EBB_USAGE, "learning rate %g is negative or not finite",
                         rate);
    }
    memcpy(t->hyper, hyper, sizeof hyper);
    return EBB_OK;
}

static ebb_status diverged(run_trainer *t, const char *what, const char *tensor) {
    t->bad = what;
    t->tensor = tensor;
    return ebb__fail(t->session->ctx, EBB_DIVERGED, "step %" PRIu64 ": %s%s is not finite",
                     t->steps, what, tensor != NULL ? tensor : "");
}

static ebb_status look(run_trainer *t, int32_t index) {
    const float *loss = ebb__run_output(t->session, index, TRAINER_LOSS);
    const double *norm = ebb__run_output(t->session, index, UPDATE_NORM);
    const int32_t *bad = ebb__run_output(t->session, index, UPDATE_BAD);
    const ebb_plan *plan = t->session->plan;
    t->loss = loss != NULL ? (double)*loss : (double)NAN;
    t->norm = norm != NULL ? *norm : (double)NAN;
    if (loss != NULL && !isfinite(*loss)) {
        return diverged(t, "the loss", NULL);
    }
    if (bad != NULL && *bad >= 0 && *bad < plan->programs[index].n_trained) {
        int32_t variable = plan->programs[index].trained[*bad];
        return diverged(t, "the gradient of ", plan->variables[variable].name);
    }
    return norm == NULL || isfinite(*norm) ? EBB_OK : diverged(t, "the gradient's norm", NULL);
}

ebb_status ebb__trainer_step(run_trainer *trainer, int32_t index, double rate) {
    if (trainer->hyper != NULL) {
        TRY(set_hyper(trainer, rate));
    }
    if (trainer->step != NULL) {
        *trainer->step = (int32_t)(trainer->steps & INT32_MAX);
    }
    ebb__run_step(trainer->session, index);
    trainer->steps++;
    return look(trainer, index);
}
