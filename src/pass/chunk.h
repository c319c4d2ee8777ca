/* chunk.h - between the files of the chunk pass. */
#ifndef PASS_CHUNK_H
#define PASS_CHUNK_H

#include "pass/pass.h"

/* Cuts what is done image by image as knobs.chunk_images and knobs.chunk_net say. */
ebb_status ebb__chunk_images(pass_unit *unit) EBB_MUST_CHECK;

#endif
