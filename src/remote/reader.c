/*
 * reader.c - remote: the one thread of an attachment: connects, greets, reads
 * what the bridge says while no caller does, says something when nobody else
 * does, and connects anew. All signals are blocked in it, and it sleeps in
 * poll().
 */
#include "remote/reader.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/hash.h"
#include "channel/answer.h"
#include "channel/ask.h"
#include "channel/link.h"
#include "remote/client.h"
#include "remote/event.h"
#include "remote/fork.h"
#include "remote/greet.h"
#include "remote/held.h"
#include "remote/leader.h"
#include "remote/pending.h"
#include "remote/receive.h"
#include "remote/sure.h"
#include "remote/window.h"
#include "sync/sys.h"

/* Between two attempts to connect: full jitter, so that a thousand clients of
   one bridge do not come back at once. */
#define PAUSE_FIRST_MS 20
#define PAUSE_CAP_MS 1000

#define GREETING_MS 5000

/* After a call an event may come later by two of these. */
#define NAP_MS 1

/* --- greeting --- */

static void greet(struct remote *r, int fd)
{
    struct text t = {0};

    ask_begin(&t, OP_HELLO);
    text_member_number(&t, WIRE_version, 1);
    text_member_number(&t, WIRE_grace, r->grace_ms);
    text_member_text(&t, WIRE_owner, r->owner);
    if (r->secret != NULL)
        text_member_text(&t, WIRE_token, r->secret);
    if (r->session[0] != '\0')
        text_member_text(&t, WIRE_session, r->session);
    pthread_mutex_lock(&r->mutex);
    r->hello = ++r->n_requests;
    ask_end(&t, r->hello);
    r->phase = LINK_GREETING;
    fork_opened(r, fd);
    r->lost = false;
    r->n_links++;
    r->out.n = r->out_at = 0;
    text_put(&r->out, t.bytes, t.n);
    r->said_at = r->received_at = r->pinged_at = r->greeted_at = sys.now();
    if (t.failed || !pending_flush(r))
        shutdown(fd, SHUT_RDWR);
    pthread_mutex_unlock(&r->mutex);
    text_free(&t);
}

/* --- what time brings --- */

static bool is_suspect(struct remote *r, mono_t now)
{
    bool down;

    pthread_mutex_lock(&r->mutex);
    down = sure_has_to_ask(r) && r->phase != LINK_UP;
    pthread_mutex_unlock(&r->mutex);
    return down || sure_is_over(r, now) || held_has_suspects(r);
}

/* Tells when the session becomes suspect, and when it is ours again. Then: when
   to come back for that. */
static mono_t watch_session(struct remote *r, mono_t now)
{
    bool suspect = is_suspect(r, now);

    if (suspect != r->sure.suspect) {
        r->sure.suspect = suspect;
        remote_event_session(r, suspect ? ENQ_ELEASE : ENQ_OK);
    }
    return suspect ? MONO_NEVER : sure_until(r);
}

static void take_doubt(struct remote *r, struct pending *c,
    const struct answer *a)
{
    if (a->result > 0)
        held_gone(r, c->handle, a->result, a->owner);
    else if (a->result == ENQ_OK && a->token == 0) /* no session holds it */
        held_gone(r, c->handle, ENQ_NOTHELD, "");
    else if (a->result == ENQ_OK)
        held_confirm(r, c->handle);
}

static void take_heartbeat(struct remote *r, struct pending *c,
    const struct answer *a)
{
    if (a->result == ENQ_OK)
        held_renewed(r, c->handle, c->sent_at, 0);
    else if (a->result > 0)
        held_gone(r, c->handle, a->result, a->owner);
}

static bool post_about(struct remote *r, enq_handle handle, enum op op,
    pending_take_fn *take)
{
    struct pending *c = pending_new(op);

    if (c == NULL)
        return false;
    ask_grant(&c->ask, handle, 0);
    c->handle = handle;
    c->take = take;
    pending_post(r, c);
    return true;
}

static bool has_room(struct remote *r)
{
    bool room;

    pthread_mutex_lock(&r->mutex);
    room = r->n_window < WINDOW / 2; /* callers come first */
    pthread_mutex_unlock(&r->mutex);
    return room;
}

