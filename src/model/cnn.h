/* cnn.h - the graph of a convolutional net that classifies images: a list of layers (net.h) as
 * nodes over maps (op/map.h).
 *
 * Inputs: CNN_PIXELS u8 [N, Y, X, C], CNN_LABELS i32 [N] (-1: does not count), and by channel what
 * a pixel is multiplied by and what is added then: CNN_SCALE, CNN_SHIFT f32 [C]. Output: `loss`,
 * the mean cross-entropy and, where nothing is trained, CNN_LOGITS f32 [N, classes].
 *
 * Lanes of images follow from the batch; channels that are joined or added have the same lanes on
 * both sides, so that joins move nothing. Neither shows in a result. */
#ifndef MODEL_CNN_H
#define MODEL_CNN_H

#include "model/net.h"
#include "op/op.h"

#define CNN_PIXELS "data.pixels"
#define CNN_LABELS "data.labels"
#define CNN_SCALE "data.scale"
#define CNN_SHIFT "data.shift"
#define CNN_STEP "train.step" /* i32 [1]: number of the step, for dropout; only with dropout */
#define CNN_LOGITS "logits"
#define CNN_DATA_LAYER "data" /* what is before the first layer: images as a map */

typedef struct cnn_model {
    const net_model *net;
    int64_t batch; /* N */
    int64_t
        lanes;  /* images of a group of the maps, which divide the batch; 0: op_map_image_lanes */
    bool train; /* statistics of the batch and dropout; else those that are carried, and none */
    const char *freeze; /* patterns of parameters that are not trained, with commas between them;
                           NULL: none */
    double dropout;     /* in place of the net's own; below 0: the net's own */
    uint64_t seed;      /* of dropout */
} cnn_model;

/* Whether one of the patterns (cnn_model.freeze) is that of a parameter: * stands for any text, ?
 * for any character. */
bool ebb__cnn_is_frozen(const char *patterns, const char *name);

ebb_status ebb__cnn_build(ir_graph *graph, const cnn_model *model) EBB_MUST_CHECK;

#endif
