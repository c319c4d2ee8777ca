/* schedule.c - a pure function of the settings and the step: nothing of it is stored. */
#include "train/schedule.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

int64_t ebb__schedule_steps(const train_settings *s, int64_t windows) {
    int64_t epochs = s->epochs > 0 ? s->epochs : s->steps > 0 ? 0 : SETTINGS_EPOCHS, total;
    if (epochs == 0) {
        return s->steps;
    }
    if (__builtin_mul_overflow(epochs, windows, &total)) {
        total = INT64_MAX;
    }
    return s->steps > 0 && s->steps < total ? s->steps : total;
}

double ebb__schedule_rate(const train_settings *s, double lr, int64_t step, int64_t total) {
    if (step < s->warmup) {
        return lr * (double)(step + 1) / (double)s->warmup;
    }
    if (s->schedule == SCHEDULE_INVERSE) {
        int64_t warmup = s->warmup > 0 ? s->warmup : 1;
        return lr * sqrt((double)warmup / (double)(step + 1));
    }
    if (s->schedule == SCHEDULE_COSINE) {
        double share = (double)(step - s->warmup) / (double)(total - s->warmup);
        return lr * 0.5 * (1 + cos(pi * share));
    }
    return lr;
}
