/*
 * seed.c - a reference line, not a measurement: enqueue-server, the
 * lock server on TCP with the same kind of locks, states in its README that
 * it was tested with around 3,000 lock and unlock requests a second. A pair
 * is two requests.
 */
#include "harness/bench.h"

const struct subject subject_seed = {
    .name = "enqueue-server",
    .what = "what its README claims: 3,000 requests a second, so 1,500 pairs",
    .claim = 1500,
};
