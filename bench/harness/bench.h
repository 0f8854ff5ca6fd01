/*
 * bench.h - the nouns of enq-bench, and what its files offer each other.
 *
 * scenario  what is done, in general: a line of scenarios/table.c
 * trial     a scenario with its numbers: processes, locks held, and so on
 * subject   what does it: libenq, the floor below it, or a peer
 * crew      the worker processes of one trial, steered through a shared page
 * seat      one worker's place at one subject
 * bystander a worker that is not measured, but does what the rest is measured
 *           against: it holds '@' locks, attaches a thousand times ...
 * victim    a process that takes locks and is killed
 * pass      one order to the crew: measure the rate, sample, or prove that
 *           the lock excludes
 * base      what a work is compared with in the same subject and trial
 * figures   what came out for one subject in one trial
 * result    the same, boiled down and kept for goals, plots and RESULTS.md
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
    PROCS_MAX = 2048,
    POOL_KEYS = 1024, /* of each worker's own, in WORK_POOL */
    ROUNDS_MAX = 99,
    COUNT_MAX = 100000,
    LIST_MAX = 8, /* values of one --procs or --held */
    SUBJECTS_MAX = 16,
    SCENARIOS_MAX = 48,
    WHY_BYTES = 256,
    EXIT_FAILED = 1,
    EXIT_USAGE = 64,
};

/* Scenarios and trials ----------------------------------------------------- */

/* What a subject has to be able to do; each is one row of its acts. */
enum work {
    WORK_PAIR,       /* take and give back a lock that is free */
    WORK_FIGHT,      /* the same on one key, waiting, guarded by a counter */
    WORK_CUMULATE,   /* take and give back on top of one's own */
    WORK_SHARE,      /* shared locks on one key */
    WORK_REFUSE,     /* be refused because another owner holds it */
    WORK_VALID,      /* ask whether a held lock is still held */
    WORK_RANDOM,     /* pairs on random keys while trial->held are held */
    WORK_WEIGH,      /* bytes of shared memory for each held lock */
    WORK_DEATH,      /* get the key of a killed holder: see struct act */
    WORK_ATTACH,     /* time to attach, and what an empty table takes */
    WORK_LIST,       /* list trial->held locks while a bystander makes pairs */
    WORK_LIST_NAME,  /* the same, of one object name */
    WORK_BESIDE,     /* pairs while trial->count '@' locks are held elsewhere */
    WORK_APART,      /* the same with pairs of another object name */
    WORK_WIDE,       /* an '@' request over trial->held concrete locks */
    WORK_QUEUE,      /* hand-overs of one key while trial->count wait for it */
    WORK_SESSIONS,   /* pairs while trial->count others are attached */
    WORK_START,      /* pairs that need not wait, but would not block */
    WORK_NEXT,       /* a fight without blocking: grants come as events */
    WORK_PENDING,    /* trial->count requests wait in one process */
    WORK_LOOK,       /* a fight; the base searches for no cycle */
    WORK_DEADLOCK,   /* be refused, as trial->count would deadlock */
    WORK_HOLDERS,    /* S pairs while trial->count others hold S on the key */
    WORK_CUMULATED,  /* pairs on top of trial->count of one's own */
    WORK_STARTED,    /* hand-overs while trial->count started requests wait */
    WORK_SEARCH,     /* be refused as a deadlock; trial->count wait for us */
    WORK_WIDE_APART, /* an '@' request beside trial->held of another name */
    WORK_LIST_ONE,   /* list a name with one lock beside trial->held others */
    WORK_IDS,        /* WORK_RANDOM with ids of our own; the base: without */
    WORK_FULL,       /* be refused by a full table of trial->held */
    WORK_POOL,       /* pairs on POOL_KEYS of one's own, in turn; the base: one
                        in a hundred is an S of a key of all */
    WORK_SET,        /* eight locks as one; the base: one after the other */
    WORK_REMOTE,     /* pairs over trial->count connections of one process */
    WORK_NPM,        /* pairs by npm's client, trial->count of them */
    WORK_CLIENT,     /* pairs by our own client; the base: bare round trips */
    N_WORKS,
};

/* How the harness measures it. */
enum manner {
    MANNER_RATE,     /* operations a second, and samples of single ones */
    MANNER_WEIGH,    /* the subject's weigh() says it all */
    MANNER_HANDOVER, /* from a release to the next process's grant; CPU */
    MANNER_DEATH,    /* from kill() to the waiter's grant */
};

