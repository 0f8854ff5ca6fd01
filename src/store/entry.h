/*
 * entry.h - store: the record of a request, and the request as the rules
 * see it.
 *
 * An entry (segment/layout.h) is what PostgreSQL's lmgr calls a PROCLOCK and
 * its wait queue link in one: it stands for one request, waiting or granted. A
 * struct ask is the same request in private memory, checked and packed, before
 * it has an entry or as it is read back from one.
 *
 *	FREE --> CACHED --> WAITING --> HELD --> CACHED or FREE, generation + 1
 *	  harvest   hold, queue    grant     |
 *	                                     `-> GONE --> CACHED, generation + 1
 *
 * What may be touched when:
 *
 *   - While it is FREE or GONE the slab's owner may take it, by a swap of
 *     `state` (slab.c). While it is CACHED it is private to one thread.
 *   - While it is WAITING or HELD it changes under its shard's latch only (a
 *     generic one's: its gate's; see lock/scope.h). The few notes that change
 *     without a latch are bits of `state`, and change by a swap.
 *   - Without a latch anybody may read it. Such a reader loads `state` first
 *     (acquire; its partner is the release store that ends each transition),
 *     then what it wants, and then acts on that very state: by a swap, or by
 *     looking again under the latch. The generation in `state` tells whether it
 *     is still the same use of the entry.
 *
 * Another process wrote all of this. A length is read once into a local, and
 * checked against the size of the entry before a text is touched.
 */
#ifndef STORE_ENTRY_H
#define STORE_ENTRY_H

#include <string.h>

#include "base/bytes.h"
#include "base/time.h"
#include "rules/key.h"
#include "segment/map.h"
#include "sync/thread.h"
#include "sync/tick.h"

/* A request, checked and packed. Its texts are borrowed: they live as long as
   what they were read from, the caller's request or the entry. */
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
    bool cycles;      /* waiting, it may close a cycle: see cycle.h */
    uint32_t started; /* ASLEEP_STARTED + its number; 0: a thread will wait */
};

/* Bytes of payload that the request needs. */
HOT size_t ask_payload_bytes(const struct ask *ask)
{
    return key_bytes(&ask->key) + ask->owner_bytes + ask->id_bytes +
        ask->more_bytes;
}

/* Copies what few requests have (lock delay, peer) to `to`, behind the id. */
void entry_fill_more(char *to, const struct ask *ask);

/* Writes the request into an entry that no other thread can see yet, behind the
   bytes of its key, which are there already: key_pack() wrote them into the
   payload, or they were copied from where it had to pack them aside. It becomes
   visible when the transition stores `state` (release).

   Done after the latch was taken, not before: to take a latch the processor
   waits until all earlier stores have left for the cache (5 % of a pair). */
HOT void entry_fill(struct entry *e, const struct ask *ask)
{
    char *p = e->payload + key_bytes(&ask->key);

    /* shm_store marks the fields that are also read without a latch: through a
       stale handle (scope_enter_entry), and for events (lock_event_take). The
       plain ones are read under the latches, or by readers that look at the
       state again (tests/sim/unordered lists those) */
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
    shm_store(&e->cpu, 0); /* read by a waiter that may spin: may_spin */
    e->taker_bytes = 0;
    bytes_copy(p, ask->owner, ask->owner_bytes);
    if (unlikely(ask->id_bytes > 0))
        memcpy(p + ask->owner_bytes, ask->id, ask->id_bytes);
    if (unlikely(ask->more_bytes > 0))
        entry_fill_more(p + ask->owner_bytes + ask->id_bytes, ask);
}

/* Reads back the key, or the whole request, with all lengths checked against
   the entry's size. False: the entry is damaged. What is read without a latch
   counts only if `state` is the same afterwards. */
bool entry_key(const struct map *map, const struct entry *e, struct key *key);
bool entry_ask(const struct map *map, const struct entry *e, struct ask *ask);

/* Bytes of payload for which this entry has room; depends on its slab. */
size_t entry_payload_room(const struct map *map, const struct entry *e);

