/* image_decode.c - see image_decode.h. What the two libraries need is in image_png.c and
 * image_jpeg.c. */
#include "data/image_decode.h"

#include "base/file.h"
#include "data/source.h"

#include <string.h>

ebb_status ebb__image_decoder_init(ebb_ctx *ctx, const image_size *want, image_decoder *out) {
    out->ctx = ctx;
    return ebb__image_resizer_init(ctx, want, &out->resizer);
}

void ebb__image_decoder_free(image_decoder *decoder) {
    ebb__image_resizer_free(&decoder->resizer);
}

void ebb__image_job_fail(image_job *job, const char *why) {
    if (job->status == EBB_OK) {
        job->status =
            ebb__fail(job->ctx, EBB_DATA, "image %s: cannot be decoded: %s", job->path, why);
    }
}

ebb_status ebb__image_job_begin(image_job *job, uint32_t height, uint32_t width) {
    if (height == 0 || height > IMAGE_MOST_SIDE || width == 0 || width > IMAGE_MOST_SIDE) {
        return ebb__fail(job->ctx, EBB_DATA,
                         "image %s: has %u x %u pixels; 1 to %d on a side are allowed", job->path,
                         height, width, IMAGE_MOST_SIDE);
    }
    job->height = height;
    job->width = width;
    ebb__image_resize_begin(job->resizer, height, width);
    return EBB_OK;
}

static ebb_status decode(image_job *job) {
    uint8_t head[8] = {0};
    size_t got = 0;
    TRY(ebb__file_read(job->ctx, job->fd, job->path, head, sizeof head, &got));
    bool png = memcmp(head, "\x89PNG\r\n\x1a\n", 8) == 0, jpeg = memcmp(head, "\xff\xd8", 2) == 0;
    if (!png && !jpeg) {
        return ebb__fail(job->ctx, EBB_DATA,
                         "image %s: is neither PNG nor JPEG; convert it, or remove it", job->path);
    }
    memcpy(job->input, head, sizeof head);
    return png ? ebb__image_decode_png(job) : ebb__image_decode_jpeg(job);
}

ebb_status ebb__image_decode(image_decoder *decoder, const char *path, uint8_t *pixels) {
    ebb_status status;
    image_job *job = NULL;
    TRY(ebb__source_check(decoder->ctx, path));
    TRY(ebb__alloc(decoder->ctx, 1, sizeof *job, &job));
    *job = (image_job){.ctx = decoder->ctx, .path = path, .fd = -1, .resizer = &decoder->resizer};
    TRY_OUT(ebb__file_open(decoder->ctx, path, &job->fd, NULL));
    TRY_OUT(decode(job));
    ebb__image_resize_end(&decoder->resizer, pixels);
out:
    ebb__free(decoder->ctx, job->row);
    ebb__image_rows_free(&job->all);
    ebb__file_close(job->fd);
    ebb__free(decoder->ctx, job);
    return status;
}
