/*
 * entry.c - store: the record of a request (see entry.h).
 *
 * The lengths in an entry are never trusted: another process wrote them, and
 * without a latch it may be writing them now. So each is read into a local, and
 * summed and compared there. The texts themselves may be torn, but end within
 * the entry.
 */
#include "store/entry.h"

#include <string.h>

#include "base/hash.h"
#include "sync/life.h"
#include "sync/sys.h"

void entry_fill_more(char *to, const struct ask *ask)
{
    size_t delay_bytes = ask->more_bytes - ask->peer_bytes;

    memcpy(to, &ask->delay_ms, delay_bytes);
    if (ask->peer_bytes > 0)
        memcpy(to + delay_bytes, ask->peer, ask->peer_bytes);
}

size_t entry_payload_room(const struct map *map, const struct entry *e)
{
    uint32_t page = map_page_at(map, e);

    /* the directory of a damaged segment may lie: taken for a large entry, one
       that stands where only small ones do would reach beyond its page */
    return shm_load(&map->pages[page].kind) == PAGE_LARGE &&
            unit_is_large(map_unit_of(map, map_ref(map, e)))
        ? LARGE_PAYLOAD
        : SMALL_PAYLOAD;
}

/* What each entry has room for needs no look at its page. */
static inline bool has_room(const struct map *map, const struct entry *e,
    size_t bytes)
{
    return likely(bytes <= SMALL_PAYLOAD) ||
        bytes <= entry_payload_room(map, e);
}

/* Beyond the sum of the lengths, each text must end within its own bytes, as
   others compare and print it as a string. */
bool entry_key(const struct map *map, const struct entry *e, struct key *key)
{
    key->bytes = e->payload;
    key->name_bytes = e->name_bytes;
    key->field_bytes = e->field_bytes;
    key->fields = e->fields;
    key->generic = e->generic;
    key->literal = e->literal;
    key->hash = e->hash;
    key->name_hash = e->name_hash;
    if (key->name_bytes < 2 || key->fields > ENQ_KEY_FIELDS_MAX ||
        !has_room(map, e, key_bytes(key)))
        return false;
    if (key->bytes[key->name_bytes - 1] != '\0')
        return false;
    return key->field_bytes == 0 || key->bytes[key_bytes(key) - 1] == '\0';
}

/* Reads what stands behind the id: delay and peer, if on_death has their flags,
   in `room` bytes at most. The peer's length is noted nowhere: its text must
   end before `room` does. */
static bool read_more(struct ask *ask, size_t room)
{
    const char *at = ask->id + ask->id_bytes;
    size_t delay_bytes =
        ask->on_death & ENTRY_DELAYS ? sizeof(ask->delay_ms) : 0;
    size_t peer_bytes = 0;

    if (delay_bytes > room)
        return false;
    room -= delay_bytes;
    ask->delay_ms = 0;
    memcpy(&ask->delay_ms, at, delay_bytes);
    ask->peer = at + delay_bytes;
    if (ask->on_death & ENTRY_PEER) {
        peer_bytes = strnlen(ask->peer, room) + 1;
        if (peer_bytes < 2 || peer_bytes > room || peer_bytes > ENQ_PEER_BYTES)
            return false;
    }
    ask->peer_bytes = (uint16_t)peer_bytes;
    ask->more_bytes = (uint16_t)(delay_bytes + peer_bytes);
    return true;
}

/* The mode is the state's: a promotion changes it there only, in the same store
   that commits it. `cycles` and `started` are the waiter's own, and not read.
   */
bool entry_ask(const struct map *map, const struct entry *e, struct ask *ask)
{
    size_t room = entry_payload_room(map, e), used;

    if (!entry_key(map, e, &ask->key))
        return false;
    used = key_bytes(&ask->key);
    ask->owner = e->payload + used;
    ask->owner_bytes = e->owner_bytes;
    ask->id_bytes = e->id_bytes;
    ask->id = ask->owner + ask->owner_bytes;
    ask->on_death = shm_load(&e->on_death);
    used += (size_t)ask->owner_bytes + ask->id_bytes;
    if (ask->owner_bytes < 1 || ask->owner_bytes > ENQ_OWNER_BYTES ||
        ask->id_bytes > ENQ_ID_BYTES || used > room ||
        !read_more(ask, room - used))
        return false;
    if (ask->owner[ask->owner_bytes - 1] != '\0' ||
        (ask->id_bytes > 0 && ask->id[ask->id_bytes - 1] != '\0'))
        return false;
    ask->mode = STATE_MODE(shm_load(&e->state));
    ask->ttl_ms = e->ttl_ms;
    ask->ticket = e->ticket;
    return mode_known(ask->mode);
}

const char *entry_owner(const struct map *map, const struct entry *e,
    size_t *bytes)
{
    size_t at = (size_t)e->name_bytes + e->field_bytes, n = e->owner_bytes;

    if (n < 1 || n > ENQ_OWNER_BYTES || !has_room(map, e, at + n) ||
        e->payload[at + n - 1] != '\0')
        return NULL;
    *bytes = n;
    return e->payload + at;
}

