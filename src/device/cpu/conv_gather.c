/* conv_gather.c - convolution, and the gradient of its map: every pixel of the result gathers
 * pixels of the operand through the window, forward in the order of the taps, backward against it.
 *
 * A tile of at most 32 channels of the result is done at a time, for a strip of rows of one group
 * of images; its weights are packed once for all strips that a member does. Pixels of a row with
 * the same taps that lie side by side are the rows of one product. Weights of a block of channels
 * stay in cache while they go over the strip. Where the window is one pixel, what a strip reads is
 * much and used once by a tile: there a strip is what fits a cache of the operand, and all tiles go
 * over some channels of it before the next. Where the operand has a few channels only (the first
 * layer), what each pixel of a strip reads is laid out side by side, and taps are one product. With
 * a stride, rows of some channels are copied so that pixels of a tap lie side by side. */
#include "device/cpu/conv.h"

#include "base/team.h"

#include <string.h>

enum {
    RUN_ROWS = 48,          /* images and pixels that one product takes, */
    LONG_ROWS = 240,        /* or where all of the operand's channels are one block */
    STRIP_FLOATS = 1 << 15, /* of the result, in a strip: half of a member's second cache */
    STRETCH_TILES = 16,     /* weights that go over a strip at a time */
    HELD_FLOATS = 1 << 16,  /* weights that are held packed: half of a member's second cache */
    MOST_HELD = 64,         /* tiles of them */
    POINT_FLOATS = 3 << 13, /* windows of a pixel: of the operand, in a strip, */
    POINT_TILES = 8,        /* weights that go over it at a time, */
    POINT_HELD = 1 << 18,   /* and weights that are held: they are read in order */
    FEW = 8,                /* below these channels windows are laid out, */
    LEAST_LAID = 64,        /* if they are as large as this */
    LAID_FLOATS = 3 << 13,  /* of them, in a strip */
    COPY_FLOATS = 1 << 16,  /* of rows that are copied, unless one row of the result needs more */
};

/* Both directions: the result `to` gathers from `from`. */
typedef struct gather {
    op_map from, to;
    int64_t from_pitch, to_pitch, start_pitch;
    int64_t from_group, to_group; /* channels of a group of channels */
    int64_t window_y, window_x, stride, pad_y, pad_x;
    const float *source, *weights;
    const float *start; /* a bias; a map, if `back`; NULL: zeros */
    float *result;
    bool back;
    bool laid;   /* windows are laid out */
    bool copied; /* rows of the operand are copied */
} gather;

/* The taps along one axis that fall on the operand, for one position of the result: r = lo, lo +
 * step, ... below hi, of which the first reads `at`, each further one `move` further. */
typedef struct gather_taps {
    int64_t lo, hi, step, at, move;
} gather_taps;

static gather_taps taps_of(const gather *g, int64_t o, int64_t size, int64_t window, int64_t pad) {
    if (!g->back) {
        int64_t first = o * g->stride - pad, lo = conv_most(0, -first);
        return (gather_taps){lo, conv_least(window, size - first), 1, first + lo, 1};
    }
    /* Tap r reads (o + pad - r) / stride, where that is whole. */
    int64_t t = o + pad, lo = conv_most(0, t - (size - 1) * g->stride);
    lo += ((t - lo) % g->stride + g->stride) % g->stride;
    return (gather_taps){lo, conv_least(window, t + 1), g->stride, (t - lo) / g->stride, -1};
}

/* Do pixels `apart` from each other have the same taps, and these, unless they are laid out, lie
 * side by side? */
static bool same_taps(const gather *g, const gather_taps *a, const gather_taps *b, int64_t apart) {
    return a->lo == b->lo && a->hi == b->hi &&
           (g->laid || b->at == a->at + apart * (g->copied ? g->stride : 1));
}

