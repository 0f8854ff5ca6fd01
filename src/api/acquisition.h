/*
 * acquisition.h - api: a request as its caller wrote it: checked, packed into
 * an entry, and its answer explained. What enq_lock() and its like share.
 */
#ifndef API_ACQUISITION_H
#define API_ACQUISITION_H

#include <string.h>

#include "api/attachment.h"
#include "api/refusal.h"
#include "async/bell.h"
#include "async/heartbeat.h"
#include "lock/request.h"
#include "store/page.h"

#define TTL_DEFAULT_MS (15 * 60 * 1000)

/* One call of enq_lock(). */
struct acquisition {
    struct enq *e;
    struct thread *t;
    const struct enq_req *req;
    struct enq_grant *grant;
    uint32_t retries;            /* that it took */
    struct heartbeat *heartbeat; /* begins with the grant; or NULL */
    struct ask *ask;             /* where the request is packed: */
    struct ask own;              /* here, or where a set's member has its own */
    char bytes[KEY_BYTES_MAX];   /* the key, where the entry's will not do */
};

/* --- what is asked for --- */

/* A request of another version of the header becomes one of this. 0, or the
   fault, explained. */
int lock_copy_request(const struct enq_req **req, struct enq_req *copy);

/* Times, if there are any but zeros. 0, or the fault, explained. */
int acquisition_check_times(const struct enq_req *req);

HOT int check_choices(const struct enq_req *req)
{
    if (unlikely(!mode_known(req->mode)))
        return why(-EINVAL, "unknown mode %d: S, E, X or O", (int)req->mode);
    if (unlikely((unsigned)req->on_death > ENQ_DEATH_KEEP))
        return why(-EINVAL, "unknown on_death %d", (int)req->on_death);
    if (unlikely(req->flags & ~(uint32_t)(ENQ_TEST | ENQ_NO_DEADLOCK)))
        return why(-EINVAL, "unknown flags %#x in the request", req->flags);
    if (likely((req->wait_ms | req->ttl_ms | req->heartbeat_ms | req->delay_ms |
                   req->retry_ms | req->retries) == 0))
        return 0;
    return acquisition_check_times(req);
}

/* Of a set all have one owner, mostly by one pointer. */
HOT int take_owner(const struct enq *e, const struct enq_req *req,
    const struct ask *lead, struct ask *ask)
{
    size_t n;

    ask->owner = req->owner != NULL ? req->owner : e->owner;
    if (lead != NULL && lead->owner == ask->owner) {
        ask->owner_bytes = lead->owner_bytes;
        return 0;
    }
    n = strlen(ask->owner) + 1;
    if (unlikely(n > ENQ_OWNER_BYTES))
        return why(-ENAMETOOLONG,
            "the owner \"%.32s...\" is longer than %d bytes", ask->owner,
            ENQ_OWNER_BYTES - 1);
    ask->owner_bytes = (uint16_t)n;
    return 0;
}

/* Of all that is to be read from the table the id's bucket can be asked for
   first: it is on its way while the key is packed, and the key's bucket comes. */
HOT int take_id(const struct enq *e, const struct enq_req *req, struct ask *ask)
{
    size_t n;

    ask->id = req->id;
    ask->id_bytes = 0;
    if (likely(req->id == NULL))
        return 0;
    n = strlen(req->id) + 1;
    if (n > ENQ_ID_BYTES)
        return why(-ENAMETOOLONG, "the id \"%.32s...\" is longer than %d bytes",
            req->id, ENQ_ID_BYTES - 1);
    if (n == 1)
        return why(-EINVAL, "the id is empty: leave it NULL for a new uuid");
    ask->id_bytes = (uint16_t)n;
    if (e->map != NULL)
        spot_fetch_id(e->map, ask->id, n);
    return 0;
}

/* What few ask for: a lock delay, for somebody else. */
int acquisition_take_more(const struct enq_req *req, struct ask *ask);

/* All but the key, which is packed where it shall be. */
HOT int take_request(struct acquisition *c, const struct ask *lead)
{
    const struct enq_req *req = c->req;
    int rc = check_choices(req);

    if (likely(rc == 0))
        rc = take_owner(c->e, req, lead, c->ask);
    if (likely(rc == 0))
        rc = take_id(c->e, req, c->ask);
    c->ask->mode = req->mode;
    c->ask->on_death = (uint8_t)req->on_death;
    c->ask->more_bytes = 0;
    if (unlikely(rc == 0 && (req->delay_ms != 0 || req->peer != NULL)))
        rc = acquisition_take_more(req, c->ask);
    c->ask->ttl_ms = req->ttl_ms == 0 ? TTL_DEFAULT_MS : req->ttl_ms;
    c->ask->ticket = UINT64_MAX;
    c->ask->started = 0;
    c->ask->cycles = (req->flags & ENQ_NO_DEADLOCK) == 0;
    c->heartbeat = NULL;
    return rc;
}

HOT int pack_into(struct acquisition *c, char *to, size_t room)
{
    return key_pack(&c->ask->key, to, room, c->req, c->e->map->hash_seed);
}

/* For as long as the call lasts: an entry may be another's before. */
int acquisition_pack_aside(struct acquisition *c);