const char *entry_id(const struct map *map, const struct entry *e,
    size_t *bytes)
{
    size_t at = (size_t)e->name_bytes + e->field_bytes + e->owner_bytes;
    size_t n = e->id_bytes;

    if (n < 1 || n > ENQ_ID_BYTES || !has_room(map, e, at + n) ||
        e->payload[at + n - 1] != '\0')
        return NULL;
    *bytes = n;
    return e->payload + at;
}

/* The lowest bit is set, so that 0 is left for "none". */
uint64_t entry_owner_hash(const struct map *map, const struct entry *e)
{
    size_t n;
    const char *owner = entry_owner(map, e, &n);

    return owner == NULL || n <= 1 ? 0
                                   : hash_bytes(owner, n, map->hash_seed) | 1;
}

uint64_t ask_owner_hash(const struct map *map, const struct ask *ask)
{
    return ask->owner_bytes <= 1
        ? 0
        : hash_bytes(ask->owner, ask->owner_bytes, map->hash_seed) | 1;
}

/* Without the latches of that member: it is another key's. So it must look like
   one of this set, or the link is not followed. */
struct entry *entry_next_of_set(const struct map *map, const struct entry *e)
{
    struct entry *next = at_entry(map, (ref_t)shm_load(&e->next_member));

    if (next == NULL ||
        STATE_PHASE(shm_load_acquire(&next->state)) != PHASE_WAITING ||
        !entry_is_of_set(next) ||
        shm_load(&next->ticket) != shm_load(&e->ticket))
        return NULL;
    return next;
}

/* The lengths are compared first: they differ most often, and the owner's text
   may lie in another cache line. */
bool entry_owned_by(const struct map *map, const struct entry *e,
    const struct ask *ask)
{
    const char *owner;
    size_t n;

    if (e->owner_bytes != ask->owner_bytes || ask->owner_bytes <= 1)
        return false;
    owner = entry_owner(map, e, &n);
    return owner != NULL && n == ask->owner_bytes &&
        memcmp(owner, ask->owner, n) == 0;
}

static inline bool is_closing(const struct map *map, session_ref_t ref)
{
    return shm_load(&at_session(map, ref)->state) == SESSION_ENDING;
}

/* Over, or being closed. In both cases one store ends all that ends with the
   session, however long it takes to clean up: nobody sees half of it. */
static bool has_ended(const struct map *map, session_ref_t ref)
{
    return is_closing(map, ref) || session_is_over(map, ref);
}

/* A waiter has nothing yet that could be another's too early: it is out of the
   queue as soon as its session's helper is dead. Heirs keep locks, no waits. */
static bool has_left(const struct map *map, session_ref_t ref)
{
    return is_closing(map, ref) || session_is_forsaken(map, ref);
}

/* LEASE and KEEP locks outlive their session: only their ttl ends them. */
static int held_ended(const struct map *map, const struct entry *e, mono_t now)
{
    if (mono_reached((mono_t){shm_load(&e->deadline_ns)}, now))
        return ENQ_EXPIRED;
    if (ENTRY_DEATH(shm_load(&e->on_death)) == ENQ_DEATH_RELEASE &&
        has_ended(map, shm_load(&e->session)))
        return ENQ_OWNERDIED;
    return ENQ_OK;
}

HOT int ended_at(const struct map *map, const struct entry *e, mono_t now)
{
    if (STATE_PHASE(shm_load_acquire(&e->state)) == PHASE_HELD)
        return held_ended(map, e, now);
    return has_left(map, shm_load(&e->session)) ? ENQ_OWNERDIED : ENQ_OK;
}

int entry_ended(const struct map *map, const struct entry *e, mono_t now)
{
    return ended_at(map, e, now);
}

bool entry_is_ending(const struct map *map, const struct entry *e)
{
    return ENTRY_DEATH(shm_load(&e->on_death)) == ENQ_DEATH_RELEASE &&
        session_is_dead(map, shm_load(&e->session));
}

mono_t entry_until(const struct map *map, const struct entry *e)
{
    mono_t deadline = {shm_load(&e->deadline_ns)};
    struct ask ask;

    if (likely((shm_load(&e->on_death) & ENTRY_DELAYS) == 0) ||
        !entry_ask(map, e, &ask))
        return deadline;
    return mono_add_ms(deadline, ask.delay_ms);
}

/* Closed before the ttl had ended. `now` may be old, and the closing younger
   than the end of the ttl: so the clock is read behind it. */
static bool is_closed_in_time(const struct map *map, const struct entry *e)
{
    return is_closing(map, e->session) &&
        !mono_reached((mono_t){shm_load(&e->deadline_ns)}, sys.now());
}

/* The delay counts from the end of the ttl. Where the holder died first, the
   thread that reaps its session ends the ttl at that moment, so until then the
   lock is in the way. A session that is being closed leaves no delay behind. */
int entry_over(const struct map *map, const struct entry *e, mono_t now)
{
    int ended = ended_at(map, e, now);

    if (likely(ended == ENQ_OK ||
            (shm_load(&e->on_death) & ENTRY_DELAYS) == 0 ||
            !entry_is(e, PHASE_HELD)))
        return ended;
    if (ended == ENQ_OWNERDIED)
        return is_closed_in_time(map, e) ? ended : ENQ_OK;
    return mono_reached(entry_until(map, e), now) ? ended : ENQ_OK;
}
