/*
 * acquisition.c - api: a request as its caller wrote it (see acquisition.h).
 */
#include "api/acquisition.h"

#include <stdio.h>
#include <time.h>

#include "api/options.h"
#include "base/hash.h"
#include "lock/hold_end.h"
#include "recovery/reap.h"
#include "store/full.h"
#include "store/walk.h"

#define DELAY_MOST_MS (24 * 3600 * 1000)
#define RETRY_DEFAULT_MS 5
#define RETRY_CAP_MS 10000

/* --- what is asked for --- */

int lock_copy_request(const struct enq_req **req, struct enq_req *copy)
{
    int rc;

    if (unlikely(*req == NULL))
        return why(-EINVAL, "the request is NULL");
    if (likely((*req)->size == sizeof(**req)))
        return 0;
    rc = options_copy(copy, sizeof(*copy), *req, (*req)->size, "request");
    *req = copy;
    return rc;
}

static int check_heartbeat(const struct enq_req *req)
{
    int64_t ttl_ms = req->ttl_ms == 0 ? TTL_DEFAULT_MS : req->ttl_ms;

    if (req->heartbeat_ms < 0 || ttl_ms == ENQ_FOREVER)
        return why(-EINVAL,
            "a heartbeat of %lld ms is not possible: it renews a ttl, and must "
            "be shorter",
            (long long)req->heartbeat_ms);
    if (req->heartbeat_ms >= ttl_ms)
        return why(-EINVAL,
            "a heartbeat of %lld ms comes too late for a ttl of %lld ms",
            (long long)req->heartbeat_ms, (long long)ttl_ms);
    return 0;
}

int acquisition_check_times(const struct enq_req *req)
{
    if (req->wait_ms < ENQ_FOREVER || req->ttl_ms < ENQ_FOREVER ||
        req->retry_ms < 0)
        return why(-EINVAL,
            "a time is negative (wait %lld ms, ttl %lld ms, retry %lld ms)",
            (long long)req->wait_ms, (long long)req->ttl_ms,
            (long long)req->retry_ms);
    if (req->retries > 0 && req->wait_ms != 0)
        return why(-EINVAL, "give a wait or retries, not both");
    if (req->delay_ms < 0 || req->delay_ms > DELAY_MOST_MS)
        return why(-EINVAL,
            "a lock delay of %lld ms is not possible: 0 to %d ms",
            (long long)req->delay_ms, DELAY_MOST_MS);
    return req->heartbeat_ms == 0 ? 0 : check_heartbeat(req);
}

int acquisition_take_more(const struct enq_req *req, struct ask *ask)
{
    size_t delay_bytes = req->delay_ms > 0 ? sizeof(ask->delay_ms) : 0;
    size_t n = req->peer == NULL ? 0 : strlen(req->peer);

    if (n >= ENQ_PEER_BYTES)
        return why(-ENAMETOOLONG,
            "the peer \"%.32s...\" is longer than %d bytes", req->peer,
            ENQ_PEER_BYTES - 1);
    if (delay_bytes > 0)
        ask->on_death |= ENTRY_DELAYS;
    if (n > 0)
        ask->on_death |= ENTRY_PEER;
    ask->delay_ms = (uint32_t)req->delay_ms;
    ask->peer = req->peer;
    ask->peer_bytes = (uint16_t)(n > 0 ? n + 1 : 0);
    ask->more_bytes = (uint16_t)(delay_bytes + ask->peer_bytes);
    return 0;
}

int acquisition_pack_aside(struct acquisition *c)
{
    return pack_into(c, c->bytes, sizeof(c->bytes));
}

int acquisition_prepare_slowly(struct acquisition *c)
{
    if (shm_load(&c->e->map->h->unlinked))
        return why(ENQ_EGONE,
            "%s was removed while in use: it takes no new locks; open it again",
            c->e->path);
    if (c->req->flags & ENQ_TEST)
        return 0;
    c->heartbeat = heartbeat_make(c->e, c->req->heartbeat_ms);
    return c->heartbeat != NULL ? 0 : -ENOMEM;
}