/* The owner as text, and its bytes with the zero; NULL: the entry is damaged.
   An owner of one byte is "", nobody. */
const char *entry_owner(const struct map *map, const struct entry *e,
    size_t *bytes);

/* The same of the id that its caller brought. NULL also where there is none:
   then its id is derived (base/id.h). */
const char *entry_id(const struct map *map, const struct entry *e,
    size_t *bytes);

/* Same owner? An entry without an owner is nobody's, and so never the same. */
bool entry_owned_by(const struct map *map, const struct entry *e,
    const struct ask *ask);

/* Its owner as a number, to index map->owners; 0: none, or it is damaged. */
uint64_t entry_owner_hash(const struct map *map, const struct entry *e);
uint64_t ask_owner_hash(const struct map *map, const struct ask *ask);

/* Until when this waiter may be overtaken (R7). */
static inline mono_t entry_due(const struct entry *e)
{
    return mono_add_ns((mono_t){e->since_ns}, e->window_ns);
}

/* Shown one entry after the other; false: it has seen enough. */
typedef bool entry_see_fn(void *context, struct entry *e);

/* The number for which it was adopted (enq_adopt_for); 0: none was given.
   ENTRY_HEIR is loaded first (acquire): where it is set, `ticket` holds it. */
static inline uint64_t entry_heir(const struct entry *e)
{
    return (shm_load_acquire(&e->on_death) & ENTRY_HEIR) == 0
        ? 0
        : shm_load(&e->heir) & ~HEIR_BIT;
}

/* The members of a lock set that waits have one ticket, and each leads to the
   next in a ring: by `token`, which a waiter does not need for itself. The flag
   stays on after the grant. */
static inline bool entry_is_of_set(const struct entry *e)
{
    return unlikely((shm_load(&e->on_death) & ENTRY_SET) != 0);
}
/* NULL: the set has begun to leave the queue, or the link is damaged. */
struct entry *entry_next_of_set(const struct map *map, const struct entry *e);

/* How its waiter is woken; ASLEEP_STARTED or more: by its number. */
static inline uint32_t entry_sleeps(const struct entry *e)
{
    return ASLEEP_HOW(shm_load(&e->asleep));
}

/* Its waiter says how it sleeps, and has said @from so far. Once it was granted
   another thread may unlock it by its id, and then it is another waiter's: so
   by a swap, and only of what names this waiter. False: it is not its own any
   more. A full barrier, whatever comes of it. */
static inline bool entry_stirs(struct entry *e, uint32_t from, uint32_t to)
{
    uint32_t said = from;

    while (!shm_cas(&e->asleep, &said, to))
        if (tick_untraced(said) != from)
            return false;
    return true;
}

/* Its waiter has been granted it, and knows: from now on, if need be, it is room
   as soon as it is gone (harvest_one()). */
static inline void entry_is_known(struct entry *e, uint32_t asleep)
{
    entry_stirs(e, asleep, ASLEEP_NOBODY);
}

/* Will its waiter, of this session, still look what became of it? Used anew it
   would pass for cancelled. A member of a lock set is granted by that look
   itself. */
static inline bool entry_is_awaited(const struct entry *e, session_ref_t of)
{
    return shm_load(&e->asleep) != ASLEEP_NOBODY && !entry_is_of_set(e) &&
        shm_load(&e->session) == of;
}

/* May a large entry begin at this unit (map_unit_of) of its page? */
static inline bool unit_is_large(uint64_t unit)
{
    return (unit - 1) % UNITS_PER_PAGE % LARGE_UNITS == 0;
}

/*
 * The entry at `ref`, and the state that it had; false: there is none.
 *
 * A page with nothing in it may be converted to the other size at any moment,
 * and then texts stand where the states of small entries stood. So the state is
 * read first (acquire), and then the directory is asked what the page holds.
 * Partner: page_convert(), which stores the directory word, a fence, and only
 * then lets any text be written; so a reader that got a text as a state sees
 * the new kind here. A live entry keeps its page what it is: under the latches
 * of a live entry nobody need ask again.
 */
