/* conv_weights.c - the gradient of a convolution's weights: for every tap, channels of dy times
 * channels of x, summed over all images and pixels in the order of the specification.
 *
 * Sums of up to 32 channels of each side lie in tiles, one a tap, [channel of x][channel of dy],
 * taken from the weights' sums so far and put back in the end. A unit is several tiles of channels
 * of both sides, so that what is read of either, or expanded of x, serves many products: strips of
 * rows that fit a cache go through all of them before the next. Members share units. */
#include "device/cpu/conv_cut.h"

#include "base/host.h"
#include "base/team.h"

#include <string.h>

enum { DEEP = 128 }; /* images and pixels that one product sums over, about */

/* Taps [t0, t1) of tiles of dy and tiles of x. */
typedef struct unit {
    conv_piece k[CONV_MOST_SIDE], c[CONV_MOST_SIDE];
    int64_t n_k, n_c, t0, t1;
} unit;

/* Rows of x that a source wrote, of each tile and each group of images: row y is at y % ring. Where
 * a stride would leave pixels out between those that a tap reads, they are copies: pixels of the
 * same remainder lie side by side. */
typedef struct held {
    float *rows;                 /* NULL: x is read where it lies */
    int64_t ring, groups, first; /* the first of the groups held */
    int64_t next;                /* rows from here on are not there yet */
    bool copied;                 /* by remainders */
} held;

/* What a member works with. */
typedef struct work {
    const conv_sums *s;
    conv_codes *codes;
    conv_cut cut;
    conv_cut_sizes size;
    float *tiles;
    held held;
} work;

/* Rows [y0, y1) of dy, of which pixels [x0, x1); not all of them if it is one row. */
typedef struct strip {
    int64_t y0, y1, x0, x1;
} strip;

conv_sums ebb__conv_sums_of(const op_call *call, const ir_type *x) {
    const op_view *dy = &call->in[1], *out = &call->out[0];
    return (conv_sums){.v = op_conv_of(x, &out->type, &dy->type, call->attr),
                       .dy = dy->data,
                       .dy_pitch = op_map_pitch(dy),
                       .start = call->in[0].data,
                       .result = out->data};
}

/* ---- tiles from and to [K, C, R, S] ---- */

/* The tiles of dy's k and x's c, one a tap. */
static float *tiles_at(const work *w, const unit *u, int64_t k, int64_t c) {
    return w->tiles + (k * u->n_c + c) * (u->t1 - u->t0) * w->size.tile_floats;
}

static int64_t weight_at(const op_conv *v, const conv_piece *k, const conv_piece *c, int64_t tap) {
    return (k->begin * v->inputs + c->begin % v->inputs) * conv_taps(v) + tap;
}

/* Sums of a pair of tiles lie [tap][c][k] here and [k][c][tap] among the weights: those that follow
 * each other there are turned some at a time. Where all taps are the unit's, that goes on over the
 * channels of x. */
enum { TURNED = 8 };

/* Number i of the `count` taps of channels that follow each other: where it lies in the tiles. */
static int64_t tile_at(const unit *u, const conv_piece *c, int64_t i) {
    int64_t count = u->t1 - u->t0;
    return i % count * c->len + i / count;
}

static void load_pair(const work *w, const unit *u, int64_t i, int64_t j) {
    const conv_piece *k = &u->k[i], *c = &u->c[j];
    const op_conv *v = &w->s->v;
    float *to = tiles_at(w, u, i, j), turned[TURNED * OP_MAP_CHANNELS];
    int64_t taps = conv_taps(v), count = u->t1 - u->t0, run = count == taps ? c->len * taps : count;
    if (w->s->start == NULL) {
        memset(to, 0, (size_t)(c->len * k->len * count) * sizeof(float));
        return;
    }
    const float *from = w->s->start + weight_at(v, k, c, u->t0);
    for (int64_t at = 0, n; at < c->len * count; at += n) {
        n = conv_least(TURNED, run - at % run);
        w->codes->engine->transpose(turned, k->len, from + at / run * taps + at % run,
                                    v->inputs * taps, k->len, n);
        for (int64_t t = 0; t < n; t++) {
            memcpy(to + tile_at(u, c, at + t) * k->len, turned + t * k->len,
                   (size_t)k->len * sizeof(float));
        }
    }
}

