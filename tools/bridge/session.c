/*
 * session.c - remote sessions (see session.h).
 */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "conn.h"
#include "move.h"
#include "roll.h"
#include "say.h"
#include "tag.h"
#include "wait.h"

#define NS_PER_MS INT64_C(1000000)

/* --- ids --- */

/* 96 bits that nobody guesses, in the 64 letters of RFC 4648's base64url. */
static bool make_id(char id[SESSION_BYTES])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "abcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char random[SESSION_BYTES - 1];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return false;
    for (size_t i = 0; i < sizeof(random); i++)
        id[i] = letters[random[i] & 63];
    id[sizeof(random)] = '\0';
    return true;
}

static struct session *find(struct bridge *b, const char *id)
{
    struct table_node *node = table_find(&b->sessions, table_hash(id));

    for (; node != NULL; node = table_next(node)) {
        struct session *s = TABLE_OF(node, struct session, by_id);
        if (strcmp(s->id, id) == 0)
            return s;
    }
    return NULL;
}

/* One that leads to this loop. */
static bool make_own_id(const struct bridge *b, char id[SESSION_BYTES])
{
    do
        if (!make_id(id))
            return false;
    while (move_home(b, id) != b->index);
    return true;
}

/* --- begin and end --- */

static struct session *make(struct bridge *b, const char *id)
{
    struct session *s = NULL;

    if (b->share->n_sessions++ < b->options.limits.sessions)
        s = calloc(1, sizeof(*s));
    if (s != NULL && id != NULL) {
        snprintf(s->id, sizeof(s->id), "%s", id);
    } else if (s != NULL && !make_own_id(b, s->id)) {
        free(s);
        s = NULL;
    }
    if (s == NULL) {
        b->share->n_sessions--;
        return NULL;
    }
    CDS_INIT_LIST_HEAD(&s->held);
    CDS_INIT_LIST_HEAD(&s->waits);
    cds_list_add_tail(&s->node, &b->broken);
    table_add(&b->sessions, &s->by_id, table_hash(s->id));
    return s;
}

static void set_grace(struct bridge *b, struct session *s, int64_t grace_ms)
{
    int64_t most = b->options.limits.grace_s * 1000;

    s->grace_ms = grace_ms < 0 || grace_ms > most ? most : grace_ms;
}

static void attach(struct bridge *b, struct session *s, struct conn *c)
{
    struct conn *before = s->conn;

    if (before != NULL) { /* its client has come back before we knew it gone */
        before->session = NULL;
        conn_finish(b, before);
    }
    s->conn = c;
    c->session = s;
    cds_list_del(&s->node);
    cds_list_add_tail(&s->node, &b->joined);
    snprintf(s->peer, sizeof(s->peer), "%s", c->peer);
}

struct session *session_join(struct bridge *b, struct conn *c,
    const struct ask *ask, bool *resumed)
{
    struct session *s = ask->session == NULL ? NULL : find(b, ask->session);

    *resumed = s != NULL;
    if (s == NULL) {
        s = make(b, NULL);
        if (s == NULL)
            return NULL;
        set_grace(b, s, ask->grace_ms < 0 ? 10000 : ask->grace_ms);
    }
    if (ask->owner != NULL) /* the table does not know it */
        snprintf(s->owner, sizeof(s->owner), "%s", ask->owner);
    attach(b, s, c);
    say_more("%s has %s session %.4s...", c->peer,
        *resumed ? "resumed" : "begun", s->id);
    return s;
}

static void part(struct bridge *b, struct session *s)
{
    if (s->conn != NULL)
        s->conn->session = NULL;
    s->conn = NULL;
    s->ends_ns = b->now_ns + s->grace_ms * NS_PER_MS;
    cds_list_del(&s->node);
    cds_list_add_tail(&s->node, &b->broken);
}

void session_leave(struct bridge *b, struct session *s)
{
    part(b, s);
    if (s->grace_ms == 0) /* at once: not with the next tick */
        session_end(b, s);
}

/* What is to stay is an orphan from now, which others may adopt. One with a
   lock delay is not given back but runs out: the delay is for those whose
   holder is gone. */
static void give_up(struct bridge *b, const struct held *h)
{
    if (h->on_death != ENQ_DEATH_RELEASE)
        enq_abandon(b->space, h->handle, h->token);
    else if (h->delayed)
        enq_renew(b->space, h->handle, h->token, 1);
    else
        enq_unlock(b->space, h->handle, h->token);
}

static void forget(struct bridge *b, struct session *s)
{
    table_remove(&b->sessions, &s->by_id);
    cds_list_del(&s->node);
    b->share->n_sessions--;
    free(s->done);
    free(s);
}

