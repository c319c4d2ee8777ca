/* matmul_xsmm.c - matmul through kernels that libxsmm generates for the exact sizes of a call.
 *
 * libxsmm is column-major: our rows are its columns, so its A is a panel of 32 lanes and its B a
 * block of rows of the other side (matmul_form.h), transposed where k is the slow index. It cannot
 * transpose its A: panels against the grain are packed. Its kernels are serial fma chains over k
 * starting from the sums (beta = 1), whatever the remainders: the reference, bit for bit. Code is
 * generated when the graph is compiled. Where none comes (executable memory is forbidden, say) the
 * vector kernel runs instead; where memory has run out that is said.
 *
 * Two things are left to our own kernel (ebb__cpu_matmul_lanes): less than a panel, and forms that
 * fetch what follows while they compute. libxsmm's prefetches do not help on the machines seen, and
 * many at a time, between two of its kernels, are dropped.
 */
#ifndef EBB_NO_XSMM
#include "device/cpu/cpu.h"

#include "base/host.h"
#include "device/cpu/matmul_form.h"

#include <libxsmm.h>

/* Lanes of a kernel. libxsmm keeps 3 rows of sums, so narrow kernels are slow: 8 lanes take as long
 * as 16. ROW and PANELS leave what is not a whole panel to ebb__cpu_matmul_lanes; MINOR, whose sums
 * lie in a tile anyway, pads it with zeros, to 24 lanes at least, since libxsmm may split the
 * chains of fewer. */
enum { FULL, WIDE, HALF, PIECES };
static const int64_t piece_lanes[PIECES] = {32, 24, 16};

/* What prepare stores: all NULL if code could not be had, or none is needed. An index is 1 where
 * the last, smaller piece is meant. */
typedef struct xsmm_plan {
    libxsmm_smmfunction kernel[PIECES][2][2]; /* lanes, rows, depth */
} xsmm_plan;
_Static_assert(sizeof(xsmm_plan) <= DEVICE_PREPARED_BYTES, "plan does not fit");

/* The piece that takes what is left of a panel in MINOR. */
static int piece_of(int64_t lanes) {
    return lanes > 24 ? FULL : lanes > 16 ? WIDE : HALF;
}

/* One call under way. */
typedef struct xsmm_run {
    const xsmm_plan *plan;
    matmul_shape s;
    matmul_form f;
    float *panel, *block, *tile; /* of this member */
} xsmm_run;

const char *ebb__cpu_xsmm_version(void) {
    return LIBXSMM_VERSION;
}

/* ---- code ------------------------------------------------------------------------------------ */

/* Leading dimensions of a kernel, and whether k is the slow index of blocks. */
typedef struct xsmm_lead {
    int64_t lanes, blocks, sums;
    bool trans;
} xsmm_lead;

static xsmm_lead lead_of(const matmul_shape *s, const matmul_form *f) {
    xsmm_lead lead = {.lanes = MATMUL_LANES, .sums = MATMUL_LANES};
    if (f->side == MATMUL_MINOR) {
        lead.trans = !s->trans_b && !f->pack_blocks;
        lead.blocks = f->pack_blocks ? f->along : lead.trans ? s->b_row : s->b_col;
        return lead;
    }
    lead.trans = s->trans_a && !f->pack_blocks;
    lead.blocks = f->pack_blocks ? f->deep : lead.trans ? s->a_col : s->a_row;
    lead.sums = s->ldo;
    if (f->side == MATMUL_PANELS) {
        lead.lanes = s->panels.wide;
        lead.sums = s->panels.groups > 1 ? s->panels.wide : s->ldo;
    } else if (!f->pack_lanes) {
        lead.lanes = s->b_row;
    }
    return lead;
}

