/* dice.h - throws for generated texts: each a function of seed, line and how many came before it in
 * that line, so that line i never depends on how many lines there are. */
#ifndef DATA_DICE_H
#define DATA_DICE_H

#include "base/rng.h"

typedef struct data_dice {
    rng_key key;
    uint64_t line;
    uint32_t thrown;
} data_dice;

/* 0 .. sides - 1 */
static inline uint32_t ebb__dice_throw(data_dice *dice, uint32_t sides) {
    uint32_t low = (uint32_t)dice->line, high = (uint32_t)(dice->line >> 32);
    rng_block block = ebb__rng_block(dice->key, low, high, dice->thrown / 4, 0);
    return (uint32_t)((uint64_t)block.word[dice->thrown++ % 4] * sides >> 32);
}

#endif