/* The space was removed, or there shall be heartbeats. */
int acquisition_prepare_slowly(struct acquisition *c);

/* What may be refused, or fail, before the table is asked.
   @lead  the set's first, or NULL */
HOT int acquisition_prepare(struct acquisition *c, const struct ask *lead)
{
    int rc = take_request(c, lead);

    if (unlikely(rc == 0 &&
            (shm_load(&c->e->map->h->unlinked) != 0 ||
                c->req->heartbeat_ms != 0)))
        rc = acquisition_prepare_slowly(c);
    return rc;
}

/* --- what is asked for together --- */

/* May there be such a set at all? 0, or the fault, explained. */
int lock_set_check(const struct enq_req *const *reqs, size_t n,
    const struct enq_grant *grants);

/* For a caller that checks the members of a set itself: has this one the owner
   and the patience of the first? The message says which member differs. */
int lock_set_unity(const struct enq_req *first, const struct ask *lead,
    const struct enq_req *req, const struct ask *ask);
int lock_set_explain(int rc, unsigned i);

/* --- an entry for it --- */

/* The magazine is empty, or the request too large for what lies in it; or the
   table seems to be full. */
int acquisition_take_slowly(struct acquisition *c, struct place *place);
int acquisition_take_in_need(struct acquisition *c, struct place *place);

/* An entry with the key in it, packed where it stays. */
HOT int acquisition_take_at_once(struct acquisition *c, struct place *place)
{
    struct session *s = &c->e->session;
    size_t others =
        (size_t)c->ask->owner_bytes + c->ask->id_bytes + c->ask->more_bytes;

    if (unlikely(others >= SMALL_PAYLOAD))
        return acquisition_take_slowly(c, place);
    if (unlikely(!slab_pop(s, c->t, &place->e)))
        return acquisition_take_slowly(c, place);
    if (unlikely(pack_into(c, place->e->payload, SMALL_PAYLOAD - others) !=
            0)) {
        slab_give(s, c->t, place->e);
        return acquisition_take_slowly(c, place);
    }
    return 0;
}

HOT int acquisition_take(struct acquisition *c, struct place *place)
{
    int rc = acquisition_take_at_once(c, place);

    return unlikely(rc != 0) && page_is_short(rc)
        ? acquisition_take_in_need(c, place)
        : rc;
}

/* --- answers --- */

void acquisition_count(struct thread *t, int rc);

/* Whom the answer does not tell of is not named; counts it. Returns `rc`. */
int acquisition_failed(struct acquisition *c, int rc);

/* It was not asked, or there was no answer: nobody is in the way, and what the
   caller has may name somebody from before. Returns `rc`.
   @grants  as the caller gave them: perhaps NULL, perhaps too many */
int acquisition_fault(int rc, struct enq_grant *grants, size_t n);

HOT int refuse(int rc, const struct ask *ask, const struct enq_blocker *b)
{
    struct refusal *r = why_later(refusal_words);
    size_t key = key_bytes(&ask->key), owner = 0;

    /* byte by byte: it was written a moment ago, in pieces, and to read more
       than a piece at once would stall */
    while (owner < ENQ_OWNER_BYTES - 1 && b->owner[owner] != '\0')
        owner++;
    r->result = rc;
    r->age_ms = b->age_ms;
    r->ttl_left_ms = b->ttl_left_ms;
    r->pid = b->pid;
    r->queue = b->queue;
    r->mode = b->mode;
    r->waiting = b->waiting;
    r->dying = b->dying;
    r->fields = ask->key.fields;
    r->generic = ask->key.generic;
    r->key_bytes = (uint16_t)key;
    memcpy(r->texts, ask->key.bytes, key);
    bytes_copy(r->texts + key, b->owner, owner + 1);
    return rc;
}

HOT int acquisition_explain(int rc, const struct ask *ask,
    const struct enq_blocker *b)
{
    switch (rc) {
    case ENQ_BUSY:
    case ENQ_TIMEDOUT:
        return refuse(rc, ask, b);
    case ENQ_EXISTS:
        return why(rc, "a lock with the id \"%.127s\" already exists", ask->id);
    case ENQ_CANCELLED:
        return why(rc,
            "the request for %s was cancelled: it was unlocked or broken "
            "while it waited",
            ask->key.bytes);
    case ENQ_ECORRUPT:
        return why(rc, "the space is damaged: run lockctl doctor");
    default:
        return rc;
    }
}

/* The helper watches its deadline from now, and renews it if wanted. */
HOT void acquisition_begin_lease(struct acquisition *c,
    const struct place *place)
{
    helper_watch(c->e, place->e);
    c->grant->handle = place_handle(c->e->map, place);
    c->grant->token = place->token;
    if (unlikely(c->heartbeat != NULL))
        heartbeat_begin(c->e, c->heartbeat, c->grant->handle);
}

/* --- retries --- */

/* Full jitter: anything from nothing to the step, which is doubled, up to a
   cap. The dice are the caller's. */
void acquisition_pause(int64_t *step_ms, uint64_t *dice);
int64_t acquisition_first_step_ms(const struct enq_req *req);

#endif
