/*
 * signals.h - signals as something to read, not as handlers.
 *
 * They are blocked from the start, so that every thread inherits that and the
 * main thread alone reads them. A signal that was ignored when lockctl began
 * (nohup(1), "&" of a script's shell) stays ignored, for the program too.
 */
#ifndef SIGNALS_H
#define SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct signals {
    int fd;
    sigset_t before; /* the mask to give back to a program */
};

struct signal_seen {
    int number;     /* 0: none */
    bool from_tty;  /* the terminal sent it to the whole foreground group */
    bool passed_on; /* by our parent: signals_pass_on() */
};

/* Only the kernel sends it: see front.h. */
#define SIGNAL_ORPHANED (SIGRTMIN + 4)

/* False: no descriptor left. Call it before any thread is started. */
bool signals_take(struct signals *signals);

/* Waits for a signal, for `other_fd` (-1: none) to be readable, or for the
   time (-1: for ever) to pass. */
struct signal_seen signals_wait(const struct signals *signals, int other_fd,
    int timeout_ms);

/* To our own child, which takes signals in the same way. */
void signals_pass_on(pid_t child, struct signal_seen seen);

/* Is it one for a program, too? Not SIGCHLD, nor SIGNAL_ORPHANED. */
bool signal_is_for_program(int number);

/* Asks lockctl to end: not SIGCHLD, SIGCONT, SIGWINCH. */
bool signal_ends(int number);

#endif
