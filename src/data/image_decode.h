/* image_decode.h - PNG and JPEG files, told by their first bytes, decoded row by row and brought to
 * one size (image_resize.h).
 *
 * Grey, palettes, 16 bits and all kinds of PNG become 8 bits of red, green and blue; transparency
 * is left out, as is what EXIF says of how a camera was held. Refused, each with a sentence: files
 * that are neither, or that are broken or end early; CMYK; and sides above IMAGE_MOST_SIDE.
 *
 * Interlaced PNG and progressive JPEG need the whole image at once. Beyond IMAGE_WHOLE_BYTES it
 * lies in a file without a name (image_rows.h), so that decoding takes little memory beside a plan;
 * beyond IMAGE_FILE_BYTES it is refused. */
#ifndef DATA_IMAGE_DECODE_H
#define DATA_IMAGE_DECODE_H

#include "data/image_resize.h"
#include "data/image_rows.h"

typedef struct image_decoder {
    ebb_ctx *ctx;
    image_resizer resizer;
} image_decoder;

/* For images of the wanted size: see ebb__image_resizer_init. Free also after a failure. */
ebb_status ebb__image_decoder_init(ebb_ctx *ctx, const image_size *want,
                                   image_decoder *out) EBB_MUST_CHECK;
void ebb__image_decoder_free(image_decoder *decoder);
/* The image in the file, u8 [Y,X,C] of the wanted size. EBB_DATA for what is wrong with it. */
ebb_status ebb__image_decode(image_decoder *decoder, const char *path,
                             uint8_t *pixels) EBB_MUST_CHECK;

/* For image_decode.c: one file that is being decoded. Libraries leave their functions by longjmp,
 * so that all that must outlive one lies here. */
enum { IMAGE_INPUT = 16384, IMAGE_WHOLE_BYTES = 8 << 20, IMAGE_FILE_BYTES = 256 << 20 };
typedef struct image_job {
    ebb_ctx *ctx;
    const char *path;
    int fd;
    ebb_status status; /* of the first failure */
    image_resizer *resizer;
    uint8_t *row;   /* one */
    image_rows all; /* of an interlaced image */
    uint32_t width, height;
    uint8_t input[IMAGE_INPUT];
} image_job;
/* Whether sides are possible; a failure else. */
ebb_status ebb__image_job_begin(image_job *job, uint32_t height, uint32_t width) EBB_MUST_CHECK;
/* The library's word on what is wrong, unless something of ours failed before. */
void ebb__image_job_fail(image_job *job, const char *why);
ebb_status ebb__image_decode_png(image_job *job) EBB_MUST_CHECK;
ebb_status ebb__image_decode_jpeg(image_job *job) EBB_MUST_CHECK;

#endif
