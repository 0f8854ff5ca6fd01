/*
 * signals.h - base: threads and moments of ours in which no signal of the
 * program is taken.
 */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

#include <pthread.h>
#include <signal.h>

/* All but those that tell of a fault of the thread itself: these cannot wait.
   Blocked, they would end the process past the handler that the program has for
   them, and its report (a file that was cut off under us is a SIGBUS). */
static inline void signals_block(sigset_t *before)
{
    static const int faults[] = {
        SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t set;

    sigfillset(&set);
    for (unsigned i = 0; i < sizeof(faults) / sizeof(*faults); i++)
        sigdelset(&set, faults[i]);
    pthread_sigmask(SIG_BLOCK, &set, before);
}

static inline void signals_restore(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

#endif
