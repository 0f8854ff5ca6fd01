/*
 * crew.h - the supervisor: starts workers, kills and stops them, ends rounds.
 */
#ifndef MONKEY_CREW_H
#define MONKEY_CREW_H

#include "bridge.h"
#include "worker.h"

struct plan {
    const struct backend *backend;
    uint64_t seed;
    unsigned kills;      /* a round ends after so many */
    int64_t round_ns;    /* or after this time */
    int64_t drain_ns;    /* what has not ended by then is stuck */
    uint64_t kill_every; /* us between two, on average */
    uint32_t ops_max;    /* each place writes down so many */
    bool stops;
};

struct tally {
    uint64_t kills, bursts, recoverers, stops, stuck, crashes;
    uint64_t bridges, clients; /* killed */
};

struct crew {
    struct plan plan;
    struct stage *stage;
    struct book *book;
    struct tally tally;
    uint64_t dice;
    pid_t pid[PLACES];
    uint32_t life[PLACES];
    int64_t stopped_until[PLACES]; /* 0 = it runs */
    uint32_t stop_at[PLACES];
    unsigned killed; /* in this round */
    struct keeper {
        struct bridge bridge;
        bool ready, killed;
        int64_t next_ns; /* to be killed or stopped then */
        int64_t stopped_until;
    } keeper;
};

/* Once, before any other: signals, and a pulse for each CPU. */
void crew_init(void);
void crew_fini(void);

void crew_round(struct crew *c, struct book *book);

/* --- keeper.c: the bridge, if there is to be one; else they do nothing --- */

/* One is started, and ready. */
void keeper_begin(struct crew *c);
/* It is killed, stopped, started again, as its time has come. */
void keeper_tend(struct crew *c);
/* It is left alone from now. */
void keeper_spare(struct crew *c);
/* Its sessions are over, and so is it. */
void keeper_end(struct crew *c);
/* This process is recovery: is it the bridge? Then it may be killed now. */
bool keeper_kill_recoverer(struct crew *c, pid_t pid);

#endif
