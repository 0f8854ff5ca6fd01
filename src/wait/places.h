/*
 * places.h - wait: the entries of who waits: one request's, or those of a lock
 * set's members.
 */
#ifndef WAIT_PLACES_H
#define WAIT_PLACES_H

#include "store/entry.h"

/* So many, each `apart` bytes from the one before: a member has more to it. */
struct places {
    struct place *first;
    size_t apart;
    unsigned n;
};

static inline struct places places_of_one(struct place *place)
{
    return (struct places){place, sizeof(*place), 1};
}

#define EACH_PLACE(p, places)                                                  \
    for (struct place *p = (places).first;                                     \
         (char *)p < (char *)(places).first + (places).n * (places).apart;     \
         p = (struct place *)(void *)((char *)p + (places).apart))

/* In the same use of the entry: once given back, for whatever reason, it may be
   any request's. The generation tells, as it grows before the entry is used
   anew; the acquire is the partner of the release that stores the state. */
static inline bool place_is_mine(const struct place *p)
{
    uint64_t state = shm_load_acquire(&p->e->state);

    return STATE_GENERATION(state) == p->generation;
}

#endif
