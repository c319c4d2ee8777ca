/* conv_cut.c - units of a convolution's weight gradient. Tiles of both sides are chosen so that
 * what is read of either, or expanded of x, serves many products, sums fit a cache, and all members
 * have the same to do. */
#include "device/cpu/conv_cut.h"

#include <math.h>

enum {
    STRIP_FLOATS = 3 << 14, /* of dy and of x, in a strip */
    SUMS_FLOATS = 1 << 15,  /* of sums, in a unit: a quarter of a member's second cache */
    HELD_FLOATS = 1 << 17,  /* of expanded rows, unless one tile needs more */
};

/* What it costs to read a tile's pixel from memory, and to expand it, in products of two tiles. */
#define READ_COST 0.7
#define EXPAND_COST 0.5

/* The most channels of a tile of dy; and of x. */
static int64_t tile_lanes(const op_map *m, int64_t of_group) {
    return conv_least(OP_MAP_CHANNELS, conv_least(m->channels, of_group));
}
static int64_t x_lanes(const op_conv *v, const conv_cut *c) {
    return conv_least(c->lanes, tile_lanes(&v->x, v->inputs));
}

/* Tiles of at most `lanes` channels in a group of channels. */
static int64_t tiles_in(const op_map *m, int64_t of_group, int64_t lanes, int64_t group) {
    return conv_tile_count(m, of_group, lanes, group * of_group, (group + 1) * of_group);
}

/* The most of any group. */
static int64_t tiles_of(const op_map *m, int64_t of_group, int64_t lanes, int64_t groups) {
    int64_t most = 0;
    for (int64_t g = 0; g < groups; g++) {
        most = conv_most(most, tiles_in(m, of_group, lanes, g));
    }
    return most;
}

static int64_t sums_floats(const op_conv *v, const conv_cut *c) {
    return c->k * c->c * conv_up(conv_taps(v), c->parts) * tile_lanes(&v->y, v->outputs) *
           x_lanes(v, c);
}

/* Groups of images of the map that a group of 8 of the chain may touch. */
static int64_t groups_held(const op_conv *v) {
    int64_t n = v->x.images;
    return conv_least(v->x.groups, n % 8 == 0 ? 1 : 8 % n == 0 ? 8 / n : 7 / n + 2);
}

/* Floats of a strip for each pixel along a row. */
static int64_t strip_wide(const op_conv *v, const conv_cut *c) {
    int64_t images = conv_least(OP_MAP_IMAGES, op_map_images(&v->x));
    return images *
           (c->k * tile_lanes(&v->y, v->outputs) + c->c * v->stride * tile_lanes(&v->x, v->inputs));
}

static int64_t strip_rows(const op_conv *v, const conv_cut *c) {
    int64_t rows = STRIP_FLOATS / (v->y.wide * strip_wide(v, c));
    return conv_most(1, conv_least(rows, v->y.high));
}

static int64_t ring_rows(const op_conv *v, const conv_cut *c) {
    return conv_least(v->x.high, (strip_rows(v, c) - 1) * v->stride + v->high);
}

static int64_t row_floats(const op_conv *v) {
    return conv_copied_wide(v->x.wide, v->stride) * op_map_pixel(&v->x);
}

static int64_t held_floats(const op_conv *v, const conv_cut *c) {
    return c->c * groups_held(v) * ring_rows(v, c) * row_floats(v);
}

/* Are rows copied: do the images of a chain at several pixels then follow each other? */
bool ebb__conv_copies(const op_conv *v) {
    return v->stride > 1 &&
           (v->x.images == OP_MAP_IMAGES || (v->x.groups == 1 && v->x.images < OP_MAP_IMAGES));
}

static bool fits(const op_conv *v, bool holds, const conv_cut *c) {
    return (c->k == 1 && c->c == 1) || (sums_floats(v, c) <= SUMS_FLOATS &&
                                        (!holds || c->c == 1 || held_floats(v, c) <= HELD_FLOATS));
}

/* What a pixel of a unit costs beside its products, in products of two tiles. What is read or
 * expanded of x is whole blocks. */
static double read_time(const op_conv *v, bool holds, const conv_cut *c) {
    double k = (double)tile_lanes(&v->y, v->outputs) / OP_MAP_CHANNELS;
    double x = (double)tile_lanes(&v->x, v->inputs) / OP_MAP_CHANNELS;
    return (double)c->k * k * READ_COST +
           (double)c->c * x * (READ_COST + (holds ? EXPAND_COST : 0.0));
}

/* Of one tap's products, of one pixel. */
static double tap_time(const op_conv *v, const conv_cut *c) {
    double k = (double)tile_lanes(&v->y, v->outputs) / OP_MAP_CHANNELS;
    double part = (double)x_lanes(v, c) / OP_MAP_CHANNELS;
    return (double)(c->k * c->c) * k * part;
}