static bool is_laid(const op_map *from, int64_t group, int64_t taps, bool back) {
    return !back && from->blocks == 1 && group == from->channels && group < FEW &&
           taps * group >= LEAST_LAID;
}

/* The most pixels of a run. */
static int64_t run_pixels(const gather *g) {
    int64_t rows = g->from_group <= OP_MAP_CHANNELS && !g->laid ? LONG_ROWS : RUN_ROWS;
    return conv_most(1, rows / g->to.images);
}

/* How many pixels of a row have their windows laid out together: whole runs. */
static int64_t laid_pixels(const gather *g, int64_t window) {
    const op_map *to = &g->to;
    int64_t run = run_pixels(g);
    return conv_least(to->wide, conv_most(1, LAID_FLOATS / (window * to->images) / run) * run);
}

/* What follows from the sizes. */
static gather gather_sized(const op_conv *v, bool back) {
    gather g = {.from = back ? v->y : v->x,
                .to = back ? v->x : v->y,
                .from_group = back ? v->outputs : v->inputs,
                .to_group = back ? v->inputs : v->outputs,
                .window_y = v->high,
                .window_x = v->wide,
                .stride = v->stride,
                .pad_y = v->pad_y,
                .pad_x = v->pad_x,
                .back = back};
    g.laid = is_laid(&g.from, g.from_group, g.window_y * g.window_x, back);
    g.copied = !back && !g.laid && v->stride > 1 && v->groups == 1 && v->y.blocks > 1;
    if (v->high == 1 && v->wide == 1 && v->stride == 1 && v->pad_y == 0 && v->pad_x == 0) {
        g.from.wide *= g.from.high; /* all pixels are one row */
        g.to.wide *= g.to.high;
        g.from.high = g.to.high = 1;
    }
    return g;
}

static gather gather_of(const op_call *call, bool back) {
    const op_view *from = &call->in[1], *to = &call->out[0], *start = &call->in[0];
    op_conv v = op_conv_of(back ? &to->type : &from->type, &call->in[2].type,
                           back ? &from->type : &to->type, call->attr);
    gather g = gather_sized(&v, back);
    g.from_pitch = op_map_pitch(from);
    g.to_pitch = op_map_pitch(to);
    g.start_pitch = back && start->data != NULL ? op_map_pitch(start) : 0;
    g.source = from->data;
    g.weights = call->in[2].data;
    g.start = start->data;
    g.result = to->data;
    return g;
}

/* ---- weights ---- */

/* Windows of one pixel: all channels of the operand at once. */
static void pack_points(const gather *g, const conv_engine *engine, const conv_piece *tile,
                        float *panel) {
    int64_t group = tile->begin / g->to_group, wide = conv_round_lanes(tile->len);
    if (!g->back) {
        engine->transpose(panel, wide, g->weights + tile->begin * g->from_group, g->from_group,
                          tile->len, g->from_group);
        return;
    }
    const float *from =
        g->weights + group * g->from_group * g->to_group + tile->begin % g->to_group;
    for (int64_t c = 0; c < g->from_group; c++) {
        memcpy(panel + c * wide, from + c * g->to_group, (size_t)tile->len * sizeof(float));
    }
}

/* Forward, channels [at, at + len) of the operand: some of their taps are turned at a time, in the
 * order in which they lie, and put where they belong. */
static void pack_piece(const gather *g, const conv_engine *engine, const conv_piece *tile,
                       int64_t at, int64_t len, float *to) {
    enum { TURNED = 8 };
    float turned[TURNED * OP_MAP_CHANNELS];
    int64_t taps = g->window_y * g->window_x, wide = conv_round_lanes(tile->len);
    const float *from = g->weights + (tile->begin * g->from_group + at) * taps;
    for (int64_t i = 0; i < len * taps; i += TURNED) {
        int64_t count = conv_least(TURNED, len * taps - i);
        engine->transpose(turned, OP_MAP_CHANNELS, from + i, g->from_group * taps, tile->len,
                          count);
        for (int64_t j = 0; j < count; j++) {
            int64_t c = (i + j) / taps, tap = (i + j) % taps;
            memcpy(to + (tap * len + c) * wide, turned + j * OP_MAP_CHANNELS,
                   (size_t)tile->len * sizeof(float));
        }
    }
}

