/*
 * load.c - many connections, kept busy by one thread (see load.h). It is as
 * cheap as it can be, since it shares the machine with what it measures:
 * requests lie ready but for their serial numbers, one read takes all that has
 * come on a connection, one write asks all that follows, and the clock is read
 * once in a round.
 */
#include "load/load.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 64, LATE_MS = 5000, BUFFER = 16384, PIECE = 512, QUOTED = 80 };

struct conn {
    int fd;
    unsigned first, n_order;
    uint8_t order[LOAD_DEPTH_MAX]; /* lanes, as they were asked for: a ring */
    struct load_lane lanes[LOAD_DEPTH_MAX];
    size_t in_n; /* of an answer that has begun */
    char in[PIECE];
};

struct load {
    struct seat *seat;
    const struct server *server;
    struct load_dialect dialect;
    struct load_text lock, unlock;
    int epoll;
    unsigned n, depth;
    struct conn *conns;
    uint32_t serial;
    uint64_t under_way, now, pairs;
    bool stopping;
    char out[LOAD_DEPTH_MAX * (LOAD_ASK_BYTES + LOAD_GRANT_BYTES)];
    size_t out_n;
    char in[BUFFER];
};

/* --- requests --- */

void load_put(struct load_text *t, const char *text)
{
    size_t n = strlen(text);

    if (t->n + n > sizeof(t->bytes))
        n = sizeof(t->bytes) - t->n; /* then it is answered with a refusal */
    memcpy(t->bytes + t->n, text, n);
    t->n += n;
}

void load_put_key(struct load_text *t)
{
    t->key = t->n;
    load_put(t, "aaaaaaaa");
}

void load_put_serial(struct load_text *t)
{
    t->serial = t->n;
    load_put(t, "aaaaaaaa");
}

void load_put_lane(struct load_text *t)
{
    t->lane = t->n;
    load_put(t, "a");
}

static void set_letters(char *to, uint32_t number)
{
    for (int i = LOAD_LETTERS - 1; i >= 0; i--, number >>= 4)
        to[i] = (char)('a' + (number & 15));
}

static size_t put_grant(char *to, const struct load_lane *w, const char *end)
{
    size_t n = strlen(end);

    memcpy(to, w->grant, w->grant_n);
    memcpy(to + w->grant_n, end, n);
    return w->grant_n + n;
}

static void ask(struct load *l, struct conn *c, unsigned lane)
{
    struct load_lane *w = &c->lanes[lane];
    const struct load_text *t = w->held ? &l->unlock : &l->lock;
    char *to = l->out + l->out_n;

    if (!w->held || l->dialect.renumber)
        w->serial = ++l->serial;
    memcpy(to, t->bytes, t->n);
    if (t->key != 0)
        memcpy(to + t->key, w->key, LOAD_LETTERS);
    if (t->serial != 0)
        set_letters(to + t->serial, w->serial);
    if (t->lane != 0)
        to[t->lane] = (char)('a' + lane);
    l->out_n += t->n;
    if (t->end != NULL)
        l->out_n += put_grant(to + t->n, w, t->end);
    l->under_way++;
    c->order[(c->first + c->n_order++) % LOAD_DEPTH_MAX] = (uint8_t)lane;
}

