/* batch_body.h - batch norm and its pieces over the vectors of vec.h. The includer defines
 * CPU_FN(name).
 *
 * Sums run over groups of 8 images, which members share; the last of them adds up the groups. What
 * is done element by element is shared by rows of pixels. Channels are taken by the bundle, whose
 * numbers are on the stack. */
#include "base/team.h"
#include "device/cpu/cpu.h"
#include "device/cpu/vec.h"
#include "op/batch_norm.h"

#include <string.h>

enum { BUNDLE = 64 }; /* channels whose sums or numbers are held at once */
enum {
    TILE_FLOATS = 1024
};                  /* of each map, gone through strip after strip while they are in cache */
enum { STRIP = 4 }; /* vectors of doubles in one strip of channels */
enum {
    AHEAD = 2048
}; /* floats that are fetched from memory so long before they are summed: what
      the machine fetches by itself ends with a page */

/* ---- sums ------------------------------------------------------------------------------------ */

/* A bundle of channels in up to 8 images: where they begin, and how far apart pixels lie. */
typedef struct batch_images {
    const float *x[OP_MAP_IMAGES], *dy[OP_MAP_IMAGES];
    int64_t count, apart;
} batch_images;

/* Two sums for every channel of a bundle, and what the second of them needs. */
typedef struct batch_sums {
    double sum[2][BUNDLE];
    const float *mean, *scale; /* NULL: of x and its squares, not of dy */
} batch_sums;

/* Pixels [lo, hi) of the channels [c, c + vectors * WIDE) of the bundle. */
static INLINE void add_strip(const batch_images *in, batch_sums *s, int64_t lo, int64_t hi,
                             int64_t c, int vectors, bool grad) {
    vd sum[STRIP], other[STRIP];
    for (int v = 0; v < vectors; v++) {
        sum[v] = vd_load(s->sum[0] + c + v * WIDE);
        other[v] = vd_load(s->sum[1] + c + v * WIDE);
    }
    for (int64_t at = lo * in->apart + c; at < hi * in->apart; at += in->apart) {
        for (int64_t i = 0; i < in->count; i++) {
            __builtin_prefetch(in->x[i] + at + AHEAD);
            if (grad) {
                __builtin_prefetch(in->dy[i] + at + AHEAD);
            }
            for (int v = 0; v < vectors; v++) {
                vh x = vh_load(in->x[i] + at + v * WIDE), a = x;
                if (grad) {
                    a = vh_load(in->dy[i] + at + v * WIDE);
                    x = (x - vh_load(s->mean + c + v * WIDE)) * vh_load(s->scale + c + v * WIDE);
                }
                sum[v] += vd_wide(a);
                other[v] = vd_fma(vd_wide(a), vd_wide(x), other[v]);
            }
        }
    }
    for (int v = 0; v < vectors; v++) {
        vd_store(s->sum[0] + c + v * WIDE, sum[v]);
        vd_store(s->sum[1] + c + v * WIDE, other[v]);
    }
}

/* The same for one channel. */
static INLINE void add_lane(const batch_images *in, batch_sums *s, int64_t lo, int64_t hi,
                            int64_t c, bool grad) {
    double sum = s->sum[0][c], other = s->sum[1][c];
    for (int64_t at = lo * in->apart + c; at < hi * in->apart; at += in->apart) {
        for (int64_t i = 0; i < in->count; i++) {
            float x = in->x[i][at], a = x;
            if (grad) {
                a = in->dy[i][at];
                x = (x - s->mean[c]) * s->scale[c];
            }
            sum += (double)a;
            other += (double)a * (double)x;
        }
    }
    s->sum[0][c] = sum;
    s->sum[1][c] = other;
}

/* Pixels [lo, hi) of all `n` channels of the bundle. */
static INLINE void add_tile(const batch_images *in, batch_sums *s, int64_t lo, int64_t hi,
                            int64_t n, bool grad) {
    int64_t c = 0;
    for (; c + STRIP * WIDE <= n; c += STRIP * WIDE) {
        add_strip(in, s, lo, hi, c, STRIP, grad);
    }
    for (; c + 2 * WIDE <= n; c += 2 * WIDE) {
        add_strip(in, s, lo, hi, c, 2, grad);
    }
    for (; c + WIDE <= n; c += WIDE) {
        add_strip(in, s, lo, hi, c, 1, grad);
    }
    for (; c < n; c++) {
        add_lane(in, s, lo, hi, c, grad);
    }
}

