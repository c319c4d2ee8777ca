/* optimal.c - bounds with the fewest padded tokens, by dynamic programming over the lengths that
 * occur.
 *
 * One text: best(j, b), the padded tokens of the b shortest lengths in at most j shapes, is the
 * least best(j-1, a) + cost(a, b] over a. What a shape costs is its longest times its sentences,
 * for which the best a never falls as b grows; so the a of half the b bound those of the others.
 *
 * Pairs: the same twice. Within a band of targets (a, b], over its sources; then over bands:
 *
 *   total(j, b) = min over a, m of total(j-m, a) + band(a, b, m)
 *
 * Against that, bounds on the longer side, which is one band of another order. A part of a band is
 * as long as its own members on both sides, so that its cost has no order: all a are tried. Sums
 * are whole numbers in doubles, which are exact far beyond any text. */
#include "data/buckets.h"

#include "base/alloc.h"
#include "base/num.h"

#include <math.h>

enum { LANES = 8 };

/* ---- one side ---- */

typedef struct line_problem {
    const uint32_t *lengths; /* ascending */
    const double *before;    /* [n + 1]: sentences shorter than length i */
    int32_t n;
    double *last, *now; /* [n + 1]: best of j-1 and of j shapes */
    int32_t *from;      /* [n + 1] of j shapes: the a of each b */
} line_problem;

/* best(j, b) for b of [low, high], whose a lie in [left, right]. */
static void solve_half(const line_problem *p, int32_t low, int32_t high, int32_t left,
                       int32_t right) {
    while (low <= high) {
        int32_t b = low + (high - low) / 2, best = left;
        double least = (double)INFINITY;
        for (int32_t a = left; a <= right && a < b; a++) {
            double sum = p->last[a] + (double)p->lengths[b - 1] * (p->before[b] - p->before[a]);
            if (sum < least) {
                least = sum;
                best = a;
            }
        }
        p->now[b] = least;
        p->from[b] = best;
        solve_half(p, low, b - 1, left, best);
        low = b + 1;
        left = best;
    }
}

/* Upper ends, as indices + 1 of lengths, of at most k groups; gives their number. */
static ebb_status solve_line(alloc_region *region, const uint32_t *lengths, const uint64_t *counts,
                             int32_t n, int32_t k, int32_t *ends, int32_t *n_ends) {
    size_t cells = (size_t)n + 1;
    double *before = NULL, *best = NULL;
    int32_t *from = NULL;
    k = k < n ? k : n;
    TRY(REGION_ARRAYS(region, ARRAY(before, cells), ARRAY(best, 2 * cells),
                      ARRAY(from, ((size_t)k + 1) * cells)));
    for (int32_t i = 0; i < n; i++) {
        before[i + 1] = before[i] + (double)counts[i];
        best[i + 1] = (double)INFINITY;
    }
    line_problem p = {lengths, before, n, best, best + cells, NULL};
    for (int32_t j = 1; j <= k; j++) {
        p.from = from + (size_t)j * cells;
        p.now[0] = 0;
        solve_half(&p, 1, n, 0, n - 1);
        double *swap = p.last;
        p.last = p.now;
        p.now = swap;
    }
    *n_ends = 0;
    for (int32_t b = n, j = k; b > 0; j--) {
        ends[(*n_ends)++] = b;
        b = from[(size_t)j * cells + (size_t)b];
    }
    for (int32_t i = 0; i < *n_ends / 2; i++) {
        int32_t swap = ends[i];
        ends[i] = ends[*n_ends - 1 - i];
        ends[*n_ends - 1 - i] = swap;
    }
    return EBB_OK;
}

/* What a pair is ordered by. */
typedef enum side_of { BY_SOURCE, BY_TARGET, BY_LONGER } side_of;

static uint32_t length_of(const lengths_cell *cell, side_of by) {
    return by == BY_SOURCE   ? cell->source
           : by == BY_TARGET ? cell->target
                             : num_larger32(cell->source, cell->target);
}

/* Lengths of one side that occur, ascending, and how often. */
typedef struct side {
    uint32_t *lengths;
    uint64_t *counts;
    int32_t n;
} side;

