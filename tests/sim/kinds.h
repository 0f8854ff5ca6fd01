/*
 * kinds.h - the kinds of schedules: what their processes do, how often, and
 * what their requests are like.
 */
#ifndef SIM_KINDS_H
#define SIM_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#define KINDS 24 /* the seed decides which */

enum op {
    LOCK,
    UNLOCK,
    PROMOTE,
    DEMOTE,
    RENEW,
    VALID,
    TEST,
    BREAK,
    CANCEL,
    ADOPT,
    REAP,
    LIST,
    PAUSE,
    START,    /* a request without a thread */
    WITHDRAW, /* one of these */
    TAKE,     /* the events that there are */
    AWAIT,    /* more of them */
    LOCK_SET,
    START_SET,
    UNLOCK_SET, /* of those that one has */
    OPS
};

struct kind {
    const char *name;
    unsigned keys, generic; /* one request in so many is generic; 0: none */
    unsigned ttl, ids;      /* the same: with a short ttl, with an id */
    unsigned deaths;        /* at most */
    unsigned ops;           /* of each process */
    unsigned slots;         /* pages of entries; 0: enough */
    uint8_t odds[OPS];
    bool helpers; /* a helper thread in each process */
    bool strict;  /* a strict space: nobody looks because it is due by now, so
                     that only a wake-up is in time */
    bool cycles;  /* they wait with locks in hand; each has an owner */
    /* one of so many; 0: none */
    unsigned heartbeats; /* requests with a ttl are renewed */
    unsigned delays;     /* requests have a lock delay */
    unsigned deaf;       /* processes do not listen */
    unsigned set;        /* locks of a lock set, mostly at most; 0: no sets */
};

extern const struct kind kinds[KINDS];

#endif
