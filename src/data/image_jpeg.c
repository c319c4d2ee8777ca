/* image_jpeg.c - JPEG files by libjpeg-turbo. The library takes a little memory of its own, which
 * base/alloc does not see: some rows, or of a progressive image all coefficients, up to a bound. */
#include "data/image_decode.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdio.h> /* jpeglib.h needs it */
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

enum { MOST_SCANS = 100, HEAD = 8 };

/* The library knows the first members of these. */
typedef struct jpeg_error {
    struct jpeg_error_mgr base;
    jmp_buf back;
    image_job *job;
} jpeg_error;
typedef struct jpeg_input {
    struct jpeg_source_mgr base;
    image_job *job;
} jpeg_input;
typedef struct jpeg_work {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_progress_mgr progress;
    jpeg_error error;
    jpeg_input input;
} jpeg_work;

/* ---- what the library calls ---- */

static void on_error(j_common_ptr cinfo) {
    jpeg_error *error = (jpeg_error *)cinfo->err;
    char why[JMSG_LENGTH_MAX];
    (*cinfo->err->format_message)(cinfo, why);
    bool large = cinfo->err->msg_code == JERR_NO_BACKING_STORE;
    ebb__image_job_fail(error->job, large ? "it is progressive and takes more than 64 MiB; save it "
                                            "as a baseline JPEG"
                                          : why);
    longjmp(error->back, 1);
}

static void fail_with(j_common_ptr cinfo, const char *why) {
    jpeg_error *error = (jpeg_error *)cinfo->err;
    ebb__image_job_fail(error->job, why);
    longjmp(error->back, 1);
}

/* Of what the library would pass over, data that are wrong or missing are failures here; harmless
 * oddities, which many cameras and tools leave, are not. */
static void on_message(j_common_ptr cinfo, int level) {
    int code = cinfo->err->msg_code;
    if (level < 0 && (code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
                      code == JWRN_JPEG_EOF || code == JWRN_ARITH_BAD_CODE)) {
        on_error(cinfo);
    }
}

static void on_output(j_common_ptr cinfo) {
    (void)cinfo;
}

static void on_progress(j_common_ptr cinfo) {
    if (cinfo->is_decompressor && ((j_decompress_ptr)cinfo)->input_scan_number > MOST_SCANS) {
        fail_with(cinfo, "it has more than 100 scans");
    }
}

static void begin_input(j_decompress_ptr cinfo) {
    (void)cinfo;
}

static boolean fill_input(j_decompress_ptr cinfo) {
    jpeg_input *input = (jpeg_input *)cinfo->src;
    image_job *job = input->job;
    size_t got = 0;
    ebb_status status = ebb__file_read(job->ctx, job->fd, job->path, job->input, IMAGE_INPUT, &got);
    job->status = job->status == EBB_OK ? status : job->status;
    if (status != EBB_OK || got == 0) {
        fail_with((j_common_ptr)cinfo, "it ends early; copy it again");
    }
    input->base.next_input_byte = job->input;
    input->base.bytes_in_buffer = got;
    return TRUE;
}

static void skip_input(j_decompress_ptr cinfo, long bytes) {
    while (bytes > (long)cinfo->src->bytes_in_buffer) {
        bytes -= (long)cinfo->src->bytes_in_buffer;
        (void)fill_input(cinfo);
    }
    if (bytes > 0) {
        cinfo->src->next_input_byte += bytes;
        cinfo->src->bytes_in_buffer -= (size_t)bytes;
    }
}

/* ---- decoding ---- */

static void connect(jpeg_work *work, image_job *job) {
    struct jpeg_decompress_struct *cinfo = &work->cinfo;
    cinfo->err = jpeg_std_error(&work->error.base);
    work->error.base.error_exit = on_error;
    work->error.base.emit_message = on_message;
    work->error.base.output_message = on_output;
    work->error.job = work->input.job = job;
    work->progress.progress_monitor = on_progress;
}

static void connect_input(jpeg_work *work) {
    struct jpeg_source_mgr *source = &work->input.base;
    source->init_source = begin_input;
    source->fill_input_buffer = fill_input;
    source->skip_input_data = skip_input;
    source->resync_to_restart = jpeg_resync_to_restart;
    source->term_source = begin_input;
    source->next_input_byte = work->input.job->input; /* what told that this is a JPEG file */
    source->bytes_in_buffer = HEAD;
    work->cinfo.src = source;
    work->cinfo.progress = &work->progress;
    work->cinfo.mem->max_memory_to_use = IMAGE_WHOLE_BYTES;
}

static ebb_status begin_image(image_job *job, struct jpeg_decompress_struct *cinfo) {
    (void)jpeg_read_header(cinfo, TRUE);
    if (cinfo->jpeg_color_space == JCS_CMYK || cinfo->jpeg_color_space == JCS_YCCK) {
        return ebb__fail(job->ctx, EBB_DATA, "image %s: is CMYK, for print; save it as RGB",
                         job->path);
    }
    TRY(ebb__image_job_begin(job, cinfo->image_height, cinfo->image_width));
    cinfo->out_color_space = JCS_RGB;
    return ebb__alloc(job->ctx, job->width, IMAGE_RGB, &job->rows);
}

/* Comes back from anywhere in the library if it fails. */
static ebb_status read_image(image_job *job, jpeg_work *work) {
    if (setjmp(work->error.back) != 0) {
        return job->status;
    }
    jpeg_create_decompress(&work->cinfo);
    connect_input(work);
    TRY(begin_image(job, &work->cinfo));
    (void)jpeg_start_decompress(&work->cinfo);
    while (work->cinfo.output_scanline < job->height) {
        uint32_t y = work->cinfo.output_scanline;
        (void)jpeg_read_scanlines(&work->cinfo, &job->rows, 1);
        ebb__image_resize_row(job->resizer, y, job->rows);
    }
    (void)jpeg_finish_decompress(&work->cinfo);
    return EBB_OK;
}

ebb_status ebb__image_decode_jpeg(image_job *job) {
    jpeg_work *work = NULL;
    TRY(ebb__alloc(job->ctx, 1, sizeof *work, &work));
    connect(work, job);
    ebb_status status = read_image(job, work);
    jpeg_destroy_decompress(&work->cinfo); /* safe where it was not created: all is zeros */
    ebb__free(job->ctx, work);
    return status;
}
