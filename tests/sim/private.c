/*
 * private.c - what is private to a process, or to a thread: the library's own
 * variables, swapped whenever another runs.
 *
 * The two sources that have such variables are part of this file, so that it
 * is the library's own helper thread that runs in a simulated process, and the
 * library's own lists of threads that it uses.
 */
#include "api/helper.c"
#include "sync/thread.c"

#include "sim/sim.h"

_Static_assert(sizeof(helper) <= HELPER_BYTES, "room for what is private");

static char pristine[HELPER_BYTES];
static struct proc *entered; /* whose the helper's variables are */

void private_begin(void)
{
    struct bed empty = {.n = 0};

    if (entered == NULL)
        memcpy(pristine, &helper, sizeof(helper));
    memcpy(&helper, pristine, sizeof(helper));
    entered = NULL;
    /* what the first schedule would do, and the others not */
    have_key();
    bury_again(&empty, MONO_NEVER);
}

void private_fresh(struct proc *p)
{
    memcpy(p->helper, pristine, sizeof(helper));
}

void private_enter(struct proc *p)
{
    thread_last = p->thread_last;
    threads = p->threads;
    if (entered == p->process)
        return;
    if (entered != NULL)
        memcpy(entered->helper, &helper, sizeof(helper));
    entered = p->process;
    memcpy(&helper, entered->helper, sizeof(helper));
}

void private_leave(struct proc *p)
{
    p->thread_last = thread_last;
    p->threads = threads;
}
