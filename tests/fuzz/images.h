/* images.h - what the targets of images share: files that are found are read to the end, and a set
 * is made of them that gives the same images by number. */
#ifndef TESTS_FUZZ_IMAGES_H
#define TESTS_FUZZ_IMAGES_H

#include "fuzz/fuzz.h"

/* Looks at the room's folder and, if what is there is accepted, reads all of it. */
void fuzz_read_images(fuzz_room *room);

#endif
