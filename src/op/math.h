/* math.h - exp, sigmoid and tanh in fp32 as we define them: fixed polynomials of explicit fma, so
 * that the scalar reference and every vector kernel give the same bits on any machine. */
#ifndef OP_MATH_H
#define OP_MATH_H

float ebb__math_exp(float x);
float ebb__math_log(float x);
float ebb__math_sigmoid(float x);
float ebb__math_tanh(float x);

#endif
