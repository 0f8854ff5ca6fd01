/*
 * sets.c - what an application does with lock sets: asks for several locks as
 * one, waits for them or has them waited for, and gives them back together.
 */
#include <string.h>

#include "sim/rules.h"
#include "sim/sim.h"

#define GIVEN_MAX 6 /* so many are given back at once, if not as a set */

/* --- what is asked for --- */

static bool is_generic(const char *field)
{
    return strcmp(field, "@") == 0;
}

/* R1, of two requests. */
static bool overlap(const struct enq_req *a, const struct enq_req *b)
{
    unsigned i = 0;

    if (strcmp(a->name, b->name) != 0)
        return false;
    for (; a->key[i] != NULL && b->key[i] != NULL; i++)
        if (strcmp(a->key[i], b->key[i]) != 0 && !is_generic(a->key[i]) &&
            !is_generic(b->key[i]))
            return false;
    return a->key[i] == b->key[i];
}

/* Two of one owner that could not be held at once. */
static bool at_odds(const struct enq_req *reqs, unsigned n,
    const struct enq_req *req)
{
    for (unsigned i = 0; i < n; i++)
        if (overlap(&reqs[i], req) &&
            rules_modes_exclude(reqs[i].mode, req->mode, req->owner[0] != '\0'))
            return true;
    return false;
}

struct wish {
    struct enq_req reqs[SET_MAX];
    const struct enq_req *list[SET_MAX];
    unsigned n;
    bool odd; /* it is at odds with itself */
};

static void choose_member(struct proc *p, struct wish *w, struct enq_req *req)
{
    work_ask(p, req);
    req->owner = w->reqs[0].owner;
    req->wait_ms = w->reqs[0].wait_ms;
    req->flags = w->reqs[0].flags;
    if (req->on_death == ENQ_DEATH_RELEASE && chance(3))
        req->on_death = w->reqs[0].on_death;
}

/* Nearly always one that can be had. */
static void choose(struct proc *p, struct wish *w)
{
    bool heedless = chance(24);
    unsigned n = work_set_size();

    *w = (struct wish){.n = 1};
    work_ask(p, &w->reqs[0]);
    for (unsigned tries = 0; w->n < n && tries < 3 * n; tries++) {
        struct enq_req *req = &w->reqs[w->n];

        choose_member(p, w, req);
        if (!at_odds(w->reqs, w->n, req))
            w->n++;
        else if (heedless) {
            w->odd = true;
            w->n++;
        }
    }
    for (unsigned i = 0; i < w->n; i++)
        w->list[i] = &w->reqs[i];
}

static unsigned next_number(void)
{
    return (unsigned)++figures.sets_asked;
}

/* Room for one more, with what it will be; NULL: there is none. */
static struct asked_set *begin(struct proc *p, const struct wish *w)
{
    int64_t now = kernel_now_ns();
    struct asked_set *set = NULL;
    unsigned number = next_number();

    if (p->n_holds + (p->n_tickets + 1) * SET_MAX >= HOLDS_MAX)
        return NULL;
    for (unsigned i = 0; i < ASKED_MAX && set == NULL; i++)
        if (!p->sets[i].used)
            set = &p->sets[i];
    if (set == NULL)
        return NULL;
    *set = (struct asked_set){.n = w->n};
    set->known = whole_ask(p, w->n);
    if (set->known == NULL)
        return NULL;
    set->used = true;
    for (unsigned i = 0; i < w->n; i++) {
        const struct enq_req *req = &w->reqs[i];

        set->hold[i] = work_hold(req, now);
        set->hold[i].set = number;
        sim_say("  of a set: %s/%s mode %u by \"%s\" wait %lld ttl %lld death "
                "%d",
            req->name, req->key[0], req->mode, req->owner,
            (long long)req->wait_ms, (long long)req->ttl_ms,
            (int)req->on_death);
    }
    return set;
}

/* --- what comes of it --- */

static void have(struct proc *p, struct asked_set *set)
{
    figures.sets++;
    for (unsigned i = 0; i < set->n; i++) {
        set->hold[i].handle = set->grants[i].handle;
        set->hold[i].token = set->grants[i].token;
        work_granted(p, &set->hold[i]);
    }
}

static void refused(struct proc *p, const struct wish *w, int64_t began, int rc)
{
    const struct enq_req *req = &w->reqs[0];

    if (rc == -EINVAL && w->odd)
        return;
    for (unsigned i = 0; rc == ENQ_EXISTS && i < w->n; i++)
        if (w->reqs[i].id != NULL)
            req = &w->reqs[i];
    work_refused(p, req, began, rc);
}

