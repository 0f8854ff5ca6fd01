/*
 * child.h - the program of lockctl run, and the processes it leads.
 */
#ifndef CHILD_H
#define CHILD_H

#include <stdint.h>
#include <sys/types.h>

#include "signals.h"

struct child {
    const char *name;
    pid_t pid;
    bool own_group; /* it leads a process group of its own */
    bool reaped;
    int status; /* as a shell gives it: its exit code or 128 + n */
};

/*
 * child_start - run a program, found by PATH, without a shell.
 *
 * Only the main thread may call it: the program is killed when the thread
 * that started it ends, and the main thread ends with lockctl.
 *
 * Returns false when there can be no new process.
 */
bool child_start(struct child *child, char **argv,
    const struct signals *signals);

/* Passes a signal on. */
void child_signal(const struct child *child, struct signal_seen seen);

/* Has it ended? Does not wait. */
bool child_has_ended(struct child *child);

/* TERM, and KILL to whoever of it is left after `grace_ms`. Returns when it
   is gone. */
void child_end(struct child *child, int64_t grace_ms,
    const struct signals *signals);

#endif
