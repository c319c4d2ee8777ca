/* hash.c - see hash.h. */
#include "ir/hash.h"

#include <xxhash.h>

uint64_t ebb__ir_hash_nodes(const ir_graph *g, uint64_t hash) {
    hash = XXH3_64bits_withSeed(g->order, (size_t)g->n_order * sizeof *g->order, hash);
    hash = XXH3_64bits_withSeed(g->operands, (size_t)g->n_operands * sizeof *g->operands, hash);
    return XXH3_64bits_withSeed(g->nodes, (size_t)g->n_nodes * sizeof *g->nodes, hash);
}
