/* classes.h - the output layer of a model whose loss is a cross-entropy over many classes, in parts
 * of them, one for each stage (split_classes.c). */
#ifndef PASS_CLASSES_H
#define PASS_CLASSES_H

#include "pass/pass.h"

/* logits = matmul(bias, hs, weight^T), which nothing but the loss reads. */
typedef struct classes_output {
    ir_val weight, bias; /* variables [V,H] and [V]; bias may be IR_NONE */
    int32_t layer;
} classes_output;

/* The output layer of a forward graph in one piece; false: there is none that can be in parts: no
 * loss of this kind, or its weight is read by others too, as a tied table is. */
bool ebb__classes_find(const ir_graph *graph, classes_output *out);

/* The layer of stage s's part: of this name, if `layer` is the output layer's. */
void ebb__classes_layer(const char *layer, int32_t stage, char *out, size_t bytes);

/* Where parts end, by stage, so that the stages, which take so many seconds without it, come out
 * even; a stage may have none. False: all would be one stage's. */
bool ebb__classes_share(int32_t classes, double seconds, const double *before, int32_t stages,
                        int32_t *ends);

/* Where one stage has all classes, which is no matter of `split`: the loss goes by chunks of time
 * steps, as the layers do. */
ebb_status ebb__classes_chunk(pass_unit *unit) EBB_MUST_CHECK;

#endif
