/* matmul_form.c - which forms a product may take, best guess first (matmul_form.h). */
#ifndef EBB_NO_XSMM
#include "device/cpu/matmul_form.h"

#include "device/cpu/cpu.h"

#include <stdio.h>

/* A form is one integer: side, flags, and indices into the tables. */
enum {
    SIDE_BITS = 2,
    PACK_LANES = 1 << 2,
    PACK_BLOCKS = 1 << 3,
    SHARE_BLOCKS = 1 << 4,
    AHEAD = 1 << 5
};
enum { ROWS_SHIFT = 8, DEEP_SHIFT = 12, REACH_SHIFT = 16, CODE_MASK = 15 };

static const int64_t rows_most[] = {6, 12, 24, 48, 72, 96, 120, 192};
static const int64_t deep_most[] = {48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1 << 20};
static const int64_t reach_most[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1 << 30};

/* Packed lanes of MINOR stay in the second-level cache. */
enum { CACHED_FLOATS = 96 << 10 };

#define AT(table, shift, code) (table)[(uint32_t)(code) >> (shift)&CODE_MASK]

matmul_form ebb__cpu_matmul_form(const matmul_size *size, int32_t code) {
    matmul_form f = {.side = (matmul_side)(code & (PACK_LANES - 1)),
                     .pack_lanes = (code & PACK_LANES) != 0,
                     .pack_blocks = (code & PACK_BLOCKS) != 0,
                     .share_blocks = (code & SHARE_BLOCKS) != 0};
    bool minor = f.side == MATMUL_MINOR;
    f.ahead = (code & AHEAD) != 0 && !minor;
    int64_t blocked = minor ? size->n : size->m, lanes = minor ? size->m : size->n;
    int64_t most = AT(rows_most, ROWS_SHIFT, code), reach = AT(reach_most, REACH_SHIFT, code);
    /* Sums are 3 rows high; tiles that are transposed also like multiples of 8. */
    f.rows =
        matmul_least(matmul_even_block(blocked, most, minor && most % 24 == 0 ? 24 : 3), blocked);
    f.deep = matmul_least(matmul_even_block(size->k, AT(deep_most, DEEP_SHIFT, code), 8), size->k);
    int64_t panel = 0, block = 0, tile = 0;
    if (f.side == MATMUL_PANELS) {
        f.reach = matmul_least(matmul_round_up(reach, f.rows), size->m);
        tile = f.reach * MATMUL_LANES;
    } else if (f.side == MATMUL_ROW) {
        f.reach = matmul_least(matmul_round_up(reach, f.rows), matmul_round_up(blocked, f.rows));
        panel = f.deep * MATMUL_LANES; /* also for the last columns of a b read in place */
        block = f.pack_blocks ? f.reach * f.deep : 0;
    } else {
        f.reach = matmul_least(reach, matmul_round_up(lanes, MATMUL_LANES));
        int64_t steps = CACHED_FLOATS / (f.reach * f.deep);
        f.along = matmul_least((steps > 1 ? steps : 1) * f.deep, size->k);
        panel = f.reach * f.along;
        block = f.pack_blocks ? f.rows * f.along : 0;
        tile = f.rows * MATMUL_LANES;
    }
    f.block_at = matmul_round_up(panel, 16);
    f.tile_at = f.block_at + matmul_round_up(block, 16);
    f.floats = f.tile_at + matmul_round_up(tile, 16);
    return f;
}

size_t ebb__cpu_xsmm_workspace(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                               int members) {
    matmul_size size = matmul_size_of_node(graph, node);
    int64_t own = ebb__cpu_matmul_form(&size, form).floats, other = matmul_vector_floats(&size);
    return (size_t)members * (size_t)(own > other ? own : other) * sizeof(float);
}

/* Shares of a few panels, or of a few blocks. */
int32_t ebb__cpu_xsmm_shares(const ir_graph *graph, const ir_node_rec *node, int32_t form,
                             int members) {
    enum { FEW = 3, MOST_SHARES = 8 };
    matmul_size size = matmul_size_of_node(graph, node);
    matmul_form f = ebb__cpu_matmul_form(&size, form);
    bool columns = (f.side == MATMUL_ROW) != f.share_blocks;
    int64_t count = columns ? size.n : size.m, grain = f.share_blocks ? f.rows : MATMUL_LANES;
    int64_t each = f.side == MATMUL_PANELS ? 1 : count / (FEW * grain) / members;
    return cpu_shares(members, each, MOST_SHARES);
}

/* ---- candidates ------------------------------------------------------------------------------ */

/* The index of the first entry of a table that is at least `want`. */
static int32_t index_of(const int64_t *table, size_t count, int64_t want) {
    size_t i = 0;
    while (i + 1 < count && table[i] < want) {
        i++;
    }
    return (int32_t)i;
}

#define CODE(table, want) index_of(table, sizeof(table) / sizeof *(table), want)

static int32_t encode(matmul_side side, int32_t flags, int64_t rows, int64_t deep, int64_t reach) {
    return (int32_t)side | flags | CODE(rows_most, rows) << ROWS_SHIFT |
           CODE(deep_most, deep) << DEEP_SHIFT | CODE(reach_most, reach) << REACH_SHIFT;
}

