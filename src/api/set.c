/*
 * set.c - api: lock sets in the table of this host (see set.h).
 */
#include "api/set.h"

#include <stdlib.h>
#include <string.h>

#include "api/acquisition.h"
#include "api/audit.h"
#include "api/lock.h"
#include "wait/set_wait.h"

/* So many need no memory beyond the stack. */
#define MEMBERS_FEW 8

/* --- what is asked for --- */

static int explain_odds(const struct set *set, uint32_t i, uint32_t other)
{
    return why(-EINVAL,
        "locks %u and %u of the set conflict with each other: %c on \"%s\"",
        other + 1, i + 1, mode_letter(set->member[i].ask.mode),
        set->member[i].ask.key.bytes);
}

/* --- asking --- */

struct set_call {
    struct acquisition call; /* of one member after the other */
    const struct enq_req *const *reqs;
    const struct enq_req *first; /* of this version of the header */
    struct enq_req copy[2];
    struct enq_grant *grants;
    struct lock_set *l;
    uint32_t started;
};

static int take_member(struct set_call *c, unsigned i)
{
    struct lock_set *l = c->l;
    struct member *m = &l->set.member[i];
    struct acquisition *call = &c->call;
    int rc;

    call->req = c->reqs[i];
    call->ask = &m->ask;
    call->heartbeat = l->heartbeat[i] = NULL;
    rc = unlikely(call->req->size != sizeof(*call->req))
        ? lock_copy_request(&call->req, &c->copy[i > 0])
        : 0;
    if (i == 0)
        c->first = call->req;
    if (rc == 0)
        rc = acquisition_prepare(call, i == 0 ? NULL : &l->set.member[0].ask);
    if (rc == 0 && i > 0)
        rc =
            lock_set_unity(c->first, &l->set.member[0].ask, call->req, &m->ask);
    if (rc == 0)
        rc = acquisition_take(call, &m->place);
    if (unlikely(rc != 0)) {
        heartbeat_free(&call->e->async, call->heartbeat);
        return rc;
    }
    l->heartbeat[i] = call->heartbeat;
    m->ask.started = c->started;
    set_note(&l->set, m);
    return 0;
}

static void drop_heartbeats(struct enq *e, struct lock_set *l, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        heartbeat_free(&e->async, l->heartbeat[i]);
}

/* An entry for each. None is taken where one cannot be had. */
static int take_members(struct set_call *c)
{
    struct set *set = &c->l->set;
    uint32_t odd = SET_FINE, other = 0;
    unsigned i = 0;
    int rc = 0;

    set_begin(set);
    for (; i < set->n && rc == 0; i++)
        rc = take_member(c, i);
    if (unlikely(rc != 0))
        rc = lock_set_explain(rc, --i);
    else
        odd = set_check(set, &other);
    if (unlikely(odd != SET_FINE))
        rc = explain_odds(set, odd, other);
    if (unlikely(rc != 0)) {
        set_give_back(set, i);
        drop_heartbeats(c->call.e, c->l, i);
    }
    return rc;
}

static void begin_leases(struct set_call *c)
{
    struct lock_set *l = c->l;

    for (unsigned i = 0; i < l->set.n; i++) {
        c->call.grant = &c->grants[i];
        c->call.heartbeat = l->heartbeat[i];
        c->call.grant->blocker.owner[0] = '\0';
        thread_count(c->call.t, COUNT_GRANTS);
        acquisition_begin_lease(&c->call, &l->set.member[i].place);
    }
}

/* The texts are made of what the caller has: the entry is given back. */
static int explain_refusal(struct set_call *c, int rc)
{
    struct lock_set *l = c->l;
    unsigned i = l->set.refused;

    c->call.req = c->reqs[i];
    c->call.ask = &c->call.own;
    if (lock_copy_request(&c->call.req, &c->copy[1]) != 0 ||
        take_request(&c->call, NULL) != 0 ||
        acquisition_pack_aside(&c->call) != 0)
        return rc;
    acquisition_explain(rc, &c->call.own, &l->blocker);
    if (rc > 0 && rc != ENQ_DEADLOCK)
        lock_set_explain(rc, i);
    return rc;
}

static bool tells_blocker(int rc)
{
    return rc == ENQ_BUSY || rc == ENQ_TIMEDOUT || rc == ENQ_EXISTS ||
        rc == ENQ_DEADLOCK || rc == ENQ_PENDING;
}

static void copy_blocker(struct set_call *c, int rc)
{
    struct lock_set *l = c->l;

    for (unsigned i = 0; c->grants != NULL && i < l->set.n; i++)
        c->grants[i].blocker.owner[0] = '\0';
    if (tells_blocker(rc) && c->grants != NULL)
        c->grants[l->set.refused].blocker = l->blocker;
}

static int refused(struct set_call *c, int rc)
{
    acquisition_count(c->call.t, rc);
    copy_blocker(c, rc);
    return explain_refusal(c, rc);
}

static void set_deadline(struct set_call *c)
{
    int64_t wait_ms = c->first->wait_ms;

    c->l->set.deadline =
        wait_ms > 0 ? mono_add_ms(sys.now(), wait_ms) : MONO_NEVER;
    c->l->set.cycles = c->l->set.member[0].ask.cycles;
    thread_count(c->call.t, COUNT_WAITS);
}

static int wait(struct set_call *c)
{
    int rc;

    set_deadline(c);
    rc = set_wait(&c->l->set);
    if (rc == ENQ_OK)
        thread_count(c->call.t, COUNT_WAIT_GRANTS);
    return rc;
}