static libxsmm_smmfunction dispatch(int64_t wide, int64_t rows, int64_t deep,
                                    const xsmm_lead *lead) {
    const libxsmm_blasint lda = (libxsmm_blasint)lead->lanes;
    const libxsmm_blasint ldb = (libxsmm_blasint)lead->blocks;
    const libxsmm_blasint ldc = (libxsmm_blasint)lead->sums;
    const float one = 1.0f;
    const int flags = lead->trans ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
    const int prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
    return libxsmm_smmdispatch((libxsmm_blasint)wide, (libxsmm_blasint)rows, (libxsmm_blasint)deep,
                               &lda, &ldb, &ldc, &one, &one, &flags, &prefetch);
}

/* Lanes of a piece; 0 if no call can come to it. */
static int64_t lanes_in_use(const matmul_shape *s, const matmul_form *f, int piece) {
    if (f->ahead) {
        return 0;
    }
    if (f->side == MATMUL_MINOR) {
        return piece_lanes[piece];
    }
    if (f->side == MATMUL_PANELS && s->panels.groups > 1) {
        return piece == FULL ? s->panels.wide : 0;
    }
    return piece == FULL && s->n >= MATMUL_LANES ? MATMUL_LANES : 0;
}

ebb_status ebb__cpu_xsmm_prepare(ebb_ctx *ctx, const op_call *call, void *prepared) {
    matmul_size size = matmul_size_of(&call->in[1].type, &call->out[0].type, call->attr);
    matmul_shape s = matmul_shape_of(call);
    matmul_form f = ebb__cpu_matmul_form(&size, call->form);
    xsmm_plan plan = {0};
    bool ready = true;
    TRY(ebb__cpu_xsmm_start(ctx));
    int64_t blocked = f.side == MATMUL_MINOR ? s.n : s.m;
    const int64_t rows[2] = {f.rows, blocked % f.rows}, deep[2] = {f.deep, s.k % f.deep};
    for (int i = 0; i < PIECES * 4; i++) {
        int piece = i >> 2, r = i >> 1 & 1, d = i & 1;
        int64_t wide = lanes_in_use(&s, &f, piece);
        if (wide > 0 && rows[r] > 0 && deep[d] > 0) {
            xsmm_lead lead = lead_of(&s, &f);
            wide = ebb__cpu_xsmm_serial(wide, rows[r]) ? wide : piece_lanes[WIDE];
            plan.kernel[piece][r][d] = dispatch(wide, rows[r], deep[d], &lead);
            ready = ready && plan.kernel[piece][r][d] != NULL;
        }
    }
    if (!ready) {
        TRY(ebb__cpu_xsmm_no_code(ctx));
        plan = (xsmm_plan){0};
    }
    memcpy(prepared, &plan, sizeof plan);
    return EBB_OK;
}

/* Products of less than a panel have no code either: the vector kernel does as well. */
static bool is_ready(const xsmm_run *r) {
    return r->f.ahead || r->plan->kernel[FULL][0][0] != NULL;
}

/* ---- packing --------------------------------------------------------------------------------- */

/* Few lanes; the usual numbers as constants, which become vector moves. */
static inline void move_lanes(float *to, const float *from, int64_t lanes) {
    if (lanes == MATMUL_LANES) {
        memcpy(to, from, MATMUL_LANES * sizeof(float));
    } else if (lanes == MATMUL_GRAIN) {
        memcpy(to, from, MATMUL_GRAIN * sizeof(float));
    } else {
        memcpy(to, from, (size_t)lanes * sizeof(float));
    }
}

/* to[k][MATMUL_LANES] = from(lane, k) for `lanes` lanes and `deep` k, zeros up to `padded` lanes.
 * Lanes are `stride` apart, or neighbours with k `stride` apart if not `across`. */
static void pack_lanes(float *to, const float *from, int64_t stride, bool across, int64_t lanes,
                       int64_t padded, int64_t deep) {
    int64_t over = padded - lanes;
    for (int64_t k = 0; over > 0 && k < deep; k++) {
        memset(to + k * MATMUL_LANES + lanes, 0, (size_t)over * sizeof(float));
    }
    if (across) {
        ebb__cpu_transpose_block_avx2(to, MATMUL_LANES, from, stride, lanes, deep);
        return;
    }
    for (int64_t k = 0; k < deep; k++) {
        move_lanes(to + k * MATMUL_LANES, from + k * stride, lanes);
    }
}

