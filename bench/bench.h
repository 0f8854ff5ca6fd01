/*
 * bench.h - the nouns of enq-bench, and what its files offer each other.
 *
 * scenario  what is done, in general: a line of the table in scenarios.c
 * trial     a scenario with its number of processes and of held locks
 * subject   who does it: libenq, or the floor it is compared with
 * crew      the worker processes of one trial, steered through a shared page
 * seat      one worker's place at one subject
 * pass      one order to the crew: measure the rate, sample, or prove that
 *           the lock excludes
 * figures   what came out for one subject in one trial
 *
 * Every subject of a trial is attached by the same workers, and the passes
 * go A B A B, so that whatever the machine does meanwhile hits all alike.
 */
#ifndef BENCH_H
#define BENCH_H

#include <enq.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    PROCS_MAX = 64,
    ROUNDS_MAX = 99,
    LIST_MAX = 8,     /* values of one --procs or --held */
    SUBJECTS_MAX = 8, /* the peers will join */
    WHY_BYTES = 256,
    EXIT_FAILED = 1,
    EXIT_USAGE = 64,
};

/* Scenarios and trials ----------------------------------------------------- */

/* What a subject has to be able to do; each is one row of its acts. */
enum work {
    WORK_PAIR,     /* take and give back a lock that is free */
    WORK_FIGHT,    /* the same on one key, waiting, guarded by a counter */
    WORK_CUMULATE, /* take and give back on top of one's own */
    WORK_SHARE,    /* shared locks on one key */
    WORK_REFUSE,   /* be refused because another owner holds it */
    WORK_VALID,    /* ask whether a held lock is still held */
    WORK_RANDOM,   /* pairs on random keys while many others are held */
    WORK_WEIGH,    /* bytes of shared memory for each held lock */
    N_WORKS,
};

struct scenario {
    const char *name, *bench; /* on the command line; in JSON */
    const char *keys, *mode;
    enum work work;
    uint32_t batch;           /* operations between two looks at the page */
    unsigned procs[LIST_MAX]; /* 0 ends */
    bool follows_procs, follows_held; /* --procs, --held apply */
    const char *what;
};

struct trial {
    const struct scenario *scenario;
    unsigned procs;
    uint64_t held;
};

extern const struct scenario scenarios[];
const struct scenario *scenario_find(const char *name);
void scenarios_list(FILE *out);

/* The worker's side -------------------------------------------------------- */

/* What one lock protects: torn or lost updates show that it did not. */
struct guard {
    _Alignas(128) volatile uint64_t visits;
    volatile uint64_t token;
    volatile uint32_t inside;
};

enum { HIST_SUB = 64, HIST_BUCKETS = HIST_SUB * 60 };

struct hist {
    uint64_t count[HIST_BUCKETS];
};

/* A worker's results of the last pass; written by it, read by the parent. */
struct slot {
    _Alignas(128) uint64_t pairs, broken;
    uint64_t begin_ns, end_ns, longest_ns;
    double bytes;
    char why[WHY_BYTES]; /* not empty: the worker gave up, and says why */
    struct hist hist;
};

struct seat {
    const struct trial *trial;
    unsigned index; /* of the worker */
    void *arena;    /* made by the subject's open() */
    void *mine;     /* made by its attach() */
    struct guard *guard;
    struct slot *slot;
    uint64_t random;
    uint32_t dwell; /* steps inside the guard, not 0 in a pass that proves */
};

int seat_fail(struct seat *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Critical section of a fight. A @token of 0 is not compared. */
static inline void guard_visit(struct seat *s, uint64_t token)
{
    struct guard *g = s->guard;
    bool torn = g->inside != 0 || (token != 0 && token <= g->token);
    uint64_t visits = g->visits;

    g->inside = 1;
    if (s->dwell != 0)
        for (volatile uint32_t i = 0; i < s->dwell; i = i + 1)
            continue;
    g->visits = visits + 1;
    g->token = token;
    s->slot->broken += torn;
    g->inside = 0;
}

static inline uint64_t seat_random(struct seat *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

/* Subjects ----------------------------------------------------------------- */

/* One kind of work. All return 0, or -1 after seat_fail(). */
struct act {
    int (*prepare)(struct seat *s);           /* once, NULL: nothing to do */
    int (*batch)(struct seat *s, uint32_t n); /* the measured loop */
    int (*acquire)(struct seat *s);           /* one of it, for sampling */
    int (*release)(struct seat *s);           /* NULL: acquire was all */
    int (*weigh)(struct seat *s);             /* instead: sets slot->bytes */
};

struct subject {
    const char *name, *what;
    bool floor; /* ratios are taken against it where it has the work */
    int (*open)(const struct trial *t, void **arena); /* in the parent */
    void (*close)(const struct trial *t, void *arena);
    int (*attach)(struct seat *s); /* in each worker, before prepare */
    void (*detach)(struct seat *s);
    struct act acts[N_WORKS]; /* all NULL: does not offer this work */
};

extern const struct subject subject_enq, subject_mutex, subject_rwlock;
extern const struct subject *const subjects[]; /* NULL ends */
bool subject_offers(const struct subject *s, enum work w);

/* The parent's side -------------------------------------------------------- */

enum pass { PASS_RATE, PASS_SAMPLE, PASS_PROVE, PASS_WEIGH, PASS_LEAVE };

struct order {
    unsigned subject; /* index into subjects[] */
    enum pass pass;
};

struct page;

struct crew {
    const struct trial *trial;
    struct page *page;
    void *arenas[SUBJECTS_MAX];
    int pids[PROCS_MAX];
    bool well; /* nobody is lost: they can be told to leave */
};

int crew_start(struct crew *c, const struct trial *t);
int crew_run(struct crew *c, struct order o, double seconds);
int crew_end(struct crew *c);
struct slot *crew_slot(struct crew *c, unsigned worker);
struct guard *crew_guard(struct crew *c, unsigned subject);
const char *crew_space(void); /* the bench's own, of this process */

extern volatile sig_atomic_t bench_signal; /* 0, or the one that came */

struct figures {
    bool offered;
    unsigned rounds;
    double runs[ROUNDS_MAX];     /* operations a second, all workers */
    double fairness[ROUNDS_MAX]; /* fewest / most of one worker */
    uint64_t longest_ns;
    double bytes;
    struct hist hist;
};

struct options {
    bool json, list, chosen;
    unsigned rounds;
    double seconds;
    uint64_t pairs; /* not 0: exactly so many, and nothing else */
    unsigned procs[LIST_MAX], n_procs;
    uint64_t held[LIST_MAX];
    unsigned n_held;
    bool picked[N_WORKS * 2]; /* by index into scenarios[] */
};

int options_parse(struct options *o, int argc, char **argv);
int trial_run(const struct trial *t, const struct options *o,
    struct figures *f);
int pairs_run(uint64_t n);

uint64_t now_ns(void);
uint64_t clock_cost_ns(void);
double median(const double *v, unsigned n);
void hist_add(struct hist *h, uint64_t ns);
void hist_merge(struct hist *into, const struct hist *from);
uint64_t hist_quantile(const struct hist *h, double q);

void report_head(const struct options *o, char **argv);
void report_trial(const struct options *o, const struct trial *t,
    const struct figures *f);

struct machine {
    char cpu[96], kernel[96], commit[64], command[256];
    int cpus;
    const char *compiler, *flags;
};
void machine_read(struct machine *m, char **argv);

#endif