static ebb_status list_side(alloc_region *region, const data_lengths *lengths, side_of by,
                            side *out) {
    size_t most = (size_t)lengths->max_len + 2;
    TRY(REGION_ARRAYS(region, ARRAY(out->lengths, most), ARRAY(out->counts, most)));
    for (size_t i = 0; i < lengths->n_cells; i++) {
        out->counts[length_of(&lengths->cells[i], by)] += lengths->cells[i].count;
    }
    for (uint32_t length = 0; length < most; length++) {
        if (out->counts[length] > 0) {
            out->lengths[out->n] = length;
            out->counts[out->n++] = out->counts[length];
        }
    }
    return EBB_OK;
}

static ebb_status solve_text(alloc_region *region, const data_lengths *lengths, int32_t k,
                             bucket_limit *out, int32_t *n) {
    side all = {0};
    int32_t ends[DATA_MOST_SHAPES];
    TRY(list_side(region, lengths, BY_TARGET, &all));
    TRY(solve_line(region, all.lengths, all.counts, all.n, k, ends, n));
    for (int32_t i = 0; i < *n; i++) {
        out[i] = (bucket_limit){all.lengths[ends[i] - 1], UINT32_MAX, UINT32_MAX};
    }
    return EBB_OK;
}

/* ---- pairs ---- */

typedef struct grid_cell {
    double count;
    uint32_t source, target; /* the longest of its pairs */
} grid_cell;

static void join(grid_cell *to, double count, uint32_t source, uint32_t target) {
    to->count += count;
    to->source = num_larger32(to->source, source);
    to->target = num_larger32(to->target, target);
}

/* Possible bounds of both sides, and the pairs between them. */
typedef struct grid {
    uint32_t sources[BUCKETS_GRID], targets[BUCKETS_GRID]; /* ascending */
    int32_t n_sources, n_targets;
    grid_cell *cells; /* [n_targets][n_sources] */
} grid;

/* Every length that occurs or, where those are too many, the best bounds of this side alone. */
static ebb_status bound_side(alloc_region *region, const data_lengths *lengths, side_of by,
                             uint32_t *bounds, int32_t *n) {
    side all = {0};
    int32_t ends[BUCKETS_GRID];
    TRY(list_side(region, lengths, by, &all));
    if (all.n > BUCKETS_GRID) {
        TRY(solve_line(region, all.lengths, all.counts, all.n, BUCKETS_GRID, ends, n));
    } else {
        for (*n = 0; *n < all.n; (*n)++) {
            ends[*n] = *n + 1;
        }
    }
    for (int32_t i = 0; i < *n; i++) {
        bounds[i] = all.lengths[ends[i] - 1];
    }
    return EBB_OK;
}

static int32_t place_of(const uint32_t *bounds, int32_t n, uint32_t length) {
    int32_t low = 0, high = n - 1;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (bounds[middle] < length) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static ebb_status make_grid(alloc_region *region, const data_lengths *lengths, grid *g) {
    TRY(bound_side(region, lengths, BY_SOURCE, g->sources, &g->n_sources));
    TRY(bound_side(region, lengths, BY_TARGET, g->targets, &g->n_targets));
    TRY(REGION_ARRAYS(region, ARRAY(g->cells, (size_t)g->n_sources * (size_t)g->n_targets)));
    for (size_t i = 0; i < lengths->n_cells; i++) {
        const lengths_cell *from = &lengths->cells[i];
        int32_t s = place_of(g->sources, g->n_sources, from->source);
        int32_t t = place_of(g->targets, g->n_targets, from->target);
        grid_cell *to = &g->cells[(size_t)t * (size_t)g->n_sources + (size_t)s];
        join(to, (double)from->count, from->source, from->target);
    }
    return EBB_OK;
}

/* A band: the sources that occur in it, ascending; or all pairs by their longer sides. Rows of
 * `best` and `cost` end with infinity, up to a multiple of LANES. */
enum { BAND_CELLS = (BUCKETS_GRID + 1 + LANES - 1) / LANES * LANES };
typedef struct band {
    grid_cell all[BUCKETS_GRID]; /* by possible bounds */
    grid_cell cells[BUCKETS_GRID];
    int32_t place[BUCKETS_GRID]; /* of cells in all */
    int32_t n;
    double cost[BAND_CELLS];                       /* of part (a, b], by a; one b at a time */
    double best[DATA_MOST_SHAPES + 1][BAND_CELLS]; /* first b sources in at most j parts */
} band;

/* The cells of `all` that hold a pair. */
static void band_gather(band *x, int32_t n_all) {
    x->n = 0;
    for (int32_t i = 0; i < n_all; i++) {
        if (x->all[i].count > 0) {
            x->place[x->n] = i;
            x->cells[x->n++] = x->all[i];
        }
    }
}

static void band_add(band *x, const grid *g, int32_t target) {
    const grid_cell *row = &g->cells[(size_t)target * (size_t)g->n_sources];
    for (int32_t s = 0; s < g->n_sources; s++) {
        join(&x->all[s], row[s].count, row[s].source, row[s].target);
    }
    band_gather(x, g->n_sources);
}

/* The least a[i] + b[i] of n, a multiple of LANES. */
static double least_sum(const double *a, const double *b, int32_t n) {
    double least[LANES], all = (double)INFINITY;
    for (int lane = 0; lane < LANES; lane++) {
        least[lane] = (double)INFINITY;
    }
    for (int32_t i = 0; i < n; i += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            double sum = a[i + lane] + b[i + lane];
            least[lane] = sum < least[lane] ? sum : least[lane];
        }
    }
    for (int lane = 0; lane < LANES; lane++) {
        all = least[lane] < all ? least[lane] : all;
    }
    return all;
}

