/*
 * events.c - what an application does with started requests and events, and
 * what it must be told: each result once, the events of each lock in order and
 * once, and that one has run out not before it has.
 */
#include <string.h>

#include "sim/sim.h"

struct figures figures;

/* So long, and no longer, must it take until all that must come has come. */
#define FINISH_NS (3 * NS_PER_S)

void events_begin(void)
{
    memset(&figures, 0, sizeof(figures));
}

/* --- asking --- */

void events_start(struct proc *p)
{
    struct enq_req req;
    struct enq_grant grant;
    int64_t began = kernel_now_ns();
    struct hold h;
    uint64_t ticket = 0;
    int rc;

    if (p->n_tickets == TICKETS_MAX || p->n_holds + p->n_tickets >= HOLDS_MAX)
        return;
    work_ask(p, &req);
    req.wait_ms = work_start_wait(req.wait_ms);
    h = work_hold(&req, began);
    sim_say("start %s/%s mode %u by \"%s\" wait %lld ttl %lld", req.name,
        req.key[0], req.mode, req.owner, (long long)req.wait_ms,
        (long long)req.ttl_ms);
    rc = enq_start(&p->enq, &req, &grant, &ticket);
    sim_say("start: %s, ticket %#llx", enq_result_name(rc),
        (unsigned long long)ticket);
    h.handle = grant.handle;
    h.token = grant.token;
    if (rc == ENQ_PENDING) {
        figures.started++;
        p->tickets[p->n_tickets++] = (struct ticket){.number = ticket,
            .began_ns = began,
            .wait_ms = req.wait_ms,
            .hold = h,
            .queued = p->queued,
            .looks =
                (req.flags & ENQ_NO_DEADLOCK) == 0 && req.owner[0] != '\0'};
    } else if (rc == ENQ_OK) {
        work_granted(p, &h);
    } else {
        work_refused(p, &req, began, rc);
    }
}

static void cancel(struct proc *p, struct ticket *t)
{
    int rc = enq_cancel(&p->enq, t->number);

    sim_say("cancel: %s", enq_result_name(rc));
    t->cancelled |= rc == ENQ_OK;
    if (rc != ENQ_OK && rc != ENQ_NOTHELD)
        sim_misled("cancel: %s", enq_result_name(rc));
}

void events_cancel(struct proc *p)
{
    if (p->n_tickets > 0)
        cancel(p, &p->tickets[below(p->n_tickets)]);
}

void events_listen(struct proc *p)
{
    int fd = enq_fd(&p->enq);

    sim_say("listens");
    if (fd < 0)
        sim_misled("no descriptor: %s", enq_result_name(fd));
    p->listens = true;
}

/* --- being told: results --- */

static bool good_result(const struct ticket *t, int rc)
{
    switch (rc) {
    case ENQ_OK:
        return true;
    case ENQ_TIMEDOUT:
        return t->wait_ms > 0 &&
            kernel_now_ns() - t->began_ns >= t->wait_ms * NS_PER_MS;
    case ENQ_CANCELLED:
        return t->cancelled || sim.broken;
    case ENQ_DEADLOCK:
        figures.cycles++;
        return t->looks && graph_had_cycle(t->queued);
    default:
        return false;
    }
}

static void take_result(struct proc *p, const struct enq_event *event)
{
    struct ticket t;
    unsigned i = 0;

    while (i < p->n_tickets && p->tickets[i].number != event->ticket)
        i++;
    if (i == p->n_tickets) {
        sim_misled("a second result for ticket %#llx, or one for none: %s",
            (unsigned long long)event->ticket, enq_result_name(event->result));
        return;
    }
    figures.results++;
    t = p->tickets[i];
    p->tickets[i] = p->tickets[--p->n_tickets];
    t.hold.handle = event->grant.handle;
    t.hold.token = event->grant.token;
    if (!good_result(&t, event->result))
        sim_misled("a started request that waits %lld ms has ended after %lld "
                   "ns: %s",
            (long long)t.wait_ms, (long long)(kernel_now_ns() - t.began_ns),
            enq_result_name(event->result));
    else if (t.set != NULL)
        sets_result(p, t.set, event);
    else if (event->result == ENQ_OK)
        work_granted(p, &t.hold);
}

/* --- being told: events of locks --- */

static struct hold *hold_of(struct proc *p, enq_handle handle)
{
    for (unsigned i = 0; i < p->n_holds; i++)
        if (p->holds[i].handle == handle)
            return &p->holds[i];
    return NULL;
}

void events_part(struct proc *p, enq_handle handle)
{
    p->parted[p->n_parted++ % PARTED_MAX] = handle;
}