/* A group of 8 images, or what is left of the last, from image `first` on; channel k is the first
 * of the bundle. */
static batch_images images_at(const op_view *x, const op_view *dy, int64_t first, int64_t k) {
    op_map m = op_map_of(&x->type);
    int64_t left = op_map_images(&m) - first;
    batch_images in = {.count = left < OP_MAP_IMAGES ? left : OP_MAP_IMAGES,
                       .apart = op_map_pixel(&m)};
    for (int64_t i = 0; i < in.count; i++) {
        in.x[i] = (const float *)x->data + op_map_at(&m, op_map_pitch(x), first + i, k, 0, 0);
        in.dy[i] = dy == NULL ? NULL
                              : (const float *)dy->data +
                                    op_map_at(&m, op_map_pitch(dy), first + i, k, 0, 0);
    }
    return in;
}

/* The sums of `n` channels from k on over one group of images: one chain each. */
static void sum_group(const op_view *x, const op_view *dy, int64_t group, int64_t k, int64_t n,
                      batch_sums *part) {
    op_map m = op_map_of(&x->type);
    int64_t pixels = (int64_t)m.high * m.wide, step = TILE_FLOATS / op_map_pixel(&m);
    batch_images in = images_at(x, dy, group * OP_MAP_IMAGES, k);
    step = step > 0 ? step : 1;
    for (int64_t lo = 0; lo < pixels; lo += step) {
        int64_t hi = lo + step < pixels ? lo + step : pixels;
        if (dy != NULL) {
            add_tile(&in, part, lo, hi, n, true);
        } else {
            add_tile(&in, part, lo, hi, n, false);
        }
    }
}

static INLINE void add_sums(batch_sums *total, const double *plain, const double *other,
                            int64_t n) {
    for (int64_t c = 0; c < n; c++) {
        total->sum[0][c] += plain[c];
        total->sum[1][c] += other[c];
    }
}

/* The same over all groups, added ascending. */
static void sum_bundle(const op_view *x, int64_t k, int64_t n, batch_sums *total) {
    op_map m = op_map_of(&x->type);
    for (int64_t g = 0; g < op_map_chains(&m); g++) {
        batch_sums part = {.mean = NULL};
        sum_group(x, NULL, g, k, n, &part);
        add_sums(total, part.sum[0], part.sum[1], n);
    }
}

/* Row r of a table for channels, from channel k on. */
static inline float *table_row(const op_view *table, int64_t r, int64_t k) {
    return (float *)table->data + r * table->type.dim[1] + k;
}

/* Where the sums of a group lie in the workspace, [groups][2][channels]. */
static double *sums_at(const op_call *call, const op_map *m, int64_t group, int row, int64_t k) {
    return (double *)call->workspace + (group * 2 + row) * op_map_channels(m) + k;
}

/* A share of the groups' sums of some channels of one block, by units: blocks of a group before the
 * next group. Where there are more shares than that, parts of blocks. True for who ends last. */
static bool sum_units(const op_call *call, const op_view *x, const op_view *dy,
                      const op_view *stat) {
    op_map m = op_map_of(&x->type);
    int64_t begin, end, groups = op_map_chains(&m),
                        lanes = m.channels < BUNDLE ? m.channels : BUNDLE;
    lanes = groups * m.blocks < call->members && lanes % VLEN == 0 ? VLEN : lanes;
    int64_t parts = (m.channels + lanes - 1) / lanes, row = m.blocks * parts;
    ebb__team_share(groups * row, 1, call->member, call->members, &begin, &end);
    for (int64_t u = begin; u < end; u++) {
        int64_t lane = u % parts * lanes, k = u % row / parts * m.channels + lane;
        int64_t n = m.channels - lane < lanes ? m.channels - lane : lanes;
        batch_sums part = {.mean = NULL};
        if (dy != NULL) {
            part.mean = table_row(stat, STAT_MEAN, k);
            part.scale = table_row(stat, STAT_SCALE, k);
        }
        sum_group(x, dy, u / row, k, n, &part);
        for (int r = 0; r < 2; r++) {
            memcpy(sums_at(call, &m, u / row, r, k), part.sum[r], (size_t)n * sizeof(double));
        }
    }
    return op_last_share(call);
}

