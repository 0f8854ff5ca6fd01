/*
 * entry.c - floor 4: the record of a request.
 */
#include "table/entry.h"

#include <string.h>

#include "base/bytes.h"
#include "sync/life.h"

size_t ask_payload_bytes(const struct ask *ask)
{
    return key_bytes(&ask->key) + ask->owner_bytes + ask->id_bytes;
}

void entry_fill(struct entry *e, const struct ask *ask)
{
    char *p = e->payload;

    e->hash = ask->key.hash;
    e->name_hash = ask->key.name_hash;
    e->name_bytes = ask->key.name_bytes;
    e->field_bytes = ask->key.field_bytes;
    e->fields = ask->key.fields;
    e->generic = ask->key.generic;
    e->literal = ask->key.literal;
    e->owner_bytes = ask->owner_bytes;
    e->owner_hash = ask->owner_hash;
    e->id_bytes = ask->id_bytes;
    e->on_death = ask->on_death;
    e->ttl_ms = ask->ttl_ms;
    e->ticket = 0;
    shm_store(&e->asleep, 0);
    e->taker_bytes = 0;
    bytes_copy(p, ask->key.bytes, key_bytes(&ask->key));
    p += key_bytes(&ask->key);
    bytes_copy(p, ask->owner, ask->owner_bytes);
    if (ask->id_bytes > 0)
        memcpy(p + ask->owner_bytes, ask->id, ask->id_bytes);
}

size_t entry_payload_room(const struct map *map, const struct entry *e)
{
    uint32_t page = map_page_of(map, map_ref(map, e));

    return shm_load(&map->pages[page].kind) == PAGE_LARGE ? LARGE_PAYLOAD
                                                          : SMALL_PAYLOAD;
}

/* Another process wrote these: each length is read once, summed, compared,
   and every text must end within its own bytes. */
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
        key_bytes(key) > entry_payload_room(map, e))
        return false;
    if (key->bytes[key->name_bytes - 1] != '\0')
        return false;
    return key->field_bytes == 0 || key->bytes[key_bytes(key) - 1] == '\0';
}

bool entry_ask(const struct map *map, const struct entry *e, struct ask *ask)
{
    size_t used;

    if (!entry_key(map, e, &ask->key))
        return false;
    used = key_bytes(&ask->key);
    ask->owner = e->payload + used;
    ask->owner_bytes = e->owner_bytes;
    ask->id_bytes = e->id_bytes;
    ask->id = ask->owner + ask->owner_bytes;
    if (ask->owner_bytes < 1 || ask->owner_bytes > ENQ_OWNER_BYTES ||
        ask->id_bytes > ENQ_ID_BYTES ||
        ask_payload_bytes(ask) > entry_payload_room(map, e))
        return false;
    if (ask->owner[ask->owner_bytes - 1] != '\0' ||
        (ask->id_bytes > 0 && ask->id[ask->id_bytes - 1] != '\0'))
        return false;
    ask->owner_hash = e->owner_hash;
    ask->mode = STATE_MODE(shm_load(&e->state));
    ask->on_death = e->on_death;
    ask->ttl_ms = e->ttl_ms;
    ask->ticket = e->ticket;
    return mode_known(ask->mode);
}

bool entry_owned_by(const struct map *map, const struct entry *e,
    const struct ask *ask)
{
    struct ask held;

    if (e->owner_hash != ask->owner_hash ||
        e->owner_bytes != ask->owner_bytes || ask->owner_bytes <= 1)
        return false;
    return entry_ask(map, e, &held) &&
        memcmp(held.owner, ask->owner, ask->owner_bytes) == 0;
}

struct entry *entry_of_handle(const struct map *map, enq_handle handle,
    uint64_t *state)
{
    uint32_t generation = (uint32_t)(handle >> HANDLE_REF_BITS);
    ref_t ref = (ref_t)(handle & ((UINT64_C(1) << HANDLE_REF_BITS) - 1));
    struct entry *e = at_entry(map, ref);

    if (e == NULL)
        return NULL;
    *state = shm_load_acquire(&e->state);
    return STATE_GENERATION(*state) == generation ? e : NULL;
}

/* Dead, or being closed: in both cases all that ends with a session ends at
   one moment, however long it takes to clean up. */
static bool session_is_over(const struct map *map, session_ref_t ref)
{
    return shm_load(&at_session(map, ref)->state) == SESSION_ENDING ||
        session_is_dead(map, ref);
}

static int held_over(const struct map *map, const struct entry *e, mono_t now)
{
    if (mono_reached((mono_t){shm_load(&e->deadline_ns)}, now))
        return ENQ_EXPIRED;
    if (e->on_death == ENQ_DEATH_RELEASE && session_is_over(map, e->session))
        return ENQ_OWNERDIED;
    return ENQ_OK;
}

int entry_over(const struct map *map, const struct entry *e, mono_t now)
{
    if (STATE_PHASE(shm_load_acquire(&e->state)) == PHASE_HELD)
        return held_over(map, e, now);
    return session_is_over(map, e->session) ? ENQ_OWNERDIED : ENQ_OK;
}