/* Costs of the parts that end before source b. */
static void band_costs(band *x, int32_t b) {
    double count = 0;
    uint32_t source = 0, target = 0;
    for (int32_t a = b; a < BAND_CELLS; a++) {
        x->cost[a] = (double)INFINITY;
    }
    for (int32_t a = b - 1; a >= 0; a--) {
        count += x->cells[a].count;
        source = num_larger32(source, x->cells[a].source);
        target = num_larger32(target, x->cells[a].target);
        x->cost[a] = count * ((double)source + (double)target);
    }
}

/* best[j][n] for all j up to k. */
static void band_solve(band *x, int32_t k) {
    for (int32_t j = 0; j <= k; j++) {
        x->best[j][0] = 0;
        for (int32_t b = 1; b < BAND_CELLS; b++) {
            x->best[j][b] = (double)INFINITY;
        }
    }
    for (int32_t b = 1; b <= x->n; b++) {
        int32_t wide = (b + LANES - 1) / LANES * LANES;
        band_costs(x, b);
        for (int32_t j = 1; j <= k; j++) {
            x->best[j][b] = least_sum(x->best[j - 1], x->cost, wide);
        }
    }
}

/* Ends of the parts of the solved band as places in `all`, in at most m parts, ascending; gives
 * their number. */
static int32_t band_trace(band *x, int32_t m, int32_t ends[DATA_MOST_SHAPES]) {
    int32_t b = x->n, n = 1;
    while (n < m && x->best[n][b] > x->best[m][b]) {
        n++; /* no more parts than it takes */
    }
    for (int32_t j = n; j > 0; j--) {
        int32_t a = 0;
        band_costs(x, b);
        while (x->best[j - 1][a] + x->cost[a] > x->best[j][b]) {
            a++;
        }
        ends[j - 1] = x->place[b - 1];
        b = a;
    }
    return n;
}

typedef struct band_table {
    double *cells; /* [a][b][m]: band(a, b, m), b from 1 */
    int32_t n, k;
} band_table;

static double *band_at(const band_table *table, int32_t a, int32_t b) {
    return &table->cells[((size_t)a * (size_t)table->n + (size_t)b - 1) * ((size_t)table->k + 1)];
}

static void fill_table(const grid *g, band *x, band_table *table) {
    for (int32_t a = 0; a < g->n_targets; a++) {
        *x = (band){.n = 0};
        for (int32_t b = a + 1; b <= g->n_targets; b++) {
            band_add(x, g, b - 1);
            band_solve(x, table->k);
            double *to = band_at(table, a, b);
            for (int32_t m = 0; m <= table->k; m++) {
                to[m] = x->best[m][x->n];
            }
        }
    }
}

/* total[j][b], and where each comes from. */
typedef struct band_choice {
    double total;
    int32_t a, m;
} band_choice;

static band_choice choose_band(const band_table *table, const band_choice *const *totals, int32_t j,
                               int32_t b) {
    band_choice best = {(double)INFINITY, 0, 0};
    for (int32_t a = 0; a < b; a++) {
        const double *costs = band_at(table, a, b);
        for (int32_t m = 1; m <= j; m++) {
            double sum = totals[j - m][a].total + costs[m];
            if (sum < best.total) {
                best = (band_choice){sum, a, m};
            }
        }
    }
    return best;
}

