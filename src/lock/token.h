/*
 * token.h - lock: the fencing token of a grant. For transition.c.
 */
#ifndef LOCK_TOKEN_H
#define LOCK_TOKEN_H

#include "base/point.h"
#include "lock/links.h"
#include "segment/header.h"

/* Of a generic grant: above the ceilings of all shards, so above the token of
   every key that it overlaps. Loaded without latches: what other names get
   meanwhile does not matter, and no key of this name gets a token while the gate
   is held. What such a key got before is seen: its grant was under this gate's
   latch, or under that of its bucket, which the scan that allowed this grant has
   found free since. */
static inline uint64_t token_of_all(const struct map *map, uint64_t token)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        uint64_t other = shm_load(&map->shards[i].ceiling);
        if (other > token)
            token = other;
    }
    return token;
}

/* The time, from which tokens begin. The clock first, the flag after it: not
   removed by then, the space has no successor that could have read an earlier
   clock. */
static __attribute__((noinline)) uint64_t first_token(const struct map *map)
{
    uint64_t now = header_token_start(map->h->token_base);

    shm_fence();
    return shm_load(&map->h->unlinked) ? map->h->token_base : now;
}

/*
 * So many at once that it is seldom, and so few that tokens do not outrun the
 * clock, from which a space begins that is made when this one is lost: a generic
 * grant starts from here, so that with "@" and one key in turn each takes so many
 * ns, and the two need some 2,000.
 */
#define CEILING_STEP 32u

/* By grants of several buckets at a time, of which each has its own latch.
   Before the token is given: what is given is never above the ceiling. */
static __attribute__((noinline)) void raise_ceiling(struct shard *shard,
    uint64_t token)
{
    uint64_t ceiling = shm_load(&shard->ceiling);

    while (ceiling < token &&
        !shm_cas(&shard->ceiling, &ceiling, token + CEILING_STEP))
        continue;
    ENQ_POINT("grant.ceiling");
}

HOT uint64_t token_of_key(struct scope *s, const struct entry *e,
    const uint64_t *newest, uint64_t token)
{
    struct shard *shard = &s->map->shards[shard_of_hash(e->hash)];

    if (shm_load(newest) > token)
        token = shm_load(newest);
    if (unlikely(token == 0))
        token = first_token(s->map);
    if (unlikely(token >= shm_load(&shard->ceiling)))
        raise_ceiling(shard, token + 1);
    return token;
}

/*
 * Tokens of what overlaps only grow (I7, P5). A number for each object would
 * do, but then it would have to outlive the object; so there is one for each
 * bucket, and one for each gate:
 *
 *	concrete	above its bucket's and its gate's, stored in the bucket
 *	generic		above all of any bucket and its gate's, stored in the
 *			gate
 *
 * Thus a concrete grant after a generic one is above it, and the other way
 * round. There may be a million buckets, so that a generic grant does not look
 * at each: a shard has a ceiling, above which no token of its buckets is. A
 * bucket that is split gives its newest to both halves.
 *
 * A narrow grant loads gate.token without the gate's latch: it has loaded
 * `raised` as 0, with acquire (enter_concrete()), and the store of that 0 came
 * after every generic grant of the gate. All three words are TRUE; recovery
 * leaves them alone.
 */
HOT void next_token(struct scope *s, struct entry *e)
{
    bool generic = entry_is_generic(e);
    uint64_t token = shm_load(&s->gate->token), *newest;

    enq_assert(scope_is_entered(s));
    if (unlikely(generic)) {
        newest = &s->gate->token;
        token = token_of_all(s->map, token);
        if (unlikely(token == 0))
            token = first_token(s->map);
    } else {
        newest = likely(!s->wide) ? &s->spot.bucket->token : &s->guarded->token;
        token = token_of_key(s, e, newest, token);
    }
    /* the newest first: killed in between, a number is left out */
    shm_store(newest, token + 1);
    ENQ_POINT("grant.token");
    shm_store(&e->token, token + 1);
}

#endif
