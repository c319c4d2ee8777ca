/* twice.h - compiles the reference kernels of one family, REF_FAMILY, for float and for double.
 *
 * In an .inc file FN(name) is the function's name, REAL the element of an f32 tensor; i32 and f64
 * tensors are int32_t and double in both. Float uses our functions (op/math.h), double libm's.
 * Reference kernels honour the leading dimension of every view and do all work on member 0.
 */
#include "op/math.h"
#include "op/op.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline int32_t *ref_ints(const op_view *view) {
    return view->data;
}
static inline double *ref_doubles(const op_view *view) {
    return view->data;
}
static inline int64_t ref_rows(const op_view *view) {
    return ebb__ir_rows(&view->type);
}
static inline int64_t ref_cols(const op_view *view) {
    return ir_cols(&view->type);
}

#define REAL float
#define FN(name) name##_ref
#define R_FMA fmaf
#define R_EXP ebb__math_exp
#define R_LOG ebb__math_log
#define R_TANH ebb__math_tanh
#define R_SIGMOID ebb__math_sigmoid
#define R_SQRT sqrtf
static inline float *row_ref(const op_view *view, int64_t r) {
    return (float *)view->data + r * view->ld;
}
#include REF_FAMILY
#undef REAL
#undef FN
#undef R_FMA
#undef R_EXP
#undef R_LOG
#undef R_TANH
#undef R_SIGMOID
#undef R_SQRT

static inline double ref_sigmoid64(double x) {
    return 1.0 / (1.0 + exp(-x));
}

#define REAL double
#define FN(name) name##_ref64
#define R_FMA fma
#define R_EXP exp
#define R_LOG log
#define R_TANH tanh
#define R_SIGMOID ref_sigmoid64
#define R_SQRT sqrt
static inline double *row_ref64(const op_view *view, int64_t r) {
    return (double *)view->data + r * view->ld;
}
#include REF_FAMILY
