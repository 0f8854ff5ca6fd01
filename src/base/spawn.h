/*
 * spawn.h - base: threads of ours in a program of others.
 */
#ifndef BASE_SPAWN_H
#define BASE_SPAWN_H

#include <pthread.h>
#include <stddef.h>

/*
 * One with so many bytes of stack for itself, that takes none of the program's
 * signals. @thread NULL: nobody joins it. An errno, or 0.
 */
int spawn_thread(pthread_t *thread, size_t stack, void *(*run)(void *),
    void *arg);

#endif
