/* image_jpeg.c - JPEG files by libjpeg-turbo. The library takes a little memory of its own, which
 * base/alloc does not see: some rows. The coefficients of a progressive image, all of which it
 * needs at once, are kept for it here (image_rows.h). */
#include "data/image_decode.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdio.h> /* jpeglib.h needs it */
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

enum { MOST_SCANS = 100, HEAD = 8, MOST_PLANES = 4 };

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
/* The coefficients of a colour, as the library's own memory manager calls it. */
struct jvirt_barray_control {
    image_rows rows;
    JBLOCKROW *window; /* its rows in memory */
};
typedef struct jpeg_work {
    struct jpeg_decompress_struct cinfo;
    struct jvirt_barray_control planes[MOST_PLANES];
    int n_planes;
    uint64_t bytes; /* of all planes */
    struct jpeg_progress_mgr progress;
    jpeg_error error;
    jpeg_input input;
} jpeg_work;

/* ---- what the library calls ---- */

static void on_error(j_common_ptr cinfo) {
    jpeg_error *error = (jpeg_error *)cinfo->err;
    char why[JMSG_LENGTH_MAX];
    (*cinfo->err->format_message)(cinfo, why);
    ebb__image_job_fail(error->job, why);
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

/* ---- coefficients ---- */

/* Ends decoding where a call of ours failed. */
static void check(jpeg_work *work, ebb_status status) {
    image_job *job = work->input.job;
    if (status != EBB_OK) {
        job->status = job->status == EBB_OK ? status : job->status;
        longjmp(work->error.back, 1);
    }
}

/* Rows of blocks of one colour, of which the library looks at `most` at a time. */
static jvirt_barray_ptr take_plane(j_common_ptr cinfo, int pool, boolean zeros, JDIMENSION blocks,
                                   JDIMENSION rows, JDIMENSION most) {
    jpeg_work *work = (jpeg_work *)cinfo;
    const image_job *job = work->input.job;
    size_t row = blocks * sizeof(JBLOCK), share = IMAGE_WHOLE_BYTES / MOST_PLANES / row;
    uint32_t window = share > most ? (uint32_t)share : most;
    (void)pool, (void)zeros; /* they begin as zeros, and end with the image */
    work->bytes += (uint64_t)rows * row;
    if (work->n_planes == MOST_PLANES || work->bytes > IMAGE_FILE_BYTES ||
        most * row > IMAGE_WHOLE_BYTES / 2) {
        fail_with(cinfo, "it is progressive and too large for that; save it as a baseline JPEG");
    }
    struct jvirt_barray_control *plane = &work->planes[work->n_planes++];
    check(work, ebb__image_rows_init(job->ctx, job->path, rows, row, window, &plane->rows));
    window = plane->rows.window;
    check(work, ebb__alloc(job->ctx, window, sizeof(JBLOCKROW), &plane->window));
    for (uint32_t y = 0; y < window; y++) {
        plane->window[y] = (JBLOCKROW)(void *)(plane->rows.data + y * row);
    }
    return plane;
}

static JBLOCKARRAY look_at_plane(j_common_ptr cinfo, jvirt_barray_ptr plane, JDIMENSION first,
                                 JDIMENSION n, boolean change) {
    uint8_t *row = NULL;
    check((jpeg_work *)cinfo, ebb__image_rows_at(&plane->rows, first, n, change != FALSE, &row));
    return plane->window + (first - plane->rows.first);
}

static void free_planes(jpeg_work *work, ebb_ctx *ctx) {
    for (int i = 0; i < work->n_planes; i++) {
        ebb__free(ctx, work->planes[i].window);
        ebb__image_rows_free(&work->planes[i].rows);
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
    work->cinfo.mem->request_virt_barray = take_plane;
    work->cinfo.mem->access_virt_barray = look_at_plane;
}

static ebb_status begin_image(image_job *job, struct jpeg_decompress_struct *cinfo) {
    (void)jpeg_read_header(cinfo, TRUE);
    if (cinfo->jpeg_color_space == JCS_CMYK || cinfo->jpeg_color_space == JCS_YCCK) {
        return ebb__fail(job->ctx, EBB_DATA, "image %s: is CMYK, for print; save it as RGB",
                         job->path);
    }
    TRY(ebb__image_job_begin(job, cinfo->image_height, cinfo->image_width));
    cinfo->out_color_space = JCS_RGB;
    return ebb__alloc(job->ctx, job->width, IMAGE_RGB, &job->row);
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
        (void)jpeg_read_scanlines(&work->cinfo, &job->row, 1);
        ebb__image_resize_row(job->resizer, y, job->row);
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
    free_planes(work, job->ctx);
    ebb__free(job->ctx, work);
    return status;
}
