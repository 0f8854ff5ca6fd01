/*
 * remote.c - what is different about clients of a bridge
 * (see remote.h).
 */
#include "remote.h"

#include <errno.h>

/* A bridge looks at its sessions so often. */
#define TICK_NS (100 * NS_MS)
/* Within this it has read what a socket has, and noticed its end. */
#define NOTICE_NS (150 * NS_MS)
/* So long at most a client pauses before it connects again. */
#define PAUSE_NS NS_S

bool remote_is(const struct story *s, uint32_t life)
{
    return s->b->lives[life].remote;
}

static int64_t gone_ns(const struct story *s, uint32_t life)
{
    int64_t gone = s->b->lives[life].gone_ns;

    return gone != 0 ? gone : NS_NEVER;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t end_of(const struct serve *x)
{
    return x->to_ns != 0 ? x->to_ns : NS_NEVER;
}

/* What the machine was late counts for the bridge, too. */
static int64_t lost_ns(const struct story *s, int64_t from, int64_t to)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < s->b->n_heartbeats; i++) {
        const struct pause *p = &s->b->heartbeats[i];
        int64_t a = later(from, p->from_ns), b = sooner(to, p->to_ns);

        sum += b > a ? b - a : 0;
    }
    return sum;
}

/* The first moment at which a bridge has served for so long since `from`,
   without a break. */
static int64_t served_ns(const struct story *s, int64_t from, int64_t ns)
{
    for (uint32_t i = 0; from != NS_NEVER && i < s->b->n_serves; i++) {
        const struct serve *x = &s->b->serves[i];
        int64_t begin = later(from, x->from_ns), end = begin + ns;

        end += lost_ns(s, begin, end + ns);
        if (end < end_of(x))
            return end;
    }
    return NS_NEVER;
}

static int64_t next_death_ns(const struct story *s, int64_t from)
{
    for (uint32_t i = 0; from != NS_NEVER && i < s->b->n_serves; i++)
        if (s->b->serves[i].died && s->b->serves[i].gone_ns >= from)
            return s->b->serves[i].gone_ns;
    return NS_NEVER;
}

static int64_t grace_ns(const struct story *s, uint32_t life)
{
    return s->b->lives[life].grace_ms * NS_MS;
}

/* Its requests wait as long as its session lives, or their bridge. */
void remote_begin(struct story *s)
{
    for (uint32_t i = 0; i < s->b->n_lives; i++) {
        int64_t gone = gone_ns(s, i);

        s->over_ns[i] = s->released_ns[i] = gone;
        if (!remote_is(s, i))
            continue;
        s->released_ns[i] =
            served_ns(s, gone, grace_ns(s, i) + TICK_NS + NOTICE_NS);
        s->over_ns[i] = sooner(s->released_ns[i], next_death_ns(s, gone));
    }
}

/* --- a lock --- */

static bool was_there_death(const struct story *s, int64_t from, int64_t to)
{
    for (uint32_t i = 0; i < s->b->n_serves; i++)
        if (s->b->serves[i].died && s->b->serves[i].to_ns <= to &&
            s->b->serves[i].gone_ns >= from)
            return true;
    return false;
}

/* For a moment after its bridge was killed a client has nobody to ask. */
#define APART_NS (1000 * NS_MS)

bool remote_may_not_know(const struct story *s, const struct op *op)
{
    return op->kind == OP_VALID && op->result == ENQ_ELEASE &&
        remote_is(s, op->life) &&
        was_there_death(s, op->begin_ns - APART_NS, op->end_ns);
}

#define GIVES_UP_NS (5 * NS_S)

bool remote_had_nobody(const struct story *s, const struct op *op)
{
    return op->result == -ENOTCONN && remote_is(s, op->life) &&
        op->end_ns - op->begin_ns >= GIVES_UP_NS &&
        served_ns(s, op->begin_ns, PAUSE_NS + NOTICE_NS) > op->end_ns;
}

/* A client that gives back again what is gone is told that it was done. */
static bool proves_life(const struct story *s, const struct op *deed)
{
    if (!op_done(deed))
        return false;
    if (deed->kind == OP_UNLOCK)
        return !was_there_death(s, deed->begin_ns, deed->end_ns);
    return deed->kind == OP_RENEW || deed->kind == OP_PROMOTE ||
        deed->kind == OP_DEMOTE;
}

void remote_begin_hold(const struct story *s, struct hold *h,
    const struct deeds *all)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct op *deed = all->ops[i];

        if (deed->kind == OP_LOCK && remote_is(s, deed->life)) {
            h->is_remote = true;
            h->is_session = deed->on_death == ENQ_DEATH_RELEASE;
        }
        if (deed->kind == OP_ADOPT && remote_is(s, deed->life))
            h->is_adopted = true;
        if (deed->life == h->op->life && proves_life(s, deed))
            h->proof_seq = deed->begin_seq;
    }
    h->is_remote |= remote_is(s, h->op->life);
}

uint8_t remote_death(const struct story *s, const struct op *op)
{
    return remote_is(s, op->life) && op->on_death == ENQ_DEATH_RELEASE
        ? ENQ_DEATH_LEASE
        : op->on_death;
}

