/*
 * private.c - what is private to a process, or to a thread: the library's own
 * variables, swapped whenever another runs.
 *
 * The two sources that have such variables are part of this file, so that it
 * is the library's own helper thread that runs in a simulated process, and the
 * library's own lists of threads that it uses.
 */
#include "async/helper.c"
#include "sync/thread.c"

#include "sim/sim.h"

_Static_assert(sizeof(helper) + sizeof(helper_bell) <= HELPER_BYTES,
    "room for what is private");

static char pristine[HELPER_BYTES];
static struct proc *entered; /* whose the helper's variables are */

static void copy_out(char *to)
{
    memcpy(to, &helper, sizeof(helper));
    memcpy(to + sizeof(helper), &helper_bell, sizeof(helper_bell));
}

static void copy_in(const char *from)
{
    memcpy(&helper, from, sizeof(helper));
    memcpy(&helper_bell, from + sizeof(helper), sizeof(helper_bell));
}

void private_begin(void)
{
    struct bed empty = {.n = 0};

    if (entered == NULL)
        copy_out(pristine);
    copy_in(pristine);
    entered = NULL;
    /* what the first schedule would do, and the others not */
    have_key();
    reap_again(&empty, MONO_NEVER);
}

void private_fresh(struct proc *p)
{
    memcpy(p->helper, pristine, sizeof(pristine));
}

void private_enter(struct proc *p)
{
    thread_last = p->thread_last;
    threads = p->threads;
    if (entered == p->process)
        return;
    if (entered != NULL)
        copy_out(entered->helper);
    entered = p->process;
    copy_in(entered->helper);
}

void private_leave(struct proc *p)
{
    p->thread_last = thread_last;
    p->threads = threads;
}
