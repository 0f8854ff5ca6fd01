/*
 * attempt.c - api: a request as its caller wrote it (see attempt.h).
 */
#include "api/attempt.h"

#include <stdio.h>
#include <time.h>

#include "base/hash.h"
#include "lock/hold.h"
#include "recovery/heal.h"
#include "rules/spec.h"

#define DELAY_MOST_MS (24 * 3600 * 1000)
#define RETRY_DEFAULT_MS 5
#define RETRY_CAP_MS 10000

/* --- what is asked for --- */

static int judge_heartbeat(const struct enq_req *req)
{
    int64_t ttl_ms = req->ttl_ms == 0 ? TTL_DEFAULT_MS : req->ttl_ms;

    if (req->heartbeat_ms < 0 || ttl_ms == ENQ_FOREVER)
        return why(-EINVAL,
            "a heartbeat of %lld ms renews a ttl, and is shorter than it",
            (long long)req->heartbeat_ms);
    if (req->heartbeat_ms >= ttl_ms)
        return why(-EINVAL,
            "a heartbeat of %lld ms comes too late for a ttl of %lld ms",
            (long long)req->heartbeat_ms, (long long)ttl_ms);
    return 0;
}

int attempt_judge_times(const struct enq_req *req)
{
    if (req->wait_ms < ENQ_FOREVER || req->ttl_ms < ENQ_FOREVER ||
        req->retry_ms < 0)
        return why(-EINVAL,
            "a time is negative (wait %lld, ttl %lld, retry %lld ms)",
            (long long)req->wait_ms, (long long)req->ttl_ms,
            (long long)req->retry_ms);
    if (req->retries > 0 && req->wait_ms != 0)
        return why(-EINVAL, "wait for the lock, or retry: not both");
    if (req->delay_ms < 0 || req->delay_ms > DELAY_MOST_MS)
        return why(-EINVAL, "a lock delay of %lld ms: 0 to %d",
            (long long)req->delay_ms, DELAY_MOST_MS);
    return req->heartbeat_ms == 0 ? 0 : judge_heartbeat(req);
}

