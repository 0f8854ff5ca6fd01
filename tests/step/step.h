/*
 * step.h - kills of the released library, wherever a byte of the segment has
 * just changed.
 *
 *	main    starts the worlds, watches over them, sums up
 *	world   one space with its survivors: a controller (this process), a
 *	        waiter, a barger; for each kill it makes a victim
 *	victim  does one operation, and dies in it (trap.c)
 *
 * A *case* is an operation in a state (ops.c). Its first victim does the whole
 * operation, while each store to the segment that changed something is noted;
 * then one victim dies after each of these, and after each system call. After
 * every death the survivors must go on (world.c).
 *
 * The processes of a world talk through its `struct ctl`, in memory of their
 * own: nothing but the library touches the segment.
 */
#ifndef STEP_H
#define STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "enq.h"

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define STORE(x, value) __atomic_store_n(&(x), (value), __ATOMIC_SEQ_CST)
#define ADD(x, n) __atomic_fetch_add(&(x), (n), __ATOMIC_SEQ_CST)

/* --- bells: a process that waits for something in ctl sleeps on one --- */

struct bell {
    uint32_t rings;
};

void bell_ring(struct bell *b);
/* Sleeps until it is rung, was rung since, or a little while has passed. */
void bell_sleep(struct bell *b, uint32_t rings);
/* Sleeps until `*word` is `value`; false: it was not within `ms`. */
bool bell_await(struct bell *b, const uint32_t *word, uint32_t value,
    unsigned ms);
int64_t now_us(void);
void nap_us(unsigned us);
/* A child of this process, within this time. */
bool process_ended(pid_t pid, unsigned ms);

/* --- traps --- */

#define LOG_MAX 12000u

/* A change: the instruction after it, and where in the segment. */
struct spot {
    uint64_t rip;
    uint32_t at;
};

enum aim_kind {
    AIM_TRACE,   /* note all changes, die after the operation */
    AIM_CHANGE,  /* die after the nth change of this page */
    AIM_ANY,     /* die after the nth change of any page */
    AIM_SYSCALL, /* die when the nth system call returns */
};

struct aim {
    uint32_t kind; /* enum aim_kind */
    uint32_t n;    /* of all changes, or of all system calls; from 1 */
    uint32_t page, nth_in_page; /* AIM_ANY: nth_in_page of all pages */
};

struct trap_report {
    uint32_t changes, syscalls;
    struct spot died;
    struct spot log[LOG_MAX];
};

/* --- what a world shares --- */

#define LONG_OWNER 100 /* bytes: its entry is a large one */

/* A request, as it can be handed from one process to another. */
struct want {
    char name[8], key[2][24];
    char owner[112], id[48];
    uint32_t mode, on_death;
    int64_t wait_ms, ttl_ms;
};

/* Of the key that the case is about, or of one that overlaps it. */
bool want_is_of_key(const struct want *want);
int want_lock(struct enq *e, const struct want *want, struct enq_grant *g);

enum barge { BARGE_NOT, BARGE_BEFORE, BARGE_AFTER, BARGES };

enum task { TASK_NONE, TASK_WAIT, TASK_BARGE, TASK_END };

/* The waiter and the barger: each an order at a time. */
struct actor {
    pid_t pid;
    struct bell bell;
    uint32_t asked, answered, sleeps;
    uint32_t task; /* enum task */
    struct want want;
    int rc; /* of the first call that was not as it should be */
    char said[160];
    uint64_t token;
    int64_t answered_us;
};

struct victim {
    pid_t pid;
    struct bell bell;
    uint32_t step; /* how far it may go */
    uint32_t open, ready, dying, sleeps, crashed;
    uint32_t barge; /* enum barge */
    int rc;         /* of the operation, when it was done before death */
    uint64_t token;
    struct aim aim;
    struct trap_report trap;
};

/* What is being tested, to name it when it fails. */
struct point {
    uint32_t op, state, kind, n;
    struct spot spot;
};

struct ctl {
    struct bell bell;    /* the controller's */
    uint32_t heartbeats; /* it gets on */
    uint32_t inside;     /* survivors that hold an exclusive lock of the key */
    struct point now;
    struct actor waiter, barger;
    struct victim victim;
    struct victim earlier;    /* died before it, and is what it meets */
    struct trap_report whole; /* the case's operation, uncut */
};

extern struct ctl *ctl; /* of this process's world */

