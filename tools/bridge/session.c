/*
 * session.c - remote sessions (see session.h).
 */
#include "session.h"

#include <stdlib.h>
#include <sys/random.h>

#include "conn.h"
#include "handoff.h"
#include "hung.h"
#include "left.h"
#include "loop.h"
#include "over.h"
#include "peer.h"
#include "receive.h"
#include "registry.h"
#include "say.h"
#include "tag.h"
#include "wait.h"

#define NS_PER_MS INT64_C(1000000)

/* --- ids and names --- */

/* 96 bits that nobody guesses. */
static bool make_id(char id[SESSION_BYTES])
{
    unsigned char random[SESSION_BYTES - 1];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return false;
    for (size_t i = 0; i < sizeof(random); i++)
        id[i] = tag_letters[random[i] & 63];
    id[sizeof(random)] = '\0';
    return true;
}

static struct session *find(struct bridge *b, const char *name)
{
    struct table_node *node = table_find(&b->sessions, table_hash(name));

    for (; node != NULL; node = table_next(node)) {
        struct session *s = TABLE_OF(node, struct session, by_name);
        if (strcmp(s->name, name) == 0)
            return s;
    }
    return NULL;
}

/* One that leads to this loop. */
static bool make_own_id(const struct bridge *b, char id[SESSION_BYTES],
    char name[SESSION_BYTES])
{
    do {
        if (!make_id(id))
            return false;
        tag_name(id, name);
    } while (handoff_home(b, tag_heir(name)) != b->index);
    return true;
}

/* --- begin and end --- */

static struct session *make(struct bridge *b, const char *name)
{
    struct session *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return NULL;
    strcpy(s->name, name);
    b->share->n_sessions++;
    CDS_INIT_LIST_HEAD(&s->held);
    CDS_INIT_LIST_HEAD(&s->waits);
    cds_list_add_tail(&s->node, &b->broken);
    table_add(&b->sessions, &s->by_name, table_hash(s->name));
    return s;
}

static struct session *make_new(struct bridge *b, const struct conn *c,
    char id[SESSION_BYTES])
{
    char name[SESSION_BYTES];

    if (b->share->n_sessions >= b->options.limits.sessions ||
        c->from->sessions >= b->options.limits.peer_sessions ||
        !make_own_id(b, id, name))
        return NULL;
    return make(b, name);
}

int64_t session_grace(const struct bridge *b, int64_t grace_ms)
{
    int64_t most = b->options.limits.grace_s * 1000;

    return grace_ms < 0 || grace_ms > most ? most : grace_ms;
}

static void attach(struct bridge *b, struct session *s, struct conn *c)
{
    struct conn *before = s->conn;

    if (before != NULL) { /* its client has come back before we knew it gone */
        before->session = NULL;
        conn_finish(b, before);
    }
    if (s->from == NULL)
        s->from = peer_has_session(b->share, c->from, s->n_held);
    s->conn = c;
    c->session = s;
    cds_list_del(&s->node);
    cds_list_add_tail(&s->node, &b->joined);
    memcpy(s->peer, c->peer, sizeof(s->peer));
}

/* The one that @ask names, whose id is that, if there is one: @s. False: that
   cannot be told now. */
static bool resume(struct bridge *b, const struct ask *ask,
    char id[SESSION_BYTES], struct session **s)
{
    char name[SESSION_BYTES];

    *s = NULL;
    if (ask->session == NULL || strlen(ask->session) != SESSION_BYTES - 1)
        return true;
    strcpy(id, ask->session);
    tag_name(id, name);
    *s = find(b, name);
    return *s != NULL || left_resume(b, name, s);
}

static struct session *begin(struct bridge *b, const struct conn *c,
    const struct ask *ask, char id[SESSION_BYTES])
{
    struct session *s = make_new(b, c, id);

    if (s != NULL)
        s->grace_ms =
            session_grace(b, ask->grace_ms < 0 ? 10000 : ask->grace_ms);
    return s;
}