/* ---- b packed by the op: panels ---------------------------------------------------------------*/

/* Sums of all groups of some units go through a tile: rows of panels.wide, every group in its
 * panels.lanes. Here rows [m, m + rows) from c, zeros where there are no units. */
static void tile_load(const xsmm_run *r, int64_t unit, int64_t wide, int64_t m, int64_t rows) {
    const op_panels *p = &r->s.panels;
    if (r->s.c == NULL || wide < p->lanes) {
        memset(r->tile, 0, (size_t)(rows * p->wide) * sizeof(float));
    }
    for (int64_t i = 0; i < rows && r->s.c != NULL; i++) {
        for (int64_t g = 0; g < p->groups; g++) {
            move_lanes(r->tile + i * p->wide + g * p->lanes,
                       r->s.c + (m + i) * r->s.c_row + g * p->units + unit, wide);
        }
    }
}

static void tile_store(const xsmm_run *r, int64_t unit, int64_t wide, int64_t m, int64_t rows) {
    const op_panels *p = &r->s.panels;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t g = 0; g < p->groups; g++) {
            move_lanes(r->s.out + (m + i) * r->s.ldo + g * p->units + unit,
                       r->tile + i * p->wide + g * p->lanes, wide);
        }
    }
}

/* All k of rows [m0, m1) for the lanes at b, added to sums whose rows are ld apart. */
static void panel_sums(const xsmm_run *r, const float *b, int64_t lanes, int64_t m0, int64_t m1,
                       float *sums, int64_t ld) {
    const matmul_shape *s = &r->s;
    int64_t wide = s->panels.wide, rows = r->f.rows;
    for (int64_t k = 0; k < s->k; k += r->f.deep) {
        int64_t deep = matmul_least(s->k - k, r->f.deep);
        const float *from = b + k * wide, *a = s->a + k;
        for (int64_t m = m0; lanes == wide && !r->f.ahead && m < m1; m += rows) {
            r->plan->kernel[FULL][m1 - m < rows][deep < r->f.deep](from, a + m * s->a_row,
                                                                   sums + (m - m0) * ld);
        }
        if (lanes < wide || r->f.ahead) {
            matmul_fetch next = matmul_fetch_of(from + deep * wide, r->f.ahead, deep * wide, 0);
            ebb__cpu_matmul_lanes_avx2(&(matmul_lanes){.a = a + m0 * s->a_row,
                                                       .b = from,
                                                       .out = sums,
                                                       .a_row = s->a_row,
                                                       .a_col = 1,
                                                       .b_row = wide,
                                                       .ldo = ld,
                                                       .rows = m1 - m0,
                                                       .lanes = lanes,
                                                       .deep = deep,
                                                       .fetch = &next});
        }
    }
}

/* Units [unit, unit + wide) of all groups, which are a panel. */
static void panel_groups(const xsmm_run *r, const float *b, int64_t unit, int64_t wide) {
    int64_t lanes = r->s.panels.wide;
    for (int64_t m = 0; m < r->s.m; m += r->f.reach) {
        int64_t end = matmul_least(r->s.m, m + r->f.reach);
        tile_load(r, unit, wide, m, end - m);
        panel_sums(r, b, lanes, m, end, r->tile, lanes);
        tile_store(r, unit, wide, m, end - m);
    }
}

/* Straight into the output: columns [n, n + wide), which are a panel or part of one. */
static void panel_columns(const xsmm_run *r, const float *b, int64_t n, int64_t wide) {
    const matmul_shape *s = &r->s;
    matmul_start(s, (matmul_part){0, s->m, n, n + wide});
    panel_sums(r, b, wide, 0, s->m, s->out + n, s->ldo);
}

