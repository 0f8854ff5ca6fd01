/*
 * ask.c - see ask.h.
 *
 * The request stands in the queue by itself: lockctl's one thread waits for
 * its result, for signals, and tells a person at a terminal after a moment
 * what the wait is for. A signal cancels the request; its result comes all
 * the same, and may be a grant of that very moment.
 */
#include "ask.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "system.h"
#include "text.h"

#define NOTICE_AFTER_MS 300
#define HEARTBEATS_PER_TTL 3 /* two may be missed */

/* The lease --------------------------------------------------------------- */

static int say_late_heartbeat(const struct ask *ask)
{
    char heartbeat[32], ttl[32];

    text_time(heartbeat, sizeof(heartbeat), ask->heartbeat_ms);
    text_time(ttl, sizeof(ttl), ask->ttl_ms);
    return say_usage(ask->cli,
        "a heartbeat of %s comes too late for a ttl of %s: give a longer --ttl "
        "or a shorter --heartbeat",
        heartbeat, ttl);
}

int ask_lease(struct ask *ask, int64_t ttl_ms, bool by_itself)
{
    const struct cli *cli = ask->cli;
    bool heartbeats = cli->heartbeat_ms > 0;

    ask->heartbeat_ms = heartbeats ? cli->heartbeat_ms : 0;
    ask->ttl_ms = heartbeats ? cli->heartbeat_ms * HEARTBEATS_PER_TTL : ttl_ms;
    if (cli->ttl_ms != 0)
        ask->ttl_ms = cli->ttl_ms;
    if (heartbeats && ask->ttl_ms == ENQ_FOREVER)
        return say_usage(cli,
            "a heartbeat renews a ttl, and --ttl none means no ttl: leave one "
            "of them out");
    if (heartbeats && ask->heartbeat_ms >= ask->ttl_ms)
        return say_late_heartbeat(ask);
    if (by_itself && cli->heartbeat_ms == 0 && ask->ttl_ms != ENQ_FOREVER)
        ask->heartbeat_ms = ask->ttl_ms / HEARTBEATS_PER_TTL;
    return DONE;
}

/* The space --------------------------------------------------------------- */

int ask_open(struct ask *ask, uint32_t flags)
{
    int rc = space_open(ask->cli, flags, &ask->e);

    if (rc != DONE)
        return rc;
    ask->events_fd = enq_fd(ask->e);
    return ask->events_fd >= 0 ? DONE : say_why(ask->cli, ask->events_fd);
}

void ask_end(struct ask *ask)
{
    enq_close(ask->e);
    ask->e = NULL;
}

/* The wait ---------------------------------------------------------------- */

struct queue {
    struct ask *ask;
    const struct signals *signals;
    struct enq_req req[ENQ_SET_MAX];
    const struct enq_req *reqs[ENQ_SET_MAX];
    uint64_t ticket;
    int64_t notice_at_ms; /* 0: said, or nobody to say it to */
};

/* The lock whose grant names somebody in the way. */
static unsigned blocked_one(const struct enq_grant *grants, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (grants[i].blocker.id[0] != '\0')
            return i;
    return 0;
}

static void clear_blockers(struct enq_grant *grants, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        grants[i].blocker.owner[0] = grants[i].blocker.id[0] = '\0';
}

/* Asks who is in the way, leaving no trace. */
static void say_waiting(const struct queue *q)
{
    static struct enq_req test[ENQ_SET_MAX];
    static const struct enq_req *tests[ENQ_SET_MAX];
    static struct enq_grant grants[ENQ_SET_MAX];
    const struct ask *ask = q->ask;
    char holder[512];

    for (unsigned i = 0; i < ask->n; i++) {
        test[i] = q->req[i];
        test[i].flags |= ENQ_TEST;
        test[i].wait_ms = 0;
        test[i].id = NULL;
        tests[i] = &test[i];
    }
    clear_blockers(grants, ask->n);
    if (enq_lock_set(ask->e, tests, ask->n, grants) != ENQ_BUSY)
        return;
    unsigned at = blocked_one(grants, ask->n);
    say_blocker_text(holder, sizeof(holder), &grants[at].blocker);
    say("waiting for %s, %s; Ctrl-C gives up", ask->object[at].spec, holder);
}

static void say_lock_event(struct queue *q)
{
    if (q->notice_at_ms == 0 || system_now_ms() < q->notice_at_ms)
        return;
    say_waiting(q);
    q->notice_at_ms = 0;
}

static int notice_in_ms(const struct queue *q)
{
    if (q->notice_at_ms == 0)
        return -1;
    int64_t left = q->notice_at_ms - system_now_ms();
    return left > 0 ? (int)left : 0;
}