const char *session_join(struct bridge *b, struct conn *c,
    const struct ask *ask, struct joined *joined)
{
    struct session *s;

    if (!resume(b, ask, joined->id, &s))
        return "The session cannot be taken over now: say hello again later";
    joined->resumed = s != NULL;
    if (s == NULL)
        s = begin(b, c, ask, joined->id);
    if (s == NULL)
        return c->from->sessions >= b->options.limits.peer_sessions
            ? "The client's host or user has too many sessions"
            : "The bridge has too many sessions";
    if (ask->owner != NULL) /* the table does not know it */
        strcpy(s->owner, ask->owner);
    attach(b, s, c);
    say_more("%s has %s session %s", c->peer,
        joined->resumed ? "resumed" : "begun", s->name);
    return NULL;
}

/* From now, and not from when the round began: a client counts from when it
   sent what was answered in it. */
static int64_t grace_end(const struct session *s)
{
    return bridge_clock() + s->grace_ms * NS_PER_MS;
}

struct session *session_inherit(struct bridge *b, const struct tag_found *tag,
    int64_t grace_ms)
{
    struct session *s = find(b, tag->session);

    if (s == NULL)
        s = make(b, tag->session);
    if (s == NULL)
        return NULL;
    s->grace_ms = grace_ms;
    s->ends_ns = grace_end(s);
    if (tag->peer[0] != '\0') /* what it has adopted tells none */
        strcpy(s->peer, tag->peer);
    return s;
}

static void part(struct bridge *b, struct session *s)
{
    if (s->conn != NULL)
        s->conn->session = NULL;
    s->conn = NULL;
    s->ends_ns = grace_end(s);
    cds_list_del(&s->node);
    cds_list_add_tail(&s->node, &b->broken);
}

void session_leave(struct bridge *b, struct session *s)
{
    part(b, s);
    if (s->grace_ms == 0) /* at once: not with the next tick */
        session_end(b, s);
}

void session_forget(struct bridge *b, struct session *s)
{
    table_remove(&b->sessions, &s->by_name);
    cds_list_del(&s->node);
    b->share->n_sessions--;
    if (s->from != NULL)
        peer_ends_session(b->share, s->from, s->n_held);
    free(s->done);
    free(s);
}

void session_forget_all(struct bridge *b)
{
    struct session *s, *next;
    struct held *h, *other;

    cds_list_for_each_entry_safe (s, next, &b->broken, node) {
        cds_list_for_each_entry_safe (h, other, &s->held, node)
            held_remove(b, h);
        session_forget(b, s);
    }
    cds_list_for_each_entry_safe (h, other, &b->spare, node)
        free(h);
}

void session_tick(struct bridge *b)
{
    int64_t silent_ns = 3 * b->options.limits.keepalive_ms * NS_PER_MS;
    struct session *s, *next;

    cds_list_for_each_entry_safe (s, next, &b->broken, node)
        if (b->now_ns >= s->ends_ns)
            session_end(b, s);
    cds_list_for_each_entry_safe (s, next, &b->joined, node)
        if (b->now_ns - s->conn->heard_ns > silent_ns &&
            !receive_has_more(s->conn) && !s->conn->is_hung) {
            say_more("%s has been silent for too long", s->peer);
            hung_add(b, s->conn, 0);
        }
}

/* --- locks --- */

struct held *held_find(struct bridge *b, enq_handle handle)
{
    struct table_node *node = table_find(&b->held, handle);

    return node == NULL ? NULL : TABLE_OF(node, struct held, by_handle);
}

/* Most are held for a moment only: some are kept for the next. */
#define SPARE_MOST 1024u

const char held_no_room[] = "The bridge has no memory for more locks";

bool held_room(struct bridge *b, unsigned n)
{
    while (b->n_spare < n) {
        struct held *h = malloc(sizeof(*h));

        if (h == NULL)
            return false;
        b->n_spare++;
        cds_list_add(&h->node, &b->spare);
    }
    return true;
}

/* Clients count their requests alike: each has its own. */
static uint64_t key_of(const struct session *s, uint64_t request)
{
    return request ^ s->by_name.key;
}

void held_add(struct bridge *b, struct session *s, const struct held *what)
{
    struct held *h = cds_list_first_entry(&b->spare, struct held, node);

    cds_list_del(&h->node);
    b->n_spare--;
    *h = *what;
    h->session = s;
    cds_list_add_tail(&h->node, &s->held);
    s->n_held++;
    if (s->from != NULL)
        peer_count(b->share, &s->from->locks, 1);
    table_add(&b->held, &h->by_handle, h->handle);
    if (h->request != 0) /* without an id it is not asked for again */
        table_add(&b->requests, &h->by_request, key_of(s, h->request));
    if (b->share->registry != NULL) {
        registry_add(b, h);
        if (enq_valid(b->space, h->handle) == ENQ_NOTHELD)
            held_remove(b, h); /* by another loop, which did not find it here */
    }
}

