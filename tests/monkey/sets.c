/*
 * sets.c - the part of a worker that asks for several locks as one.
 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "player.h"
#include "rules.h"

/* --- which --- */

static bool at_odds(const struct op *a, const struct op *b)
{
    bool same = rule_same_owner(a->owner, b->owner);

    return rule_overlap(a->key, b->key) &&
        (rule_conflict(me.p.backend->compat, a->mode, b->mode, same) ||
            rule_conflict(me.p.backend->compat, b->mode, a->mode, same));
}

/* What outlives its process is what may be half there. */
static void make_lasting(struct op *op)
{
    bool keep = player_below(3) == 0;

    op->on_death = keep ? ENQ_DEATH_KEEP : ENQ_DEATH_LEASE;
    op->ttl_ms = 3 + (int64_t)player_below(30);
    op->heartbeat_ms = 0;
}

/* One owner, one patience; and none in the way of another. */
static bool fits(const struct op *want, unsigned n, struct op *more)
{
    more->owner = want->owner;
    more->wait_ms = want->wait_ms;
    more->no_cycles = want->no_cycles;
    for (unsigned i = 0; i < n; i++)
        if (at_odds(&want[i], more))
            return false;
    return true;
}

static unsigned choose(struct op *want, enum op_kind kind)
{
    unsigned most = 2 + (unsigned)player_below(SET_MOST - 1), n = 1;
    bool lasting = player_below(3) == 0;

    want[0] = player_request();
    for (unsigned tries = 0; n < most && tries < 4 * SET_MOST; tries++) {
        want[n] = player_request();
        n += fits(want, n, &want[n]);
    }
    for (unsigned i = 0; i < n; i++) {
        want[i].kind = (uint8_t)kind;
        if (lasting && player_below(4) != 0)
            make_lasting(&want[i]);
    }
    return n;
}

/* --- the records of a call --- */

/* All are begun before it. */
static struct op *begin(struct op *want, unsigned n)
{
    struct op *first = NULL;

    for (unsigned i = 0; i < n; i++) {
        struct op *op;

        want[i].set_n = (uint8_t)n;
        want[i].set_at = (uint8_t)i;
        want[i].set = first == NULL ? 0 : first->set;
        op = player_begin(&want[i]);
        if (op == NULL)
            return NULL;
        if (first == NULL)
            first = op;
        op->set = first->begin_seq;
    }
    backend_op = first;
    return first;
}

static void end(struct op *op, int result)
{
    for (unsigned i = op_members(op); i > 0; i--)
        player_end(op++, result);
}

static void hold(const struct op *op)
{
    for (unsigned i = 0; i < op_members(op); i++)
        player_hold(&op[i], op[i].handle);
}

static void choose_ids(struct op *op)
{
    for (unsigned i = 0; i < op_members(op); i++)
        player_choose_id(&op[i]);
}

/* --- killed in the call --- */

#define FUSED_OF 2
#define FUSE_TRIES 2
#define FUSE_LEAST_BITS 13 /* ns: about what the call takes, */
#define FUSE_BITS 4        /* and what the timer does, which varies */

/* The kernel kills us, wherever we are by then. */
static void light_fuse(void)
{
    struct life *life = &me.p.book->lives[me.p.life];
    uint64_t most = UINT64_C(1) << (FUSE_LEAST_BITS + player_below(FUSE_BITS));
    struct sigevent kill_us = {
        .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec when = {.it_value.tv_nsec = 1 + (long)player_below(most)};
    timer_t timer;

    if (!life_doom(life))
        return; /* somebody else is about to */
    if (timer_create(CLOCK_MONOTONIC, &kill_us, &timer) != 0 ||
        timer_settime(timer, 0, &when, NULL) != 0)
        kill(getpid(), SIGKILL);
}

/* Would they be granted? That also brings the code into the cache. */
static bool would_go(struct op *want, unsigned n)
{
    struct op *op;
    int rc;

    for (unsigned i = 0; i < n; i++) {
        make_lasting(&want[i]);
        want[i].wait_ms = 0;
    }
    op = begin(want, n);
    if (op == NULL)
        return false;
    rc = me.p.backend->lock_set(op);
    end(op, rc);
    return rc == ENQ_OK;
}

/*
 * From outside a call of some us is hardly ever hit in its middle. So some are
 * called with the end in sight: of locks that outlive us, and without waiting.
 */
static void lock_and_die(void)
{
    struct op want[SET_MOST], *op;
    unsigned n = 0, tries = 0;
    bool goes = false;

    for (; !goes && !me.full && tries < FUSE_TRIES; tries++) {
        n = choose(want, OP_TEST);
        goes = would_go(want, n);
    }
    if (!goes)
        return;
    for (unsigned i = 0; i < n; i++)
        want[i].kind = OP_LOCK;
    op = begin(want, n);
    if (op == NULL)
        return;
    choose_ids(op);
    light_fuse();
    me.p.backend->lock_set(op);
    for (;;)
        pause();
}

/* --- asking --- */

void sets_lock(void)
{
    struct op want[SET_MOST], *op;
    int rc;

    if (me.p.place >= ELDERS && player_below(FUSED_OF) == 0)
        lock_and_die();
    op = begin(want, choose(want, OP_LOCK));
    if (op == NULL)
        return;
    choose_ids(op);
    rc = me.p.backend->lock_set(op);
    end(op, rc);
    if (rc == ENQ_OK)
        hold(op);
}

void sets_test(void)
{
    struct op want[SET_MOST], *op;
    unsigned n = choose(want, OP_TEST);

    for (unsigned i = 0; i < n; i++)
        want[i].wait_ms = 0;
    op = begin(want, n);
    if (op != NULL)
        end(op, me.p.backend->lock_set(op));
}

void sets_start(void)
{
    int64_t wait_ms = unanswered_patience_ms();
    struct op want[SET_MOST], *op;
    unsigned n = choose(want, OP_LOCK);
    int rc;

    for (unsigned i = 0; i < n; i++) {
        want[i].started = true;
        want[i].wait_ms = wait_ms;
    }
    op = begin(want, n);
    if (op == NULL)
        return;
    backend_op = NULL;
    choose_ids(op);
    rc = me.p.backend->start_set(op);
    if (rc == ENQ_PENDING && wait_ms != 0) {
        unanswered_note(op);
        return;
    }
    end(op, rc);
    if (rc == ENQ_OK)
        hold(op);
}

void sets_take(struct op *first, const struct op *event)
{
    me.p.backend->take_set(first);
    end(first, event->result);
    me.stale = *first;
    if (event->result == ENQ_OK)
        hold(first);
}

/* --- giving back --- */

void sets_unlock(void)
{
    struct op what[SET_MOST], *op;
    unsigned n = 2 + (unsigned)player_below(SET_MOST - 1), at = me.n;
    int rc;

    if (n > me.n)
        n = me.n;
    at -= n;
    for (unsigned i = 0; i < n; i++)
        what[i] = player_about(&me.held[at + i].op, OP_UNLOCK);
    op = begin(what, n);
    if (op == NULL)
        return;
    rc = me.p.backend->unlock_set(op, &me.held[at]);
    for (unsigned i = 0; i < n; i++)
        op[i].vague = rc != ENQ_OK && n > 1;
    end(op, rc);
    me.n = at;
}
