/* map.h - feature maps: how a batch of images with channels lies in six axes.
 *
 * A map is f32 [G, B, Y, X, n, c]: G groups of n images, B blocks of c channels, Y rows of X
 * pixels. Image i is lane i % n of group i / n, channel k is lane k % c of block k / c. A pixel of
 * one group and block is n * c floats that follow each other, which is what products want to read
 * and write; nothing is padded, so n divides the images and c the channels. Which n and c a map has
 * never shows in a result: sums follow images and channels, in groups of OP_MAP_IMAGES and blocks
 * of OP_MAP_CHANNELS whatever the lanes are (docs/decisions/0027).
 */
#ifndef OP_MAP_H
#define OP_MAP_H

#include "op/op.h"

/* Part of the specification, as the 16 lanes of row sums are: a sum over images goes through groups
 * of 8, a sum over channels through blocks of 32. Cuts of a batch fall on multiples of 8 images. */
enum { OP_MAP_IMAGES = 8, OP_MAP_CHANNELS = 32 };
enum { OP_MAP_RANK = 6 };
/* The most that a window's side, a stride or a pad may be: products fit 64 bits. */
enum { OP_MAP_WINDOW = 1 << 12 };

typedef struct op_map {
    int32_t groups, blocks, high, wide; /* G, B, Y, X */
    int32_t images, channels;           /* n, c: lanes */
} op_map;

static inline bool op_is_map(const ir_type *type) {
    return type->rank == OP_MAP_RANK && type->dtype == IR_F32;
}

static inline op_map op_map_of(const ir_type *type) {
    const int32_t *d = type->dim;
    return (op_map){d[0], d[1], d[2], d[3], d[4], d[5]};
}

static inline ir_type op_map_type(op_map m) {
    return (ir_type){.dtype = IR_F32,
                     .rank = OP_MAP_RANK,
                     .dim = {m.groups, m.blocks, m.high, m.wide, m.images, m.channels}};
}

static inline int64_t op_map_images(const op_map *m) {
    return (int64_t)m->groups * m->images;
}

/* Groups of 8 images, by which sums over a batch are taken, whatever the layout. */
static inline int64_t op_map_chains(const op_map *m) {
    return (op_map_images(m) + OP_MAP_IMAGES - 1) / OP_MAP_IMAGES;
}

static inline int64_t op_map_channels(const op_map *m) {
    return (int64_t)m->blocks * m->channels;
}

/* Does the axis tell images apart: G or n? */
static inline bool op_map_is_image_axis(int32_t axis) {
    return axis == 0 || axis == 4;
}

/* Images of a map, or of pixels as they come (op images); 0: it is neither. */
static inline int64_t op_images_of(const ir_type *type) {
    op_map m = op_map_of(type);
    bool pixels = type->rank == 4 && type->dtype == IR_U8;
    return op_is_map(type) ? op_map_images(&m) : pixels ? type->dim[0] : 0;
}

/* Floats of a pixel of one block, of one block, and of a group without gaps. */
static inline int64_t op_map_pixel(const op_map *m) {
    return (int64_t)m->images * m->channels;
}
static inline int64_t op_map_block(const op_map *m) {
    return op_map_pixel(m) * m->high * m->wide;
}
static inline int64_t op_map_group(const op_map *m) {
    return op_map_block(m) * m->blocks;
}

/* Rows of pixels, over all groups and blocks, in the order in which they lie, and their floats. */
static inline int64_t op_map_rows(const op_map *m) {
    return (int64_t)m->groups * m->blocks * m->high;
}
static inline int64_t op_map_row(const op_map *m) {
    return op_map_pixel(m) * m->wide;
}

/* How far apart the groups of a view lie: ld is that of the last axis where there are no gaps. */
static inline int64_t op_map_pitch(const op_view *view) {
    op_map m = op_map_of(&view->type);
    return view->ld == m.channels ? op_map_group(&m) : view->ld;
}

/* Where channel k of image i is at pixel (y, x), if groups lie `pitch` floats apart. */
static inline int64_t op_map_at(const op_map *m, int64_t pitch, int64_t i, int64_t k, int64_t y,
                                int64_t x) {
    int64_t at = i / m->images * pitch + k / m->channels * op_map_block(m);
    at += (y * m->wide + x) * op_map_pixel(m);
    return at + i % m->images * m->channels + k % m->channels;
}

/* The lanes that maps of so many images, or channels, have unless somebody wants others: products
 * are fastest with 8 images and 32 channels at a time. */
static inline int32_t op_map_image_lanes(int64_t images) {
    return images % 8 == 0 ? 8 : images % 4 == 0 ? 4 : (int32_t)images;
}
static inline int32_t op_map_channel_lanes(int64_t channels) {
    if (channels > OP_MAP_CHANNELS && channels % 8 == 0) {
        return channels % 32 == 0 ? 32 : channels % 16 == 0 ? 16 : 8;
    }
    int32_t most = OP_MAP_CHANNELS; /* else the most that divide them */
    while (channels % most != 0) {
        most--;
    }
    return most;
}

#endif