void held_remove(struct bridge *b, struct held *h)
{
    table_remove(&b->held, &h->by_handle);
    table_remove(&b->requests, &h->by_request);
    if (b->share->registry != NULL)
        registry_remove(b, h);
    cds_list_del(&h->node);
    h->session->n_held--;
    if (h->session->from != NULL)
        peer_count(b->share, &h->session->from->locks, -1u);
    if (b->n_spare == SPARE_MOST) {
        free(h);
        return;
    }
    b->n_spare++;
    cds_list_add(&h->node, &b->spare);
}

void held_change(struct bridge *b, enq_handle handle, uint64_t token,
    uint8_t mode)
{
    struct held *h = held_find(b, handle);

    if (h == NULL && b->share->registry != NULL)
        registry_change(b->share->registry, handle, token, mode);
    if (h == NULL)
        return;
    if (token != 0)
        h->token = token;
    h->mode = mode;
}

void held_gone(struct bridge *b, enq_handle handle)
{
    struct held *h = held_find(b, handle);

    if (h != NULL)
        held_remove(b, h);
    else if (b->share->registry != NULL)
        registry_gone(b->share->registry, handle);
    if (h == NULL)
        peer_lost_lock(b->share, handle);
}

bool held_look(struct bridge *b, enq_handle handle, uint64_t *token,
    uint8_t *mode)
{
    const struct held *h = held_find(b, handle);

    if (h == NULL && b->share->registry != NULL)
        return registry_look(b->share->registry, handle, token, mode);
    if (h == NULL)
        return false;
    *token = h->token;
    *mode = h->mode;
    return true;
}

/* What is not at this loop is not of a session of this loop. */
enum held_by held_by(struct bridge *b, const struct session *s,
    enq_handle handle)
{
    const struct held *h = held_find(b, handle);
    uint64_t token;
    uint8_t mode;

    if (h != NULL)
        return h->session == s ? HELD_BY_THIS : HELD_BY_ANOTHER;
    return held_look(b, handle, &token, &mode) ? HELD_BY_ANOTHER
                                               : HELD_BY_NO_SESSION;
}

unsigned held_of_request(struct bridge *b, const struct session *s,
    uint64_t request, struct enq_grant *grants, unsigned most)
{
    struct table_node *node = table_find(&b->requests, key_of(s, request));
    unsigned n = 0;

    for (; node != NULL; node = table_next(node)) {
        const struct held *h = TABLE_OF(node, struct held, by_request);

        if (h->session != s || h->request != request || h->member >= most ||
            h->gone)
            continue;
        grants[h->member].handle = h->handle;
        grants[h->member].token = h->token;
        n++;
    }
    return n;
}

/* --- what has been done --- */

#define DONE_KEPT 64u

/* Most requests are new: it is the marks that are looked at, which take two
   cache lines. */
struct done_ring {
    uint16_t marks[DONE_KEPT];
    struct done done[DONE_KEPT];
};

static uint16_t mark_of(uint64_t request, enum op op)
{
    return (uint16_t)((request >> 48) ^ request ^ (uint64_t)op << 12);
}

void done_note(struct session *s, const struct done *what)
{
    uint32_t at = s->n_done % DONE_KEPT;

    if (s->done == NULL)
        s->done = calloc(1, sizeof(*s->done));
    if (s->done == NULL)
        return; /* a repeated one is not known for one */
    s->n_done++;
    s->done->marks[at] = mark_of(what->request, what->op);
    s->done->done[at] = *what;
}

static bool is_marked(const struct done_ring *ring, uint16_t mark)
{
    uint16_t found = 0;

    for (unsigned i = 0; i < DONE_KEPT; i++) /* without a way out: at once */
        found |= ring->marks[i] == mark;
    return found != 0;
}

const struct done *done_find(const struct session *s, uint64_t request,
    enum op op)
{
    if (s->done == NULL || !is_marked(s->done, mark_of(request, op)))
        return NULL;
    for (unsigned i = 0; i < DONE_KEPT; i++) {
        const struct done *d = &s->done->done[i];
        if (d->request == request && d->op == op)
            return d;
    }
    return NULL;
}
