/* image_reader.h - labelled images of a list of files (image_files.h), one after the other from the
 * first to the last, since packed files cannot be read otherwise. By number they are read from the
 * file that is made of them once: image_set.h. */
#ifndef DATA_IMAGE_READER_H
#define DATA_IMAGE_READER_H

#include "data/image_decode.h"
#include "data/source.h"

struct XXH3_state_s;

enum { IMAGE_STAGING = 4096 }; /* a record of CIFAR, or so many labels */

typedef struct image_reader {
    const image_files *files; /* must outlive the reader */
    const char *phase;        /* what the progress callback is told */
    size_t file;              /* that comes next, or is being read */
    uint64_t taken;           /* images of that file */
    bool open;                /* whether it is being read */
    data_source images, labels;
    struct XXH3_state_s *hashes; /* [2], of both as they lie on disk */
    image_decoder decoder;       /* of folders */
    uint64_t bad;                /* images of folders that were left out so far */
    uint8_t staging[IMAGE_STAGING];
} image_reader;

/* On failure nothing is held, and ebb__image_reader_close is harmless. */
ebb_status ebb__image_reader_open(const image_files *files, const char *phase,
                                  image_reader *out) EBB_MUST_CHECK;
/* The next images, at most `most` of them, as u8 [n,Y,X,C] with a label below files->classes each;
 * *n: how many, 0 after the last. EBB_DATA for a label out of range, an image that cannot be
 * decoded (unless these are to be skipped), and if a file is no longer the
 * one that was looked at, which may be known only after its last image was given. After a failure
 * only close. */
ebb_status ebb__image_reader_next(image_reader *reader, size_t most, uint8_t *pixels,
                                  int32_t *labels, size_t *n) EBB_MUST_CHECK;
void ebb__image_reader_close(image_reader *reader);

#endif
