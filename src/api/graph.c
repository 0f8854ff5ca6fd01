/*
 * graph.c - api: enq_graph: who waits for whom.
 */
#include <stdlib.h>
#include <string.h>

#include "api/attachment.h"
#include "lock/tell.h"
#include "wait/cycle.h"

struct drawing {
    const struct map *map;
    struct enq_edge *out;
    size_t n, total;
    struct tell_clocks clocks;
};

/* False: it is another's by now. */
static bool tell_end(const struct drawing *d, enq_handle handle,
    struct enq_info *info)
{
    uint64_t state;
    struct entry *e = entry_of_handle(d->map, handle, &state);

    return e != NULL && state_is_live(state) &&
        tell_info(d->map, e, state, &d->clocks, info);
}

static void draw(void *context, enq_handle waiter, enq_handle blocker)
{
    struct drawing *d = context;
    struct enq_edge edge;

    memset(&edge, 0, sizeof(edge));
    if (!tell_end(d, waiter, &edge.waiter) || !edge.waiter.waiting ||
        !tell_end(d, blocker, &edge.blocker))
        return;
    if (d->total < d->n)
        d->out[d->total] = edge;
    d->total++;
}

ENQ_API int enq_graph(struct enq *e, struct enq_edge *out, size_t n,
    size_t *total)
{
    struct drawing d = {.out = out, .n = n, .clocks = tell_clocks()};
    struct thread *t;
    int rc = attachment_enter(e, &t);
    bool away = attachment_is_away(&rc);

    if (rc == 0 && out == NULL && n > 0)
        rc = why(-EINVAL, "nowhere to put the edges (NULL)");
    if (rc != 0 || away)
        return rc != 0 ? rc : remote_graph(e->remote, out, n, total);
    d.map = e->map;
    rc = cycle_each_edge(&e->session, t, draw, &d);
    if (total != NULL)
        *total = d.total;
    if (rc == -ENOMEM)
        return why(rc, "out of memory for the graph");
    return rc == ENQ_ECORRUPT
        ? why(rc, "the segment is damaged: run lockctl doctor")
        : rc;
}