struct scenario {
    const char *name, *bench; /* on the command line; in JSON */
    const char *keys, *mode;
    enum work work;
    enum manner manner;
    uint32_t batch;             /* operations between two looks at the page */
    unsigned bystanders;        /* the last so many of the processes */
    unsigned procs[LIST_MAX];   /* 0 ends */
    uint64_t held[LIST_MAX];    /* 0 ends; --held applies where there is one */
    unsigned n_count, n_holds;  /* how many of the next two; 0: neither */
    uint64_t count[LIST_MAX];   /* --count applies */
    uint64_t hold_ns[LIST_MAX]; /* of MANNER_HANDOVER */
    const char *count_of;       /* what is counted, one word */
    unsigned depth;     /* of WORK_REMOTE: requests under way on a connection */
    bool session;       /* the same: each has said hello */
    bool local;         /* the same: over a unix socket */
    bool follows_procs; /* --procs applies */
    double share;       /* of --seconds; 0: all */
    const char *what;
};

struct trial {
    const struct scenario *scenario;
    unsigned procs; /* with bystanders and the victim */
    uint64_t held, count, hold_ns;
};

extern const struct scenario scenarios[];
const struct scenario *scenario_find(const char *name);
bool scenario_is_scale(const struct scenario *s); /* cost against a number */
void scenarios_list(FILE *out);
void subjects_list(FILE *out);

/* The worker's side -------------------------------------------------------- */

/* What one lock protects: torn or lost updates show that it did not. */
struct guard {
    _Alignas(128) volatile uint64_t visits;
    volatile uint64_t token;
    volatile uint32_t inside;
    volatile uint32_t last;        /* hand-over: index + 1 of the releaser */
    volatile uint64_t released_ns; /* and when */
};

enum { HIST_SUB = 64, HIST_BUCKETS = HIST_SUB * 60 };

struct hist {
    uint64_t count[HIST_BUCKETS];
};

/* A worker's results of the last pass; written by it, read by the parent. */
struct slot {
    _Alignas(128) uint64_t pairs, broken;
    uint64_t late; /* pairs after end_ns: of the proof, not of the rate */
    uint64_t begin_ns, end_ns, longest_ns; /* end_ns 0: took no part */
    uint64_t handovers, cpu_ns;
    double bytes;
    char why[WHY_BYTES]; /* not empty: the worker gave up, and says why */
    struct hist hist;
};

struct seat {
    const struct trial *trial;
    unsigned index; /* of the worker; a victim's is the last, procs - 1 */
    void *arena;    /* made by the subject's open() */
    void *mine;     /* made by its attach() */
    struct guard *guard;
    struct slot *slot;
    uint64_t random;
    uint32_t turn;  /* of seat_own_key() */
    uint32_t dwell; /* steps inside the guard, not 0 in a pass that proves */
    const _Atomic uint32_t *stop; /* not 0: the pass is over */
};

/* Is this the seat of a bystander? */
static inline bool seat_aside(const struct seat *s)
{
    return s->index + s->trial->scenario->bystanders >= s->trial->procs;
}

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

/* The next of one's own: POOL_KEYS, one after the other. */
static inline uint32_t seat_own_key(struct seat *s)
{
    return s->index * POOL_KEYS + s->turn++ % POOL_KEYS;
}

/* Subjects ----------------------------------------------------------------- */

/*
 * One kind of work. All return 0, or -1 after seat_fail().
 *
 * WORK_FIGHT: acquire waits, and calls guard_visit() when it has the lock;
 * the same two, acquire and release, are timed by MANNER_HANDOVER, too.
 * WORK_DEATH: the victim is forked anew for each kill; there are attach()
 * and hold() called, then it sleeps until it is killed. Worker 0 waits
 * in acquire() meanwhile, asleep, and gives the key back in release(). What
 * is fought for is the one key; what else the victim holds, free for
 * the next victim as soon as it is dead, is of other keys.
 */
struct act {
    int (*prepare)(struct seat *s);            /* once, NULL: nothing to do */
    int (*arrange)(struct seat *s, bool base); /* before a pass of either */
    int (*batch)(struct seat *s, uint32_t n);  /* the measured loop */
    int (*base)(struct seat *s, uint32_t n);   /* measured in turn with it */
    int (*acquire)(struct seat *s);            /* one of it, for sampling */
    int (*release)(struct seat *s);            /* NULL: acquire was all */
    int (*aside)(struct seat *s);              /* bystanders: until *stop */
    int (*hold)(struct seat *s);  /* victim: the key, trial->held - 1 more */
    int (*weigh)(struct seat *s); /* instead: sets slot->bytes, may fill hist */
};

