/*
 * ask.c - steps: asking for a lock, waiting for it.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "history.h"
#include "lock/request.h"
#include "wait/cycle.h"
#include "wait/wait.h"

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

void draw_ask(struct history *h, struct m_lock *ask)
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

void fill_req(struct history *h, const struct m_lock *ask, struct enq_req *req)
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
    if (!m_age_fits(&h->m, l, b->age_ms) ||
        !m_left_fits(&h->m, left, b->ttl_left_ms))
        fail(h, "the blocker %s is said to be %lld ms old and to have %lld",
            lock_text(h, l), (long long)b->age_ms, (long long)b->ttl_left_ms);
    if (b->pid != (m_session_lives(&h->m, l) ? space_pid(&h->s) : 0))
        fail(h, "the blocker %s is said to be of process %d", lock_text(h, l),
            b->pid);
}

/* Granted by the table, and not by the model yet: in this very look, before the
   answer or after. */
static bool is_new(struct history *h, const struct m_lock *l)
{
    const struct enq_info *info = space_find(&h->s, l->handle);

    return m_waits(&h->m, l) && info != NULL && !info->waiting;
}

static unsigned count_new(struct history *h, const struct m_lock *ask)
{
    unsigned n = 0;

    for (unsigned i = 0; i < M_LOCKS; i++)
        n += is_new(h, &h->m.locks[i]) && m_overlap(&h->m, &h->m.locks[i], ask);
    return n;
}

/* A request that gives up tells how many wait, then leaves, and by that some
   are granted. In one step: which went before that, and which after, is not
   seen. */
static unsigned count_gone(struct history *h, const struct m_lock *ask)
{
    unsigned n = 0;

    for (unsigned i = 0; i < M_LOCKS; i++)
        n += h->granted[i] && m_overlap(&h->m, &h->m.locks[i], ask);
    return n;
}

/* Who waited, and has died, is counted until a grant scan or a reaper comes by,
   be it in this very step. */
static unsigned count_dead(struct history *h, const struct m_lock *ask)
{
    unsigned n = 0;

    for (unsigned i = 0; i < M_LOCKS; i++) {
        const struct m_lock *l = &h->m.locks[i];

        n += (h->died[i] || (l->phase == M_WAITING && m_over(&h->m, l))) &&
            m_overlap(&h->m, l, ask);
    }
    return n;
}

/* Of a set several may be in the way at once, of which one is waiting for the
   asker and another is not: whether it may be passed for that, before it was
   asked, is left open. None that is in the way in any case was passed. */
