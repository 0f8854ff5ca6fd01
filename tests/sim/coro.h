/*
 * coro.h - coroutines: a simulated process is one. x86-64 only.
 */
#ifndef SIM_CORO_H
#define SIM_CORO_H

struct coro {
    void *sp;
    char *stack;
};

/* Begins anew, whatever it was doing: `body` runs at the first switch to it
   and never returns. Its stack stays mapped for ever. */
void coro_begin(struct coro *c, void (*body)(void));

/* Stops here, goes on there. */
void coro_switch(struct coro *from, struct coro *to);

#endif
