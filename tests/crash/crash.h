/*
 * crash.h - the crash-point harness: a process dies at each store of each
 * operation, and the others go on as if nothing had happened.
 *
 * The cast of one scene, each a process of its own:
 *
 *	the teller	sets the scene, waits, and looks: a worker's main thread
 *	the holder	is the teller's own attachment: locks of owner "h"
 *	waiters		threads of one process; each queues when told to
 *	the barger	asks for the scene's keys again and again
 *	the dead	owner "d": is killed before the deaths begin
 *	the listener	owner "l", where the state has one: see listen.c
 *	victims		up to three, forked for each death; the first dies in
 *			the operation, the next while they clear up after it
 *
 * What they do is written as a script, a word per step: see script.c.
 */
#ifndef CRASH_H
#define CRASH_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "api/attachment.h"
#include "base/point.h"

#define WAITERS 4
#define VICTIMS 3
#define DEAD VICTIMS /* its number */
#define LISTENER (VICTIMS + 1)
#define SPARES 16
#define GRANTS 256
#define LOCKS_OF_SET 10
#define NAME "crash"
#define LONG_MS 20000
#define POINTS_MAX 32768
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* --- words that several processes read and write; none is a crash point --- */

#define load(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define store(p, v) __atomic_store_n((p), (v), __ATOMIC_SEQ_CST)
#define bump(p) __atomic_add_fetch((p), 1, __ATOMIC_SEQ_CST)

void word_wait(const uint32_t *word, uint32_t value, int64_t ns);
void word_wake(const uint32_t *word);
int64_t now_ns(void);

/* --- what the processes of a worker share --- */

/* What a complaint is about. */
enum fault {
    FAULT_OTHER,
    FAULT_STUCK,
    FAULT_LEAK,
    FAULT_DOUBLE,
    FAULT_HALF, /* a part of a lock set is there */
    FAULTS
};

enum victim_phase { VICTIM_STARTS, VICTIM_READY, VICTIM_RUNS, VICTIM_ENDED };

struct victim {
    uint32_t phase, go;
    uint32_t queued;  /* it has passed "lock.queued" */
    uint32_t k;       /* at which pass it dies; 0: at none */
    const char *name; /* or at the first pass of this point; or NULL */
    const char *owner;
    uint32_t committed;     /* a set whose locks outlive it was granted */
    bool all_threads;       /* passes of its helper count as well */
    bool stays;             /* where it is to die, it stops instead */
    uint32_t passes;        /* so many it has seen */
    const struct point *at; /* where it died; NULL: it came to its end */
    uint16_t trace[POINTS_MAX];
    int result; /* of the last step */
    enq_handle handle;
    pid_t pid; /* 0: none, or reaped */
};

enum waiter_phase { WAITER_IDLE, WAITER_ASKS, WAITER_QUEUED, WAITER_ENDED };

struct waiter {
    uint32_t order;        /* one more: ask for `wish` */
    uint32_t phase, leave; /* leave: give it back when you have it */
    char wish[40];
    int result;
    unsigned kept; /* free entries in its magazine */
};

/* A lock or request of the listener, and how often it has heard of it. */
struct sound {
    enq_handle handle;
    uint64_t ticket; /* of a request that was started; else 0 */
    uint32_t gone, asked, results, refused;
    bool part; /* of a set that waits, whose first is `of[0]` */
};

struct ear {
    uint32_t ready, n;
    struct sound of[4];
};

struct box {
    uint32_t event;      /* rung when anything here has changed */
    uint32_t heartbeats; /* of the teller: no heartbeat for long is a hang */
    uint32_t recoverer;  /* a victim recovers: others leave it to it, a while */
    struct victim victims[LISTENER + 1]; /* DEAD: the one dead by then */
    struct ear ear;
    struct waiter waiters[WAITERS];
    uint32_t called; /* spares: the next one is the first victim */
    const char *prepare, *run;

    /* the barger */
    uint32_t go, done, park, parked, wide, promotes;
    unsigned kept;

    uint64_t newest[4]; /* tokens seen: of "a", "b", "c", "@" */
    enq_handle held;    /* the holder's first lock */
    char space[64];     /* address */
    char other[80];     /* of a space that is not there */
    uint32_t slots, strict;
    char keys[GRANTS][8]; /* that fall into the bucket, or shard, of "a" */
    unsigned n_keys;
    char story[256]; /* what is going on */
    char complaint[256];
    enum fault fault; /* its kind */

