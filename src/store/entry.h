/*
 * entry.h - store: the record of a request, and the request as the rules
 * see it.
 */
#ifndef STORE_ENTRY_H
#define STORE_ENTRY_H

#include <string.h>

#include "base/bytes.h"
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
    uint8_t on_death;     /* as in the entry, with its flags */
    uint16_t more_bytes;  /* behind the id; 0: what follows is not set */
    uint16_t peer_bytes;  /* with the zero; 0: none */
    uint32_t delay_ms;
    const char *peer;
    int64_t ttl_ms;   /* < 0: none */
    uint64_t ticket;  /* UINT64_MAX: has not waited */
    bool cycles;      /* waiting, it may close a circle: see cycle.h */
    uint32_t started; /* ASLEEP_STARTED + its number; 0: a thread will wait */
};

/* Bytes of payload that the request needs. */
HOT size_t ask_payload_bytes(const struct ask *ask)
{
    return key_bytes(&ask->key) + ask->owner_bytes + ask->id_bytes +
        ask->more_bytes;
}

/* What few requests have, to where it stands. */
void entry_fill_more(char *to, const struct ask *ask);

/* Writes the request into an entry that nobody can see yet, behind the bytes
   of its key, which are there already: ask->key.bytes is e->payload. Better
   after a word was taken than before: to take one the processor waits until
   all stores have left for the cache (5 % of a pair). */
HOT void entry_fill(struct entry *e, const struct ask *ask)
{
    char *p = e->payload + key_bytes(&ask->key);

    /* what is stored so is read without the words, too, by who has a stale
       handle, or looks for news: scope_enter_entry, notice_take */
    shm_store(&e->hash, ask->key.hash);
    shm_store(&e->name_hash, ask->key.name_hash);
    e->name_bytes = ask->key.name_bytes;
    e->field_bytes = ask->key.field_bytes;
    e->fields = ask->key.fields;
    shm_store(&e->generic, ask->key.generic);
    e->literal = ask->key.literal;
    e->owner_bytes = ask->owner_bytes;
    shm_store(&e->id_bytes, ask->id_bytes);
    shm_store(&e->on_death, ask->on_death);
    shm_store(&e->ttl_ms, ask->ttl_ms);
    e->ticket = 0;
    shm_store(&e->asleep, ASLEEP_NOBODY);
    shm_store(&e->cpu, 0); /* read by a waiter who wonders: may_spin */
    e->taker_bytes = 0;
    bytes_copy(p, ask->owner, ask->owner_bytes);
    if (unlikely(ask->id_bytes > 0))
        memcpy(p + ask->owner_bytes, ask->id, ask->id_bytes);
    if (unlikely(ask->more_bytes > 0))
        entry_fill_more(p + ask->owner_bytes + ask->id_bytes, ask);
}

/* What the entry says of its key and owner, with the lengths checked against
   its size. False: the entry is damaged. */
bool entry_key(const struct map *map, const struct entry *e, struct key *key);
bool entry_ask(const struct map *map, const struct entry *e, struct ask *ask);

/* Room for payload in this entry; depends on the size of its slab. */
size_t entry_payload_room(const struct map *map, const struct entry *e);

/* The owner as text, and its bytes with the zero; NULL: the entry is damaged.
   Another process wrote this: each length is read once. */
const char *entry_owner(const struct map *map, const struct entry *e,
    size_t *bytes);

/* The same of the id that its caller brought; NULL, too, where he brought
   none. */
const char *entry_id(const struct map *map, const struct entry *e,
    size_t *bytes);

/* Same owner? Nobody's is nobody's, not even its own. */
bool entry_owned_by(const struct map *map, const struct entry *e,
    const struct ask *ask);

/* Who has the entry, as a number; 0: nobody, or it is damaged. */
uint64_t entry_owner_hash(const struct map *map, const struct entry *e);
uint64_t ask_owner_hash(const struct map *map, const struct ask *ask);