/* [piece][r][s][channel of the operand][lane of the tile], rows of a multiple of 8 lanes. */
static void pack(const gather *g, const conv_engine *engine, const conv_piece *tile, float *panel) {
    int64_t taps = g->window_y * g->window_x, wide = conv_round_lanes(tile->len);
    int64_t group = tile->begin / g->to_group, in_group = tile->begin % g->to_group;
    conv_piece p = {.len = 0};
    if (taps == 1) {
        pack_points(g, engine, tile, panel);
        return;
    }
    for (int64_t at = 0; at < g->from_group; at += p.len) {
        p = conv_piece_at(&g->from, group * g->from_group, g->from_group, at);
        float *to = panel + at * taps * wide;
        if (!g->back) {
            pack_piece(g, engine, tile, at, p.len, to);
        }
        for (int64_t c = 0; g->back && c < p.len; c++) {
            int64_t k = group * g->from_group + at + c;
            engine->transpose(to + c * wide, p.len * wide,
                              g->weights + (k * g->to_group + in_group) * taps, taps, tile->len,
                              taps);
        }
    }
}

/* ---- one strip ---- */

/* Rows [y0, y1) of a tile of channels of one group of images, of which pixels [x0, x1). */
typedef struct strip {
    conv_piece tile;
    int64_t images, y0, y1, x0, x1; /* not all pixels if it is one row */
    const float *panel;
    /* Of a member: windows, [pixel of the strip][image][r][s][channel], of which taps outside are
     * not written; or rows, [block][row], from a first block and a first row on. */
    float *own;
    int64_t block, row, rows;
} strip;

/* Where the sums of a run of pixels begin, from what they start: lanes that are not all of a block
 * row by row, a row for each image of a pixel. */
static void start_run(const gather *g, const strip *s, int64_t pixels, float *out) {
    int64_t rows = pixels * g->to.images, wide = g->to.channels, len = s->tile.len;
    const float *from = g->start;
    if (g->back && from != NULL) {
        from += s->images * g->start_pitch + (out - g->result - s->images * g->to_pitch);
    } else if (from != NULL) {
        from += s->tile.begin;
    }
    if (len == wide && (g->back || from == NULL)) {
        len = wide *= rows;
        rows = 1;
    }
    for (int64_t i = 0; i < rows; i++) {
        if (from == NULL) {
            memset(out + i * wide, 0, (size_t)len * sizeof(float));
        } else if (!g->back || from != out) {
            memcpy(out + i * wide, from + (g->back ? i * wide : 0), (size_t)len * sizeof(float));
        }
    }
}

/* Where pixel (y, x) of a block of the operand is. */
static const float *pixel_of(const gather *g, const strip *s, int64_t block, int64_t y, int64_t x) {
    int64_t pixel = op_map_pixel(&g->from);
    if (g->copied) {
        int64_t row = (block - s->block) * s->rows + y - s->row;
        return s->own + (row * conv_copied_wide(g->from.wide, g->stride) +
                         conv_copied_at(g->from.wide, g->stride, x)) *
                            pixel;
    }
    return g->source + s->images * g->from_pitch + block * op_map_block(&g->from) +
           (y * g->from.wide + x) * pixel;
}

