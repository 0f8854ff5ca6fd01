/*
 * handoff.c - connections that go to another loop (see handoff.h).
 */
#include "handoff.h"

#include <stdlib.h>
#include <unistd.h>

#include "conn.h"
#include "receive.h"
#include "say.h"
#include "serve.h"
#include "tag.h"

unsigned handoff_home(const struct bridge *b, uint64_t heir)
{
    return (unsigned)(heir % b->share->n);
}

/* --- with a session --- */

/* Its hello, as far as that matters. */
struct moving {
    struct message message;
    struct conn *conn;
    struct bridge *to;
    int64_t grace_ms;
    bool id_is_number, has_owner;
    char id[ASK_ID_BYTES], session[SESSION_BYTES], owner[ENQ_OWNER_BYTES];
};

static unsigned home_of(const struct bridge *b, const char *session)
{
    char name[SESSION_BYTES];

    tag_name(session, name);
    return handoff_home(b, tag_heir(name));
}

/* An id that is none of ours may be refused anywhere. */
bool handoff_is_due(const struct serving *s)
{
    const char *session = s->ask->session;

    return s->b->share->n > 1 && session != NULL &&
        strlen(session) == SESSION_BYTES - 1 &&
        home_of(s->b, session) != s->b->index;
}

static void ask_hello(struct ask *ask, const struct moving *m)
{
    ask->op = OP_HELLO;
    ask->has_id = true;
    ask->id_is_number = m->id_is_number;
    memcpy(ask->id, m->id, sizeof(m->id));
    ask->session = m->session;
    ask->owner = m->has_owner ? m->owner : NULL;
    ask->grace_ms = m->grace_ms;
    ask->secret = ask->wrong = NULL;
}

/* While we stop it is told as little as a client that waits to be accepted. */
static void open_moving(struct bridge *b, struct message *message)
{
    struct moving *m = (struct moving *)message;
    struct conn *c = m->conn;

    c->moving = NULL;
    if (!conn_join(b, c)) {
        free(m);
        return;
    }
    if (b->stopping != NULL) {
        conn_finish(b, c);
    } else {
        ask_hello(&b->ask, m);
        serve_asked(b, c);
        if (c->in_n > 0)
            receive_go_on(b, c);
    }
    free(m);
    if (c->moving != NULL) /* refused here, it has tried another one */
        handoff_go(b, c);
}

void handoff_begin(const struct serving *s)
{
    struct moving *m = calloc(1, sizeof(*m));
    const struct ask *ask = s->ask;

    if (m == NULL) {
        reply_full(&s->reply, "Out of memory");
        return;
    }
    m->message.open = open_moving;
    m->conn = s->c;
    m->to = &s->b->share->loops[home_of(s->b, ask->session)];
    m->grace_ms = ask->grace_ms;
    m->id_is_number = ask->id_is_number;
    m->has_owner = ask->owner != NULL;
    memcpy(m->id, ask->id, sizeof(m->id));
    strcpy(m->session, ask->session);
    if (m->has_owner)
        strcpy(m->owner, ask->owner);
    s->c->moving = m;
}

void handoff_forget(struct conn *c)
{
    free(c->moving);
    c->moving = NULL;
}

void handoff_go(struct bridge *b, struct conn *c)
{
    struct moving *m = c->moving;

    if (c->ending) { /* it was cut off, and told so */
        handoff_forget(c);
        return;
    }
    say_more("%s moved to loop %u (connection %llu)", c->peer, m->to->index,
        (unsigned long long)c->serial);
    conn_leave(b, c);
    m->to->n_conns++;
    mailbox_send(m->to, &m->message);
}

/* --- new connections --- */

struct placed {
    struct message message;
    int fd;
    struct peer *from;
    char peer[PEER_BYTES];
};

static void open_placed(struct bridge *b, struct message *message)
{
    struct placed *placed = (struct placed *)message;

    if (b->stopping == NULL) {
        conn_begin(b, placed->fd, placed->peer, placed->from);
    } else { /* as if nobody had accepted it */
        close(placed->fd);
        conn_uncount(b, placed->from);
    }
    free(placed);
}

/* The kernel wakes that loop for a client which has slept last, mostly the same
   one. Those that come and go at once stay where they were taken in. */
static struct bridge *emptiest(struct bridge *b)
{
    struct share *share = b->share;
    struct bridge *found = b;

    for (unsigned i = 0; i < share->n; i++)
        if (share->loops[i].n_conns < found->n_conns)
            found = &share->loops[i];
    return found;
}

void handoff_in(struct bridge *b, int fd, const char *peer, struct peer *from)
{
    struct bridge *to = from == NULL || b->share->n == 1 ? b : emptiest(b);
    struct placed *placed = to == b ? NULL : malloc(sizeof(*placed));

    if (placed == NULL)
        to = b;
    to->n_conns++;
    if (placed == NULL) {
        conn_begin(b, fd, peer, from);
        return;
    }
    placed->message.open = open_placed;
    placed->fd = fd;
    strcpy(placed->peer, peer);
    placed->from = from;
    mailbox_send(to, &placed->message);
}