/* For whom it was adopted; 0: for nobody else than who has done so. */
static inline uint64_t entry_heir(const struct entry *e)
{
    return (shm_load_acquire(&e->on_death) & ENTRY_HEIR) == 0
        ? 0
        : shm_load(&e->ticket) & ~HEIR_BIT;
}

/* Of a lock set that waits: all its members have one ticket, and lead from one
   to the next in a ring. NULL: the set has begun to leave, or is damaged. */
static inline bool entry_is_of_set(const struct entry *e)
{
    return unlikely((shm_load(&e->on_death) & ENTRY_SET) != 0);
}
struct entry *entry_next_of_set(const struct map *map, const struct entry *e);

/* Where in a page of large entries one of them begins. */
static inline bool unit_is_large(uint64_t unit)
{
    return (unit - 1) % UNITS_PER_PAGE % LARGE_UNITS == 0;
}

/*
 * The entry there, and the state that it had; false: there is none. A page with
 * nothing in it may be made one of the other size at any moment, and then texts
 * stand where small entries stood: so the state is read first, and then asked
 * what the page holds (partner: page_convert()). Who holds the words of a live
 * entry need not ask again: it keeps its page.
 */
HOT bool entry_read(const struct map *map, ref_t ref, struct entry **out,
    uint64_t *state)
{
    uint64_t unit = map_unit_of(map, ref), page = unit / UNITS_PER_PAGE;
    uint32_t kind;

    if (unlikely(page >= map_pages_ready(map) ||
            !(ENTRY_UNITS >> (unit % UNITS_PER_PAGE) & 1)))
        return false;
    *out = map_at(map, ref * (uint64_t)UNIT_BYTES);
    *state = shm_load_acquire(&(*out)->state);
    kind = shm_load(&map->pages[page].kind);
    return likely(kind == PAGE_SMALL) ||
        (kind == PAGE_LARGE && unit_is_large(unit));
}

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

/* The same use and standing of an entry, whatever was noted on it. */
static inline bool state_same(uint64_t a, uint64_t b)
{
    return ((a ^ b) & ~STATE_NOTES) == 0;
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

/* The entry that the handle names, if its generation is still the handle's,
   and the state that it had: act on that, or look again under the lock. */
HOT struct entry *entry_of_handle(const struct map *map, enq_handle handle,
    uint64_t *state)
{
    uint32_t generation = (uint32_t)(handle >> HANDLE_REF_BITS);
    ref_t ref = (ref_t)(handle & ((UINT64_C(1) << HANDLE_REF_BITS) - 1));
    struct entry *e;

    if (unlikely(!entry_read(map, ref, &e, state)))
        return NULL;
    return STATE_GENERATION(*state) == generation ? e : NULL;
}

/*
 * Why a live entry has ended for its holder, though it may be linked still:
 * ENQ_EXPIRED, ENQ_OWNERDIED; ENQ_OK: it has not. A waiter ends when its
 * session is dead or ends, a held lock when its session is over or ends (see
 * sync/life.h). What has ended stays so.
 */
int entry_ended(const struct map *map, const struct entry *e, mono_t now);

/* The same for everybody else: with a lock delay one goes on being in the way
   of other owners for a while after it has ended. */
int entry_over(const struct map *map, const struct entry *e, mono_t now);

/* Its holder was killed: it is in the way until it is known that no thread of
   that process runs any more, and nobody's own, nor part of a circle. */
bool entry_is_ending(const struct map *map, const struct entry *e);

static inline bool entry_delays(const struct entry *e)
{
    return unlikely((shm_load(&e->on_death) & ENTRY_DELAYS) != 0);
}

/* It has ended, and is not over. Who has to read a clock for @now asks
   entry_delays() first. */
static inline bool entry_is_delayed(const struct map *map,
    const struct entry *e, mono_t now)
{
    return entry_delays(e) && entry_ended(map, e, now) != ENQ_OK;
}

/* Until when a held one is in the way, if nothing else happens. */
mono_t entry_until(const struct map *map, const struct entry *e);

#endif