/* --- what is asked for together --- */

int lock_set_explain(int rc, unsigned i)
{
    char text[WHY_BYTES];

    why_copy(text, sizeof(text), enq_why());
    return why(rc, "lock %u of the set: %s", i + 1, text);
}

int lock_set_check(const struct enq_req *const *reqs, size_t n,
    const struct enq_grant *grants)
{
    if (reqs == NULL || n == 0 || n > ENQ_SET_MAX)
        return why(-EINVAL, "a set of %zu locks is not possible: 1 to %d", n,
            ENQ_SET_MAX);
    for (size_t i = 0; i < n; i++)
        if (reqs[i] == NULL)
            return why(-EINVAL, "lock %zu of the set: the request is NULL",
                i + 1);
    if (grants == NULL && (reqs[0]->flags & ENQ_TEST) == 0)
        return why(-EINVAL, "the pointer for the grants is NULL");
    return 0;
}

/* One waiter: one owner, one patience. */
int lock_set_unity(const struct enq_req *first, const struct ask *lead,
    const struct enq_req *req, const struct ask *ask)
{
    if (lead->owner != ask->owner && strcmp(lead->owner, ask->owner) != 0)
        return why(-EINVAL,
            "its owner is \"%s\", the first one's is \"%s\": a set has one "
            "owner",
            ask->owner, lead->owner);
    if (req->wait_ms != first->wait_ms || req->flags != first->flags ||
        req->retries != first->retries || req->retry_ms != first->retry_ms)
        return why(-EINVAL,
            "its wait, flags and retries differ from the first one's: a set "
            "waits as one");
    return 0;
}

/* --- an entry for it --- */

static void note_overflow(struct enq *e, const struct ask *ask)
{
    char *owner = e->map->h->overflow_owner;

    /* for people; two at once may mix, which a reader survives */
    memcpy(owner, ask->owner, ask->owner_bytes);
    owner[ENQ_OWNER_BYTES - 1] = '\0';
}

int acquisition_take_slowly(struct acquisition *c, struct place *place)
{
    struct session *s = &c->e->session;
    int rc = acquisition_pack_aside(c);

    if (rc != 0)
        return rc;
    if (ask_payload_bytes(c->ask) > SMALL_PAYLOAD)
        rc = slab_take_large(s, c->t, &place->e);
    else
        rc = slab_take(s, c->t, &place->e);
    if (rc != 0)
        return rc;
    memcpy(place->e->payload, c->bytes, key_bytes(&c->ask->key));
    return 0;
}

/* How long to wait for what others give back: on a busy machine a helper that
   was woken may run a tenth of a second later. A stopped process gives nothing:
   so when nothing came no thread waits again for a while. */
#define ASK_NS (500 * NS_PER_MS)
#define DEAF_NS NS_PER_S
#define ASK_LOOKS 16 /* where time is turned by hand */

static enum page_kind kind_for(const struct acquisition *c)
{
    return ask_payload_bytes(c->ask) > SMALL_PAYLOAD ? PAGE_LARGE : PAGE_SMALL;
}

static struct slab_hoard hoard_for(const struct acquisition *c)
{
    return slab_hoard_of(c->e->map, c->e->session.ref, kind_for(c));
}

/* The message names a session that keeps the room. */
static int explain_hoard(const struct acquisition *c, int rc,
    const struct slab_hoard *hoard)
{
    const struct map *map = c->e->map;
    char first[256];

    snprintf(first, sizeof(first), "%s", enq_why());
    return why(rc,
        "%s; %u pages are empty, but processes keep them: process %u, for one "
        "(is it stopped?)",
        first, hoard->pages,
        shm_load(&at_session(map, hoard->of)->process.pid));
}

