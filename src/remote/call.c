/*
 * call.c - remote: asking the bridge, and being answered.
 *
 * Who asks reads the socket himself, or sleeps on his call while another does
 * (baton.c). An answer is read without the mutex (CALL_TAKING), as lists are
 * long; whoever's time is over meanwhile waits for the end of that. A call that
 * its caller has given up goes on without him: a lock that it gets is given
 * back.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/why.h"
#include "remote/answer.h"
#include "remote/ask.h"
#include "remote/client.h"
#include "remote/link.h"
#include "sync/sys.h"

void call_begin(struct call *c, const char *op)
{
    pthread_condattr_t attr;

    memset(c, 0, sizeof(*c));
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&c->done, &attr);
    pthread_condattr_destroy(&attr);
    c->wait_ends = MONO_NEVER;
    ask_begin(&c->ask, op);
}

struct call *call_new(const char *op)
{
    struct call *c = malloc(sizeof(*c));

    if (c == NULL) {
        why(-ENOMEM, "out of memory for a request");
        return NULL;
    }
    call_begin(c, op);
    return c;
}

/* --- giving back --- */

static void post_unlock(struct remote *r, const struct enq_grant *g)
{
    struct call *c = call_new("2");

    if (c == NULL)
        return; /* it ends with its ttl, or the session */
    ask_grant(&c->ask, g->handle, g->token);
    call_post(r, c);
}

void call_give_back(struct remote *r, const struct answer *a)
{
    struct enq_grant g = {.handle = a->handle, .token = a->token};
    struct scan_value *at = fields_first(a->grants);

    if (g.handle != 0)
        post_unlock(r, &g);
    for (; at != NULL; at = fields_next(a->grants, at)) {
        answer_grant(a, at, &g);
        post_unlock(r, &g);
    }
}

static void post_cancel(struct remote *r, uint64_t number)
{
    struct call *c = call_new("cancel");

    if (c == NULL)
        return;
    text_member_big(&c->ask, "ticket", number);
    call_post(r, c);
}

/* The answer to what nobody wants any more: what was granted, or is left of
   it. */
static void settle(struct remote *r, const struct call *c,
    const struct answer *a)
{
    if (c->locks && (a->result == ENQ_OK || a->result == ENQ_NOTHELD))
        call_give_back(r, a);
}

/* --- answers --- */

static struct call *find(const struct remote *r, uint64_t number)
{
    struct map_node *node = number_map_find(&r->calls, number);

    return node == NULL ? NULL : caa_container_of(node, struct call, by_number);
}

/* It waits at the bridge; whoever started it is told so, once. */
static void is_pending(struct call *c, const struct answer *a)
{
    struct started *s = caa_container_of(c, struct started, call);

    if (s->is_pending)
        return;
    s->is_pending = true;
    if (a->has_blocker)
        s->blocker = a->blocker;
    s->index = a->index;
    pthread_cond_signal(&c->done);
}

/* A started one whose caller has not woken up yet is left to him. */
static void conclude(struct remote *r, struct call *c)
{
    struct started *s = caa_container_of(c, struct started, call);

    call_remove(r, c);
    c->phase = CALL_DONE;
    if (c->posted || c->abandoned)
        call_free(c);
    else if (c->started && s->is_told)
        news_result(r, s);
    else
        pthread_cond_signal(&c->done);
}

/* A late reply to what was sent again may meet a call that is answered: its
   number is forgotten then. */
void call_answered(struct remote *r, const struct answer *a)
{
    enum call_phase before;
    struct call *c;
    bool wanted;

    pthread_mutex_lock(&r->mutex);
    c = find(r, a->number);
    if (c == NULL || c->phase == CALL_UNSENT) {
        pthread_mutex_unlock(&r->mutex);
        return;
    }
    /* Who timed out has waited, also when the word that it waits was lost with
       a connection: enq_start() does not end like that, its event does. */
    if (c->started && (a->result == ENQ_PENDING || a->result == ENQ_TIMEDOUT))
        is_pending(c, a);
    if (c->started && a->result == ENQ_PENDING) {
        c->phase = CALL_PENDING;
        c->waited_at = c->put_at;
        sure_answered(r, c->put_at);
        pthread_mutex_unlock(&r->mutex);
        return;
    }
    before = c->phase;
    c->phase = CALL_TAKING;
    wanted = !c->abandoned;
    c->result = a->result;
    if (a->msg[0] != '\0')
        why_copy(c->why, sizeof(c->why), a->msg);
    pthread_mutex_unlock(&r->mutex);
    if (!wanted)
        settle(r, c, a);
    else if (c->take != NULL)
        c->take(r, c, a);
    pthread_mutex_lock(&r->mutex);
    sure_answered(r, c->put_at);
    c->phase = before;
    conclude(r, c);
    call_push(r);
    pthread_mutex_unlock(&r->mutex);
}

/* --- asking --- */

void call_post(struct remote *r, struct call *c)
{
    c->posted = true;
    if (c->ask.failed) {
        call_free(c);
        return;
    }
    pthread_mutex_lock(&r->mutex);
    call_queue(r, c);
    call_push(r);
    pthread_mutex_unlock(&r->mutex);
}

