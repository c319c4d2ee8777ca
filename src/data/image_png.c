/* image_png.c - PNG files by libpng, whose memory comes from base/alloc. */
#include "data/image_decode.h"

#include "base/file.h"

#include <png.h>
#include <setjmp.h>

enum { SIGNATURE = 8, CHUNK_MOST = 8 << 20 };

static void on_error(png_structp png, png_const_charp why) {
    ebb__image_job_fail(png_get_error_ptr(png), why);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp why) {
    (void)png;
    (void)why;
}

static png_voidp take(png_structp png, png_alloc_size_t bytes) {
    image_job *job = png_get_mem_ptr(png);
    void *block = NULL;
    ebb_status status = ebb__alloc(job->ctx, bytes, 1, &block);
    job->status = job->status == EBB_OK ? status : job->status;
    return status == EBB_OK ? block : NULL;
}

static void give_back(png_structp png, png_voidp block) {
    image_job *job = png_get_mem_ptr(png);
    ebb__free(job->ctx, block);
}

static void read_bytes(png_structp png, png_bytep data, size_t bytes) {
    image_job *job = png_get_io_ptr(png);
    while (bytes > 0) {
        size_t got = 0;
        ebb_status status = ebb__file_read(job->ctx, job->fd, job->path, data, bytes, &got);
        job->status = job->status == EBB_OK ? status : job->status;
        if (status != EBB_OK || got == 0) {
            png_error(png, "it ends early; copy it again");
        }
        data += got;
        bytes -= got;
    }
}

/* Whatever it is, as 8 bits of red, green and blue. */
static void ask_for_rgb(png_structp png, png_infop info) {
    png_set_expand(png);
    png_set_scale_16(png);
    png_set_strip_alpha(png);
    png_set_gray_to_rgb(png);
    (void)png_set_interlace_handling(png);
    png_read_update_info(png, info);
}

/* Room for one row, or for all of an interlaced image. */
static ebb_status take_rows(image_job *job, size_t row, bool interlaced) {
    if (row != (size_t)job->width * IMAGE_RGB) {
        return ebb__fail(job->ctx, EBB_INTERNAL, "image %s: rows of %zu bytes", job->path, row);
    }
    if (interlaced && row * job->height > IMAGE_FILE_BYTES) {
        return ebb__fail(job->ctx, EBB_DATA,
                         "image %s: is interlaced, and decoding it takes more than %d MiB; save it "
                         "without interlacing",
                         job->path, IMAGE_FILE_BYTES >> 20);
    }
    return interlaced ? ebb__image_rows_init(job->ctx, job->path, job->height, row,
                                             (uint32_t)(IMAGE_WHOLE_BYTES / row), &job->all)
                      : ebb__alloc(job->ctx, 1, row, &job->row);
}

static ebb_status read_interlaced(image_job *job, png_structp png) {
    uint8_t *row = NULL;
    for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; pass++) {
        for (uint32_t y = 0; y < job->height; y++) {
            TRY(ebb__image_rows_at(&job->all, y, 1, true, &row));
            png_read_row(png, row, NULL);
        }
    }
    for (uint32_t y = 0; y < job->height; y++) {
        TRY(ebb__image_rows_at(&job->all, y, 1, false, &row));
        ebb__image_resize_row(job->resizer, y, row);
    }
    return EBB_OK;
}

static ebb_status read_rows(image_job *job, png_structp png) {
    for (uint32_t y = 0; y < job->height; y++) {
        png_read_row(png, job->row, NULL);
        ebb__image_resize_row(job->resizer, y, job->row);
    }
    return EBB_OK;
}

/* Comes back from anywhere in the library if it fails. */
static ebb_status read_image(image_job *job, png_structp png, png_infop info) {
    if (setjmp(png_jmpbuf(png)) != 0) {
        return job->status;
    }
    png_set_read_fn(png, job, read_bytes);
    png_set_sig_bytes(png, SIGNATURE);
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff); /* ours are below, with a better sentence */
    png_set_chunk_malloc_max(png, CHUNK_MOST);
    png_read_info(png, info);
    TRY(ebb__image_job_begin(job, png_get_image_height(png, info), png_get_image_width(png, info)));
    bool interlaced = png_get_interlace_type(png, info) != PNG_INTERLACE_NONE;
    ask_for_rgb(png, info);
    TRY(take_rows(job, png_get_rowbytes(png, info), interlaced));
    TRY(interlaced ? read_interlaced(job, png) : read_rows(job, png));
    png_read_end(png, NULL);
    return job->status; /* memory may have been refused for what the library can do without */
}

ebb_status ebb__image_decode_png(image_job *job) {
    png_infop info = NULL;
    png_structp png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, job, on_error, on_warning,
                                               job, take, give_back);
    info = png != NULL ? png_create_info_struct(png) : NULL;
    ebb_status status = EBB_OK;
    if (info == NULL) {
        status = job->status != EBB_OK ? job->status
                                       : ebb__fail(job->ctx, EBB_INTERNAL,
                                                   "image %s: libpng does not begin", job->path);
    } else {
        status = read_image(job, png, info);
    }
    png_destroy_read_struct(&png, &info, NULL);
    return status;
}
