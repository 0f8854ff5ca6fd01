/*
 * ask.c - steps: asking for a lock, waiting for it.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "history.h"
#include "table/request.h"
#include "table/wait.h"

/* --- what is asked for --- */

static const char *draw_owner(struct history *h)
{
    const char *const *owners = h->config->load->owners;
    unsigned n = 0;

    while (owners[n] != NULL)
        n++;
    return owners[draw(h, n)];
}

static int64_t draw_ttl(struct history *h)
{
    const int64_t *ttls = h->config->load->ttls;
    unsigned n = 0;

    while (ttls[n] != 0)
        n++;
    return ttls[draw(h, n)];
}

static void draw_ask(struct history *h, struct m_lock *ask)
{
    const struct load *load = h->config->load;

    memset(ask, 0, sizeof(*ask));
    ask->key = draw(h, h->m.n_keys);
    ask->mode = load->modes[draw(h, (unsigned)strlen(load->modes))];
    ask->owner = draw_owner(h);
    ask->on_death = (enum enq_death)draw(h, 3);
    ask->ttl_ms = draw_ttl(h);
    ask->arrival = M_NEW;
    ask->own_id = chance(h, load->id_percent);
    if (ask->own_id)
        snprintf(ask->id, sizeof(ask->id), "id %u", draw(h, 12));
}

static void fill_req(struct history *h, const struct m_lock *ask,
    struct enq_req *req)
{
    const struct m_key *key = &h->m.keys[ask->key];
    static const char letters[] = "?SEXO";

    *req = (struct enq_req){.size = sizeof(*req), .name = key->name};
    for (unsigned i = 0; i < key->fields; i++) {
        req->key[i] = key->field[i];
        if (!key->any[i])
            req->literal |= 1u << i;
    }
    req->mode = (enum enq_mode)(strchr(letters, ask->mode) - letters);
    req->owner = ask->owner;
    if (strcmp(ask->owner, "A") == 0 && chance(h, 20))
        req->owner = NULL; /* the default of every session here */
    req->id = ask->own_id ? ask->id : NULL;
    req->on_death = ask->on_death;
    req->ttl_ms = ask->ttl_ms == 900000 ? 0 : ask->ttl_ms;
}

/* --- the answer --- */

static void check_age(struct history *h, const struct m_lock *l,
    const struct enq_blocker *b)
{
    bool never = l->deadline_ns == M_NEVER || l->phase == M_WAITING;
    int64_t left = (l->deadline_ns - h->m.now_ns) / 1000000;

    if (never)
        left = ENQ_FOREVER;
    else if (left < 0)
        left = 0; /* kept by the dead */
    if (!m_age_fits(&h->m, l, b->age_ms) || b->ttl_left_ms != left)
        fail(h, "the blocker %s is said to be %lld ms old and to have %lld",
            lock_text(h, l), (long long)b->age_ms, (long long)b->ttl_left_ms);
    if (b->pid != (m_session_lives(&h->m, l) ? getpid() : 0))
        fail(h, "the blocker %s is said to be of process %d", lock_text(h, l),
            b->pid);
}

void check_blocker(struct history *h, const struct m_lock *self,
    const struct m_verdict *v, const struct enq_blocker *b)
{
    const struct m_lock *l = m_find_id(&h->m, b->id);
    static const char letters[] = "?SEXO";

    if (l == NULL) {
        fail(h, "the blocker \"%s\" does not exist", b->id);
        return;
    }
    say(h, "   blocked by %s", lock_text(h, l));
    if (!m_names(&h->m, self, v, l))
        fail(h, "the blocker %s is not the first in the way (%s)",
            lock_text(h, l),
            v->in_line && !v->held ? lock_text(h, v->in_line) : "a holder");
    if (strcmp(b->owner, l->owner) != 0 || letters[b->mode % 5] != l->mode ||
        b->waiting != (l->phase == M_WAITING))
        fail(h, "the blocker is %s, not %s (%c, waiting %d)", lock_text(h, l),
            b->owner, letters[b->mode % 5], b->waiting);
    if (b->queue != v->queue)
        fail(h, "%u are waiting in the model, %u in the answer", v->queue,
            b->queue);
    check_age(h, l, b);
}

void expect(struct history *h, int rc, unsigned answers)
{
    say(h, "   %s", enq_result_name(rc));
    if (rc < 0 || rc > 31 || !(answers >> rc & 1))
        fail(h, "the answer %s is not one of %#x (a bit each)",
            enq_result_name(rc), answers);
}

/* A live lock has this id already: then nothing else matters. */
static bool same_id(struct history *h, const struct m_lock *ask, int rc,
    const struct enq_blocker *b)
{
    const struct m_lock *other;

    if (!ask->own_id)
        return false;
    other = m_find_id(&h->m, ask->id);
    if (other == NULL)
        return false;
    expect(h, rc, ANSWER(ENQ_EXISTS));
    if (strcmp(b->id, ask->id) != 0 || strcmp(b->owner, other->owner) != 0)
        fail(h, "the holder of the id is %s, not %s", lock_text(h, other),
            b->id);
    return true;
}

