/* chunk.h - between the files of the chunk pass. */
#ifndef PASS_CHUNK_H
#define PASS_CHUNK_H

#include "pass/pass.h"

/* Images of the batch, by the first map that a node makes, and how many lie in a group of it; 0:
 * there is no map. `lanes` may be NULL. */
int32_t ebb__chunk_batch(const ir_graph *graph, int32_t *lanes);
/* Cuts what is done image by image as knobs.chunk_images and knobs.chunk_net say. */
ebb_status ebb__chunk_images(pass_unit *unit) EBB_MUST_CHECK;

#endif