/* An event that was under way when it was given back. Its end is the last. */
static void take_parted(struct proc *p, const struct enq_event *event)
{
    bool ends =
        event->kind == ENQ_EVENT_EXPIRED || event->kind == ENQ_EVENT_LOST;

    for (unsigned i = 0; i < PARTED_MAX; i++) {
        if (p->parted[i] != event->grant.handle)
            continue;
        if (ends)
            p->parted[i] = 0;
        return;
    }
    sim_misled("an event (%d, %s) of a lock that %c does not have",
        (int)event->kind, enq_result_name(event->result), 'a' + (int)p->number);
}

static int64_t margin_ns(const struct hold *h)
{
    int64_t ms = h->ttl_ms / 4;

    return (ms > 10000 ? 10000 : ms) * NS_PER_MS;
}

static void take_near(struct hold *h)
{
    bool renewed = h->renewals > 0 || h->heartbeat_ms > 0;

    h->nears++;
    if (h->heartbeat_ms == 0 && h->nears > 1 + h->renewals)
        sim_misled("the end of a lock's ttl is told %u times", h->nears);
    if (!renewed && kernel_now_ns() < h->until_ns - margin_ns(h))
        sim_misled("the end of a lock's ttl is told %lld ns too early",
            (long long)(h->until_ns - margin_ns(h) - kernel_now_ns()));
}

static bool good_loss(const struct hold *h, int rc)
{
    switch (rc) {
    case ENQ_LOST:
        return h->mode == ENQ_MODE_O && sim.promoted;
    case ENQ_FORCED:
    case ENQ_NOTHELD:
        return sim.broken;
    default:
        return false;
    }
}

static void take_end(struct proc *p, struct hold *h,
    const struct enq_event *event)
{
    struct hold gone = *h;

    *h = p->holds[--p->n_holds];
    if (event->kind == ENQ_EVENT_EXPIRED)
        oracle_lost(p, &gone, ENQ_EXPIRED);
    else if (!good_loss(&gone, event->result))
        sim_misled("a lock in mode %u is said to be lost: %s", gone.mode,
            enq_result_name(event->result));
}

static void take_lock_event(struct proc *p, const struct enq_event *event)
{
    struct hold *h = hold_of(p, event->grant.handle);

    figures.events++;
    if (h == NULL) {
        take_parted(p, event);
        return;
    }
    switch (event->kind) {
    case ENQ_EVENT_BLOCKING:
        if (h->asked)
            sim_misled("that somebody waits for a lock is told twice");
        h->asked = true;
        break;
    case ENQ_EVENT_EXPIRING:
        take_near(h);
        break;
    default:
        take_end(p, h, event);
    }
}

static bool take_one(struct proc *p)
{
    struct enq_event event;
    int rc = enq_next(&p->enq, &event);

    if (rc == ENQ_PENDING)
        return false;
    if (rc != ENQ_OK) {
        sim_misled("next: %s", enq_result_name(rc));
        return false;
    }
    sim_say("event %d: %s, ticket %#llx, handle %#llx", (int)event.kind,
        enq_result_name(event.result), (unsigned long long)event.ticket,
        (unsigned long long)event.grant.handle);
    if (event.kind == ENQ_EVENT_RESULT)
        take_result(p, &event);
    else
        take_lock_event(p, &event);
    return true;
}

/* All, or some: there is more if the descriptor says so. */
void events_take(struct proc *p)
{
    unsigned most = chance(3) ? 1 : UINT32_MAX;

    while (most-- > 0 && !sim.failed && take_one(p))
        continue;
}

void events_wait(struct proc *p, int64_t most_ns)
{
    if (p->listens)
        threads_poll(most_ns);
    else
        kernel_pause(most_ns / 4 + 1);
    events_take(p);
}

/* --- at last --- */

/* Gone without a word, as far as is known. */
static bool any_untold(struct proc *p)
{
    for (unsigned i = 0; i < p->n_holds; i++)
        if (enq_valid(&p->enq, p->holds[i].handle) != ENQ_OK)
            return true;
    return false;
}

void events_finish(struct proc *p)
{
    int64_t end = kernel_now_ns() + FINISH_NS - sim.lost_ns;

    for (unsigned i = 0; i < p->n_tickets; i++)
        cancel(p, &p->tickets[i]);
    while (p->n_tickets > 0 && !sim.failed) {
        events_wait(p, 50 * NS_PER_MS);
        if (p->n_tickets > 0 && kernel_now_ns() > end + sim.lost_ns)
            sim_misled("a started request has no result");
    }
    while (p->listens && any_untold(p) && !sim.failed) {
        events_wait(p, 50 * NS_PER_MS);
        if (kernel_now_ns() > end + sim.lost_ns && any_untold(p))
            sim_misled("a lock is gone, and no event has said so");
    }
}