/* Tap (r, t) of the channels [begin, end), a block of the chain, at pixel (y, x) of the operand. */
static void push_tap(const gather *g, const strip *s, conv_codes *codes, conv_list *list,
                     int64_t tap, int64_t y, int64_t x, int64_t begin, int64_t end) {
    int64_t taps = g->window_y * g->window_x, wide = list->tile.a_row;
    int64_t first = s->tile.begin / g->to_group * g->from_group;
    conv_piece p = {.len = 0};
    for (int64_t at = begin; at < end; at += p.len) {
        p = conv_piece_at(&g->from, first, g->from_group, at);
        conv_push(codes, list, s->panel + (at * taps + tap * p.len) * wide,
                  pixel_of(g, s, p.block, y, x) + p.lane, p.len, CONV_MOST_TILES);
    }
}

/* ---- rows copied ---- */

/* What a strip reads of the channels [begin, end). */
static void copy_rows(const gather *g, const strip *s, int64_t end) {
    int64_t last = (s->y1 - 1) * g->stride - g->pad_y + g->window_y;
    int64_t wide = conv_copied_wide(g->from.wide, g->stride) * op_map_pixel(&g->from);
    for (int64_t block = s->block; block * g->from.channels < end; block++) {
        for (int64_t y = s->row; y < conv_least(last, g->from.high); y++) {
            if ((y + g->pad_y) % g->stride < g->window_y) {
                const float *from = g->source + s->images * g->from_pitch +
                                    block * op_map_block(&g->from) +
                                    y * g->from.wide * op_map_pixel(&g->from);
                ebb__conv_copy_row(&g->from, g->stride, g->window_x, g->pad_x, from,
                                   s->own + ((block - s->block) * s->rows + y - s->row) * wide);
            }
        }
    }
}

/* ---- windows laid out ---- */

/* `count` pixels of one image, `apart` floats from each other, side by side. */
static inline void lay_taps(float *to, const float *from, int64_t count, int64_t apart,
                            size_t bytes, int64_t channels) {
    for (int64_t i = 0; i < count; i++) {
        memcpy(to + i * channels, from + i * apart, bytes);
    }
}

static void lay_row(const gather *g, const gather_taps *x, const float *from, float *to) {
    int64_t channels = g->from.channels, apart = op_map_pixel(&g->from), count = x->hi - x->lo;
    if (channels == 3) { /* of a size that is known */
        lay_taps(to, from, count, apart, 3 * sizeof(float), 3);
    } else {
        lay_taps(to, from, count, apart, (size_t)channels * sizeof(float), channels);
    }
}

/* The windows of a strip of one row. */
static void lay(const gather *g, const strip *s) {
    int64_t n = g->to.images, c = g->from.channels, window = g->window_y * g->window_x * c;
    gather_taps y = taps_of(g, s->y0, g->from.high, g->window_y, g->pad_y);
    for (int64_t ox = s->x0; ox < s->x1; ox++) {
        gather_taps x = taps_of(g, ox, g->from.wide, g->window_x, g->pad_x);
        for (int64_t r = y.lo; r < y.hi; r++) {
            int64_t pixel = (y.at + r - y.lo) * g->from.wide + x.at;
            const float *from =
                g->source + s->images * g->from_pitch + pixel * op_map_pixel(&g->from);
            float *to = s->own + (ox - s->x0) * n * window + (r * g->window_x + x.lo) * c;
            for (int64_t i = 0; i < n; i++) {
                lay_row(g, &x, from + i * c, to + i * window);
            }
        }
    }
}

/* Taps of the run of pixels from ox on: those of a row, or of all rows, are one product. */
static void add_laid(const gather *g, const strip *s, conv_codes *codes, const gather_taps *y,
                     const gather_taps *x, conv_list *list, int64_t ox) {
    int64_t c = g->from.channels, window = list->tile.b_row, wide = g->window_x;
    bool all = x->lo == 0 && x->hi == wide;
    int64_t rows = y->hi - y->lo, taps = all ? rows * wide : x->hi - x->lo;
    const float *laid = s->own + (ox - s->x0) * g->to.images * window;
    for (int64_t i = 0; i < (all ? 1 : rows) && taps > 0; i++) {
        int64_t at = ((y->lo + i) * wide + x->lo) * c;
        conv_push(codes, list, s->panel + at * list->tile.a_row, laid + at, taps * c,
                  CONV_MOST_TILES);
    }
    conv_flush(codes, list);
}

