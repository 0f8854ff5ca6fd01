/*
 * life.c - api: enq_life_fd: a session that goes on after its process.
 */
#include "api/away.h"
#include "segment/heirs.h"

/* The lock first: who sees the mark looks for it. */
static int begin_heirs(struct enq *e)
{
    int fd = heirs_open(e->map, e->session.ref);

    if (fd < 0)
        return fd;
    shm_store_release(&e->session.slot->heirs, 1);
    e->life_fd = fd;
    return fd;
}

ENQ_API int enq_life_fd(struct enq *e)
{
    struct thread *t;
    bool fresh;
    int rc = attachment_enter(e, &t);

    if (rc != 0)
        return rc == ATTACHMENT_AWAY ? away_refuse(e, "enq_life_fd()") : rc;
    if (process_enter(&fresh) == 0)
        return why(-ENOMEM, "out of memory");
    rc = e->life_fd >= 0 ? e->life_fd : begin_heirs(e);
    process_leave();
    return rc;
}
