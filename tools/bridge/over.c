/*
 * over.c - sessions that are over (see over.h).
 */
#include "over.h"

#include <stdlib.h>

#include "conn.h"
#include "loop.h"
#include "peer.h"
#include "receive.h"
#include "say.h"
#include "session.h"
#include "wait.h"

/* Of a round; and of one session, before it is another's turn. */
#define OVER_NS INT64_C(1000000)
#define LOCKS_AT_ONCE 64u

/* Whom it is told when all is done. */
struct farewell {
    struct conn *conn; /* NULL: it is gone */
    char id[ASK_ID_BYTES];
    bool has_id, id_is_number;
};

/* --- one lock --- */

/* It goes on counting. */
static void let_go(struct bridge *b, const struct held *h)
{
    if (enq_abandon(b->space, h->handle, h->token) == ENQ_OK &&
        h->session->from != NULL)
        peer_has_lock(b, h->session->from, h->handle);
}

/* What is to stay is an orphan from now, which others may adopt. One with a
   lock delay is not given back but runs out: the delay is for those whose
   holder is gone. */
static void give_up(struct bridge *b, const struct held *h)
{
    if (h->on_death != ENQ_DEATH_RELEASE)
        let_go(b, h);
    else if (h->delayed)
        enq_renew(b->space, h->handle, h->token, 1);
    else
        enq_unlock(b->space, h->handle, h->token);
}

/* --- what is left of a session --- */

static bool is_late(struct bridge *b)
{
    return bridge_look_late(b) >= b->late_ns;
}

/* False: there is more. Its requests first, lest one of them is granted what it
   gives back. */
static bool drop_some(struct bridge *b, struct session *s)
{
    if (cds_list_empty(&s->waits))
        return true;
    for (unsigned n = 1; !cds_list_empty(&s->waits); n++) {
        wait_drop(b, cds_list_first_entry(&s->waits, struct wait, node));
        if (n % 16 == 0 && is_late(b))
            return false;
    }
    wait_drop_more(b);
    return true;
}

static void give_up_some(struct bridge *b, struct session *s)
{
    for (unsigned n = 1; n <= LOCKS_AT_ONCE && !cds_list_empty(&s->held); n++) {
        struct held *h = cds_list_first_entry(&s->held, struct held, node);

        give_up(b, h);
        held_remove(b, h);
        if (n % 4 == 0 && is_late(b))
            return;
    }
}

static void answer(struct bridge *b, struct farewell *f)
{
    struct conn *c = f->conn;

    if (c != NULL) {
        const struct reply r = {
            &c->out, OP_GOODBYE, f->has_id ? f->id : NULL, f->id_is_number};

        c->farewell = NULL;
        reply_result(&r, ENQ_OK, NULL, NULL);
        conn_finish(b, c);
    }
    free(f);
}

/* Others that are over have their turn before it comes again. */
static void end_some(struct bridge *b, struct session *s)
{
    if (drop_some(b, s))
        give_up_some(b, s);
    cds_list_del(&s->node);
    cds_list_add_tail(&s->node, &b->over);
    if (!cds_list_empty(&s->waits) || !cds_list_empty(&s->held))
        return;
    if (s->farewell != NULL)
        answer(b, s->farewell);
    session_forget(b, s);
}

static void end_first(struct bridge *b)
{
    end_some(b, cds_list_first_entry(&b->over, struct session, node));
}

void over_more(struct bridge *b)
{
    if (cds_list_empty(&b->over))
        return;
    bridge_begin_time(b, OVER_NS);
    do
        end_first(b);
    while (!cds_list_empty(&b->over) && !is_late(b));
}

void over_all(struct bridge *b)
{
    while (!cds_list_empty(&b->over))
        end_first(b);
}

/* --- it is over --- */

/* What comes next may be asked for a lock of its: as much as there is time for
   is given back before that. */
void session_end(struct bridge *b, struct session *s)
{
    say_more("session %s of %s has ended", s->name, s->peer);
    if (s->conn != NULL)
        s->conn->session = NULL;
    s->conn = NULL;
    s->is_over = true;
    table_remove(&b->sessions, &s->by_name);
    cds_list_del(&s->node);
    cds_list_add_tail(&s->node, &b->over);
    if (!is_late(b))
        end_some(b, s);
}

/* Without memory it is told at once. */
void over_by_wish(struct bridge *b, struct conn *c, const struct reply *reply)
{
    struct session *s = c->session;
    struct farewell *f = calloc(1, sizeof(*f));

    if (f == NULL) {
        reply_result(reply, ENQ_OK, NULL, NULL);
        session_end(b, s);
        conn_finish(b, c);
        return;
    }
    f->conn = c;
    f->has_id = reply->id != NULL;
    f->id_is_number = reply->id_is_number;
    if (f->has_id)
        strcpy(f->id, reply->id);
    receive_no_more(b, c);
    c->ending = true;
    c->farewell = s->farewell = f;
    session_end(b, s);
}

void over_unasked(struct conn *c)
{
    if (c->farewell != NULL)
        c->farewell->conn = NULL;
}