/* ---- runs and rows ---- */

/* Channels [begin, end) of the operand, for the run of pixels of the list with the taps y and x. */
static void add_run(const gather *g, const strip *s, conv_codes *codes, const gather_taps *y,
                    const gather_taps *x, conv_list *list, int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; block += OP_MAP_CHANNELS) {
        int64_t iy = y->at, stop = conv_least(end, block + OP_MAP_CHANNELS);
        for (int64_t r = y->lo; r < y->hi; r += y->step, iy += y->move) {
            int64_t ix = x->at;
            for (int64_t t = x->lo; t < x->hi; t += x->step, ix += x->move) {
                push_tap(g, s, codes, list, r * g->window_x + t, iy, ix, block, stop);
            }
        }
    }
    conv_flush(codes, list);
}

/* Channels [begin, end) of the operand, for one row of the result. */
static void add_row(const gather *g, const strip *s, conv_codes *codes, int64_t oy, int64_t begin,
                    int64_t end) {
    gather_taps y = taps_of(g, oy, g->from.high, g->window_y, g->pad_y), x, next;
    int64_t limit = run_pixels(g);
    conv_list list = {.tile = {.lanes = s->tile.len,
                               .a_row = conv_round_lanes(s->tile.len),
                               .b_row = g->from.channels,
                               .out_row = g->to.channels}};
    if (g->laid) {
        list.tile.b_row *= g->window_y * g->window_x;
    }
    float *row = g->result + s->images * g->to_pitch + s->tile.block * op_map_block(&g->to) +
                 oy * g->to.wide * op_map_pixel(&g->to) + s->tile.lane;
    for (int64_t ox = s->x0, run; ox < s->x1; ox += run) {
        x = taps_of(g, ox, g->from.wide, g->window_x, g->pad_x);
        for (run = 1; run < limit && ox + run < s->x1; run++) {
            next = taps_of(g, ox + run, g->from.wide, g->window_x, g->pad_x);
            if (!same_taps(g, &x, &next, run)) {
                break;
            }
        }
        list.out = row + ox * op_map_pixel(&g->to);
        list.tile.rows = run * g->to.images;
        if (begin == 0 && !codes->engine->dry) {
            start_run(g, s, run, list.out);
        }
        if (g->laid) {
            add_laid(g, s, codes, &y, &x, &list, ox);
        } else {
            add_run(g, s, codes, &y, &x, &list, begin, end);
        }
    }
}

/* ---- how work is cut ---- */

/* How many rows and pixels of them a strip has, and how many channels of the operand go over it at
 * a time. */
typedef struct strips {
    int64_t rows, wide, channels;
    int64_t high, each; /* strips along the rows; of a group of images */
    bool by_channels;   /* some channels of all tiles, then the next */
    int64_t copied;     /* rows of the operand that are copied */
    int64_t own;        /* floats of a member beside weights */
} strips;

/* Rows of the operand that `rows` rows of the result read. */
static int64_t rows_read(const gather *g, int64_t rows) {
    return conv_least(g->from.high, (rows - 1) * g->stride + g->window_y);
}

static void cut_copied(const gather *g, strips *s) {
    int64_t lanes = g->from.channels, blocks = (s->channels + lanes - 2) / lanes + 1;
    int64_t row = blocks * conv_copied_wide(g->from.wide, g->stride) * op_map_pixel(&g->from);
    s->rows = conv_most(1, (COPY_FLOATS / row - g->window_y) / g->stride + 1);
    s->rows = conv_least(s->rows, g->to.high);
    s->copied = rows_read(g, s->rows);
    s->own = s->copied * row;
}