static void do_what_is_due(struct remote *r, mono_t now)
{
    enq_handle handle;

    while ((handle = held_next_heartbeat(r, now)) != 0)
        (void)post_about(r, handle, OP_RENEW, take_heartbeat);
    while (has_room(r) && (handle = held_next_doubt(r)) != 0)
        if (!post_about(r, handle, OP_VALID, take_doubt)) {
            held_doubt_again(r, handle);
            return;
        }
}

static void ping(struct remote *r, mono_t now)
{
    struct pending *c = has_room(r) ? pending_new(OP_PING) : NULL;

    r->pinged_at = now;
    if (c != NULL)
        pending_post(r, c);
}

/* When to ping next: when nothing was said, heard, or asked and answered, for
   half of what the bridge wants, whatever the other side does; and so that the
   session stays sure. */
static mono_t next_ping(struct remote *r)
{
    mono_t since;
    int64_t ms;

    pthread_mutex_lock(&r->mutex);
    since = mono_min(mono_min(r->said_at, r->received_at), r->sure.at);
    ms = sure_ping_ms(r);
    pthread_mutex_unlock(&r->mutex);
    return mono_add_ms(mono_max(since, r->pinged_at), ms);
}

static mono_t last_received(struct remote *r)
{
    mono_t at;

    pthread_mutex_lock(&r->mutex);
    at = r->received_at;
    pthread_mutex_unlock(&r->mutex);
    return at;
}

/* 0, or why it is over. @again: when to come back. */
static int tend(struct remote *r, mono_t *again)
{
    mono_t now = sys.now(), received_at = last_received(r), ends;
    mono_t suspect_at = watch_session(r, now);

    if (r->phase == LINK_GREETING) {
        ends = mono_add_ms(received_at, GREETING_MS);
        *again = mono_min(ends, suspect_at);
        return mono_reached(ends, now)
            ? remote_broken(r, -ETIMEDOUT, "it does not answer")
            : 0;
    }
    ends = mono_add_ms(received_at, 3 * r->keepalive_ms);
    if (mono_reached(ends, now))
        return remote_broken(r, -ETIMEDOUT, "the bridge no longer answers");
    do_what_is_due(r, now);
    if (mono_reached(next_ping(r), now))
        ping(r, now);
    *again = mono_min(mono_min(ends, next_ping(r)), held_first_heartbeat(r));
    *again = mono_min(*again, suspect_at);
    return 0;
}

/* --- a connection --- */

static bool is_closing(struct remote *r)
{
    bool closing;

    pthread_mutex_lock(&r->mutex);
    closing = r->closing;
    pthread_mutex_unlock(&r->mutex);
    return closing;
}

static int ms_until(mono_t at)
{
    int64_t ns = mono_ns_between(sys.now(), at);

    if (ns <= 0)
        return 0;
    return ns > 60 * NS_PER_S ? 60000 : (int)(ns / NS_PER_MS) + 1;
}

static void answer_bell(struct remote *r)
{
    uint64_t n;

    if (read(r->bell, &n, sizeof(n)) < 0)
        return; /* somebody else's ring was taken before */
}

static int go_on_writing(struct remote *r)
{
    bool fine;

    pthread_mutex_lock(&r->mutex);
    fine = pending_flush(r);
    pthread_mutex_unlock(&r->mutex);
    return fine ? 0 : remote_broken(r, -ECONNRESET, "the connection is broken");
}

/* If nobody else reads. */
static int look(struct remote *r)
{
    int rc = 0;

    pthread_mutex_lock(&r->mutex);
    r->deaf = false;
    if (!r->reading && !r->lost) {
        r->reading = true;
        pthread_mutex_unlock(&r->mutex);
        rc = remote_receive(r, false);
        pthread_mutex_lock(&r->mutex);
        leader_put(r);
        leader_offer(r);
    }
    pthread_mutex_unlock(&r->mutex);
    return rc == -EAGAIN ? 0 : rc;
}

/* What it waits for. While a caller reads for longer than a nap the reader need
   only know when that ends (deaf). */
static void choose(struct remote *r, struct pollfd *p)
{
    pthread_mutex_lock(&r->mutex);
    r->n_seen = r->n_readings;
    r->deaf = r->reading;
    p->events = r->stuck ? POLLOUT : 0;
    if (!r->reading)
        p->events |= POLLIN;
    pthread_mutex_unlock(&r->mutex);
    /* poll() tells of a broken one even if it was asked for nothing. */
    p->fd = p->events == 0 ? -1 : r->fd;
}