/* All groups' sums of n channels from k on, added ascending. */
static void fold_groups(const op_call *call, const op_map *m, int64_t k, int64_t n,
                        batch_sums *total) {
    for (int64_t g = 0; g < op_map_chains(m); g++) {
        add_sums(total, sums_at(call, m, g, 0, k), sums_at(call, m, g, 1, k), n);
    }
}

/* A member's share of channels, as bundles that lie in one block each: [k, k + n). */
typedef struct batch_bundles {
    int64_t k, n, next, end, lanes;
} batch_bundles;

static batch_bundles bundles_all(const op_map *m) {
    return (batch_bundles){.lanes = m->channels, .end = op_map_channels(m)};
}

static batch_bundles bundles_start(const op_call *call, const op_map *m) {
    batch_bundles it = bundles_all(m);
    ebb__team_share(op_map_channels(m), m->channels % 8 == 0 ? 8 : 1, call->member, call->members,
                    &it.next, &it.end);
    return it;
}

static bool bundles_next(batch_bundles *it) {
    int64_t block = it->lanes - it->next % it->lanes, left = it->end - it->next;
    it->k = it->next;
    it->n = block < left ? block : left;
    it->n = it->n < BUNDLE ? it->n : BUNDLE;
    it->next += it->n;
    return it->n > 0;
}

/* The statistics of a bundle whose sums are known. */
static void put_stat(const op_call *call, const op_view *stat, const batch_sums *s, int64_t k,
                     int64_t n) {
    op_map m = op_map_of(&call->in[0].type);
    double count = op_batch_count(&m, op_map_images(&m));
    for (int64_t c = 0; c < n; c++) {
        op_moments of =
            op_batch_moments(s->sum[0][c], s->sum[1][c], count, (double)call->attr->f[BATCH_EPS]);
        for (int r = 0; r < STAT_ROWS; r++) {
            *table_row(stat, r, k + c) = (float)of.stat[r];
        }
    }
}

void CPU_FN(batch_stat)(const op_call *call) {
    op_map m = op_map_of(&call->in[0].type);
    if (!sum_units(call, &call->in[0], NULL, NULL)) {
        return;
    }
    for (batch_bundles it = bundles_all(&m); bundles_next(&it);) {
        batch_sums s = {.mean = NULL};
        fold_groups(call, &m, it.k, it.n, &s);
        put_stat(call, &call->out[0], &s, it.k, it.n);
    }
}

/* dy, x, stat. */
void CPU_FN(batch_grad_sums)(const op_call *call) {
    op_map m = op_map_of(&call->in[1].type);
    if (!sum_units(call, &call->in[1], &call->in[0], &call->in[2])) {
        return;
    }
    for (batch_bundles it = bundles_all(&m); bundles_next(&it);) {
        batch_sums s = {.mean = NULL};
        double *sums = (double *)call->out[0].data + it.k;
        fold_groups(call, &m, it.k, it.n, &s);
        memcpy(sums, s.sum[SUMS_PLAIN], (size_t)it.n * sizeof(double));
        memcpy(sums + op_map_channels(&m), s.sum[SUMS_HAT], (size_t)it.n * sizeof(double));
    }
}

/* ---- element by element ---------------------------------------------------------------------- */

/* The numbers of `run` floats that follow each other: some channels, or all channels of a block as
 * often as there is room. What `gain` and `bias` are, the formula says. */
typedef struct batch_numbers {
    float mean[BUNDLE], scale[BUNDLE], gain[BUNDLE], bias[BUNDLE], slope[BUNDLE];
    int64_t run;
} batch_numbers;

/* Rows of `run` floats of one group and block, `apart` floats from one to the next. */
typedef struct batch_rows {
    const float *x, *dy;
    float *out;
    int64_t count, apart;
} batch_rows;

static void apply_rows(const batch_numbers *b, const batch_rows *r) {
    for (int64_t i = 0; i < r->count; i++) {
        const float *x = r->x + i * r->apart;
        float *out = r->out + i * r->apart;
#define APPLY_STEP(j, m)                                                                           \
    do {                                                                                           \
        vf hat = (v_load(x + (j), m) - v_load(b->mean + (j), m)) * v_load(b->scale + (j), m);      \
        v_store(out + (j), v_fma(hat, v_load(b->gain + (j), m), v_load(b->bias + (j), m)), m);     \
    } while (0)
        EACH_VECTOR(b->run, APPLY_STEP);
    }
}

