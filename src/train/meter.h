/* meter.h - what running costs beside time: processor seconds of this process, and joules of the
 * processor packages where the system lets them be read (Linux powercap, "intel-rapl", which AMD
 * processors use too). */
#ifndef TRAIN_METER_H
#define TRAIN_METER_H

#include <stdint.h>

enum { METER_MOST_PACKAGES = 16 };

typedef struct meter {
    double cpu_seconds;
    int packages; /* 0: energy cannot be read */
    uint64_t microjoules[METER_MOST_PACKAGES];
} meter;

/* Reads both; allocates nothing. */
void ebb__meter_read(meter *out);
/* The same with /sys taken from below `root` ("" is the machine's own). */
void ebb__meter_read_at(const char *root, meter *out);
double ebb__meter_cpu_seconds(const meter *from, const meter *to);
/* < 0: not known. Counters that have wrapped in between are put right. */
double ebb__meter_joules(const meter *from, const meter *to);
double ebb__meter_joules_at(const char *root, const meter *from, const meter *to);

#endif