static strips strips_of(const gather *g) {
    int64_t taps = g->window_y * g->window_x, pixel = op_map_pixel(&g->to);
    strips s = {.wide = g->to.wide, .by_channels = taps == 1 || g->copied};
    s.channels = conv_most(1, (taps == 1 ? POINT_TILES : STRETCH_TILES) / taps);
    s.channels = conv_least(s.channels * OP_MAP_CHANNELS, g->from_group);
    int64_t pixels = STRIP_FLOATS / pixel;
    if (s.by_channels) {
        pixels = POINT_FLOATS / (s.channels * g->to.images);
    }
    if (s.by_channels && g->to.high == 1) { /* whole runs */
        int64_t run = run_pixels(g);
        s.wide = conv_least(s.wide, conv_most(1, pixels / run) * run);
    }
    s.rows = conv_most(1, pixels / g->to.wide);
    if (g->laid) {
        s.wide = laid_pixels(g, taps * g->from_group);
        s.rows = 1;
        s.own = s.wide * g->to.images * taps * g->from_group;
    } else if (g->copied) {
        s.wide = g->to.wide;
        cut_copied(g, &s);
    }
    s.high = (g->to.high + s.rows - 1) / s.rows;
    s.each = s.high * ((g->to.wide + s.wide - 1) / s.wide);
    return s;
}

/* ---- the kernel ---- */

/* Tiles whose weights are held together. */
typedef struct held {
    conv_piece tiles[MOST_HELD];
    int64_t count, most, floats; /* floats: of a tile's weights */
    float *panels, *own;
} held;

static held held_of(const gather *g) {
    int64_t taps = g->window_y * g->window_x;
    int64_t tiles =
        conv_tile_count(&g->to, g->to_group, OP_MAP_CHANNELS, 0, op_map_channels(&g->to));
    held h = {.floats = g->from_group * taps *
                        conv_round_lanes(conv_least(g->to.channels, OP_MAP_CHANNELS))};
    int64_t room = (taps == 1 || g->copied ? POINT_HELD : HELD_FLOATS) / h.floats;
    h.most = conv_most(1, conv_least(tiles, conv_least(room, MOST_HELD)));
    return h;
}

/* Of a member: weights, then windows or rows. */
static int64_t member_floats(const held *h, const strips *cut) {
    return h->most * h->floats + cut->own;
}

static gather gather_of_node(const ir_graph *graph, const ir_node_rec *node) {
    const ir_type *from = op_in_type(graph, node, 1), *to = &graph->values[node->out].type;
    bool back = node->op == OP_CONV_DATA;
    op_conv v =
        op_conv_of(back ? to : from, op_in_type(graph, node, 2), back ? from : to, &node->attr);
    return gather_sized(&v, back);
}

size_t ebb__conv_gather_bytes(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                              int members) {
    gather g = gather_of_node(graph, node);
    strips cut = strips_of(&g);
    held h = held_of(&g);
    (void)form;
    return (size_t)(members * member_floats(&h, &cut)) * sizeof(float);
}

/* As many times all tiles' weights are held as it takes. */
static int64_t rounds_of(const gather *g, const held *h) {
    int64_t tiles =
        conv_tile_count(&g->to, g->to_group, OP_MAP_CHANNELS, 0, op_map_channels(&g->to));
    return (tiles + h->most - 1) / h->most;
}

/* A share packs the weights of its tiles, which takes as long as the products of about 40 rows: it
 * has strips enough for that not to show. */
int32_t ebb__conv_gather_shares(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                                int members) {
    enum { MOST_SHARES = 4, SHARE_ROWS = 4096 };
    gather g = gather_of_node(graph, node);
    strips cut = strips_of(&g);
    held h = held_of(&g);
    int64_t rows = conv_least(cut.rows, g.to.high) * conv_least(cut.wide, g.to.wide) * g.to.images;
    int64_t units = rounds_of(&g, &h) * cut.each * g.to.groups;
    int64_t each = units * rows / SHARE_ROWS / members;
    (void)form;
    return cpu_shares(members, each, MOST_SHARES);
}