static bool is_answered(const struct call *c)
{
    return c->phase == CALL_DONE ||
        (c->started && caa_container_of(c, struct started, call)->is_pending);
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

/* With the baton, without the mutex. Who waits for long needs no read that
   ends every HEAR_MS. @calm: nothing came in the last one. */
static int hear_until(struct remote *r, const struct timespec *until,
    bool *calm)
{
    int64_t ms = ms_left(until);
    bool wait = !*calm && ms > HEAR_MS;
    int rc = wait ? 0 : poll_until(r->fd, ms);

    if (rc != 0)
        return rc;
    rc = remote_hear(r, wait);
    *calm = rc == -EAGAIN;
    return *calm ? 0 : rc;
}

static int read_until(struct remote *r, struct call *c,
    const struct timespec *until)
{
    bool calm = false;
    int rc = 0;

    while (!is_answered(c) && !r->lost && rc == 0) {
        pthread_mutex_unlock(&r->mutex);
        rc = hear_until(r, until, &calm);
        pthread_mutex_lock(&r->mutex);
        if (rc < 0)
            baton_lost(r);
        rc = rc < 0 ? 0 : rc;
    }
    baton_put(r);
    return rc;
}

static int sleep_until(struct remote *r, struct call *c,
    const struct timespec *until)
{
    int rc;

    cds_list_add_tail(&c->asleep, &r->sleepers);
    rc = until == NULL ? pthread_cond_wait(&c->done, &r->mutex)
                       : pthread_cond_timedwait(&c->done, &r->mutex, until);
    cds_list_del(&c->asleep);
    return rc;
}

static bool wait_until(struct remote *r, struct call *c,
    const struct timespec *until)
{
    int rc = 0;

    while (!is_answered(c) && rc == 0)
        rc = baton_take(r) ? read_until(r, c, until) : sleep_until(r, c, until);
    while (!is_answered(c) && c->phase == CALL_TAKING)
        pthread_cond_wait(&c->done, &r->mutex);
    baton_offer(r);
    return is_answered(c);
}

/* --- giving up --- */

/* What has not been sent will not be; what has goes on by itself. */
static int give_up(struct remote *r, struct call *c)
{
    bool was_sent = c->phase != CALL_UNSENT, down = r->phase != LINK_UP;
    bool cancel = was_sent && c->waits;
    uint64_t number = c->number;
    int rc = down ? -ENOTCONN : -ETIMEDOUT;

    why(rc, "%s %s%s%s%s", down ? "no connection to" : "no answer from",
        r->name, down ? ": " : "", down ? r->fault_why : "",
        was_sent ? "; whether it was done is not known" : "");
    if (was_sent) {
        c->abandoned = true;
    } else {
        call_remove(r, c);
        call_free(c);
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
static void tell_caller(const struct started *s, int rc)
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
static int answer_pending(struct remote *r, struct started *s)
{
    s->is_told = true;
    tell_caller(s, ENQ_PENDING);
    if (s->call.phase == CALL_DONE)
        news_result(r, s);
    return why(ENQ_PENDING, "%s", enq_strerror(ENQ_PENDING));
}

static int answer(struct remote *r, struct call *c)
{
    struct started *s = caa_container_of(c, struct started, call);
    int rc = c->result;

    if (c->started && s->is_pending)
        return answer_pending(r, s);

    if (rc != ENQ_OK)
        why(rc, "%s", c->why[0] != '\0' ? c->why : enq_strerror(rc));
    if (c->started)
        tell_caller(s, rc);
    call_free(c);
    return rc;
}

static int ask(struct remote *r, struct call *c, const struct timespec *until,
    uint64_t *ticket)
{
    int rc;

    pthread_mutex_lock(&r->mutex);
    call_queue(r, c);
    if (ticket != NULL)
        *ticket = c->number;
    call_push(r);
    rc = wait_until(r, c, until) ? answer(r, c) : give_up(r, c);
    pthread_mutex_unlock(&r->mutex);
    if (ticket != NULL && rc != ENQ_PENDING)
        *ticket = 0;
    return rc;
}

/* Not a point at which a thread can be cancelled, as enq.h says. */
static int ask_undisturbed(struct remote *r, struct call *c,
    const struct timespec *until, uint64_t *ticket)
{
    int rc, before;

    if (c->ask.failed) {
        call_free(c);
        return why(-ENOMEM, "out of memory for a request");
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    rc = ask(r, c, until, ticket);
    pthread_setcancelstate(before, NULL);
    return rc;
}

int call_ask(struct remote *r, struct call *c, int64_t wait_ms,
    int64_t slack_ms)
{
    struct timespec until;

    if (wait_ms > 0)
        c->wait_ends = mono_add_ms(sys.now(), wait_ms);
    return ask_undisturbed(r, c, time_to_give_up(wait_ms, slack_ms, &until),
        NULL);
}

int call_start(struct remote *r, struct call *c, int64_t wait_ms,
    uint64_t *ticket)
{
    struct timespec until;

    if (wait_ms > 0)
        c->wait_ends = mono_add_ms(sys.now(), wait_ms);
    return ask_undisturbed(r, c, time_to_give_up(0, SLACK_MS, &until), ticket);
}