/* What most acts are: a loop, and the two halves of what it repeats. */
#define ACT_PAIRS(loop, take, give)                                            \
    .batch = loop, .acquire = take, .release = give

struct subject {
    const char *name, *what;
    bool floor;   /* ratios are taken against it where it has the work */
    double claim; /* pairs a second that others state: shown, not measured */
    const char *(*missing)(void); /* NULL, or returns NULL: it is there; else
                                     why not, and what to install */
    const char *(*declines)(const struct trial *t);   /* NULL, or returns NULL:
                                       takes part where it has the act; else why
                                       not in this trial (too many held ...) */
    int (*open)(const struct trial *t, void **arena); /* in the parent */
    void (*close)(const struct trial *t, void *arena);
    int (*attach)(struct seat *s); /* in each worker, before prepare */
    void (*detach)(struct seat *s);
    struct act acts[N_WORKS]; /* all NULL: does not offer this work */
};

/* What missing() and declines() say of what `make bench-peers` installs. */
#define SUBJECT_MISSING "not installed (make bench-peers)"

/* The calls that each subject has. */
#define SUBJECT_CALLS(open_, close_, attach_, detach_)                         \
    .open = open_, .close = close_, .attach = attach_, .detach = detach_

extern const struct subject subject_enq, subject_strict, subject_mutex,
    subject_rwlock, subject_futex, subject_bdb, subject_bdb_detect,
    subject_lmdb, subject_flock, subject_ofd, subject_sysv, subject_redis,
    subject_redis_del, subject_postgresql, subject_seed;
extern const struct subject *const subjects[]; /* NULL ends */

/* The parent's side -------------------------------------------------------- */

enum pass {
    PASS_ARRANGE,
    PASS_RATE,
    PASS_BASE,
    PASS_SAMPLE,
    PASS_PROVE,
    PASS_HANDOVER,
    PASS_WAIT,
    PASS_WEIGH,
    PASS_LEAVE
};

struct order {
    unsigned subject; /* index into subjects[] */
    enum pass pass;
    bool base; /* what PASS_ARRANGE is to arrange */
};

struct page;

struct crew {
    const struct trial *trial;
    unsigned workers; /* without the victim */
    struct page *page;
    bool joins[SUBJECTS_MAX], opened[SUBJECTS_MAX];
    void *arenas[SUBJECTS_MAX];
    int pids[PROCS_MAX], victim;
    bool well; /* nobody is lost: they can be told to leave */
};

int crew_start(struct crew *c); /* trial and joins are set, the rest is 0 */
int crew_run(struct crew *c, struct order o, double seconds);
int crew_end(struct crew *c);
struct slot *crew_slot(struct crew *c, unsigned worker);
struct guard *crew_guard(struct crew *c, unsigned subject);
const char *crew_space(void); /* the bench's own, of this process */

extern volatile sig_atomic_t bench_signal; /* 0, or the one that came */

/* Every array has one value for each round. */
struct figures {
    bool offered;
    const char *declined; /* why not, where it could be said */
    unsigned rounds;
    double runs[ROUNDS_MAX];     /* operations a second, all workers */
    double base[ROUNDS_MAX];     /* the same of the base, else 0 */
    double fairness[ROUNDS_MAX]; /* fewest / most of one worker */
    double longest[ROUNDS_MAX], base_longest[ROUNDS_MAX]; /* ns */
    double handover[ROUNDS_MAX];  /* wall time for each change of holder, ns */
    double cpu_share[ROUNDS_MAX]; /* burnt while waiting, of one processor */
    double cpu_each[ROUNDS_MAX];  /* the same for each hand-over, ns */
    double server[ROUNDS_MAX];    /* what a pair costs the server, CPU ns */
    double bytes;
    double idle; /* cpu burnt while nothing happens, of one processor */
    struct hist hist;
};

struct options {
    bool json, list, chosen, chosen_subjects;
    unsigned rounds;
    double seconds;
    uint64_t pairs; /* not 0: exactly so many, and nothing else */
    unsigned procs[LIST_MAX], n_procs;
    uint64_t held[LIST_MAX], count[LIST_MAX];
    unsigned n_held, n_count;
    bool picked[SCENARIOS_MAX];       /* by index into scenarios[] */
    bool subject[SUBJECTS_MAX];       /* by index into subjects[] */
    const char *save, *plot, *readme; /* files to write, or NULL */
};