const struct serve *remote_last(const struct story *s, const struct hold *h)
{
    if (!h->is_session || !remote_is(s, h->op->life))
        return NULL;
    for (uint32_t i = 0; i < s->b->n_serves; i++) {
        const struct serve *x = &s->b->serves[i];

        if (x->died && x->gone_seq >= h->op->begin_seq &&
            !(x->gone_seq != 0 && x->gone_seq < h->proof_seq))
            return x;
    }
    return NULL;
}

/* A KEEP lock has its own ttl from when a bridge takes it over, which may be
   shorter than what it was renewed for; or none, if none does. */
static void end_kept(const struct story *s, struct hold *h)
{
    int64_t ttl_ms = h->op->ttl_ms;

    if (!was_there_death(s, h->op->begin_ns, NS_NEVER))
        return;
    h->maybe_deadline = NS_NEVER;
    if (ttl_ms > 0)
        h->sure_deadline =
            sooner(h->sure_deadline, h->op->begin_ns + ttl_ms * NS_MS);
}

void remote_end_hold(const struct story *s, struct hold *h)
{
    if (!h->is_remote)
        return;
    if (h->op->on_death == ENQ_DEATH_KEEP)
        end_kept(s, h);
    if (h->is_session) /* one of others, too, that took it from the dead */
        h->sure_to_seq = h->sure_to_seq < life_end_seq(s, h->op->life)
            ? h->sure_to_seq
            : life_end_seq(s, h->op->life);
}

/* --- excuses --- */

bool remote_was_cut(const struct story *s, uint32_t life, int64_t from_ns,
    int64_t to_ns)
{
    if (!remote_is(s, life))
        return false;
    for (uint32_t i = 0; i < s->b->n_serves; i++) {
        const struct serve *x = &s->b->serves[i];

        if (x->to_ns != 0 && x->to_ns <= to_ns &&
            (i + 1 == s->b->n_serves ||
                s->b->serves[i + 1].from_ns + PAUSE_NS >= from_ns))
            return true;
    }
    return false;
}

/* A call that asks the bridge, begun when the dead one was gone, and answered
   before the grace period can have been over. */
static bool has_survived(const struct story *s, uint32_t life,
    const struct serve *x)
{
    for (size_t i = 0; i < s->n_ops; i++) {
        const struct op *op = s->ops[i];

        if (op->life == life && op->kind != OP_VALID && op->kind != OP_EVENT &&
            op_ended(op) && op->begin_seq > x->gone_seq &&
            op->end_ns < x->to_ns + grace_ns(s, life))
            return true;
    }
    return false;
}

static bool may_have_lost_session(const struct story *s, uint32_t life,
    int64_t from, int64_t to)
{
    for (uint32_t i = 0; i < s->b->n_serves; i++) {
        const struct serve *x = &s->b->serves[i];

        if (x->died && x->to_ns <= to && x->gone_ns >= from &&
            !has_survived(s, life, x))
            return true;
    }
    return false;
}

bool remote_may_be_over(const struct story *s, const struct hold *h,
    const struct op *op)
{
    if (h->is_adopted && remote_is(s, h->op->life))
        return may_have_lost_session(s, h->op->life, h->op->begin_ns,
            op->end_ns);
    if (h->is_session && remote_is(s, h->op->life))
        return may_have_lost_session(s, h->op->life, h->op->begin_ns,
            op->end_ns);
    return h->is_remote &&
        (h->is_session || h->op->on_death == ENQ_DEATH_KEEP) &&
        was_there_death(s, h->op->begin_ns, op->end_ns);
}

bool remote_is_again(const struct story *s, const struct op *asked,
    const struct op *deed)
{
    int64_t over = op_over_ns(s, asked);

    return asked->kind == OP_LOCK && remote_is(s, asked->life) &&
        over >= deed->begin_ns && was_there_death(s, asked->begin_ns, over);
}

/* What is given back when it is not there any more is told to be done. */
static bool was_told_again(const struct story *s, const struct op *op)
{
    return op->kind == OP_UNLOCK && op_done(op) && !proves_life(s, op);
}

bool remote_proves_no_end(const struct story *s, const struct op *op)
{
    if (!remote_is(s, op->life) || !op_ended(op))
        return false;
    if (op->foreign)
        return op->kind == OP_UNLOCK && op->result == ENQ_NOTHELD;
    return was_told_again(s, op) ||
        (op->kind == OP_VALID && op->result == ENQ_EXPIRED);
}

bool remote_may_cancel(const struct story *s, const struct op *op)
{
    return remote_is(s, op->life) && op->foreign && op_ended(op) &&
        result_is_gone(op->result);
}

bool remote_is_anothers(const struct story *s, const struct hold *h,
    const struct op *op)
{
    return remote_is(s, op->life) && !op->foreign && op->life != h->op->life;
}

bool remote_may_be_twice(const struct story *s, const struct deeds *all,
    const struct op *deed)
{
    for (size_t i = 0; i < all->n; i++)
        if (remote_is_again(s, all->ops[i], deed))
            return true;
    return remote_is(s, deed->life) && was_told_again(s, deed);
}

bool remote_has_survived(const struct story *s, const struct span *sure)
{
    if (!remote_is(s, sure->op->life) ||
        sure->op->on_death != ENQ_DEATH_RELEASE)
        return false;
    for (uint32_t i = 0; i < s->b->n_serves; i++)
        if (s->b->serves[i].died && s->b->serves[i].to_seq > sure->from_seq &&
            s->b->serves[i].gone_seq < sure->to_seq)
            return true;
    return false;
}
