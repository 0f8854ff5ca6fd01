/*
 * sure.c - remote: until when our session cannot be over, by our own clock.
 *
 * The bridge ends a session whose connection it has seen gone for the grace
 * period. It had not seen that before it got the last request that it answered,
 * and so not before that was sent. What is within a grace period of then is
 * sure; beyond, the session is *suspect*, and its RELEASE locks may be
 * another's: a client that was cut off or stopped knows of no other sign.
 * The two clocks need not go alike: that is what a hundredth is for.
 *
 * An answer makes a suspect session sure again: while its connection stands it
 * is not over, and one that comes back is resumed, or not. So a session that is
 * idle asks something four times in its grace period.
 */
#include "remote/sure.h"

#include "remote/client.h"
#include "sync/sys.h"

/* A shorter grace period would have to be filled with pings; of none at all
   nobody can know what was lost a moment ago. */
#define GRACE_KNOWN_MS 100

#define PINGS_IN_GRACE 4

/* An atomic load: also read without either mutex. */
mono_t sure_until(const struct remote *r)
{
    return (mono_t){__atomic_load_n(&r->sure.until_ns, __ATOMIC_ACQUIRE)};
}

/* After all that was noted of the locks before. */
static void set_until(struct sure *s, mono_t at)
{
    __atomic_store_n(&s->until_ns, at.ns, __ATOMIC_RELEASE);
}

void sure_begin(struct remote *r)
{
    r->sure.grace_ms = r->grace_ms;
    set_until(&r->sure, MONO_NEVER); /* there is no session */
}

bool sure_has_to_ask(const struct remote *r)
{
    return __atomic_load_n(&r->sure.grace_ms, __ATOMIC_RELAXED) <
        GRACE_KNOWN_MS;
}

static void note(struct remote *r, mono_t at)
{
    int64_t ns;

    r->sure.at = at;
    if (sure_has_to_ask(r) ||
        __builtin_mul_overflow(r->sure.grace_ms, NS_PER_MS / 100 * 99, &ns))
        set_until(&r->sure, MONO_NEVER);
    else
        set_until(&r->sure, mono_add_ns(at, ns));
}

void sure_greeted(struct remote *r, int64_t grace_ms, mono_t sent_at)
{
    if (grace_ms >= 0)
        __atomic_store_n(&r->sure.grace_ms, grace_ms, __ATOMIC_RELAXED);
    note(r, sent_at);
}

void sure_answered(struct remote *r, mono_t sent_at)
{
    if (sent_at.ns > r->sure.at.ns)
        note(r, sent_at);
}

void sure_lost(struct remote *r)
{
    r->sure.lost_at = r->sure.at;
}

bool sure_is_over(const struct remote *r, mono_t now)
{
    return mono_reached(sure_until(r), now);
}

int64_t sure_ping_ms(const struct remote *r)
{
    int64_t wanted_ms = r->keepalive_ms / 2;
    int64_t needed_ms = r->sure.grace_ms / PINGS_IN_GRACE;

    return sure_has_to_ask(r) || wanted_ms < needed_ms ? wanted_ms : needed_ms;
}