static bool may_be_named(struct history *h, const struct m_lock *self,
    const struct m_verdict *near, const struct m_lock *l)
{
    struct m_verdict far = m_judge(&h->m, self, M_ALL_KEYS);

    return !near->held && near->in_line != NULL && m_waits(&h->m, l) &&
        m_conflict(&h->m, l, self) && m_due(&h->m, l) &&
        l->arrival < self->arrival && l->arrival >= near->in_line->arrival &&
        (far.in_line == NULL || l->arrival <= far.in_line->arrival);
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
    if (b->waiting ? h->granted[l - h->m.locks] : is_new(h, l))
        return; /* it goes in this look: when we had left, or before */
    if (!m_names(&h->m, self, v, l) && !may_be_named(h, self, v, l))
        fail(h, "the blocker %s is not the first in the way (%s)",
            lock_text(h, l),
            v->in_line && !v->held ? lock_text(h, v->in_line) : "a holder");
    if (strcmp(b->owner, l->owner) != 0 || letters[b->mode % 5] != l->mode ||
        b->waiting != (l->phase == M_WAITING))
        fail(h, "the blocker is %s, not %s (%c, waiting %d)", lock_text(h, l),
            b->owner, letters[b->mode % 5], b->waiting);
    if (b->queue > v->queue + count_gone(h, self) + count_dead(h, self) ||
        b->queue + count_new(h, self) < v->queue)
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

/* What is left of a set of which one was cancelled is about to leave: whom it
   waits for is not looked for through all of its members. */
static bool any_broken(struct history *h)
{
    for (unsigned i = 0; i < M_LOCKS; i++)
        if (m_waits(&h->m, &h->m.locks[i]) &&
            m_set_is_broken(&h->m, &h->m.locks[i]))
            return true;
    return false;
}

bool is_blurred(struct history *h, const struct m_lock *ask)
{
    return any_broken(h) &&
        m_judge(&h->m, ask, M_THIS_KEY).in_line !=
        m_judge(&h->m, ask, M_ALL_KEYS).in_line;
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
    if (is_blurred(h, ask)) {
        expect(h, rc, ANSWER(ENQ_OK) | ANSWER(refusal));
        return rc == ENQ_OK;
    }
    v = m_judge(&h->m, ask, M_ALL_KEYS);
    if (!v.held && v.in_line == NULL &&
        (rc != ENQ_PENDING || m_may_go(&h->m, ask, M_THIS_KEY))) {
        expect(h, rc, ANSWER(ENQ_OK));
        return true;
    }
    if (refusal == ENQ_PENDING) /* what it waits for need not be so any more */
        v = m_judge(&h->m, ask, M_THIS_KEY);
    expect(h, rc, ANSWER(refusal));
    if (rc == refusal)
        check_blocker(h, ask, &v, b);
    return false;
}

struct m_lock *enter(struct history *h, const struct m_lock *ask,
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
    l->due_ns = m_due_at(&h->m, ask);
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

void say_ask(struct history *h, const char *verb, const struct m_lock *ask)
{
    say(h, "%s %c %s owner \"%s\"%s%s session %u ttl %lld on_death %d", verb,
        ask->mode, h->m.keys[ask->key].text, ask->owner,
        ask->own_id ? " id " : "", ask->own_id ? ask->id : "", ask->session,
        (long long)ask->ttl_ms, (int)ask->on_death);
}

/* --- steps --- */

/* The session that is to ask. */
static struct enq *draw_req(struct history *h, struct m_lock *ask,
    struct enq_req *req)
{
    struct enq *e;

    draw_ask(h, ask);
    e = any_session(h, &ask->session);
    fill_req(h, ask, req);
    return e;
}

void step_lock(struct history *h)
{
    struct enq_grant grant;
    struct enq_req req;
    struct m_lock ask, *l;
    struct enq *e;
    int rc;

    e = draw_req(h, &ask, &req);
    say_ask(h, "lock", &ask);
    rc = enq_lock(e, &req, &grant);
    if (rc == ENQ_OK)
        own_begin(h, &ask, grant.token);
    if (!judge_new(h, &ask, rc, ENQ_BUSY, &grant.blocker) || rc != ENQ_OK)
        return;
    l = enter(h, &ask, M_HELD, grant.handle);
    if (l != NULL)
        new_token(h, l, grant.token);
    own_entered(h);
}

void step_test(struct history *h)
{
    struct enq_grant grant;
    struct enq_req req;
    struct m_lock ask;
    struct enq *e;
    int rc;

    e = draw_req(h, &ask, &req);
    req.flags = ENQ_TEST;
    say_ask(h, "test", &ask);
    rc = enq_lock(e, &req, &grant);
    judge_new(h, &ask, rc, ENQ_BUSY, &grant.blocker);
}

/* As enq_lock() does before it asks. */
void fill_ask(struct history *h, struct ask *to, char *bytes,
    const struct enq_req *req, const char *owner)
{
    size_t n = strlen(owner) + 1;

    memset(to, 0, sizeof(*to));
    if (key_pack(&to->key, bytes, KEY_BYTES_MAX, req, h->s.map->hash_seed) != 0)
        fail(h, "a key is refused");
    to->mode = req->mode;
    to->owner = owner;
    to->owner_bytes = (uint16_t)n;
    to->id = req->id;
    to->id_bytes = (uint16_t)(req->id == NULL ? 0 : strlen(req->id) + 1);
    to->on_death = (uint8_t)req->on_death;
    to->ttl_ms = req->ttl_ms == 0 ? 900000 : req->ttl_ms;
    to->ticket = UINT64_MAX;
}

/* An entry with the request in it, as enq_lock() takes one; then the table. */
static int ask_table(struct history *h, struct enq *e, struct caller *c,
    struct enq_blocker *blocker)
{
    int rc = slab_take(&e->session, h->s.t, &c->place.e);

    if (rc != 0)
        return rc;
    if (ask_payload_bytes(&c->ask) > SMALL_PAYLOAD)
        fail(h, "a request is too large for the model");
    memcpy(c->place.e->payload, c->ask.key.bytes, key_bytes(&c->ask.key));
    return request_lock(&e->session, h->s.t, &c->ask, true, &c->place, blocker);
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
    space_sleeps(&h->s, own->place.e);
    l->inside = true;
}

/* Neither a miss nor a false alarm. Nobody is refused for it: cycles stay, for
   more of them to be closed. */
void ask_for_cycle(struct history *h, struct m_lock *l)
{
    struct session *s = &h->s.at[l->session].session;
    bool cycle = m_in_cycle(&h->m, l);
    struct cycle found;
    int rc = cycle_find(s, h->s.t, l->handle, false, &found);

    if (any_broken(h))
        return;
    h->questions++;
    h->cycles += cycle;
    if (rc != (cycle ? ENQ_DEADLOCK : ENQ_OK))
        fail(h, "%s is %sin a cycle, and the answer is %s", lock_text(h, l),
            cycle ? "" : "not ", enq_result_name(rc));
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

    e = draw_req(h, &ask, &req);
    fill_ask(h, &c.ask, c.bytes, &req, ask.owner);
    c.deadline = mono_add_ms((mono_t){h->m.now_ns}, wait_ms);
    say_ask(h, "wait", &ask);
    rc = ask_table(h, e, &c, &blocker);
    if (rc == ENQ_OK)
        own_begin(h, &ask, c.place.token);
    if (judge_new(h, &ask, rc, ENQ_PENDING, &blocker) && rc == ENQ_OK) {
        l = enter(h, &ask, M_HELD, entry_handle(h->s.map, c.place.e));
        if (l != NULL)
            new_token(h, l, c.place.token);
        own_entered(h);
    } else if (rc == ENQ_PENDING) {
        l = enter(h, &ask, M_WAITING, entry_handle(h->s.map, c.place.e));
        if (l != NULL) {
            settle_down(h, l, &c);
            ask_for_cycle(h, l);
        }
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

/* A waiter that looks asks the sets in its way whether they wait for it: not
   when its time has come, and not a set that is broken, through all of its
   members. */
enum m_sight sight_at(struct history *h, mono_t deadline)
{
    return h->m.now_ns >= deadline.ns || any_broken(h) ? M_THIS_KEY
                                                       : M_ALL_KEYS;
}

static void judge_waiting(struct history *h, struct m_lock *l, int rc,
    const struct enq_blocker *b)
{
    enum m_sight sight = sight_at(h, caller_of(h, l)->deadline);
    struct m_verdict v;

    adopt(h, rc == ENQ_TIMEDOUT ? M_THIS_KEY : M_ALL_KEYS);
    if (l->phase == M_HELD) {
        expect(h, rc, ANSWER(ENQ_OK));
        l->inside = false;
        return;
    }
    v = m_judge(&h->m, l, sight);
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
    struct wait_plan plan;
    int rc;

    say(h, "look %s", lock_text(h, l));
    if (h->was_there[l - h->m.locks])
        space_wakes_up(&h->s, c->place.e);
    c->asleep = c->told = false;
    rc = wait_look_started(s, h->s.t, &c->place, c->deadline, &blocker, &plan);
    if (rc == ENQ_OK)
        entry_is_known(c->place.e, ASLEEP_BY(h->s.t->ref, ASLEEP_LOOKING));
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
        space_sleeps(&h->s, c->place.e);
        ask_for_cycle(h, l);
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

/* One lock, or the set of which it is one. */
static int look_any(struct history *h, struct m_lock *l)
{
    struct asking *a = set_of(h, l);

    return a != NULL ? look_set(h, a) : look(h, l);
}

void step_look(struct history *h)
{
    struct m_lock *l = draw_inside(h);

    if (l != NULL)
        look_any(h, l);
}

/* All of them, until nothing moves any more: then none is left that may go. */
void step_look_all(struct history *h)
{
    bool moved = true;

    for (unsigned round = 0; moved && round < M_LOCKS && !h->failed; round++) {
        moved = false;
        for (unsigned i = 0; i < M_LOCKS && !h->failed; i++) {
            struct m_lock *l = &h->m.locks[i];

            if (!l->inside || !m_session_lives(&h->m, l))
                continue;
            moved |= look_any(h, l) != ENQ_PENDING;
            step_done(h);
        }
    }
    for (unsigned i = 0; i < M_LOCKS; i++)
        if (m_waits(&h->m, &h->m.locks[i]) &&
            m_set_may_go(&h->m, &h->m.locks[i], M_ALL_KEYS))
            fail(h, "%s waits for nothing", lock_text(h, &h->m.locks[i]));
}
