/*
 * attach.c - a process comes and goes: with a session alone, or with a helper
 * thread, as an attachment of an application's has it.
 */
#include "async/bell.h"
#include "async/helper.h"
#include "recovery/reap.h"
#include "sim/sim.h"
#include "store/slab.h"
#include "sync/hooks.h"

bool session_come(struct proc *p)
{
    struct enq *e = &p->enq;
    struct thread *t;

    e->life = p->life;
    async_begin(&e->async);
    t = thread_enter(sim.map);
    if (t == NULL)
        return false;
    p->session = true;
    if (session_begin(&e->session, t, sim.map) != 0) {
        p->session = false;
        return false;
    }
    e->map = sim.map;
    return true;
}

/* The map of a process of its own: the same bytes, and lists that are not
   another's. */
static void have_map(struct proc *p)
{
    p->own_map = *sim.map;
    p->own_map.keeper = 0;
    p->own_map.users = 1000;
    CDS_INIT_LIST_HEAD(&p->own_map.kept);
    p->map = p->enq.map = &p->own_map;
}

/* As enq_open() does it, from where the segment is mapped. */
bool attachment_come(struct proc *p)
{
    p->enq.life = p->life;
    async_begin(&p->enq.async);
    have_map(p);
    threads_allow();
    hooks.report_death = helper_report_death;
    p->session = helper_begin(&p->enq) == 0;
    return p->session;
}

/* As enq_close() does it. */
void attachment_go(struct proc *p)
{
    struct thread *t = thread_enter(p->map);
    int rc;

    p->retires_ns = kernel_now_ns();
    rc = t == NULL ? thread_refusal : retire(&p->enq.session, t);

    if (rc != 0)
        sim_misled("a session cannot end: %s", enq_result_name(rc));
    p->session = false; /* one that dies on the way leaves some memory */
    helper_end(&p->enq);
    thread_leave(p->map);
    async_end(&p->enq.async);
}

void session_go(struct proc *p)
{
    int rc;

    p->retires_ns = kernel_now_ns();
    rc = retire(&p->enq.session, thread_last);
    if (rc != 0)
        sim_misled("a session cannot end: %s", enq_result_name(rc));
    session_end(&p->enq.session);
    p->session = false;
    thread_leave(sim.map);
}
