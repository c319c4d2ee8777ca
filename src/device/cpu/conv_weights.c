/* conv_weights.c - the gradient of a convolution's weights: for every tap, channels of dy times
 * channels of x, summed over all images and pixels in the order of the specification.
 *
 * Sums of up to 32 channels of each side lie in tiles, one a tap, [channel of x][channel of dy],
 * taken from the weights' sums so far and put back in the end. Strips of rows that fit a cache go
 * through all taps before the next. Members share pairs of tiles of channels and, where these are
 * few, taps. */
#include "device/cpu/conv.h"

#include "base/team.h"

#include <string.h>

enum {
    DEEP = 128,             /* images and pixels that one product sums over, about */
    STRIP_FLOATS = 3 << 14, /* of dy and of x, in a strip */
    ENOUGH = 4,             /* units a member, beyond which taps are not shared out */
};

typedef struct sums {
    op_conv v;
    const float *dy, *x;
    int64_t dy_pitch, x_pitch;
    const float *start; /* [K, C, R, S]; NULL: zeros */
    float *result;
} sums;

/* Taps [t0, t1) of tiles k of dy and c of x. */
typedef struct unit {
    conv_piece k, c;
    int64_t t0, t1;
    float *tiles;
} unit;

static sums sums_of(const op_call *call) {
    const op_view *dy = &call->in[1], *x = &call->in[2], *out = &call->out[0];
    return (sums){.v = op_conv_of(&x->type, &out->type, &dy->type, call->attr),
                  .dy = dy->data,
                  .x = x->data,
                  .dy_pitch = op_map_pitch(dy),
                  .x_pitch = op_map_pitch(x),
                  .start = call->in[0].data,
                  .result = out->data};
}

/* ---- tiles from and to [K, C, R, S] ---- */

static int64_t weight_at(const sums *s, const unit *u, int64_t c) {
    int64_t taps = (int64_t)s->v.high * s->v.wide, in_group = u->c.begin % s->v.inputs;
    return (u->k.begin * s->v.inputs + in_group + c) * taps + u->t0;
}

static void load_tiles(const sums *s, const unit *u, const conv_engine *engine) {
    int64_t taps = (int64_t)s->v.high * s->v.wide, tile = u->c.len * u->k.len;
    if (s->start == NULL) {
        memset(u->tiles, 0, (size_t)(tile * (u->t1 - u->t0)) * sizeof(float));
        return;
    }
    for (int64_t c = 0; c < u->c.len; c++) {
        engine->transpose(u->tiles + c * u->k.len, tile, s->start + weight_at(s, u, c),
                          s->v.inputs * taps, u->k.len, u->t1 - u->t0);
    }
}

static void store_tiles(const sums *s, const unit *u, const conv_engine *engine) {
    int64_t taps = (int64_t)s->v.high * s->v.wide, tile = u->c.len * u->k.len;
    for (int64_t c = 0; c < u->c.len; c++) {
        engine->transpose(s->result + weight_at(s, u, c), s->v.inputs * taps,
                          u->tiles + c * u->k.len, tile, u->t1 - u->t0, u->k.len);
    }
}

/* ---- sums ---- */

/* Images [first, first + count) of the lanes of one group: the next part of a chain at a pixel. */
typedef struct lanes {
    int64_t group, first, count;
} lanes;

static lanes lanes_at(const sums *s, int64_t image, int64_t end) {
    int64_t n = s->v.x.images, first = image % n;
    return (lanes){image / n, first, conv_least(n - first, end - image)};
}

/* Pixels [ox, ox + pixels) of row oy of dy and what tap (r, t) reads of x for them. */
static void push_pixels(const sums *s, const unit *u, conv_codes *codes, conv_list *list,
                        const lanes *l, int64_t oy, int64_t ox, int64_t tap, int64_t pixels) {
    const op_map *y = &s->v.y, *x = &s->v.x;
    int64_t iy = oy * s->v.stride + tap / s->v.wide - s->v.pad_y;
    int64_t ix = ox * s->v.stride + tap % s->v.wide - s->v.pad_x, deep = pixels * l->count;
    const float *a = s->dy + l->group * s->dy_pitch + u->k.block * op_map_block(y) + u->k.lane +
                     (oy * y->wide + ox) * op_map_pixel(y) + l->first * y->channels;
    const float *b = s->x + l->group * s->x_pitch + u->c.block * op_map_block(x) + u->c.lane +
                     (iy * x->wide + ix) * op_map_pixel(x) + l->first * x->channels;
    conv_push(codes, list, a, b, deep, conv_most(1, DEEP / deep));
}

/* The pixels of a row where the tap falls on the image. */
static void row_range(const sums *s, int64_t tap, int64_t *lo, int64_t *hi) {
    int64_t left = s->v.pad_x - tap % s->v.wide, stride = s->v.stride;
    int64_t right = s->v.x.wide + left; /* ox * stride must be below this */
    *lo = left > 0 ? (left + stride - 1) / stride : 0;
    *hi = right > 0 ? conv_least(s->v.y.wide, (right + stride - 1) / stride) : 0;
}

/* Row oy of images [image, end): pixel after pixel; side by side where one group's lanes are all of
 * these images. */
