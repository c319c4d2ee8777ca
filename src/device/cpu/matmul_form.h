/* matmul_form.h - the ways in which matmul.xsmm carries out a product, and what each asks for.
 *
 * A kernel that libxsmm generates adds to `rows` x `wide` sums (wide = 32 but for the last), `deep`
 * steps of k at a time. Vectors lie along the *lanes*, cut in panels of 32; the other side, whose
 * elements are broadcast, is cut in *blocks* of rows.
 *
 * PANELS: b was packed by the op pack. Lanes are its columns, read where they lie; blocks are rows
 * of a. Order: panels, k, blocks.
 *
 * ROW: lanes are columns of b, packed panel by panel, or read in place if b is plain. Blocks are
 * rows of a, read in place, or packed if a is transposed. Sums are in the output. Order: rows as
 * far as they stay in cache, k, panels, blocks.
 *
 * MINOR: lanes are rows of a, packed in panels. Blocks are columns of b, read in place or packed. A
 * tile of sums in the workspace, lanes fastest, is transposed from c and to the output. Order:
 * panels and stretches of k as far as they stay in cache, blocks, panels, k.
 *
 * A large b comes from far away: PANELS and ROW may fetch what follows in it while they compute, by
 * our own kernel. Members share the lanes, or the blocks if the form says so.
 */
#ifndef DEVICE_CPU_MATMUL_FORM_H
#define DEVICE_CPU_MATMUL_FORM_H

#include "device/cpu/matmul.h"

enum { MATMUL_LANES = 32, MATMUL_GATE_LANES = 8 };

typedef enum matmul_side { MATMUL_PANELS, MATMUL_ROW, MATMUL_MINOR } matmul_side;

typedef struct matmul_form {
    matmul_side side;
    bool pack_lanes, pack_blocks, share_blocks, ahead;
    int64_t rows;  /* of a block */
    int64_t deep;  /* steps of k of one kernel */
    int64_t reach; /* rows of a that stay in cache; MINOR: lanes */
    int64_t along; /* MINOR: and steps of k, a multiple of deep or all */
    /* Parts of a member's workspace, in floats from its beginning. */
    int64_t panel_at, block_at, tile_at, floats;
} matmul_form;

/* The sizes that a form has for a product. */
matmul_form ebb__cpu_matmul_form(const matmul_size *size, int32_t code);

#endif
