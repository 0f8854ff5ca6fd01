/*
 * worker.h - a worker: random operations until told to stop, or killed.
 */
#ifndef MONKEY_WORKER_H
#define MONKEY_WORKER_H

#include "backend.h"
#include "lib/dice.h"

enum phase_of_round {
    ROUND_PLAY,
    ROUND_DRAIN, /* finish what you do, give back what you hold, go */
    ROUND_REST   /* the janitor is alone */
};

/* What is to come about in each run, or it has tested less than it should. */
enum sight {
    SIGHT_PENDING, /* requests that were started, and had to wait */
    SIGHT_RESULT,
    SIGHT_CANCELLED,
    SIGHT_EXPIRED,
    SIGHT_EXPIRING,
    SIGHT_LOST,
    SIGHT_TAKEN, /* lost to a promotion, with the name of its new owner */
    SIGHT_BLOCKING,
    SIGHT_DEADLOCK,
    SIGHT_HEARTBEAT,
    SIGHT_DELAY,
    SIGHT_SET,         /* was granted */
    SIGHT_SET_WAITED,  /* it had to wait for that */
    SIGHT_SET_STARTED, /* without a thread */
    SIGHT_SET_REFUSED,
    SIGHT_SET_CUT,  /* its taker was killed in the call */
    SIGHT_SET_KEPT, /* and yet its locks were found */
    SIGHT_SURVIVED, /* a session's lock outlived its bridge */
    SIGHTS
};

/*
 * Most live for some ms only. But what time brings, an end of a ttl, the event
 * of it, the result of a request, needs some that have seen more: the processes at
 * the first places are chosen an eighth as often, and spared as often where
 * several die at once.
 */
#define ELDERS 2

/* Where there is a bridge, every other place is of remote processes. */
static inline bool place_is_remote(const struct backend *b, unsigned place)
{
    return b->bridged && place < WORKERS && place % 2 == 1;
}

/* What supervisor and workers share. */
struct stage {
    int phase;
    uint32_t failed; /* processes that failed, and why they said they did */
    uint32_t n_table;
    char table[512];
    uint64_t n_ops[OP_KINDS];
    uint64_t n_sights[SIGHTS];
    uint32_t faults[32];
};

struct part {
    const struct backend *backend;
    struct stage *stage;
    struct book *book;
    unsigned place;
    uint32_t life;
    uint32_t ops_max; /* of this place, in this round */
    uint64_t seed;
};

void nap_us(uint64_t us);

/* Neither of them returns. */
void worker_run(const struct part *part) __attribute__((noreturn));
void janitor_run(const struct part *part) __attribute__((noreturn));

#endif
