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
    int life_fd; /* it and what it starts have a copy; -1: none */
    pid_t pid;
    bool own_group; /* it leads a process group of its own */
    bool reaped;
    bool any_left; /* it, or whatever it has started, has not ended */
    int status;    /* as a shell gives it: its exit code or 128 + n */
};

/*
 * child_start - run a program, found by PATH, without a shell.
 *
 * Only the main thread may call it: the program is killed when the thread
 * that started it ends, and the main thread ends with lockctl. Call
 * tree_adopt() before.
 *
 * Returns false when there can be no new process.
 */
bool child_start(struct child *child, char **argv,
    const struct signals *signals);

/* Passes a signal on: to the program and its group. When it has ended, INT,
   QUIT and TERM are a TERM to whatever it has left. */
void child_signal(const struct child *child, struct signal_seen seen);

/* What has ended, into `reaped` and `any_left`. Does not wait. */
void child_look(struct child *child);

/* As the kernel would if we were killed; what it has started goes on. */
void child_kill(const struct child *child);

/* TERM to all, and KILL to those that are left after `grace_ms`. Returns when
   all are gone. */
void child_end(struct child *child, int64_t grace_ms,
    const struct signals *signals);

#endif