/* One strip of all tiles that are held. */
static void add_strip(const gather *g, const strips *cut, const held *h, int64_t unit,
                      conv_codes *codes) {
    int64_t y = unit % cut->high * cut->rows, x = unit / cut->high % (cut->each / cut->high);
    int64_t stretches = (g->from_group + cut->channels - 1) / cut->channels;
    strip s = {.images = unit / cut->each,
               .y0 = y,
               .y1 = conv_least(g->to.high, y + cut->rows),
               .x0 = x * cut->wide,
               .x1 = conv_least(g->to.wide, (x + 1) * cut->wide),
               .own = h->own,
               .row = conv_most(0, y * g->stride - g->pad_y),
               .rows = cut->copied};
    if (g->laid && !codes->engine->dry) {
        lay(g, &s);
    }
    for (int64_t i = 0; i < h->count * stretches; i++) {
        int64_t tile = cut->by_channels ? i % h->count : i / stretches;
        int64_t begin = (cut->by_channels ? i / h->count : i % stretches) * cut->channels;
        s.tile = h->tiles[tile];
        s.panel = h->panels + tile * h->floats;
        s.block = begin / g->from.channels;
        int64_t end = conv_least(g->from_group, begin + cut->channels);
        if (g->copied && tile == 0 && !codes->engine->dry) {
            copy_rows(g, &s, end);
        }
        for (y = s.y0; y < s.y1; y++) {
            add_row(g, &s, codes, y, begin, end);
        }
    }
}

/* Strips [begin, end) of all groups of images, for the tiles from channel `at` on whose weights are
 * held together; gives the channel behind them. */
static int64_t add_tiles(const gather *g, const strips *cut, held *h, int64_t at, int64_t begin,
                         int64_t end, conv_codes *codes) {
    for (h->count = 0; h->count < h->most && at < op_map_channels(&g->to); h->count++) {
        conv_piece *tile = &h->tiles[h->count];
        *tile = conv_tile_at(&g->to, g->to_group, OP_MAP_CHANNELS, at);
        if (begin < end && !codes->engine->dry) {
            pack(g, codes->engine, tile, h->panels + h->count * h->floats);
        }
        at += tile->len;
    }
    for (int64_t u = begin; u < end; u++) {
        add_strip(g, cut, h, u, codes);
    }
    return at;
}

void ebb__conv_gather(const op_call *call, conv_codes *codes, bool back) {
    gather g = gather_of(call, back);
    strips cut = strips_of(&g);
    held h = held_of(&g);
    int64_t channels = op_map_channels(&g.to), each = cut.each * g.to.groups, begin, end;
    h.panels = (float *)call->workspace + call->worker * member_floats(&h, &cut);
    h.own = h.panels + h.most * h.floats;
    ebb__team_share(rounds_of(&g, &h) * each, 1, call->member, call->members, &begin, &end);
    for (int64_t at = 0, first = 0; at < channels; first += each) {
        at = add_tiles(&g, &cut, &h, at, conv_most(begin - first, 0), conv_least(end - first, each),
                       codes);
    }
}

/* ---- for both loops ---- */

void ebb__conv_copy_row(const op_map *x, int64_t stride, int64_t window, int64_t pad,
                        const float *from, float *to) {
    int64_t pixel = op_map_pixel(x);
    for (int64_t s = 0; s < conv_least(window, stride); s++) {
        int64_t first = ((s - pad) % stride + stride) % stride;
        float *at = to + conv_copied_at(x->wide, stride, first) * pixel;
        for (int64_t ix = first; ix < x->wide; ix += stride, at += pixel) {
            memcpy(at, from + ix * pixel, (size_t)pixel * sizeof(float));
        }
    }
}
