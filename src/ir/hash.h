/* hash.h - what tells the nodes of two graphs apart: their order, operands and records. Values are
 * for who asks: names lie elsewhere in every copy. */
#ifndef IR_HASH_H
#define IR_HASH_H

#include "ir/graph.h"

uint64_t ebb__ir_hash_nodes(const ir_graph *graph, uint64_t hash);

#endif