/* Asks all sessions for room that they do not use, and waits for it. */
static int take_from_others(struct acquisition *c, struct place *place, int rc)
{
    struct session *s = &c->e->session;
    struct seg_header *h = c->e->map->h;
    mono_t now = sys.now(), until = mono_add_ns(now, ASK_NS);
    struct slab_hoard hoard = hoard_for(c);
    uint32_t given = shm_load_acquire(&h->given);
    int looks = shm_load(&s->deaf_ns) <= now.ns ? ASK_LOOKS : 0;

    if (looks > 0)
        slab_want(c->e->map);
    while (page_is_short(rc) && hoard.pages > 0) {
        if (looks-- == 0 || mono_reached(until, sys.now()))
            return explain_hoard(c, rc, &hoard);
        sys.wait(&(struct sys_watch){&h->given, given}, 1, until);
        given = shm_load_acquire(&h->given);
        rc = acquisition_take_at_once(c, place);
        hoard = hoard_for(c);
        if (mono_reached(until, sys.now()))
            shm_store(&s->deaf_ns, mono_add_ns(until, DEAF_NS).ns);
    }
    return rc;
}

static bool is_known_full(const struct acquisition *c)
{
    struct session *s = &c->e->session;
    bool known;

    pthread_mutex_lock(&s->mutex);
    known = full_is_known(s, slab_depot(s, kind_for(c)));
    pthread_mutex_unlock(&s->mutex);
    return known;
}

/* What has run out, and what nobody uses. */
static int search_for_room(struct acquisition *c, struct place *place)
{
    struct session *s = &c->e->session;
    struct full search = full_begin(s);
    int64_t next_ns = hold_sweep_all(s, c->t);
    int rc = acquisition_take_at_once(c, place);

    if (!page_is_short(rc))
        return rc;
    if (hoard_for(c).pages > 0)
        return take_from_others(c, place, rc);
    if (rc == ENQ_EFULL)
        full_note(s, kind_for(c), search, next_ns);
    return rc;
}

/* Before anybody is told that there is no room: what the dead have left is
   taken, what has run out, and what others do not use. */
int acquisition_take_in_need(struct acquisition *c, struct place *place)
{
    int rc = ENQ_EFULL;

    reap_dead(&c->e->session, c->t);
    if (!is_known_full(c))
        rc = search_for_room(c, place);
    if (rc == ENQ_EFULL) {
        thread_count(c->t, COUNT_OVERFLOWS);
        note_overflow(c->e, c->ask);
    }
    return rc;
}

/* --- answers --- */

void acquisition_count(struct thread *t, int rc)
{
    if (rc == ENQ_BUSY || rc == ENQ_EXISTS || rc == ENQ_DEADLOCK)
        thread_count(t, COUNT_REFUSALS);
    else if (rc == ENQ_TIMEDOUT)
        thread_count(t, COUNT_TIMEOUTS);
}

int acquisition_failed(struct acquisition *c, int rc)
{
    if (rc != ENQ_BUSY && rc != ENQ_TIMEDOUT && rc != ENQ_EXISTS &&
        rc != ENQ_DEADLOCK)
        c->grant->blocker.owner[0] = '\0';
    acquisition_count(c->t, rc);
    return rc;
}

int acquisition_fault(int rc, struct enq_grant *grants, size_t n)
{
    for (size_t i = 0; grants != NULL && i < n && i < ENQ_SET_MAX; i++)
        grants[i].blocker.owner[0] = '\0';
    return rc;
}

/* --- retries --- */

int64_t acquisition_first_step_ms(const struct enq_req *req)
{
    return req->retry_ms == 0 ? RETRY_DEFAULT_MS : req->retry_ms;
}

/* Jitter after the cap. */
void acquisition_pause(int64_t *step_ms, uint64_t *dice)
{
    int64_t most_ms = *step_ms > RETRY_CAP_MS ? RETRY_CAP_MS : *step_ms, ns;
    struct timespec ts;

    *step_ms = most_ms * 2;
    *dice = hash_dice(*dice, (uint64_t)sys.now().ns);
    ns = (int64_t)(*dice % (uint64_t)(most_ms * NS_PER_MS));
    ts = (struct timespec){ns / NS_PER_S, ns % NS_PER_S};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
        continue;
}
