/*
 * victim.h - a process that makes every call there is, until it is killed.
 */
#ifndef ENV_VICTIM_H
#define ENV_VICTIM_H

#include "env.h"

struct point;

#define VICTIMS 5
#define SURVIVORS 3
#define WAIT_MS 8000

#define CALLS(X)                                                               \
    X(OPEN)                                                                    \
    X(CLOSE)                                                                   \
    X(LOCK)                                                                    \
    X(LOCK_GENERIC)                                                            \
    X(LOCK_WAIT)                                                               \
    X(LOCK_WITH_ID)                                                            \
    X(TEST)                                                                    \
    X(UNLOCK)                                                                  \
    X(PROMOTE)                                                                 \
    X(DEMOTE)                                                                  \
    X(RENEW)                                                                   \
    X(VALID)                                                                   \
    X(FIND)                                                                    \
    X(ID)                                                                      \
    X(ADOPT)                                                                   \
    X(BREAK)                                                                   \
    X(LIST)                                                                    \
    X(STAT)                                                                    \
    X(DOCTOR)                                                                  \
    X(REPAIR)                                                                  \
    X(DUMP)
enum call {
#define X(name) name,
    CALLS(X)
#undef X
        N_CALLS
};
extern struct scene {
    uint32_t stop, faults, ready;
    uint32_t inside[VICTIMS]; /* the call that it is in, from 1 on */
    uint32_t at_repair[VICTIMS];
    uint32_t kills, repairers, killed_in[N_CALLS];
    uint64_t takes[SURVIVORS];
    double worst_ms[SURVIVORS];
} * scene;

/* The first half of the lives of a turn die by their own hand. */
#define DIES_BY_ITSELF(life) ((life) / N_CALLS % 2 == 0)

__attribute__((noreturn)) void victim_live(unsigned place, uint32_t life);
void victim_fault(const char *what, int rc);
/* Is this store one of a repair? */
bool victim_repairs(const struct point *p);

#endif