static void add_row(const sums *s, const unit *u, conv_codes *codes, conv_list *list, int64_t oy,
                    int64_t tap, int64_t image, int64_t end) {
    int64_t lo, hi, iy = oy * s->v.stride + tap / s->v.wide - s->v.pad_y;
    lanes l = lanes_at(s, image, end);
    row_range(s, tap, &lo, &hi);
    if (iy < 0 || iy >= s->v.x.high || lo >= hi) {
        return;
    }
    if (s->v.stride == 1 && l.count == s->v.x.images && l.count == end - image) {
        int64_t chunks = ((hi - lo) * l.count + DEEP - 1) / DEEP;
        int64_t chunk = (hi - lo + chunks - 1) / chunks;
        for (int64_t ox = lo; ox < hi; ox += chunk) {
            push_pixels(s, u, codes, list, &l, oy, ox, tap, conv_least(chunk, hi - ox));
        }
        return;
    }
    for (int64_t ox = lo; ox < hi; ox++) {
        for (int64_t i = image; i < end; i += l.count) {
            l = lanes_at(s, i, end);
            push_pixels(s, u, codes, list, &l, oy, ox, tap, 1);
        }
    }
}

static void add_images(const sums *s, const unit *u, conv_codes *codes, int64_t image,
                       int64_t end) {
    int64_t row = (end - image) * s->v.y.wide * (u->k.len + u->c.len * s->v.stride);
    int64_t strip = conv_most(1, STRIP_FLOATS / row);
    conv_list list = {.tile = {.lanes = u->k.len,
                               .rows = u->c.len,
                               .a_row = s->v.y.channels,
                               .b_row = s->v.x.channels,
                               .out_row = u->k.len,
                               .across = true}};
    for (int64_t y = 0; y < s->v.y.high; y += strip) {
        for (int64_t tap = u->t0; tap < u->t1; tap++) {
            list.out = u->tiles + (tap - u->t0) * u->c.len * u->k.len;
            for (int64_t oy = y; oy < conv_least(s->v.y.high, y + strip); oy++) {
                add_row(s, u, codes, &list, oy, tap, image, end);
            }
            conv_flush(codes, &list);
        }
    }
}

/* ---- the kernel ---- */

/* Pairs of a tile of dy and a tile of x in the same group of channels. */
static int64_t pair_count(const op_conv *v) {
    int64_t pairs = 0;
    for (int64_t g = 0; g < v->groups; g++) {
        pairs += conv_tile_count(&v->y, v->outputs, g * v->outputs, (g + 1) * v->outputs) *
                 conv_tile_count(&v->x, v->inputs, g * v->inputs, (g + 1) * v->inputs);
    }
    return pairs;
}

static int64_t tile_floats(const op_conv *v) {
    return (int64_t)v->high * v->wide * OP_MAP_CHANNELS * OP_MAP_CHANNELS;
}

size_t ebb__conv_weights_bytes(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                               int members) {
    (void)form;
    op_conv v = op_conv_of(op_in_type(graph, node, 2), &graph->values[node->out].type,
                           op_in_type(graph, node, 1), &node->attr);
    return (size_t)members * (size_t)tile_floats(&v) * sizeof(float);
}

static void add_unit(const sums *s, const unit *u, conv_codes *codes) {
    int64_t images = op_map_images(&s->v.x);
    if (!codes->engine->dry) {
        load_tiles(s, u, codes->engine);
    }
    for (int64_t image = 0; image < images; image += OP_MAP_IMAGES) {
        add_images(s, u, codes, image, conv_least(images, image + OP_MAP_IMAGES));
    }
    if (!codes->engine->dry) {
        store_tiles(s, u, codes->engine);
    }
}

/* Units [begin, end), of which each pair has `parts`, each of some taps. */
static void add_units(const sums *s, conv_codes *codes, float *tiles, int64_t parts, int64_t begin,
                      int64_t end) {
    const op_conv *v = &s->v;
    int64_t taps = (int64_t)v->high * v->wide, number = 0;
    unit u = {.tiles = tiles};
    for (int64_t k = 0; k < op_map_channels(&v->y); k += u.k.len) {
        u.k = conv_tile_at(&v->y, v->outputs, k);
        int64_t first = k / v->outputs * v->inputs;
        for (int64_t c = first; c < first + v->inputs; c += u.c.len) {
            u.c = conv_tile_at(&v->x, v->inputs, c);
            for (int64_t part = 0; part < parts; part++, number++) {
                u.t0 = taps * part / parts;
                u.t1 = taps * (part + 1) / parts;
                if (number >= begin && number < end) {
                    add_unit(s, &u, codes);
                }
            }
        }
    }
}

void ebb__conv_weights(const op_call *call, conv_codes *codes) {
    sums s = sums_of(call);
    int64_t pairs = pair_count(&s.v), wanted = (int64_t)ENOUGH * call->members, begin, end;
    int64_t parts = conv_least((int64_t)s.v.high * s.v.wide, (wanted + pairs - 1) / pairs);
    ebb__team_share(pairs * parts, 1, call->member, call->members, &begin, &end);
    add_units(&s, codes, (float *)call->workspace + call->member * tile_floats(&s.v), parts, begin,
              end);
}
