/*
 * populate.c - what is in a segment before it is damaged (see populate.h).
 */
#include "populate.h"

#include <string.h>

#include "lock/request.h"
#include "sync/life.h"

struct guest {
    unsigned session;
    const char *spec, *mode, *owner, *id;
    enum enq_death on_death;
    bool waits;
    int64_t ttl_ms;
};

#define LONG_FIELD                                                             \
    "0123456789012345678901234567890123456789012345678901234567890123456789"   \
    "0123456789012345678901234567890123456789012345678901234567890123456789"

static const struct guest guests[] = {
    {0, "a/x", "E", "ann", NULL, ENQ_DEATH_RELEASE, false, 0},
    {0, "a/y", "S", "ann", "id-1", ENQ_DEATH_KEEP, false, ENQ_FOREVER},
    {1, "a/y", "S", "bob", NULL, ENQ_DEATH_LEASE, false, 50},
    {1, "a/x", "X", "bob", NULL, ENQ_DEATH_RELEASE, true, 0},
    {0, "a/x", "S", "cid", "id-2", ENQ_DEATH_RELEASE, true, 0},
    {0, "b/1", "O", "ann", NULL, ENQ_DEATH_RELEASE, false, 0},
    {1, "b/1", "O", "bob", NULL, ENQ_DEATH_RELEASE, false, 0},
    {2, "b/1", "O", "dan", NULL, ENQ_DEATH_RELEASE, false, 0},
    {0, "c/@", "S", "ann", NULL, ENQ_DEATH_RELEASE, false, 0},
    {1, "c/1", "S", "bob", NULL, ENQ_DEATH_RELEASE, false, 0},
    {1, "c/@", "E", "bob", NULL, ENQ_DEATH_RELEASE, true, 0},
    {0, "c/2", "E", "cid", NULL, ENQ_DEATH_RELEASE, true, 0},
    {2, "e/1", "E", "dan", NULL, ENQ_DEATH_RELEASE, false, 0},
    {2, "e/2", "E", "dan", "id-3", ENQ_DEATH_KEEP, false, 0},
    {2, "e/3", "S", "dan", NULL, ENQ_DEATH_LEASE, false, 0},
    {2, "a/x", "E", "dan", NULL, ENQ_DEATH_RELEASE, true, 0},
    {0, "l/" LONG_FIELD, "E", "ann", NULL, ENQ_DEATH_RELEASE, false, 0},
    {1, "l/@", "O", "bob", NULL, ENQ_DEATH_RELEASE, true, 0},
};

static void note(struct arena *a, enq_handle handle)
{
    a->handles[a->n_handles++ % ARENA_HANDLES] = handle;
}

static struct enq_req request_of(const struct guest *g, char *buf, size_t n)
{
    struct enq_req req = {.size = sizeof(req),
        .owner = g->owner,
        .id = g->id,
        .on_death = g->on_death,
        .peer = g->on_death != ENQ_DEATH_RELEASE ? "a peer" : NULL,
        .ttl_ms = g->ttl_ms};

    if (enq_spec_parse(g->spec, &req, buf, n) != 0)
        fuzz_fail("%s: %s", g->spec, enq_why());
    req.mode = mode_from_letter(g->mode);
    return req;
}

static void hold(struct arena *a, const struct guest *g)
{
    char buf[KEY_BYTES_MAX];
    struct enq_req req = request_of(g, buf, sizeof(buf));
    struct enq_grant grant;

    if (enq_lock(&a->at[g->session].e, &req, &grant) != ENQ_OK)
        fuzz_fail("%s: %s", g->spec, enq_why());
    note(a, grant.handle);
}

static void queue(struct arena *a, const struct guest *g)
{
    char buf[KEY_BYTES_MAX], bytes[KEY_BYTES_MAX];
    struct enq_req req = request_of(g, buf, sizeof(buf));
    struct session *s = &a->at[g->session].e.session;
    struct ask ask = {.mode = req.mode,
        .owner = g->owner,
        .owner_bytes = (uint16_t)(strlen(g->owner) + 1),
        .id = g->id,
        .id_bytes = g->id == NULL ? 0 : (uint16_t)(strlen(g->id) + 1),
        .ttl_ms = 1000,
        .ticket = UINT64_MAX};
    struct place place;

    if (key_pack(&ask.key, bytes, sizeof(bytes), &req, a->map->hash_seed) !=
            0 ||
        slab_take(s, a->t, &place.e) != 0)
        fuzz_fail("%s: %s", g->spec, enq_why());
    memcpy(place.e->payload, bytes, key_bytes(&ask.key));
    if (request_lock(s, a->t, &ask, true, &place, NULL) != ENQ_PENDING)
        fuzz_fail("%s does not wait", g->spec);
    note(a, place_handle(a->map, &place));
}