HOT bool entry_read(const struct map *map, ref_t ref, struct entry **out,
    uint64_t *state)
{
    uint64_t unit = map_unit_of(map, ref), page = unit / UNITS_PER_PAGE;
    uint32_t kind;

    visit(VISIT_ENTRY);
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

/* The same use of the entry, in the same phase and mode; notes may differ. */
static inline bool state_same(uint64_t a, uint64_t b)
{
    return ((a ^ b) & ~STATE_NOTES) == 0;
}

/* Reads that went before may be of the entry's next use: then its generation
   has grown. The fence keeps them before the second load of the state; partner:
   the store that frees the entry, after which others fill it. */
static inline bool entry_used_anew(const struct entry *e, uint64_t state)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return STATE_GENERATION(shm_load(&e->state)) != STATE_GENERATION(state);
}

static inline bool entry_is_generic(const struct entry *e)
{
    return e->generic != 0;
}

/* Which gate guards a key of this name: see index.h for the bits of the hashes. */
static inline uint32_t gate_of_hash(uint32_t name_hash)
{
    return (name_hash >> 8) % GATES;
}

/* A handle is the generation (32 bits) above the entry's ref (30 bits), and so
   62 bits long: it fits a derived id (base/id.h). The generation grows each
   time that the entry is given back, so that a handle which its caller kept for
   too long names nothing; it begins at random (page.c), so that a handle of
   another segment is unlikely to name anything here. */
#define HANDLE_REF_BITS 30
LAYOUT_ASSERT(UINT64_C(64) << HANDLE_REF_BITS > UINT64_C(192) * SLOTS_MAX);

static inline enq_handle entry_handle(const struct map *map, struct entry *e)
{
    return (uint64_t)STATE_GENERATION(shm_load(&e->state)) << HANDLE_REF_BITS |
        map_ref(map, e);
}

/* Where a request stands: its entry, and which use of that entry it is: once
   given back, the entry may be another request's at any moment. Private to the
   thread that made the request. */
struct place {
    struct entry *e;
    uint32_t generation;
    uint64_t ticket, token;
    uint64_t owner; /* of one that has waited: whose it is, or 0 */
};

static inline enq_handle place_handle(const struct map *map,
    const struct place *p)
{
    return (uint64_t)p->generation << HANDLE_REF_BITS | map_ref(map, p->e);
}

/* The entry that the handle names, and the state that it had; NULL: stale, or
   never valid. It may be given back right after this: the caller acts on this
   very state, or looks again under the latches (lock/pin.h). */
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
 * ENQ_EXPIRED, ENQ_OWNERDIED; ENQ_OK: it has not.
 *
 * Nothing runs when a ttl ends or a process dies: an entry ends by what time
 * and liveness words say, and the next request that meets it takes it away. So
 * every reader asks here, and all give the same answer.
 *
 * A waiter ends as soon as its session is dead or ends, a held lock only when
 * its session is over or ends (sync/life.h has the difference): a thread of a
 * dying process may still be writing under its lock. What has ended stays so.
 */
int entry_ended(const struct map *map, const struct entry *e, mono_t now);

/* The same for all other owners: with a lock delay a lock is in their way for a
   while after it has ended for its holder. */
int entry_over(const struct map *map, const struct entry *e, mono_t now);

/* The holder was killed, and its lock goes when no thread of that process runs
   any more. Until that is proved the lock is in the way of all, its own owner
   included, and part of no cycle. */
bool entry_is_ending(const struct map *map, const struct entry *e);

static inline bool entry_delays(const struct entry *e)
{
    return unlikely((shm_load(&e->on_death) & ENTRY_DELAYS) != 0);
}

/* It has ended, but is not over. A caller that would have to read a clock for
   @now asks entry_delays() first. */
static inline bool entry_is_delayed(const struct map *map,
    const struct entry *e, mono_t now)
{
    return entry_delays(e) && entry_ended(map, e, now) != ENQ_OK;
}

/* Until when a held lock is in the way, if nothing else happens. */
mono_t entry_until(const struct map *map, const struct entry *e);

#endif
