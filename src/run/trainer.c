/* trainer.c - see trainer.h. */
#include "run/trainer.h"

#include <inttypes.h>
#include <math.h>

_Static_assert(DEVICE_MARKS == 2, "steps that were begun are two at most");

run_trainer ebb__trainer(run_session *session, double beta1, double beta2) {
    return (run_trainer){.session = session,
                         .beta1 = beta1,
                         .beta2 = beta2,
                         .hyper = ebb__run_find(session, UPDATE_HYPER),
                         .step = ebb__run_find(session, TRAINER_STEP),
                         .loss = (double)NAN,
                         .norm = (double)NAN};
}

/* Of the step that is begun, from 0 on. */
static uint64_t number_of(const run_trainer *t) {
    return t->steps + (uint64_t)t->n_begun;
}

static ebb_status set_hyper(const run_trainer *t, double rate) {
    double count = (double)number_of(t) + 1;
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

/* Asks for an output if the program has it. */
static ebb_status ask_for(run_trainer *t, int32_t index, const char *name, void *data) {
    run_place place = ebb__run_find_output(t->session, index, name);
    return place.bytes > 0 ? ebb__run_ask(t->session, place, data) : EBB_OK;
}

static ebb_status ask(run_trainer *t, int32_t index, run_news *news) {
    *news = (run_news){.loss = NAN, .bad = -1, .norm = (double)NAN};
    TRY(ask_for(t, index, TRAINER_LOSS, &news->loss));
    TRY(ask_for(t, index, UPDATE_NORM, &news->norm));
    TRY(ask_for(t, index, UPDATE_BAD, &news->bad));
    return ebb__run_mark(t->session);
}

static ebb_status judge(run_trainer *t, int32_t index, const run_news *news) {
    const plan_program *program = &t->session->plan->programs[index];
    t->loss = (double)news->loss;
    t->norm = news->norm;
    if (!isfinite(news->loss) && ebb__run_find_output(t->session, index, TRAINER_LOSS).bytes > 0) {
        return diverged(t, "the loss", NULL);
    }
    if (news->bad >= 0 && news->bad < program->n_trained) {
        const plan_variable *variable = &t->session->plan->variables[program->trained[news->bad]];
        return diverged(t, "the gradient of ", variable->name);
    }
    return program->n_trained == 0 || isfinite(t->norm) ? EBB_OK
                                                        : diverged(t, "the gradient's norm", NULL);
}

int32_t ebb__trainer_ahead(const run_trainer *trainer) {
    return trainer->session->plan->dev->buffer.mark != NULL ? DEVICE_MARKS - 1 : 0;
}

ebb_status ebb__trainer_begin(run_trainer *trainer, int32_t index, double rate) {
    int32_t step = (int32_t)(number_of(trainer) & INT32_MAX);
    trainer->session->at_step = (int64_t)number_of(trainer) + 1;
    if (trainer->session->plan->programs[index].n_trained > 0) {
        TRY(set_hyper(trainer, rate));
    }
    if (trainer->step.bytes > 0) {
        TRY(ebb__run_write(trainer->session, trainer->step, &step));
    }
    TRY(ebb__run_step(trainer->session, index));
    int32_t place = (trainer->news + trainer->n_begun) % DEVICE_MARKS;
    TRY(ask(trainer, index, &trainer->session->news[place]));
    trainer->begun[trainer->n_begun++] = index;
    return EBB_OK;
}

ebb_status ebb__trainer_end(run_trainer *trainer) {
    int32_t index = trainer->begun[0];
    const run_news *news = &trainer->session->news[trainer->news];
    trainer->n_begun--;
    trainer->begun[0] = trainer->begun[1];
    trainer->news = (trainer->news + 1) % DEVICE_MARKS;
    trainer->steps++;
    TRY(ebb__run_await(trainer->session));
    return judge(trainer, index, news);
}

ebb_status ebb__trainer_step(run_trainer *trainer, int32_t index, double rate) {
    TRY(ebb__trainer_begin(trainer, index, rate));
    return ebb__trainer_end(trainer);
}