static void run_panels(const xsmm_run *r, int64_t lo, int64_t hi) {
    const op_panels *p = &r->s.panels;
    for (int64_t unit = lo, wide; unit < hi; unit += wide) {
        int64_t lane = unit % p->lanes;
        const float *b = r->s.b + unit / p->lanes * r->s.b_row + lane;
        wide = matmul_least(hi - unit, p->lanes - lane);
        (p->groups > 1 ? panel_groups : panel_columns)(r, b, unit, wide);
    }
}

/* ---- lanes are columns of b ------------------------------------------------------------------ */

/* A stretch of k for a panel: the rows of a for it, from m on, and the panel after this one. */
typedef struct row_step {
    int64_t k, deep, m;
    const float *a;
    int64_t a_row;
    matmul_fetch next;
} row_step;

/* Some rows of a panel of columns; of less than a whole one, packed at b, all rows. */
static void row_block(const xsmm_run *r, matmul_part part, row_step *step, const float *b) {
    const matmul_shape *s = &r->s;
    const float *a = step->a + (part.m0 - step->m) * step->a_row;
    float *out = s->out + part.m0 * s->ldo + part.n0;
    int64_t rows = part.m1 - part.m0, lanes = part.n1 - part.n0;
    if (step->k == 0) {
        matmul_start(s, part); /* here, for the sums to be found in cache */
    }
    if (lanes == MATMUL_LANES && !r->f.ahead) {
        r->plan->kernel[FULL][rows < r->f.rows][step->deep < r->f.deep](b, a, out);
        return;
    }
    ebb__cpu_matmul_lanes_avx2(&(matmul_lanes){.a = a,
                                               .b = b,
                                               .out = out,
                                               .a_row = step->a_row,
                                               .a_col = r->f.pack_blocks ? 1 : s->a_col,
                                               .b_row = b == r->panel ? MATMUL_LANES : s->b_row,
                                               .ldo = s->ldo,
                                               .rows = rows,
                                               .lanes = lanes,
                                               .deep = step->deep,
                                               .fetch = &step->next});
}

/* One panel of columns, packed if need be. */
static void row_panel(const xsmm_run *r, matmul_part part, row_step *step) {
    const matmul_shape *s = &r->s;
    int64_t lanes = part.n1 - part.n0;
    const float *b = s->b + step->k * s->b_row + part.n0 * s->b_col;
    if (r->f.pack_lanes || lanes < MATMUL_LANES) {
        pack_lanes(r->panel, b, s->trans_b ? s->b_col : s->b_row, s->trans_b, lanes,
                   matmul_round_up(lanes, MATMUL_GRAIN), step->deep);
        b = r->panel;
    }
    int64_t rows = lanes == MATMUL_LANES ? r->f.rows : part.m1 - part.m0;
    for (int64_t m = part.m0; m < part.m1; m += rows) {
        matmul_part some = {m, matmul_least(part.m1, m + rows), part.n0, part.n1};
        row_block(r, some, step, b);
    }
}

/* What follows columns [.., n) of this stretch of k. */
static matmul_fetch row_next(const matmul_shape *s, matmul_part part, int64_t n, int64_t k,
                             int64_t deep) {
    if (n >= part.n1) {
        n = part.n0;
        k += deep;
    }
    int64_t lanes = matmul_least(part.n1 - n, MATMUL_LANES), left = matmul_least(s->k - k, deep);
    const float *from = s->b + k * s->b_row + n * s->b_col;
    if (left <= 0) {
        return (matmul_fetch){0};
    }
    return s->trans_b ? matmul_fetch_of(from, lanes, left, s->b_col)
                      : matmul_fetch_of(from, left, lanes, s->b_row);
}