static void store_pair(const work *w, const unit *u, int64_t i, int64_t j) {
    const conv_piece *k = &u->k[i], *c = &u->c[j];
    const op_conv *v = &w->s->v;
    const float *from = tiles_at(w, u, i, j);
    float *to = w->s->result + weight_at(v, k, c, u->t0), turned[TURNED * OP_MAP_CHANNELS];
    int64_t taps = conv_taps(v), count = u->t1 - u->t0, run = count == taps ? c->len * taps : count;
    for (int64_t at = 0, n; at < c->len * count; at += n) {
        n = conv_least(TURNED, run - at % run);
        for (int64_t t = 0; t < n; t++) {
            memcpy(turned + t * k->len, from + tile_at(u, c, at + t) * k->len,
                   (size_t)k->len * sizeof(float));
        }
        w->codes->engine->transpose(to + at / run * taps + at % run, v->inputs * taps, turned,
                                    k->len, n, k->len);
    }
}

static void each_pair(const work *w, const unit *u,
                      void (*move)(const work *, const unit *, int64_t, int64_t)) {
    for (int64_t i = 0; i < u->n_k && !w->codes->engine->dry; i++) {
        for (int64_t j = 0; j < u->n_c; j++) {
            move(w, u, i, j);
        }
    }
}

/* ---- rows of x ---- */

/* Row y of tile c of x, of a group of images. */
static float *held_row(const work *w, int64_t c, int64_t group, int64_t y) {
    const held *h = &w->held;
    int64_t row = (c * h->groups + group - h->first) * h->ring + y % h->ring;
    return h->rows + row * w->size.row_floats;
}

/* Where pixel ix of a row is, in pixels. */
static int64_t pixel_at(const work *w, int64_t ix) {
    const op_conv *v = &w->s->v;
    return w->held.copied ? conv_copied_at(v->x.wide, v->stride, ix) : ix;
}

/* The same where it lies. */
static const float *plain_row(const work *w, const conv_piece *c, int64_t group, int64_t y) {
    const op_map *x = &w->s->v.x;
    return w->s->x + group * w->s->x_pitch + c->block * op_map_block(x) +
           y * x->wide * op_map_pixel(x);
}

/* Whichever it is, from the tile's first channel on. */
static const float *x_row_at(const work *w, const unit *u, int64_t c, int64_t group, int64_t y) {
    return (w->held.rows != NULL ? held_row(w, c, group, y) : plain_row(w, &u->c[c], group, y)) +
           u->c[c].lane;
}

/* A pixel of a tile of dy, of a group of images. */
static const float *dy_at(const work *w, const conv_piece *k, int64_t group, int64_t y, int64_t x) {
    const op_map *m = &w->s->v.y;
    return w->s->dy + group * w->s->dy_pitch + k->block * op_map_block(m) + k->lane +
           (y * m->wide + x) * op_map_pixel(m);
}

/* Writes what rows [y0, y1) of dy need of x and is not there yet. */
static void hold(work *w, const unit *u, int64_t y0, int64_t y1, int64_t last_group) {
    const op_conv *v = &w->s->v;
    held *h = &w->held;
    for (int64_t i = 0; i < (y1 - y0) * v->high; i++) {
        int64_t y = (y0 + i / v->high) * v->stride + i % v->high - v->pad_y;
        if (y < h->next || y >= v->x.high) {
            continue;
        }
        for (int64_t c = 0; c < u->n_c; c++) {
            for (int64_t g = h->first; g <= last_group; g++) {
                if (h->copied) {
                    ebb__conv_copy_row(&v->x, v->stride, v->wide, v->pad_x,
                                       plain_row(w, &u->c[c], g, y), held_row(w, c, g, y));
                } else {
                    w->s->source->row(w->s->source, g, &u->c[c], y, held_row(w, c, g, y));
                }
            }
        }
        h->next = y + 1;
    }
}

/* ---- sums ---- */

/* Images [first, first + count) of the lanes of one group: the next part of a chain at a pixel. */
typedef struct lanes {
    int64_t group, first, count;
} lanes;

static lanes lanes_at(const op_conv *v, int64_t image, int64_t end) {
    int64_t n = v->x.images, first = image % n;
    return (lanes){image / n, first, conv_least(n - first, end - image)};
}

/* One tap of a pair of tiles: k of dy and c of x. */
typedef struct tap {
    int64_t k, c, r, s;
    conv_list list;
} tap;

