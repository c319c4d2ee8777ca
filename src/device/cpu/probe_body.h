/* probe_body.h - see probe.h; compiled once per instruction set. */
#include "device/cpu/probe.h"
#include "device/cpu/vec.h"

/* Two multiply-adds a cycle of latency 4 or 5 take 8 to 10 chains to keep busy; 12, the factor and
 * the summand fill 14 of 16 registers. */
enum { CHAINS = 12 };

double CPU_FN(probe)(int64_t rounds, const float seed[3], float *sink) {
    const vf factor = v_all(seed[1]), summand = v_all(seed[2]);
    vf chain[CHAINS];
    vf sum = {0};
    for (int i = 0; i < CHAINS; i++) {
        chain[i] = v_all(seed[0] * (float)(i + 1));
    }
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            chain[i] = v_fma(chain[i], factor, summand);
        }
    }
    for (int i = 0; i < CHAINS; i++) {
        sum += chain[i];
    }
    for (int i = 0; i < VLEN; i++) {
        *sink += sum[i];
    }
    return 2.0 * CHAINS * VLEN * (double)rounds;
}