/* As api/set.c does it. */
void populate_member(struct set *set, struct member *m,
    const struct enq_req *req)
{
    char bytes[KEY_BYTES_MAX];

    m->ask = (struct ask){.mode = req->mode,
        .on_death = (uint8_t)(req->on_death | ENTRY_SET),
        .owner = req->owner,
        .owner_bytes = (uint16_t)(strlen(req->owner) + 1),
        .ttl_ms = 1000,
        .ticket = UINT64_MAX};
    if (key_pack(&m->ask.key, bytes, sizeof(bytes), req,
            set->s->map->hash_seed) != 0)
        fuzz_fail("%s", enq_why());
    memcpy(m->place.e->payload, bytes, key_bytes(&m->ask.key));
    set_note(set, m);
}

static void queue_set(struct arena *a)
{
    static const struct guest members[ARENA_SET] = {
        {1, "a/x", "E", "eve", NULL, ENQ_DEATH_KEEP, true, 0},
        {1, "c/2", "S", "eve", NULL, ENQ_DEATH_RELEASE, true, 0},
        {1, "e/@", "S", "eve", NULL, ENQ_DEATH_LEASE, true, 0},
    };
    struct enq_blocker blocker;
    char buf[KEY_BYTES_MAX];
    struct enq_req req;
    uint32_t other;

    a->set = (struct set){.s = &a->at[1].e.session,
        .t = a->t,
        .member = a->of_set,
        .n = ARENA_SET,
        .deadline = MONO_NEVER,
        .blocker = &blocker};
    for (unsigned i = 0; i < ARENA_SET; i++) {
        req = request_of(&members[i], buf, sizeof(buf));
        if (slab_take(a->set.s, a->t, &a->of_set[i].place.e) != 0)
            fuzz_fail("%s", enq_why());
        populate_member(&a->set, &a->of_set[i], &req);
    }
    if (set_check(&a->set, &other) != SET_FINE ||
        set_lock(&a->set, true) != ENQ_PENDING)
        fuzz_fail("a set does not wait");
    for (unsigned i = 0; i < ARENA_SET; i++)
        note(a, place_handle(a->map, &a->of_set[i].place));
}

void populate_touch(struct arena *a, unsigned session)
{
    static const struct guest g = {.spec = "z", .mode = "E", .owner = "ann"};
    char buf[KEY_BYTES_MAX];
    struct enq_req req = request_of(&g, buf, sizeof(buf));
    struct enq *e = &a->at[session].e;
    struct enq_grant grant;

    if (enq_lock(e, &req, &grant) != ENQ_OK ||
        enq_unlock(e, grant.handle, 0) != ENQ_OK)
        fuzz_fail("%s", enq_why());
}

/* The word is left as the kernel leaves it. Unlocked first, so that this
   thread's robust list does not lead through it. */
static void die(pthread_mutex_t *life)
{
    life_end(life);
    *(uint32_t *)life = FUTEX_OWNER_DIED | FUTEX_WAITERS;
}

static void dead_thread(struct arena *a)
{
    struct map *map = a->map;
    struct thread_slot *slot = &map->threads[map->h->threads_high];

    if (map_reserve(map, (uint64_t)((char *)slot - (char *)map->h),
            sizeof(*slot)) != 0)
        fuzz_fail("no room for a thread");
    slot->ref = 1u << THREAD_BITS | map->h->threads_high++;
    slot->generation = 1;
    *(uint32_t *)&slot->life = FUTEX_OWNER_DIED;
    a->dead = slot;
}

void populate(struct arena *a)
{
    enq_handle lost;

    for (unsigned i = 0; i < LENGTH(guests); i++)
        (guests[i].waits ? queue : hold)(a, &guests[i]);
    queue_set(a);
    /* two that lose, and are remembered for their holders */
    lost = a->handles[5];
    if (enq_promote(&a->at[0].e, lost, 0, NULL) != ENQ_OK)
        fuzz_fail("%s", enq_why());
    die(&a->at[2].e.session.slot->life);
    dead_thread(a);
}
