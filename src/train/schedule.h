/* schedule.h - how long a run is, and the learning rate of each of its steps. */
#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include "train/settings.h"

/* Steps of the whole run, of which `windows` make an epoch. */
int64_t ebb__schedule_steps(const train_settings *s, int64_t windows);

/* The rate of step `step` (from 0) of `total`; `lr` is the run's rate, which plateaus lower. It
 * grows linearly over the warm-up of any schedule and is then
 *   constant, plateau, warmup: lr
 *   cosine:  from lr along half a cosine, to 0 at `total`
 *   inverse: lr * sqrt(warm-up / steps done), without warm-up as if that were one step */
double ebb__schedule_rate(const train_settings *s, double lr, int64_t step, int64_t total);

#endif
