/*
 * graph.c - api: which request waits for which (see graph.h).
 */
#include "api/graph.h"

#include <stdlib.h>
#include <string.h>

#include "lock/copy_out.h"
#include "wait/cycle.h"

struct drawing {
    const struct map *map;
    struct enq_edge *out;
    size_t n, total;
    struct copy_clocks clocks;
};

/* False: it is another's by now. */
static bool tell_end(const struct drawing *d, enq_handle handle,
    struct enq_info *info)
{
    uint64_t state;
    struct entry *e = entry_of_handle(d->map, handle, &state);

    return e != NULL && state_is_live(state) &&
        copy_info(d->map, e, state, &d->clocks, info);
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

int local_graph(struct enq *e, struct thread *t, struct enq_edge *out, size_t n,
    size_t *total)
{
    struct drawing d = {
        .map = e->map, .out = out, .n = n, .clocks = copy_clocks()};
    int rc = cycle_each_edge(&e->session, t, draw, &d);

    if (total != NULL)
        *total = d.total;
    if (rc == -ENOMEM)
        return why(rc, "out of memory for the graph");
    return rc == ENQ_ECORRUPT
        ? why(rc, "the space is damaged: run lockctl doctor")
        : rc;
}
