/* probe.h - independent chains of fused multiply-adds, for measuring what this machine can do. */
#ifndef DEVICE_CPU_PROBE_H
#define DEVICE_CPU_PROBE_H

#include <stdint.h>

/* `rounds` multiply-adds on every lane of every chain, which start from seed[0] and take seed[1],
 * seed[2] as factor and summand; gives the floating-point operations done. What the chains hold in
 * the end goes into *sink, so that no compiler leaves them out. */
double ebb__cpu_probe_avx2(int64_t rounds, const float seed[3], float *sink);
double ebb__cpu_probe_base(int64_t rounds, const float seed[3], float *sink);

#endif
