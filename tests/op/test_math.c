/* test_math.c - our functions, scalars and vectors of the baseline instruction set. */
#include "math_sweep.h"

int main(void) {
    return math_sweep();
}