/* gain: gain * scale; bias and slope: the means of dy, and of dy times the normalised x. */
static void grad_rows(const batch_numbers *b, const batch_rows *r) {
    for (int64_t i = 0; i < r->count; i++) {
        const float *x = r->x + i * r->apart, *dy = r->dy + i * r->apart;
        float *out = r->out + i * r->apart;
#define GRAD_STEP(j, m)                                                                            \
    do {                                                                                           \
        vf hat = (v_load(x + (j), m) - v_load(b->mean + (j), m)) * v_load(b->scale + (j), m);      \
        vf d = v_load(dy + (j), m) - v_load(b->bias + (j), m);                                     \
        v_store(out + (j), v_load(b->gain + (j), m) * v_fma(-hat, v_load(b->slope + (j), m), d),   \
                m);                                                                                \
    } while (0)
        EACH_VECTOR(b->run, GRAD_STEP);
    }
}

/* n channels from k on. */
static void apply_numbers(batch_numbers *b, const op_view *stat, const float *gain,
                          const float *bias, int64_t k, int64_t n) {
    for (int64_t c = 0; c < n; c++) {
        b->mean[c] = *table_row(stat, STAT_MEAN, k + c);
        b->scale[c] = *table_row(stat, STAT_SCALE, k + c);
        b->gain[c] = gain[k + c];
        b->bias[c] = bias[k + c];
        b->slope[c] = 0.0f;
    }
    b->run = n;
}

/* dy, x, stat, gain, sums. */
static void grad_numbers(batch_numbers *b, const op_call *call, int64_t k, int64_t n) {
    op_map m = op_map_of(&call->in[0].type);
    const float *gain = call->in[3].data;
    const double *sums = call->in[4].data;
    double count = op_batch_count(&m, call->attr->i[BATCH_IMAGES]);
    for (int64_t c = 0; c < n; c++) {
        b->mean[c] = *table_row(&call->in[2], STAT_MEAN, k + c);
        b->scale[c] = *table_row(&call->in[2], STAT_SCALE, k + c);
        b->gain[c] = gain[k + c] * b->scale[c];
        b->bias[c] = (float)(sums[k + c] / count);
        b->slope[c] = (float)(sums[op_map_channels(&m) + k + c] / count);
    }
    b->run = n;
}

/* Where all channels of a block fit more than once, images that follow each other become one run.
 */
static void repeat_numbers(batch_numbers *b, const op_map *m) {
    int64_t n = b->run, times = BUNDLE / n;
    while (m->images % times != 0) {
        times--;
    }
    for (int64_t c = n; c < n * times; c++) {
        b->mean[c] = b->mean[c - n];
        b->scale[c] = b->scale[c - n];
        b->gain[c] = b->gain[c - n];
        b->bias[c] = b->bias[c - n];
        b->slope[c] = b->slope[c - n];
    }
    b->run = n * times;
}

/* Rows [first, last) of pixels of a group, channels from k on; all of the block's if it has no more
 * than run. x is operand x, dy the first if there is one. */
static batch_rows rows_at(const op_call *call, int32_t x, int64_t group, int64_t k, int64_t first,
                          int64_t last, int64_t run) {
    const op_view *view[] = {&call->in[x], &call->in[0], &call->out[0]};
    op_map m = op_map_of(&call->out[0].type);
    float *at[3];
    for (int i = 0; i < 3; i++) {
        int64_t image = group * m.images;
        at[i] = (float *)view[i]->data + op_map_at(&m, op_map_pitch(view[i]), image, k, first, 0);
    }
    int64_t apart = run > m.channels ? run : m.channels;
    int64_t count = (last - first) * m.wide * op_map_pixel(&m) / apart;
    return (batch_rows){at[0], at[1], at[2], count, apart};
}

