/*
 * await.c - remote: a caller waits for its answer. It reads the socket itself,
 * or sleeps on its request while another does (leader.c).
 */
#include "remote/await.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "base/why.h"
#include "channel/ask.h"
#include "channel/link.h"
#include "remote/client.h"
#include "remote/event.h"
#include "remote/held.h"
#include "remote/leader.h"
#include "remote/pending.h"
#include "remote/receive.h"
#include "remote/window.h"
#include "sync/sys.h"

static bool is_answered(const struct pending *c)
{
    return c->phase == PENDING_DONE ||
        (c->started &&
            caa_container_of(c, struct remote_started, request)->is_pending);
}

/* --- waiting --- */

/* Rounded up; @until NULL: for ever. */
static int64_t ms_left(const struct timespec *until)
{
    struct timespec now;
    int64_t ns;

    if (until == NULL)
        return INT64_MAX;
    clock_gettime(CLOCK_MONOTONIC, &now);
    ns = (until->tv_sec - now.tv_sec) * NS_PER_S + until->tv_nsec - now.tv_nsec;
    return ns <= 0 ? 0 : (ns - 1) / NS_PER_MS + 1;
}

/* 0: something may have come. */
static int poll_until(int fd, int64_t ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    if (ms == 0)
        return ETIMEDOUT;
    (void)poll(&p, 1, ms > 60000 ? 60000 : (int)ms);
    return 0;
}

/* As the leader, without the mutex. A long wait needs no read that ends
   every HEAR_MS. @calm: nothing came in the last one. */
static int receive_until(struct remote *r, const struct timespec *until,
    bool *calm)
{
    int64_t ms = ms_left(until);
    bool wait = !*calm && ms > HEAR_MS;
    int rc = wait ? 0 : poll_until(r->fd, ms);

    if (rc != 0)
        return rc;
    rc = remote_receive(r, wait);
    *calm = rc == -EAGAIN;
    return *calm ? 0 : rc;
}

static int read_until(struct remote *r, struct pending *c,
    const struct timespec *until)
{
    bool calm = false;
    int rc = 0;

    while (!is_answered(c) && !r->lost && rc == 0) {
        pthread_mutex_unlock(&r->mutex);
        rc = receive_until(r, until, &calm);
        pthread_mutex_lock(&r->mutex);
        if (rc < 0)
            leader_lost(r);
        rc = rc < 0 ? 0 : rc;
    }
    leader_put(r);
    return rc;
}

static int sleep_until(struct remote *r, struct pending *c,
    const struct timespec *until)
{
    int rc;

    cds_list_add_tail(&c->asleep, &r->sleepers);
    rc = until == NULL ? pthread_cond_wait(&c->done, &r->mutex)
                       : pthread_cond_timedwait(&c->done, &r->mutex, until);
    cds_list_del(&c->asleep);
    return rc;
}

static bool wait_until(struct remote *r, struct pending *c,
    const struct timespec *until)
{
    int rc = 0;

    while (!is_answered(c) && rc == 0)
        rc =
            leader_take(r) ? read_until(r, c, until) : sleep_until(r, c, until);
    while (!is_answered(c) && c->phase == PENDING_TAKING)
        pthread_cond_wait(&c->done, &r->mutex);
    leader_offer(r);
    return is_answered(c);
}

/* --- giving up --- */

static void post_cancel(struct remote *r, uint64_t number)
{
    struct pending *c = pending_new(OP_CANCEL);

    if (c == NULL)
        return;
    text_member_big(&c->ask, WIRE_ticket, number);
    pending_post(r, c);
}

/* What has not been sent will not be; what has goes on by itself. */
static int give_up(struct remote *r, struct pending *c)
{
    bool was_sent = c->phase != PENDING_UNSENT, down = r->phase != LINK_UP;
    bool cancel = was_sent && c->waits;
    uint64_t number = c->number;
    int rc = down ? -ENOTCONN : -ETIMEDOUT;

    why(rc, "%s %s%s%s%s", down ? "no connection to" : "no answer from",
        r->name, down ? ": " : "", down ? r->fault_why : "",
        was_sent ? "; it may have been done" : "");
    if (was_sent) {
        c->abandoned = true;
    } else {
        pending_remove(r, c);
        pending_free(c);
    }
    pthread_mutex_unlock(&r->mutex);
    if (cancel)
        post_cancel(r, number);
    pthread_mutex_lock(&r->mutex);
    return rc;
}

