/*
 * life.c - api: a session that goes on after its process (see life.h).
 */
#include "api/life.h"

#include "segment/heirs.h"

/* The lock first: a process that sees the mark looks for the lock. */
static int begin_heirs(struct enq *e)
{
    int fd = heirs_open(e->map, e->session.ref);

    if (fd < 0)
        return fd;
    shm_store_release(&e->session.slot->heirs, 1);
    e->life_fd = fd;
    return fd;
}

int local_life_fd(struct enq *e)
{
    bool fresh;
    int fd;

    if (process_enter(&fresh) == 0)
        return why(-ENOMEM, "out of memory");
    fd = e->life_fd >= 0 ? e->life_fd : begin_heirs(e);
    process_leave();
    return fd;
}
