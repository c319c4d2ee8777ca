/* image_reader.c - see image_reader.h. A file is taken for the one that was looked at: what was
 * checked then is not checked again, but its raw bytes are hashed on the way and compared at its
 * end. */
#include "data/image_reader.h"

#include "data/image_npy.h"

#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* the state's size */
#include <xxhash.h>

enum { PLANE = 32 * 32, CHANNELS = 3 };

_Static_assert((int)NPY_MOST_HEAD <= (int)IMAGE_STAGING, "a header can be staged");

ebb_status ebb__image_reader_open(const image_files *files, const char *phase, image_reader *out) {
    *out = (image_reader){.files = files, .phase = phase};
    out->images = out->labels = (data_source){.ctx = files->ctx, .fd = -1};
    if (files->form != IMAGE_FOLDER) {
        return ebb__alloc(files->ctx, 2, sizeof *out->hashes, &out->hashes);
    }
    ebb_status status = ebb__image_decoder_init(files->ctx, &files->size, &out->decoder);
    if (status != EBB_OK) {
        ebb__image_reader_close(out);
    }
    return status;
}

void ebb__image_reader_close(image_reader *reader) {
    ebb__source_close(&reader->images);
    ebb__source_close(&reader->labels);
    if (reader->files->form == IMAGE_FOLDER) {
        ebb__image_decoder_free(&reader->decoder);
    }
    ebb__free(reader->files->ctx, reader->hashes);
    reader->hashes = NULL;
    reader->open = false;
}

static ebb_status changed(const image_reader *reader, const char *path) {
    return ebb__fail(reader->files->ctx, EBB_DATA,
                     "image file %s: changed while it was read; run again", path);
}

static ebb_status read_exactly(image_reader *reader, data_source *source, void *data,
                               size_t bytes) {
    size_t got = 0;
    TRY(ebb__source_read(source, data, bytes, &got));
    return got == bytes ? EBB_OK : changed(reader, source->path);
}

/* ---- files ---- */

/* Opens one and reads its header. */
static ebb_status begin(image_reader *reader, const char *path, int which, size_t head,
                        data_source *out) {
    XXH3_64bits_reset(&reader->hashes[which]);
    TRY(ebb__source_open(reader->files->ctx, path, reader->phase, &reader->hashes[which], out));
    return read_exactly(reader, out, reader->staging, head); /* at most NPY_MOST_HEAD */
}

static ebb_status begin_file(image_reader *reader) {
    const image_file *file = &reader->files->at[reader->file];
    reader->open = true;
    reader->taken = 0;
    TRY(begin(reader, file->path, 0, file->head, &reader->images));
    return file->labels != NULL ? begin(reader, file->labels, 1, file->labels_head, &reader->labels)
                                : EBB_OK;
}

/* Nothing follows, and it was what it had been. */
static ebb_status end(image_reader *reader, data_source *source, int which, uint64_t hash) {
    size_t got = 0;
    TRY(ebb__source_read(source, reader->staging, 1, &got));
    if (got != 0 || XXH3_64bits_digest(&reader->hashes[which]) != hash) {
        return changed(reader, source->path);
    }
    ebb__source_close(source);
    return EBB_OK;
}

static ebb_status end_file(image_reader *reader) {
    const image_file *file = &reader->files->at[reader->file];
    TRY(end(reader, &reader->images, 0, file->hash));
    if (file->labels != NULL) {
        TRY(end(reader, &reader->labels, 1, file->labels_hash));
    }
    reader->open = false;
    reader->file++;
    return EBB_OK;
}

/* ---- images ---- */

/* IDX and NumPy: images in one file, labels in another. */
static ebb_status read_both(image_reader *reader, size_t n, uint8_t *pixels, int32_t *labels) {
    const image_files *files = reader->files;
    uint32_t each = files->at[reader->file].label_bytes;
    TRY(read_exactly(reader, &reader->images, pixels, n * image_bytes(&files->size)));
    TRY(read_exactly(reader, &reader->labels, reader->staging, n * each));
    for (size_t i = 0; i < n; i++) {
        uint64_t label = ebb__image_label(reader->staging + i * each, each);
        if (label >= files->classes) {
            return changed(reader, reader->labels.path);
        }
        labels[i] = (int32_t)label;
    }
    return EBB_OK;
}