typedef struct form_list {
    int32_t *codes;
    int32_t count;
} form_list;

/* Forms that come to the same for small products are listed once. */
static void add(form_list *list, const matmul_size *size, int32_t code) {
    matmul_form f = ebb__cpu_matmul_form(size, code);
    for (int32_t i = 0; i < list->count; i++) {
        matmul_form g = ebb__cpu_matmul_form(size, list->codes[i]);
        if (g.side == f.side && g.pack_lanes == f.pack_lanes && g.pack_blocks == f.pack_blocks &&
            g.share_blocks == f.share_blocks && g.ahead == f.ahead && g.rows == f.rows &&
            g.deep == f.deep && g.reach == f.reach) {
            return;
        }
    }
    list->codes[list->count++] = code;
}

/* Long stretches of k. Few rows need b faster than it may come, unless it is fetched ahead; our own
 * kernel is also the faster one for less than 32 lanes, three gates of a GRU. */
static void panel_forms(form_list *list, const matmul_size *s) {
    int32_t plain = encode(MATMUL_PANELS, 0, 48, 768, 48);
    int32_t ahead = encode(MATMUL_PANELS, AHEAD, 48, 768, 48);
    bool narrow = op_panels_of(s->n, s->groups, s->lanes).wide < MATMUL_LANES;
    add(list, s, narrow ? ahead : plain);
    add(list, s, narrow ? plain : ahead);
    add(list, s, encode(MATMUL_PANELS, 0, 24, 256, 24));
}

/* Products with a plain a: packing b pays for all but a few rows. */
static void plain_forms(form_list *list, const matmul_size *s) {
    enum { FEW_ROWS = 48, FEW_COLUMNS = 512 };
    if (s->m < FEW_ROWS) {
        add(list, s,
            s->trans_b ? encode(MATMUL_MINOR, PACK_LANES | SHARE_BLOCKS, 48, 768, 96)
                       : encode(MATMUL_ROW, 0, 48, 256, 384));
    }
    add(list, s, encode(MATMUL_ROW, PACK_LANES, 48, 1024, 1024));
    add(list, s, encode(MATMUL_ROW, PACK_LANES | AHEAD, 48, 1024, 1024));
    if (s->n < FEW_COLUMNS) {
        add(list, s, encode(MATMUL_ROW, PACK_LANES | SHARE_BLOCKS, 24, 768, 1024));
    }
    add(list, s, encode(MATMUL_ROW, PACK_LANES | AHEAD, 24, 1024, 384));
    add(list, s, encode(MATMUL_ROW, PACK_LANES, 24, 256, 384));
    if (s->trans_b) {
        add(list, s, encode(MATMUL_MINOR, PACK_LANES | SHARE_BLOCKS, 48, 768, 192));
        add(list, s, encode(MATMUL_MINOR, PACK_LANES, 48, 768, 96));
    } else {
        add(list, s, encode(MATMUL_MINOR, PACK_LANES | PACK_BLOCKS, 48, 192, 192));
        add(list, s, encode(MATMUL_ROW, 0, 96, 128, 384));
    }
}

/* Weight gradients: the lanes of a transposed a are packed by plain copies. */
static void trans_forms(form_list *list, const matmul_size *s) {
    add(list, s, encode(MATMUL_MINOR, PACK_LANES, 96, 192, 64));
    add(list, s, encode(MATMUL_MINOR, PACK_LANES, 96, 768, 64));
    add(list, s, encode(MATMUL_MINOR, PACK_LANES, 48, 192, 192));
    if (!s->trans_b) {
        add(list, s, encode(MATMUL_MINOR, PACK_LANES | PACK_BLOCKS, 48, 768, 192));
        add(list, s, encode(MATMUL_ROW, PACK_LANES | PACK_BLOCKS | SHARE_BLOCKS, 24, 768, 192));
    }
}

int32_t ebb__cpu_xsmm_forms(const ir_graph *graph, const ir_node_rec *node, int members,
                            int32_t *codes) {
    matmul_size s = matmul_size_of_node(graph, node);
    form_list list = {.codes = codes};
    (void)members;
    (s.packed ? panel_forms : s.trans_a ? trans_forms : plain_forms)(&list, &s);
    return list.count;
}

void ebb__cpu_xsmm_form_name(int32_t code, char *text, size_t bytes) {
    static const char *const sides[] = {"panels", "row", "minor"};
    int side = code & (PACK_LANES - 1);
    snprintf(text, bytes, "%s%s%s%s%s %lldx%lld/%lld", side < 3 ? sides[side] : "?",
             (code & PACK_LANES) != 0 ? "+lanes" : "", (code & PACK_BLOCKS) != 0 ? "+blocks" : "",
             (code & SHARE_BLOCKS) != 0 ? "|" : "", (code & AHEAD) != 0 ? ">" : "",
             (long long)AT(rows_most, ROWS_SHIFT, code), (long long)AT(deep_most, DEEP_SHIFT, code),
             (long long)AT(reach_most, REACH_SHIFT, code));
}
#else
/* An empty translation unit is not C. */
typedef int matmul_form_is_not_built;
#endif