/* The model's answer to a new request, the table having given its own. True:
   it is granted. */
static bool judge_new(struct history *h, const struct m_lock *ask, int rc,
    int refusal, const struct enq_blocker *b)
{
    struct m_verdict v;

    observe(h);
    settle(h);
    if (same_id(h, ask, rc, b))
        return false;
    v = m_judge(&h->m, ask);
    if (!v.held && v.in_line == NULL) {
        expect(h, rc, ANSWER(ENQ_OK));
        return true;
    }
    expect(h, rc, ANSWER(refusal));
    if (rc == refusal)
        check_blocker(h, ask, &v, b);
    return false;
}

/* Into the model, as held or waiting. */
static struct m_lock *enter(struct history *h, const struct m_lock *ask,
    enum m_phase phase, enq_handle handle)
{
    struct m_lock *l = m_room(&h->m);
    const struct enq_info *info = space_find(&h->s, handle);

    if (l == NULL || info == NULL) {
        fail(h, "a new lock is not in the table");
        return NULL;
    }
    *l = *ask;
    memset(caller_of(h, l), 0, sizeof(struct caller));
    l->handle = handle;
    l->phase = phase;
    l->since_ns = h->m.now_ns;
    if (!l->own_id)
        memcpy(l->id, info->id, sizeof(l->id));
    l->born = h->m.sessions[l->session].born;
    l->arrival = ++h->m.arrivals;
    h->was_there[l - h->m.locks] = true;
    h->left[l - h->m.locks] = false;
    if (phase == M_HELD)
        m_grant(&h->m, l);
    return l;
}

static void say_ask(struct history *h, const char *verb,
    const struct m_lock *ask)
{
    say(h, "%s %c %s owner \"%s\"%s%s session %u ttl %lld on_death %d", verb,
        ask->mode, h->m.keys[ask->key].text, ask->owner,
        ask->own_id ? " id " : "", ask->own_id ? ask->id : "", ask->session,
        (long long)ask->ttl_ms, (int)ask->on_death);
}

/* --- steps --- */

void step_lock(struct history *h)
{
    struct enq_grant grant;
    struct enq_req req;
    struct m_lock ask, *l;
    struct enq *e;
    int rc;

    draw_ask(h, &ask);
    e = any_session(h, &ask.session);
    fill_req(h, &ask, &req);
    say_ask(h, "lock", &ask);
    rc = enq_lock(e, &req, &grant);
    if (!judge_new(h, &ask, rc, ENQ_BUSY, &grant.blocker) || rc != ENQ_OK)
        return;
    l = enter(h, &ask, M_HELD, grant.handle);
    if (l != NULL)
        new_token(h, l, grant.token);
}

void step_test(struct history *h)
{
    struct enq_grant grant;
    struct enq_req req;
    struct m_lock ask;
    struct enq *e;
    int rc;

    draw_ask(h, &ask);
    e = any_session(h, &ask.session);
    fill_req(h, &ask, &req);
    req.flags = ENQ_TEST;
    say_ask(h, "test", &ask);
    rc = enq_lock(e, &req, &grant);
    judge_new(h, &ask, rc, ENQ_BUSY, &grant.blocker);
}

/* As enq_lock() does before it asks. */
static void fill_ask(struct history *h, struct caller *c,
    const struct enq_req *req, const char *owner)
{
    size_t n = strlen(owner) + 1;

    memset(&c->ask, 0, sizeof(c->ask));
    if (key_pack(&c->ask.key, c->bytes, req, h->s.map->hash_seed) != 0)
        fail(h, "a key is refused");
    c->ask.mode = req->mode;
    c->ask.owner = owner;
    c->ask.owner_bytes = (uint16_t)n;
    c->ask.owner_hash = (uint32_t)hash_bytes(owner, n, h->s.map->hash_seed);
    c->ask.id = req->id;
    c->ask.id_bytes = (uint16_t)(req->id == NULL ? 0 : strlen(req->id) + 1);
    c->ask.on_death = (uint8_t)req->on_death;
    c->ask.ttl_ms = req->ttl_ms == 0 ? 900000 : req->ttl_ms;
    c->ask.ticket = UINT64_MAX;
}

/* The caller's own copies move to where the lock is. */
static void settle_down(struct history *h, struct m_lock *l, struct caller *c)
{
    struct caller *own = caller_of(h, l);

    *own = *c;
    own->ask.key.bytes = own->bytes;
    own->ask.id = l->id;
    own->ask.ticket = own->place.e->ticket;
    own->asleep = true;
    shm_store(&own->place.e->asleep, 1);
    l->inside = true;
}