/* In the victim, from before its attachment is made. */
void trap_begin(struct victim *v);
void trap_arm(void);    /* the next stores count */
void trap_disarm(void); /* they do not any more */
void trap_die(void) __attribute__((noreturn));
/* Whose sleeps in the kernel are counted, and whom to tell. */
void trap_count_sleeps(uint32_t *sleeps, struct bell *bell);

/* --- survivors --- */

void actor_main(struct actor *a, const char *space) __attribute__((noreturn));
void actor_ask(struct actor *a, enum task task, const struct want *want);

/* --- operations and states --- */

struct state {
    struct want victim; /* what the victim locks */
    struct want waiter; /* what the waiter waits for */
    enum barge barge;
    bool cold;    /* the victim's first lock: no slab yet */
    bool gate_up; /* somebody holds a generic lock of the name */
    bool company; /* somebody holds what goes with the victim's lock */
    bool due;     /* the waiter has waited for so long that it is its turn */
    uint64_t bits;
};

struct world;

struct op {
    const char *name;
    unsigned states; /* in a run of the usual length */
    unsigned most;   /* kills of one state; of more, evenly chosen ones */
    uint32_t mode;   /* of the victim's lock; 0: any */
    bool generic;
    bool opens;   /* the operation is the opening itself */
    bool cancels; /* the waiter may be cancelled */
    unsigned set; /* so many locks outlive the victim, or none */
    int64_t wait_ms;
    /* The controller, the victim, the controller, the victim; all but the
       last may be NULL. */
    void (*before)(struct world *w);
    int (*hold)(const struct state *s);
    void (*after)(struct world *w);
    int (*act)(const struct state *s);
    void (*asleep)(struct world *w); /* when the victim sleeps */
};

extern const struct op ops[];
extern const unsigned n_ops;

void state_make(struct state *s, const struct op *op, unsigned number);

/* --- the victim --- */

extern struct enq *victim_e;
extern struct enq_grant victim_grant;

void victim_main(struct world *w, struct victim *v) __attribute__((noreturn));
int victim_open(void);
int victim_hold_two(const struct state *s);

/* --- worlds --- */

#define MINE_MAX 8

struct world {
    char space[64];
    struct enq *e;
    unsigned number, n_mine, case_number;
    struct enq_grant mine[MINE_MAX]; /* the controller's locks */
    struct state state;
    const struct op *op;
    uint64_t top_token; /* the newest that anybody was given for the key */
    uint64_t sessions, threads; /* of the survivors */
    unsigned checks;
    bool broken; /* its segment is given up */
};

/* The controller's part in setting up a state. */
void world_hold(struct world *w, const struct want *want);
void world_release(struct world *w);
void world_wait(struct world *w, const struct want *want);
/* A process that opens, does what `op` says it holds, and dies of `aim`. */
void world_bereave(struct world *w, struct aim aim);

void world_run(unsigned number, pid_t parent) __attribute__((noreturn));
void world_space(unsigned number, pid_t parent, char space[64]);

/* Are the survivors well, and is nothing left of the dead? `more`: sessions
   beside the survivors'. */
void check_begin(struct world *w);
void check_all(struct world *w, unsigned more);
void check_room(struct world *w);

/* --- what was counted, in memory that all share --- */

#define OPS_MAX 32u
#define PLACES 4096u

struct op_tally {
    uint64_t kills, points, places, cases, failed, took_us;
};

struct tally {
    uint32_t next, failures, stop;
    uint32_t percent; /* of the usual states of each operation */
    uint64_t seed;
    int64_t until_us; /* cases beyond the usual ones are begun until then */
    uint64_t count;   /* or until so many kills */
    struct op_tally op[OPS_MAX];
    uint64_t stuck, leaked, findings, wrong, drifted, missed;
    uint64_t grants, late, latest_us;
    uint64_t place[PLACES]; /* instructions, one set for all operations */
    struct point only;      /* replay: op < n_ops, and kind and n */
    bool replay, one_op;
};

extern struct tally *tally;

enum fault { FAULT_STUCK, FAULT_LEAK, FAULT_FINDING, FAULT_WRONG };

/* Counts it, and prints it with the point where it happened. */
void fault(enum fault kind, const struct point *p, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void point_text(const struct point *p, char *text, size_t n);
void place_note(unsigned op, uint64_t rip);
uint64_t dice(uint64_t seed, uint64_t a, uint64_t b);

#endif