/* Has a caller read since it was asked last? One that has the mutex does, or
   will: it is not kept waiting for this. */
static bool are_busy(struct remote *r)
{
    bool busy;

    if (pthread_mutex_trylock(&r->mutex) != 0)
        return true;
    busy = r->n_readings != r->n_seen && !r->stuck && !r->lost;
    r->n_seen = r->n_readings;
    pthread_mutex_unlock(&r->mutex);
    return busy;
}

/* While callers read it would be woken by each of their answers. */
static void nap(struct remote *r, mono_t until)
{
    struct pollfd p = {.fd = r->bell, .events = POLLIN};

    while (are_busy(r) && !mono_reached(until, sys.now()))
        if (poll(&p, 1, NAP_MS) != 0)
            return;
}

static bool is_over(struct remote *r)
{
    bool over;

    pthread_mutex_lock(&r->mutex);
    over = r->closing || r->lost;
    pthread_mutex_unlock(&r->mutex);
    return over;
}

/* Until it is broken, or the attachment is closed. */
static int serve(struct remote *r)
{
    struct pollfd p[] = {
        {.fd = r->fd, .events = POLLIN}, {.fd = r->bell, .events = POLLIN}};
    mono_t again = MONO_NEVER;
    int rc = 0;

    while (rc == 0 && !is_over(r)) {
        rc = tend(r, &again);
        if (rc != 0)
            break;
        nap(r, again);
        choose(r, &p[0]);
        if (poll(p, 2, ms_until(again)) < 0)
            continue;
        if (p[1].revents != 0)
            answer_bell(r);
        if ((p[0].events & POLLOUT) != 0 && p[0].revents != 0)
            rc = go_on_writing(r);
        if (rc == 0)
            rc = look(r);
    }
    return rc;
}

static void hang_up(struct remote *r)
{
    bool was_up;

    pthread_mutex_lock(&r->mutex);
    leader_withdraw(r);
    was_up = r->phase == LINK_UP;
    r->phase = LINK_DOWN;
    fork_close(r);
    text_free(&r->out);
    r->out_at = 0;
    r->stuck = false;
    sure_lost(r);
    r->in.n = 0;
    r->in.failed = false;
    pthread_mutex_unlock(&r->mutex);
    if (was_up)
        remote_event_session(r, r->fault);
}

static int connect_and_serve(struct remote *r)
{
    mono_t suspect_at = watch_session(r, sys.now());
    char text[160];
    int fd = link_connect(&r->address, r->bell, suspect_at, text, sizeof(text));
    int rc;

    if (fd < 0)
        return remote_broken(r, fd, text);
    greet(r, fd);
    rc = serve(r);
    hang_up(r);
    return rc;
}

/* --- the thread --- */

static void pause_before(struct remote *r)
{
    mono_t suspect_at = watch_session(r, sys.now());
    struct pollfd p = {.fd = r->bell, .events = POLLIN};
    int64_t ms;

    r->dice = hash_dice(r->dice, (uint64_t)sys.now().ns);
    ms = r->pause_ms == 0 ? 0 : (int64_t)(r->dice % (uint64_t)r->pause_ms);
    r->pause_ms = r->pause_ms == 0 ? PAUSE_FIRST_MS : r->pause_ms * 2;
    if (r->pause_ms > PAUSE_CAP_MS)
        r->pause_ms = PAUSE_CAP_MS;
    if (ms > ms_until(suspect_at))
        ms = ms_until(suspect_at);
    if (poll(&p, 1, (int)ms) > 0 && !is_closing(r))
        answer_bell(r);
}

/* The opener is told of the first failure; later ones are only passing. */
static bool give_up(struct remote *r)
{
    bool over;

    pthread_mutex_lock(&r->mutex);
    over = r->leaving || r->session[0] == '\0';
    if (over)
        r->phase = LINK_OVER;
    pthread_cond_broadcast(&r->turn);
    pthread_mutex_unlock(&r->mutex);
    return over;
}

void *reader_main(void *remote)
{
    struct remote *r = remote;

    do {
        if (r->n_links > 0)
            pause_before(r);
        (void)connect_and_serve(r);
    } while (!give_up(r));
    return NULL;
}
