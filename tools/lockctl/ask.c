/*
 * ask.c - see ask.h.
 *
 * A second thread stands in the queue; the main thread reads signals, and
 * tells a person at a terminal after a moment what the wait is for. A signal
 * ends the wait by unlocking the request by its id, which is lockctl's own.
 */
#include "ask.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "system.h"

#define NOTICE_AFTER_MS 300
#define CANCEL_AGAIN_MS 5

struct queue {
    struct ask *ask;
    struct enq_req req;
    int done_fd;
    int64_t notice_at_ms; /* 0: said, or nobody to say it to */
};

static void *stand_in_queue(void *arg)
{
    struct queue *q = arg;
    uint64_t one = 1;

    q->ask->result = enq_lock(q->ask->e, &q->req, &q->ask->grant);
    snprintf(q->ask->why, sizeof(q->ask->why), "%s", enq_why());
    if (write(q->done_fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
        say("cannot write to an eventfd");
    return NULL;
}

static bool is_done(const struct queue *q)
{
    uint64_t count;

    return read(q->done_fd, &count, sizeof(count)) == (ssize_t)sizeof(count);
}

/* Asks who is in the way, leaving no trace. */
static void say_waiting(const struct queue *q)
{
    struct enq_req test = q->req;
    struct enq_grant grant;
    char holder[512];

    test.flags |= ENQ_TEST;
    test.wait_ms = 0;
    test.id = NULL;
    if (enq_lock(q->ask->e, &test, &grant) != ENQ_BUSY)
        return;
    say_blocker_text(holder, sizeof(holder), &grant.blocker);
    say("waiting for %s, %s; Ctrl-C gives up", q->ask->object->spec, holder);
}

static void say_notice(struct queue *q)
{
    if (q->notice_at_ms == 0 || system_now_ms() < q->notice_at_ms)
        return;
    say_waiting(q);
    q->notice_at_ms = 0;
}

static int next_look_ms(const struct queue *q)
{
    if (q->ask->signal > 0)
        return CANCEL_AGAIN_MS;
    if (q->notice_at_ms == 0)
        return -1;
    int64_t left = q->notice_at_ms - system_now_ms();
    return left > 0 ? (int)left : 0;
}

/* The request may not have reached the table yet: then again, soon. */
static void cancel(const struct queue *q)
{
    enq_handle handle;

    if (enq_find(q->ask->e, q->ask->id, &handle) == ENQ_OK)
        enq_unlock(q->ask->e, handle, 0);
}

static void watch_queue(struct queue *q, const struct signals *signals)
{
    struct ask *ask = q->ask;

    while (!is_done(q)) {
        struct signal_seen seen =
            signals_wait(signals, q->done_fd, next_look_ms(q));
        if (signal_ends(seen.number) && ask->signal == 0)
            ask->signal = seen.number;
        if (ask->signal > 0)
            cancel(q);
        else
            say_notice(q);
    }
}

/* Ends a grant that came together with the signal. */
static int interrupted(struct ask *ask)
{
    if (ask->result == ENQ_OK)
        enq_unlock(ask->e, ask->grant.handle, ask->grant.token);
    if (ask->cli->verbose)
        say("gave up %s: %s", ask->object->spec, strsignal(ask->signal));
    return SIGNALLED + ask->signal;
}

static int answered(const struct ask *ask)
{
    struct refusal refusal = {
        .result = ask->result,
        .why = ask->why,
        .object = ask->object->spec,
        .blocker = &ask->grant.blocker,
    };

    if (ask->result == ENQ_OK) {
        if (ask->cli->verbose)
            say("got %s: id %s", ask->object->spec, ask->id);
        return DONE;
    }
    return say_refusal(ask->cli, &refusal);
}

static int wait_for_answer(struct queue *q, const struct signals *signals)
{
    struct ask *ask = q->ask;
    pthread_t thread;

    int rc = pthread_create(&thread, NULL, stand_in_queue, q);
    if (rc != 0) {
        say("cannot start a thread: %s", strerrordesc_np(rc));
        return FAILED;
    }
    watch_queue(q, signals);
    pthread_join(thread, NULL);
    return ask->signal > 0 ? interrupted(ask) : answered(ask);
}

static void fill_request(struct queue *q)
{
    struct ask *ask = q->ask;
    uuid_t uuid;

    uuid_generate(uuid);
    uuid_unparse_lower(uuid, ask->id);
    q->req = ask->object->req;
    q->req.mode = ask->cli->mode != 0 ? ask->cli->mode : ENQ_MODE_E;
    q->req.on_death = ask->on_death;
    q->req.owner = ask->cli->owner;
    q->req.id = ask->id;
    q->req.wait_ms = ask->cli->wait_ms;
    q->req.ttl_ms = ask->ttl_ms;
}

int ask_lock(struct ask *ask, const struct signals *signals)
{
    bool is_seen = ask->cli->verbose || isatty(STDERR_FILENO);
    struct queue q = {.ask = ask};
    int rc = space_open(ask->cli, 0, &ask->e);

    if (rc != DONE)
        return rc;
    fill_request(&q);
    if (is_seen && !ask->cli->quiet)
        q.notice_at_ms = system_now_ms() + NOTICE_AFTER_MS;
    q.done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (q.done_fd < 0) {
        say("no descriptor left");
        return FAILED;
    }
    rc = wait_for_answer(&q, signals);
    close(q.done_fd);
    return rc;
}

void ask_end(struct ask *ask)
{
    enq_close(ask->e);
    ask->e = NULL;
}