static void answered(struct proc *p, struct asked_set *set,
    const struct wish *w, int64_t began, int rc)
{
    bool test = (w->reqs[0].flags & ENQ_TEST) != 0;

    if (w->odd && rc != -EINVAL)
        sim_misled("a set that is at odds with itself: %s",
            enq_result_name(rc));
    whole_answered(p, set->known, test && rc == ENQ_OK ? ENQ_BUSY : rc);
    if (rc != ENQ_OK)
        refused(p, w, began, rc);
    else if (!test)
        have(p, set);
    set->used = false;
}

void sets_lock(struct proc *p, uint32_t flags)
{
    int64_t began = kernel_now_ns();
    struct asked_set *set;
    struct wish w;
    int rc;

    choose(p, &w);
    for (unsigned i = 0; i < w.n; i++)
        w.reqs[i].flags |= flags;
    set = begin(p, &w);
    if (set == NULL)
        return;
    p->looks =
        (w.reqs[0].flags & ENQ_NO_DEADLOCK) == 0 && w.reqs[0].owner[0] != '\0';
    rc = enq_lock_set(&p->enq, w.list, w.n, set->grants);
    p->looks = false;
    sim_say("lock set: %s", enq_result_name(rc));
    answered(p, set, &w, began, rc);
}

void sets_start(struct proc *p)
{
    int64_t began = kernel_now_ns();
    uint64_t ticket = 0;
    struct asked_set *set;
    struct wish w;
    int rc;

    if (p->n_tickets == TICKETS_MAX)
        return;
    choose(p, &w);
    for (unsigned i = w.n; i-- > 0;)
        w.reqs[i].wait_ms = i + 1 == w.n ? work_start_wait(w.reqs[i].wait_ms)
                                         : w.reqs[i + 1].wait_ms;
    set = begin(p, &w);
    if (set == NULL)
        return;
    rc = enq_start_set(&p->enq, w.list, w.n, set->grants, &ticket);
    sim_say("start set: %s, ticket %#llx", enq_result_name(rc),
        (unsigned long long)ticket);
    if (rc != ENQ_PENDING) {
        answered(p, set, &w, began, rc);
        return;
    }
    figures.started++;
    p->asking = NULL;
    p->tickets[p->n_tickets++] = (struct ticket){.number = ticket,
        .began_ns = began,
        .wait_ms = w.reqs[0].wait_ms,
        .queued = p->queued,
        .looks = (w.reqs[0].flags & ENQ_NO_DEADLOCK) == 0 &&
            w.reqs[0].owner[0] != '\0',
        .set = set};
}

void sets_result(struct proc *p, struct asked_set *set,
    const struct enq_event *event)
{
    whole_answered(p, set->known, event->result);
    if (event->result == ENQ_OK) {
        if (event->grant.handle != set->grants[0].handle)
            sim_misled("a set's event is not of its first lock");
        have(p, set);
    }
    set->used = false;
}

/* --- giving back --- */

/* Of its locks: a set, or any. */
struct handful {
    struct hold hold[SET_MAX];
    struct enq_grant grant[SET_MAX + 1];
    unsigned n;
};

static void add(struct handful *f, struct proc *p, unsigned i)
{
    f->hold[f->n] = p->holds[i];
    f->grant[f->n].handle = p->holds[i].handle;
    f->grant[f->n++].token = p->holds[i].token;
    work_forget(p, i);
}

static void gather(struct handful *f, struct proc *p)
{
    unsigned set = p->holds[below(p->n_holds)].set;
    bool any = set == 0 || chance(4);
    unsigned most = any ? 1 + (unsigned)below(GIVEN_MAX) : SET_MAX;

    for (unsigned i = p->n_holds; i-- > 0 && f->n < most;)
        if (any || p->holds[i].set == set)
            add(f, p, i);
}

/* The first other answer: one of them must be able to have given it. */
static void judge_answer(struct proc *p, const struct handful *f, int rc)
{
    bool good = false;

    for (unsigned i = 0; i < f->n; i++) {
        good |= oracle_may_say(p, &f->hold[i], rc);
        /* what has run out may stand there for its delay */
        if (!oracle_may_say(p, &f->hold[i], ENQ_OK) &&
            !oracle_may_say(p, &f->hold[i], ENQ_EXPIRED))
            sim_misled("one of %u locks is still held when all were given back",
                f->n);
    }
    if (!good)
        sim_misled("%u locks were given back: %s", f->n, enq_result_name(rc));
}

void sets_unlock(struct proc *p)
{
    struct handful f = {.n = 0};
    unsigned n;
    int rc;

    if (p->n_holds == 0)
        return;
    gather(&f, p);
    n = f.n + (unsigned)chance(8); /* a handle 0 is passed over */
    rc = enq_unlock_set(&p->enq, f.grant, n);
    sim_say("unlock set of %u: %s", f.n, enq_result_name(rc));
    judge_answer(p, &f, rc);
}
