/*
 * others.c - libenq's acts among others: '@' locks that others hold, threads
 * that wait in one queue, sessions.
 */
#include "enq/seat.h"
#include "load/queue.h"

#include <stdlib.h>

/* '@' locks ---------------------------------------------------------------- */

static int generic_drop(struct seat *s)
{
    struct mine *m = s->mine;

    while (m->n_generic > 0) {
        struct enq_grant *g = &m->generic[m->n_generic - 1];
        int rc = enq_unlock(m->e, g->handle, g->token);
        if (rc != ENQ_OK)
            return enq_failed(s, "enq_unlock", rc);
        m->n_generic--;
    }
    return 0;
}

/* None of them overlaps with the key of the pairs. */
static int generic_take(struct seat *s)
{
    struct mine *m = s->mine;
    uint64_t n = s->trial->count;

    if (m->generic == NULL)
        m->generic = calloc(n + 1, sizeof(*m->generic));
    if (m->generic == NULL)
        return seat_fail(s, "out of memory");
    while (m->n_generic < n) {
        char first[24];
        struct enq_req req = m->req;
        snprintf(first, sizeof(first), "Printer %u", (unsigned)m->n_generic);
        req.key[0] = first;
        req.key[1] = "@";
        int rc = enq_lock(m->e, &req, &m->generic[m->n_generic]);
        if (rc != ENQ_OK)
            return enq_failed(s, "enq_lock ('@')", rc);
        m->n_generic++;
    }
    return 0;
}

int enq_arrange_generic(struct seat *s, bool base)
{
    if (!seat_aside(s))
        return 0;
    return base ? generic_drop(s) : generic_take(s);
}

int enq_prepare_apart(struct seat *s)
{
    struct mine *m = s->mine;

    if (!seat_aside(s))
        m->req.name = "order";
    return 0;
}

/* A queue ------------------------------------------------------------------ */

static int queue_join(struct seat *s)
{
    struct mine *own = malloc(sizeof(*own));

    if (own == NULL)
        return seat_fail(s, "out of memory");
    *own = *(struct mine *)s->mine;
    snprintf(own->owner, sizeof(own->owner), "thread %u", s->index);
    own->req.owner = own->owner;
    own->req.wait_ms = ENQ_FOREVER;
    s->mine = own;
    return 0;
}

static void queue_leave(struct seat *s)
{
    free(s->mine);
}

static int queue_waiting(struct seat *s, uint64_t *n)
{
    struct mine *m = s->mine;
    struct enq_stats stats = {.size = sizeof(stats)};
    int rc = enq_stat(m->e, &stats);

    *n = stats.waiting;
    return rc == ENQ_OK ? 0 : enq_failed(s, "enq_stat", rc);
}

/* Each an owner of its own. The one more than trial->count is the one that has
   the lock. */
int enq_queue_fill(struct seat *s, bool base)
{
    static const struct queue_calls calls = {
        .join = queue_join,
        .take = enq_take_guarded,
        .give = enq_give,
        .leave = queue_leave,
        .waiting = queue_waiting,
    };

    (void)base;
    if (enq_take(s) != 0)
        return -1;
    return queue_fill(s, &calls, (unsigned)s->trial->count + 1);
}

int enq_queue_run(struct seat *s)
{
    return queue_run(s, enq_give);
}

/* Sessions ----------------------------------------------------------------- */

static int session_new(struct seat *s, unsigned index)
{
    const struct space *space = s->arena;
    struct enq_req req = ((struct mine *)s->mine)->req;
    struct enq_grant g;
    struct enq *e;
    char field[24];

    snprintf(field, sizeof(field), "session %u", index);
    req.key[0] = field;
    int rc = enq_open(&e, space->address, NULL);
    if (rc != ENQ_OK)
        return enq_failed(s, "enq_open", rc);
    rc = enq_lock(e, &req, &g);
    return rc == ENQ_OK ? 0 : enq_failed(s, "enq_lock", rc);
}

/* All of the bystander, until it ends: its own attachment is one of them, as a
   process may have 1,000. They may need descriptors. */
int enq_prepare_sessions(struct seat *s)
{
    if (!seat_aside(s))
        return 0;
    server_raise_files();
    for (unsigned i = 1; i < s->trial->count; i++)
        if (session_new(s, i) != 0)
            return -1;
    return 0;
}
