/* random.h - random graphs, which any pass and plan must leave the bits of. */
#ifndef TESTS_SUPPORT_RANDOM_H
#define TESTS_SUPPORT_RANDOM_H

#include "support/graphs.h"

/* Forward graphs with a loss, drawn with the dice; give in how many parts the batch can be done: of
 * matrices of all shapes, with products, cells and joins of several layers (1: they have no batch),
 * and of nets over images. */
int32_t test_random_matrices(ebb_ctx *ctx, test_dice *dice, bool training, ir_graph *g);
int32_t test_random_net(ebb_ctx *ctx, test_dice *dice, bool training, ir_graph *g);

/* A graph whose rows are those of a batch, of the seed's number of shards or a multiple of it, in
 * blocks. Of part `part` of `parts` parts alone: the same graph for these rows. */
enum { RANDOM_ROWS_SHARDS = 6 }; /* at most */
int32_t test_random_rows_shards(uint64_t seed);
void test_random_rows(ebb_ctx *ctx, uint64_t seed, int32_t parts, int32_t part, ir_graph *out);

#endif