static int send_all(struct load *l, struct conn *c)
{
    size_t at = 0;

    while (at < l->out_n) {
        ssize_t n = send(c->fd, l->out + at, l->out_n - at, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return seat_fail(l->seat, "send: %s", strerror(errno));
        at += n > 0 ? (size_t)n : 0;
    }
    l->out_n = 0;
    return 0;
}

/* --- answers --- */

/* It was asked for in this order, but may be answered in another. */
static void leave_order(struct conn *c, unsigned lane)
{
    unsigned i = 0;

    while (i < c->n_order && c->order[(c->first + i) % LOAD_DEPTH_MAX] != lane)
        i++;
    for (; i > 0; i--)
        c->order[(c->first + i) % LOAD_DEPTH_MAX] =
            c->order[(c->first + i - 1) % LOAD_DEPTH_MAX];
    c->first++;
    c->n_order--;
}

/* What is under way on a lane is done; asks what is next. */
static void answered(struct load *l, struct conn *c, unsigned lane,
    const char *at, size_t n)
{
    struct load_lane *w = &c->lanes[lane];

    leave_order(c, lane);
    l->under_way--;
    if (w->held) {
        hist_add(&l->seat->slot->hist, l->now - w->begun_ns);
        l->pairs++;
    } else if (l->dialect.note != NULL) {
        l->dialect.note(w, at, n);
    }
    w->held = !w->held;
    if (!w->held && l->stopping)
        return;
    if (!w->held)
        w->begun_ns = l->now;
    ask(l, c, lane);
}

static int keep_piece(struct load *l, struct conn *c, size_t at, size_t n)
{
    if (n - at > sizeof(c->in))
        return seat_fail(l->seat, "an answer without an end");
    c->in_n = n - at;
    memcpy(c->in, l->in + at, c->in_n);
    return send_all(l, c);
}

static int take_answers(struct load *l, struct conn *c, size_t n)
{
    size_t at = 0;

    while (at < n && c->n_order > 0) {
        unsigned lane = c->order[c->first % LOAD_DEPTH_MAX];
        int used = l->dialect.hear(c->lanes, &lane, l->in + at, n - at);
        if (used < 0 || lane >= l->depth)
            return seat_fail(l->seat, "an unexpected answer: %.*s",
                (int)(n - at < QUOTED ? n - at : QUOTED), l->in + at);
        if (used == 0)
            break;
        answered(l, c, lane, l->in + at, (size_t)used);
        at += (size_t)used;
    }
    return keep_piece(l, c, at, n);
}

static int ready(struct load *l, struct conn *c)
{
    ssize_t n;

    memcpy(l->in, c->in, c->in_n);
    n = recv(c->fd, l->in + c->in_n, sizeof(l->in) - c->in_n, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return seat_fail(l->seat, "a connection ended: %s",
            n < 0 ? strerror(errno) : "closed by the server");
    return take_answers(l, c, c->in_n + (size_t)n);
}

/* --- a pass --- */

static int begin(struct load *l)
{
    l->now = now_ns();
    for (unsigned i = 0; i < l->n; i++) {
        for (unsigned lane = 0; lane < l->depth; lane++) {
            l->conns[i].lanes[lane].begun_ns = l->now;
            ask(l, &l->conns[i], lane);
        }
        if (send_all(l, &l->conns[i]) != 0)
            return -1;
    }
    return 0;
}

static int round_of(struct load *l)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(l->epoll, events, EVENTS, LATE_MS);

    if (n == 0)
        return seat_fail(l->seat, "no answer within %d ms", LATE_MS);
    if (n < 0 && errno != EINTR)
        return seat_fail(l->seat, "epoll_wait: %s", strerror(errno));
    l->now = now_ns();
    for (int i = 0; i < n; i++)
        if (ready(l, events[i].data.ptr) != 0)
            return -1;
    return 0;
}

int load_run(struct seat *s, struct load *l)
{
    uint64_t cpu = server_cpu_ns(l->server);

    l->pairs = 0;
    l->stopping = false;
    if (begin(l) != 0)
        return -1;
    while (l->under_way > 0) {
        if (round_of(l) != 0)
            return -1;
        l->stopping = atomic_load_explicit(s->stop, memory_order_relaxed) != 0;
    }
    s->slot->cpu_ns += server_cpu_ns(l->server) - cpu;
    s->slot->pairs += l->pairs - 1; /* the caller counts the batch, of 1 */
    return 0;
}

/* --- begin and end --- */

static int greet(struct load *l, struct conn *c)
{
    char line[2048] = "";
    size_t n = 0;

    if (l->dialect.hello == NULL)
        return 0;
    l->out_n = strlen(l->dialect.hello);
    memcpy(l->out, l->dialect.hello, l->out_n);
    if (send_all(l, c) != 0)
        return -1;
    while (n == 0 || line[n - 1] != '\n') {
        ssize_t got = recv(c->fd, line + n, sizeof(line) - n, 0);
        if (got <= 0)
            return seat_fail(l->seat, "no answer to hello");
        n += (size_t)got;
    }
    return 0;
}

static int join(struct load *l, unsigned index)
{
    struct conn *c = &l->conns[index];
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};

    c->fd = l->seat->trial->scenario->local ? server_connect_local(l->server)
                                            : server_connect(l->server);
    if (c->fd < 0)
        return seat_fail(l->seat, "connect: %s", strerror(errno));
    l->n++;
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->fd, &event) != 0)
        return seat_fail(l->seat, "epoll_ctl: %s", strerror(errno));
    for (unsigned lane = 0; lane < l->depth; lane++)
        set_letters(c->lanes[lane].key, index * l->depth + lane);
    return greet(l, c);
}

struct load *load_new(struct seat *s, const struct server *server,
    const struct load_dialect *d)
{
    struct load *l = calloc(1, sizeof(*l));
    unsigned n = (unsigned)s->trial->count;

    if (l == NULL || (l->conns = calloc(n, sizeof(*l->conns))) == NULL) {
        seat_fail(s, "out of memory");
        free(l);
        return NULL;
    }
    l->seat = s;
    l->server = server;
    l->dialect = *d;
    l->depth = s->trial->scenario->depth;
    l->dialect.write(&l->lock, &l->unlock, d->arg);
    server_raise_files();
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < n; i++)
        if (join(l, i) != 0) {
            load_free(l);
            return NULL;
        }
    return l;
}

void load_free(struct load *l)
{
    if (l == NULL)
        return;
    for (unsigned i = 0; i < l->n; i++)
        close(l->conns[i].fd);
    close(l->epoll);
    free(l->conns);
    free(l);
}
