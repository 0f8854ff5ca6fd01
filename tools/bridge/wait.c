/*
 * wait.c - requests that wait (see wait.h).
 */
#include "wait.h"

#include <stdlib.h>

#include "loop.h"
#include "peer.h"
#include "route.h"

struct wait *wait_make(unsigned n)
{
    struct wait *w = calloc(1, sizeof(*w));

    if (w == NULL)
        return NULL;
    w->n = n;
    w->locks = &w->one;
    if (n > 1) {
        w->locks = calloc(n, sizeof(*w->locks));
        w->grants = calloc(n, sizeof(*w->grants));
        if (w->locks == NULL || w->grants == NULL) {
            wait_free(w);
            return NULL;
        }
    }
    return w;
}

void wait_free(struct wait *w)
{
    if (w->is_dropped) /* and has its result before it was cancelled */
        cds_list_del(&w->node);
    if (w->locks != &w->one)
        free(w->locks);
    free(w->grants);
    free(w);
}

static uint32_t *count_of(struct wait *w)
{
    if (w->session != NULL)
        return &w->session->n_waits;
    return w->conn == NULL ? NULL : &w->conn->n_waits;
}

/* Clients count their requests alike: each has its own. */
static uint64_t key_of(const struct session *s, const struct conn *c,
    uint64_t request)
{
    return request ^ (s != NULL ? s->by_name.key : c->serial << 32);
}

void wait_begin(struct bridge *b, struct wait *w, uint64_t ticket,
    struct conn *c)
{
    w->session = c->session;
    w->conn = c->session == NULL ? c : NULL;
    cds_list_add_tail(&w->node,
        w->session == NULL ? &c->waits : &w->session->waits);
    ++*count_of(w);
    if (w->id[0] != '\0')
        table_add(&b->asked, &w->by_request,
            key_of(w->session, w->conn, w->request));
    w->loop = b;
    w->from = w->session != NULL ? w->session->from : c->from;
    peer_count(b->share, &w->from->waits, 1);
    if (b->share->registry != NULL)
        route_wait(b, w, ticket);
    else
        table_add(&b->waits, &w->by_ticket, ticket);
}

void wait_leave(struct wait *w)
{
    uint32_t *count = count_of(w);

    if (count == NULL)
        return;
    cds_list_del(&w->node);
    table_remove(&w->loop->asked, &w->by_request);
    --*count;
    peer_count(w->loop->share, &w->from->waits, -1u);
    if (w->conn != NULL)
        w->conn->heard_ns = w->loop->now_ns; /* it is idle from now, if ever */
    w->session = NULL;
    w->conn = NULL;
}

struct wait *wait_take(struct bridge *b, uint64_t ticket)
{
    struct table_node *node = table_find(&b->waits, ticket);

    if (node == NULL)
        return NULL;
    table_remove(&b->waits, node);
    return TABLE_OF(node, struct wait, by_ticket);
}

struct wait *wait_of_request(struct bridge *b, const struct conn *c,
    const char *id)
{
    struct table_node *node =
        table_find(&b->asked, key_of(c->session, c, table_hash(id)));

    for (; node != NULL; node = table_next(node)) {
        struct wait *w = TABLE_OF(node, struct wait, by_request);

        if (w->session == c->session && strcmp(w->id, id) == 0 &&
            (w->session != NULL || w->conn == c))
            return w;
    }
    return NULL;
}

static void cancel_one(struct bridge *b)
{
    struct wait *w = cds_list_first_entry(&b->dropped, struct wait, node);

    cds_list_del(&w->node);
    w->is_dropped = false;
    enq_cancel(b->space, w->by_ticket.key);
}

void wait_drop_more(struct bridge *b)
{
    for (unsigned n = 1; !cds_list_empty(&b->dropped); n++) {
        cancel_one(b);
        if (n % 4 == 0 && bridge_look_late(b) >= b->late_ns)
            return; /* some in each round, however late it is */
    }
}

/* It has a result still, which nobody will be told; a lock that came in this
   very moment is given back then (event.c). */
void wait_drop(struct bridge *b, struct wait *w)
{
    wait_leave(w);
    w->is_dropped = true;
    cds_list_add_tail(&w->node, &b->dropped);
}

/* Of very many some are cancelled in this round. */
void wait_drop_all(struct bridge *b, struct cds_list_head *waits)
{
    while (!cds_list_empty(waits))
        wait_drop(b, cds_list_first_entry(waits, struct wait, node));
    wait_drop_more(b);
}

void wait_forget_all(struct bridge *b)
{
    struct table_node *node;

    while ((node = table_any(&b->waits)) != NULL) {
        table_remove(&b->waits, node);
        wait_free(TABLE_OF(node, struct wait, by_ticket));
    }
}