/* Pixels [ox, ox + pixels) of row oy of dy and what the tap reads of x for them. */
static void push_pixels(const work *w, const unit *u, tap *t, const lanes *l, int64_t oy,
                        int64_t ox, int64_t pixels) {
    const op_conv *v = &w->s->v;
    int64_t iy = oy * v->stride + t->r - v->pad_y, ix = ox * v->stride + t->s - v->pad_x;
    int64_t deep = pixels * l->count;
    const float *a = dy_at(w, &u->k[t->k], l->group, oy, ox) + l->first * v->y.channels;
    const float *b = x_row_at(w, u, t->c, l->group, iy) + pixel_at(w, ix) * op_map_pixel(&v->x) +
                     l->first * v->x.channels;
    conv_push(w->codes, &t->list, a, b, deep, conv_most(1, DEEP / deep));
}

/* The pixels of a row where the tap falls on the image. */
static void row_range(const op_conv *v, const tap *t, int64_t *lo, int64_t *hi) {
    int64_t left = v->pad_x - t->s, right = v->x.wide + left; /* ox * stride is below this */
    *lo = left > 0 ? conv_up(left, v->stride) : 0;
    *hi = right > 0 ? conv_least(v->y.wide, conv_up(right, v->stride)) : 0;
}

/* Pixels of a row that one product takes, about. */
static int64_t piece_pixels(const op_conv *v) {
    return conv_up(v->y.wide, conv_up((int64_t)v->y.wide * v->x.images, DEEP));
}

/* Pixels [lo, hi) of row oy of images [image, end): pixel after pixel; side by side where one
 * group's lanes are all of these images, in pieces that do not depend on how strips are cut. */
static void add_row(const work *w, const unit *u, tap *t, int64_t oy, int64_t lo, int64_t hi,
                    int64_t image, int64_t end) {
    const op_conv *v = &w->s->v;
    lanes l = lanes_at(v, image, end);
    if ((v->stride == 1 || w->held.copied) && l.count == v->x.images && l.count == end - image) {
        int64_t piece = piece_pixels(v);
        for (int64_t ox = lo, next; ox < hi; ox = next) {
            next = conv_least(hi, (ox / piece + 1) * piece);
            push_pixels(w, u, t, &l, oy, ox, next - ox);
        }
        return;
    }
    for (int64_t ox = lo; ox < hi; ox++) {
        for (int64_t i = image; i < end; i += l.count) {
            l = lanes_at(v, i, end);
            push_pixels(w, u, t, &l, oy, ox, 1);
        }
    }
}

/* A strip of one pair of tiles, tap after tap. */
static void add_pair(const work *w, const unit *u, const strip *p, int64_t k, int64_t c,
                     int64_t image, int64_t end) {
    const op_conv *v = &w->s->v;
    int64_t k_len = u->k[k].len, c_len = u->c[c].len, lo, hi;
    for (int64_t i = u->t0; i < u->t1; i++) {
        tap t = {k,
                 c,
                 i / v->wide,
                 i % v->wide,
                 {.tile = {.lanes = k_len,
                           .rows = c_len,
                           .a_row = v->y.channels,
                           .b_row = v->x.channels,
                           .out_row = k_len,
                           .across = true},
                  .out = tiles_at(w, u, k, c) + (i - u->t0) * c_len * k_len}};
        row_range(v, &t, &lo, &hi);
        lo = conv_most(lo, p->x0);
        hi = conv_least(hi, p->x1);
        for (int64_t oy = p->y0; oy < p->y1; oy++) {
            int64_t iy = oy * v->stride + t.r - v->pad_y;
            if (iy >= 0 && iy < v->x.high) {
                add_row(w, u, &t, oy, lo, hi, image, end);
            }
        }
        conv_flush(w->codes, &t.list);
    }
}

/* ---- several taps of a row at once ---- */

/* Whether the machine has code for it, and a group's lanes are all images of the chain, so that
 * pixels follow each other. */
static bool by_rows(const work *w, const unit *u, int64_t k, int64_t c, int64_t image,
                    int64_t end) {
    const op_conv *v = &w->s->v;
    return w->codes->engine->row != NULL && v->wide > 1 && v->stride == 1 &&
           v->y.channels == CONV_ROW_LANES && u->k[k].len == CONV_ROW_LANES &&
           u->c[c].len % CONV_LEAST_LANES == 0 && end - image == v->x.images &&
           ebb__host_cpu()->avx512f;
}