void session_end(struct bridge *b, struct session *s)
{
    say_more("session %.4s... of %s is over", s->id, s->peer);
    if (s->conn != NULL)
        part(b, s);
    wait_drop_all(b, &s->waits);
    while (!cds_list_empty(&s->held)) {
        struct held *h = cds_list_first_entry(&s->held, struct held, node);

        give_up(b, h);
        held_remove(b, h);
    }
    forget(b, s);
}

void session_forget_all(struct bridge *b)
{
    struct session *s, *next;
    struct held *h, *other;

    cds_list_for_each_entry_safe (s, next, &b->broken, node) {
        cds_list_for_each_entry_safe (h, other, &s->held, node)
            held_remove(b, h);
        forget(b, s);
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
        if (b->now_ns - s->conn->heard_ns > silent_ns) {
            say_more("%s has been silent for too long", s->peer);
            conn_end(b, s->conn);
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

static struct held *held_make(struct bridge *b)
{
    struct held *h;

    if (cds_list_empty(&b->spare))
        return malloc(sizeof(*h));
    h = cds_list_first_entry(&b->spare, struct held, node);
    cds_list_del(&h->node);
    b->n_spare--;
    return h;
}

bool held_add(struct bridge *b, struct session *s, const struct held *what)
{
    struct held *h = held_make(b);

    if (h == NULL) {
        enq_unlock(b->space, what->handle, what->token);
        return false;
    }
    *h = *what;
    h->session = s;
    cds_list_add_tail(&h->node, &s->held);
    s->n_held++;
    table_add(&b->held, &h->by_handle, h->handle);
    table_add(&b->requests, &h->by_request, h->request);
    if (b->share->roll != NULL) {
        roll_add(b, h);
        if (enq_valid(b->space, h->handle) == ENQ_NOTHELD)
            held_remove(b, h); /* by another loop, which did not find it here */
    }
    return true;
}

void held_remove(struct bridge *b, struct held *h)
{
    table_remove(&b->held, &h->by_handle);
    table_remove(&b->requests, &h->by_request);
    if (b->share->roll != NULL)
        roll_remove(b, h);
    cds_list_del(&h->node);
    h->session->n_held--;
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

    if (h == NULL && b->share->roll != NULL)
        roll_change(b->share->roll, handle, token, mode);
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
    else if (b->share->roll != NULL)
        roll_gone(b->share->roll, handle);
}

bool held_look(struct bridge *b, enq_handle handle, uint64_t *token,
    uint8_t *mode)
{
    const struct held *h = held_find(b, handle);

    if (h == NULL && b->share->roll != NULL)
        return roll_look(b->share->roll, handle, token, mode);
    if (h == NULL)
        return false;
    *token = h->token;
    *mode = h->mode;
    return true;
}

unsigned held_of_request(struct bridge *b, const struct session *s,
    uint64_t request, struct enq_grant *grants, unsigned most)
{
    struct table_node *node = table_find(&b->requests, request);
    unsigned n = 0;

    for (; node != NULL; node = table_next(node)) {
        const struct held *h = TABLE_OF(node, struct held, by_request);

        if (h->session != s || h->member >= most || h->gone)
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

/* --- after another bridge --- */

#define INHERIT_AT_ONCE 4096u

static void inherit_one(struct bridge *first, const struct enq_info *info)
{
    struct bridge *b;
    struct tag_found tag;
    struct session *s;
    struct held h = {
        .handle = info->handle, .token = info->token, .mode = info->mode};

    if (!tag_read(info->peer, &tag))
        return; /* without a session: its id says all */
    b = &first->share->loops[move_home(first, tag.session)];
    s = find(b, tag.session);
    if (s == NULL)
        s = make(b, tag.session);
    if (s == NULL)
        return;
    set_grace(b, s, tag.grace_ms);
    s->ends_ns = b->now_ns + s->grace_ms * NS_PER_MS;
    snprintf(s->peer, sizeof(s->peer), "%s", tag.peer);
    h.on_death = tag.on_death;
    h.delayed = tag.delayed;
    h.member = (uint16_t)tag.member;
    h.request = table_hash(tag.request);
    held_add(b, s, &h);
}

void session_inherit(struct bridge *b)
{
    struct enq_info *infos = calloc(INHERIT_AT_ONCE, sizeof(*infos));
    size_t got = 0, all = 0;
    int rc = ENQ_OK;

    if (infos == NULL)
        say_die(1, "out of memory");
    do {
        rc = enq_inherit(b->space, infos, INHERIT_AT_ONCE, &got);
        for (size_t i = 0; rc == ENQ_OK && i < got; i++)
            inherit_one(b, &infos[i]);
        all += got;
    } while (rc == ENQ_OK && got > 0);
    free(infos);
    if (rc != ENQ_OK)
        say("cannot take over the locks of a bridge before: %s", enq_why());
    if (all > 0)
        say("took over %zu locks and %u sessions", all,
            (unsigned)b->share->n_sessions);
}