void step_wait(struct history *h)
{
    static const int64_t waits_ms[] = {1, 10, 100, ENQ_FOREVER};
    int64_t wait_ms = waits_ms[draw(h, 4)];
    struct enq_blocker blocker;
    struct caller c = {0};
    struct enq_req req;
    struct m_lock ask, *l;
    struct enq *e;
    int rc;

    draw_ask(h, &ask);
    e = any_session(h, &ask.session);
    fill_req(h, &ask, &req);
    fill_ask(h, &c, &req, ask.owner);
    c.deadline = mono_add_ms((mono_t){h->m.now_ns}, wait_ms);
    say_ask(h, "wait", &ask);
    rc = request_lock(&e->session, h->s.t, &c.ask, true, &c.place, &blocker);
    if (judge_new(h, &ask, rc, ENQ_PENDING, &blocker) && rc == ENQ_OK) {
        l = enter(h, &ask, M_HELD, entry_handle(h->s.map, c.place.e));
        if (l != NULL)
            new_token(h, l, c.place.token);
    } else if (rc == ENQ_PENDING) {
        l = enter(h, &ask, M_WAITING, entry_handle(h->s.map, c.place.e));
        if (l != NULL)
            settle_down(h, l, &c);
    }
}

/* --- a waiter looks --- */

/* How its wait ended, if it ended before it looked. 0: it waits. */
static unsigned ended(const struct caller *c, const struct m_lock *l)
{
    if (l->phase == M_WAITING)
        return 0;
    if (l->phase == M_HELD)
        return ANSWER(ENQ_OK);
    return ANSWER(ENQ_CANCELLED) | (c->granted ? ANSWER(ENQ_OK) : 0);
}

/* Its wait is over: the grant's handle says the rest. */
static void told_end(struct history *h, struct m_lock *l, int rc)
{
    (void)h;
    l->inside = false;
    if (rc == ENQ_CANCELLED)
        l->answers = ANSWER(ENQ_NOTHELD);
}

static void time_out(struct history *h, struct m_lock *l,
    const struct m_verdict *v, const struct enq_blocker *b)
{
    l->inside = false;
    check_blocker(h, l, v, b);
    m_end(&h->m, l, ANSWER(ENQ_NOTHELD));
}

static void judge_waiting(struct history *h, struct m_lock *l, int rc,
    const struct enq_blocker *b)
{
    struct m_verdict v;

    adopt(h);
    if (l->phase == M_HELD) {
        expect(h, rc, ANSWER(ENQ_OK));
        l->inside = false;
        return;
    }
    v = m_judge(&h->m, l);
    if (!v.held && v.in_line == NULL && !had_its_turn(h, l))
        fail(h, "%s looked and did not go", lock_text(h, l));
    if (h->m.now_ns < caller_of(h, l)->deadline.ns) {
        expect(h, rc, ANSWER(ENQ_PENDING));
        return;
    }
    expect(h, rc, ANSWER(ENQ_TIMEDOUT));
    if (rc == ENQ_TIMEDOUT)
        time_out(h, l, &v, b);
}

static int look(struct history *h, struct m_lock *l)
{
    struct caller *c = caller_of(h, l);
    struct session *s = &h->s.at[l->session].session;
    unsigned before = ended(c, l);
    struct enq_blocker blocker = {.id = ""};
    int rc;

    say(h, "look %s", lock_text(h, l));
    if (h->was_there[l - h->m.locks])
        shm_store(&c->place.e->asleep, 0);
    c->asleep = c->told = false;
    rc = wait_look(s, h->s.t, &c->ask, &c->place, c->deadline, &blocker);
    observe(h);
    if (before == 0) {
        judge_waiting(h, l, rc, &blocker);
    } else {
        expect(h, rc, before);
        told_end(h, l, rc);
    }
    settle(h);
    if (l->inside && l->phase == M_WAITING) {
        c->asleep = true;
        shm_store(&c->place.e->asleep, 1);
    }
    return rc;
}

static struct m_lock *draw_inside(struct history *h)
{
    unsigned first = draw(h, M_LOCKS);

    for (unsigned i = 0; i < M_LOCKS; i++) {
        struct m_lock *l = &h->m.locks[(first + i) % M_LOCKS];

        if (l->inside && m_session_lives(&h->m, l))
            return l;
    }
    return NULL;
}

void step_look(struct history *h)
{
    struct m_lock *l = draw_inside(h);

    if (l != NULL)
        look(h, l);
}

/* Everybody, until nothing moves any more: then nobody is left who may go. */
void step_look_all(struct history *h)
{
    bool moved = true;

    for (unsigned round = 0; moved && round < M_LOCKS && !h->failed; round++) {
        moved = false;
        for (unsigned i = 0; i < M_LOCKS && !h->failed; i++) {
            struct m_lock *l = &h->m.locks[i];

            if (!l->inside || !m_session_lives(&h->m, l))
                continue;
            moved |= look(h, l) != ENQ_PENDING;
            step_done(h);
        }
    }
    for (unsigned i = 0; i < M_LOCKS; i++)
        if (m_waits(&h->m, &h->m.locks[i]) && m_may_go(&h->m, &h->m.locks[i]))
            fail(h, "%s waits for nothing", lock_text(h, &h->m.locks[i]));
}
