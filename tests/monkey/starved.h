/*
 * starved.h - for how long the library's helper thread has lacked the CPU.
 *
 * A result that comes late is the library's fault only where its thread could
 * run: a thread that wakes up later than it wanted to, is woken and gets no CPU,
 * or takes longer for a turn than it works, was kept from it by the machine. What
 * a pulse of the machine shows (crew.c) is less, where many more are at work than
 * there are CPUs.
 */
#ifndef MONKEY_STARVED_H
#define MONKEY_STARVED_H

#include <stdint.h>

/* By the helper thread, around each sleep. */
void starved_sleeps(int64_t until_ns);
void starved_wakes(void);

/* In all, until now. */
int64_t starved_ns(void);

#endif
