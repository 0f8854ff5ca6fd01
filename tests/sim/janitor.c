/*
 * janitor.c - cleans up at the end: takes away all that is left, and takes each
 * key once.
 */
#include "lock/pin.h"
#include "recovery/reap.h"
#include "sim/sim.h"
#include "store/walk.h"

static unsigned left; /* that are to die at it, and one more */
static bool cleaned;

void janitor_begin(unsigned n)
{
    left = n;
    cleaned = false;
}

static bool break_one(void *context, struct entry *e, uint64_t state)
{
    struct proc *p = context;
    char id[ENQ_ID_BYTES];

    if (enq_id(&p->enq, pin_handle(sim.map, e, state), id) == ENQ_OK)
        enq_break(&p->enq, id);
    return true;
}

static void break_all(struct proc *p)
{
    sim.broken = true;
    slab_each(sim.map, break_one, p);
}

static int take_one(struct proc *p, const struct enq_req *req)
{
    struct enq_grant grant;
    int rc = enq_lock(&p->enq, req, &grant);

    return rc == ENQ_OK ? enq_unlock(&p->enq, grant.handle, grant.token) : rc;
}

/* Every key can be taken, now that nobody has any. A lease that has run out
   goes when it is in the way. */
static void take_each(struct proc *p)
{
    static const struct enq_req all[] = {
        {.size = sizeof(all[0]),
            .name = "name",
            .key = {"@", "@"},
            .mode = ENQ_MODE_X},
        {.size = sizeof(all[0]),
            .name = "other",
            .key = {"@", "@"},
            .mode = ENQ_MODE_X},
        {.size = sizeof(all[0]),
            .name = "many",
            .key = {"@"},
            .mode = ENQ_MODE_X},
    };
    struct enq_req req = all[0];
    int rc = ENQ_OK;

    for (unsigned i = 0; rc == ENQ_OK && i < 3; i++)
        rc = take_one(p, &all[i]);
    for (unsigned i = 0; rc == ENQ_OK && i < 8; i++) {
        work_choose_key(&req);
        rc = take_one(p, &req);
    }
    if (rc != ENQ_OK)
        sim_fail("a key of an empty table: %s", enq_result_name(rc));
}

static void janitor(struct proc *p)
{
    kernel_pause(NS_PER_S); /* the kernel has marked the last of the dead */
    if (!session_come(p)) {
        sim_fail("cannot attach: %s", enq_why());
        return;
    }
    if (left > 0)
        p->die_in = 1 + (int64_t)log_below(20000);
    reap_dead(&p->enq.session, thread_last);
    break_all(p);
    take_each(p);
    if (left == 0) {
        reap_dead(&p->enq.session, thread_last);
        rest_check(thread_last);
        cleaned = true;
    }
    session_go(p);
}

bool janitor_next(void)
{
    if (cleaned) {
        rest_check_empty();
        return false;
    }
    if (left > 0)
        left--;
    return sched_spawn(janitor) != NULL;
}