int options_parse(struct options *o, int argc, char **argv);
int trial_run(const struct trial *t, const struct options *o,
    struct figures *f);
int death_run(struct crew *c, const struct options *o, struct figures *f);
int pairs_run(const struct options *o);
int mixed_run(int argc, char **argv); /* the exit code */

bool subject_offers(const struct subject *s, enum work w);
bool subject_joins(const struct options *o, unsigned index);
const char *subject_missing(unsigned index);

uint64_t now_ns(void);
uint64_t clock_cost_ns(void);
double median(const double *v, unsigned n);
double greatest(const double *v, unsigned n);
void hist_add(struct hist *h, uint64_t ns);
void hist_merge(struct hist *into, const struct hist *from);
uint64_t hist_quantile(const struct hist *h, double q);
uint64_t hist_count(const struct hist *h);

/* What came out ------------------------------------------------------------ */

/* Boiled down; all 0 where a scenario does not give it. */
struct result {
    struct trial trial;
    const struct subject *subject;
    bool measured; /* else: claimed by others */
    double rate, base_rate, fairness;
    double p50, p99, worst;        /* ns */
    double longest, longest_worst; /* ns: median of rounds, and of all */
    double base_longest, handover, cpu_share, cpu_each, server, bytes, idle;
    uint64_t samples;
    unsigned rounds;
    double runs[ROUNDS_MAX];
};

/* Which result: NULL, 0 match what comes first. */
struct which {
    const char *scenario, *subject;
    unsigned procs;
    uint64_t held, count, hold_ns;
};

const struct result *result_add(const struct trial *t, unsigned subject,
    const struct figures *f);
const struct result *result_find(const struct which *w);
const struct result *result_next(const struct result *r); /* NULL: first */
const struct result *result_peer(const struct result *r,
    const struct subject *s); /* in the same trial */
/* How many times better @mine is than @other, of the same trial; 0: no
   telling. */
double result_times(const struct result *mine, const struct result *other);

/* What one operation costs, ns, and against what it is measured: locks held,
   waiters ... */
double result_cost(const struct result *r);
uint64_t result_number(const struct result *r);

/* How the cost grows in a scale: fitted to cost = a * number ^ exponent. 0:
   not at all; 1: in proportion. */
struct growth {
    uint64_t from, to;
    double from_ns, to_ns, exponent;
};

/* False: there are not two numbers. */
bool growth_of(const struct scenario *s, const struct subject *subject,
    struct growth *g);

struct verdict {
    const char *scenario, *text, *unit;
    const char *missing; /* not NULL: not judged, this was not measured */
    double value, limit;
    bool at_least, met, ours; /* ours: our figure at least is there */
};

unsigned goals_count(void);
struct verdict goal_judge(unsigned index);

struct machine {
    char cpu[96], kernel[96], commit[64], command[512], date[16];
    int cpus;
    const char *compiler, *flags;
};
void machine_read(struct machine *m, char **argv);

int report_open(const struct options *o);
int report_close(void); /* -1: not all could be written */
void report_head(const struct options *o, const struct machine *m);
void report_columns(void);
void report_missing(const struct subject *s, const char *why);
void report_declined(const struct trial *t, const struct subject *s,
    const char *why);
void report_result(const struct result *r);
void report_growth(void);
void report_goals(void);

/* The same as JSON, a line each. */
void json_head(FILE *out, const struct options *o, const struct machine *m);
void json_missing(FILE *out, const struct subject *s, const char *why);
void json_declined(FILE *out, const struct trial *t, const struct subject *s,
    const char *why);
void json_result(FILE *out, const struct result *r);
void json_growth(FILE *out, const struct scenario *s, const struct subject *of,
    const struct growth *g);
void json_goal(FILE *out, const struct verdict *v);
int readme_write(const char *path, const struct machine *m);
int plot_write(const char *path, const struct machine *m);

const char *show_rate(char *out, size_t n, double rate);
const char *show_ns(char *out, size_t n, double ns);
const char *show_round_ns(char *out, size_t n, double ns);
const char *show_unit(char *out, size_t n, double value, const char *unit);
const char *show_trial(char *out, size_t n, const struct trial *t);

#endif
