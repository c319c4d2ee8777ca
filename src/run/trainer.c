/* trainer.c - see trainer.h. */
#include "run/trainer.h"

#include <inttypes.h>
#include <math.h>

run_trainer ebb__trainer(run_session *session, double beta1, double beta2) {
    return (run_trainer){.session = session,
                         .beta1 = beta1,
                         .beta2 = beta2,
                         .hyper = ebb__run_find(session, UPDATE_HYPER),
                         .step = ebb__run_find(session, TRAINER_STEP),
                         .loss = (double)NAN,
                         .norm = (double)NAN};
}

static ebb_status set_hyper(const run_trainer *t, double rate) {
    double count = (double)t->steps + 1;
    /* The first steps count for more, or the average would long remember where training began. */
    double share = t->average > 0 ? fmax(1.0 - t->average, 10.0 / (count + 9.0)) : 0;
    float hyper[4] = {(float)rate, (float)(rate / (1.0 - pow(t->beta1, count))),
                      (float)sqrt(1.0 - pow(t->beta2, count)), (float)share};
    if (!(hyper[0] >= 0 && isfinite(hyper[0]))) {
        return ebb__fail(t->session->ctx, EBB_USAGE, "learning rate %g is negative or not finite",
                         rate);
    }
    return ebb__run_write(t->session, t->hyper, hyper);
}

static ebb_status diverged(run_trainer *t, const char *what, const char *tensor) {
    t->bad = what;
    t->tensor = tensor;
    return ebb__fail(t->session->ctx, EBB_DIVERGED, "step %" PRIu64 ": %s%s is not finite",
                     t->steps, what, tensor != NULL ? tensor : "");
}

/* Reads an output if the program has it. */
static ebb_status look_at(run_trainer *t, int32_t index, const char *name, void *data) {
    run_place place = ebb__run_find_output(t->session, index, name);
    return place.bytes > 0 ? ebb__run_read(t->session, place, data) : EBB_OK;
}

static ebb_status look(run_trainer *t, int32_t index) {
    const plan_program *program = &t->session->plan->programs[index];
    float loss = NAN;
    int32_t bad = -1;
    t->norm = (double)NAN;
    TRY(look_at(t, index, TRAINER_LOSS, &loss));
    TRY(look_at(t, index, UPDATE_NORM, &t->norm));
    TRY(look_at(t, index, UPDATE_BAD, &bad));
    t->loss = (double)loss;
    if (!isfinite(loss) && ebb__run_find_output(t->session, index, TRAINER_LOSS).bytes > 0) {
        return diverged(t, "the loss", NULL);
    }
    if (bad >= 0 && bad < program->n_trained) {
        const plan_variable *variable = &t->session->plan->variables[program->trained[bad]];
        return diverged(t, "the gradient of ", variable->name);
    }
    return program->n_trained == 0 || isfinite(t->norm) ? EBB_OK
                                                        : diverged(t, "the gradient's norm", NULL);
}

ebb_status ebb__trainer_step(run_trainer *trainer, int32_t index, double rate) {
    int32_t step = (int32_t)(trainer->steps & INT32_MAX);
    trainer->session->at_step = (int64_t)trainer->steps + 1;
    if (trainer->session->plan->programs[index].n_trained > 0) {
        TRY(set_hyper(trainer, rate));
    }
    if (trainer->step.bytes > 0) {
        TRY(ebb__run_write(trainer->session, trainer->step, &step));
    }
    TRY(ebb__run_step(trainer->session, index));
    trainer->steps++;
    return look(trainer, index);
}