/* Pixels [lo, hi) of row iy of x, which meet dy's row oy by all of the taps. */
static void add_pixels(const work *w, const unit *u, conv_row *row, int64_t k, int64_t c,
                       int64_t at, int64_t oy, int64_t lo, int64_t hi, int64_t group) {
    const op_conv *v = &w->s->v;
    int64_t iy = oy + at / v->wide - v->pad_y;
    int64_t ox = lo + v->pad_x - at % v->wide;
    row->deep = (hi - lo) * v->x.images;
    row->x = x_row_at(w, u, c, group, iy) + lo * op_map_pixel(&v->x);
    row->dy = dy_at(w, &u->k[k], group, oy, ox);
    row->out = tiles_at(w, u, k, c) + (at - u->t0) * row->tap;
    w->codes->engine->row(row);
}

/* Taps [at, at + count) of one row of the window, for pixels [x0, x1) of dy's row oy: where pixels
 * of x meet fewer of the taps, at the ends, those. Pixel ix meets ox by tap ix - ox + pad. */
static void add_taps(const work *w, const unit *u, conv_row *row, int64_t k, int64_t c, int64_t at,
                     int64_t count, const strip *p, int64_t oy, int64_t group) {
    const op_conv *v = &w->s->v;
    int64_t first = at % v->wide, last = first + count - 1;
    int64_t lo = conv_most(0, p->x0 + first - v->pad_x);
    int64_t hi = conv_least(v->x.wide, p->x1 + last - v->pad_x);
    for (int64_t ix = lo, next; ix < hi; ix = next) {
        /* Taps from `a` to `b` lead to pixels [x0, x1) of dy. */
        int64_t a = conv_most(first, ix + v->pad_x - p->x1 + 1);
        int64_t b = conv_least(last, ix + v->pad_x - p->x0);
        bool all = a == first && b == last;
        next = all ? conv_least(hi, p->x1 + first - v->pad_x) : ix + 1;
        row->taps = b - a + 1;
        if (row->taps > 0) {
            add_pixels(w, u, row, k, c, at + a - first, oy, ix, next, group);
        }
    }
}

/* A strip of one pair of tiles. */
static void add_pair_rows(const work *w, const unit *u, const strip *p, int64_t k, int64_t c,
                          int64_t image) {
    const op_conv *v = &w->s->v;
    conv_row row = {.rows = u->c[c].len,
                    .x_row = v->x.channels,
                    .dy_back = op_map_pixel(&v->y),
                    .tap = u->k[k].len * u->c[c].len,
                    .x_ahead = w->held.rows != NULL ? 0 : v->x.wide * op_map_pixel(&v->x),
                    .dy_ahead = v->y.wide * op_map_pixel(&v->y)};
    for (int64_t oy = p->y0; oy < p->y1; oy++) {
        for (int64_t t = u->t0, next; t < u->t1; t = next) {
            int64_t iy = oy + t / v->wide - v->pad_y, end = (t / v->wide + 1) * v->wide;
            next = conv_least(conv_least(u->t1, end), t + CONV_ROW_TAPS);
            if (iy >= 0 && iy < v->x.high) {
                add_taps(w, u, &row, k, c, t, next - t, p, oy, image / v->x.images);
            }
        }
    }
}

static void add_strip(const work *w, const unit *u, const strip *p, int64_t image, int64_t end) {
    for (int64_t k = 0; k < u->n_k; k++) {
        for (int64_t c = 0; c < u->n_c; c++) {
            if (by_rows(w, u, k, c, image, end)) {
                add_pair_rows(w, u, p, k, c, image);
            } else {
                add_pair(w, u, p, k, c, image, end);
            }
        }
    }
}

/* Strips of whole rows or, where one row is too much, of pixels. */
static void add_images(work *w, const unit *u, int64_t image, int64_t end) {
    const op_conv *v = &w->s->v;
    int64_t rows = w->size.strip_rows, wide = v->y.wide;
    if (rows == 1) {
        int64_t piece = piece_pixels(v), most = w->size.strip_pixels;
        wide = conv_most(1, most / piece) * piece;
    }
    w->held.first = image / v->x.images;
    w->held.next = 0;
    for (int64_t y = 0; y < v->y.high; y += rows) {
        strip p = {.y0 = y, .y1 = conv_least(v->y.high, y + rows)};
        if (w->held.rows != NULL && !w->codes->engine->dry) {
            hold(w, u, p.y0, p.y1, (end - 1) / v->x.images);
        }
        for (; p.x0 < v->y.wide; p.x0 = p.x1) {
            p.x1 = conv_least(v->y.wide, p.x0 + wide);
            add_strip(w, u, &p, image, end);
        }
    }
}

