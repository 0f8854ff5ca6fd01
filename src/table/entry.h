/*
 * entry.h - floor 4: the record of a request, and the request as the rules
 * see it.
 */
#ifndef TABLE_ENTRY_H
#define TABLE_ENTRY_H

#include "base/time.h"
#include "rules/key.h"
#include "segment/map.h"
#include "sync/thread.h"

/* A request, checked and packed. */
struct ask {
    struct key key;
    unsigned mode;
    const char *owner;
    const char *id;
    uint16_t owner_bytes; /* with the zero; 1: nobody's */
    uint16_t id_bytes;    /* 0: derived */
    uint32_t owner_hash;
    uint8_t on_death;
    int64_t ttl_ms;  /* < 0: none */
    uint64_t ticket; /* UINT64_MAX: has not waited */
};

/* Bytes of payload that the request needs. */
size_t ask_payload_bytes(const struct ask *ask);

/* Writes all of the request into an entry that nobody can see yet. */
void entry_fill(struct entry *e, const struct ask *ask);

/* What the entry says of its key and owner, with the lengths checked against
   its size. False: the entry is damaged. */
bool entry_key(const struct map *map, const struct entry *e, struct key *key);
bool entry_ask(const struct map *map, const struct entry *e, struct ask *ask);

/* Room for payload in this entry; depends on the size of its slab. */
size_t entry_payload_room(const struct map *map, const struct entry *e);

/* Same owner? Nobody's is nobody's, not even its own. */
bool entry_owned_by(const struct map *map, const struct entry *e,
    const struct ask *ask);

static inline bool entry_is(const struct entry *e, enum phase phase)
{
    return STATE_PHASE(shm_load_acquire(&e->state)) == (unsigned)phase;
}

/* Held or waiting: part of the table. */
static inline bool state_is_live(uint64_t state)
{
    unsigned phase = STATE_PHASE(state);

    return phase == PHASE_WAITING || phase == PHASE_HELD;
}

static inline bool entry_is_generic(const struct entry *e)
{
    return e->generic != 0;
}

static inline uint32_t shard_of_hash(uint64_t hash)
{
    return (uint32_t)hash % SHARDS;
}

static inline uint32_t gate_of_hash(uint32_t name_hash)
{
    return (name_hash >> 8) % GATES;
}

/* A handle is the generation (32 bits) above the entry's ref (30 bits). */
#define HANDLE_REF_BITS 30
LAYOUT_ASSERT(UINT64_C(64) << HANDLE_REF_BITS > UINT64_C(192) * SLOTS_MAX);

static inline enq_handle entry_handle(const struct map *map, struct entry *e)
{
    return (uint64_t)STATE_GENERATION(shm_load(&e->state)) << HANDLE_REF_BITS |
        map_ref(map, e);
}

/* Where a request stands: its entry, and which use of that entry it is. An
   entry that was given back may be another request's at any moment. */
struct place {
    struct entry *e;
    uint32_t generation;
    uint64_t ticket, token;
};

static inline enq_handle place_handle(const struct map *map,
    const struct place *p)
{
    return (uint64_t)p->generation << HANDLE_REF_BITS | map_ref(map, p->e);
}

/* The entry that the handle names if its generation is still the handle's.
 *state is what it was then: act on it, or look again under the lock. */
struct entry *entry_of_handle(const struct map *map, enq_handle handle,
    uint64_t *state);

/* Why a live entry is over, though it may be linked still: ENQ_EXPIRED,
   ENQ_OWNERDIED; ENQ_OK: it is not. A waiter is over when its session is dead
   or ends. What is over stays so. */
int entry_over(const struct map *map, const struct entry *e, mono_t now);

#endif