    /* what the living have of "a", "b", "c": see ask.c */
    uint32_t have[3], watched;
};

void box_ring(struct box *box);
/* By anybody: the first word about it is kept. */
void complain_of(struct box *box, enum fault fault, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define complain(box, ...) complain_of((box), FAULT_OTHER, __VA_ARGS__)
/* A grant of this key was given: it must be above all those seen before. */
uint64_t newest_token(struct box *box, char key);
void note_token(struct box *box, char key, uint64_t token);

/* --- scripts --- */

struct actor {
    struct box *box;
    struct enq *e;
    const char *owner;
    bool patient; /* waits for the barger, whatever the script says */
    struct enq_grant g[GRANTS];
    char key[GRANTS];
    uint32_t had[GRANTS]; /* 1 in its place of box->have, or 0 */
    unsigned n;
    uint64_t ticket; /* of the last request that was started */
    struct enq_grant asked[LOCKS_OF_SET];
};

/* The result of the last step. */
int script_run(struct actor *a, const char *script);
int script_open(struct actor *a, const char *address);
/* One wish such as "Xa", or "Xa,Sb", waiting so long. */
int script_lock(struct actor *a, const char *wish, int64_t wait_ms);
int script_start(struct actor *a, const char *wish);
int64_t script_wait_ms(const struct actor *a, const char *wish);
unsigned wish_locks(const char *wish);
int script_unlock_all(struct actor *a);
int script_promote(struct actor *a, unsigned i);
/* Before a lock is given back that the actor has picked up. */
void put_down(struct actor *a, unsigned i);

/* --- processes --- */

pid_t crew_fork(void);
void polite(struct box *box);
void ring_barger(struct box *box);
void barger_main(struct box *box) __attribute__((noreturn));
void waiters_main(struct box *box) __attribute__((noreturn));

/* Forks it, and waits until its preparation is done. */
bool victim_start(struct box *box, unsigned i, const char *prepare,
    const char *run, bool first);
/* Lets it run: until it dies, or its end. */
void victim_go(struct box *box, unsigned i);
bool victim_stops(struct box *box, unsigned i);
bool victim_join(struct box *box, unsigned i); /* and kills it, if need be */
void victim_kill(struct box *box, unsigned i);
void victims_clear(struct box *box);
/* Processes that have not seen the library yet, to be victims once. */
void spares_begin(struct box *box);
void spares_end(void);

/* --- scenes --- */

/* What sort of space the scene plays in. */
enum stage {
    STAGE_USUAL,
    STAGE_STRICT,
    STAGE_TIGHT,   /* a page for each of the cast, and none more */
    STAGE_FRESH,   /* nothing was ever locked in it; for one death */
    STAGE_BUCKETS, /* one shard is about to need more buckets; for one death */
    STAGE_TIGHT_ONCE, /* as STAGE_TIGHT; for one death, as it takes all room */
};

struct state {
    char letter;
    const char *name;
    const char *holds;   /* script of the holder */
    const char *waits;   /* wishes, in order */
    const char *dead;    /* script of a session that is dead by then */
    const char *listens; /* script of one that listens, and lives */
};

struct op {
    const char *name;
    const char *prepare, *run;
    const char *behind; /* wishes that queue behind what was prepared */
    const char *states; /* letters */
    const char *may;    /* locks of the dead that may be there: "OaEa" */
    unsigned least;     /* and so many must */
    unsigned flags;
    enum stage stage;
};

enum op_flags {
    OP_HURTS = 1,   /* the holder's locks may go, waiters be cancelled */
    OP_EXPIRES = 2, /* the holder's locks have run out when it starts */
    OP_OWN_EXPIRES = 4,
    OP_CANCELLED = 8, /* while it waits somebody cancels it */
    OP_GRANTED = 16,  /* while it waits the holder gives back */
    OP_ADOPTS = 32,
    OP_CREATES = 64,    /* a space that is not there */
    OP_UNLINKS = 128,   /* its own */
    OP_THREADS = 256,   /* stores of all its threads count */
    OP_RECOVERS = 512,  /* others leave it the dead for a while */
    OP_FIRST = 1024,    /* in a process that has never seen the library */
    OP_SWEEPS = 2048,   /* what the dead leave has run out, and is due */
    OP_FORSAKEN = 4096, /* a thread of the dead is not marked */
    OP_DIES = 8192,     /* the dead of the state dies when the victim waits */
    OP_INSIDE = 16384,  /* it has stopped inside a latch by then */
    OP_ACCUSED = 32768, /* the space says that its name is gone: it is not */
    OP_TAKES = 65536,   /* the holder promotes its first, at once */
    OP_ASKS = 131072,   /* somebody asks for "a", at once */
    OP_BROKEN = 262144, /* what it has or waits for is broken */
    OP_DELAYS = 524288, /* a lock delay goes by before the last look */
    OP_LATE = 1048576,  /* the dead dies when the victim's helper sleeps */
    OP_WHOLE = 2097152, /* of what it may leave there is all, or nothing */
};

#define OP_ACTS                                                                \
    (OP_GRANTED | OP_CANCELLED | OP_DIES | OP_TAKES | OP_ASKS | OP_BROKEN)

struct plan {
    const struct op *op;
    const struct state *state;
    const char *rescue;  /* script of the second and third victim */
    uint32_t k[VICTIMS]; /* 0: comes to its end */
    const char *name;    /* the first dies here instead */
    unsigned victims;
};

struct scene {
    struct box *box;
    struct actor teller;
    pid_t barger, waiters;
    enum stage stage;
    bool open;
    unsigned base_sessions, base_threads;
};

bool scene_begin(struct scene *s, enum stage stage);
void scene_end(struct scene *s);
void scene_park(struct scene *s, bool park);
/* Fills box->keys, if the plan names some of them. */
void find_neighbours(struct scene *s, const struct plan *plan);
void neighbours_are_looked_at(struct scene *s);

const struct op *op_at(unsigned i);
const struct op *op_named(const char *name);
const struct state *state_of(char letter);
const struct state *state_named(const char *name);

/* Plays one plan to its end. False: something is wrong, see box->complaint. */
bool play(struct scene *s, const struct plan *plan);

/* --- the listener --- */

bool listener_start(struct scene *s, const struct plan *plan);
bool listener_heard(struct scene *s);
void listener_end(struct scene *s);
/* For ever; the next event, for a while. */
int hear(struct actor *a) __attribute__((noreturn));
int hear_next(struct actor *a);

/* --- looking --- */

#define INFOS 512

struct look {
    struct enq_info info[INFOS];
    size_t n;
};

/* Without a latch, or all of one moment. */
bool look_around(struct scene *s, struct look *l, bool frozen);
/* Patience in ms in which the machine let us run. */
bool wait_for_waiters(struct scene *s, bool all);
bool verify_table(struct scene *s, const struct plan *plan);
bool verify_rest(struct scene *s);
/* May this waiter go, as the rules say? */
bool may_go(const struct look *l, const struct enq_info *w);
/* Does anybody wait for this lock, and has to? */
bool is_asked_for(const struct look *l, const struct enq_info *held);

/* Of one who waits for others, in slices: how long it has waited, and how long
   of that it was quiet, and nothing came. */
struct patience {
    int64_t last_ns, ns, waited_ns, quiet_ns;
    bool judges;
};
struct patience patience_begin(void);
void patience_pause(struct patience *p, struct box *box, uint32_t event);
bool patience_is_over(struct patience *p, int64_t most_ms);

/* --- all workers --- */

struct tally {
    uint32_t next; /* series */
    uint64_t kills, pairs, passed, failed, faults[FAULTS];
    uint64_t whole; /* series of pairs: at every store, with every store */
    uint32_t at[POINTS_MAX]; /* kills at each point, see point_number() */
};
extern struct tally *tally;

#define TURNS 5 /* one pair of those that die in so many has its turn */

struct options {
    unsigned jobs, turns;
    uint64_t count, seconds, share, seed;
    const char *op, *state, *rescue, *name;
    uint32_t k, j, i;
    bool alone, points, verbose;
};
extern struct options options;

bool is_replay(void);
bool is_whole(void); /* all series, not some that are named */
/* Everything; or only one death at each point where nobody has died yet. */
void series_work(struct box *box, unsigned round, bool points_only);
/* Of the first point with the same name. */
unsigned point_number(const struct point *p);
void points_begin(void);
bool point_is_new(unsigned number);
unsigned points_missing(void);
void points_print_missing(void);
/* There was no time to reach all: those that are reached rarely may be missing. */
extern bool points_cut_short;
/* False: one was not reached, and no reason is given; or one was, after all. */
bool points_report(void);

#endif