static int attempt(struct set_call *c)
{
    struct set *set = &c->l->set;
    int rc = take_members(c);

    if (unlikely(rc != 0))
        return rc;
    if (unlikely(c->first->flags & ENQ_TEST)) {
        drop_heartbeats(c->call.e, c->l, set->n);
        rc = set_test(set);
        return rc == ENQ_OK ? rc : refused(c, rc);
    }
    rc = set_lock(set, c->first->wait_ms != 0);
    if (rc == ENQ_PENDING)
        rc = wait(c);
    if (likely(rc == ENQ_OK)) {
        begin_leases(c);
        return rc;
    }
    drop_heartbeats(c->call.e, c->l, set->n);
    return refused(c, rc);
}

static int attempts(struct set_call *c)
{
    int rc = attempt(c);
    int64_t step_ms;
    uint64_t dice;

    if (likely(rc != ENQ_BUSY || c->first->retries == 0))
        return rc;
    step_ms = acquisition_first_step_ms(c->first);
    dice = c->call.t->ref ^ c->l->set.member[0].ask.key.hash;
    for (uint32_t left = c->first->retries; rc == ENQ_BUSY && left > 0;
         left--) {
        acquisition_pause(&step_ms, &dice);
        rc = attempt(c);
    }
    return rc;
}

static void begin(struct set_call *c, struct enq *e, struct thread *t, size_t n)
{
    struct set *set = &c->l->set;

    c->call.e = e;
    c->call.t = t;
    c->call.grant = NULL;
    c->started = 0;
    set->s = &e->session;
    set->t = t;
    set->n = (unsigned)n;
    set->refused = 0;
    c->l->blocker.owner[0] = '\0';
    set->blocker = &c->l->blocker;
}

int local_lock_set(struct enq *e, struct thread *t,
    const struct enq_req *const *reqs, size_t n, struct enq_grant *grants)
{
    struct member few[MEMBERS_FEW], *many = NULL;
    struct lock_set l;
    struct set_call c;
    int rc = lock_set_check(reqs, n, grants);

    if (likely(rc == 0) && n > MEMBERS_FEW) {
        many = malloc(n * sizeof(*many));
        if (many == NULL)
            rc = why(-ENOMEM, "out of memory for a set of %zu locks", n);
    }
    if (unlikely(rc != 0))
        return rc;
    l.set.member = many != NULL ? many : few;
    c.reqs = reqs;
    c.grants = grants;
    c.l = &l;
    begin(&c, e, t, n);
    rc = audit(e, t, attempts(&c));
    free(many);
    return rc;
}

/* --- without waiting --- */

static struct lock_set *make(size_t n)
{
    struct lock_set *l = calloc(1, sizeof(*l) + n * sizeof(*l->set.member));

    if (l == NULL)
        why(-ENOMEM, "out of memory for a set of %zu locks", n);
    else
        l->set.member = (struct member *)(l + 1);
    return l;
}

/* One that closes a cycle leaves the queue again, if it was not granted in
   this very moment. */
static int check_cycle(struct set_call *c, struct suspicion *x)
{
    struct set *set = &c->l->set;
    mono_t never = MONO_NEVER;

    x->wanted = set->cycles;
    return suspicion_look(x, set->s, set->t, set_handle(set), 0, &never) ==
                ENQ_DEADLOCK &&
            set_withdraw(set) == ENQ_OK
        ? ENQ_DEADLOCK
        : ENQ_PENDING;
}

static int ask(struct set_call *c, struct suspicion *x)
{
    struct session_slot *slot = c->call.e->session.slot;
    int rc = take_members(c);

    if (rc != 0)
        return rc;
    shm_add(&slot->started, 1);
    rc = set_lock(&c->l->set, true);
    if (rc == ENQ_PENDING) {
        set_deadline(c);
        copy_blocker(c, rc); /* before the helper thread may look anew */
        rc = check_cycle(c, x);
    }
    if (rc == ENQ_PENDING)
        return rc;
    shm_add(&slot->started, -1);
    if (rc == ENQ_OK) {
        begin_leases(c);
        return rc;
    }
    drop_heartbeats(c->call.e, c->l, c->l->set.n);
    return refused(c, rc);
}

/* The caller's may be gone when the helper thread looks: those in the entries
   are the same, behind the keys. */
static void keep_texts(struct set *set)
{
    for (unsigned i = 0; i < set->n; i++) {
        struct ask *ask = &set->member[i].ask;

        ask->owner = ask->key.bytes + key_bytes(&ask->key);
        ask->id = ask->owner + ask->owner_bytes;
        ask->peer = NULL; /* nobody asks for it again */
    }
}

int lock_set_start(struct enq *e, struct thread *t,
    const struct enq_req *const *reqs, size_t n, struct enq_grant *grants,
    struct started *r)
{
    struct set_call c = {.reqs = reqs, .grants = grants};
    int rc;

    c.l = make(n);
    if (c.l == NULL)
        return -ENOMEM;
    begin(&c, e, t, n);
    c.started = ASLEEP_STARTED + r->number;
    c.l->grants = grants;
    rc = audit(e, t, ask(&c, &r->suspicion));
    if (rc != ENQ_PENDING) {
        free(c.l);
        return rc;
    }
    keep_texts(&c.l->set);
    r->set = c.l;
    r->place = c.l->set.member[0].place;
    return rc;
}
