/*
 * front.h - lockctl run is two processes.
 *
 * The front is the one that was started: it passes signals on, and the exit
 * code. The guardian, its child, has the lock and the program. So a signal that
 * kills lockctl kills the front, and the lock is guarded still; and where the
 * guardian is killed, the front ends what it has left, and keeps the lock until
 * then by a copy of its life descriptor (enq_life_fd).
 *
 * When the front dies the kernel sends SIGNAL_ORPHANED to the guardian.
 */
#ifndef FRONT_H
#define FRONT_H

#include "signals.h"

struct front {
    pid_t pid, guardian;
    int socket;  /* between the two, for the descriptor; -1: closed */
    int life_fd; /* the front's copy, -1: not yet */
    bool ended;  /* the guardian has */
    int status;  /* as waitpid() gave it */
};

/*
 * front_fork - makes the two. Call it before there is any thread, and after
 * signals_take().
 *
 * Returns 0 in the guardian, its number in the front, -1 when there can be no
 * new process.
 */
pid_t front_fork(struct front *front);

/* The front: until the guardian has ended, or, where that was killed, all that
   it has left. @name: of the program. Returns the exit code. */
int front_stay(struct front *front, const struct signals *signals,
    const char *name);

/* The guardian: gives the front a copy of the descriptor (-1: there is none),
   and leaves its process group, so that a kill of that one does not reach both.
   The program is to be started before, that stays in it. */
void front_give(struct front *front, int life_fd);
void front_leave_group(void);

#endif
