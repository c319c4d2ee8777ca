/* map.h - feature maps (op/map.h) in kernels: where channel k of image i is at a pixel, whatever
 * lanes they lie in.
 *
 * An item for each element of a map counts rows of pixels, over all groups and blocks, as `rows`
 * and a row's floats as `units`: neighbours lie side by side.
 */
typedef struct map {
    int32_t groups, blocks, high, wide, images, channels;
    int64_t pitch;           /* of groups */
    int64_t block, of_pixel; /* floats */
} map;

DEVICE map map_sized(int32_t groups, int32_t blocks, int32_t high, int32_t wide, int32_t images,
                     int32_t channels) {
    map m;
    m.groups = groups;
    m.blocks = blocks;
    m.high = high;
    m.wide = wide;
    m.images = images;
    m.channels = channels;
    m.of_pixel = (int64_t)images * channels;
    m.block = m.of_pixel * high * wide;
    m.pitch = m.block * blocks;
    return m;
}

DEVICE map map_of(GLOBAL const gpu_view *view) {
    map m = map_sized(view->dim[0], view->dim[1], view->dim[2], view->dim[3], view->dim[4],
                      view->dim[5]);
    m.pitch = view->pitch;
    return m;
}

DEVICE int32_t map_images(const map *m) {
    return m->groups * m->images;
}
DEVICE int32_t map_channels(const map *m) {
    return m->blocks * m->channels;
}

/* Where an image, a channel and a pixel are; an element is at their sum. */
DEVICE int64_t map_image(const map *m, int32_t n) {
    return n / m->images * m->pitch + n % m->images * m->channels;
}
DEVICE int64_t map_channel(const map *m, int32_t k) {
    return k / m->channels * m->block + k % m->channels;
}
DEVICE int64_t map_pixel(const map *m, int32_t y, int32_t x) {
    return ((int64_t)y * m->wide + x) * m->of_pixel;
}

/* Channels from k to `end` that lie side by side. */
DEVICE int32_t map_run(const map *m, int32_t k, int32_t end) {
    int32_t run = m->channels - k % m->channels;
    return run < end - k ? run : end - k;
}

/* Float u of row r of a map: its place, and where it lies. */
typedef struct map_place {
    int32_t image, channel, y, x;
    int64_t at;
} map_place;

DEVICE map_place map_place_of(const map *m, int64_t r, int32_t u) {
    map_place p;
    int32_t of = (int32_t)m->of_pixel, lane = u % of, block = (int32_t)r / m->high;
    p.image = block / m->blocks * m->images + lane / m->channels;
    p.channel = block % m->blocks * m->channels + lane % m->channels;
    p.y = (int32_t)r % m->high;
    p.x = u / of;
    p.at = block / m->blocks * m->pitch + block % m->blocks * m->block +
           (int64_t)p.y * m->wide * of + u;
    return p;
}