static void collect(const grid *g, band *x, const band_choice *const *totals, int32_t k,
                    bucket_limit *out, int32_t *n) {
    band_choice parts[DATA_MOST_SHAPES];
    int32_t ends[DATA_MOST_SHAPES], n_parts = 0;
    for (int32_t b = g->n_targets, j = k; b > 0;) {
        parts[n_parts] = totals[j][b];
        ends[n_parts] = b;
        j -= parts[n_parts].m;
        b = parts[n_parts++].a;
    }
    *n = 0;
    for (int32_t i = n_parts - 1; i >= 0; i--) {
        *x = (band){.n = 0};
        for (int32_t b = parts[i].a; b < ends[i]; b++) {
            band_add(x, g, b);
        }
        band_solve(x, parts[i].m);
        int32_t cuts[DATA_MOST_SHAPES], n_cuts = band_trace(x, parts[i].m, cuts);
        for (int32_t c = 0; c < n_cuts; c++) {
            out[(*n)++] = (bucket_limit){UINT32_MAX, i > 0 ? g->targets[ends[i] - 1] : UINT32_MAX,
                                         c < n_cuts - 1 ? g->sources[cuts[c]] : UINT32_MAX};
        }
    }
}

/* Bounds on the longer side; gives their padded tokens. */
static ebb_status solve_longer(alloc_region *region, const data_lengths *lengths, int32_t k,
                               band *x, bucket_limit *out, int32_t *n, double *tokens) {
    uint32_t bounds[BUCKETS_GRID];
    int32_t n_bounds = 0, ends[DATA_MOST_SHAPES];
    TRY(bound_side(region, lengths, BY_LONGER, bounds, &n_bounds));
    *x = (band){.n = 0};
    for (size_t i = 0; i < lengths->n_cells; i++) {
        const lengths_cell *cell = &lengths->cells[i];
        int32_t at = place_of(bounds, n_bounds, length_of(cell, BY_LONGER));
        join(&x->all[at], (double)cell->count, cell->source, cell->target);
    }
    band_gather(x, n_bounds);
    band_solve(x, k);
    *tokens = x->best[k][x->n];
    *n = band_trace(x, k, ends);
    for (int32_t i = 0; i < *n; i++) {
        out[i] = (bucket_limit){bounds[ends[i]], UINT32_MAX, UINT32_MAX};
    }
    return EBB_OK;
}

static ebb_status solve_pairs(alloc_region *region, const data_lengths *lengths, int32_t k,
                              bucket_limit *out, int32_t *n) {
    grid g = {.n_sources = 0};
    band *x = NULL;
    band_choice *cells = NULL;
    const band_choice *totals[DATA_MOST_SHAPES + 1];
    double other = 0;
    TRY(make_grid(region, lengths, &g));
    band_table table = {.n = g.n_targets, .k = k};
    size_t wide = (size_t)g.n_targets + 1, bands = (size_t)g.n_targets * (size_t)g.n_targets;
    TRY(REGION_ARRAYS(region, ARRAY(x, 1), ARRAY(cells, ((size_t)k + 1) * wide)));
    TRY(ebb__region_alloc(region, bands, ((size_t)k + 1) * sizeof *table.cells, &table.cells));
    fill_table(&g, x, &table);
    for (int32_t j = 0; j <= k; j++) {
        totals[j] = cells + (size_t)j * wide;
        for (int32_t b = 1; b <= g.n_targets; b++) {
            cells[(size_t)j * wide + (size_t)b] = choose_band(&table, totals, j, b);
        }
    }
    TRY(solve_longer(region, lengths, k, x, out, n, &other));
    if (totals[k][g.n_targets].total <= other) {
        collect(&g, x, totals, k, out, n);
    }
    return EBB_OK;
}

ebb_status ebb__buckets_optimal(const data_lengths *lengths, int32_t k, bucket_limit *out,
                                int32_t *n) {
    alloc_region region;
    ebb__region_init(&region, lengths->ctx);
    ebb_status status = lengths->pairs ? solve_pairs(&region, lengths, k, out, n)
                                       : solve_text(&region, lengths, k, out, n);
    ebb__region_fini(&region);
    return status;
}