/* The best so far, and what it takes. */
typedef struct cut_choice {
    conv_cut cut;
    double time;
} cut_choice;

/* Tries all parts of the taps for tiles of so many channels; of those with equal units the fewest.
 * units: for each part. */
static void try_parts(const op_conv *v, bool holds, int members, conv_cut next, int64_t units,
                      cut_choice *best) {
    const int64_t all = conv_taps(v);
    const double reads = read_time(v, holds, &next), product = tap_time(v, &next);
    const double least = (double)units * ((double)all * product + reads) / members;
    if (least >= best->time) {
        return; /* parts read more often, and members wait for each other */
    }
    for (int64_t parts = 1, taps = all; parts <= all; parts = conv_up(all, taps - 1)) {
        taps = conv_up(all, parts);
        next.parts = parts;
        double time = (double)conv_up(units * parts, members) * ((double)taps * product + reads);
        if (time < best->time && fits(v, holds, &next)) {
            *best = (cut_choice){next, time};
        }
        if (taps == 1) {
            break;
        }
    }
}

/* Tries all cuts of tiles of x of so many channels; of parts of blocks, one at a time. A plan asks
 * for thousands of them. */
static void try_lanes(const op_conv *v, bool holds, int members, int64_t lanes, cut_choice *best) {
    int64_t k_tiles = tiles_of(&v->y, v->outputs, OP_MAP_CHANNELS, v->groups);
    int64_t c_tiles = tiles_of(&v->x, v->inputs, lanes, v->groups);
    int64_t most_c = lanes == OP_MAP_CHANNELS ? conv_least(c_tiles, CONV_MOST_SIDE) : 1;
    for (int64_t k = 1; k <= conv_least(k_tiles, CONV_MOST_SIDE); k++) {
        for (int64_t c = 1; c <= most_c; c++) {
            conv_cut finest = {k, c, conv_taps(v), lanes};
            if (k * c > 1 && sums_floats(v, &finest) > SUMS_FLOATS) {
                break; /* more tiles fit in no way */
            }
            int64_t units = v->groups * conv_up(k_tiles, k) * conv_up(c_tiles, c);
            try_parts(v, holds, members, finest, units, best);
        }
    }
}

/* Halves and quarters of blocks serve members that would have nothing else to do. */
conv_cut ebb__conv_cut_of(const op_conv *v, bool holds, int members) {
    cut_choice best = {{1, 1, 1, OP_MAP_CHANNELS}, HUGE_VAL};
    int64_t whole = tile_lanes(&v->x, v->inputs);
    try_lanes(v, holds, members, OP_MAP_CHANNELS, &best);
    for (int64_t lanes = whole / 2;
         lanes >= CONV_LEAST_LANES && whole % lanes == 0 && best.cut.parts > 1; lanes /= 2) {
        try_lanes(v, holds, members, lanes, &best);
    }
    return best.cut;
}

/* Workspace of a member: sums, then rows of x. */
static int64_t member_floats(const op_conv *v, bool holds, const conv_cut *c) {
    return sums_floats(v, c) + (holds ? held_floats(v, c) : 0);
}

static int64_t unit_count(const op_conv *v, const conv_cut *c) {
    int64_t units = 0;
    for (int64_t g = 0; g < v->groups; g++) {
        units += conv_up(tiles_in(&v->y, v->outputs, OP_MAP_CHANNELS, g), c->k) *
                 conv_up(tiles_in(&v->x, v->inputs, c->lanes, g), c->c);
    }
    return units * c->parts;
}

conv_cut_sizes ebb__conv_cut_sizes(const op_conv *v, bool holds, const conv_cut *c) {
    return (conv_cut_sizes){.units = unit_count(v, c),
                            .tile_floats = tile_lanes(&v->y, v->outputs) * x_lanes(v, c),
                            .sums_floats = sums_floats(v, c),
                            .strip_rows = strip_rows(v, c),
                            .strip_pixels = STRIP_FLOATS / strip_wide(v, c) / v->high,
                            .ring_rows = ring_rows(v, c),
                            .row_floats = row_floats(v),
                            .groups_held = groups_held(v),
                            .member_floats = member_floats(v, holds, c)};
}

size_t ebb__conv_sums_bytes(const op_conv *v, bool source, int members) {
    int64_t most = 0;
    bool holds = source || ebb__conv_copies(v);
    for (int m = 1; m <= members; m++) { /* a call may have fewer of them */
        conv_cut c = ebb__conv_cut_of(v, holds, m);
        most = conv_most(most, m * member_floats(v, holds, &c));
    }
    return (size_t)most * sizeof(float);
}

int64_t ebb__conv_sums_times(const op_conv *v) {
    conv_cut c = ebb__conv_cut_of(v, true, 1);
    return conv_up(tiles_of(&v->y, v->outputs, OP_MAP_CHANNELS, v->groups), c.k) * c.parts;
}