/* A member's rows of pixels: for every group and block that it has some of, bundle by bundle. */
static INLINE void each_rows(const op_call *call, bool grad) {
    op_map m = op_map_of(&call->out[0].type);
    int64_t begin, end, next;
    ebb__team_share(op_map_rows(&m), 1, call->member, call->members, &begin, &end);
    if (call->hi > 0) {
        begin = call->lo;
        end = call->hi;
    }
    for (int64_t at = begin; at < end; at = next) {
        int64_t plane = at / m.high, first = at % m.high;
        next = (plane + 1) * m.high < end ? (plane + 1) * m.high : end;
        for (int64_t c = 0; c < m.channels; c += BUNDLE) {
            int64_t k = plane % m.blocks * m.channels + c;
            int64_t n = m.channels - c < BUNDLE ? m.channels - c : BUNDLE;
            batch_numbers b;
            if (grad) {
                grad_numbers(&b, call, k, n);
            } else {
                apply_numbers(&b, &call->in[1], call->in[2].data, call->in[3].data, k, n);
            }
            if (n == m.channels) {
                repeat_numbers(&b, &m);
            }
            batch_rows r =
                rows_at(call, grad ? 1 : 0, plane / m.blocks, k, first, first + next - at, b.run);
            (grad ? grad_rows : apply_rows)(&b, &r);
        }
    }
}

/* x, stat, gain, bias. */
void CPU_FN(batch_apply)(const op_call *call) {
    each_rows(call, false);
}

/* dy, x, stat, gain, sums. */
void CPU_FN(batch_grad)(const op_call *call) {
    each_rows(call, true);
}

/* x, gain, bias: members have channels, so that each finds its statistics before it needs them. */
void CPU_FN(batch_norm)(const op_call *call) {
    op_map m = op_map_of(&call->in[0].type);
    batch_bundles it = bundles_start(call, &m);
    while (bundles_next(&it)) {
        batch_numbers b;
        batch_sums s = {.mean = NULL};
        sum_bundle(&call->in[0], it.k, it.n, &s);
        put_stat(call, &call->out[1], &s, it.k, it.n);
        apply_numbers(&b, &call->out[1], call->in[1].data, call->in[2].data, it.k, it.n);
        if (it.n == m.channels) {
            repeat_numbers(&b, &m);
        }
        for (int64_t g = 0; g < m.groups; g++) {
            batch_rows r = rows_at(call, 0, g, it.k, 0, m.high, b.run);
            apply_rows(&b, &r);
        }
    }
}

/* ---- lists ----------------------------------------------------------------------------------- */

void CPU_FN(batch_grad_affine)(const op_call *call) {
    const double *sums = call->in[0].data;
    float *gain = call->out[0].data, *bias = call->out[1].data;
    int64_t channels = call->in[0].type.dim[1], begin, end;
    ebb__team_share(channels, 16, call->member, call->members, &begin, &end);
    for (int64_t c = begin; c < end; c++) {
        gain[c] = (float)sums[SUMS_HAT * channels + c];
        bias[c] = (float)sums[SUMS_PLAIN * channels + c];
    }
}

/* mean, var, stat. */
void CPU_FN(batch_track)(const op_call *call) {
    static const int row[] = {STAT_MEAN, STAT_VARIANCE};
    vf momentum = v_all(call->attr->f[BATCH_MOMENTUM]);
    int64_t begin, end;
    ebb__team_share(call->in[0].type.dim[0], 16, call->member, call->members, &begin, &end);
    for (int i = 0; i < 2; i++) {
        const float *old = (const float *)call->in[i].data + begin;
        const float *now = table_row(&call->in[2], row[i], begin);
        float *next = (float *)call->out[i].data + begin;
#define TRACK_STEP(j, m)                                                                           \
    do {                                                                                           \
        vf was = v_load(old + (j), m);                                                             \
        v_store(next + (j), v_fma(momentum, v_load(now + (j), m) - was, was), m);                  \
    } while (0)
        EACH_VECTOR(end - begin, TRACK_STEP);
    }
}

/* mean, var. */
void CPU_FN(batch_known)(const op_call *call) {
    const float *mean = call->in[0].data, *variance = call->in[1].data;
    const op_view *stat = &call->out[0];
    int64_t begin, end;
    ebb__team_share(stat->type.dim[1], 16, call->member, call->members, &begin, &end);
    for (int64_t c = begin; c < end; c++) {
        double inside = (double)variance[c] + (double)call->attr->f[BATCH_EPS];
        *table_row(stat, STAT_MEAN, c) = mean[c];
        *table_row(stat, STAT_SCALE, c) = (float)(1 / sqrt(inside));
        *table_row(stat, STAT_VARIANCE, c) = variance[c];
    }
}
