/*
 * mixed.h - enq-bench --mixed: all that there may be many of, at once.
 *
 * place    a space and who is in it: one with ten of everything, one with all
 * crowd    the processes of a place that stay: they hold, wait, or do nothing
 * passer   has requests pending for one key; hands it on while it is told to
 * waiter   has requests pending all over the table; keeps a few keys moving
 * queuer   waits for one key in a call; hands it on while it is told to
 * traffic  processes that use a place all the time, die, and are replaced
 * probe    a process of its own that measures one thing in one place
 * figure   what probes of both places have found, and what is wanted of it
 *
 * A place is shared memory: its processes are told there what to do, and tell
 * there what went wrong. Only the parent starts and ends processes, and it
 * never attaches to a space itself.
 */
#ifndef BENCH_MIXED_MIXED_H
#define BENCH_MIXED_MIXED_H

#include "harness/crew.h"

#include <sys/types.h>

enum {
    MIXED_PROCS_MAX = 8000,
    MIXED_NAMES_MAX = 100000,
    TEN = 10,
    BEATS_MAX = 128,
    BEAT_MS = 500,
    LOOK_US = 20000, /* how soon a process sees what it is told */
    FIGURES_MAX = 32,
    VALUES_MAX = 1000,
};

/* --- places --- */

struct place {
    char address[64];
    uint64_t waits, held; /* how many of each, as asked for */
    unsigned procs, names;
    uint32_t slots;

    /* its crowd: processes, and their shares of what is held and waits */
    unsigned holders, passers, waiters, queuers, idlers;
    uint64_t orphans, wide, spread;       /* of what is held */
    uint64_t in_queue, in_graph, in_keys; /* of what waits */

    _Atomic uint32_t ready;              /* of the crowd: where they belong */
    _Atomic uint32_t stirred;            /* some keys go from hand to hand */
    _Atomic uint32_t lively;             /* the traffic runs */
    _Atomic uint32_t passing, queueing;  /* the key is handed on, and */
    _Atomic uint64_t passed, queued;     /* how often it was */
    _Atomic uint32_t queuer;             /* who had it last */
    _Atomic uint64_t begun, done, taken; /* of a probe with helpers */
    _Atomic uint32_t stop;
    _Atomic uint64_t longest_ns, turns; /* of a bystander */
    _Atomic uint64_t late_ms;           /* of any heartbeat */
    _Atomic uint64_t deaths, inside;    /* of those, in a latch */
    _Atomic uint64_t works, killed;     /* of the traffic */
    _Atomic enq_handle beats[BEATS_MAX];
    double value[2];          /* of a probe */
    _Atomic pid_t ended_well; /* who did so last */
    _Atomic uint32_t failed;
    char why[WHY_BYTES];
};

void place_share_out(struct place *p);

/* --- actors: a process in a place --- */

struct actor {
    struct place *place;
    unsigned index; /* among its kind */
    struct enq *e;
    struct enq_req req;
    struct enq_grant grant;
    char name[32], field[24], owner[48], id[32];
    uint64_t random;
};

typedef int actor_life(struct actor *a);

/* Forks: the process lives @life in @p, and ends with 0 or has told why. */
pid_t actor_start(struct place *p, unsigned index, actor_life *life);
int actor_end(struct place *p, pid_t pid); /* -1: it did not end well */
void actor_await_end(pid_t pid);
int actor_open(struct actor *a);
int actor_failed(struct actor *a, const char *call, int rc);
uint64_t actor_random(struct actor *a, uint64_t below);
__attribute__((format(printf, 2, 3))) void actor_name(struct actor *a,
    const char *format, ...);
__attribute__((format(printf, 2, 3))) void actor_owner(struct actor *a,
    const char *format, ...);
void actor_field(struct actor *a, uint64_t number);
int actor_take(struct actor *a); /* the request is granted at once */
int actor_give(struct actor *a);
int actor_pairs(struct actor *a, unsigned n);
int actor_start_wait(struct actor *a, uint64_t *ticket); /* it has to wait */

/* --- who is in a place --- */

/* The keys that are spread over the table: those of even numbers are S and of
   names with '@', the others X and of names without. */
void spread_key(struct actor *a, uint64_t i);

actor_life holder_life, leave_orphans, passer_life, waiter_life, queuer_life,
    graph_life, idler_life, watch_life, any_life;
actor_life traffic_life, reaper_life;

/* --- probes --- */

/* Until `stop`: pairs, the longest of which is noted. */
actor_life beside_wide, beside_list;

actor_life probe_pair, probe_id, probe_wide, probe_wide_stands, probe_beside,
    probe_list, probe_first, probe_full, probe_pass, probe_queue, probe_cycle,
    probe_graph, probe_death, probe_death_in_any, probe_heartbeat;

/* Two owners come to wait for each other: how long until one is told, if @ns
   is not NULL. */
int cycle_close(struct actor *a, double *ns);

/* Of this thread: how long it was on a processor, and waited for one. */
uint64_t busy_ns(void);
uint64_t run_delay_ns(void);

/* --- figures --- */

enum judge {
    JUDGE_TOLD,  /* not at all */
    JUDGE_RATIO, /* beside all, divided by beside ten */
    JUDGE_MOST,  /* beside all */
    JUDGE_EACH,  /* how much more beside all, for each there is more of */
};

struct figure {
    const char *what, *unit; /* "ns", "x", "%" */
    enum judge judge;
    double wanted; /* of it alone; here twice as much will do */
    bool worst;    /* the greatest value counts, not the median */
    unsigned n[2];
    double value[2][VALUES_MAX];
};

void figure_add(struct figure *f, unsigned place, double value);
bool figure_show(const struct figure *f, uint64_t more); /* met */
void figures_head(void);

#endif