int attempt_take_more(const struct enq_req *req, struct ask *ask)
{
    size_t delay_bytes = req->delay_ms > 0 ? sizeof(ask->delay_ms) : 0;
    size_t n = req->peer == NULL ? 0 : strlen(req->peer);

    if (n >= ENQ_PEER_BYTES)
        return why(-ENAMETOOLONG, "the peer \"%.32s...\" is longer than %d",
            req->peer, ENQ_PEER_BYTES - 1);
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

int attempt_pack_aside(struct call *c)
{
    return pack_into(c, c->bytes, sizeof(c->bytes));
}

int attempt_prepare_slowly(struct call *c)
{
    if (shm_load(&c->e->map->h->unlinked))
        return why(ENQ_EGONE,
            "%s was removed while we used it: no new locks; open it again",
            c->e->path);
    if (c->req->flags & ENQ_TEST)
        return 0;
    c->beat = beat_make(c->e, c->req->heartbeat_ms);
    return c->beat != NULL ? 0 : -ENOMEM;
}

/* --- an entry for it --- */

static void note_overflow(struct enq *e, const struct ask *ask)
{
    char *owner = e->map->h->overflow_owner;

    /* for people; two at once may mix, which a reader survives */
    memcpy(owner, ask->owner, ask->owner_bytes);
    owner[ENQ_OWNER_BYTES - 1] = '\0';
}

int attempt_take_slowly(struct call *c, struct place *place)
{
    struct session *s = &c->e->session;
    int rc = attempt_pack_aside(c);

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

/* How long to wait for what others give back. Who is stopped gives nothing: so
   nobody waits again for a while when nothing came. */
#define ASK_NS (100 * NS_PER_MS)
#define DEAF_NS NS_PER_S
#define ASK_LOOKS 16 /* where time is turned by hand */

static struct slab_hoard hoard_for(const struct call *c)
{
    return slab_hoard_of(c->e->map, c->e->session.ref,
        ask_payload_bytes(c->ask) > SMALL_PAYLOAD ? PAGE_LARGE : PAGE_SMALL);
}

/* Whoever keeps the room is named. */
static int explain_hoard(const struct call *c, int rc,
    const struct slab_hoard *hoard)
{
    const struct map *map = c->e->map;
    char first[256];

    snprintf(first, sizeof(first), "%s", enq_why());
    return why(rc,
        "%s; %u pages have no lock in them, but process %u, say, keeps them "
        "and has not given them back (is it stopped?)",
        first, hoard->pages,
        shm_load(&at_session(map, hoard->of)->process.pid));
}

/* Whoever has pages with nothing in them gives them back. */
static int take_from_others(struct call *c, struct place *place, int rc)
{
    struct session *s = &c->e->session;
    struct seg_header *h = c->e->map->h;
    mono_t now = sys.now(), until = mono_add_ns(now, ASK_NS);
    struct slab_hoard hoard = hoard_for(c);
    uint32_t given = shm_load_acquire(&h->given);
    int looks = shm_load(&s->deaf_ns) <= now.ns ? ASK_LOOKS : 0;

    if (hoard.pages > 0 && looks > 0)
        slab_want(c->e->map);
    while (page_is_short(rc) && hoard.pages > 0) {
        if (looks-- == 0 || mono_reached(until, sys.now()))
            return explain_hoard(c, rc, &hoard);
        sys.wait(&(struct sys_watch){&h->given, given}, 1, until);
        given = shm_load_acquire(&h->given);
        rc = attempt_take_at_once(c, place);
        hoard = hoard_for(c);
        if (mono_reached(until, sys.now()))
            shm_store(&s->deaf_ns, mono_add_ns(until, DEAF_NS).ns);
    }
    return rc;
}

/* Before anybody is told that there is no room: what the dead have left is
   taken, what has run out, and what others do not use. */
int attempt_take_in_need(struct call *c, struct place *place)
{
    int rc;

    bury_dead(&c->e->session, c->t);
    hold_sweep_all(&c->e->session, c->t);
    rc = attempt_take_at_once(c, place);
    if (unlikely(page_is_short(rc)))
        rc = take_from_others(c, place, rc);
    if (rc == ENQ_EFULL) {
        thread_count(c->t, COUNT_OVERFLOWS);
        note_overflow(c->e, c->ask);
    }
    return rc;
}

/* --- answers --- */

void attempt_refusal_words(const void *facts, char *text, size_t n)
{
    const struct refusal *r = facts;
    struct key key = {
        .bytes = r->texts, .fields = r->fields, .generic = r->generic};
    char what[SPEC_BYTES];

    spec_write(&key, what, sizeof(what));
    snprintf(text, n, "\"%s\" is %s \"%s\" (%c, since %lld ms)", what,
        r->waiting ? "waited for by" : "locked by", r->texts + r->key_bytes,
        mode_letter(r->mode), (long long)r->age_ms);
}

void attempt_count(struct thread *t, int rc)
{
    if (rc == ENQ_BUSY || rc == ENQ_EXISTS || rc == ENQ_DEADLOCK)
        thread_count(t, COUNT_REFUSALS);
    else if (rc == ENQ_TIMEDOUT)
        thread_count(t, COUNT_TIMEOUTS);
}

int attempt_failed(struct call *c, int rc)
{
    if (rc != ENQ_BUSY && rc != ENQ_TIMEDOUT && rc != ENQ_EXISTS &&
        rc != ENQ_DEADLOCK)
        c->grant->blocker.owner[0] = '\0';
    attempt_count(c->t, rc);
    return rc;
}

/* --- retries --- */

int64_t attempt_first_step_ms(const struct enq_req *req)
{
    return req->retry_ms == 0 ? RETRY_DEFAULT_MS : req->retry_ms;
}

/* Jitter after the cap. */
void attempt_pause(int64_t *step_ms, uint64_t *dice)
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