static const struct timespec *time_to_give_up(int64_t wait_ms, int64_t slack_ms,
    struct timespec *until)
{
    mono_t at;

    if (wait_ms == ENQ_FOREVER)
        return NULL;
    clock_gettime(CLOCK_MONOTONIC, until);
    at = mono_add_ms((mono_t){until->tv_sec * NS_PER_S + until->tv_nsec},
        wait_ms);
    at = mono_add_ms(at, slack_ms);
    until->tv_sec = at.ns / NS_PER_S;
    until->tv_nsec = at.ns % NS_PER_S;
    return until;
}

/* --- being told --- */

/* What its caller is told of a started request at once. */
static void tell_caller(const struct remote_started *s, int rc)
{
    const struct order *o = &s->order;

    if (rc != ENQ_PENDING) {
        memcpy(s->callers, o->grants, o->n * sizeof(*o->grants));
        return;
    }
    for (size_t i = 0; i < o->n; i++) {
        s->callers[i].handle = s->callers[i].token = 0;
        s->callers[i].blocker.owner[0] = '\0';
    }
    s->callers[s->index < o->n ? s->index : 0].blocker = s->blocker;
}

/* From now its result is an event, also if it came while we woke up. */
static int answer_pending(struct remote *r, struct remote_started *s)
{
    s->is_told = true;
    tell_caller(s, ENQ_PENDING);
    if (s->request.phase == PENDING_DONE)
        remote_event_result(r, s);
    return why(ENQ_PENDING, "%s", enq_strerror(ENQ_PENDING));
}

static int answer(struct remote *r, struct pending *c)
{
    struct remote_started *s =
        caa_container_of(c, struct remote_started, request);
    int rc = c->result;

    if (c->started && s->is_pending)
        return answer_pending(r, s);

    if (rc != ENQ_OK)
        why(rc, "%s", c->why[0] != '\0' ? c->why : enq_strerror(rc));
    if (c->started)
        tell_caller(s, rc);
    pending_free(c);
    return rc;
}

static int ask(struct remote *r, struct pending *c,
    const struct timespec *until, uint64_t *ticket)
{
    int rc;

    pthread_mutex_lock(&r->mutex);
    pending_queue(r, c);
    if (ticket != NULL)
        *ticket = c->number;
    pending_push(r);
    rc = wait_until(r, c, until) ? answer(r, c) : give_up(r, c);
    pthread_mutex_unlock(&r->mutex);
    if (ticket != NULL && rc != ENQ_PENDING)
        *ticket = 0;
    return rc;
}

/* Not a point at which a thread can be cancelled, as enq.h says. */
static int ask_undisturbed(struct remote *r, struct pending *c,
    const struct timespec *until, uint64_t *ticket)
{
    int rc, before;

    if (c->ask.failed) {
        pending_free(c);
        return why(-ENOMEM, "out of memory for a request");
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    rc = ask(r, c, until, ticket);
    pthread_setcancelstate(before, NULL);
    return rc;
}

int pending_ask(struct remote *r, struct pending *c, int64_t wait_ms,
    int64_t slack_ms)
{
    struct timespec until;

    if (wait_ms > 0)
        c->wait_ends = mono_add_ms(sys.now(), wait_ms);
    return ask_undisturbed(r, c, time_to_give_up(wait_ms, slack_ms, &until),
        NULL);
}

int pending_start(struct remote *r, struct pending *c, int64_t wait_ms,
    uint64_t *ticket)
{
    struct timespec until;

    if (wait_ms > 0)
        c->wait_ends = mono_add_ms(sys.now(), wait_ms);
    return ask_undisturbed(r, c, time_to_give_up(0, SLACK_MS, &until), ticket);
}
