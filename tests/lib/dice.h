/*
 * dice.h - chance that a seed plays again: splitmix64.
 */
#ifndef LIB_DICE_H
#define LIB_DICE_H

#include <stdint.h>

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

#endif
