/*
 * dice.h - chance, from the seed of this run.
 */
#ifndef ENV_DICE_H
#define ENV_DICE_H

#include "lib/dice.h"

extern uint64_t dice_seed;

/* Dice of its own for each number. */
static inline uint64_t dice_of(uint64_t number)
{
    uint64_t dice = dice_seed ^ number << 32;

    return dice_roll(&dice);
}

#endif