/* u8 [C,Y,X] to [Y,X,C]. */
static void interleave(const uint8_t *planes, uint8_t *pixels) {
    for (size_t i = 0; i < PLANE; i++) {
        for (size_t c = 0; c < CHANNELS; c++) {
            pixels[CHANNELS * i + c] = planes[PLANE * c + i];
        }
    }
}

static ebb_status read_cifar(image_reader *reader, size_t n, uint8_t *pixels, int32_t *labels) {
    const image_files *files = reader->files;
    size_t marks = files->form == IMAGE_CIFAR10 ? 1 : 2, record = marks + CHANNELS * PLANE;
    for (size_t i = 0; i < n; i++) {
        TRY(read_exactly(reader, &reader->images, reader->staging, record));
        labels[i] = reader->staging[marks - 1];
        if (reader->staging[marks - 1] >= files->classes) {
            return ebb__fail(files->ctx, EBB_DATA,
                             "image file %s: image %llu, at byte %llu, has the label %d, but there "
                             "are %u classes; copy it again",
                             reader->images.path, (unsigned long long)(reader->taken + i),
                             (unsigned long long)((reader->taken + i) * record), labels[i],
                             files->classes);
        }
        interleave(reader->staging + marks, pixels + i * CHANNELS * PLANE);
    }
    return EBB_OK;
}

/* One image of a folder; *fine: not one that is left out. */
static ebb_status read_photo(image_reader *reader, const image_file *file, uint8_t *pixels,
                             bool *fine) {
    ebb_ctx *ctx = reader->files->ctx;
    uint64_t stamp = 0, bytes = 0;
    TRY(ebb__poll_stop(ctx, file->path));
    TRY(ebb__image_folder_stamp(ctx, file->path, &bytes, &stamp));
    if (stamp != file->hash) {
        return changed(reader, file->path);
    }
    ebb_status status = ebb__image_decode(&reader->decoder, file->path, pixels);
    *fine = status == EBB_OK;
    if (status == EBB_DATA && reader->files->skip_bad) {
        ebb__log(ctx, reader->files->told ? EBB_LOG_DEBUG : EBB_LOG_WARN, "%s; left out",
                 ebb_last_error(ctx));
        ebb__ctx_clear(ctx);
        reader->bad++;
        return EBB_OK;
    }
    return status;
}

static ebb_status read_photos(image_reader *reader, size_t most, uint8_t *pixels, int32_t *labels,
                              size_t *n) {
    const image_files *files = reader->files;
    size_t each = image_bytes(&files->size);
    while (*n < most && reader->file < files->n) {
        const image_file *file = &files->at[reader->file++];
        bool fine = false;
        TRY(read_photo(reader, file, pixels + *n * each, &fine));
        labels[*n] = file->label;
        *n += fine;
        ebb__progress(files->ctx, reader->phase, reader->file, files->n);
    }
    return EBB_OK;
}

ebb_status ebb__image_reader_next(image_reader *reader, size_t most, uint8_t *pixels,
                                  int32_t *labels, size_t *n) {
    const image_files *files = reader->files;
    *n = 0;
    if (files->form == IMAGE_FOLDER) {
        return read_photos(reader, most, pixels, labels, n);
    }
    if (reader->open && reader->taken == files->at[reader->file].count) {
        TRY(end_file(reader));
    }
    if (reader->file == files->n) {
        return EBB_OK;
    }
    if (!reader->open) {
        TRY(begin_file(reader));
    }
    uint64_t left = files->at[reader->file].count - reader->taken;
    bool both = files->at[reader->file].labels != NULL;
    size_t room = both ? IMAGE_STAGING / files->at[reader->file].label_bytes : IMAGE_STAGING;
    size_t part = most < room ? most : room;
    part = left < part ? (size_t)left : part;
    TRY(both ? read_both(reader, part, pixels, labels) : read_cifar(reader, part, pixels, labels));
    reader->taken += part;
    *n = part;
    return EBB_OK;
}
