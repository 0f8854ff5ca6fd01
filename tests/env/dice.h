/*
 * dice.h - chance, from the seed of this run.
 */
#ifndef ENV_DICE_H
#define ENV_DICE_H

#include <stdint.h>

extern uint64_t dice_seed;

static inline uint64_t dice_roll(uint64_t *dice)
{
    uint64_t z = *dice += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline uint64_t dice_below(uint64_t *dice, uint64_t n)
{
    return dice_roll(dice) % n;
}

/* Dice of its own for each number. */
static inline uint64_t dice_of(uint64_t number)
{
    uint64_t dice = dice_seed ^ number << 32;

    return dice_roll(&dice);
}

#endif