/* An event has no words of its own except the owner that it names. */
static void explain(struct ask *ask, int result)
{
    const char *spec = ask->object[ask->at].spec;

    ask->result = result;
    if (result == ENQ_CANCELLED)
        text_format(ask->why, sizeof(ask->why),
            "the request for %s was cancelled: it was unlocked or broken "
            "while it waited",
            spec);
    else
        text_format(ask->why, sizeof(ask->why), "%s: %s", spec,
            enq_strerror(result));
}

/* Has the result come? What else comes is of locks of before. Of a set the
   grants are filled in by now. */
static bool take_result(struct queue *q)
{
    struct ask *ask = q->ask;
    struct enq_event event;
    int rc;

    while ((rc = enq_next(ask->e, &event)) == ENQ_OK) {
        if (event.kind != ENQ_EVENT_RESULT || event.ticket != q->ticket)
            continue;
        if (ask->n == 1)
            ask->grant[0] = event.grant;
        if (event.result != ENQ_OK)
            ask->at = blocked_one(ask->grant, ask->n);
        explain(ask, event.result);
        return true;
    }
    if (rc != ENQ_PENDING)
        explain(ask, rc);
    return rc != ENQ_PENDING;
}

/* False: nothing more will be told of it. */
static bool give_up(struct queue *q, int signal)
{
    q->ask->signal = signal;
    q->notice_at_ms = 0;
    int rc = enq_cancel(q->ask->e, q->ticket);
    if (rc < 0)
        explain(q->ask, rc);
    return rc >= 0;
}

static void wait_for_result(struct queue *q)
{
    struct ask *ask = q->ask;

    while (!take_result(q)) {
        struct signal_seen seen =
            signals_wait(q->signals, ask->events_fd, notice_in_ms(q));
        bool ends = signal_ends(seen.number) && ask->signal == 0;
        if (ends && !give_up(q, seen.number))
            return;
        say_lock_event(q);
    }
}

/* The answer -------------------------------------------------------------- */

int ask_unlock(struct ask *ask)
{
    return ask->n == 1
        ? enq_unlock(ask->e, ask->grant[0].handle, ask->grant[0].token)
        : enq_unlock_set(ask->e, ask->grant, ask->n);
}

const char *ask_text(const struct ask *ask, char *out, size_t n)
{
    if (ask->n == 1)
        return ask->object->spec;
    text_format(out, n, "%s and %u more", ask->object->spec, ask->n - 1);
    return out;
}

/* Ends a grant that came together with the signal. */
static int interrupted(struct ask *ask)
{
    char text[512];

    if (ask->result == ENQ_OK)
        ask_unlock(ask);
    if (ask->cli->verbose)
        say("gave up %s: %s", ask_text(ask, text, sizeof(text)),
            strsignal(ask->signal));
    return SIGNALLED + ask->signal;
}

static int refused(const struct ask *ask)
{
    struct refusal refusal = {
        .result = ask->result,
        .why = ask->why,
        .object = ask->object[ask->at].spec,
        .blocker = &ask->grant[ask->at].blocker,
    };

    return say_refusal(ask->cli, &refusal);
}

static void fill_request(struct queue *q, unsigned i)
{
    struct ask *ask = q->ask;
    struct enq_req *req = &q->req[i];
    uuid_t uuid;

    uuid_generate(uuid);
    uuid_unparse_lower(uuid, ask->id[i]);
    *req = ask->object[i].req;
    req->mode = ask->mode != 0 ? ask->mode : ENQ_MODE_E;
    req->flags = ask->cli->no_deadlock ? ENQ_NO_DEADLOCK : 0;
    req->on_death = ask->on_death;
    req->owner = ask->cli->owner;
    req->id = ask->id[i];
    req->wait_ms = ask->wait_ms;
    req->ttl_ms = ask->ttl_ms;
    req->heartbeat_ms = ask->heartbeat_ms;
    q->reqs[i] = req;
}

static int start(struct queue *q)
{
    struct ask *ask = q->ask;

    clear_blockers(ask->grant, ask->n);
    return ask->n == 1
        ? enq_start(ask->e, &q->req[0], ask->grant, &q->ticket)
        : enq_start_set(ask->e, q->reqs, ask->n, ask->grant, &q->ticket);
}

int ask_lock(struct ask *ask, const struct signals *signals)
{
    bool is_seen = ask->cli->verbose || isatty(STDERR_FILENO);
    static struct queue q;

    q = (struct queue){.ask = ask, .signals = signals};
    for (unsigned i = 0; i < ask->n; i++)
        fill_request(&q, i);
    if (is_seen && !ask->cli->quiet)
        q.notice_at_ms = system_now_ms() + NOTICE_AFTER_MS;
    ask->at = 0;
    ask->result = start(&q);
    text_format(ask->why, sizeof(ask->why), "%s", enq_why());
    if (ask->result != ENQ_OK)
        ask->at = blocked_one(ask->grant, ask->n);
    if (ask->result == ENQ_PENDING)
        wait_for_result(&q);
    if (ask->signal > 0)
        return interrupted(ask);
    return ask->result == ENQ_OK ? DONE : refused(ask);
}
