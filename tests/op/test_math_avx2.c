/* test_math_avx2.c - our functions as vectors of AVX2 and FMA, where the machine has them;
 * elsewhere the baseline once more. */
#if defined(__x86_64__) && !defined(__clang__)
#pragma GCC target("avx2,fma")
#endif
#include "math_sweep.h"

#include "base/host.h"

#include <stdio.h>

int main(void) {
    if (VLEN == 8 && !ebb__host_cpu()->avx2_fma) {
        puts("the CPU has no AVX2 and FMA");
        return 77;
    }
    return math_sweep();
}
