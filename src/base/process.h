/*
 * process.h - base: which process is this?
 *
 * A child of fork (or of a raw clone without CLONE_VM) has copies of the
 * parent's attachments and must not act through them. getpid() would tell,
 * but costs 151 ns; a handler of pthread_atfork is not run by a raw clone. So
 * a page that the kernel wipes in every child (MADV_WIPEONFORK) holds the
 * number of this process's life: what was made in another life is foreign.
 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

extern uint64_t *process_page; /* NULL before the first process_enter() */

/*
 * Takes the one mutex over what the library keeps per process, and returns
 * the number of this life, never 0. In a child of fork both are new: the
 * mutex is free and *fresh is true for the first caller, which then forgets
 * the lists copied from the parent. 0: out of memory.
 */
uint64_t process_enter(bool *fresh);
void process_leave(void);

/* The number of this life, to a thread that has been in process_enter(), or
   comes after one that was. */
static inline uint64_t process_life(void)
{
    return shm_load(shm_once(process_page));
}

static inline bool process_is(uint64_t life)
{
    return process_life() == life;
}

#endif