static void run_row(const xsmm_run *r, matmul_part part) {
    const matmul_shape *s = &r->s;
    for (int64_t m = part.m0; m < part.m1; m += r->f.reach) {
        int64_t end = matmul_least(part.m1, m + r->f.reach);
        for (int64_t k = 0; k < s->k; k += r->f.deep) {
            row_step step = {.k = k,
                             .deep = matmul_least(s->k - k, r->f.deep),
                             .m = m,
                             .a = s->a + m * s->a_row + k * s->a_col,
                             .a_row = s->a_row};
            if (r->f.pack_blocks) {
                ebb__cpu_transpose_block_avx2(r->block, r->f.deep, step.a, s->a_col, step.deep,
                                              end - m);
                step.a = r->block;
                step.a_row = r->f.deep;
            }
            for (int64_t n = part.n0, next; n < part.n1; n = next) {
                next = matmul_least(part.n1, n + MATMUL_LANES);
                matmul_part panel = {m, end, n, next};
                if (r->f.ahead) {
                    step.next = row_next(s, part, panel.n1, k, step.deep);
                }
                row_panel(r, panel, &step);
            }
        }
    }
}

/* ---- lanes are rows of a --------------------------------------------------------------------- */

/* A block of columns that contains those of a part, as a kernel reads it. The kernels know blocks
 * of two sizes; a smaller range is computed as part of a whole block whose other columns are not
 * stored. */
typedef struct minor_block {
    const float *b;        /* column `first` */
    int64_t first, k_step; /* floats from one k to the next */
    int small;
} minor_block;

static minor_block block_of(const xsmm_run *r, int64_t n0, int64_t n1, int64_t k, int64_t deep) {
    const matmul_shape *s = &r->s;
    minor_block block = {.small = n1 - n0 < r->f.rows && n1 - n0 == s->n % r->f.rows};
    int64_t count = block.small ? n1 - n0 : r->f.rows;
    block.first = matmul_least(n0, s->n - count);
    block.b = s->b + block.first * s->b_col + k * s->b_row;
    block.k_step = s->b_row;
    if (r->f.pack_blocks) {
        ebb__cpu_transpose_block_avx2(r->block, r->f.along, block.b, s->b_row, deep, count);
        block.b = r->block;
        block.k_step = 1;
    }
    return block;
}

/* The sums of a part start from c (rows c_row apart, 0 for a bias), lanes fastest. */
static void minor_load(const float *c, int64_t c_row, matmul_part part, float *tile) {
    int64_t lanes = part.m1 - part.m0, columns = part.n1 - part.n0;
    if (c_row != 0) {
        ebb__cpu_transpose_block_avx2(tile, MATMUL_LANES, c + part.m0 * c_row + part.n0, c_row,
                                      lanes, columns);
        return;
    }
    for (int64_t n = 0; n < columns; n++) {
        float x = c == NULL ? 0.0f : c[part.n0 + n];
        for (int64_t i = 0; i < MATMUL_LANES; i++) {
            tile[n * MATMUL_LANES + i] = x;
        }
    }
}

/* A stretch of k from `begin`, `deep` long, of the part: at most a panel of lanes, within a block
 * of columns. */
static void minor_tile(const xsmm_run *r, matmul_part part, int64_t begin, int64_t deep,
                       const float *panel, const minor_block *block) {
    const matmul_shape *s = &r->s;
    int64_t lanes = part.m1 - part.m0, columns = part.n1 - part.n0;
    float *tile = r->tile + (part.n0 - block->first) * MATMUL_LANES;
    if (lanes < MATMUL_LANES || (columns < r->f.rows && !block->small)) {
        memset(r->tile, 0, (size_t)(r->f.rows * MATMUL_LANES) * sizeof(float));
    }
    minor_load(begin == 0 ? s->c : s->out, begin == 0 ? s->c_row : s->ldo, part, tile);
    const libxsmm_smmfunction *kernel = r->plan->kernel[piece_of(lanes)][block->small];
    for (int64_t k = 0; k < deep; k += r->f.deep) {
        kernel[deep - k < r->f.deep](panel + k * MATMUL_LANES, block->b + k * block->k_step,
                                     r->tile);
    }
    ebb__cpu_transpose_block_avx2(s->out + part.m0 * s->ldo + part.n0, s->ldo, tile, MATMUL_LANES,
                                  columns, lanes);
}