/* ---- the kernel ---- */

static void add_unit(work *w, const unit *u) {
    int64_t images = op_map_images(&w->s->v.x);
    each_pair(w, u, load_pair);
    for (int64_t image = 0; image < images; image += OP_MAP_IMAGES) {
        add_images(w, u, image, conv_least(images, image + OP_MAP_IMAGES));
    }
    each_pair(w, u, store_pair);
}

/* Up to `most` tiles, so wide at most, from a channel on, below `end`; gives the channel behind
 * them.
 */
static int64_t take(const op_map *m, int64_t of_group, int64_t wide, int64_t begin, int64_t end,
                    int64_t most, conv_piece *pieces, int64_t *count) {
    for (*count = 0; *count < most && begin < end; begin += pieces[(*count)++].len) {
        pieces[*count] = conv_tile_at(m, of_group, wide, begin);
    }
    return begin;
}

/* Of a group of channels those of units [begin, end) that it has; `number` counts units. */
static void add_group(work *w, int64_t group, int64_t begin, int64_t end, int64_t *number) {
    const op_conv *v = &w->s->v;
    const conv_cut *cut = &w->cut;
    int64_t k_end = (group + 1) * v->outputs, c_end = (group + 1) * v->inputs;
    unit u;
    for (int64_t k = group * v->outputs; k < k_end;) {
        k = take(&v->y, v->outputs, OP_MAP_CHANNELS, k, k_end, cut->k, u.k, &u.n_k);
        for (int64_t c = group * v->inputs; c < c_end;) {
            c = take(&v->x, v->inputs, cut->lanes, c, c_end, cut->c, u.c, &u.n_c);
            for (int64_t part = 0; part < cut->parts; part++, (*number)++) {
                u.t0 = conv_taps(v) * part / cut->parts;
                u.t1 = conv_taps(v) * (part + 1) / cut->parts;
                if (*number >= begin && *number < end) {
                    add_unit(w, &u);
                }
            }
        }
    }
}

/* Where every pixel meets its own only and none is expanded, all of them are one row. */
static void join_rows(conv_sums *s) {
    op_conv *v = &s->v;
    if (s->source == NULL && conv_taps(v) == 1 && v->stride == 1 && v->pad_y == 0 &&
        v->pad_x == 0) {
        v->x.wide *= v->x.high;
        v->y.wide *= v->y.high;
        v->x.high = v->y.high = 1;
    }
}

void ebb__conv_sums_add(const conv_sums *sums, const op_call *call, conv_codes *codes) {
    conv_sums s = *sums;
    bool copied = s.source == NULL && ebb__conv_copies(&s.v), holds = s.source != NULL || copied;
    int64_t begin, end, number = 0;
    join_rows(&s);
    work w = {.s = &s, .codes = codes, .cut = ebb__conv_cut_of(&s.v, holds, call->members)};
    w.size = ebb__conv_cut_sizes(&s.v, holds, &w.cut);
    w.tiles = (float *)call->workspace + call->member * w.size.member_floats;
    if (holds) {
        w.held = (held){.rows = w.tiles + w.size.sums_floats,
                        .ring = w.size.ring_rows,
                        .groups = w.size.groups_held,
                        .copied = copied};
    }
    ebb__team_share(w.size.units, 1, call->member, call->members, &begin, &end);
    for (int64_t g = 0; g < s.v.groups; g++) {
        add_group(&w, g, begin, end, &number);
    }
}

/* ---- x as it lies ---- */

size_t ebb__conv_weights_bytes(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                               int members) {
    (void)form;
    op_conv v = op_conv_of(op_in_type(graph, node, 2), &graph->values[node->out].type,
                           op_in_type(graph, node, 1), &node->attr);
    return ebb__conv_sums_bytes(&v, false, members);
}

void ebb__conv_weights(const op_call *call, conv_codes *codes) {
    conv_sums s = ebb__conv_sums_of(call, &call->in[2].type);
    s.x = call->in[2].data;
    s.x_pitch = op_map_pitch(&call->in[2]);
    ebb__conv_sums_add(&s, call, codes);
}