/* As many lanes, and as much of k, as are kept packed at a time. */
static void minor_stretch(const xsmm_run *r, matmul_part part, int64_t k, int64_t deep) {
    const matmul_shape *s = &r->s;
    for (int64_t v = part.m0; v < part.m1; v += MATMUL_LANES) {
        int64_t lanes = matmul_least(part.m1 - v, MATMUL_LANES);
        pack_lanes(r->panel + (v - part.m0) * r->f.along, s->a + v * s->a_row + k * s->a_col,
                   s->trans_a ? s->a_col : s->a_row, !s->trans_a, lanes,
                   lanes > piece_lanes[WIDE] ? MATMUL_LANES : piece_lanes[WIDE], deep);
    }
    for (int64_t n = part.n0; n < part.n1; n += r->f.rows) {
        int64_t stop = matmul_least(part.n1, n + r->f.rows);
        minor_block block = block_of(r, n, stop, k, deep);
        for (int64_t v = part.m0; v < part.m1; v += MATMUL_LANES) {
            matmul_part tile = {v, matmul_least(part.m1, v + MATMUL_LANES), n, stop};
            minor_tile(r, tile, k, deep, r->panel + (v - part.m0) * r->f.along, &block);
        }
    }
}

static void run_minor(const xsmm_run *r, matmul_part part) {
    for (int64_t m = part.m0; m < part.m1; m += r->f.reach) {
        matmul_part some = {m, matmul_least(part.m1, m + r->f.reach), part.n0, part.n1};
        for (int64_t k = 0; k < r->s.k; k += r->f.along) {
            minor_stretch(r, some, k, matmul_least(r->s.k - k, r->f.along));
        }
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static void run_part(const xsmm_run *r, matmul_part part) {
    if (part.m0 < part.m1 && part.n0 < part.n1) {
        (r->f.side == MATMUL_ROW ? run_row : run_minor)(r, part);
    }
}

static void run_share(const op_call *call, const xsmm_run *r) {
    const matmul_shape *s = &r->s;
    matmul_part part = {.m1 = s->m, .n1 = s->n};
    bool columns = (r->f.side == MATMUL_ROW) != r->f.share_blocks;
    int64_t count = columns ? s->n : s->m;
    /* Whole panels where there are enough of them. */
    bool panels = call->members > 2 && count >= 2 * MATMUL_LANES * call->members;
    int64_t grain = r->f.share_blocks ? r->f.rows : panels ? MATMUL_LANES : MATMUL_GRAIN;
    ebb__team_share(count, grain, call->member, call->members, columns ? &part.n0 : &part.m0,
                    columns ? &part.n1 : &part.m1);
    run_part(r, part);
}

void ebb__cpu_matmul_xsmm(const op_call *call) {
    matmul_size size = matmul_size_of(&call->in[1].type, &call->out[0].type, call->attr);
    xsmm_run r = {.plan = call->prepared,
                  .s = matmul_shape_of(call),
                  .f = ebb__cpu_matmul_form(&size, call->form)};
    int64_t lo, hi, units = r.s.panels.units;
    if (!is_ready(&r)) {
        ebb__cpu_matmul_avx2(call);
        return;
    }
    r.panel = (float *)call->workspace + call->worker * r.f.floats;
    r.block = r.panel + r.f.block_at;
    r.tile = r.panel + r.f.tile_at;
    if (!r.s.packed && call->hi == 0) {
        run_share(call, &r);
        return;
    }
    matmul_units(call, &r.s, &lo, &hi);
    if (r.s.packed) {
        run_panels(&r, lo, hi);
        return;
    }
    for (int64_t g = 0; g < r.s.panels.groups; g++) {
        run_part(&r, (matmul_part){0, r.s.m, g * units + lo, g * units + hi});
    }
}
#else
/* An empty translation unit is not C. */
typedef int matmul_xsmm_is_not_built;
#endif
